//! Models of this device that are open: header, tokenizer and chat template.
//!
//! Opening reads the header and builds the tokenizer, which for a large vocabulary takes a good
//! part of a second; it happens off the runtime and once for each model: whoever asks meanwhile
//! waits for it, and it is open for the next one where nobody does any more. Weights are the
//! workers'.
//!
//! With a model goes what its replies have left, which its hosts are to be told
//! ([`OpenModelCache::new`]). A
//! file that only lies elsewhere, or has another name, is the same model.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use nook_base::{ErrorCode, ModelDigest, NotedFile, PeerId};
use nook_model::{ModelFile, ModelShape};
use nook_text::sandbox::{Answer, Question, Setup};
use nook_text::{
    ChatTemplate, GrammarError, Grammars, RenderJob, RenderedPrompt, ReplyShape, Tokenizer, Words,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::file_place::FilePlace;
use crate::prefix_cache::{PrefixCache, Unwanted};
use crate::sandbox::{Allowance, Sandbox, SandboxError, SandboxSource};
use nook_api::NodeError;

/// Models kept open; the one that was asked for longest ago goes when another comes.
const OPEN_MODELS_MAX: usize = 8;

/// What compiling a form may take. Schemas of real programs take some milliseconds.
const FORM_ALLOWANCE: Allowance =
    Allowance { processor: Duration::from_secs(1), wall: Duration::from_secs(20) };

/// What rendering a conversation may take. The longest that fit into a prompt take a second.
const RENDER_ALLOWANCE: Allowance =
    Allowance { processor: Duration::from_secs(5), wall: Duration::from_secs(60) };

/// Forms that are remembered as harmless; the one that was asked for longest ago is forgotten.
const HARMLESS_FORMS_MAX: usize = 64;

/// A model as the library lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name in the library.
    pub name: String,
    /// The digest by which all devices know it.
    pub digest: ModelDigest,
    /// Where its file is.
    pub path: FilePlace,
}

/// A model that is ready to turn text into ids and back.
#[derive(Debug)]
pub struct OpenModel {
    /// How the library lists it.
    pub listed: Listed,
    /// Layers, width and the like.
    pub shape: ModelShape,
    /// Text to ids and back.
    pub tokenizer: Arc<Tokenizer>,
    /// How a chat becomes one text.
    pub template: ChatTemplate,
    /// The vocabulary laid out for grammars, once a reply must have a form.
    grammars: OnceLock<Result<Grammars, GrammarError>>,
    /// Where forms are tried before they are compiled here.
    forms: Sandbox,
    harmless: HarmlessForms,
    /// Where the publisher's template renders.
    rendering: Sandbox,
    /// What its last replies left with the workers that made them.
    pub prefix_cache: Arc<PrefixCache>,
}

/// Forms that were tried, by a keyed hash: no client can find a second one of the same hash.
#[derive(Debug, Default)]
struct HarmlessForms {
    key: RandomState,
    // Guards a short list; never held across an await.
    known: Mutex<VecDeque<u64>>,
}

/// The models that are open. Cloning gives another handle to the same cache.
#[derive(Debug, Clone)]
pub struct OpenModelCache {
    /// The one that was asked for longest ago first.
    // Guards a short list; never held across an await or a read.
    open: Arc<Mutex<Vec<Arc<OpenModel>>>>,
    /// Held by whoever is opening that model.
    // Guards a short map; never held across an await or a read.
    turns: Arc<Mutex<BTreeMap<ModelDigest, Turn>>>,
    /// What a model that made room has left is told here.
    left: mpsc::Sender<(ModelDigest, Unwanted)>,
    sandboxes: SandboxSource,
}

type Turn = Arc<tokio::sync::Mutex<()>>;

/// What the models that are not open any more have left.
type Left = Vec<(ModelDigest, Unwanted)>;

