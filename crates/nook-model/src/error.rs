//! What can be wrong with a model file, and what to do about it.
//!
//! [`ModelError`] names the file; its [`Fault`] names the key or tensor and what was expected.

mod manifest;
mod presence;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use manifest::ManifestError;
pub use presence::PresenceError;

/// A model file that cannot be used.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a model file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file could not be read.
    #[error("cannot be read while {doing} ({kind})")]
    Read {
        /// What was being done.
        doing: &'static str,
        /// The system's reason.
        kind: io::ErrorKind,
    },
    /// The file does not begin as a GGUF file does.
    #[error("is not a GGUF file")]
    NotGguf,
    /// A GGUF version that is not 2 or 3 (or a big-endian file).
    #[error("is GGUF version {got}; versions 2 and 3 can be read")]
    Version {
        /// The version in the file.
        got: u32,
    },
    /// The file ends too early.
    #[error("ends inside {inside}; it needs {needed} more bytes and has {left}")]
    Truncated {
        /// What was being read.
        inside: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes left.
        left: u64,
    },
    /// More of something than any model has.
    #[error("has {got} for {what}; the most is {limit}")]
    TooMany {
        /// What there is too much of.
        what: String,
        /// How many.
        got: u64,
        /// The limit.
        limit: u64,
    },
    /// A key or tensor name that is empty or not UTF-8, or a text that is not UTF-8.
    #[error("has a text for {what} that is empty or not UTF-8")]
    Text {
        /// Which text.
        what: String,
    },
    /// The same metadata key twice.
    #[error("has the key {key} twice")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The same tensor twice.
    #[error("has the tensor {tensor} twice")]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
    },
    /// A metadata value of a type that GGUF does not have, or that has no use here.
    #[error("has a value of unknown type {type_id} for {key}")]
    ValueType {
        /// The key.
        key: String,
        /// The type number.
        type_id: u32,
    },
    /// A metadata value that must be there.
    #[error("lacks the key {key}")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A metadata value that makes no sense.
    #[error("has {got} for {key}, where {expected} is expected")]
    BadValue {
        /// The key.
        key: String,
        /// The value.
        got: String,
        /// What it must be.
        expected: String,
    },
    /// Divisors of rotary frequencies that no model could have.
    #[error("has rope factors that are not numbers of at least 0.001")]
    RopeFactors,
    /// A tensor of a type that GGUF does not have.
    #[error("has the tensor {tensor} in unknown type {type_id}")]
    TensorType {
        /// The tensor.
        tensor: String,
        /// The type number.
        type_id: u32,
    },
    /// A tensor of a type that cannot be computed with yet.
    #[error("has the tensor {tensor} in {type_name}, which this version cannot compute")]
    UnsupportedTensorType {
        /// The tensor.
        tensor: String,
        /// The type's name.
        type_name: &'static str,
    },
    /// A tensor with impossible dimensions.
    #[error("has the tensor {tensor} with impossible dimensions {dimensions:?}")]
    Dimensions {
        /// The tensor.
        tensor: String,
        /// Its dimensions.
        dimensions: Vec<u64>,
    },
    /// A tensor that does not lie where tensors may lie.
    #[error("has the tensor {tensor} at offset {offset}, which is {problem}")]
    Place {
        /// The tensor.
        tensor: String,
        /// Its offset in the data.
        offset: u64,
        /// What is wrong with that.
        problem: &'static str,
    },
    /// An architecture that this program does not know.
    #[error("is of the architecture {architecture}, which is not supported: {architecture}")]
    Architecture {
        /// The architecture.
        architecture: String,
    },
    /// A tensor that the architecture needs.
    #[error("lacks the tensor {tensor}")]
    MissingTensor {
        /// The tensor.
        tensor: String,
    },
    /// A tensor of another shape than the architecture needs.
    #[error("has the tensor {tensor} as {got:?} instead of {expected:?}")]
    TensorShape {
        /// The tensor.
        tensor: String,
        /// Dimensions in the file, fastest first.
        got: Vec<u64>,
        /// Dimensions expected.
        expected: Vec<u64>,
    },
    /// A tensor that nothing would read: the model is not what it says.
    #[error("has the tensor {tensor}, which its architecture does not use")]
    UnreadTensor {
        /// The tensor.
        tensor: String,
    },
    /// One piece of a model that was published in several files.
    #[error(
        "is piece {number} of a model that was cut into {count} files; put all of them into one folder, then import the first"
    )]
    Piece {
        /// Which, from 1.
        number: u32,
        /// How many there are.
        count: u32,
    },
    /// A file that is not the piece of a model that it should be.
    #[error("is not piece {number} of {count} of one model: {problem}")]
    NotThePiece {
        /// Which it should be, from 1.
        number: u32,
        /// How many there should be.
        count: u32,
        /// What is wrong.
        problem: String,
    },
    /// The file is not the one that was opened.
    #[error("changed while it was in use")]
    Changed,
    /// A part of the model that has not arrived in this partial file.
    #[error("is a partial file, and some of the model is not in this file yet: {what}")]
    Absent {
        /// What is absent.
        what: String,
    },
    /// The record of the tensors that are in a partial file cannot be used.
    #[error("cannot be used: {error}")]
    Presence {
        /// What is wrong with it.
        error: PresenceError,
    },
    /// Reading the whole file was stopped by the caller.
    #[error("was not read to its end, because the caller stopped it")]
    Stopped,
    /// Another file of the same model was to be read on, and is not laid out like the first.
    #[error("is not laid out like the file that was loaded before")]
    OtherLayout,
    /// A part of the model that does not exist.
    #[error("has {layers} layers; layers {asked} were asked for")]
    NoSuchLayers {
        /// Layers of the model.
        layers: u32,
        /// Layers asked for.
        asked: String,
    },
    /// There is no memory for it.
    #[error("needs {bytes} bytes of memory that are not free")]
    OutOfMemory {
        /// Bytes needed.
        bytes: u64,
    },
    /// The system gave no threads to compute with.
    #[error("cannot be computed: no threads")]
    NoThreads,
    /// A device that this program was built without.
    #[error("cannot be computed on {device}: this program was built without support for it")]
    DeviceSupport {
        /// The device.
        device: String,
    },
    /// A device that is not there, or does not work.
    #[error("cannot be computed on {device}: {reason}")]
    DeviceMissing {
        /// The device.
        device: String,
        /// What its library said.
        reason: String,
    },
    /// A device that the kernels of this program do not run on.
    #[error(
        "cannot be computed on {device}: its compute capability is {has}, this program was built \
         for {needs}"
    )]
    DeviceCapability {
        /// The device.
        device: String,
        /// What the device has.
        has: String,
        /// What the program was built for.
        needs: String,
    },
    /// A graphics card failed at something.
    #[error("could not be put on the graphics card: {reason}")]
    Card {
        /// What its library said.
        reason: String,
    },
    /// The memory of a graphics card has no room for it.
    #[error("has no room in the memory of the graphics card: {reason}")]
    CardOutOfMemory {
        /// What its library said.
        reason: String,
    },
    /// A GPU could not do its part; the kind says whose turn it is then.
    #[error("could not be computed on a GPU: {error}")]
    Gpu {
        /// What went wrong there.
        error: nook_gpu::GpuError,
    },
    /// A part of the model that ends where the model cannot be cut.
    #[error("cannot be cut before layer {layer}: what a layer before remembers is read behind it")]
    Cut {
        /// The layer after the cut.
        layer: u32,
    },
    /// A layer with a part that candle has no code for.
    #[error("has {what} in layer {layer}, which candle does not compute")]
    NeedsProcessor {
        /// The layer.
        layer: u32,
        /// The part, in words.
        what: &'static str,
    },
    /// Too long a context was asked for.
    #[error("has a context of {limit} positions; {asked} were asked for")]
    ContextLength {
        /// Positions of the model.
        limit: u32,
        /// Positions asked for.
        asked: u32,
    },
    /// A part was asked to compute that is not in memory.
    #[error("does not have {what} in memory")]
    NotHeld {
        /// What is missing.
        what: String,
    },
}

