//! GLM-4.5 to 4.7 (Zhipu AI, 2025): biases of queries, keys and values, a part of each head turns
//! in halves, and all but the first layers are mixtures with a shared expert.
//!
//! Reference: `Glm4MoeForCausalLM` of Hugging Face transformers. Experts are chosen by a sigmoid and
//! a bias, and weighed by the sigmoid alone. The larger models have norms of query and key heads.
//! `post_attention_norm` is the norm before the feed-forward layer. Layers that predict further
//! tokens count in `block_count` and are passed over.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{LayerNames, layers, model, pass_over_predicting, rope};
use super::experts::{experts, mixture};
use super::metadata::Metadata;
use crate::error::Fault;
use crate::parts::{Activation, Attention, Block, FeedForward, Routing};
use crate::weights::Named;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let mut sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let passed_over = pass_over_predicting(metadata, &mut sizes)?;
    let Some(experts) = experts(metadata, &sizes, Routing::sigmoid(0, true))? else {
        return Err(metadata.bad("expert_count", 0, "1 or more"));
    };
    let blocks = layers(&sizes, |layer| {
        let feed_forward = if layer.index < experts.first_layer {
            layer.gated(Activation::Silu)
        } else {
            FeedForward::Mixture(mixture(metadata, layer, experts))
        };
        Ok(Block {
            feed_forward_norm: Some(layer.norm("post_attention_norm", sizes.hidden)),
            ..layer.block(attention(metadata, layer), feed_forward)
        })
    })?;
    Ok(Description { passed_over, ..model(&sizes, rope(metadata, &sizes)?, blocks) })
}

fn attention(metadata: &Metadata<'_>, layer: LayerNames<'_>) -> Attention<Named> {
    let plain = if metadata.has(&layer.tensor("attn_q.bias")) {
        layer.biased_attention(RopeLayout::Halves)
    } else {
        layer.attention(RopeLayout::Halves)
    };
    if !metadata.has(&layer.tensor("attn_q_norm.weight")) {
        return plain;
    }
    let normed = layer.normed_attention(RopeLayout::Halves);
    Attention { query_norm: normed.query_norm, key_norm: normed.key_norm, ..plain }
}
