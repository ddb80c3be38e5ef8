//! Why nothing was measured.

use std::path::PathBuf;

use nook_model::{ModelError, StepError};
use nook_text::{EncodeError, TokenizerError};

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum PrivacyError {
    /// The file is no usable model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The vocabulary makes no tokenizer.
    #[error("{} has no usable tokenizer", file.display())]
    Tokenizer {
        /// The model file.
        file: PathBuf,
        /// Why.
        source: TokenizerError,
    },
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
    /// A step failed.
    #[error("the model could not be computed")]
    Step(#[from] StepError),
    /// Two activations of the same positions differ in their size: a mistake in this program.
    #[error("the model gave an activation of another size than before")]
    Size,
    /// The numbers of the model cannot be calculated with.
    #[error("the activations of this model are not finite: there is nothing to measure")]
    NotFinite,
}