impl ModelError {
    pub(crate) fn new(file: &Path, fault: Fault) -> Self {
        Self { file: file.to_owned(), fault }
    }
}

impl Fault {
    pub(crate) fn read(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Read { doing, kind: error.kind() }
    }

    /// Whether less in memory, of the computer or of its GPU, would have helped.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::OutOfMemory { .. } | Self::CardOutOfMemory { .. } => true,
            Self::Gpu { error } => error.is_out_of_memory(),
            _ => false,
        }
    }

    /// What a person can do about it; empty where the message says it itself.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Read { .. } => "Check that the file is there and may be read.",
            Self::Changed => "Load the model again.",
            Self::Absent { .. } => "Fetch them first, or load what has arrived.",
            Self::Presence { error } => error.remedy(),
            Self::Stopped => "Read it again.",
            Self::OutOfMemory { .. } => "Close other programs, or load fewer layers.",
            Self::NoThreads => "Close other programs.",
            Self::DeviceSupport { .. } => {
                "Set `distributed_inference.backend` to `auto`, `native`, `gpu` or `candle`. NVIDIA \
                 cards through candle need the program `nook-worker-cuda` beside this one (`cargo \
                 xtask bundle --cuda` makes it), Apple's a build with the feature `metal`."
            }
            Self::DeviceMissing { .. } => {
                "Check the card and its driver, or compute on the processor."
            }
            Self::DeviceCapability { .. } => {
                "Compute on the processor, or build this program for that card (CUDA_COMPUTE_CAP)."
            }
            Self::Card { .. } | Self::CardOutOfMemory { .. } => {
                "Load fewer layers, or compute on the processor."
            }
            Self::NeedsProcessor { .. } => "Compute on the processor, or on a GPU without candle.",
            // Errors of a GPU say it themselves.
            Self::Gpu { .. } => "",
            Self::ContextLength { .. } => "Ask for a shorter context.",
            Self::NoSuchLayers { .. } | Self::NotHeld { .. } | Self::Cut { .. } => {
                "Load the layers that are asked for."
            }
            Self::Architecture { .. }
            | Self::UnsupportedTensorType { .. }
            | Self::Version { .. } => "Choose another model or another quantisation of it.",
            _ => "Download the file again, or take it from another publisher.",
        }
    }
}

impl From<PresenceError> for Fault {
    fn from(error: PresenceError) -> Self {
        Self::Presence { error }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.", self.file.display(), self.fault)?;
        match self.fault.remedy() {
            "" => Ok(()),
            remedy => write!(f, " {remedy}"),
        }
    }
}

impl std::error::Error for ModelError {}
