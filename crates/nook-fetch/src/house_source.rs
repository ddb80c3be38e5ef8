//! A model that another device of the house has, as the list of downloads writes it. Pure.
//!
//! `house:` and the model's digest say what is meant, `house-ends:` that only its ends are; the name behind it is for people and made
//! harmless here, because it came from another device. Where the model was asked for as one of the
//! catalogue, its id stands at the end: then the publisher's digest counts beside the model's own.

use std::fmt;
use std::str::FromStr;

use nook_base::{Extent, ModelDigest};

use crate::folder::FileKey;

/// What a text begins with that means all of a model, and only its ends.
const PREFIXES: [(Extent, &str); 2] = [(Extent::Whole, "house:"), (Extent::Ends, "house-ends:")];

const ENDING: &str = ".gguf";

/// Longest name, in bytes: that of a model in the library.
const NAME_BYTES_MAX: usize = 96;

/// A model of another device. Which device has it is not part of it: any that has it will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HouseSource {
    model: ModelDigest,
    name: String,
    extent: Extent,
    entry: Option<String>,
}

/// A text that names no model of the house.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this names no model of another device")]
pub struct HouseSourceError;

impl HouseSource {
    /// The model `model`, of which somebody says that it is called `said`.
    #[must_use]
    pub fn new(model: ModelDigest, said: &str) -> Self {
        Self { model, name: harmless(said), extent: Extent::Whole, entry: None }
    }

    /// Its ends alone.
    #[must_use]
    pub fn ends(self) -> Self {
        Self { extent: Extent::Ends, ..self }
    }

    /// The same, asked for as this entry of the catalogue.
    #[must_use]
    pub fn meant_as(self, entry: &str) -> Self {
        Self { entry: Some(entry.to_owned()), ..self }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> ModelDigest {
        self.model
    }

    /// How much of it.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// A name for it: letters, digits, `-`, `_` and `.`, never first a dot.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Id of the entry of the catalogue that was meant.
    #[must_use]
    pub fn entry(&self) -> Option<&str> {
        self.entry.as_deref()
    }

    /// Whether `text` is to be read as one of these at all.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        PREFIXES.iter().any(|(_, prefix)| text.starts_with(prefix))
    }

    /// Its place in a [`crate::Folder`].
    #[must_use]
    pub fn key(&self) -> FileKey {
        FileKey::of(&self.name, &format!("{}{}", self.prefix(), self.model))
    }

    /// What its part's note calls it: how it was asked for does not change what it is.
    pub(crate) fn file(&self) -> String {
        format!("{}{}/{}{ENDING}", self.prefix(), self.model, self.name)
    }

    fn prefix(&self) -> &'static str {
        PREFIXES.iter().find(|(extent, _)| *extent == self.extent).map_or("", |(_, prefix)| prefix)
    }
}

impl fmt::Display for HouseSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file())?;
        self.entry.as_ref().map_or(Ok(()), |entry| write!(f, "#{entry}"))
    }
}

impl FromStr for HouseSource {
    type Err = HouseSourceError;

    fn from_str(text: &str) -> Result<Self, HouseSourceError> {
        let begun =
            PREFIXES.iter().find_map(|(extent, it)| Some((*extent, text.strip_prefix(it)?)));
        let (extent, rest) = begun.ok_or(HouseSourceError)?;
        let (file, entry) = match rest.split_once('#') {
            Some((file, entry)) => (file, Some(entry.to_owned())),
            None => (rest, None),
        };
        let (digest, file) = file.split_once('/').ok_or(HouseSourceError)?;
        let name = file.strip_suffix(ENDING).ok_or(HouseSourceError)?;
        let model = digest.parse().map_err(|_| HouseSourceError)?;
        let is_plain = entry.as_deref().is_none_or(|entry| harmless(entry) == entry);
        // What was made here is read here; anything else was changed by hand.
        let is_ours = is_plain && harmless(name) == name;
        is_ours
            .then(|| Self { model, name: name.to_owned(), extent, entry })
            .ok_or(HouseSourceError)
    }
}

fn harmless(said: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let plain: String = said.chars().take(NAME_BYTES_MAX).map(plain).collect();
    let mut name = plain.as_str();
    // What is cut off may leave another ending; a name that was made here stays as it is.
    loop {
        let shorter = name.strip_suffix(ENDING).unwrap_or(name).trim_matches(['.', '-']);
        if shorter.len() == name.len() {
            break;
        }
        name = shorter;
    }
    if name.is_empty() { "model".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: ModelDigest = ModelDigest([0x3c; 32]);

    #[test]
    fn what_is_written_is_read_and_one_model_has_one_place() {
        let plain = HouseSource::new(MODEL, "amber-4b.Q8_0");
        let meant = plain.clone().meant_as("amber-4b");
        let ends = plain.clone().ends();
        for source in [&plain, &meant, &ends] {
            assert_eq!(source.to_string().parse().as_ref(), Ok(source));
            assert!(HouseSource::is_meant_by(&source.to_string()));
        }
        assert_eq!(meant.key(), plain.key(), "however it was asked for");
        assert_ne!(ends.key(), plain.key(), "both may be on their way");
        assert_eq!(
            meant.to_string(),
            format!("house:{}/amber-4b.Q8_0.gguf#amber-4b", "3c".repeat(32))
        );
        assert_ne!(HouseSource::new(ModelDigest([1; 32]), "amber-4b.Q8_0").key(), plain.key());
    }

    #[test]
    fn names_that_a_device_makes_up_become_plain_ones() {
        let long = format!("{}.gguf.gguf", "x".repeat(NAME_BYTES_MAX - 5));
        for said in [
            "../../etc/passwd",
            "..",
            "",
            ".gguf",
            "a.gguf.gguf.gguf",
            "a.gguf-.gguf",
            &long,
            "a/b\\c:d|e\0f",
            "Ünï",
            "CON\n\u{202e}",
        ] {
            let source = HouseSource::new(MODEL, said);
            let name = source.name().to_owned();
            assert!(!name.contains(['/', '\\', ':', '\n', '\0']), "{said:?} -> {name:?}");
            assert!(!name.starts_with('.') && !name.is_empty(), "{said:?} -> {name:?}");
            assert_eq!(source.to_string().parse(), Ok(source.clone()));
            assert_eq!(FileKey::parse(source.key().as_str()), Some(source.key()));
        }
        assert_eq!(HouseSource::new(MODEL, &"x".repeat(900)).name().len(), NAME_BYTES_MAX);
    }

    #[test]
    fn what_was_changed_by_hand_is_not_read() {
        let digest = "3c".repeat(32);
        for text in [
            String::new(),
            "house:".to_owned(),
            format!("house:{digest}"),
            format!("house:{digest}/amber"),
            format!("house:{digest}/../up.gguf"),
            format!("house:{digest}/a/b.gguf"),
            format!("house:{digest}/.gguf"),
            format!("house:{digest}/amber.gguf#../up"),
            format!("house:{}/amber.gguf", &digest[2..]),
            format!("hf:{digest}/amber.gguf"),
        ] {
            assert_eq!(text.parse::<HouseSource>(), Err(HouseSourceError), "{text}");
        }
    }
}
