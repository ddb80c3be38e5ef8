//! Looks for what must not be found: texts, token ids, activations, in every form in which they are
//! usually leaked: as they are, little-endian in two widths, as varints, decimal, hexadecimal,
//! base64.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use half::f16;

/// Characters of a text that count as a leak. Shorter runs occur by chance, or are a common word.
const TEXT_WINDOW: usize = 16;

/// Token ids in a row that count as a leak.
const IDS_WINDOW: usize = 5;

/// Bytes of an activation in a row that count as a leak.
const ACTIVATION_WINDOW: usize = 16;

/// Windows that are taken of one activation: more would find nothing that these do not.
const WINDOWS_OF_ACTIVATION_MAX: usize = 8;

/// What must not be found.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    patterns: Vec<(String, Vec<u8>)>,
    /// Made of all patterns by the first search; a further pattern unmakes it.
    search: OnceLock<AhoCorasick>,
}

impl Secrets {
    /// Nothing is secret yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A text, and every part of it that is long enough to tell something.
    #[must_use]
    pub fn text(mut self, what: &str, text: &str) -> Self {
        let window = TEXT_WINDOW.min(text.len());
        for part in text.as_bytes().windows(window.max(1)) {
            self.add_bytes(what, part);
        }
        self
    }

    /// A run of token ids.
    #[must_use]
    pub fn ids(mut self, what: &str, ids: &[u32]) -> Self {
        for part in ids.windows(IDS_WINDOW) {
            let wide: Vec<u8> = part.iter().flat_map(|id| id.to_le_bytes()).collect();
            self.add_bytes(&format!("{what}, u32"), &wide);
            let narrow: Option<Vec<[u8; 2]>> =
                part.iter().map(|id| Some(u16::try_from(*id).ok()?.to_le_bytes())).collect();
            if let Some(narrow) = narrow {
                self.add_bytes(&format!("{what}, u16"), narrow.as_flattened());
            }
            let varints: Vec<u8> = part.iter().flat_map(|id| varint(*id)).collect();
            self.add(format!("{what}, varints"), varints);
            for between in [", ", ",", " ", "\n"] {
                let words: Vec<_> = part.iter().map(u32::to_string).collect();
                self.add(format!("{what}, decimal"), words.join(between).into_bytes());
            }
        }
        self
    }

    /// Some bytes of an activation of 32-bit numbers, also as 16-bit numbers and as printed.
    #[must_use]
    pub fn activation(mut self, what: &str, bytes: &[u8]) -> Self {
        let step = (bytes.len() / WINDOWS_OF_ACTIVATION_MAX).max(ACTIVATION_WINDOW) & !3;
        let windows = bytes.chunks(step).filter_map(|chunk| chunk.get(..ACTIVATION_WINDOW));
        for window in windows {
            let numbers: Vec<f32> =
                window.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
            if numbers.contains(&0.0) {
                continue; // Runs of zeros are everywhere.
            }
            self.add_bytes(&format!("{what}, f32"), window);
            let halves: Vec<u8> =
                numbers.iter().flat_map(|number| f16::from_f32(*number).to_le_bytes()).collect();
            self.add_bytes(&format!("{what}, f16"), &halves);
            let printed = format!("{numbers:?}");
            self.add(format!("{what}, printed"), printed.trim_matches(['[', ']']).into());
        }
        self
    }

    /// Everything that is found in `place`, by name; nothing when all is well.
    #[must_use]
    pub fn found_in(&self, place: &[u8]) -> Vec<String> {
        let search = self.search.get_or_init(|| {
            let patterns = self.patterns.iter().map(|(_, bytes)| bytes);
            AhoCorasick::new(patterns).expect("a test has no more patterns than fit")
        });
        let mut found = Vec::new();
        for hit in search.find_overlapping_iter(place) {
            let what = &self.patterns[hit.pattern().as_usize()].0;
            if !found.contains(what) {
                found.push(what.clone());
            }
        }
        found
    }

    fn add_bytes(&mut self, what: &str, bytes: &[u8]) {
        self.add(what.to_owned(), bytes.to_vec());
        for hex in [data_encoding::HEXLOWER, data_encoding::HEXUPPER] {
            self.add(format!("{what}, hexadecimal"), hex.encode(bytes).into_bytes());
        }
        let mut spaced = String::new();
        let mut listed = String::new();
        for byte in bytes {
            // A string that is written to does not fail.
            let _ = write!(spaced, "{byte:02x} ");
            let _ = write!(listed, "{byte}, ");
        }
        self.add(format!("{what}, hexadecimal"), spaced.trim_end().as_bytes().to_vec());
        self.add(format!("{what}, as a list of bytes"), listed.trim_end_matches(", ").into());
        for offset in 0..3 {
            for table in [data_encoding::BASE64_NOPAD, data_encoding::BASE64URL_NOPAD] {
                let part = base64_part(&table, bytes, offset);
                self.add(format!("{what}, base64"), part.into_bytes());
            }
        }
    }

    fn add(&mut self, what: String, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.patterns.push((what, bytes));
            self.search = OnceLock::new();
        }
    }
}

/// The characters that `bytes` alone decide when they stand `offset` bytes into a group of three.
fn base64_part(table: &data_encoding::Encoding, bytes: &[u8], offset: usize) -> String {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(bytes);
    let first = (offset * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    table.encode(&padded).get(first..end).unwrap_or_default().to_owned()
}

/// An id as the wire would write it.
fn varint(mut id: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while id >= 0x80 {
        bytes.push((id & 0x7f) as u8 | 0x80);
        id >>= 7;
    }
    bytes.push(id as u8);
    bytes
}

/// Every file below a folder, with what is in it.
pub fn files_below(folder: &Path) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push((entry.path(), fs::read(entry.path())?));
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_really_there_is_found_in_every_form() {
        let ids = [5, 300, 70, 4095, 12, 9];
        let numbers: Vec<u8> =
            [1.5_f32, -0.25, 3.75, 0.125].iter().flat_map(|n| n.to_le_bytes()).collect();
        let secrets = Secrets::new()
            .text("canary", "the zephyr of Quillon")
            .ids("ids", &ids)
            .activation("row", &numbers);
        let wide: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let places: Vec<(&str, Vec<u8>)> = vec![
            ("canary", b"xx the zephyr of Quillon".to_vec()),
            (
                "canary, hexadecimal",
                data_encoding::HEXLOWER.encode(b"<the zephyr of Quillon>").into(),
            ),
            ("canary, base64", data_encoding::BASE64.encode(b"..the zephyr of Quillon").into()),
            ("ids, u32", wide.clone()),
            ("ids, u32, base64", data_encoding::BASE64.encode(&wide).into()),
            ("ids, decimal", format!("{ids:?}").into()),
            ("ids, varints", postcard_like(&ids)),
            ("row, f32", numbers),
            ("row, printed", b"[1.5, -0.25, 3.75, 0.125]".to_vec()),
        ];
        for (what, place) in places {
            let found =
                secrets.found_in(&[b"before ".to_vec(), place, b" after".to_vec()].concat());
            assert!(found.iter().any(|name| name == what), "{what}: {found:?}");
        }
        assert!(secrets.found_in(b"nothing of the kind").is_empty());
    }

    fn postcard_like(ids: &[u32]) -> Vec<u8> {
        ids.iter().flat_map(|id| varint(*id)).collect()
    }
}
