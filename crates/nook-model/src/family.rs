//! Families of models: what an architecture's files must hold, and how its blocks compute.
//!
//! A family is one file in this folder that turns metadata into a [`Description`] made of the
//! shared
//! [`crate::parts`]: plain data, one block for each layer, with everything that depends on a layer's
//! absolute number already decided. From the description follow the tensors that the file must
//! have, what each part of the model needs in memory, and the forward pass. Names are those of
//! GGUF.
//!
//! What a file names and its family does not know is refused, never guessed.

mod builder;
mod check;
mod metadata;

mod deepseek2;
mod experts;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma3n;
mod gemma4;
mod glm4;
mod glm4moe;
mod gpt_oss;
mod granite;
mod granitehybrid;
mod lfm2;
mod llama;
mod llama4;
mod mamba;
mod minicpm;
mod minicpm3;
mod mistral3;
mod nemotron_h;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen35;
mod smollm3;
mod starcoder2;

use crate::error::Fault;
use crate::gguf::Header;
use crate::parts::{Block, LayerInputs, Norm, OtherStreams, RopeSpec};
use crate::shape::ModelShape;
use crate::weights::{MatrixSpec, Named, Part as _, Scaling, Source as _};

pub(crate) use check::{Expected, Place, expected};
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
    /// What comes to layers by token beside the embedding.
    pub(crate) layer_inputs: Option<LayerInputs<Named>>,
    /// What goes through the layers beside one hidden state.
    pub(crate) streams: Option<Streams>,
    /// Tensors that the file may have and that nothing reads, because this family says so.
    pub(crate) passed_over: Vec<String>,
}

/// Several hidden states of each position.
#[derive(Debug)]
pub(crate) struct Streams {
    /// How many.
    pub(crate) count: u32,
    /// Makes those after the first from the embedding.
    pub(crate) spread: OtherStreams<Named>,
    /// Makes one hidden state of all, before the head.
    pub(crate) merge: OtherStreams<Named>,
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

impl Description {
    /// Numbers of all hidden states of a position that go from layer to layer.
    pub(crate) fn width(&self) -> usize {
        let streams = self.streams.as_ref().map_or(1, |streams| streams.count);
        self.shape.hidden as usize * streams as usize
    }
}

/// An architecture whose files load.
#[derive(Debug, Clone, Copy)]
pub struct Architecture {
    name: &'static str,
    models: &'static str,
    describe: fn(&Metadata<'_>) -> Result<Description, Fault>,
}

impl Architecture {
    /// Every architecture that loads, as `docs/models.md` lists them.
    pub const ALL: &[Self] = &[
        Self::new(
            "llama",
            "Llama 1 to 3, Mistral, Mixtral, Ember and others of this form",
            llama::describe,
        ),
        Self::new("llama4", "Llama 4, text only", llama4::describe),
        Self::new("mistral3", "Ministral 3", mistral3::describe),
        Self::new("qwen2", "Qwen2, Qwen2.5", qwen2::describe),
        Self::new("qwen2moe", "Qwen2, mixture of experts", qwen2::describe_mixture),
        Self::new("qwen3", "Qwen3", qwen3::describe),
        Self::new("qwen3moe", "Qwen3, mixture of experts", qwen3::describe_mixture),
        Self::new("qwen3vl", "Qwen3-VL, text only", qwen3::describe),
        Self::new("qwen3next", "Qwen3-Next, Qwen3-Coder-Next", qwen35::describe_next),
        Self::new("qwen35", "Qwen3.5, text only", qwen35::describe),
        Self::new("qwen35moe", "Qwen3.5, mixture of experts, text only", qwen35::describe_mixture),
        Self::new("gemma", "Gemma", gemma::describe),
        Self::new("gemma2", "Gemma 2", gemma2::describe),
        Self::new("gemma3", "Gemma 3, Rnj-1, text only", gemma3::describe),
        Self::new("gemma3n", "Gemma 3n, text only", gemma3n::describe),
        Self::new("gemma4", "Gemma 4, dense and mixture of experts, text only", gemma4::describe),
        Self::new("gpt-oss", "gpt-oss", gpt_oss::describe),
        Self::new("phi3", "Phi-3, Phi-3.5, Phi-4", phi3::describe),
        Self::new("starcoder2", "StarCoder2", starcoder2::describe),
        Self::new("glm4", "GLM-4-0414, GLM-4.1V, text only", glm4::describe),
        Self::new("glm4moe", "GLM-4.5 to 4.7", glm4moe::describe),
        Self::new("smollm3", "SmolLM3", smollm3::describe),
        Self::new("lfm2", "LFM2, LFM2.5", lfm2::describe),
        Self::new("lfm2moe", "LFM2, LFM2.5, mixture of experts", lfm2::describe_mixture),
        Self::new("minicpm", "MiniCPM", minicpm::describe),
        Self::new("minicpm3", "MiniCPM 3", minicpm3::describe),
        Self::new("olmo2", "OLMo 2, OLMo 3", olmo2::describe),
        Self::new("granite", "Granite 3, Granite 4 without Mamba layers", granite::describe),
        Self::new("granitemoe", "Granite 3, mixture of experts", granite::describe),
        Self::new("granitehybrid", "Granite 4", granitehybrid::describe),
        Self::new("nemotron_h", "Nemotron-H, Nemotron Nano 2", nemotron_h::describe),
        Self::new("nemotron_h_moe", "Nemotron 3 Nano, Super and Puzzle", nemotron_h::describe),
        Self::new("deepseek2", "DeepSeek-V2, DeepSeek-V3, GLM-4.7-Flash", deepseek2::describe),
    ];

    const fn new(
        name: &'static str,
        models: &'static str,
        describe: fn(&Metadata<'_>) -> Result<Description, Fault>,
    ) -> Self {
        Self { name, models, describe }
    }

    /// What `general.architecture` of such a file says.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The models that are of it, for people.
    #[must_use]
    pub fn models(&self) -> &'static str {
        self.models
    }
}

/// The description of a file, with its hyperparameters and tensors checked. `tokens` is the length
/// of the file's vocabulary, 0 when it has none.
pub(crate) fn of(header: &Header, tokens: usize) -> Result<Description, Fault> {
    let name = header.required_text("general.architecture")?;
    let Some(architecture) = Architecture::ALL.iter().find(|known| known.name == name) else {
        return Err(Fault::Architecture { architecture: name.to_owned() });
    };
    let description = (architecture.describe)(&Metadata::new(header, name, tokens))?;
    let description = scaled(header, description)?;
    check::check_tensors(header, &description)?;
    Ok(description)
}

/// The description with the scales that the file has beside its matrices.
fn scaled(header: &Header, description: Description) -> Result<Description, Fault> {
    let named = expected(&description).into_iter().map(|tensor| tensor.name).collect();
    let mut scaling = Scaling::new(header, &named);
    let blocks = description.blocks.iter().map(|block| block.read(&mut scaling));
    let blocks = blocks.collect::<Result<_, _>>()?;
    let embedding = scaling.matrix(&description.embedding)?;
    let output = description.head.output.as_ref();
    let output = output.map(|output| scaling.matrix(output)).transpose()?;
    let mut passed_over = description.passed_over;
    passed_over.append(&mut scaling.passed_over);
    let head = HeadSpec { output, ..description.head };
    Ok(Description { blocks, embedding, head, passed_over, ..description })
}
