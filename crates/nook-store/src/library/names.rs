//! Names of models: which are allowed, how one is made, what a person means by one.
//!
//! Pure. A name is never used as a path: it is compared with names in the list.

use std::path::Path;

use super::{EMBER, ModelEntry};
use crate::library::staging::ImportError;

/// Longest name, in bytes.
pub const MODEL_NAME_BYTES_MAX: usize = 96;

/// A name that does not lead to one model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No model has this name.
    #[error("no model on this device is called `{}`; there {}", shown(name), there(known))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// Several names begin like this.
    #[error("`{}` may be {}; write more of the name", shown(name), candidates.join(" or "))]
    Ambiguous {
        /// The name asked for.
        name: String,
        /// The names that begin with it.
        candidates: Vec<String>,
    },
}

/// What came from outside goes into a sentence without control characters, and cut.
fn shown(name: &str) -> String {
    name.chars().take(MODEL_NAME_BYTES_MAX).flat_map(char::escape_debug).collect()
}

fn there(known: &[String]) -> String {
    match known {
        [] => "are none".to_owned(),
        [one] => format!("is {one}"),
        many => format!("are {}", many.join(", ")),
    }
}

pub(super) fn resolve<'a>(
    models: &'a [ModelEntry],
    name: &str,
) -> Result<&'a ModelEntry, ResolveError> {
    let lower = name.to_lowercase();
    let exact = models
        .iter()
        .find(|model| model.name == name)
        .or_else(|| models.iter().find(|model| model.name.to_lowercase() == lower))
        .or_else(|| models.iter().find(|model| model.digest.to_string() == lower));
    if let Some(model) = exact {
        return Ok(model);
    }
    let mut begun: Vec<&ModelEntry> = Vec::new();
    if !lower.is_empty() {
        begun.extend(models.iter().filter(|m| m.name.to_lowercase().starts_with(&lower)));
    }
    match begun.as_slice() {
        [one] => Ok(one),
        [] => Err(ResolveError::Unknown {
            name: name.to_owned(),
            known: models.iter().map(|model| model.name.clone()).collect(),
        }),
        several => Err(ResolveError::Ambiguous {
            name: name.to_owned(),
            candidates: several.iter().map(|model| model.name.clone()).collect(),
        }),
    }
}

/// Accepts a name that somebody chose, or says why not.
pub(super) fn check_new(models: &[ModelEntry], name: &str) -> Result<String, ImportError> {
    if !is_allowed(name) {
        return Err(ImportError::BadName { name: shown(name) });
    }
    if is_taken(models, name) {
        return Err(ImportError::NameTaken { name: name.to_owned() });
    }
    Ok(name.to_owned())
}

/// Makes a name out of a file's that no other model has.
pub(super) fn make(models: &[ModelEntry], source: &Path) -> String {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let mut base: String = stem
        .chars()
        .map(|c| if is_allowed_char(c) { c } else { '-' })
        .take(MODEL_NAME_BYTES_MAX - 8) // Room for a number behind it.
        .collect();
    base = base.trim_matches(['-', '.']).to_owned();
    if !is_allowed(&base) {
        base = "model".to_owned();
    }
    let numbered = (2_u32..).map(|number| format!("{base}-{number}"));
    std::iter::once(base.clone())
        .chain(numbered)
        .find(|name| !is_taken(models, name))
        .expect("the list is shorter than the numbers")
}

/// Whether `file` is a file name of the library: no separator, no `..`, nothing hidden.
pub(super) fn is_plain_file(file: &str) -> bool {
    // A file may have a number behind the name, see `Staged::settle`.
    file.strip_suffix(".gguf")
        .is_some_and(|stem| stem.len() <= MODEL_NAME_BYTES_MAX + 3 && is_plain(stem))
}

fn is_taken(models: &[ModelEntry], name: &str) -> bool {
    let lower = name.to_lowercase();
    lower == EMBER || models.iter().any(|model| model.name.to_lowercase() == lower)
}

fn is_allowed(name: &str) -> bool {
    name.len() <= MODEL_NAME_BYTES_MAX && is_plain(name)
}

fn is_plain(name: &str) -> bool {
    let plain = !name.is_empty()
        && name.chars().all(is_allowed_char)
        && !name.starts_with(['.', '-'])
        && !name.ends_with('.');
    plain && !is_device_name(name)
}

fn is_allowed_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Windows gives these to devices, whatever follows the first dot.
fn is_device_name(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().to_ascii_uppercase();
    let numbered = |prefix: &str| {
        stem.strip_prefix(prefix)
            .is_some_and(|rest| rest.len() == 1 && rest.chars().all(|c| c.is_ascii_digit()))
    };
    matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL") || numbered("COM") || numbered("LPT")
}
