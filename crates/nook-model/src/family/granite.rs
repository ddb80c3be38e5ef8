//! Granite 3 and 4 without Mamba layers (IBM, 2024), dense and as a mixture of experts: Llama with
//! multipliers of embeddings, residuals, scores and logits.
//!
//! Reference: `GraniteForCausalLM`, `GraniteMoeForCausalLM` and `GraniteMoeSharedForCausalLM` of
//! Hugging Face transformers, and llama.cpp for what files may leave out: a multiplier that is not
//! there is 1, and scores without one are divided by the root of the head's width, as in Llama.
//! Logits are divided by `logit_scale`. The residual multiplier belongs to each layer, so a cut
//! keeps it. The mixture may have a shared expert beside the others, whose width is in the file.
//! Key-value heads may be listed layer by layer, and biases may be there as in Llama.

use nook_kernels::RopeLayout;

use super::builder::{LayerNames, layers, model, rope};
use super::metadata::Metadata;
use super::{Description, HeadSpec};
use crate::error::Fault;
use crate::parts::{
    Activation, Attention, Block, Dense, FeedForward, Mixture, Routing, SharedExpert,
};
use crate::shape::FEED_FORWARD_MAX;
use crate::weights::Named;

/// What the file multiplies with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Multipliers {
    pub(super) residual: f32,
    embedding: f32,
    /// Of scores; `None` where they are divided by the root of the head's width.
    scores: Option<f32>,
    /// What logits are divided by.
    logit_divisor: f32,
    /// Whether attention has positions; files say so in `rope.scaling.finetuned` alone.
    turns: bool,
}

/// What the layers with experts share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Experts {
    count: u32,
    used: u32,
    width: u32,
    /// Width of the shared expert; 0 where there is none.
    shared: u32,
}

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let (sizes, varied) = metadata.varied_sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    for (name, numbers) in [
        ("attention.head_count_kv", &varied.kv_heads),
        ("feed_forward_length", &varied.feed_forward),
    ] {
        if numbers.contains(&0) {
            return Err(metadata.bad(name, 0, "1 or more"));
        }
    }
    let multipliers = Multipliers::of(metadata)?;
    let experts = experts(metadata, sizes.feed_forward)?;
    let blocks = layers(&sizes, |layer| {
        let own = varied.sizes_of(&sizes, layer.index);
        let layer = LayerNames { sizes: &own, ..layer };
        let attention = multipliers.attention(metadata, layer);
        let feed_forward = match experts {
            Some(experts) => FeedForward::Mixture(mixture(layer, experts)),
            None => layer.maybe_biased_gated(metadata, Activation::Silu),
        };
        Ok(Block { residual_scale: multipliers.residual, ..layer.block(attention, feed_forward) })
    })?;
    Ok(multipliers.scaled(model(&sizes, rope(metadata, &sizes)?, blocks)))
}

impl Multipliers {
    /// As the metadata say.
    pub(super) fn of(metadata: &Metadata<'_>) -> Result<Self, Fault> {
        Ok(Self {
            residual: metadata.positive_unless_zero("residual_scale")?.unwrap_or(1.0),
            embedding: metadata.positive_unless_zero("embedding_scale")?.unwrap_or(1.0),
            scores: metadata.positive_unless_zero("attention.scale")?,
            logit_divisor: metadata.positive("logit_scale")?.unwrap_or(1.0),
            turns: metadata.truth("rope.scaling.finetuned")?.unwrap_or(true),
        })
    }

    /// Attention of one layer, with the biases that the file has.
    pub(super) fn attention(
        self,
        metadata: &Metadata<'_>,
        layer: LayerNames<'_>,
    ) -> Attention<Named> {
        let plain = layer.maybe_biased_attention(metadata, RopeLayout::Adjacent);
        let scale = self.scores.unwrap_or(plain.scale);
        Attention { scale, turn: plain.turn.filter(|_| self.turns), ..plain }
    }

    /// `plain` with the multipliers of embeddings and logits.
    pub(super) fn scaled(self, plain: Description) -> Description {
        let head = HeadSpec { scale: 1.0 / self.logit_divisor, ..plain.head };
        Description { embedding_scale: self.embedding, head, ..plain }
    }
}

/// The experts of the file; their width is `usual` where no key of their own says it.
pub(super) fn experts(metadata: &Metadata<'_>, usual: u32) -> Result<Option<Experts>, Fault> {
    let Some((count, used)) = metadata.experts()? else {
        return Ok(None);
    };
    let name = "expert_feed_forward_length";
    let width = metadata.number(name, Some(usual), 1..=FEED_FORWARD_MAX)?;
    let name = "expert_shared_feed_forward_length";
    let shared = metadata.number(name, Some(0), 0..=FEED_FORWARD_MAX)?;
    Ok(Some(Experts { count, used, width, shared }))
}

/// The mixture of one layer, and the shared expert where there is one.
pub(super) fn mixture(layer: LayerNames<'_>, experts: Experts) -> Mixture<Named> {
    let Experts { count, used, width, shared } = experts;
    let shared = (shared > 0).then(|| {
        let expert = Dense::Gated(layer.gated_named("_shexp", shared, Activation::Silu));
        SharedExpert { expert, gate: None }
    });
    Mixture { shared, ..layer.mixture(count, width, Routing::softmax(used, true)) }
}
