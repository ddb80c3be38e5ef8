//! Gemma (Gemma team, 2024): embeddings multiplied by the root of the width, GELU gates, halves
//! that turn, the output matrix is the embedding.
//!
//! Reference: `GemmaForCausalLM` of Hugging Face transformers. Norm weights in GGUF files are
//! already `1 + w`. Heads may be wider than `hidden / heads`; the file names their width.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{layers, model, rope};
use super::metadata::{Metadata, Sizes};
use crate::error::Fault;
use crate::parts::Activation;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = sizes(metadata)?;
    let blocks = layers(&sizes, |layer| {
        let attention = layer.attention(RopeLayout::Halves);
        Ok(layer.block(attention, layer.gated(Activation::GeluTanh)))
    })?;
    Ok(scaled(&sizes, model(&sizes, rope(metadata, &sizes)?, blocks)))
}

/// The hyperparameters of all Gemmas.
pub(super) fn sizes(metadata: &Metadata<'_>) -> Result<Sizes, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    Ok(sizes)
}

/// Embeddings times the root of the width.
pub(super) fn scaled(sizes: &Sizes, description: Description) -> Description {
    Description { embedding_scale: (sizes.hidden as f32).sqrt(), ..description }
}
