//! The short name under which a device is seen on the network.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use nook_base::PeerId;
use serde::{Deserialize, Serialize};

/// Bytes of a device id that an advert shows: 80 bits, 16 base32 characters without padding.
const TAG_BYTES: usize = 10;

/// The first ten bytes of a device id. A hint, never an identity: compare whole ids after dialling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tag([u8; TAG_BYTES]);

/// A text that is no tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a tag is 16 base32 characters")]
pub struct ParseTagError;

impl Tag {
    /// The tag under which `peer` is seen.
    #[must_use]
    pub fn of(peer: &PeerId) -> Self {
        let mut tag = [0; TAG_BYTES];
        for (to, from) in tag.iter_mut().zip(peer.0) {
            *to = from;
        }
        Self(tag)
    }

    /// Whether `peer` is seen under this tag.
    #[must_use]
    pub fn matches(&self, peer: &PeerId) -> bool {
        *self == Self::of(peer)
    }

    /// The tag as a DNS label: lower case, since names compare without case there.
    pub(crate) fn label(&self) -> String {
        self.to_string().to_ascii_lowercase()
    }
}

impl From<PeerId> for Tag {
    fn from(peer: PeerId) -> Self {
        Self::of(&peer)
    }
}

impl FromStr for Tag {
    type Err = ParseTagError;

    fn from_str(text: &str) -> Result<Self, ParseTagError> {
        let bytes =
            BASE32_NOPAD.decode(text.to_ascii_uppercase().as_bytes()).map_err(|_| ParseTagError)?;
        bytes.try_into().map(Self).map_err(|_| ParseTagError)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32_NOPAD.encode(&self.0))
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_survives_the_trip_through_dns_and_knows_its_device() {
        let peer = PeerId([0xa7; 32]);
        let tag = Tag::of(&peer);
        assert_eq!(tag.label().parse(), Ok(tag));
        assert_eq!(tag.label().len(), 16);
        assert!(tag.matches(&peer) && !tag.matches(&PeerId([0xa8; 32])));
    }

    #[test]
    fn other_texts_are_no_tags() {
        for text in ["", "a", "aaaaaaaaaaaaaaa1", "aaaaaaaaaaaaaaaa (2)", "\u{202e}"] {
            assert_eq!(text.parse::<Tag>(), Err(ParseTagError), "{text:?}");
        }
    }
}
