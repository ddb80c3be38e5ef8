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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_another_version_may_be_as_long_as_a_message_and_no_longer() {
        let of = |length| [&[INTRODUCTION, PAIRING_VERSION + 1][..], &vec![0; length - 2]].concat();
        let longest = Message::decode(&of(MESSAGE_BYTES_MAX));
        assert!(matches!(longest, Ok(Message::OtherVersion(version)) if version > PAIRING_VERSION));
        for length in [MESSAGE_BYTES_MAX + 1, 2 * MESSAGE_BYTES_MAX] {
            assert!(Message::decode(&of(length)).is_err(), "{length}");
        }
    }

    #[test]
    fn every_reason_arrives_as_itself() {
        let reasons = [
            RefusalReason::WrongCode,
            RefusalReason::NotPairing,
            RefusalReason::Version,
            RefusalReason::NotStored,
            RefusalReason::Busy,
            RefusalReason::Other,
        ];
        for said in reasons {
            let decoded = Message::decode(&refusal(said, 2));
            let Ok(Message::Refused { reason, tries_left: 2 }) = decoded else {
                panic!("{said:?}")
            };
            assert_eq!(reason, said);
        }
        assert_eq!(RefusalReason::from_byte(200), RefusalReason::Other);
    }

    #[test]
    fn an_introduction_says_what_it_said_and_nothing_that_cannot_be() {
        let pake = [7; PAKE_MESSAGE_BYTES];
        let said = |app_version: &str, protocol| Introduction {
            name: DeviceName::sanitised("desk"),
            app_version: app_version.to_owned(),
            protocol,
            port: 40_123,
        };
        let decoded = |said: &Introduction| Message::decode(&encode_introduction(said, &pake));
        for honest in [said("1.2 beta", (3, 3)), said("", (0, 255))] {
            let Ok(Message::Introduction { introduction, pake: sent }) = decoded(&honest) else {
                panic!("{honest:?}")
            };
            assert_eq!((introduction, sent), (honest, pake));
        }
        for wrong in [said("1.2\n", (3, 3)), said("1.2ß", (3, 3)), said("1.2", (4, 3))] {
            assert!(decoded(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_a_later_version_adds_to_an_introduction_may_have_128_bytes() {
        let introduction = Introduction {
            name: DeviceName::sanitised("desk"),
            app_version: "1.2".to_owned(),
            protocol: (1, 3),
            port: 1,
        };
        let plain = encode_introduction(&introduction, &[7; PAKE_MESSAGE_BYTES]);
        let (before, pake) = plain.split_at(plain.len() - PAKE_MESSAGE_BYTES);
        for (length, is_taken) in
            [(0, true), (EXTENSION_BYTES_MAX, true), (129, false), (255, false)]
        {
            let mut bytes = before[..before.len() - 1].to_vec();
            bytes.push(length as u8);
            bytes.extend(vec![0; length]);
            bytes.extend(pake);
            let decoded = Message::decode(&bytes);
            let is_read = matches!(decoded, Ok(Message::Introduction { .. }));
            assert_eq!(is_read, is_taken, "{length}");
        }
    }
}
