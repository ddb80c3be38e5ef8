//! What goes over the pipes between a node and its process for discovery.

use std::io;

use serde::{Deserialize, Serialize};

use crate::discovery::{Advertisement, FindError, Heard};
use crate::tag::Tag;

/// Longest frame, in bytes: what one message of multicast DNS can say of one device, several times.
pub(super) const FRAME_BYTES_MAX: usize = 64 << 10;

/// What the node wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// To be seen as this.
    Advertise(Tag, Advertisement),
    /// Not to be seen.
    Withdraw,
    /// To hear of everybody, also of those that were told of before.
    Browse,
}

/// What the process says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// It is still there.
    Alive,
    /// Something was heard.
    Heard(Heard),
    /// The subscription is closed; nothing comes until the next [`Order::Browse`].
    Closed,
    /// An order was refused.
    Refused(FindError),
}

/// The bytes of a frame, without its length; an error when it is too long.
pub(super) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    if bytes.len() > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// The length that stands before a frame, little-endian.
pub(super) fn length_of(frame: &[u8]) -> [u8; 4] {
    // A frame is far shorter; a false length would end the conversation, no more.
    u32::try_from(frame.len()).unwrap_or(u32::MAX).to_le_bytes()
}

/// The length of the frame that follows; an error when that is too long.
pub(super) fn length(bytes: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(bytes) as usize;
    if length > FRAME_BYTES_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(length) }
}

/// What a frame says.
pub(super) fn decode<'a, Message: Deserialize<'a>>(frame: &'a [u8]) -> io::Result<Message> {
    postcard::from_bytes(frame).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_what_was_meant_and_none_is_longer_than_is_read() {
        let heard = Heard::Withdrawn { label: "abc".to_owned() };
        let frame = encode(&Report::Heard(heard.clone())).unwrap();
        assert_eq!(length(length_of(&frame)).unwrap(), frame.len());
        assert_eq!(decode::<Report>(&frame).unwrap(), Report::Heard(heard));
        let reason = "x".repeat(FRAME_BYTES_MAX);
        assert!(encode(&Report::Heard(Heard::Trouble { reason })).is_err());
        assert!(length([0, 0, 1, 1]).is_err());
        assert!(decode::<Report>(&[9, 9]).is_err());
    }
}
