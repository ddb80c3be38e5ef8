//! Ministral 3 and its kin (Mistral AI, 2025): Llama with YaRN whose scores grow with the position.
//!
//! Reference: `Ministral3ForCausalLM` of Hugging Face transformers. Queries are multiplied by `1 +
//! beta ln(1 + floor(position / original context))`. YaRN lengthens what turns by the quotient of
//! two factors, of which files hold the divisor as `yarn_log_multiplier`: with 1 there, nothing is
//! lengthened.

use nook_kernels::rope::yarn_magnitude;
use nook_kernels::{RopeLayout, RopeScaling};

use super::Description;
use super::builder::{layers, model, rope};
use super::llama::{feed_forward, window};
use super::metadata::Metadata;
use crate::error::Fault;
use crate::parts::{Attention, RopeSpec, Temperature};
use crate::shape::CONTEXT_MAX;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let experts = metadata.experts()?;
    let reach = window(metadata)?;
    let temperature = temperature(metadata)?;
    let blocks = layers(&sizes, |layer| {
        let plain = layer.maybe_biased_attention(metadata, RopeLayout::Adjacent);
        let attention = Attention { reach, temperature, ..plain };
        Ok(layer.block(attention, feed_forward(metadata, layer, experts)))
    })?;
    let mut rope = rope(metadata, &sizes)?;
    let divisor = metadata.positive_unless_zero("rope.scaling.yarn_log_multiplier")?;
    if let (RopeScaling::Yarn { factor, .. }, Some(multiplier)) = (rope.scaling, divisor) {
        let magnitude = rope.magnitude / yarn_magnitude(factor, multiplier);
        rope = RopeSpec { magnitude, ..rope };
    }
    Ok(model(&sizes, rope, blocks))
}

fn temperature(metadata: &Metadata<'_>) -> Result<Option<Temperature>, Fault> {
    let Some(scale) = metadata.positive_unless_zero("attention.temperature_scale")? else {
        return Ok(None);
    };
    let name = "rope.scaling.original_context_length";
    let floor = metadata.number(name, None, 1..=CONTEXT_MAX)? as f32;
    Ok(Some(Temperature { floor, scale, offset: 0 }))
}
