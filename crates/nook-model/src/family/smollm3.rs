//! SmolLM3 (Hugging Face, 2025): Llama in which every fourth layer has no positions.
//!
//! Reference: `SmolLM3ForCausalLM` of Hugging Face transformers. No key tells the interval; it is
//! that of the published models, as in llama.cpp.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{layers, model, rope};
use super::metadata::Metadata;
use crate::error::Fault;
use crate::parts::{Activation, Attention};

/// Each so-manieth layer has no positions.
const PATTERN: u32 = 4;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let blocks = layers(&sizes, |layer| {
        let plain = layer.attention(RopeLayout::Adjacent);
        let turn = plain.turn.filter(|_| !(layer.index + 1).is_multiple_of(PATTERN));
        let attention = Attention { turn, ..plain };
        Ok(layer.block(attention, layer.gated(Activation::Silu)))
    })?;
    Ok(model(&sizes, rope(metadata, &sizes)?, blocks))
}
