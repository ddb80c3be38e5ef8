//! What a connection says that is tried as another way to a device, before it is one.
//!
//! ```text
//! dialler  ──TRIAL──► acceptor   a message of a chosen size, which asks for so many bytes back
//! dialler  ◄─TRIAL─── acceptor   those, until they are there
//! dialler  ──MOVE───► acceptor   may the link between us go on here?
//! dialler  ◄─MOVE──── acceptor   it may
//! ```
//!
//! All of it comes instead of HELLO. Then, on the link that stands, each side's last message there
//! is MOVE with the same number: what it says next comes on this connection.
//!
//! A trial carries nothing: its bytes are padding that the codec itself makes, and that nobody
//! looks at when it comes.

use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::body::write_body;
use crate::error::DecodeError;
use crate::kind::Kind;

/// Most padding of one message, in bytes.
pub const TRIAL_PADDING_MAX: u32 = 32 << 10;

/// Most bytes that one message asks back; more are refused.
pub const TRIAL_BACK_MAX: u32 = 256 << 10;

/// A message whose size and answer are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// Bytes of padding in it, at most [`TRIAL_PADDING_MAX`].
    pub padding: u32,
    /// Bytes of padding that are asked back, at most [`TRIAL_BACK_MAX`]; none: no answer.
    pub back: u32,
}

/// The link goes on over another connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Which connection is meant: the same number on both.
    pub nonce: u64,
    /// What the side that tried it has measured there, for the other one; only on the connection
    /// that was tried, and no more than a hint.
    pub found: Option<WayFigures>,
}

/// How fast a way between two devices is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayFigures {
    /// Round trip of a row of activations, in microseconds.
    pub round_trip_us: u32,
    /// What a transfer reaches in one direction.
    pub bytes_per_second: u64,
}

#[derive(Serialize, Deserialize)]
struct Head {
    padding: u32,
    back: u32,
}

/// Bytes that no layer below makes smaller: a VPN may compress.
static PADDING: LazyLock<Bytes> = LazyLock::new(|| {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut padding = BytesMut::with_capacity(TRIAL_PADDING_MAX as usize);
    while padding.len() < TRIAL_PADDING_MAX as usize {
        // xorshift64: it need not be unpredictable.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        padding.extend_from_slice(&state.to_be_bytes());
    }
    padding.freeze()
});

impl Trial {
    /// Messages that carry `bytes` of padding together, of which the last asks for `back`.
    pub fn burst(bytes: u32, back: u32) -> impl Iterator<Item = Self> {
        let full = bytes / TRIAL_PADDING_MAX;
        let rest = bytes % TRIAL_PADDING_MAX;
        let sizes = (0..full).map(|_| TRIAL_PADDING_MAX).chain((rest > 0).then_some(rest));
        let last = full + u32::from(rest > 0);
        (1..=last).zip(sizes).map(move |(number, padding)| Self {
            padding,
            back: if number == last { back } else { 0 },
        })
    }

    pub(crate) fn encode(self, head: &mut BytesMut) -> Bytes {
        let padding = self.padding.min(TRIAL_PADDING_MAX);
        write_body(&Head { padding, back: self.back.min(TRIAL_BACK_MAX) }, head);
        PADDING.slice(..padding as usize)
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let kind = Kind::Trial;
        let (Head { padding, back }, rest) =
            postcard::take_from_bytes(body).map_err(|_| DecodeError::BadBody { kind })?;
        if padding > TRIAL_PADDING_MAX || back > TRIAL_BACK_MAX {
            return Err(DecodeError::BadBody { kind });
        }
        match rest.len().checked_sub(padding as usize) {
            Some(0) => Ok(Self { padding, back }),
            Some(count) => Err(DecodeError::TrailingBytes { kind, count }),
            None => Err(DecodeError::BadBody { kind }),
        }
    }
}
