//! The TXT record of an advert: what goes in, and what is believed of another's.
//!
//! Pure. A record that breaks any rule is dropped whole: nothing is repaired, since an honest
//! device never sends one. Unknown keys are ignored, so that a later version may add some.

use nook_base::limits::DEVICE_NAME_GRAPHEMES_MAX;
use unicode_segmentation::UnicodeSegmentation;

use crate::discovery::Advertisement;
use crate::tag::Tag;

/// Longest TXT record that is read, in bytes on the wire; a longer one is dropped.
pub const TXT_BYTES_MAX: usize = 400;

/// Most bytes of a name that are sent: a TXT string is at most 255 bytes long with its key.
const NAME_BYTES_MAX: usize = 160;

/// Ports below this belong to the system; no Inglenook listens there, so none is dialled there.
pub(crate) const PORT_MIN: u16 = 1024;

const KEY_VERSION: &str = "v";
const KEY_ID: &str = "id";
const KEY_PAIR: &str = "pair";
const KEY_NAME: &str = "name";

/// What a TXT record says, once it is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Who says it is there.
    pub tag: Tag,
    /// Protocol version it speaks.
    pub protocol: u16,
    /// Port of its pairing window, while one is open.
    pub pairing_port: Option<u16>,
    /// Its name: no control or direction characters, at most 40 graphemes, never empty.
    pub name: Option<String>,
}

/// Why a TXT record was dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TxtError {
    /// More bytes than [`TXT_BYTES_MAX`].
    #[error("the record has {bytes} bytes, at most {TXT_BYTES_MAX} are read")]
    TooLong {
        /// Bytes of the record.
        bytes: usize,
    },
    /// A key that must be there is not.
    #[error("the key `{key}` is missing")]
    Missing {
        /// Which one.
        key: &'static str,
    },
    /// A key stands there more than once.
    #[error("the key `{key}` stands there twice")]
    Doubled {
        /// Which one.
        key: &'static str,
    },
    /// A value that cannot be what its key says.
    #[error("the value of `{key}` is not what the key says")]
    BadValue {
        /// Which one.
        key: &'static str,
    },
}

/// The properties of `advertisement`, ready for a TXT record.
pub(crate) fn properties(tag: Tag, advertisement: &Advertisement) -> Vec<(String, String)> {
    let mut pairs = vec![
        (KEY_VERSION.to_owned(), advertisement.protocol.to_string()),
        (KEY_ID.to_owned(), tag.label()),
    ];
    if let Some(port) = advertisement.pairing_port {
        pairs.push((KEY_PAIR.to_owned(), port.to_string()));
    }
    if let Some(name) = advertisement.name.as_deref().and_then(sanitised) {
        pairs.push((KEY_NAME.to_owned(), cut_to_bytes(&name, NAME_BYTES_MAX)));
    }
    pairs
}

/// Reads the TXT record of the instance called `label`.
pub(crate) fn read(label: &str, txt: &[(String, Vec<u8>)]) -> Result<Hint, TxtError> {
    let bytes = txt
        .iter()
        .map(|(key, value)| key.len().saturating_add(value.len()).saturating_add(2))
        .fold(0_usize, usize::saturating_add);
    if bytes > TXT_BYTES_MAX {
        return Err(TxtError::TooLong { bytes });
    }
    let required = |key| value(txt, key)?.ok_or(TxtError::Missing { key });

    let protocol = number(KEY_VERSION, required(KEY_VERSION)?)?;
    let tag: Tag =
        text(KEY_ID, required(KEY_ID)?)?.parse().map_err(|_| TxtError::BadValue { key: KEY_ID })?;
    // The label names the entry, the id says whose it is. A clone of a device is renamed by mDNS
    // ("... (2)") and fails here: the first one is kept.
    if !label.eq_ignore_ascii_case(&tag.label()) {
        return Err(TxtError::BadValue { key: KEY_ID });
    }
    let pairing_port = match value(txt, KEY_PAIR)? {
        Some(bytes) => Some(number(KEY_PAIR, bytes)?),
        None => None,
    };
    if protocol == 0 {
        return Err(TxtError::BadValue { key: KEY_VERSION });
    }
    if pairing_port.is_some_and(|port| port < PORT_MIN) {
        return Err(TxtError::BadValue { key: KEY_PAIR });
    }
    let name = match value(txt, KEY_NAME)? {
        Some(bytes) => sanitised(text(KEY_NAME, bytes)?),
        None => None,
    };
    Ok(Hint { tag, protocol, pairing_port, name })
}

/// The value of `key` (keys compare without case, RFC 6763 section 6.4).
fn value<'a>(
    txt: &'a [(String, Vec<u8>)],
    key: &'static str,
) -> Result<Option<&'a [u8]>, TxtError> {
    let mut found = txt.iter().filter(|(k, _)| k.eq_ignore_ascii_case(key));
    let first = found.next();
    if found.next().is_some() {
        return Err(TxtError::Doubled { key });
    }
    Ok(first.map(|(_, value)| value.as_slice()))
}

fn text<'a>(key: &'static str, bytes: &'a [u8]) -> Result<&'a str, TxtError> {
    std::str::from_utf8(bytes).map_err(|_| TxtError::BadValue { key })
}

