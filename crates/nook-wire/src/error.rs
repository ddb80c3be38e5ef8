//! Why bytes are not a frame: each refusal of the codec with its reason.

use nook_base::ErrorCode;

use crate::kind::{CallId, Kind};

/// The version of the frame layout. What the messages mean is negotiated in HELLO instead.
pub const WIRE_VERSION: u8 = 1;

/// Bytes that are not a frame of the expected vocabulary. Always the sender's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than a header.
    #[error("a frame of {present} bytes holds no header")]
    ShortHeader {
        /// Bytes present.
        present: usize,
    },
    /// Another layout of frames.
    #[error("frames of version {got} are not understood, only {WIRE_VERSION}")]
    WrongVersion {
        /// Version in the header.
        got: u8,
    },
    /// A kind that this version, or this vocabulary, does not have.
    #[error("frames of kind {number} are not accepted here")]
    UnknownKind {
        /// Number in the header.
        number: u8,
    },
    /// A flag that means nothing on this kind.
    #[error("{kind:?} carries the unknown flags {flags:#06x}")]
    UnknownFlags {
        /// Kind of the frame.
        kind: Kind,
        /// Flags in the header.
        flags: u16,
    },
    /// A body longer than its kind may have. Nothing was allocated for it.
    #[error("{kind:?} claims a body of {claimed} bytes, {max} are allowed")]
    BodyTooLong {
        /// Kind of the frame.
        kind: Kind,
        /// Bytes claimed.
        claimed: u32,
        /// Bytes allowed.
        max: usize,
    },
    /// The header and the bytes present disagree.
    #[error("{kind:?} claims a body of {claimed} bytes and has {present}")]
    LengthMismatch {
        /// Kind of the frame.
        kind: Kind,
        /// Bytes claimed.
        claimed: u32,
        /// Bytes present.
        present: usize,
    },
    /// A connection's message on a call, or the reverse.
    #[error("{kind:?} does not belong on {call:?}")]
    WrongPlace {
        /// Kind of the frame.
        kind: Kind,
        /// Call in the header.
        call: CallId,
    },
    /// The body is not what its kind says.
    #[error("the body of {kind:?} cannot be read")]
    BadBody {
        /// Kind of the frame.
        kind: Kind,
    },
    /// Bytes are left over after the body.
    #[error("{count} bytes are left over after {kind:?}")]
    TrailingBytes {
        /// Kind of the frame.
        kind: Kind,
        /// How many.
        count: usize,
    },
}

impl DecodeError {
    /// The code under which the sender is told.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::WrongVersion { .. } | Self::UnknownKind { .. } => ErrorCode::VersionMismatch,
            _ => ErrorCode::BadRequest,
        }
    }
}
