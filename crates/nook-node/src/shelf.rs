//! Models of this device that are open: header, tokenizer and chat template.
//!
//! Opening reads the header and builds the tokenizer, which for a large vocabulary takes a good
//! part of a second; it happens off the runtime and once for each model. Weights are the workers'.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use nook_base::{ErrorCode, ModelDigest};
use nook_model::{ModelFile, ModelShape};
use nook_text::{ChatTemplate, GrammarError, Grammars, Tokenizer};

use crate::house::HouseError;
use crate::reply::{TrailBook, Unwanted};

/// Models kept open; the one that was opened first goes when another comes.
const OPEN_MODELS_MAX: usize = 8;

/// A model as the library lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) digest: ModelDigest,
    pub(crate) path: PathBuf,
}

/// A model that is ready to turn text into ids and back.
#[derive(Debug)]
pub(crate) struct OpenModel {
    pub(crate) listed: Listed,
    pub(crate) shape: ModelShape,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) template: ChatTemplate,
    /// The vocabulary laid out for grammars, once a reply must have a form.
    grammars: OnceLock<Result<Grammars, GrammarError>>,
    /// What its last replies left with the workers that made them.
    pub(crate) trails: TrailBook,
}

/// The models that are open. Cloning gives another handle to the same shelf.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shelf {
    // Guards a short list; never held across an await or a read.
    open: Arc<Mutex<HashMap<ModelDigest, Arc<OpenModel>>>>,
}

impl Shelf {
    /// Opens `listed`, or hands out what is open.
    pub(crate) async fn open(&self, listed: Listed) -> Result<Arc<OpenModel>, HouseError> {
        if let Some(open) = self.known(listed.digest) {
            return Ok(open);
        }
        let opened = tokio::task::spawn_blocking(move || OpenModel::read(listed))
            .await
            .map_err(|_| HouseError::from(ErrorCode::BadModel))??;
        let opened = Arc::new(opened);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= OPEN_MODELS_MAX
            && let Some(any) = open.keys().next().copied()
        {
            open.remove(&any);
        }
        open.insert(opened.listed.digest, opened.clone());
        Ok(opened)
    }

    /// A kept conversation was deleted: nothing of it is gone on with. What its replies left of each model.
    pub(crate) fn forget(&self, conversation: i64) -> Vec<(ModelDigest, Unwanted)> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().map(|(digest, model)| (*digest, model.trails.forget(conversation))).collect()
    }

    fn known(&self, digest: ModelDigest) -> Option<Arc<OpenModel>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned()
    }
}

impl OpenModel {
    fn read(listed: Listed) -> Result<Self, HouseError> {
        let bad = |error: String| HouseError::new(ErrorCode::BadModel, error);
        let file = open_file(&listed.path)?;
        let vocabulary = file.vocabulary();
        let tokenizer = Tokenizer::new(&vocabulary).map_err(|error| bad(error.to_string()))?;
        let template =
            ChatTemplate::for_vocabulary(&vocabulary).map_err(|error| bad(error.to_string()))?;
        if let Some(form) = template.default_name() {
            tracing::info!(model = listed.name, form, "the model brings no chat template");
        }
        let shape = file.shape().clone();
        let (tokenizer, trails) = (Arc::new(tokenizer), TrailBook::default());
        Ok(Self { listed, shape, tokenizer, template, grammars: OnceLock::new(), trails })
    }

    /// What holds replies to a form. The first call takes a good part of a second for a large
    /// vocabulary: not on the runtime.
    pub(crate) fn grammars(&self) -> Result<&Grammars, GrammarError> {
        let laid_out = self.grammars.get_or_init(|| Grammars::new(&self.tokenizer));
        laid_out.as_ref().map_err(Clone::clone)
    }
}

/// Opens and checks the header of a model file; the sentence names the file and what is wrong.
pub(crate) fn open_file(path: &Path) -> Result<ModelFile, HouseError> {
    ModelFile::open(path).map_err(|error| HouseError::new(ErrorCode::BadModel, error.to_string()))
}
