//! MiniCPM (Hu et al. 2024): Llama whose embeddings, residuals and logits are scaled.
//!
//! Reference: `MiniCPMForCausalLM` of its publisher, and llama.cpp's converter, which turns
//! `scale_emb`, `scale_depth / sqrt(layers)` and `hidden / dim_model_base` into three keys; logits
//! are divided by the last. Files from before those keys hold the first models, whose constants are
//! used then.

use nook_kernels::RopeLayout;

use super::builder::{layers, long_rope, model};
use super::llama::feed_forward;
use super::metadata::{Metadata, Sizes};
use super::{Description, HeadSpec};
use crate::error::Fault;
use crate::parts::Block;

/// `scale_emb`, `scale_depth` and `dim_model_base` of the first models.
const EMBEDDING_SCALE_FIRST: f32 = 12.0;
const DEPTH_SCALE_FIRST: f32 = 1.4;
const BASE_WIDTH_FIRST: f32 = 256.0;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let experts = metadata.experts()?;
    let residual_scale = residual_scale(metadata, &sizes)?;
    let blocks = layers(&sizes, |layer| {
        let attention = layer.maybe_biased_attention(metadata, RopeLayout::Adjacent);
        let feed_forward = feed_forward(metadata, layer, experts);
        Ok(Block { residual_scale, ..layer.block(attention, feed_forward) })
    })?;
    let plain = model(&sizes, long_rope(metadata, &sizes)?, blocks);
    scaled(metadata, &sizes, plain)
}

/// What both parts of a layer are multiplied with.
pub(super) fn residual_scale(metadata: &Metadata<'_>, sizes: &Sizes) -> Result<f32, Fault> {
    let usual = DEPTH_SCALE_FIRST / (sizes.layers as f32).sqrt();
    Ok(metadata.positive("residual_scale")?.unwrap_or(usual))
}

/// The scales of embeddings and logits.
pub(super) fn scaled(
    metadata: &Metadata<'_>,
    sizes: &Sizes,
    plain: Description,
) -> Result<Description, Fault> {
    let embedding = metadata.positive("embedding_scale")?.unwrap_or(EMBEDDING_SCALE_FIRST);
    let usual = sizes.hidden as f32 / BASE_WIDTH_FIRST;
    let divisor = metadata.positive("logit_scale")?.unwrap_or(usual);
    let head = HeadSpec { scale: 1.0 / divisor, ..plain.head };
    Ok(Description { embedding_scale: embedding, head, ..plain })
}
