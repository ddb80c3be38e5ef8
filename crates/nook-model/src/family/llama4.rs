//! Llama 4 (Meta, 2025; text): every fourth layer has no positions and sees everything, the others
//! turn (adjacent pairs) and see only their own chunk of 8,192 positions; some layers are mixtures.
//!
//! Reference: `Llama4ForCausalLM` of Hugging Face transformers, and llama.cpp for what no key says:
//! the pattern of four, the size of a chunk, the temperature of layers without positions, and that
//! heads are normed without weights after they turn, except in the model of 128 experts. Experts
//! are weighed by a sigmoid at their input, beside one shared expert.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{LayerNames, layers, model, rope};
use super::metadata::Metadata;
use crate::error::Fault;
use crate::parts::{
    Activation, Attention, Dense, FeedForward, Mixture, Reach, Routing, SharedExpert, Temperature,
};
use crate::shape::{CONTEXT_MAX, FEED_FORWARD_MAX, LAYERS_MAX};
use crate::weights::Named;

/// Each so-manieth layer has no positions.
const PATTERN: u32 = 4;

/// Positions of one chunk, and after how many the scores of layers without positions grow.
const CHUNK: u32 = 8192;

/// How fast they grow.
const TEMPERATURE_SCALE: f32 = 0.1;

/// Experts of the model whose heads are not normed.
const EXPERTS_WITHOUT_NORM: u32 = 128;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let window = "attention.sliding_window";
    let chunk = metadata.number(window, Some(CHUNK), 0..=CONTEXT_MAX)?;
    if chunk != CHUNK {
        return Err(metadata.bad(window, chunk, format!("{CHUNK}, the only known chunk")));
    }
    let Some((count, used)) = metadata.experts()? else {
        return Err(metadata.bad("expert_count", 0, "1 or more"));
    };
    let width = metadata.number("expert_feed_forward_length", None, 1..=FEED_FORWARD_MAX)?;
    let interleaved = metadata.number("interleave_moe_layer_step", None, 0..=LAYERS_MAX)?;
    let turned_norm = (count != EXPERTS_WITHOUT_NORM).then_some(sizes.epsilon);
    let blocks = layers(&sizes, |layer| {
        let plain = layer.attention(RopeLayout::Adjacent);
        let attention = if (layer.index + 1).is_multiple_of(PATTERN) {
            let temperature =
                Temperature { floor: CHUNK as f32, scale: TEMPERATURE_SCALE, offset: 1 };
            Attention { turn: None, temperature: Some(temperature), ..plain }
        } else {
            Attention { turned_norm, reach: Reach::Chunk(CHUNK), ..plain }
        };
        let has_experts = interleaved > 0 && (layer.index + 1).is_multiple_of(interleaved);
        let feed_forward = if has_experts {
            FeedForward::Mixture(mixture(layer, count, used, width))
        } else {
            layer.gated(Activation::Silu)
        };
        Ok(layer.block(attention, feed_forward))
    })?;
    Ok(model(&sizes, rope(metadata, &sizes)?, blocks))
}

fn mixture(layer: LayerNames<'_>, count: u32, used: u32, width: u32) -> Mixture<Named> {
    let routing = Routing { weigh_input: true, ..Routing::sigmoid(used, false) };
    let expert = Dense::Gated(layer.gated_named("_shexp", width, Activation::Silu));
    let shared = Some(SharedExpert { expert, gate: None });
    Mixture { shared, ..layer.mixture(count, width, routing) }
}