/// A plain decimal: no sign, no spaces, which `str::parse` alone would partly accept.
fn number(key: &'static str, bytes: &[u8]) -> Result<u16, TxtError> {
    let bad = TxtError::BadValue { key };
    let text = text(key, bytes)?;
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad);
    }
    text.parse().map_err(|_| bad)
}

/// `raw` without what could mislead a reader of a list: control, direction and invisible
/// characters; white space collapsed; cut to the longest device name. `None` when nothing is left.
fn sanitised(raw: &str) -> Option<String> {
    let visible: String = raw.chars().filter(|c| !is_misleading(*c)).collect();
    let words: Vec<&str> = visible.split_whitespace().collect();
    let cut: String = words.join(" ").graphemes(true).take(DEVICE_NAME_GRAPHEMES_MAX).collect();
    // A grapheme may be as long as a text: the bytes are cut too.
    let cut = cut_to_bytes(&cut, NAME_BYTES_MAX);
    (!cut.is_empty()).then_some(cut)
}

/// Characters that are not shown themselves but change how others are.
fn is_misleading(c: char) -> bool {
    let is_format = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200c}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}');
    (c.is_control() && !c.is_whitespace()) || is_format
}

/// `text` cut at a grapheme boundary to at most `bytes` bytes.
fn cut_to_bytes(text: &str, bytes: usize) -> String {
    let mut cut = String::new();
    for grapheme in text.graphemes(true) {
        if cut.len().saturating_add(grapheme.len()) > bytes {
            break;
        }
        cut.push_str(grapheme);
    }
    cut.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use nook_base::PeerId;
    use proptest::prelude::*;

    use super::*;

    fn tag() -> Tag {
        Tag::of(&PeerId([7; 32]))
    }

    fn raw(pairs: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect()
    }

    fn check(pairs: &[(&str, &str)], expected: Result<Hint, TxtError>) {
        assert_eq!(read(&tag().label(), &raw(pairs)), expected, "{pairs:?}");
    }

    #[test]
    fn records_that_break_a_rule_are_dropped_whole() {
        let id = tag().label();
        let id = id.as_str();
        let bad = |key| Err(TxtError::BadValue { key });
        check(&[], Err(TxtError::Missing { key: "v" }));
        check(&[("v", "1")], Err(TxtError::Missing { key: "id" }));
        for version in ["", "+1", " 1", "1.0", "65536", "-1", "0", "\u{661}"] {
            check(&[("v", version), ("id", id)], bad("v"));
        }
        check(&[("v", "1"), ("id", "AAAAAAAAAAAAAAAA")], bad("id"));
        check(&[("v", "1"), ("id", "nonsense")], bad("id"));
        for port in ["22", "0", "70000", "x"] {
            check(&[("v", "1"), ("id", id), ("pair", port)], bad("pair"));
        }
        check(&[("v", "1"), ("V", "2"), ("id", id)], Err(TxtError::Doubled { key: "v" }));
        let long = "x".repeat(TXT_BYTES_MAX);
        assert!(matches!(
            read(id, &raw(&[("v", "1"), ("id", id), ("zz", &long)])),
            Err(TxtError::TooLong { .. })
        ));
    }

    #[test]
    fn names_come_out_as_harmless_text() {
        for (name, expected) in [
            ("Dad's PC", Some("Dad's PC")),
            ("\u{202e}evil\u{0}\u{200f}", Some("evil")),
            ("two\nlines\t here", Some("two lines here")),
            (" \u{200b}\u{feff} ", None),
            ("<b>bold</b>", Some("<b>bold</b>")),
        ] {
            assert_eq!(sanitised(name).as_deref(), expected, "{name:?}");
        }
        let long = sanitised(&"e\u{301}".repeat(10_000)).unwrap();
        assert!(long.graphemes(true).count() <= DEVICE_NAME_GRAPHEMES_MAX);
        let zalgo = format!("a{}", "\u{301}".repeat(10_000));
        assert!(sanitised(&zalgo).is_none_or(|name| name.len() <= NAME_BYTES_MAX));
    }

    proptest! {
        #[test]
        fn what_is_advertised_is_what_is_read(
            protocol in 1_u16.., pair in proptest::option::of(PORT_MIN..), name in proptest::option::of(".{0,300}"),
        ) {
            let advertisement = Advertisement { port: 5000, protocol, pairing_port: pair, name };
            let pairs = properties(tag(), &advertisement);
            let txt: Vec<_> = pairs.into_iter().map(|(k, v)| (k, v.into_bytes())).collect();
            let hint = read(&tag().label().to_ascii_uppercase(), &txt).unwrap();
            prop_assert_eq!((hint.tag, hint.protocol, hint.pairing_port), (tag(), protocol, pair));
            let sent = advertisement.name.as_deref().and_then(sanitised);
            prop_assert_eq!(hint.name, sent);
        }

        #[test]
        fn no_record_panics_or_yields_an_unclean_hint(
            label in ".{0,40}",
            txt in proptest::collection::vec(
                ("(v|id|pair|name|.{0,8})", proptest::collection::vec(any::<u8>(), 0..200)), 0..8),
        ) {
            if let Ok(hint) = read(&label, &txt) {
                prop_assert!(hint.pairing_port.is_none_or(|port| port >= PORT_MIN));
                prop_assert!(hint.name.is_none_or(|n| !n.is_empty() && !n.chars().any(is_misleading)));
            }
        }
    }
}
