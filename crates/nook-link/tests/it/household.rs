//! Devices for tests: each with its own key, links and events, on one machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use nook_base::PeerId;
use nook_base::tasks::Tasks;
use nook_link::{Identity, KnownPeer, Link, LinkConfig, LinkEvent, Links, LoopbackPolicy};
use nook_mux::{CloseReason, PingPolicy};
use nook_trust::DeviceKey;
use nook_wire::{Hello, ProtocolRange};
use tokio::sync::mpsc;
use zeroize::Zeroizing;

/// What ends a test that hangs; nothing is timed by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Device {
    pub(crate) id: PeerId,
    pub(crate) links: Links,
    pub(crate) events: mpsc::Receiver<LinkEvent>,
    pub(crate) tasks: Tasks,
}

pub(crate) struct Setup {
    pub(crate) seed: u8,
    pub(crate) listen: SocketAddr,
    pub(crate) loopback: LoopbackPolicy,
    pub(crate) protocol: ProtocolRange,
}

pub(crate) fn key(seed: u8) -> DeviceKey {
    DeviceKey::from_seed(&Zeroizing::new([seed; 32]))
}

pub(crate) fn identity(seed: u8) -> Identity {
    Identity::new(key(seed)).unwrap()
}

pub(crate) fn id(seed: u8) -> PeerId {
    key(seed).peer_id()
}

/// A number whose id is smaller (or larger) than that of the other.
pub(crate) fn in_order(one: u8, other: u8) -> (u8, u8) {
    if id(one) < id(other) { (one, other) } else { (other, one) }
}

pub(crate) fn localhost() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)
}

pub(crate) fn setup(seed: u8) -> Setup {
    Setup {
        seed,
        listen: localhost(),
        loopback: LoopbackPolicy::Allow,
        protocol: ProtocolRange::SPOKEN,
    }
}

impl Setup {
    pub(crate) fn start(self) -> Device {
        let tasks = Tasks::new();
        let config = LinkConfig {
            identity: identity(self.seed),
            listen: vec![self.listen],
            hello: Hello {
                protocol: self.protocol,
                app_version: "0.1.0".to_owned(),
                device_name: format!("device {}", self.seed),
                listen_port: 0,
            },
            loopback: self.loopback,
            ping: PingPolicy::LINK,
            calls_max: 8,
        };
        let (links, events) = Links::start(config, &tasks).unwrap();
        Device { id: id(self.seed), links, events, tasks }
    }
}

pub(crate) fn device(seed: u8) -> Device {
    setup(seed).start()
}

pub(crate) fn known(id: PeerId, addresses: &[SocketAddr]) -> KnownPeer {
    KnownPeer { id, addresses: addresses.to_vec() }
}

impl Device {
    pub(crate) fn address(&self) -> SocketAddr {
        self.links.local_addr().unwrap()
    }

    /// Pairs with `peer`, knowing its address.
    pub(crate) fn pair(&self, peer: &Self) {
        self.links.set_peers(vec![known(peer.id, &[peer.address()])]);
    }

    /// Pairs with `peer` without knowing where it is.
    pub(crate) fn pair_blindly(&self, peer: PeerId) {
        self.links.set_peers(vec![known(peer, &[])]);
    }

    pub(crate) async fn next(&mut self) -> LinkEvent {
        tokio::time::timeout(PATIENCE, self.events.recv())
            .await
            .expect("an event was due")
            .expect("the links have ended")
    }

    pub(crate) async fn up(&mut self) -> Link {
        match self.next().await {
            LinkEvent::Up(link) => link,
            other => panic!("expected a link, got {other:?}"),
        }
    }

    pub(crate) async fn down(&mut self) -> CloseReason {
        match self.next().await {
            LinkEvent::Down { reason, .. } => reason,
            other => panic!("expected the end of a link, got {other:?}"),
        }
    }

    /// Ends every task of the device, as if its process were killed.
    pub(crate) async fn stop(self) {
        drop(self.events);
        assert!(self.tasks.shut_down(PATIENCE).await, "tasks left behind");
    }
}

/// Two devices that know each other; only the first knows an address.
pub(crate) async fn linked(one: u8, other: u8) -> (Device, Device, Link, Link) {
    let (mut a, mut b) = (device(one), device(other));
    b.pair_blindly(a.id);
    a.pair(&b);
    let (link_a, link_b) = (a.up().await, b.up().await);
    (a, b, link_a, link_b)
}
