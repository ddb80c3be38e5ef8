//! A session: the caches of one part of a model, for one sequence of positions.
//!
//! A step appends positions: token ids or hidden states in, hidden states or logits out. A step
//! that fails, or is cancelled, leaves the session as it was. Nothing here depends on the time, on
//! other sessions or on how many positions come in one step: the same positions give the same bits
//! (on graphics cards, the same numbers within rounding).

use nook_base::{DeviceBytes, LogitRows, ModelPart};

use crate::device::Device;
use crate::file::ModelFile;
use crate::loaded::LoadedModel;
use crate::loaded::pass::{self, BatchPiece};
use crate::parts::{Broken, LayerState};

/// What goes into a step.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// Token ids, for a part with the embedding.
    Tokens(&'a [u32]),
    /// Hidden states `(positions, row)` ([`crate::ModelShape::row`]), for a part without it.
    Hidden(&'a [f32]),
}

/// What comes out of a step.
#[derive(Clone, PartialEq)]
pub enum Output {
    /// Hidden states `(positions, row)`, of a part without the head.
    Hidden(Vec<f32>),
    /// Logits `(rows, vocabulary)`, of a part with it.
    Logits {
        /// How many rows.
        rows: u32,
        /// The numbers.
        values: Vec<f32>,
    },
}

/// A step that was not done. The session is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// Nothing came in.
    #[error("a step without positions")]
    Empty,
    /// There is no room for so many positions.
    #[error("{count} positions from {position} on do not fit the {limit} of this session")]
    TooLong {
        /// Positions before the step.
        position: u32,
        /// Positions of the step.
        count: usize,
        /// Most positions of the session.
        limit: u32,
    },
    /// Token ids for a part without the embedding, or hidden states for one with it.
    #[error("this part of the model takes {expected}")]
    WrongInput {
        /// What it takes.
        expected: &'static str,
    },
    /// A token id that the model does not have. (The id itself stays private.)
    #[error("number {index} of the token ids is not below {vocabulary}")]
    NoSuchToken {
        /// Which of the ids.
        index: usize,
        /// Tokens of the model.
        vocabulary: u32,
    },
    /// Hidden states that are not rows as they go from layer to layer of the model.
    #[error("{got} numbers are not hidden states of width {width}")]
    Width {
        /// Numbers that came.
        got: usize,
        /// Width of the model.
        width: u32,
    },
    /// The session was made for another model, or on another device.
    #[error("the session belongs to another model or another device")]
    OtherModel,
    /// The weights are not in memory any more.
    #[error("{what} is not in memory")]
    NotHeld {
        /// What is missing.
        what: String,
    },
    /// There is no memory for the cache.
    #[error("no memory for {positions} positions")]
    OutOfMemory {
        /// Positions that the cache should hold.
        positions: u32,
    },
    /// The sessions of a batch are over different parts of the model.
    #[error("the sessions of a batch are over different parts of the model")]
    OtherPart,
    /// The caller asked to stop.
    #[error("the step was cancelled")]
    Cancelled,
    /// A GPU failed; the kind says whether its work goes elsewhere.
    #[error("the step could not be computed on a GPU: {error}")]
    Gpu {
        /// What went wrong there.
        error: nook_gpu::GpuError,
    },
    /// A kernel refused its input: a mistake in this program.
    #[error("the step could not be computed: {reason}")]
    Compute {
        /// What it said.
        reason: String,
    },
}

impl StepError {
    /// Whether less in memory, of the computer or of its GPU, would have helped.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::OutOfMemory { .. } => true,
            Self::Gpu { error } => error.is_out_of_memory(),
            _ => false,
        }
    }
}

/// More positions were to be kept than there are; or the model remembers in states that know only
/// where they are, where they were before the last step, and the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot keep {asked} positions of {position}")]
pub struct TruncateError {
    /// Positions there are.
    pub position: u32,
    /// Positions asked for.
    pub asked: u32,
}

