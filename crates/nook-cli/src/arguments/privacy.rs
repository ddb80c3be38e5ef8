//! `nook privacy …`, as typed.

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Args)]
pub(crate) struct Privacy {
    /// What to do; without it, show what was measured last.
    #[command(subcommand)]
    pub(crate) action: Option<PrivacyAction>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PrivacyAction {
    /// Measure how much of a text whoever owns a helping computer could read from what a model sends it. Four known
    /// attacks run on this computer, on a public text. It takes some minutes for a large model, and at most 1 GiB of
    /// memory beside the weights of the model. The figures are kept where the model is
    /// named as `nook models` lists it, not by its file.
    Measure(PrivacyMeasure),
    /// Show what was measured last, for each model.
    Show {
        /// Only this model: a name from `nook models`.
        model: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PrivacyMeasure {
    /// The model: a name from `nook models`, or a GGUF file.
    #[arg(value_name = "FILE-OR-NAME", value_hint = ValueHint::AnyPath)]
    pub(crate) model: String,
    /// Layers before which to measure (default: all of a small model, some of a large one). What goes into the first
    /// layer and what comes out of the last one is always measured.
    #[arg(long, value_name = "1,2,8", value_delimiter = ',')]
    pub(crate) layers: Option<Vec<u32>>,
    /// Tokens of the text that are attacked.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(4..=256))]
    pub(crate) tokens: u32,
    /// Tokens among which each attack has to find the right one (default: all of a small vocabulary, else as many as
    /// some minutes allow).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(64..=4096))]
    pub(crate) candidates: Option<u32>,
    /// Also measure what noise on the activations does: how much of the text it hides, and how much of the replies it
    /// spoils.
    #[arg(long)]
    pub(crate) noise: bool,
    /// Compute threads (default: one for each core).
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}
