//! From an authenticated WebSocket to two devices that have said HELLO.

use std::net::SocketAddr;
use std::time::Duration;

use nook_base::ErrorCode;
use nook_base::tasks::Tasks;
use nook_mux::{ByteMeter, Incoming, Metered, Mux, MuxConfig, PingPolicy, Side};
use nook_wire::{Hello, Message, VersionMismatch};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use super::actor::Input;
use crate::tls::Pins;
use crate::websocket::{FrameSocket, Probe};
use crate::{AuthenticatedPeer, Identity};

/// How long TCP, TLS and the upgrade may take together, per address and direction.
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// How long the answer to HELLO may take. Longer than a parked connection waits at the other end.
pub(super) const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// The bytes under a link, whichever side dialled.
pub(super) type LinkStream = tokio_rustls::TlsStream<Metered<TcpStream>>;

/// What both directions need to greet.
#[derive(Debug)]
pub(super) struct Greeter {
    pub(super) identity: Identity,
    pub(super) hello: Hello,
    pub(super) pins: Pins,
    pub(super) ping: PingPolicy,
    pub(super) calls_max: usize,
    pub(super) tasks: Tasks,
    pub(super) inputs: mpsc::Sender<Input>,
}

/// A connection to an authenticated device. Dropping it ends the connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) peer: AuthenticatedPeer,
    pub(super) remote: SocketAddr,
    pub(super) mux: Mux<Message>,
    pub(super) incoming: mpsc::Receiver<Incoming<Message>>,
    pub(super) probe: Probe,
    end_on_drop: DropGuard,
}

/// A connection whose other end has said HELLO.
#[derive(Debug)]
pub(super) struct Greeted {
    pub(super) session: Session,
    pub(super) hello: Hello,
    /// The protocol version that both speak.
    pub(super) protocol: u16,
    pub(super) side: Side,
    /// Where the device takes links.
    pub(super) listens_at: Option<SocketAddr>,
}

/// Why no HELLO came, or not a usable one.
#[derive(Debug)]
pub(super) enum GreetError {
    /// The connection ended, or the time was over.
    NoHello,
    /// The other end speaks no common version.
    Incompatible(Incompatible),
}

/// A device that speaks no common version of the protocol.
#[derive(Debug)]
pub(super) struct Incompatible {
    /// Both sides' versions.
    pub(super) versions: VersionMismatch,
    /// Its program's version, untrusted text.
    pub(super) app_version: String,
}

/// An upgraded socket, before the mux runs on it.
#[derive(Debug)]
pub(super) struct Upgraded {
    pub(super) peer: AuthenticatedPeer,
    pub(super) remote: SocketAddr,
    pub(super) socket: FrameSocket<LinkStream>,
    pub(super) meter: ByteMeter,
}

impl Greeter {
    pub(super) fn start(&self, upgraded: Upgraded, side: Side) -> Session {
        let tasks = self.tasks.child();
        let config = MuxConfig { side, ping: self.ping, calls_max: self.calls_max };
        let probe = upgraded.socket.probe();
        let (mux, incoming) = Mux::start_metered(upgraded.socket, config, &tasks, upgraded.meter);
        Session {
            peer: upgraded.peer,
            remote: upgraded.remote,
            mux,
            incoming,
            probe,
            end_on_drop: tasks.token().clone().drop_guard(),
        }
    }

    /// Waits for the other end's HELLO, which must come first; with the version that both speak.
    pub(super) async fn hello_of(&self, session: &mut Session) -> Result<(Hello, u16), GreetError> {
        let first = tokio::time::timeout(HELLO_DEADLINE, session.incoming.recv()).await;
        let Ok(Some(Incoming::Control(Message::Hello(theirs)))) = first else {
            return Err(GreetError::NoHello);
        };
        match self.hello.protocol.common(theirs.protocol) {
            Ok(protocol) => Ok((theirs, protocol)),
            Err(versions) => {
                let app_version = theirs.app_version;
                Err(GreetError::Incompatible(Incompatible { versions, app_version }))
            }
        }
    }
}

impl Session {
    /// Ends the connection and tells the other end `code`.
    pub(super) fn dismiss(self, code: ErrorCode) {
        self.mux.close(Some(code));
        // Ended already, but not before the goodbye is out; the mux limits that itself.
        self.end_on_drop.disarm();
    }
}
