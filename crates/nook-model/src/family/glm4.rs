//! GLM-4-0414 and later dense models (GLM team, 2025), text only: half of each head turns; norms
//! before and after each part; fused gate and up.
//!
//! Reference: `Glm4ForCausalLM` of Hugging Face transformers, and llama.cpp for how files lay it
//! out. Adjacent pairs turn; in files of models that see pictures (`rope.dimension_sections`),
//! halves turn: the converter puts the rows of those in that order. The sections are for pictures,
//! and of a text all positions are equal. Some models have biases of queries, keys and values and some do
//! not, and no key says which: all three or none must be there. Layers that predict further tokens
//! count in `block_count` and are passed over.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{layers, model, pass_over_predicting, rope};
use super::metadata::Metadata;
use crate::error::Fault;
use crate::parts::{Activation, Block};

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let mut sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let passed_over = pass_over_predicting(metadata, &mut sizes)?;
    let layout = match metadata.has_sections()? {
        true => RopeLayout::Halves,
        false => RopeLayout::Adjacent,
    };
    let biased = metadata.has("blk.0.attn_q.bias");
    let blocks = layers(&sizes, |layer| {
        let attention =
            if biased { layer.biased_attention(layout) } else { layer.attention(layout) };
        Ok(Block {
            post_attention_norm: Some(layer.norm("post_attention_norm", sizes.hidden)),
            post_feed_forward_norm: Some(layer.norm("post_ffw_norm", sizes.hidden)),
            ..layer.block(attention, layer.fused_gated(Activation::Silu))
        })
    })?;
    Ok(Description { passed_over, ..model(&sizes, rope(metadata, &sizes)?, blocks) })
}
