//! gpt-oss (OpenAI, 2025): attention with sinks, every other layer with a sliding window, and
//! mixtures of experts whose gate is clamped; biases everywhere.
//!
//! Reference: `GptOssForCausalLM` of Hugging Face transformers. The first layer slides. The router
//! takes the best few by its own numbers and a softmax of those alone, which is that of all made to
//! add up to 1. Published configurations do not round the ends of YaRN's ramp; files say nothing of
//! it, and llama.cpp rounds: so does this. `post_attention_norm` is the norm before the experts.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{LayerNames, layers, model, rope};
use super::metadata::Metadata;
use crate::error::Fault;
use crate::parts::{
    Activation, Attention, Block, ExpertBiases, FeedForward, Mixture, Reach, Routing,
};
use crate::shape::{CONTEXT_MAX, FEED_FORWARD_MAX};
use crate::weights::{Named, VectorSpec};

/// Of so many layers, the first slides.
const PATTERN: u32 = 2;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let Some((count, used)) = metadata.experts()? else {
        return Err(metadata.bad("expert_count", 0, "1 or more"));
    };
    let width = metadata.number("expert_feed_forward_length", None, 1..=FEED_FORWARD_MAX)?;
    let sizes = metadata.sizes_or("attention.layer_norm_rms_epsilon", Some(width))?;
    metadata.check_value_length(&sizes)?;
    let window = metadata.number("attention.sliding_window", None, 1..=CONTEXT_MAX)?;
    let blocks = layers(&sizes, |layer| {
        let slides = layer.index.is_multiple_of(PATTERN);
        let attention = Attention {
            output: layer.biased("attn_output", sizes.heads * sizes.head_dim, sizes.hidden),
            sinks: Some(layer.vector("attn_sinks.weight", sizes.heads)),
            reach: if slides { Reach::Window(window) } else { Reach::All },
            ..layer.biased_attention(RopeLayout::Halves)
        };
        let mixture = FeedForward::Mixture(mixture(layer, count, used, width));
        Ok(Block {
            feed_forward_norm: Some(layer.norm("post_attention_norm", sizes.hidden)),
            ..layer.block(attention, mixture)
        })
    })?;
    Ok(model(&sizes, rope(metadata, &sizes)?, blocks))
}

fn mixture(layer: LayerNames<'_>, count: u32, used: u32, width: u32) -> Mixture<Named> {
    let hidden = layer.sizes.hidden;
    let bias = |name: &str, width| VectorSpec {
        tensor: layer.tensor(&format!("{name}.bias")),
        dimensions: vec![width, count],
    };
    Mixture {
        router: layer.biased("ffn_gate_inp", hidden, count),
        biases: Some(ExpertBiases {
            gate: bias("ffn_gate_exps", width),
            up: bias("ffn_up_exps", width),
            down: bias("ffn_down_exps", hidden),
        }),
        activation: Activation::ClampedSwiglu,
        ..layer.mixture(count, width, Routing::softmax(used, true))
    }
}