/// A session that cannot go on as asked. It is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// Not so many positions can be kept.
    #[error(transparent)]
    Truncate(TruncateError),
    /// More positions than the model knows, or fewer than are kept.
    #[error(
        "a window of {asked} does not hold {kept} positions, or is beyond the {limit} of the model"
    )]
    Window {
        /// Positions asked for.
        asked: u32,
        /// Positions to keep.
        kept: u32,
        /// Positions that the model knows.
        limit: u32,
    },
    /// Some models turn positions by other frequencies when the window is wide, and what is
    /// remembered was turned by those of the old window.
    #[error("a window of {asked} turns positions otherwise than the {window} of this session")]
    TurnsOtherwise {
        /// Positions asked for.
        asked: u32,
        /// Most positions of the session.
        window: u32,
    },
}

/// One mutable timeline over one part of a model.
#[derive(Debug)]
pub struct Session {
    pub(crate) file: ModelFile,
    /// Where the states are.
    device: Device,
    pub(crate) part: ModelPart,
    pub(crate) positions_max: u32,
    pub(crate) position: u32,
    /// One for each layer of the part.
    pub(crate) states: Vec<LayerState>,
}

impl Session {
    pub(crate) fn new(model: &LoadedModel, part: ModelPart, positions_max: u32) -> Self {
        let file = model.file().clone();
        let blocks = &file.description().blocks;
        let layers = part.layers.iter();
        let layers = layers.filter_map(|index| Some((index, blocks.get(index as usize)?)));
        let states = layers.map(|(index, block)| model.empty_state(index, block)).collect();
        Self { file, device: model.device(), part, positions_max, position: 0, states }
    }

    /// Computes the positions of `input` and appends them.
    pub fn step(
        &mut self,
        model: &LoadedModel,
        input: Input<'_>,
        rows: LogitRows,
    ) -> Result<Output, StepError> {
        self.step_unless(model, input, rows, &|| false)
    }

