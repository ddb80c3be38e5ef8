//! The short list of models that the program recommends.
//!
//! One is compiled in; a newer one may come from where new versions come from, signed (`nook-update`
//! checks that before it is read here). [`Catalogue::built_in`] is read strictly: an unknown key, a
//! double id, a name that is no place of a file or a digest that is none make the whole list
//! invalid, which a test notices before anybody ships it. [`Catalogue::read`] is for lists of later
//! programs: what it does not know it passes over, entry by entry.

mod document;
#[cfg(test)]
mod tests;

use semver::Version;
use serde::Deserialize;

use crate::fetching::Order;
use crate::source::Source;

static BUILT_IN: &str = include_str!("catalogue/built_in.toml");

/// The list, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    written: u64,
    is_built_in: bool,
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
    /// What `general.architecture` of its file says.
    pub architecture: String,
    /// The first version of this program that runs it, where the architecture does not tell.
    pub since: Option<Version>,
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

/// A sentence in the languages of the window. Others may stand there and are passed over.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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
    /// Bytes of one layer's weights that a token of a reply is computed with: of a mixture of experts
    /// those that it uses.
    pub token_layer_bytes: u64,
    /// Bytes of the head, which each token is computed with.
    pub head_bytes: u64,
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
    /// Of a later form.
    #[error(
        "the catalogue has a form that this version is too old for ({found}, known up to {known})"
    )]
    NewerFormat {
        /// Its format.
        found: u64,
        /// The highest one that is known here.
        known: u64,
    },
    /// An entry says something impossible.
    #[error("the catalogue's entry `{id}` cannot be: {reason}")]
    Impossible {
        /// Which entry.
        id: String,
        /// Why.
        reason: String,
    },
    /// Nothing of it can be used.
    #[error("the catalogue has no entry that this version understands")]
    Empty,
}

impl Catalogue {
    /// The list that ships with this build.
    pub fn built_in() -> Result<Self, CatalogueError> {
        Self::of_this_build(BUILT_IN)
    }

    /// Reads a list in which everything must be known.
    fn of_this_build(text: &str) -> Result<Self, CatalogueError> {
        let (read, left_out) = document::read(text)?;
        if let Some(unknown) = read.unknown.into_iter().next() {
            return Err(CatalogueError::Unreadable { reason: format!("unknown field {unknown}") });
        }
        match left_out.into_iter().next() {
            Some(left_out) => Err(left_out.into()),
            None => Ok(Self { is_built_in: true, ..read.catalogue }),
        }
    }

    /// Reads a list of this or a later program. Entries that it does not understand are left out.
    pub fn read(text: &str) -> Result<Self, CatalogueError> {
        let (read, left_out) = document::read(text)?;
        for document::LeftOut { id, reason } in left_out {
            tracing::info!(id, reason, "an entry of the catalogue is left out");
        }
        if read.catalogue.entries.is_empty() {
            return Err(CatalogueError::Empty);
        }
        Ok(read.catalogue)
    }

    /// When it was written, in seconds since 1970. A later list replaces an earlier one.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Whether it is the one that ships with this build.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        self.is_built_in
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> &[CatalogueEntry] {
        &self.entries
    }

    /// The same without the entries that `can_run` does not hold for.
    #[must_use]
    pub fn only(mut self, can_run: impl Fn(&CatalogueEntry) -> bool) -> Self {
        self.entries.retain(can_run);
        self
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
