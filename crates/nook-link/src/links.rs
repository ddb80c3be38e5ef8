//! The live connections to paired devices: at most one per device, kept up without being asked.
//!
//! ```text
//! Links (handle) ──► actor: one [`standing::Standing`] per paired device
//!                      │ starts                        ▲ Input (dialled, arrived, ended, moved)
//!                      ├─► dial task ── TCP race, TLS, pin, upgrade, HELLO ──┤
//!                      ├─► trial task ─ TCP, TLS, pin, upgrade, TRIAL, MOVE ─┤
//! accept task ─────────┼─► door task ── TLS, pin, upgrade, HELLO or TRIAL ───┘
//!                      └─► pump task per link ──► LinkEvent (Up, calls, control, Down)
//! ```
//!
//! [`Links::set_peers`] says who is paired; from then on the links to them are the actor's
//! business: it dials, answers, throws out duplicates and redials. A link is handed out only after
//! a HELLO has been answered on it, so nobody ever sends into a connection that the other end does
//! not hold. All of one device's events come in order: `Up`, its calls and messages, `Down`.
//!
//! While a link stands, other addresses of its device are tried ([`ways`]); it goes on over a better
//! way without an end, under its open calls.

mod accept;
mod actor;
pub(crate) mod address;
mod dial;
mod exchange;
mod greet;
mod input;
mod pump;
mod session;
mod standing;
mod trial;
mod turned_away;
mod ways;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nook_base::PeerId;
use nook_base::tasks::Tasks;
use nook_mux::{Call, CloseReason, Mux, PingPolicy};
use nook_wire::{Hello, Message, VersionMismatch, WayFigures};
use tokio::sync::{mpsc, watch};

pub use self::turned_away::{TurnedAway, WhyTurnedAway};
use crate::admission::Admission;
use crate::{AuthenticatedPeer, Identity, socket, tls};

/// Most paired devices; further ones are left out, with a warning.
pub const PEERS_MAX: usize = 256;

/// Events that wait for the node. When they are this many, the links wait for it.
const EVENTS_MAX: usize = 256;

/// Things that happened and wait for the actor. Tasks wait for room; hints from outside are
/// dropped, since they come again.
const INPUTS_MAX: usize = 256;

/// How often the addresses of this machine are looked at.
const INTERFACES_EVERY: Duration = Duration::from_secs(3);

/// What links need to know at the start. No default: the node says each.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// This device.
    pub identity: Identity,
    /// Where to listen; those with port 0 share one random port. Empty: only dial.
    pub listen: Vec<SocketAddr>,
    /// What this device says first; the port in it is filled in.
    pub hello: Hello,
    /// Whether loopback addresses that others advertise are dialled.
    pub loopback: LoopbackPolicy,
    /// How liveness is watched.
    pub ping: PingPolicy,
    /// Calls that one device may have open here at once.
    pub calls_max: usize,
}

/// What an advertised loopback address means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopbackPolicy {
    /// Another machine's own business, or a trap: ignored.
    Refuse,
    /// A household on one machine, which says so explicitly.
    Allow,
}

/// A paired device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPeer {
    /// Its id.
    pub id: PeerId,
    /// Addresses that were typed, or remembered from earlier links. Always dialled.
    pub addresses: Vec<SocketAddr>,
}

/// The handle of all links. Clones are handles of the same ones; the links end with their tasks.
#[derive(Debug, Clone)]
pub struct Links {
    shared: Arc<Shared>,
}

/// A live link to one device.
#[derive(Debug, Clone)]
pub struct Link {
    number: u64,
    peer: AuthenticatedPeer,
    mux: Mux<Message>,
    hello: Arc<Hello>,
    protocol: u16,
    local: SocketAddr,
    remote: SocketAddr,
    listens_at: Option<SocketAddr>,
}

