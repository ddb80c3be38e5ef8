//! From an authenticated WebSocket to two devices that have said HELLO.

use std::time::Duration;

use nook_base::tasks::Tasks;
use nook_mux::{Incoming, MuxConfig, PingPolicy, Side};
use nook_wire::{Hello, Message, VersionMismatch};
use tokio::sync::{mpsc, watch};

use super::input::Input;
use super::session::{Session, Upgraded};
use crate::Identity;
use crate::tls::Pins;

/// How long TCP, TLS and the upgrade may take together, per address and direction.
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// How long the answer to HELLO may take. Longer than a parked connection waits at the other end.
pub(super) const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// What both directions need to greet.
#[derive(Debug)]
pub(super) struct Greeter {
    pub(super) identity: Identity,
    /// What this device says of itself; the name in it may change.
    pub(super) hello: watch::Receiver<Hello>,
    pub(super) pins: Pins,
    pub(super) ping: PingPolicy,
    pub(super) calls_max: usize,
    pub(super) tasks: Tasks,
    pub(super) inputs: mpsc::Sender<Input>,
}

/// Why no HELLO came, or not a usable one.
#[derive(Debug)]
pub(super) enum GreetError {
    /// The connection ended, or the time was over.
    NoHello,
    /// The other end speaks no common version.
    Incompatible(VersionMismatch),
}

impl Greeter {
    /// What this device says of itself now.
    pub(super) fn own_hello(&self) -> Hello {
        self.hello.borrow().clone()
    }

    pub(super) fn start(&self, upgraded: Upgraded, side: Side) -> Session {
        let config = MuxConfig { side, ping: self.ping, calls_max: self.calls_max };
        upgraded.start(config, &self.tasks.child())
    }

    /// Waits for the other end's HELLO, which must come first; with the version that both speak.
    pub(super) async fn hello_of(&self, session: &mut Session) -> Result<(Hello, u16), GreetError> {
        let first = tokio::time::timeout(HELLO_DEADLINE, session.incoming.recv()).await;
        let Ok(Some(Incoming::Control(Message::Hello(theirs)))) = first else {
            return Err(GreetError::NoHello);
        };
        match self.own_hello().protocol.common(theirs.protocol) {
            Ok(protocol) => Ok((theirs, protocol)),
            Err(versions) => Err(GreetError::Incompatible(versions)),
        }
    }
}
