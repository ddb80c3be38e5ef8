//! The short list of models that the program recommends.
//!
//! `catalogue.toml` is compiled in and read strictly: an unknown key, a double id, a name that is
//! no place of a file or a digest that is none make the whole list invalid, which a test notices
//! before anybody ships it.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::answer::is_sha256;
use crate::fetching::{Order, Pin};
use crate::limits::FILE_BYTES_MAX;
use crate::source::Source;

static BUILT_IN: &str = include_str!("catalogue.toml");

/// Longest id, in bytes: it becomes the model's name here.
const ID_BYTES_MAX: usize = 48;

/// The list, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    entries: Vec<CatalogueEntry>,
}

/// One model of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogueEntry {
    /// What to ask for it by, and its name here once it is loaded.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// The publisher's licence.
    pub licence: String,
    /// Owner and repository, `Qwen/Qwen3-4B-GGUF`.
    pub repository: String,
    /// How its weights are written.
    pub quantisation: String,
    /// About as many bytes as the file has.
    pub bytes: u64,
    /// Parameters, in thousands of millions.
    pub billions: f64,
    /// Languages it was made for, as two letters.
    pub languages: Vec<String>,
    /// 1 is recommended first.
    pub rank: u32,
    /// What it is good for, in one sentence.
    pub about: About,
    /// What it asks of a computer.
    pub costs: Costs,
    /// What is fetched.
    pub order: Order,
}

/// A sentence in the languages of the window.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// English.
    pub en: String,
    /// German.
    pub de: String,
}

/// What a model asks of a computer, from its publisher's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Transformer layers.
    pub layers: u32,
    /// Numbers of a hidden state.
    pub hidden: u32,
    /// Numbers that one position of one layer keeps for keys, and again for values.
    pub kv_width: u32,
    /// Bytes of one layer's weights.
    pub layer_bytes: u64,
    /// Bytes of embedding, last norm and head.
    pub ends_bytes: u64,
}

/// The list cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// It is not written as it must be.
    #[error("the catalogue cannot be read: {reason}")]
    Unreadable {
        /// Where and why.
        reason: String,
    },
    /// An entry says something impossible.
    #[error("the catalogue's entry `{id}` cannot be: {reason}")]
    Impossible {
        /// Which entry.
        id: String,
        /// Why.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    model: Vec<RawEntry>,
}

/// An entry as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    id: String,
    name: String,
    licence: String,
    repository: String,
    file: String,
    revision: Option<String>,
    sha256: Option<String>,
    quantisation: String,
    bytes: u64,
    billions: f64,
    languages: Vec<String>,
    rank: u32,
    layers: u32,
    hidden: u32,
    kv_width: u32,
    vocabulary: u32,
    tied: bool,
    about: About,
}

impl Catalogue {
    /// The list that ships with this build.
    pub fn built_in() -> Result<Self, CatalogueError> {
        Self::read(BUILT_IN)
    }

    /// Reads a list.
    pub fn read(text: &str) -> Result<Self, CatalogueError> {
        let document: Document = toml::from_str(text)
            .map_err(|error| CatalogueError::Unreadable { reason: error.to_string() })?;
        let mut seen = (BTreeSet::new(), BTreeSet::new());
        let mut entries = Vec::with_capacity(document.model.len());
        for raw in document.model {
            let id = raw.id.clone();
            let refused = |reason: String| CatalogueError::Impossible { id: id.clone(), reason };
            if !seen.0.insert(raw.id.clone()) || !seen.1.insert(raw.rank) {
                return Err(refused("another entry has its id or its rank".to_owned()));
            }
            entries.push(understand(raw).map_err(refused)?);
        }
        Ok(Self { entries })
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> &[CatalogueEntry] {
        &self.entries
    }

    /// The entry called `id`, whatever its letters' case.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&CatalogueEntry> {
        self.entries.iter().find(|entry| entry.id.eq_ignore_ascii_case(id))
    }

    /// The entry that is fetched from `source`.
    #[must_use]
    pub fn of_source(&self, source: &Source) -> Option<&CatalogueEntry> {
        self.entries.iter().find(|entry| entry.order.source == *source)
    }
}

