//! Looking inside: what a model file says, and what its tokenizer, its chat template and its layers
//! make of an input. For tinkerers, scripts and tests (`nook debug`).
//!
//! Owns nothing and needs no running node: every function takes paths and plain values, blocks
//! until it is done, and gives a view that a door prints. The work is done by the same code that
//! answers prompts: the header reader of `nook-model`, tokenizer and template of `nook-text`,
//! layers and the wire encoding. Files may lie anywhere and may be hostile.

mod bench;
mod gguf;
mod logits;
mod text;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nook_model::gguf::Header;
use nook_model::{Fault, ModelError, StepError};
use nook_text::{EncodeError, TemplateError, TokenizerError};
use nook_wire::{DecodeError, TensorError};

pub use bench::{BenchView, BenchWish, BenchedModel, bench, bench_as_told, benched_model};
pub use gguf::{GgufView, ModelVerdict, TensorView, gguf};
pub use logits::{Instructions, LogitsView, LogitsWish, PartView, logits};
pub use text::{
    Conversation, RenderedView, TemplateSource, TokenizeOptions, TokensView, template, tokenize,
};

/// Why something cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The file is no usable model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A file that belongs to the question cannot be read or written.
    #[error("{} cannot be {done}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// `read` or `written`.
        done: &'static str,
        /// Why.
        source: io::Error,
    },
    /// What another program told is not what can be measured.
    #[error("what to measure cannot be read")]
    Wish(#[from] serde_json::Error),
    /// The vocabulary makes no tokenizer.
    #[error("{} has no usable tokenizer", file.display())]
    Tokenizer {
        /// The model file.
        file: PathBuf,
        /// Why.
        source: TokenizerError,
    },
    /// The text has no ids in this vocabulary.
    #[error("the text cannot be turned into token ids")]
    Encode(#[from] EncodeError),
    /// The conversation is not what it should be.
    #[error("{} is no conversation: {problem}", file.display())]
    Conversation {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The template refused or failed; its own words.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// No ids were given.
    #[error("logits need at least one token id: --ids 1,2,3")]
    NoIds,
    /// Cut points that do not rise, or lie outside the model.
    #[error(
        "--split needs rising layer numbers between 1 and {last} for this model of {layers} layers, not {got}"
    )]
    Split {
        /// What was given.
        got: String,
        /// Highest possible cut.
        last: u32,
        /// Layers of the model.
        layers: u32,
    },
    /// More positions than one step may carry.
    #[error("--chunk must be between 1 and {max}, not {got}")]
    Chunk {
        /// What was given.
        got: u32,
        /// The most.
        max: u32,
    },
    /// The processor lacks the instruction set.
    #[error("this processor has no {wanted}; it has {had}")]
    Instructions {
        /// What was asked for.
        wanted: Instructions,
        /// What there is.
        had: String,
    },
    /// The compute threads did not start.
    #[error("the compute threads could not be started: {reason}")]
    Threads {
        /// Why.
        reason: String,
    },
    /// A step failed.
    #[error("the step from position {position} on failed")]
    Step {
        /// Its first position.
        position: u32,
        /// Why.
        source: StepError,
    },
    /// Hidden states that cannot travel, for instance because they are not finite.
    #[error("the hidden states after layer {layer} cannot be sent to another device: {problem}")]
    Hidden {
        /// The layer that they come from.
        layer: String,
        /// What is wrong with them.
        problem: String,
    },
    /// Our own frame did not come back as it was: a mistake in this program.
    #[error("a frame of ours cannot be read back")]
    Frame(#[from] DecodeError),
    /// Our own chunks did not come back as they were: a mistake in this program.
    #[error("chunks of ours cannot be put together")]
    Chunks(#[from] TensorError),
}

/// Reads the header of any GGUF file, whether or not it is a model that can be computed.
fn header(path: &Path) -> Result<Header, ModelError> {
    let fault = |fault| ModelError { file: path.to_owned(), fault };
    let unread = |error: io::Error| fault(Fault::Read { doing: "opening it", kind: error.kind() });
    // Asked before opening: opening a pipe would wait for a writer.
    if !path.metadata().map_err(unread)?.is_file() {
        return Err(fault(Fault::NotGguf));
    }
    let file = File::open(path).map_err(unread)?;
    let length = file.metadata().map_err(unread)?.len();
    Header::read(&file, length).map_err(fault)
}
