//! `nook bench`, as typed.

use std::path::PathBuf;

use clap::Args;
use nook_base::Backend;

#[derive(Debug, Clone, Args)]
pub(crate) struct Bench {
    /// The model file (GGUF). `nook models --json` says where those of a node lie.
    pub(crate) model: PathBuf,
    /// What to measure, in this order, as the setting `distributed_inference.backend` names it. `gpu` is the best
    /// graphics card, `gpu:0` that of this number. The first is what the others are compared with.
    #[arg(long, value_delimiter = ',', default_values = ["native", "gpu"])]
    pub(crate) backend: Vec<Backend>,
    /// Tokens of the prompt.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) prompt: u32,
    /// Tokens that are written after it.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) tokens: u32,
    /// Conversations that write together.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) streams: u32,
    /// Compute threads of the processor (default: one for each core).
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Write the result into this file, as JSON, to keep or to show others. It says what computer this is, and
    /// nothing of who owns it.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure the one device here, and print what another process compares.
    #[arg(long, hide = true)]
    pub(crate) alone: bool,
}
