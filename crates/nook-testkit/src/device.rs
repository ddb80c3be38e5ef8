//! A device under the test's control: real identity, real pairing, real links, no node.
//!
//! It can do what no node does: ask for anything at all, and answer as the test wants. What comes
//! to it waits in [`Device::next_event`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nook_api::NodeCalls as _;
use nook_api::views::{PairingView, Trust};
use nook_base::tasks::Tasks;
use nook_base::{ErrorCode, PeerId, clock};
use nook_link::{Identity, KnownPeer, Link, LinkConfig, LinkEvent, Links, LoopbackPolicy, Pairing};
use nook_mux::{Call, PingPolicy};
use nook_trust::pairing::{Introduction, PairingCode};
use nook_trust::{DeviceKey, DeviceName, TicketClaim};
use nook_wire::{Hello, Message, Open, ProtocolRange, Ticket, WIRE_VERSION};
use tokio::sync::mpsc;

use crate::bridge::own_address;
use crate::node::Node;

/// Longest wait for a link or an answer.
const LIMIT: Duration = Duration::from_secs(60);

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Calls that one node may have open here at once.
const CALLS_MAX: usize = 64;

/// A device that a test plays. Dropping it ends its links.
#[derive(Debug)]
pub struct Device {
    name: &'static str,
    key: DeviceKey,
    identity: Identity,
    pairing: Pairing,
    links: Links,
    events: mpsc::Receiver<LinkEvent>,
    /// Where every link is dialled instead of where the node is.
    through: Option<SocketAddr>,
    tasks: Tasks,
}

/// What became of a call that asked for layers.
#[derive(Debug)]
pub enum Asked {
    /// The session is open on this call.
    Open(Call<Message>),
    /// It was refused.
    Refused(ErrorCode),
}

impl Device {
    /// A new identity with a port of its own, on this machine or at the bridge that the test
    /// visits.
    pub fn start(name: &'static str) -> anyhow::Result<Self> {
        Self::speaking(name, ProtocolRange::SPOKEN)
    }

    /// The same, as a program that speaks these versions of the protocol.
    pub fn speaking(name: &'static str, protocol: ProtocolRange) -> anyhow::Result<Self> {
        Self::with(name, vec![SocketAddr::new(own_address().into(), 0)], (None, protocol))
    }

    /// The same without a port: it reaches its node through `address` alone, and nobody reaches it.
    pub fn behind(name: &'static str, address: SocketAddr) -> anyhow::Result<Self> {
        Self::with(name, Vec::new(), (Some(address), ProtocolRange::SPOKEN))
    }

    fn with(
        name: &'static str,
        listen: Vec<SocketAddr>,
        (through, protocol): (Option<SocketAddr>, ProtocolRange),
    ) -> anyhow::Result<Self> {
        let key = DeviceKey::generate()?;
        let identity = Identity::new(key.clone())?;
        let tasks = Tasks::new();
        let config = LinkConfig {
            identity: identity.clone(),
            listen,
            hello: Hello {
                protocol,
                app_version: "0.0.0".to_owned(),
                device_name: name.to_owned(),
                listen_port: 0,
            },
            loopback: LoopbackPolicy::Allow,
            ping: PingPolicy::LINK,
            calls_max: CALLS_MAX,
        };
        let (links, events) = Links::start(config, &tasks)?;
        let pairing = Pairing::new(identity.clone());
        Ok(Self { name, key, identity, pairing, links, events, through, tasks })
    }

    /// What it calls itself.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its tasks: what a test starts beside it ends with it.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Types the code that `node` shows, is trusted by it so far, and waits for the link.
    pub async fn pair_with(&mut self, node: &Node, trust: Trust) -> anyhow::Result<PeerId> {
        let window = node.client().show_code().await?;
        let peer = self.join(&window).await?;
        node.trust(self.name, trust).await?;
        self.until_linked(peer).await?;
        Ok(peer)
    }

