//! DeepSeek-V2 and V3 (DeepSeek, 2024): latent attention and mixtures with shared experts.
//!
//! Reference: `DeepseekV2ForCausalLM` and `DeepseekV3ForCausalLM` of Hugging Face transformers.
//! Newer files hold `attn_k_b` and `attn_v_b` (the absorbed form, one key-value head); older ones
//! `attn_kv_b`. Small models make queries directly (`attn_q`), larger ones in two steps. The first
//! layers are dense. With YaRN, what is turned keeps its length and scores grow instead, by the
//! square of `0.1 * mscale_all_dim * ln(factor) + 1`, of which the file holds `0.1 *
//! mscale_all_dim` as `yarn_log_multiplier`.

use nook_kernels::rope::yarn_magnitude;
use nook_kernels::{RopeLayout, RopeScaling};

use super::Description;
use super::builder::{LayerNames, layers, model, rope};
use super::metadata::{Metadata, Sizes};
use crate::error::Fault;
use crate::parts::{
    Activation, Block, FeedForward, LatentForm, Linear, Mixer, Mixture, Mla, Norm, RopeSpec,
    Routing, Scores, SharedExpert, Turn,
};
use crate::shape::{EXPERTS_MAX, FEED_FORWARD_MAX, HEAD_DIM_MAX};
use crate::weights::{Named, StackSpec};

/// Longest small vector; the known ones have 512 numbers (queries 1536).
pub(super) const RANK_MAX: u32 = 1 << 16;

/// Sizes of latent attention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latent {
    pub(super) rank: u32,
    pub(super) query_rank: Option<u32>,
    pub(super) still: u32,
    pub(super) turning: u32,
    pub(super) value: u32,
    pub(super) absorbed: bool,
    pub(super) scale: f32,
    pub(super) layout: RopeLayout,
}

/// What the layers with experts share.
#[derive(Debug, Clone, Copy)]
struct Experts {
    first_layer: u32,
    count: u32,
    width: u32,
    shared: u32,
    routing: Routing,
}

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let mut sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    let rope = rope(metadata, &sizes)?;
    let latent = latent(metadata, &sizes, &rope)?;
    sizes.head_dim = latent.still + latent.turning;
    sizes.rope_dimensions = latent.turning;
    let experts = experts(metadata, &sizes)?;
    let blocks = layers(&sizes, |layer| {
        let dense = experts.is_none_or(|experts| layer.index < experts.first_layer);
        let feed_forward = match experts {
            Some(experts) if !dense => FeedForward::Mixture(mixture(metadata, layer, experts)),
            _ => layer.gated(Activation::Silu),
        };
        Ok(Block {
            attention_norm: Some(layer.norm("attn_norm", sizes.hidden)),
            mixer: Mixer::Latent(attention(layer, latent)),
            post_attention_norm: None,
            feed_forward_norm: Some(layer.norm("ffn_norm", sizes.hidden)),
            feed_forward,
            post_feed_forward_norm: None,
            residual_scale: 1.0,
        })
    })?;
    // Latent attention scales scores where others scale what is turned.
    let magnitude = 1.0;
    let dimensions = latent.turning;
    Ok(model(&sizes, RopeSpec { magnitude, dimensions, ..rope }, blocks))
}

fn latent(metadata: &Metadata<'_>, sizes: &Sizes, rope: &RopeSpec<Named>) -> Result<Latent, Fault> {
    let absorbed = metadata.has("blk.0.attn_k_b.weight");
    let ending = if absorbed { "_mla" } else { "" };
    let key_name = format!("attention.key_length{ending}");
    let key = metadata.number(&key_name, None, 2..=HEAD_DIM_MAX)?;
    let value_name = format!("attention.value_length{ending}");
    let value = metadata.number(&value_name, None, 1..=HEAD_DIM_MAX)?;
    let turning = metadata.rope_dimensions(key - 1)?;
    let rank = metadata.number("attention.kv_lora_rank", None, 1..=RANK_MAX)?;
    let query_rank = if metadata.has("blk.0.attn_q_a.weight") {
        Some(metadata.number("attention.q_lora_rank", None, 1..=RANK_MAX)?)
    } else {
        None
    };
    let heads = if absorbed { 1 } else { sizes.heads };
    if sizes.kv_heads != heads {
        let expected = format!("{heads} for this form of latent attention");
        return Err(metadata.bad("attention.head_count_kv", sizes.kv_heads, expected));
    }
    let grown = match rope.scaling {
        RopeScaling::Yarn { factor, .. } => {
            let multiplier = metadata.positive("rope.scaling.yarn_log_multiplier")?.unwrap_or(0.0);
            yarn_magnitude(factor, 10.0 * multiplier)
        }
        _ => 1.0,
    };
    let scale = grown * grown / (key as f32).sqrt();
    let (still, layout) = (key - turning, RopeLayout::Adjacent);
    Ok(Latent { rank, query_rank, still, turning, value, absorbed, scale, layout })
}

