//! Why a call or a connection ended, and whose doing it was.

use std::io;

use nook_base::ErrorCode;
use nook_wire::{CallId, CreditError, DecodeError, Kind, SeqError, TensorError};

/// Why a connection ended. The first cause stays; what follows from it does not replace it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// This side closed it.
    #[error("closed here{}", with_code(*.code))]
    Local {
        /// The code given to the other side.
        code: Option<ErrorCode>,
    },
    /// The other side closed it with a goodbye.
    #[error("closed by the other side{}", with_code(*.code))]
    Remote {
        /// The code that it gave.
        code: Option<ErrorCode>,
    },
    /// The stream ended without a goodbye: the process died or the cable was pulled.
    #[error("the other side is gone")]
    Eof,
    /// The stream failed.
    #[error("the connection failed: {kind}")]
    Io {
        /// How.
        kind: io::ErrorKind,
    },
    /// The other side stopped answering.
    #[error("the other side did not answer {misses} pings")]
    PingsMissed {
        /// Pings in a row without a sign of life.
        misses: u32,
    },
    /// The other side stopped reading.
    #[error("the other side did not read for {seconds} s")]
    WriteStalled {
        /// How long.
        seconds: u64,
    },
    /// The other side broke the protocol.
    #[error("the other side broke the protocol: {violation}")]
    Violation {
        /// How.
        violation: Violation,
    },
    /// The tasks of this connection were told to end.
    #[error("shut down here")]
    ShutDown,
    /// This side has allotted all call ids or frame numbers; a new connection starts anew.
    #[error("the connection has used up its numbers")]
    NumbersExhausted,
}

/// How the other side broke the protocol. The connection ends: after such a frame nothing that
/// follows can be trusted to mean what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Bytes that are no frame of this vocabulary.
    #[error("{error}")]
    Frame {
        /// What is wrong with them.
        error: DecodeError,
    },
    /// A frame is missing, doubled or out of order.
    #[error("{call:?}: {error}")]
    Sequence {
        /// On which call.
        call: CallId,
        /// What came.
        error: SeqError,
    },
    /// More chunks than allowed, or credit for nothing.
    #[error("{call:?}: {error}")]
    Credit {
        /// On which call.
        call: CallId,
        /// Which.
        error: CreditError,
    },
    /// More frames than the consumer was given room for.
    #[error("{call:?}: more frames than may wait")]
    InboxOverrun {
        /// On which call.
        call: CallId,
    },
    /// A frame on a call that this side never opened.
    #[error("{call:?} was never opened")]
    UnknownCall {
        /// The call.
        call: CallId,
    },
    /// The first frame of a call is of a kind that cannot be first.
    #[error("{call:?} cannot begin with {kind:?}")]
    BadOpening {
        /// The call.
        call: CallId,
        /// The kind.
        kind: Kind,
    },
    /// It goes on over a connection that this side does not know of.
    #[error("it goes on over an unknown connection")]
    UnknownMove,
    /// So many calls beyond the limit that their refusals pile up.
    #[error("too many refused calls")]
    RefusalFlood,
}

/// The connection is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct MuxClosed {
    /// Why.
    pub reason: CloseReason,
}

/// Why a call can send or receive nothing more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The other side (or this one, by [`crate::CallSender::close`]) ended the call.
    #[error("the call was closed{}", with_code(*.code))]
    Closed {
        /// Why, unless it ended well.
        code: Option<ErrorCode>,
    },
    /// The connection under the call ended.
    #[error("the connection was lost: {reason}")]
    ConnectionLost {
        /// Why.
        reason: CloseReason,
    },
    /// A mistake of the caller: this kind is not sent on calls, or the mux sends it by itself.
    #[error("{kind:?} cannot be sent on a call")]
    NotForCalls {
        /// The kind.
        kind: Kind,
    },
}

/// Why a message was not sent at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError<M> {
    /// There is no room or no credit now; the message is handed back. The call lives.
    #[error("no room now")]
    Full(M),
    /// The call ended.
    #[error("{0}")]
    Ended(CallError),
}

/// Why a tensor did not arrive.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TensorRecvError<M> {
    /// The call ended first.
    #[error("{0}")]
    Call(CallError),
    /// The sender's shape or chunks cannot be right.
    #[error("{0}")]
    Tensor(TensorError),
    /// Something else came where a chunk was due, for example an error message.
    #[error("a tensor was interrupted by another message")]
    Interrupted(M),
}

impl CloseReason {
    /// The code under which whoever waited for the other side is told.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Local { code } | Self::Remote { code } => {
                code.unwrap_or(ErrorCode::ShardUnavailable)
            }
            Self::PingsMissed { .. } | Self::WriteStalled { .. } => ErrorCode::PipelineStalled,
            Self::Violation { violation } => violation.code(),
            Self::Eof | Self::Io { .. } | Self::NumbersExhausted => ErrorCode::ShardUnavailable,
            Self::ShutDown => ErrorCode::Cancelled,
        }
    }
}

impl Violation {
    /// The code under which the other side is told.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Frame { error } => error.code(),
            Self::RefusalFlood => ErrorCode::RateLimited,
            _ => ErrorCode::BadRequest,
        }
    }
}

impl CallError {
    /// The code under which whoever waited for the call is told.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Closed { code } => code.unwrap_or(ErrorCode::Cancelled),
            Self::ConnectionLost { reason } => reason.code(),
            Self::NotForCalls { .. } => ErrorCode::BadRequest,
        }
    }
}

fn with_code(code: Option<ErrorCode>) -> String {
    code.map_or_else(String::new, |code| format!(" ({})", code.name()))
}
