//! Why nothing was measured.

use nook_model::{ModelError, StepError};
use nook_text::{EncodeError, TokenizerError};

use crate::budget::{gib, gib_below};

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum PrivacyError {
    /// The file is no usable model.
    #[error(transparent)]
    Model(ModelError),
    /// The file says nothing of itself.
    #[error("the model file cannot be looked at: {0}")]
    Stamp(#[source] std::io::Error),
    /// The vocabulary makes no tokenizer.
    #[error("this model has no usable tokenizer")]
    Tokenizer(#[source] TokenizerError),
    /// The public text has no ids in this vocabulary.
    #[error("the text that is measured with cannot be turned into token ids of this model")]
    Encode(#[from] EncodeError),
    /// No layer of the model may be computed by another device, so no helper sees anything.
    #[error(
        "this model cannot be cut: its layers stay together on one computer, so helpers see nothing of it"
    )]
    Uncuttable,
    /// Layers that the model cannot be cut before, or does not have.
    #[error("--layers {asked}: this model can be cut before the layers {legal}")]
    Layers {
        /// The first one that is wrong.
        asked: u32,
        /// Those that there are.
        legal: String,
    },
    /// The model has too few positions for any text.
    #[error("this model takes {context} tokens at most; measuring needs {least}")]
    TooShort {
        /// Positions of the model.
        context: u32,
        /// The fewest that a measurement takes.
        least: u32,
    },
    /// It would take more memory beside the weights than it may.
    #[error(
        "measuring {tokens} tokens of this model takes {} beside its weights, and at most {} can be used here; {}",
        gib(*needs), gib_below(*most), way_out(*fitting)
    )]
    TooLarge {
        /// Tokens that were to be attacked.
        tokens: u32,
        /// Bytes that these take at the least.
        needs: u64,
        /// Bytes that it may take: [`crate::BESIDE_WEIGHTS_MAX`], or less where less is free.
        most: u64,
        /// The most tokens that fit; absent where none do.
        fitting: Option<u32>,
    },
    /// The machine, or what the system lets this process have, has no room for the model.
    #[error(
        "the weights of this model take {}, and {} are free for them here; close other programs, or measure a \
         smaller model", gib(*weights), gib_below(*free)
    )]
    NoRoom {
        /// Bytes of weights.
        weights: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The system gave no more memory.
    #[error("{OUT_OF_MEMORY}")]
    OutOfMemory,
    /// A step failed.
    #[error("the model could not be computed")]
    Step(#[source] StepError),
    /// Two activations of the same positions differ in their size: a mistake in this program.
    #[error("the model gave an activation of another size than before")]
    Size,
    /// The numbers of the model cannot be calculated with.
    #[error("the activations of this model are not finite: there is nothing to measure")]
    NotFinite,
}

/// What is said where a measurement ran out of memory.
pub const OUT_OF_MEMORY: &str = "the measurement was ended: it got no more memory; close other programs, or \
                                 measure fewer tokens with --tokens";

impl From<ModelError> for PrivacyError {
    fn from(error: ModelError) -> Self {
        if error.fault.is_out_of_memory() { Self::OutOfMemory } else { Self::Model(error) }
    }
}

impl From<StepError> for PrivacyError {
    fn from(error: StepError) -> Self {
        if error.is_out_of_memory() { Self::OutOfMemory } else { Self::Step(error) }
    }
}

/// What fits in place of what was asked for.
fn way_out(fitting: Option<u32>) -> String {
    match fitting {
        Some(tokens) => format!("{tokens} tokens fit: --tokens {tokens}"),
        None => "no number of tokens fits".to_owned(),
    }
}