impl OpenModelCache {
    /// An empty cache. What goes with a model that makes room comes out of `left`; `sandboxes` are
    /// for what strangers wrote.
    pub fn new(left: mpsc::Sender<(ModelDigest, Unwanted)>, sandboxes: SandboxSource) -> Self {
        Self { open: Arc::default(), turns: Arc::default(), left, sandboxes }
    }

    /// This device computes for its owner, or for others: what programs ask takes little of it for
    /// a while.
    pub fn note_computing(&self) {
        self.sandboxes.note_computing();
    }

    /// Opens `listed`, or hands out what is open. A model that was deleted and is here again may
    /// have another name and file than the one that is open.
    pub async fn open(&self, listed: Listed) -> Result<Arc<OpenModel>, NodeError> {
        if let Some(open) = self.known(&listed) {
            return Ok(open);
        }
        let turn = self.turn(listed.digest).lock_owned().await;
        if let Some(open) = self.known(&listed) {
            return Ok(open);
        }
        let open_models = self.clone();
        let opening = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            open_models.read(listed)
        });
        opening.await.map_err(|_| NodeError::from(ErrorCode::BadModel))?
    }

    /// Opens `listed` and puts it into the cache. Not on the runtime.
    fn read(&self, listed: Listed) -> Result<Arc<OpenModel>, NodeError> {
        let read = async |file: NotedFile| OpenModel::read(listed.clone(), &file, &self.sandboxes);
        let opened = Handle::current().block_on(listed.path.with(read))?;
        let (opened, left) = put(&mut self.models(), opened);
        for (digest, unwanted) in left {
            // A node that is leaving takes its workers and links along.
            let _ = self.left.blocking_send((digest, unwanted));
        }
        Ok(opened)
    }

    fn turn(&self, digest: ModelDigest) -> Turn {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody has or waits for are over.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(digest).or_default().clone()
    }

    /// A kept conversation was deleted: nothing of it is gone on with. What its replies left of
    /// each model.
    pub fn forget(&self, conversation: i64) -> Left {
        self.left(|model| model.prefix_cache.forget(conversation))
    }

    /// What has a part on devices that may not compute any more, or words of a model on those that may not
    /// see them.
    pub fn revoke(
        &self,
        may_compute: impl Fn(PeerId) -> bool,
        may_see: impl Fn(&Listed, PeerId) -> bool,
    ) -> Left {
        self.left(|model| {
            model.prefix_cache.revoke(&may_compute, |peer| may_see(&model.listed, peer))
        })
    }

    /// `peer` may have forgotten what it has of earlier replies with any model.
    pub fn doubt(&self, peer: PeerId) {
        self.models().iter().for_each(|model| model.prefix_cache.doubt(peer));
    }

    /// Only these models are on the list still. What the replies of the others have left.
    pub fn keep_only(&self, is_listed: impl Fn(ModelDigest) -> bool) -> Left {
        let mut models = self.models();
        let gone = models.extract_if(.., |model| !is_listed(model.listed.digest));
        gone.map(|model| (model.listed.digest, model.prefix_cache.close())).collect()
    }

    fn left(&self, of: impl Fn(&OpenModel) -> Unwanted) -> Left {
        let models = self.models();
        let left = models.iter().map(|model| (model.listed.digest, of(model)));
        left.filter(|(_, unwanted)| !unwanted.is_empty()).collect()
    }

    fn known(&self, listed: &Listed) -> Option<Arc<OpenModel>> {
        let mut models = self.models();
        let at = models.iter().position(|model| model.listed == *listed)?;
        let model = models.remove(at);
        models.push(model.clone());
        Some(model)
    }

    fn models(&self) -> MutexGuard<'_, Vec<Arc<OpenModel>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts a model into the cache. Who has opened it meanwhile was quicker; one of the same digest
