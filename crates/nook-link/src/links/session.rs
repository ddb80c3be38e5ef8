//! A connection to an authenticated device, from its upgraded socket to a device that said HELLO.
//!
//! What is known of it, without the tasks that find it out.

use std::net::SocketAddr;

use nook_base::ErrorCode;
use nook_base::tasks::Tasks;
use nook_mux::{ByteMeter, Incoming, Metered, Mover, Mux, MuxConfig, Side};
use nook_wire::{Hello, Message};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use crate::AuthenticatedPeer;
use crate::websocket::{FrameSocket, Probe};

/// The bytes under a link, whichever side dialled.
pub(super) type LinkStream = tokio_rustls::TlsStream<Metered<TcpStream>>;

/// An upgraded socket, before the mux runs on it.
#[derive(Debug)]
pub(super) struct Upgraded {
    pub(super) peer: AuthenticatedPeer,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) socket: FrameSocket<LinkStream>,
    pub(super) meter: ByteMeter,
}

/// A connection to an authenticated device. Dropping it ends the connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) peer: AuthenticatedPeer,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) mux: Mux<Message>,
    pub(super) mover: Mover<FrameSocket<LinkStream>>,
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

impl Upgraded {
    /// Runs a mux on it, as one of the `tasks`.
    pub(super) fn start(self, config: MuxConfig, tasks: &Tasks) -> Session {
        let probe = self.socket.probe();
        let (mux, incoming, mover) = Mux::start_movable(self.socket, config, tasks, self.meter);
        Session {
            peer: self.peer,
            local: self.local,
            remote: self.remote,
            mux,
            mover,
            incoming,
            probe,
            end_on_drop: tasks.token().clone().drop_guard(),
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
