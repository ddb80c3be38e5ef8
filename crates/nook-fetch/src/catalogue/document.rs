//! How the list is written, and what is understood of it.

use std::collections::{BTreeMap, BTreeSet};

use nook_base::calendar;
use semver::Version;
use serde::Deserialize;
use toml::value::{Datetime, Offset};

use super::{About, Catalogue, CatalogueEntry, CatalogueError, Costs};
use crate::answer::is_sha256;
use crate::fetching::{Order, Pin};
use crate::limits::FILE_BYTES_MAX;
use crate::source::Source;

/// The highest format that is known here.
const FORMAT: u64 = 1;

/// What kind of document it is: the same key signs others.
const KIND: &str = "inglenook-catalogue";

/// Most entries: a page that nobody reads to its end helps nobody.
const ENTRIES_MAX: usize = 64;

/// Longest id, in bytes: it becomes the model's name here.
const ID_BYTES_MAX: usize = 48;

/// Longest name, licence, quantisation or architecture, in bytes.
const NAME_BYTES_MAX: usize = 96;

/// Longest sentence, in bytes.
const SENTENCE_BYTES_MAX: usize = 400;

/// Most languages of an entry.
const LANGUAGES_MAX: usize = 64;

/// What was read.
pub(super) struct Read {
    pub(super) catalogue: Catalogue,
    /// Keys that nothing is known of.
    pub(super) unknown: Vec<String>,
}

/// An entry that is not understood.
pub(super) struct LeftOut {
    pub(super) id: String,
    pub(super) reason: String,
}

impl From<LeftOut> for CatalogueError {
    fn from(LeftOut { id, reason }: LeftOut) -> Self {
        Self::Impossible { id, reason }
    }
}

/// What only tells the format, whatever else a later version of it has.
#[derive(Deserialize)]
struct Head {
    kind: String,
    format: u64,
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(rename = "format")]
    _format: u64,
    written: Datetime,
    model: Vec<toml::Table>,
    #[serde(flatten)]
    unknown: BTreeMap<String, toml::Value>,
}

/// An entry as it is written.
#[derive(Deserialize)]
struct RawEntry {
    id: String,
    name: String,
    licence: String,
    repository: String,
    file: String,
    revision: Option<String>,
    sha256: Option<String>,
    architecture: String,
    since: Option<Version>,
    quantisation: String,
    bytes: u64,
    billions: f64,
    active: Option<f64>,
    languages: Vec<String>,
    rank: u32,
    layers: u32,
    hidden: u32,
    kv_width: u32,
    vocabulary: u32,
    tied: bool,
    ends_bytes: Option<u64>,
    about: About,
    #[serde(flatten)]
    unknown: BTreeMap<String, toml::Value>,
}

/// Reads a list; what it could not use of it comes beside it.
pub(super) fn read(text: &str) -> Result<(Read, Vec<LeftOut>), CatalogueError> {
    let unreadable = |reason: String| CatalogueError::Unreadable { reason };
    let in_toml = |error: toml::de::Error| unreadable(error.to_string());
    let head: Head = toml::from_str(text).map_err(in_toml)?;
    if head.kind != KIND {
        return Err(unreadable("it is no catalogue".to_owned()));
    }
    if head.format > FORMAT {
        return Err(CatalogueError::NewerFormat { found: head.format, known: FORMAT });
    }
    let document: Document = toml::from_str(text).map_err(in_toml)?;
    if document.model.len() > ENTRIES_MAX {
        return Err(unreadable(format!("it has more than {ENTRIES_MAX} entries")));
    }
    let written = seconds(&document.written).ok_or_else(|| {
        unreadable("`written` is no time such as 2026-11-26T12:00:00Z".to_owned())
    })?;
    let mut unknown: Vec<String> = document.unknown.into_keys().collect();
    let (mut entries, mut left_out) = (Vec::new(), Vec::new());
    let mut seen = (BTreeSet::new(), BTreeSet::new());
    for table in document.model {
        let id = table.get("id").and_then(toml::Value::as_str).unwrap_or_default();
        let id: String = id.chars().take(ID_BYTES_MAX).flat_map(char::escape_debug).collect();
        match entry(table, &mut unknown) {
            Ok(entry) if !seen.0.insert(entry.id.clone()) || !seen.1.insert(entry.rank) => {
                let reason = "another entry has its id or its rank".to_owned();
                left_out.push(LeftOut { id, reason });
            }
            Ok(entry) => entries.push(entry),
            Err(reason) => left_out.push(LeftOut { id, reason }),
        }
    }
    Ok((Read { catalogue: Catalogue { written, is_built_in: false, entries }, unknown }, left_out))
}