/// that lay elsewhere gives what its replies have left. What those of a model that makes room have
/// left comes back.
fn put(models: &mut Vec<Arc<OpenModel>>, mut opened: OpenModel) -> (Arc<OpenModel>, Left) {
    let same = |model: &Arc<OpenModel>| model.listed.digest == opened.listed.digest;
    if let Some(at) = models.iter().position(same) {
        let known = models.remove(at);
        if known.listed == opened.listed {
            models.push(known.clone());
            return (known, Left::new());
        }
        opened.prefix_cache = known.prefix_cache.clone();
    }
    let beyond = (models.len() + 1).saturating_sub(OPEN_MODELS_MAX);
    let gone = models.drain(..beyond);
    let left = gone.map(|model| (model.listed.digest, model.prefix_cache.close())).collect();
    let opened = Arc::new(opened);
    models.push(opened.clone());
    (opened, left)
}

impl OpenModel {
    fn read(
        listed: Listed,
        file: &NotedFile,
        sandboxes: &SandboxSource,
    ) -> Result<Self, NodeError> {
        let bad = |error: String| NodeError::new(ErrorCode::BadModel, error);
        let file = open_file(file)?;
        let vocabulary = file.vocabulary().map_err(|error| bad(error.to_string()))?;
        let tokenizer = Tokenizer::new(&vocabulary).map_err(|error| bad(error.to_string()))?;
        let template =
            ChatTemplate::for_vocabulary(&vocabulary).map_err(|error| bad(error.to_string()))?;
        if let Some(form) = template.default_name() {
            tracing::info!(model = listed.name, form, "the model brings no chat template");
        }
        let shape = file.shape().clone();
        let (tokenizer, prefix_cache) = (Arc::new(tokenizer), Arc::default());
        Ok(Self {
            listed,
            shape,
            tokenizer,
            template,
            grammars: OnceLock::new(),
            forms: Sandbox::new(sandboxes.clone()),
            harmless: HarmlessForms::default(),
            rendering: Sandbox::new(sandboxes.clone()),
            prefix_cache,
        })
    }

    /// Renders a conversation with the template that came with the model, in a process of its own;
    /// none where the template is ours, which may run here.
    pub async fn render(&self, job: &RenderJob) -> Result<Option<RenderedPrompt>, NodeError> {
        if self.template.default_name().is_some() {
            return Ok(None);
        }
        let setup = async || Ok(Setup::of_template(&self.template));
        match self.rendering.ask(setup, &Question::render(job.clone()), RENDER_ALLOWANCE).await {
            Ok(Answer::Rendered(Ok(prompt))) => Ok(Some(prompt)),
            Ok(Answer::Rendered(Err(error))) => {
                Err(NodeError::new(ErrorCode::BadRequest, error.to_string()))
            }
            Ok(Answer::Compiled(_)) | Err(SandboxError::TooMuch) => {
                tracing::warn!(model = self.listed.name, "its chat template takes too much");
                let words = format!(
                    "The chat template in the file of {} takes too much time or memory for this \
                     conversation, and was stopped. Shorten the conversation, or choose another model.",
                    self.listed.name
                );
                Err(NodeError::new(ErrorCode::BadModel, words))
            }
            Err(error @ (SandboxError::NotStarted(_) | SandboxError::Busy)) => {
                Err(unstarted(&error))
            }
        }
    }

