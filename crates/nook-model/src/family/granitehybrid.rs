//! Granite 4 (IBM, 2025): Mamba-2 layers with a few of attention among them, dense or with experts
//! beside a shared one, and the multipliers of Granite 3.
//!
//! Reference: `GraniteMoeHybridForCausalLM` of Hugging Face transformers. A layer without key-value
//! heads is one of Mamba-2. Attention has no positions where `rope.scaling.finetuned` is false. The
//! router takes the best few by its own numbers and a softmax of those alone.

use super::Description;
use super::builder::{LayerNames, layers, model, rope};
use super::granite::{Multipliers, experts, mixture};
use super::mamba::Mamba;
use super::metadata::Metadata;
use crate::error::Fault;
use crate::parts::{Activation, Block, FeedForward, Mixer};

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let (sizes, varied) = metadata.varied_sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let multipliers = Multipliers::of(metadata)?;
    let experts = experts(metadata, sizes.feed_forward)?;
    let recurrent = varied.kv_heads.contains(&0);
    let mamba = recurrent.then(|| Mamba::of(metadata)).transpose()?;
    let blocks = layers(&sizes, |layer| {
        let own = varied.sizes_of(&sizes, layer.index);
        let layer = LayerNames { sizes: &own, ..layer };
        let mixer = match mamba.filter(|_| own.kv_heads == 0) {
            Some(mamba) => Mixer::Mamba(mamba.layer(metadata, layer)),
            None => Mixer::Attention(multipliers.attention(metadata, layer)),
        };
        let feed_forward = match experts {
            Some(experts) => FeedForward::Mixture(mixture(layer, experts)),
            None => layer.maybe_biased_gated(metadata, Activation::Silu),
        };
        let residual_scale = multipliers.residual;
        Ok(Block { residual_scale, ..layer.mixed_block(mixer, feed_forward) })
    })?;
    Ok(multipliers.scaled(model(&sizes, rope(metadata, &sizes)?, blocks)))
}