    /// Types the code that somebody shows; the link comes once the other side trusts this device so
    /// far.
    pub async fn join(&mut self, window: &PairingView) -> anyhow::Result<PeerId> {
        let address: SocketAddr =
            window.addresses.last().context("a code comes with an address")?.parse()?;
        let introduction = Introduction {
            name: DeviceName::sanitised(self.name),
            app_version: "0.0.0".to_owned(),
            protocol: (WIRE_VERSION, WIRE_VERSION),
            port: self.links.local_addr().map_or(0, |at| at.port()),
        };
        let code = PairingCode::parse(&window.code)?;
        let keep: nook_link::pairing::StorePeer = Arc::new(|_| Box::pin(async { Ok(()) }));
        let peer = self.pairing.join(&[address], &code, introduction, &keep).await?;
        let addresses = self.through.map_or(peer.addresses, |address| vec![address]);
        self.links.set_peers(vec![KnownPeer { id: peer.id, addresses }]);
        Ok(peer.id)
    }

    /// Dials a node that has never heard of it, as if they were paired.
    pub async fn pretend_paired_with(&self, node: &Node) -> anyhow::Result<PeerId> {
        let id: PeerId = node.view().await?.me.id.parse()?;
        let at = node.listens_at().await?;
        self.links.set_peers(vec![KnownPeer { id, addresses: vec![at] }]);
        Ok(id)
    }

    /// This device's id.
    #[must_use]
    pub fn id(&self) -> PeerId {
        self.identity.id()
    }

    /// The link to `peer`, if there is one.
    #[must_use]
    pub fn link(&self, peer: PeerId) -> Option<Link> {
        self.links.link(peer)
    }

    /// Waits for a link to `peer`.
    pub async fn until_linked(&self, peer: PeerId) -> anyhow::Result<Link> {
        let end = clock::now() + LIMIT;
        loop {
            if let Some(link) = self.links.link(peer) {
                return Ok(link);
            }
            anyhow::ensure!(clock::now() < end, "{} was not linked within {LIMIT:?}", self.name);
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The next thing that happens on its links.
    pub async fn next_event(&mut self) -> anyhow::Result<LinkEvent> {
        let event = tokio::time::timeout(LIMIT, self.events.recv()).await;
        event.context("nothing happened on the links")?.context("the links have ended")
    }

    /// As [`Device::next_event`], however long it takes; `None` when the links have ended.
    pub async fn any_event(&mut self) -> Option<LinkEvent> {
        self.events.recv().await
    }

    /// Signs that another may bring the steps of a call of this device.
    #[must_use]
    pub fn issue(&self, claim: TicketClaim) -> Ticket {
        self.key.issue(claim)
    }

    /// Shows `peer` a ticket, to bring it the steps of another's call.
    pub async fn relay(&self, peer: PeerId, ticket: Ticket) -> anyhow::Result<Asked> {
        let link = self.until_linked(peer).await?;
        let mut call = link.mux().open_call().await?;
        call.send(Message::Relay(Box::new(ticket))).await?;
        let answer = tokio::time::timeout(LIMIT, call.recv()).await.context("no answer came")?;
        match answer {
            Ok(Message::Onward { code: None }) => Ok(Asked::Open(call)),
            Ok(Message::Error(error)) => Ok(Asked::Refused(error.code)),
            other => bail!("a RELAY was answered by {other:?}"),
        }
    }

    /// Asks `peer` to compute layers.
    pub async fn ask_for(&self, peer: PeerId, open: Open) -> anyhow::Result<Asked> {
        let link = self.until_linked(peer).await?;
        let mut call = link.mux().open_call().await?;
        call.send(Message::Open(open)).await?;
        let answer = tokio::time::timeout(LIMIT, call.recv()).await.context("no answer came")?;
        match answer {
            Ok(Message::Opened { .. }) => Ok(Asked::Open(call)),
            Ok(Message::Error(error)) => Ok(Asked::Refused(error.code)),
            other => bail!("an OPEN was answered by {other:?}"),
        }
    }
}

impl Asked {
    /// The code of a refusal.
    #[must_use]
    pub fn refused(&self) -> Option<ErrorCode> {
        match self {
            Self::Open(_) => None,
            Self::Refused(code) => Some(*code),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}