/// Seconds since 1970; absent where it names no moment since then, in UTC.
fn seconds(written: &Datetime) -> Option<u64> {
    let (Some(date), Some(time), Some(Offset::Z)) = (written.date, written.time, written.offset)
    else {
        return None;
    };
    let day = calendar::day_begins(date.year, date.month, date.day)?;
    let minutes = u64::from(time.hour) * 60 + u64::from(time.minute);
    Some(day + minutes * 60 + u64::from(time.second.unwrap_or(0)))
}

fn entry(table: toml::Table, unknown: &mut Vec<String>) -> Result<CatalogueEntry, String> {
    let mut raw: RawEntry = table.try_into().map_err(|error| error.message().to_owned())?;
    unknown.extend(std::mem::take(&mut raw.unknown).into_keys());
    understand(raw)
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
    let names = [&raw.name, &raw.licence, &raw.architecture, &raw.quantisation];
    let sentences = [&raw.about.en, &raw.about.de];
    if !names.iter().all(|text| is_line(text, NAME_BYTES_MAX))
        || !sentences.iter().all(|text| is_line(text, SENTENCE_BYTES_MAX))
    {
        return Err("names and both sentences are needed, each one short line".to_owned());
    }
    let languages = 1..=LANGUAGES_MAX;
    if !languages.contains(&raw.languages.len())
        || !raw.languages.iter().all(|text| is_line(text, 16))
    {
        return Err("languages are needed, as two letters each".to_owned());
    }
    if !raw.billions.is_finite() || raw.billions <= 0.0 {
        return Err("it must have parameters".to_owned());
    }
    let active = raw.active.unwrap_or(raw.billions);
    if !active.is_finite() || active <= 0.0 || active > raw.billions {
        return Err("it computes with some of its parameters, not with more".to_owned());
    }
    let costs =
        costs(&raw, active / raw.billions).ok_or("layers, widths and bytes do not go together")?;
    let revision = raw.revision.as_ref().map(|it| format!("@{it}")).unwrap_or_default();
    let text = format!("hf:{}/{}{revision}", raw.repository, raw.file);
    let source: Source = text.parse().map_err(|error| format!("{error}"))?;
    Ok(CatalogueEntry {
        id: raw.id,
        name: raw.name,
        licence: raw.licence,
        repository: raw.repository,
        architecture: raw.architecture,
        since: raw.since,
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

/// A line that a window and a terminal can show: some text, nothing in it that moves what stands
/// beside it.
fn is_line(text: &str, bytes_max: usize) -> bool {
    let moves = |c: char| matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let is_plain = text.chars().all(|c| !c.is_control() && !moves(c));
    !text.trim().is_empty() && text.len() <= bytes_max && is_plain
}

/// How the bytes are shared among layers and ends. The vocabulary's matrices are written with about
/// a byte for each number in the quantisations of the list (Q8_0 has 1.06, Q6_K 0.82). A token is
/// computed with the share `active` of the layers, and with the head.
fn costs(raw: &RawEntry, active: f64) -> Option<Costs> {
    let matrices = if raw.tied { 1 } else { 2 };
    let head_bytes = u64::from(raw.vocabulary).checked_mul(raw.hidden.into())?;
    let ends_bytes = match raw.ends_bytes {
        Some(bytes) => bytes,
        None => head_bytes.checked_mul(matrices)?,
    };
    let layers_bytes = raw.bytes.checked_sub(ends_bytes)?;
    let sane = raw.layers > 0 && raw.hidden > 0 && raw.kv_width > 0 && raw.bytes <= FILE_BYTES_MAX;
    let layer_bytes = layers_bytes.checked_div(raw.layers.into()).filter(|each| *each > 0)?;
    sane.then_some(Costs {
        layers: raw.layers,
        hidden: raw.hidden,
        kv_width: raw.kv_width,
        layer_bytes,
        ends_bytes,
        token_layer_bytes: (layer_bytes as f64 * active) as u64,
        head_bytes,
    })
}
