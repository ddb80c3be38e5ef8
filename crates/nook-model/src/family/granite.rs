//! Granite 3 (IBM, 2024), dense and as a mixture of experts: Llama with multipliers of embeddings,
//! residuals, scores and logits.
//!
//! Reference: `GraniteForCausalLM` and `GraniteMoeForCausalLM` of Hugging Face transformers. Logits
//! are divided by `logit_scale`. The residual multiplier belongs to each layer, so a cut keeps it.

use nook_kernels::RopeLayout;

use super::builder::{layers, model, rope};
use super::llama::feed_forward;
use super::metadata::Metadata;
use super::{Description, HeadSpec};
use crate::error::Fault;
use crate::parts::{Attention, Block};

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let residual_scale = metadata.required_positive("residual_scale")?;
    let scale = metadata.required_positive("attention.scale")?;
    let experts = metadata.experts()?;
    let blocks = layers(&sizes, |layer| {
        let attention = Attention { scale, ..layer.attention(RopeLayout::Adjacent) };
        let block = layer.block(attention, feed_forward(layer, &sizes, experts));
        Ok(Block { residual_scale, ..block })
    })?;
    let plain = model(&sizes, rope(metadata, &sizes)?, blocks);
    let divisor = metadata.required_positive("logit_scale")?;
    let head = HeadSpec { scale: 1.0 / divisor, ..plain.head };
    let embedding_scale = metadata.required_positive("embedding_scale")?;
    Ok(Description { embedding_scale, head, ..plain })
}
