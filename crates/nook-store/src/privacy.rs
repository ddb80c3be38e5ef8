//! What was measured of how much a helper could read, for the next start of the node.
//!
//! One file, `privacy.json`, private to the owner: for each model the digest of the file that was
//! measured, and the figures of its last measurement. There is nothing else in it: no text, no
//! tokens, no path. Like what was measured of speeds it is worth no refusal to start: a file that
//! cannot be read is reported, and the next save replaces it.

use std::fmt;
use std::path::PathBuf;

use nook_base::{ModelDigest, PrivacyFigures};
use serde::{Deserialize, Serialize};

use crate::durable::FileError;
use crate::home::Home;
use crate::json::{self, DocumentError};

const FILE: &str = "privacy.json";
const VERSION: u64 = 1;

/// Most models whose figures are kept; of more, those measured longest ago are not.
pub const PRIVACY_MODELS_MAX: usize = 256;

/// The last figures of one model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KeptFigures {
    /// The model: its file as it was measured.
    #[serde(with = "crate::measured::model")]
    pub model: ModelDigest,
    /// What was found.
    #[serde(flatten)]
    pub figures: PrivacyFigures,
}

/// The figures of each model, those measured last first, each model once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PrivacyList {
    models: Vec<KeptFigures>,
}

/// The file of one home.
#[derive(Clone)]
pub struct PrivacyFile {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u64,
    models: Vec<KeptFigures>,
}

impl PrivacyList {
    /// Those of `models` that can have been measured, the latest of each model, and no more than
    /// [`PRIVACY_MODELS_MAX`].
    #[must_use]
    pub fn of(mut models: Vec<KeptFigures>) -> Self {
        models.retain(|it| it.figures.is_sound());
        models.sort_by_key(|it| (std::cmp::Reverse(it.figures.measured_at), it.model.0));
        let mut list = Self::default();
        for kept in models {
            if list.models.len() < PRIVACY_MODELS_MAX && list.get(kept.model).is_none() {
                list.models.push(kept);
            }
        }
        list
    }

    /// The figures of each model, those measured last first.
    #[must_use]
    pub fn models(&self) -> &[KeptFigures] {
        &self.models
    }

    /// Those of `model`.
    #[must_use]
    pub fn get(&self, model: ModelDigest) -> Option<&PrivacyFigures> {
        let kept = self.models.iter().find(|it| it.model == model);
        kept.map(|kept| &kept.figures)
    }

    /// The same with these figures in place of earlier ones of that model, whatever the clock said
    /// then.
    #[must_use]
    pub fn with(&self, kept: KeptFigures) -> Self {
        let mut models = self.without(|model| model == kept.model).models;
        models.push(kept);
        Self::of(models)
    }

    /// The same without the models that `is_gone` names.
    #[must_use]
    pub fn without(&self, is_gone: impl Fn(ModelDigest) -> bool) -> Self {
        let models = self.models.iter().filter(|kept| !is_gone(kept.model)).copied().collect();
        Self { models }
    }
}

impl PrivacyFile {
    /// The file of `home`, which need not exist.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        Self { path: home.file(FILE) }
    }

    /// What was kept; nothing where there is no file.
    pub fn load(&self) -> Result<PrivacyList, DocumentError> {
        let document: Option<Document> = json::load(&self.path, VERSION)?;
        Ok(document.map(|document| PrivacyList::of(document.models)).unwrap_or_default())
    }

    /// Replaces the file.
    pub fn save(&self, list: &PrivacyList) -> Result<(), FileError> {
        json::save(&self.path, &Document { version: VERSION, models: list.models.clone() })
    }
}

impl fmt::Debug for PrivacyFile {
    /// Where it lies is nobody's business in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FILE)
    }
}
