//! The bytes of pairing. Fixed shapes, every length checked, nothing left over at the end.
//!
//! | kind | bytes after it |
//! | --- | --- |
//! | 1 introduction | version 1 · lowest and highest wire version, 1 each · main port 2 · name 1 + n · app version 1 + n · extension 1 + n · SPAKE2 33 |
//! | 2 proof | MAC 32 |
//! | 3 stored | none |
//! | 4 refused | reason 1 · tries left 1 |
//!
//! The extension is where later versions put more; it is ignored, but the proof covers it like
//! every other byte. There is no place for a trust level, on purpose.

use crate::DeviceName;

use super::PAIRING_VERSION;
use super::pake::PAKE_MESSAGE_BYTES;

/// Longest pairing message; a longer one is refused before it is read.
pub const MESSAGE_BYTES_MAX: usize = 512;

/// Longest app version text, in bytes; a longer one is refused.
pub const APP_VERSION_BYTES_MAX: usize = 32;

/// Longest name as sent, in bytes; a longer one is refused.
const NAME_BYTES_MAX: usize = 250;

/// Longest extension, in bytes; a longer one is refused.
const EXTENSION_BYTES_MAX: usize = 128;

/// Bytes of a proof.
pub(super) const PROOF_BYTES: usize = 32;

const INTRODUCTION: u8 = 1;
const PROOF: u8 = 2;
const STORED: u8 = 3;
const REFUSED: u8 = 4;

/// What a device says about itself while pairing. Not secret; the proof covers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// What it calls itself.
    pub name: DeviceName,
    /// Version of the program, printable ASCII.
    pub app_version: String,
    /// Lowest and highest version of the wire protocol that it speaks.
    pub protocol: (u8, u8),
    /// The port on which it takes connections from paired devices; 0 when it takes none.
    pub port: u16,
}

/// Why the device that shows the code ended the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// The proof did not fit the code.
    WrongCode,
    /// The window is closed.
    NotPairing,
    /// No common version.
    Version,
    /// It could not store the new device.
    NotStored,
    /// Other connections than this one had to be served.
    Busy,
    /// A reason that this version does not know.
    Other,
}

/// Bytes that are no pairing message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other device sent a pairing message that makes no sense")]
pub struct MalformedMessage;

/// A pairing message, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    Introduction {
        introduction: Introduction,
        pake: [u8; PAKE_MESSAGE_BYTES],
    },
    /// The other device speaks another version of pairing; the rest cannot be read.
    OtherVersion(u8),
    Proof([u8; PROOF_BYTES]),
    Stored,
    Refused {
        reason: RefusalReason,
        tries_left: u8,
    },
}

/// A message that ends the exchange with a reason, for the other person to read.
#[must_use]
pub fn refusal(reason: RefusalReason, tries_left: u8) -> Vec<u8> {
    vec![REFUSED, reason.to_byte(), tries_left]
}

impl Message {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(MalformedMessage);
        }
        let mut reader = Reader(bytes);
        let message = match reader.byte()? {
            INTRODUCTION => match reader.byte()? {
                PAIRING_VERSION => reader.introduction()?,
                other => return Ok(Self::OtherVersion(other)),
            },
            PROOF => Self::Proof(reader.array()?),
            STORED => Self::Stored,
            REFUSED => Self::Refused {
                reason: RefusalReason::from_byte(reader.byte()?),
                tries_left: reader.byte()?,
            },
            _ => return Err(MalformedMessage),
        };
        if reader.0.is_empty() { Ok(message) } else { Err(MalformedMessage) }
    }
}

pub(super) fn encode_introduction(
    introduction: &Introduction,
    pake: &[u8; PAKE_MESSAGE_BYTES],
) -> Vec<u8> {
    let mut bytes = vec![INTRODUCTION, PAIRING_VERSION];
    bytes.extend([introduction.protocol.0, introduction.protocol.1]);
    bytes.extend(introduction.port.to_be_bytes());
    push_text(&mut bytes, introduction.name.as_str(), NAME_BYTES_MAX);
    push_text(&mut bytes, &introduction.app_version, APP_VERSION_BYTES_MAX);
    bytes.push(0); // no extension
    bytes.extend(pake);
    bytes
}

pub(super) fn encode_proof(mac: &[u8; PROOF_BYTES]) -> Vec<u8> {
    let mut bytes = vec![PROOF];
    bytes.extend(mac);
    bytes
}

pub(super) fn encode_stored() -> Vec<u8> {
    vec![STORED]
}

/// Appends a length byte and the text, cut to `max` bytes.
fn push_text(bytes: &mut Vec<u8>, text: &str, max: usize) {
    let text = &text[..text.floor_char_boundary(max)];
    // Both limits on texts are below 256, so the length fits its byte.
    bytes.push(text.len() as u8);
    bytes.extend(text.as_bytes());
}

impl RefusalReason {
    fn to_byte(self) -> u8 {
        match self {
            Self::Other => 0,
            Self::WrongCode => 1,
            Self::NotPairing => 2,
            Self::Version => 3,
            Self::NotStored => 4,
            Self::Busy => 5,
        }
    }

    fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::WrongCode,
            2 => Self::NotPairing,
            3 => Self::Version,
            4 => Self::NotStored,
            5 => Self::Busy,
            _ => Self::Other,
        }
    }
}

/// Takes a message apart from the front; every read is checked.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn introduction(&mut self) -> Result<Message, MalformedMessage> {
        let protocol = (self.byte()?, self.byte()?);
        let port = u16::from_be_bytes(self.array()?);
        let name = self.text(NAME_BYTES_MAX)?;
        let app_version = self.text(APP_VERSION_BYTES_MAX)?;
        let printable = |c: char| c.is_ascii_graphic() || c == ' ';
        if !app_version.chars().all(printable) || protocol.0 > protocol.1 {
            return Err(MalformedMessage);
        }
        self.short(EXTENSION_BYTES_MAX)?;
        Ok(Message::Introduction {
            introduction: Introduction {
                name: DeviceName::sanitised(name),
                app_version: app_version.to_owned(),
                protocol,
                port,
            },
            pake: self.array()?,
        })
    }

    fn byte(&mut self) -> Result<u8, MalformedMessage> {
        let (first, rest) = self.0.split_first().ok_or(MalformedMessage)?;
        self.0 = rest;
        Ok(*first)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedMessage> {
        let (first, rest) = self.0.split_first_chunk().ok_or(MalformedMessage)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A length byte and as many bytes, at most `max`.
    fn short(&mut self, max: usize) -> Result<&'a [u8], MalformedMessage> {
        let length = usize::from(self.byte()?);
        if length > max {
            return Err(MalformedMessage);
        }
        let (first, rest) = self.0.split_at_checked(length).ok_or(MalformedMessage)?;
        self.0 = rest;
        Ok(first)
    }

    fn text(&mut self, max: usize) -> Result<&'a str, MalformedMessage> {
        std::str::from_utf8(self.short(max)?).map_err(|_| MalformedMessage)
    }
}
