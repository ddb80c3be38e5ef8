//! What a device calls itself: text from somebody else, made safe to show.

use std::fmt;

use nook_base::limits::DEVICE_NAME_GRAPHEMES_MAX;
use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation;

/// Longest name in bytes; whole graphemes that would go beyond are cut. Graphemes alone bound
/// nothing: one of them can carry a thousand combining marks.
pub const DEVICE_NAME_BYTES_MAX: usize = 160;

/// Longest single grapheme in bytes; longer ones become a space. Flags and skin-toned emoji take 8.
const GRAPHEME_BYTES_MAX: usize = 24;

/// Most bytes of the raw text that are looked at, so that a huge name costs nothing.
const RAW_BYTES_MAX: usize = 4096;

/// What a device without a usable name is called.
const FALLBACK: &str = "Unnamed device";

/// A device's name, harmless: one line, no control, bidi or zero-width characters, at most
/// [`DEVICE_NAME_GRAPHEMES_MAX`] graphemes and [`DEVICE_NAME_BYTES_MAX`] bytes, never empty.
///
/// Still text by a stranger: show it as text only, and never identify a device by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct DeviceName(String);

impl DeviceName {
    /// Makes a name out of any text.
    #[must_use]
    pub fn sanitised(raw: &str) -> Self {
        let raw = &raw[..raw.floor_char_boundary(RAW_BYTES_MAX)];
        let visible: String = raw
            .chars()
            .map(|c| if c.is_whitespace() { ' ' } else { c })
            .filter(|c| !is_invisible(*c))
            .collect();
        // A space takes the place of what is dropped: without one, its neighbours could become one
        // grapheme, and a name that is read again would be another.
        let is_short = |grapheme: &str| grapheme.len() <= GRAPHEME_BYTES_MAX;
        let short = visible.graphemes(true).map(|one| if is_short(one) { one } else { " " });
        let short = short.collect::<String>();
        let one_line = short.split(' ').filter(|word| !word.is_empty());
        let one_line = one_line.collect::<Vec<_>>().join(" ");
        let mut name = String::new();
        for grapheme in one_line.graphemes(true).take(DEVICE_NAME_GRAPHEMES_MAX) {
            if name.len() + grapheme.len() > DEVICE_NAME_BYTES_MAX {
                break;
            }
            name.push_str(grapheme);
        }
        let name = name.trim();
        Self(if name.is_empty() { FALLBACK } else { name }.to_owned())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Characters that change how a line looks without being seen: controls, bidi, zero-width, tags.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0x00AD // soft hyphen
            | 0x034F // combining grapheme joiner
            | 0x061C // arabic letter mark
            | 0x115F..=0x1160 | 0x3164 | 0xFFA0 // hangul fillers
            | 0x17B4..=0x17B5 // khmer inherent vowels
            | 0x180B..=0x180F // mongolian selectors
            | 0x200B..=0x200F // zero width, left-to-right and right-to-left marks
            | 0x2028..=0x202E // separators, bidi embeddings and overrides
            | 0x2060..=0x206F // word joiner, invisible operators, bidi isolates
            | 0x2800 // braille blank
            | 0xFE00..=0xFE0F // variation selectors
            | 0xFEFF // byte order mark
            | 0xFFF0..=0xFFFB // specials
            | 0x1BCA0..=0x1BCA3 // shorthand format controls
            | 0x1D173..=0x1D17A // musical beams, ties, slurs and phrases
            | 0xE0000..=0xE0FFF) // tags, variation selectors
}

impl From<String> for DeviceName {
    fn from(raw: String) -> Self {
        Self::sanitised(&raw)
    }
}

impl From<&str> for DeviceName {
    fn from(raw: &str) -> Self {
        Self::sanitised(raw)
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> Self {
        name.0
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