fn understand(raw: RawEntry) -> Result<CatalogueEntry, String> {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    if raw.id.is_empty() || raw.id.len() > ID_BYTES_MAX || !raw.id.bytes().all(plain) {
        return Err("an id has small letters, digits, `-` and `.`".to_owned());
    }
    if raw.sha256.as_ref().is_some_and(|it| !is_sha256(it) || *it != it.to_ascii_lowercase()) {
        return Err("a digest has 64 small hexadecimal digits".to_owned());
    }
    let sentences = [&raw.name, &raw.licence, &raw.about.en, &raw.about.de];
    if sentences.iter().any(|text| text.trim().is_empty()) || raw.languages.is_empty() {
        return Err("name, licence, languages and both sentences are needed".to_owned());
    }
    if !raw.billions.is_finite() || raw.billions <= 0.0 {
        return Err("it must have parameters".to_owned());
    }
    let costs = costs(&raw).ok_or("layers, widths and bytes do not go together")?;
    let revision = raw.revision.as_ref().map(|it| format!("@{it}")).unwrap_or_default();
    let text = format!("hf:{}/{}{revision}", raw.repository, raw.file);
    let source: Source = text.parse().map_err(|error| format!("{error}"))?;
    Ok(CatalogueEntry {
        id: raw.id,
        name: raw.name,
        licence: raw.licence,
        repository: raw.repository,
        quantisation: raw.quantisation,
        bytes: raw.bytes,
        billions: raw.billions,
        languages: raw.languages,
        rank: raw.rank,
        about: raw.about,
        costs,
        order: Order { source, pin: Pin { sha256: raw.sha256 } },
    })
}

/// How the bytes are shared among layers and ends. The vocabulary's matrices are written with about
/// a byte for each number in the quantisations of the list (Q8_0 has 1.06, Q6_K 0.82).
fn costs(raw: &RawEntry) -> Option<Costs> {
    let matrices = if raw.tied { 1 } else { 2 };
    let one = u64::from(raw.vocabulary).checked_mul(raw.hidden.into())?;
    let ends_bytes = one.checked_mul(matrices)?;
    let layers_bytes = raw.bytes.checked_sub(ends_bytes)?;
    let sane = raw.layers > 0 && raw.hidden > 0 && raw.kv_width > 0 && raw.bytes <= FILE_BYTES_MAX;
    let layer_bytes = layers_bytes.checked_div(raw.layers.into()).filter(|each| *each > 0)?;
    sane.then_some(Costs {
        layers: raw.layers,
        hidden: raw.hidden,
        kv_width: raw.kv_width,
        layer_bytes,
        ends_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Hub;

    #[test]
    fn the_list_that_ships_is_good() {
        let list = Catalogue::built_in().unwrap();
        assert!((6..=10).contains(&list.entries().len()));
        for entry in list.entries() {
            let url = entry.order.source.url(&Hub::usual());
            assert_eq!(url.scheme(), "https", "{}", entry.id);
            assert!(entry.costs.layer_bytes * u64::from(entry.costs.layers) < entry.bytes);
            assert!(entry.about.en.ends_with('.') && entry.about.de.ends_with('.'), "{}", entry.id);
            assert_eq!(list.of_source(&entry.order.source), Some(entry));
        }
        assert!(list.entries().is_sorted_by_key(|entry| entry.bytes), "smallest first");
        assert_eq!(list.get("QWEN3-4B").map(|entry| entry.rank), Some(1));
        assert!(list.get("gpt-9").is_none());
    }

    /// The list with one line changed.
    #[track_caller]
    fn check_refused(from: &str, to: &str, why: &str) {
        assert!(BUILT_IN.contains(from), "{from}");
        let error = Catalogue::read(&BUILT_IN.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(why), "{to}: {error}");
    }

    #[test]
    fn a_list_that_says_something_impossible_is_refused_whole() {
        check_refused("rank = 8", "rank = 8\nstars = 5", "unknown field");
        check_refused("rank = 8", "", "missing field");
        check_refused("rank = 8", "rank = 1", "its rank");
        check_refused("\"qwen3-0.6b\"", "\"smollm2-360m\"", "its id");
        check_refused("\"qwen3-0.6b\"", "\"Qwen 3\"", "small letters");
        check_refused("smollm2-360m-instruct-q8_0.gguf", "../../x.gguf", "names no file");
        check_refused("smollm2-360m-instruct-q8_0.gguf", "x.zip", "names no file");
        check_refused("rank = 8", "rank = 8\nsha256 = \"12\"", "64 small");
        check_refused("386_000_000", "1", "do not go together");
        check_refused("386_000_000", "-1", "cannot be read");
        check_refused("layers = 32", "layers = 0", "do not go together");
        check_refused("billions = 0.36", "billions = nan", "parameters");
        check_refused("languages = [\"en\"]", "languages = []", "languages");
    }

    #[test]
    fn a_pinned_entry_is_fetched_at_its_revision_and_held_to_its_digest() {
        let digest = "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031";
        let pinned = format!("rank = 8\nrevision = \"0a1b2c\"\nsha256 = \"{digest}\"");
        let list = Catalogue::read(&BUILT_IN.replacen("rank = 8", &pinned, 1)).unwrap();
        let order = &list.entries()[0].order;
        assert_eq!(order.pin.sha256.as_deref(), Some(digest));
        assert!(order.source.url(&Hub::usual()).path().contains("/resolve/0a1b2c/"));
    }
}