    /// As [`Self::step`]; asks `cancelled` before each layer, and stops when it says so.
    pub fn step_unless(
        &mut self,
        model: &LoadedModel,
        input: Input<'_>,
        rows: LogitRows,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Output, StepError> {
        let mut batch = [BatchPiece { session: self, input, rows }];
        match pass::run(model, &mut batch, cancelled) {
            Ok(mut outputs) => Ok(outputs.pop().expect("a batch gives an output for each piece")),
            Err(error) => Err(error.error),
        }
    }

    /// Forgets all positions but the first `positions`, and gives back the memory of whole blocks.
    pub fn truncate(&mut self, positions: u32) -> Result<(), TruncateError> {
        self.check_truncate(positions)?;
        self.position = positions;
        self.states.iter_mut().for_each(|state| state.truncate(positions));
        Ok(())
    }

    /// Lets the session go on after its first `positions` positions, as if it had been opened for
    /// at most `positions_max`. The room that they take must have been promised before.
    pub fn resume(&mut self, positions: u32, positions_max: u32) -> Result<(), ResumeError> {
        self.check_resume(positions, positions_max)?;
        self.truncate(positions).map_err(ResumeError::Truncate)?;
        self.positions_max = positions_max;
        Ok(())
    }

    /// Whether [`Self::resume`] would be done.
    pub fn check_resume(&self, positions: u32, positions_max: u32) -> Result<(), ResumeError> {
        self.check_truncate(positions).map_err(ResumeError::Truncate)?;
        let limit = self.file.shape().context_length;
        if positions_max < positions || positions_max > limit {
            return Err(ResumeError::Window { asked: positions_max, kept: positions, limit });
        }
        let window = self.positions_max;
        let mut ropes = self.file.description().ropes.iter();
        if positions > 0 && !ropes.all(|rope| rope.turns_alike(window, positions_max)) {
            return Err(ResumeError::TurnsOtherwise { asked: positions_max, window });
        }
        Ok(())
    }

    fn check_truncate(&self, positions: u32) -> Result<(), TruncateError> {
        let possible = self.states.iter().all(|state| state.can_truncate(positions));
        if positions > self.position || !possible {
            return Err(TruncateError { position: self.position, asked: positions });
        }
        Ok(())
    }

    /// A session over a part of this one's, with what this one remembers of those layers, until
    /// [`Self::take_back`].
    pub(crate) fn lend(&mut self, part: ModelPart) -> Self {
        let begin = part.layers.start().saturating_sub(self.part.layers.start()) as usize;
        let end = begin + part.layers.len() as usize;
        let states = self.states.drain(begin..end).collect();
        let Self { device, positions_max, position, .. } = *self;
        Self { file: self.file.clone(), device, part, positions_max, position, states }
    }

    /// Takes back what was lent last.
    pub(crate) fn take_back(&mut self, lent: Self) {
        let begin = lent.part.layers.start().saturating_sub(self.part.layers.start()) as usize;
        self.states.splice(begin..begin, lent.states);
    }

    /// Positions so far.
    #[must_use]
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Most positions.
    #[must_use]
    pub fn positions_max(&self) -> u32 {
        self.positions_max
    }

    /// Bytes that the caches hold now.
    #[must_use]
    pub fn cache_bytes(&self) -> u64 {
        self.states.iter().map(LayerState::bytes).sum()
    }

    /// [`Self::cache_bytes`] where they lie. What candle computes counts as the computer's memory.
    #[must_use]
    pub fn cache_bytes_by_device(&self) -> DeviceBytes {
        let is_gpu = matches!(self.device, Device::Gpu(_) | Device::BestGpu);
        let place = |state: &LayerState| match state {
            LayerState::OnDevice(_) if is_gpu => DeviceBytes { memory: 0, gpu: state.bytes() },
            _ => DeviceBytes::in_memory(state.bytes()),
        };
        self.states.iter().map(place).sum()
    }

    /// The part of the model.
    #[must_use]
    pub fn part(&self) -> ModelPart {
        self.part
    }

    /// Checks everything that can be wrong with a step before anything changes; the positions of
    /// it. What a step may still meet afterwards is want of memory and a caller who leaves.
    pub fn check(&self, model: &LoadedModel, input: Input<'_>) -> Result<u32, StepError> {
        if !model.file().is_same(&self.file) || model.device() != self.device {
            return Err(StepError::OtherModel);
        }
        if let Some(what) = model.missing(&self.part) {
            return Err(StepError::NotHeld { what });
        }
        let count = match (input, self.part.embedding) {
            (Input::Tokens(ids), true) => self.check_tokens(ids)?,
            (Input::Hidden(hidden), false) => self.check_hidden(hidden)?,
            (_, true) => {
                return Err(StepError::WrongInput { expected: "token ids" });
            }
            (_, false) => {
                return Err(StepError::WrongInput { expected: "hidden states" });
            }
        };
        let room = (self.positions_max - self.position) as usize;
        if count == 0 {
            return Err(StepError::Empty);
        }
        if count > room {
            return Err(StepError::TooLong {
                position: self.position,
                count,
                limit: self.positions_max,
            });
        }
        Ok(count as u32)
    }

    fn check_tokens(&self, ids: &[u32]) -> Result<usize, StepError> {
        let vocabulary = self.file.shape().vocabulary;
        match ids.iter().position(|id| *id >= vocabulary) {
            Some(index) => Err(StepError::NoSuchToken { index, vocabulary }),
            None => Ok(ids.len()),
        }
    }

    fn check_hidden(&self, hidden: &[f32]) -> Result<usize, StepError> {
        let width = self.file.shape().row;
        if hidden.len().is_multiple_of(width as usize) {
            return Ok(hidden.len() / width as usize);
        }
        Err(StepError::Width { got: hidden.len(), width })
    }

    pub(crate) fn reserve(&mut self, positions: u32) -> Result<(), StepError> {
        if self.states.iter_mut().all(|state| state.reserve(positions)) {
            return Ok(());
        }
        Err(StepError::OutOfMemory { positions })
    }
}

impl From<Broken> for StepError {
    fn from(broken: Broken) -> Self {
        Self::Compute { reason: broken.reason }
    }
}

impl std::fmt::Debug for Output {
    /// Sizes only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hidden(values) => write!(f, "Hidden({} numbers)", values.len()),
            Self::Logits { rows, .. } => write!(f, "Logits({rows} rows)"),
        }
    }
}

impl std::fmt::Debug for Input<'_> {
    /// Sizes only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tokens(ids) => write!(f, "Tokens({})", ids.len()),
            Self::Hidden(values) => write!(f, "Hidden({} numbers)", values.len()),
        }
    }
}