    /// Tries a form in a process of its own, unless it was found harmless before.
    pub async fn try_form(&self, shape: &ReplyShape) -> Result<(), NodeError> {
        let Some(question) = Question::compile(shape) else { return Ok(()) };
        let form = self.harmless.hash(shape);
        if self.harmless.has(form) {
            return Ok(());
        }
        // What is too large on its face needs no process to find that.
        shape.check_size().map_err(|error| unfit_form(&error))?;
        let tokenizer = self.tokenizer.clone();
        let setup = async move || {
            let words = tokio::task::spawn_blocking(move || Words::of(&tokenizer)).await;
            let words = words.map_err(|error| SandboxError::NotStarted(error.to_string()))?;
            let words = words.map_err(|error| SandboxError::NotStarted(error.to_string()))?;
            Ok(Setup::of_words(words))
        };
        match self.forms.ask_of_form(setup, &question, FORM_ALLOWANCE).await {
            Ok(Answer::Compiled(Ok(()))) => {
                self.harmless.put(form);
                Ok(())
            }
            Ok(Answer::Compiled(Err(detail))) => {
                Err(unfit_form(&GrammarError::Unsupported { detail }))
            }
            Ok(Answer::Rendered(_)) | Err(SandboxError::TooMuch) => {
                Err(unfit_form(&GrammarError::TakesTooMuch))
            }
            Err(error @ SandboxError::Busy) => {
                let words = format!("This device is busy: {error}. Try again shortly.");
                Err(NodeError::new(ErrorCode::Busy, words))
            }
            Err(error @ SandboxError::NotStarted(_)) => Err(unstarted(&error)),
        }
    }

    /// What holds replies to a form. The first call takes a good part of a second for a large
    /// vocabulary: not on the runtime.
    pub fn grammars(&self) -> Result<&Grammars, GrammarError> {
        let laid_out = self.grammars.get_or_init(|| Grammars::new(&self.tokenizer));
        laid_out.as_ref().map_err(Clone::clone)
    }
}

impl HarmlessForms {
    fn hash(&self, shape: &ReplyShape) -> u64 {
        match shape {
            ReplyShape::JsonObject => self.key.hash_one(0),
            ReplyShape::JsonSchema(schema) => self.key.hash_one((1, schema.0.to_string())),
            ReplyShape::Grammar(lark) => self.key.hash_one((2, &lark.0)),
        }
    }

    fn has(&self, form: u64) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = known.iter().position(|known| *known == form) else { return false };
        known.remove(at);
        known.push_back(form);
        true
    }

    fn put(&self, form: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == HARMLESS_FORMS_MAX {
            known.pop_front();
        }
        known.push_back(form);
    }
}

/// The complaint about a form that no reply can be held to.
pub fn unfit_form(error: &GrammarError) -> NodeError {
    let words = format!("The reply cannot be held to the form asked for: {error}.");
    NodeError::new(ErrorCode::BadRequest, words)
}

fn unstarted(error: &SandboxError) -> NodeError {
    tracing::warn!(%error, "nothing of strangers can be looked at");
    NodeError::new(ErrorCode::WorkerCrashed, error.to_string())
}

/// Opens and checks the header of a model file; the sentence names the file and what is wrong.
pub fn open_file(file: &NotedFile) -> Result<ModelFile, NodeError> {
    let opened = ModelFile::open_noted(file);
    opened.map_err(|error| NodeError::new(ErrorCode::BadModel, error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn ember(name: &str) -> Listed {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf");
        let path = FilePlace::new(path.into());
        Listed { name: name.to_owned(), digest: ModelDigest([1; 32]), path }
    }

    #[tokio::test]
    async fn a_model_whose_asker_has_left_is_opened_once_for_the_next_one() {
        let (left, _gone) = mpsc::channel(1);
        let open_models = OpenModelCache::new(left, crate::testing::no_sandboxes());
        let begun =
            pin!(open_models.open(ember("ember"))).poll(&mut Context::from_waker(Waker::noop()));
        assert!(begun.is_pending(), "it takes a while");
        // Its turn is over when it is in the cache.
        let turn = open_models.turn(ember("ember").digest).lock_owned().await;
        let open = open_models.known(&ember("ember")).expect("it was opened all the same");
        drop(turn);
        let again = open_models.open(ember("ember")).await.unwrap();
        assert!(Arc::ptr_eq(&open, &again));
        let renamed = open_models.open(ember("coal")).await.unwrap();
        assert!(
            !Arc::ptr_eq(&open, &renamed) && Arc::ptr_eq(&open.prefix_cache, &renamed.prefix_cache)
        );
    }
}
