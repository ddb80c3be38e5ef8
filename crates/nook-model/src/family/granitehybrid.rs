//! Granite 4 (IBM, 2025): Mamba-2 layers with a few of attention among them, dense or with experts
//! beside a shared one, and the multipliers of Granite 3.
//!
//! Reference: `GraniteMoeHybridForCausalLM` of Hugging Face transformers. A layer without key-value
//! heads is one of Mamba-2. Attention has no positions where `rope.scaling.finetuned` is false,
//! which is the only place where files say so. The router takes the best few by its own numbers and
//! a softmax of those alone.

use nook_kernels::RopeLayout;

use super::builder::{LayerNames, layers, model, rope};
use super::mamba::Mamba;
use super::metadata::Metadata;
use super::{Description, HeadSpec};
use crate::error::Fault;
use crate::parts::{
    Activation, Attention, Block, Dense, FeedForward, Mixer, Mixture, Routing, SharedExpert,
};
use crate::shape::FEED_FORWARD_MAX;
use crate::weights::Named;

/// What the layers with experts share.
#[derive(Debug, Clone, Copy)]
struct Experts {
    count: u32,
    used: u32,
    width: u32,
    /// Width of the shared expert; 0 where there is none.
    shared: u32,
}

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let (sizes, varied) = metadata.varied_sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let residual_scale = metadata.positive("residual_scale")?.unwrap_or(1.0);
    let scale = metadata.positive_unless_zero("attention.scale")?;
    let turns = metadata.truth("rope.scaling.finetuned")?.unwrap_or(true);
    let experts = experts(metadata, sizes.feed_forward)?;
    let recurrent = varied.kv_heads.contains(&0);
    let mamba = recurrent.then(|| Mamba::of(metadata)).transpose()?;
    let blocks = layers(&sizes, |layer| {
        let own = varied.sizes_of(&sizes, layer.index);
        let layer = LayerNames { sizes: &own, ..layer };
        let mixer = match mamba.filter(|_| own.kv_heads == 0) {
            Some(mamba) => Mixer::Mamba(mamba.layer(metadata, layer)),
            None => {
                let plain = layer.attention(RopeLayout::Adjacent);
                let (scale, turn) = (scale.unwrap_or(plain.scale), plain.turn.filter(|_| turns));
                Mixer::Attention(Attention { scale, turn, ..plain })
            }
        };
        let feed_forward = match experts {
            Some(experts) => FeedForward::Mixture(mixture(layer, experts)),
            None => layer.gated(Activation::Silu),
        };
        Ok(Block { residual_scale, ..layer.mixed_block(mixer, feed_forward) })
    })?;
    let plain = model(&sizes, rope(metadata, &sizes)?, blocks);
    let divisor = metadata.positive("logit_scale")?.unwrap_or(1.0);
    let head = HeadSpec { scale: 1.0 / divisor, ..plain.head };
    let embedding_scale = metadata.positive("embedding_scale")?.unwrap_or(1.0);
    Ok(Description { embedding_scale, head, ..plain })
}

fn experts(metadata: &Metadata<'_>, usual: u32) -> Result<Option<Experts>, Fault> {
    let Some((count, used)) = metadata.experts()? else {
        return Ok(None);
    };
    let name = "expert_feed_forward_length";
    let width = metadata.number(name, Some(usual), 1..=FEED_FORWARD_MAX)?;
    let name = "expert_shared_feed_forward_length";
    let shared = metadata.number(name, Some(0), 0..=FEED_FORWARD_MAX)?;
    Ok(Some(Experts { count, used, width, shared }))
}

fn mixture(layer: LayerNames<'_>, experts: Experts) -> Mixture<Named> {
    let Experts { count, used, width, shared } = experts;
    let shared = (shared > 0).then(|| {
        let expert = Dense::Gated(layer.gated_named("_shexp", shared, Activation::Silu));
        SharedExpert { expert, gate: None }
    });
    Mixture { shared, ..layer.mixture(count, width, Routing::softmax(used, true)) }
}
