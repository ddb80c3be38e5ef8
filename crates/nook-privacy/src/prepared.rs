//! A measurement before it begins: the file is open, what it takes is known, nothing is loaded.
//!
//! Three steps, so that whoever runs them can hold the process to its memory between them:
//! [`Prepared::of`] looks at the file and refuses what cannot be measured, [`Prepared::load`] takes
//! the weights into memory, [`Loaded::measure`] does the rest.

use std::collections::BTreeSet;

use nook_base::{FileStamp, LayerRange, ModelPart, NotedFile};
use nook_model::{LoadOptions, LoadedModel, ModelFile, Precision};

use crate::PrivacyError;
use crate::budget::{self, BESIDE_WEIGHTS_MAX, Extent};
use crate::cuts::Cuts;
use crate::measure::{
    CANDIDATES_MAX, CANDIDATES_MIN, MeasureWish, Meter, Progress, TOKENS_MAX, TOKENS_MIN,
    learnt_window, ways_max,
};
use crate::quality;
use crate::texts::Texts;
use crate::view::PrivacyView;

/// For each token that is right, as many are tried at least where nobody says how many: among few
/// others, a right one is found by luck.
const WRONG_BESIDE_RIGHT: usize = 8;

/// Tokens that replay tries when nobody says how many: as many as this allows, in products of a
/// weight and a number. On two cores of a laptop that is some minutes.
const REPLAY_WORK: f64 = 1e13;

/// Candidates that are tried where that allows it.
const CANDIDATES_USUAL: u32 = 2048;

/// Most tokens that a probe learns from.
const LEARNT_TOKENS: usize = 2048;

/// A measurement that can begin.
pub struct Prepared {
    meter: Meter,
}

/// The same with the weights in memory.
pub struct Loaded {
    meter: Meter,
}

/// Measures one model on the processor, and tells `progress` how far it is.
///
/// # Errors
///
/// See [`PrivacyError`].
pub fn measure(
    wish: &MeasureWish,
    progress: &dyn Fn(Progress),
) -> Result<PrivacyView, PrivacyError> {
    Prepared::of(wish, u64::MAX)?.load()?.measure(progress)
}

impl Prepared {
    /// Looks at the model file, and works out what the measurement takes of the `free` bytes of
    /// memory: beside the weights never more than [`BESIDE_WEIGHTS_MAX`]. Starts the compute threads.
    ///
    /// # Errors
    ///
    /// See [`PrivacyError`]: files that are no models, models that cannot be cut, layers that do not
    /// exist, too little memory.
    pub fn of(wish: &MeasureWish, free: u64) -> Result<Self, PrivacyError> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = wish.threads.unwrap_or_else(cores).max(1);
        // What is measured is what is digested: a file that changes meanwhile is refused.
        let facts = std::fs::metadata(&wish.model).map_err(PrivacyError::Stamp)?;
        let stamp = Some(FileStamp::of(&facts));
        let file = ModelFile::open_noted(&NotedFile { path: wish.model.clone(), stamp })?;
        let weights = file.weight_bytes(&ModelPart::whole(file.shape().layers));
        let left = free.checked_sub(weights);
        let left = left.ok_or(PrivacyError::NoRoom { weights, free })?;
        let cuts = Cuts::of(&file, wish.layers.as_deref())?;
        let texts = Texts::of(&file)?;
        let ids = attacked(&texts, file.shape().context_length, wish.tokens)?;
        let asked = u32::try_from(ids.len() - texts.special).unwrap_or(u32::MAX);
        let sizes = Sizes { file: &file, cuts: &cuts, texts: &texts, wish, threads };
        let most = left.min(BESIDE_WEIGHTS_MAX);
        let plan = budget::plan((asked, TOKENS_MIN), most, |tokens| sizes.extent(tokens))?;
        let candidates = sizes.candidates(&ids[texts.special..]);
        let options = LoadOptions { threads, precision: Precision::Auto };
        let model = LoadedModel::new(file, options)?;
        let (parts, noise) = (cuts.parts(), wish.noise);
        let meter = Meter { model, cuts, parts, ids, texts, candidates, noise, plan };
        Ok(Self { meter })
    }

    /// Bytes that the weights take.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        self.meter.model.part_bytes(&self.whole())
    }

    /// Bytes that the measurement takes beside the weights: never more than
    /// [`BESIDE_WEIGHTS_MAX`].
    #[must_use]
    pub fn beside_bytes(&self) -> u64 {
        self.meter.plan.bytes
    }

    /// Of these, what it has in use at its largest: without the program itself, its threads, and what
    /// an allocator leaves unused.
    #[must_use]
    pub fn in_use_bytes(&self) -> u64 {
        self.meter.plan.in_use
    }

    /// Layers of the model.
    #[must_use]
    pub fn layers(&self) -> u32 {
        self.meter.model.file().shape().layers
    }

    /// Takes the weights into memory.
    ///
    /// # Errors
    ///
    /// See [`PrivacyError`].
    pub fn load(mut self) -> Result<Loaded, PrivacyError> {
        let whole = self.whole();
        self.meter.model.hold(&whole)?;
        Ok(Loaded { meter: self.meter })
    }

    fn whole(&self) -> ModelPart {
        ModelPart::whole(self.layers())
    }
}

