//! What the two ends of a connection decide before it starts.

use std::time::Duration;

/// How a connection behaves. No default: each owner says what it wants.
#[derive(Debug, Clone)]
pub struct MuxConfig {
    /// Which end this is.
    pub side: Side,
    /// How liveness is watched.
    pub ping: PingPolicy,
    /// Calls that the other side may have open at once. One more is answered by ERROR `busy`.
    pub calls_max: usize,
}

/// The end that dialled allots odd call ids, the other one even ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It dialled.
    Dialer,
    /// It accepted.
    Acceptor,
}

/// When to ask "are you there?", and how often silence may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingPolicy {
    /// Between pings while no call is open.
    pub idle: Duration,
    /// Between pings while a call is open.
    pub busy: Duration,
    /// Intervals in a row in which a ping stayed unanswered and no frame at all came, after which
    /// the connection is given up.
    pub misses: u32,
}

impl PingPolicy {
    /// Between devices: 250 ms while a call is open, 15 s otherwise, four misses.
    pub const LINK: Self =
        Self { idle: Duration::from_secs(15), busy: Duration::from_millis(250), misses: 4 };

    /// Between a node and its own worker, whose death closes the socket at once: pings only find a
    /// worker that hangs, and a machine under load must not look like one.
    pub const WORKER: Self =
        Self { idle: Duration::from_secs(15), busy: Duration::from_secs(2), misses: 5 };
}

impl Side {
    /// Whether this side allots `id`.
    pub(crate) fn allots(self, id: u32) -> bool {
        let odd = id % 2 == 1;
        match self {
            Self::Dialer => odd,
            Self::Acceptor => !odd,
        }
    }

    /// The first id that this side allots.
    pub(crate) fn first_id(self) -> u32 {
        match self {
            Self::Dialer => 1,
            Self::Acceptor => 2,
        }
    }
}
