//! GLM-4-0414 (GLM team, 2025): half of each head turns, in adjacent pairs; norms before and after
//! each part; fused gate and up.
//!
//! Reference: `Glm4ForCausalLM` of Hugging Face transformers. Some of its models have biases of
//! queries, keys and values and some do not, and no key says which: all three or none must be
//! there.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{layers, model, rope};
use super::metadata::Metadata;
use crate::error::Fault;
use crate::parts::{Activation, Block};

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let biased = metadata.has("blk.0.attn_q.bias");
    let blocks = layers(&sizes, |layer| {
        let attention = if biased {
            layer.biased_attention(RopeLayout::Adjacent)
        } else {
            layer.attention(RopeLayout::Adjacent)
        };
        Ok(Block {
            post_attention_norm: Some(layer.norm("post_attention_norm", sizes.hidden)),
            post_feed_forward_norm: Some(layer.norm("post_ffw_norm", sizes.hidden)),
            ..layer.block(attention, layer.fused_gated(Activation::Silu))
        })
    })?;
    Ok(model(&sizes, rope(metadata, &sizes)?, blocks))
}
