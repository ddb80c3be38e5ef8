//! DeepSeek-V2 and V3 (DeepSeek, 2024) and GLM-4.7-Flash (Z.ai, 2026): latent attention and
//! mixtures with shared experts.
//!
//! Reference: `DeepseekV2ForCausalLM` and `DeepseekV3ForCausalLM` of Hugging Face transformers.
//! Newer files hold `attn_k_b` and `attn_v_b` (the absorbed form, one key-value head); older ones
//! `attn_kv_b`. Small models make queries directly (`attn_q`), larger ones in two steps. The first
//! layers are dense. With YaRN, what is turned keeps its length and scores grow instead, by the
//! square of `0.1 * mscale_all_dim * ln(factor) + 1`, of which the file holds `0.1 *
//! mscale_all_dim` as `yarn_log_multiplier`. Layers that predict further tokens count in
//! `block_count` and are passed over.

use nook_kernels::rope::yarn_magnitude;
use nook_kernels::{RopeLayout, RopeScaling};

use super::Description;
use super::builder::{LayerNames, layers, model, pass_over_predicting, rope};
use super::experts::{experts, mixture};
use super::metadata::{Metadata, Sizes};
use crate::error::Fault;
use crate::parts::{
    Activation, FeedForward, LatentForm, Linear, Mixer, Mla, Norm, RopeSpec, Routing, Turn,
};
use crate::shape::HEAD_DIM_MAX;
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

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let mut sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    let passed_over = pass_over_predicting(metadata, &mut sizes)?;
    let rope = rope(metadata, &sizes)?;
    let latent = latent(metadata, &sizes, &rope)?;
    sizes.head_dim = latent.still + latent.turning;
    sizes.rope_dimensions = latent.turning;
    let experts = experts(metadata, &sizes, usual_routing(metadata, &sizes))?;
    let blocks = layers(&sizes, |layer| {
        let dense = experts.is_none_or(|experts| layer.index < experts.first_layer);
        let feed_forward = match experts {
            Some(experts) if !dense => FeedForward::Mixture(mixture(metadata, layer, experts)),
            _ => layer.gated(Activation::Silu),
        };
        Ok(layer.mixed_block(Mixer::Latent(attention(layer, latent)), feed_forward))
    })?;
    // Latent attention scales scores where others scale what is turned.
    let magnitude = 1.0;
    let dimensions = latent.turning;
    let plain = model(&sizes, RopeSpec { magnitude, dimensions, ..rope }, blocks);
    Ok(Description { passed_over, ..plain })
}

/// How experts are chosen where the file does not say it: older files, and some that other programs
/// made of newer ones.
fn usual_routing(metadata: &Metadata<'_>, sizes: &Sizes) -> Routing {
    let has_bias = |index| metadata.has(&format!("blk.{index}.exp_probs_b.bias"));
    let biased = (0..sizes.layers).any(has_bias);
    match biased || is_glm_flash(sizes.layers, sizes.vocabulary) {
        true => Routing::sigmoid(0, false),
        false => Routing::softmax(0, false),
    }
}

/// Whether a model without the key is GLM-4.7-Flash. This is llama.cpp's rule, which goes by sizes
/// alone. A bias of the choice says the same of any size: only models that choose by sigmoids have
/// one (DeepSeek-V3 and its kin, GLM-4.7-Flash), and those that choose by a softmax (DeepSeek-V2
/// and its kin) have none.
fn is_glm_flash(layers: u32, vocabulary: u32) -> bool {
    matches!(layers, 47 | 48) && vocabulary == 154_880
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glm_flash_is_known_by_its_layers_and_its_vocabulary() {
        for (layers, vocabulary, expected) in [
            (47, 154_880, true),
            (48, 154_880, true),
            (46, 154_880, false),
            (49, 154_880, false),
            (47, 129_280, false),
        ] {
            assert_eq!(is_glm_flash(layers, vocabulary), expected, "{layers} {vocabulary}");
        }
    }
}
