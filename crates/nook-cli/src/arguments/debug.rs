//! `nook debug …`, as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Debug {
    /// What to look at.
    #[command(subcommand)]
    pub(crate) subject: DebugSubject,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DebugSubject {
    /// What stands in a GGUF file: metadata, tensors, and whether it can be used as a model.
    Gguf {
        /// The file.
        file: PathBuf,
    },
    /// The token ids of the text on standard input.
    Tokenize {
        /// A GGUF file; it needs no weights.
        #[arg(long, value_name = "FILE")]
        model: PathBuf,
        /// Put the begin token first and the end token last, as the vocabulary says.
        #[arg(long)]
        add_special: bool,
        /// Read control tokens that are spelt out in the text as such.
        #[arg(long)]
        parse_special: bool,
    },
    /// A conversation as a chat template renders it.
    Template(DebugTemplate),
    /// Logits for every position of a list of token ids, written to a file.
    Logits(DebugLogits),
}

#[derive(Debug, Args)]
pub(crate) struct DebugTemplate {
    /// A GGUF file whose template is used, or the default for its vocabulary if it has none.
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "template",
        conflicts_with = "template"
    )]
    pub(crate) model: Option<PathBuf>,
    /// A Jinja file.
    #[arg(long, value_name = "FILE")]
    pub(crate) template: Option<PathBuf>,
    /// A JSON file with `messages`, and if wanted `tools`, `add_generation_prompt`, `bos_token`,
    /// `eos_token`, `now`; other fields are handed to the template.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) conversation: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DebugLogits {
    /// A GGUF file.
    #[arg(long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Token ids, one for each position.
    #[arg(long, value_name = "1,2,3", value_delimiter = ',', required = true)]
    pub(crate) ids: Vec<u32>,
    /// Layers at which a new range begins. Each range is loaded alone, and hidden states go from one
    /// to the next as they go between devices, with f32 activations.
    #[arg(long, value_name = "2,4", value_delimiter = ',')]
    pub(crate) split: Vec<u32>,
    /// Positions of one step (default: as many as a step may have).
    #[arg(long, value_name = "N")]
    pub(crate) chunk: Option<u32>,
    /// Compute threads (default: one for each core).
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Instruction set (default: the best of this processor).
    #[arg(long, value_enum)]
    pub(crate) isa: Option<IsaChoice>,
    /// Where the logits go: row-major positions x vocabulary, float32, little-endian.
    #[arg(long, value_name = "FILE.f32")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IsaChoice {
    /// What every processor of this kind has.
    Plain,
    /// AVX2.
    Avx2,
    /// AVX-512.
    Avx512,
}