/// What happens on links.
#[derive(Debug)]
pub enum LinkEvent {
    /// A link stands; HELLO was answered on it.
    Up(Link),
    /// A device begins a call.
    IncomingCall {
        /// Which device.
        peer: PeerId,
        /// The call; its first message waits in it.
        call: Call<Message>,
    },
    /// A message of the connection itself.
    Control {
        /// From which device.
        peer: PeerId,
        /// The message.
        message: Message,
    },
    /// A link goes on over another pair of addresses. Nothing on it has ended.
    Moved {
        /// The link: the same number and the same connection of calls.
        link: Link,
        /// What was measured there before, here or by the other side.
        found: Option<WayFigures>,
    },
    /// A link that was up has ended.
    Down {
        /// Of which device.
        peer: PeerId,
        /// [`Link::number`] of the link.
        link: u64,
        /// Why.
        reason: CloseReason,
    },
    /// Somebody else answers at an address of a paired device; the address is left out for a while.
    PinRefused {
        /// The device that was dialled.
        peer: PeerId,
        /// Where.
        address: SocketAddr,
    },
    /// A paired device does not take this one: not paired there any more, or blocked.
    RefusedByPeer {
        /// Which device.
        peer: PeerId,
    },
    /// A paired device speaks no common version of the protocol.
    VersionMismatch {
        /// Which device.
        peer: PeerId,
        /// Both sides' versions, and so which one is the older; absent where the device ended the
        /// connection before it had said its own.
        versions: Option<VersionMismatch>,
    },
    /// A device is linked, and the same id comes from another address while that link is alive:
    /// somebody has copied its data folder. The first link is kept.
    SameIdTwice {
        /// The id.
        peer: PeerId,
        /// Where the kept link leads.
        kept: SocketAddr,
        /// Where the other one came from.
        refused: SocketAddr,
    },
}

/// Links could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is taken, or the address is not this machine's.
    #[error("the port for other devices could not be opened")]
    Listen {
        /// Why.
        source: io::Error,
    },
}

/// What the handle, the actor and the pumps share.
#[derive(Debug)]
struct Shared {
    local: Vec<SocketAddr>,
    /// Live links by device; written by pumps, read by everybody, never locked across a wait.
    table: Mutex<HashMap<PeerId, Link>>,
    peers: watch::Sender<Arc<Vec<KnownPeer>>>,
    pins: watch::Sender<Arc<HashSet<PeerId>>>,
    network: watch::Sender<u64>,
    /// What this device says of itself.
    hello: watch::Sender<Hello>,
    inputs: mpsc::Sender<input::Input>,
    turned_away: turned_away::TurnedAwayCounts,
}

impl Links {
    /// Opens the port and starts the actor. The receiver must be read: links wait for it.
    pub fn start(
        config: LinkConfig,
        tasks: &Tasks,
    ) -> Result<(Self, mpsc::Receiver<LinkEvent>), StartError> {
        let listeners = if config.listen.is_empty() {
            Vec::new()
        } else {
            socket::listen_on_all(&config.listen).map_err(|source| StartError::Listen { source })?
        };
        let local: io::Result<Vec<_>> = listeners.iter().map(|one| one.local_addr()).collect();
        let local = local.map_err(|source| StartError::Listen { source })?;
        let listen_port = local.first().map_or(0, SocketAddr::port);
        let (inputs, inbox) = mpsc::channel(INPUTS_MAX);
        let (events, receiver) = mpsc::channel(EVENTS_MAX);
        let hello = watch::channel(Hello { listen_port, ..config.hello }).0;
        let shared = Arc::new(Shared {
            table: Mutex::default(),
            peers: watch::channel(Arc::default()).0,
            pins: watch::channel(Arc::default()).0,
            network: watch::channel(0).0,
            hello,
            turned_away: turned_away::TurnedAwayCounts::default(),
            inputs: inputs.clone(),
            local,
        });
        let pins = tls::Pins::new(shared.pins.subscribe());
        let greeter = Arc::new(greet::Greeter {
            identity: config.identity,
            hello: shared.hello.subscribe(),
            pins,
            ping: config.ping,
            calls_max: config.calls_max,
            tasks: tasks.child(),
            inputs,
        });
        let known_hosts = accept::KnownHosts::default();
        let door = accept::Door {
            greeter: greeter.clone(),
            admission: Admission::new(config.loopback),
            known_hosts: known_hosts.clone(),
            turned_away: shared.turned_away.clone(),
        };
        if !listeners.is_empty() {
            tasks.essential().spawn_until_cancelled("link port", door.serve(listeners));
        }
        let watching = watch_interfaces(Arc::clone(&shared));
        tasks.spawn_until_cancelled("network watch", watching);
        let actor = actor::Actor::new(greeter, Arc::clone(&shared), events, config.loopback);
        tasks.essential().spawn_until_cancelled("links", actor.run(inbox, known_hosts));
        Ok((Self { shared }, receiver))
    }

