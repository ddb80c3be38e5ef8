//! Families of models: what an architecture's files must hold, and how its blocks compute.
//!
//! A family is one file in this folder that turns metadata into a [`Description`] made of the shared
//! [`crate::parts`]: plain data, one block for each layer, with everything that depends on a layer's
//! absolute number already decided. From the description follow the tensors that the file must have,
//! what each part of the model needs in memory, and the forward pass. Names are those of GGUF.
//!
//! What a file names and its family does not know is refused, never guessed.

mod builder;
mod check;
mod metadata;

mod deepseek2;
mod gemma;
mod gemma2;
mod gemma3;
mod glm4;
mod granite;
mod llama;
mod llama4;
mod minicpm;
mod minicpm3;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen35;
mod starcoder2;

use crate::error::Fault;
use crate::gguf::Header;
use crate::parts::{Block, Norm, RopeSpec};
use crate::shape::ModelShape;
use crate::weights::{MatrixSpec, Named};

pub(crate) use check::{Expected, expected};
use metadata::Metadata;

/// One model, described.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) shape: ModelShape,
    /// (vocabulary, hidden)
    pub(crate) embedding: MatrixSpec,
    /// What embeddings are multiplied with.
    pub(crate) embedding_scale: f32,
    /// Rotary frequencies: every holder of any layer needs all of them.
    pub(crate) ropes: Vec<RopeSpec<Named>>,
    pub(crate) blocks: Vec<Block<Named>>,
    pub(crate) head: HeadSpec,
    /// Tensors that the file may have and that nothing reads, because this family says so.
    pub(crate) passed_over: Vec<String>,
}

/// What makes logits from hidden states.
#[derive(Debug)]
pub(crate) struct HeadSpec {
    pub(crate) norm: Norm<Named>,
    /// (vocabulary, hidden); absent where it is the embedding.
    pub(crate) output: Option<MatrixSpec>,
    /// What logits are multiplied with.
    pub(crate) scale: f32,
    /// Cap of the logits, `cap * tanh(logit / cap)`.
    pub(crate) soft_cap: Option<f32>,
}

/// The description of a file, with its hyperparameters and tensors checked. `tokens` is the length of
/// the file's vocabulary, 0 when it has none.
pub(crate) fn of(header: &Header, tokens: usize) -> Result<Description, Fault> {
    let architecture = header.required_text("general.architecture")?;
    let metadata = Metadata::new(header, architecture, tokens);
    let description = match architecture {
        "llama" => llama::describe(&metadata)?,
        "llama4" => llama4::describe(&metadata)?,
        "qwen2" => qwen2::describe(&metadata)?,
        "qwen2moe" => qwen2::describe_mixture(&metadata)?,
        "qwen3" => qwen3::describe(&metadata)?,
        "qwen3moe" => qwen3::describe_mixture(&metadata)?,
        "qwen35" => qwen35::describe(&metadata)?,
        "qwen35moe" => qwen35::describe_mixture(&metadata)?,
        "gemma" => gemma::describe(&metadata)?,
        "gemma2" => gemma2::describe(&metadata)?,
        "gemma3" => gemma3::describe(&metadata)?,
        "phi3" => phi3::describe(&metadata)?,
        "starcoder2" => starcoder2::describe(&metadata)?,
        "glm4" => glm4::describe(&metadata)?,
        "minicpm" => minicpm::describe(&metadata)?,
        "minicpm3" => minicpm3::describe(&metadata)?,
        "olmo2" => olmo2::describe(&metadata)?,
        "granite" | "granitemoe" => granite::describe(&metadata)?,
        "deepseek2" => deepseek2::describe(&metadata)?,
        other => {
            return Err(Fault::Architecture { architecture: other.to_owned() });
        }
    };
    check::check_tensors(header, &description)?;
    Ok(description)
}