impl Loaded {
    /// Measures, and tells `progress` how far it is.
    ///
    /// # Errors
    ///
    /// See [`PrivacyError`].
    pub fn measure(self, progress: &dyn Fn(Progress)) -> Result<PrivacyView, PrivacyError> {
        let digest = self.meter.model.file().digest()?;
        self.meter.run(digest, progress)
    }
}

/// Shows neither text nor tokens nor where a file lies.
macro_rules! quiet_debug {
    ($name:ident) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("plan", &self.meter.plan)
                    .finish_non_exhaustive()
            }
        }
    };
}

quiet_debug!(Prepared);
quiet_debug!(Loaded);

/// As many tokens of the public text as are wanted and fit.
fn attacked(texts: &Texts, context: u32, wanted: u32) -> Result<Vec<u32>, PrivacyError> {
    let wanted = wanted.clamp(TOKENS_MIN, TOKENS_MAX) as usize + texts.special;
    let end = wanted.min(texts.held_out.len()).min(context as usize);
    if end < TOKENS_MIN as usize + texts.special {
        return Err(PrivacyError::TooShort { context, least: TOKENS_MIN + 1 });
    }
    Ok(texts.held_out[..end].to_vec())
}

/// What the sizes of a measurement come from.
struct Sizes<'a> {
    file: &'a ModelFile,
    cuts: &'a Cuts,
    texts: &'a Texts,
    wish: &'a MeasureWish,
    threads: usize,
}

impl Sizes<'_> {
    /// Tokens among which attacks look where these are `right`: as many as are wanted, or as take
    /// some minutes, but enough wrong ones beside each right one.
    fn candidates(&self, right: &[u32]) -> usize {
        let usual = || {
            // About one weight a byte: more is said of small models than of large ones.
            let whole = ModelPart::whole(self.file.shape().layers);
            let weights = self.file.weight_bytes(&whole) as f64;
            let allowed = REPLAY_WORK / (weights * right.len() as f64).max(1.0);
            let right: BTreeSet<&u32> = right.iter().collect();
            let least = WRONG_BESIDE_RIGHT * right.len();
            let least = u32::try_from(least).unwrap_or(CANDIDATES_USUAL);
            (allowed as u32).clamp(least.clamp(CANDIDATES_MIN, CANDIDATES_USUAL), CANDIDATES_USUAL)
        };
        let wanted = self.wish.candidates.unwrap_or_else(usual);
        wanted.clamp(CANDIDATES_MIN, CANDIDATES_MAX) as usize
    }

    /// The sizes of a measurement of so many tokens.
    fn extent(&self, tokens: u32) -> Extent {
        let (shape, texts) = (self.file.shape(), self.texts);
        let tokens = tokens as usize;
        let right = &texts.held_out[texts.special..];
        let right = &right[..right.len().min(tokens)];
        let count = |count: usize| count as u64;
        let window = learnt_window(shape.context_length);
        let noise = if self.wish.noise { quality::POSITIONS_MAX } else { 0 };
        let longest = window.max(noise).max(texts.special + tokens);
        let longest = u32::try_from(longest).unwrap_or(u32::MAX);
        let layers = LayerRange::all(shape.layers);
        let parts = self.cuts.parts();
        let of_part = |positions| {
            let bytes = parts.iter().map(|part| self.file.cache_bytes(part.layers, positions));
            bytes.fold(0, u64::max)
        };
        let vocabulary = shape.vocabulary as usize;
        Extent {
            tokens: count(tokens),
            special: count(texts.special),
            cuts: count(self.cuts.before().len()),
            ways: count(ways_max(tokens, self.wish.noise)),
            width: shape.row.into(),
            vocabulary: count(vocabulary),
            // A vocabulary that is no larger is tried whole.
            candidates: count(self.candidates(right).min(vocabulary)),
            learnt: count(texts.learnt.len().min(LEARNT_TOKENS)),
            window: count(window),
            noise: count(noise),
            row_bytes: budget::row_bytes(shape),
            caches: (0..=longest).map(|at| self.file.cache_bytes(layers, at)).collect(),
            part_caches: (0..=longest).map(of_part).collect(),
            threads: count(self.threads),
        }
    }
}