    /// The first address listened on, if any.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.shared.local.first().copied()
    }

    /// Says who is paired and not blocked, and where they may be. Replaces what was said before.
    ///
    /// From now on nobody else finishes a handshake; links to devices left out are closed.
    pub fn set_peers(&self, mut peers: Vec<KnownPeer>) {
        if peers.len() > PEERS_MAX {
            tracing::warn!(left_out = peers.len() - PEERS_MAX, "too many paired devices");
            peers.truncate(PEERS_MAX);
        }
        let pins = peers.iter().map(|peer| peer.id).collect();
        self.shared.pins.send_replace(Arc::new(pins));
        self.shared.peers.send_replace(Arc::new(peers));
    }

    /// A hint of discovery: `peer` was seen at these addresses, and no longer at earlier ones;
    /// none: it said goodbye. Unpaired devices and addresses that no household uses are ignored.
    pub fn sighted(&self, peer: PeerId, addresses: Vec<SocketAddr>) {
        // A full inbox drops the hint: the next one comes with the next announcement.
        let _ = self.shared.inputs.try_send(input::Input::Sighted { peer, addresses });
    }

    /// The network changed or the machine woke up: dial everybody who is missing, now.
    pub fn network_changed(&self) {
        self.shared.network.send_modify(|count| *count += 1);
    }

    /// Gives this device another name, which new links hear. Those that stand hear it from whoever
    /// sends them [`Links::hello`] again.
    pub fn set_name(&self, device_name: &str) {
        self.shared.hello.send_modify(|hello| device_name.clone_into(&mut hello.device_name));
    }

    /// What this device says of itself on a new link.
    #[must_use]
    pub fn hello(&self) -> Hello {
        self.shared.hello.borrow().clone()
    }

    /// Connections that were refused at the port since the last look, by where they came from.
    #[must_use]
    pub fn take_turned_away(&self) -> Vec<TurnedAway> {
        self.shared.turned_away.take()
    }

    /// The live link to `peer`.
    #[must_use]
    pub fn link(&self, peer: PeerId) -> Option<Link> {
        let link = self.shared.table().get(&peer).cloned();
        link.filter(|link| !link.mux.is_closed())
    }

    /// All live links.
    #[must_use]
    pub fn all(&self) -> Vec<Link> {
        let links: Vec<Link> = self.shared.table().values().cloned().collect();
        links.into_iter().filter(|link| !link.mux.is_closed()).collect()
    }
}

/// Looks at this machine's addresses from time to time: with others it is on another network.
async fn watch_interfaces(shared: Arc<Shared>) {
    let mut known = socket::interfaces();
    known.sort_unstable();
    loop {
        tokio::time::sleep(INTERFACES_EVERY).await;
        let mut now = socket::interfaces();
        now.sort_unstable();
        if now != known {
            tracing::debug!(?now, "the addresses of this machine changed");
            known = now;
            shared.network.send_modify(|count| *count += 1);
        }
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, HashMap<PeerId, Link>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// Counts up over all links of this process.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The device, as TLS has proved it.
    #[must_use]
    pub fn peer(&self) -> PeerId {
        self.peer.id()
    }

    /// For calls and messages.
    #[must_use]
    pub fn mux(&self) -> &Mux<Message> {
        &self.mux
    }

    /// What the device said about itself. Its texts are untrusted.
    #[must_use]
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The protocol version that is spoken on it: the highest that both devices know.
    #[must_use]
    pub fn protocol(&self) -> u16 {
        self.protocol
    }

    /// This end of the socket: by which interface the link goes.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The other end of the socket.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Where the device can be dialled, by what this link shows: worth remembering.
    #[must_use]
    pub fn listens_at(&self) -> Option<SocketAddr> {
        self.listens_at
    }

    /// The confirmed round trip, once measured.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.mux.rtt()
    }
}
