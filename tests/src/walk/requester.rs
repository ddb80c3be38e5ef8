//! A device in this process that asks a real node: paired with it by code, linked as any other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nook_api::NodeCalls as _;
use nook_api::views::Trust;
use nook_base::tasks::Tasks;
use nook_base::{PeerId, clock};
use nook_link::pairing::Pairing;
use nook_link::{Identity, KnownPeer, LinkConfig, LinkEvent, Links, LoopbackPolicy};
use nook_mux::{Call, PingPolicy};
use nook_testkit::Node;
use nook_trust::pairing::{Introduction, PairingCode};
use nook_trust::{DeviceKey, DeviceName};
use nook_wire::{Hello, Message};
use tokio::sync::mpsc;

/// What the requester calls itself.
const NAME: &str = "Bench";

/// Calls that the other side may open here; it opens none.
const CALLS_MAX: usize = 8;

/// Longest wait for the link.
const LINK_LIMIT: Duration = Duration::from_secs(20);

/// How often the link is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// A device without a computer of its own.
#[derive(Debug)]
pub(crate) struct Requester {
    links: Links,
    host: PeerId,
}

impl Requester {
    /// A new device, paired with `node` and trusted there.
    pub(crate) async fn paired_with(node: &Node, tasks: &Tasks) -> anyhow::Result<Self> {
        let identity = Identity::new(DeviceKey::generate()?)?;
        let (links, events) = Links::start(link_config(identity.clone(), Vec::new()), tasks)?;
        tasks.spawn_until_cancelled("bench links", ignore(events));
        let window = node.client().show_code().await?;
        let address = window.addresses.last().context("a code comes with an address")?.parse()?;
        let version = nook_wire::WIRE_VERSION;
        let introduction = Introduction {
            name: DeviceName::sanitised(NAME),
            app_version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: (version, version),
            port: 0,
        };
        let code = PairingCode::parse(&window.code)?;
        // Nothing is kept: this device lives as long as the bench.
        let kept: nook_link::pairing::StorePeer = Arc::new(|_| Box::pin(async { Ok(()) }));
        let pairing = Pairing::new(identity);
        let host = pairing.join(&[address], &code, introduction, &kept).await?;
        node.trust(NAME, Trust::Trusted).await?;
        let requester = Self { links, host: host.id };
        let known = KnownPeer { id: host.id, addresses: host.addresses };
        requester.links.set_peers(vec![known]);
        Ok(requester)
    }

    /// A device that knows `host` beforehand, without pairing.
    pub(crate) fn knowing(
        identity: Identity,
        host: KnownPeer,
        tasks: &Tasks,
    ) -> anyhow::Result<Self> {
        let (links, events) = Links::start(link_config(identity, Vec::new()), tasks)?;
        tasks.spawn_until_cancelled("bench links", ignore(events));
        let requester = Self { links, host: host.id };
        requester.links.set_peers(vec![host]);
        Ok(requester)
    }

    /// A call to the host, once there is a link.
    pub(crate) async fn call(&self) -> anyhow::Result<Call<Message>> {
        let end = clock::now() + LINK_LIMIT;
        loop {
            if let Some(link) = self.links.link(self.host) {
                return Ok(link.mux().open_call().await?);
            }
            anyhow::ensure!(clock::now() < end, "no link within {LINK_LIMIT:?}");
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Links as a node has them.
pub(crate) fn link_config(identity: Identity, listen: Vec<std::net::SocketAddr>) -> LinkConfig {
    LinkConfig {
        identity,
        listen,
        hello: Hello {
            protocol: nook_wire::ProtocolRange::SPOKEN,
            app_version: env!("CARGO_PKG_VERSION").to_owned(),
            device_name: NAME.to_owned(),
            listen_port: 0,
        },
        loopback: LoopbackPolicy::Allow,
        ping: PingPolicy::LINK,
        calls_max: CALLS_MAX,
    }
}

/// Adverts and the like are read, so that the link does not wait for it.
async fn ignore(mut events: mpsc::Receiver<LinkEvent>) {
    while events.recv().await.is_some() {}
}