/// Latent attention of one layer, with the tensor names of GGUF.
pub(super) fn attention(layer: LayerNames<'_>, latent: Latent) -> Mla<Named> {
    let Latent { rank, query_rank, still, turning, value, absorbed, scale, layout } = latent;
    let (hidden, heads) = (layer.sizes.hidden, layer.sizes.heads);
    let query_rows = heads * (still + turning);
    let (query_down, query) = match query_rank {
        Some(rank) => {
            let norm = layer.norm("attn_q_a_norm", rank);
            let down: (Linear<Named>, Norm<Named>) = (layer.linear("attn_q_a", hidden, rank), norm);
            (Some(down), layer.linear("attn_q_b", rank, query_rows))
        }
        None => (None, layer.linear("attn_q", hidden, query_rows)),
    };
    let form = if absorbed {
        LatentForm::Absorbed {
            key: StackSpec::new(layer.tensor("attn_k_b.weight"), still, rank, heads),
            value: StackSpec::new(layer.tensor("attn_v_b.weight"), rank, value, heads),
        }
    } else {
        let both = layer.matrix("attn_kv_b", rank, heads * (still + value));
        LatentForm::Expanded {
            key: Linear::new(both.interleaved(still + value, 0, still)),
            value: Linear::new(both.interleaved(still + value, still, value)),
        }
    };
    Mla {
        query_down,
        query,
        latent: layer.linear("attn_kv_a_mqa", hidden, rank + turning),
        latent_norm: layer.norm("attn_kv_a_norm", rank),
        form,
        output: layer.linear("attn_output", heads * value, hidden),
        heads: heads as usize,
        still_dim: still as usize,
        turning_dim: turning as usize,
        value_dim: value as usize,
        rank: rank as usize,
        scale,
        turn: Turn { rope: 0, layout },
    }
}

fn experts(metadata: &Metadata<'_>, sizes: &Sizes) -> Result<Option<Experts>, Fault> {
    let Some((count, used)) = metadata.experts()? else {
        return Ok(None);
    };
    let scores = match metadata.number("expert_gating_func", Some(1), 0..=u32::MAX)? {
        // 0 stands in files from before the key meant anything.
        0 | 1 => Scores::Softmax,
        2 => Scores::Sigmoid,
        other => return Err(metadata.bad("expert_gating_func", other, "1 or 2")),
    };
    let groups = metadata.number("expert_group_count", Some(1), 0..=count)?;
    let groups = if groups > 1 {
        if !count.is_multiple_of(groups) {
            let expected = format!("a divisor of {count} experts");
            return Err(metadata.bad("expert_group_count", groups, expected));
        }
        let used = metadata.number("expert_group_used_count", None, 1..=groups)?;
        Some((groups as usize, used as usize))
    } else {
        None
    };
    Ok(Some(Experts {
        first_layer: metadata.number("leading_dense_block_count", Some(0), 0..=sizes.layers)?,
        count,
        width: metadata.number("expert_feed_forward_length", None, 1..=FEED_FORWARD_MAX)?,
        shared: metadata.number("expert_shared_count", Some(0), 0..=EXPERTS_MAX)?,
        routing: Routing {
            used: used as usize,
            scores,
            renormalise: metadata.truth("expert_weights_norm")?.unwrap_or(false),
            scale: metadata.positive("expert_weights_scale")?.unwrap_or(1.0),
            weigh_input: false,
            groups,
        },
    }))
}

fn mixture(metadata: &Metadata<'_>, layer: LayerNames<'_>, experts: Experts) -> Mixture<Named> {
    let bias = "exp_probs_b.bias";
    let choice_bias = metadata.has(&layer.tensor(bias)).then(|| layer.vector(bias, experts.count));
    let shared = (experts.shared > 0).then(|| {
        let width = experts.width.saturating_mul(experts.shared);
        SharedExpert { expert: layer.gated_named("_shexp", width, Activation::Silu), gate: None }
    });
    let plain = layer.mixture(experts.count, experts.width, experts.routing);
    Mixture { choice_bias, shared, ..plain }
}
