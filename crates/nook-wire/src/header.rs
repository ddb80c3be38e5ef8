//! The 16 bytes before every body: version, kind, flags, call, sequence number, body length.
//!
//! [`Header::parse`] is the first thing that looks at bytes from another process. It needs no more
//! than those 16 bytes, and it refuses a body length above the limit of that kind, so that nobody
//! allocates for a frame that would be refused later.

use crate::error::{DecodeError, WIRE_VERSION};
use crate::kind::{CallId, Kind};

/// Bytes of a header on the wire.
pub const HEADER_BYTES: usize = 16;

/// The parsed header of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// [`WIRE_VERSION`].
    pub version: u8,
    /// What the body holds.
    pub kind: Kind,
    /// [`FLAG_LAST_CHUNK`](crate::kind::FLAG_LAST_CHUNK) or nothing.
    pub flags: u16,
    /// The call.
    pub call: CallId,
    /// Number of this frame in its call and direction, from 0.
    pub seq: u32,
    /// Bytes of the body.
    pub body_len: u32,
}

impl Header {
    /// Reads the header at the start of `bytes`; what follows it is not looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(DecodeError::ShortHeader { present: bytes.len() });
        };
        let [version, kind, f0, f1, c0, c1, c2, c3, s0, s1, s2, s3, l0, l1, l2, l3] = *head;
        if version != WIRE_VERSION {
            return Err(DecodeError::WrongVersion { got: version });
        }
        let kind = Kind::from_number(kind).ok_or(DecodeError::UnknownKind { number: kind })?;
        let header = Self {
            version,
            kind,
            flags: u16::from_be_bytes([f0, f1]),
            call: CallId(u32::from_be_bytes([c0, c1, c2, c3])),
            seq: u32::from_be_bytes([s0, s1, s2, s3]),
            body_len: u32::from_be_bytes([l0, l1, l2, l3]),
        };
        if header.flags & !kind.flags_known() != 0 {
            return Err(DecodeError::UnknownFlags { kind, flags: header.flags });
        }
        if header.body_len as usize > kind.body_bytes_max() {
            return Err(DecodeError::BodyTooLong {
                kind,
                claimed: header.body_len,
                max: kind.body_bytes_max(),
            });
        }
        if !kind.fits(header.call) {
            return Err(DecodeError::WrongPlace { kind, call: header.call });
        }
        Ok(header)
    }

    /// The header as it travels.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.version;
        bytes[1] = self.kind as u8;
        bytes[2..4].copy_from_slice(&self.flags.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.call.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.seq.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.body_len.to_be_bytes());
        bytes
    }
}
