//! Nemotron-H, Nemotron Nano 2 and Nemotron 3 Nano (NVIDIA, 2025): each layer is one thing alone, a
//! Mamba-2 layer, attention without positions, or a feed-forward layer.
//!
//! Reference: `NemotronHForCausalLM` of Hugging Face transformers. A layer with key-value heads is
//! attention, one with a feed-forward width is that, any other is one of Mamba-2. Feed-forward
//! layers have no gate and square what is above 0. With experts, these are chosen by a sigmoid and a
//! bias and weighed by the sigmoid alone; beside them is a shared one of a width of its own. Layers
//! that predict further tokens count in `block_count` and in the lists by layer, and are passed
//! over.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{LayerNames, layers, model, pass_over_predicting, rope};
use super::experts::{Experts, experts, mixture};
use super::mamba::Mamba;
use super::metadata::Metadata;
use crate::error::Fault;
use crate::parts::{
    Activation, Attention, Block, Dense, FeedForward, Mixer, Mixture, Plain, Routing, SharedExpert,
};
use crate::shape::FEED_FORWARD_MAX;
use crate::weights::Named;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let root_mean_square = "attention.layer_norm_rms_epsilon";
    // The norms are those of the first key; published files name the second.
    let named = metadata.header.value(&metadata.key(root_mean_square)).is_some();
    let epsilon = if named { root_mean_square } else { "attention.layer_norm_epsilon" };
    let (mut sizes, varied) = metadata.varied_sizes(epsilon)?;
    metadata.check_value_length(&sizes)?;
    let passed_over = pass_over_predicting(metadata, &mut sizes)?;
    let experts = experts(metadata, &sizes, Routing::sigmoid(0, true))?;
    let name = "expert_shared_feed_forward_length";
    let shared = metadata.number(name, Some(0), 0..=FEED_FORWARD_MAX)?;
    let mamba = Mamba::of(metadata)?;
    let blocks = layers(&sizes, |layer| {
        let own = varied.sizes_of(&sizes, layer.index);
        let layer = LayerNames { sizes: &own, ..layer };
        if own.kv_heads > 0 {
            return Ok(mixing(layer, Mixer::Attention(attention(metadata, layer))));
        }
        if own.feed_forward == 0 {
            return Ok(mixing(layer, Mixer::Mamba(mamba.layer(metadata, layer))));
        }
        let feed_forward = match experts {
            Some(experts) => {
                FeedForward::Mixture(squared_experts(metadata, layer, experts, shared))
            }
            None => FeedForward::Plain(squared(metadata, layer, "", own.feed_forward)),
        };
        Ok(Block {
            feed_forward_norm: Some(layer.norm("attn_norm", sizes.hidden)),
            feed_forward: Some(feed_forward),
            ..nothing()
        })
    })?;
    // Nothing turns.
    let ropes = Vec::new();
    Ok(Description { ropes, passed_over, ..model(&sizes, rope(metadata, &sizes)?, blocks) })
}

/// A layer without parts.
fn nothing() -> Block<Named> {
    Block {
        attention_norm: None,
        mixer: None,
        post_attention_norm: None,
        feed_forward_norm: None,
        feed_forward: None,
        post_feed_forward_norm: None,
        residual_scale: 1.0,
        laurel: None,
        streams: None,
        layer_input: None,
        output_scale: None,
    }
}

fn mixing(layer: LayerNames<'_>, mixer: Mixer<Named>) -> Block<Named> {
    let norm = layer.norm("attn_norm", layer.sizes.hidden);
    Block { attention_norm: Some(norm), mixer: Some(mixer), ..nothing() }
}

fn attention(metadata: &Metadata<'_>, layer: LayerNames<'_>) -> Attention<Named> {
    Attention { turn: None, ..layer.maybe_biased_attention(metadata, RopeLayout::Halves) }
}

/// A feed-forward layer without a gate, for tensors whose names end in `ending`.
fn squared(
    metadata: &Metadata<'_>,
    layer: LayerNames<'_>,
    ending: &str,
    width: u32,
) -> Plain<Named> {
    let hidden = layer.sizes.hidden;
    Plain {
        up: layer.maybe_biased(metadata, &format!("ffn_up{ending}"), hidden, width),
        down: layer.maybe_biased(metadata, &format!("ffn_down{ending}"), width, hidden),
        activation: Activation::SquaredRelu,
    }
}

fn squared_experts(
    metadata: &Metadata<'_>,
    layer: LayerNames<'_>,
    experts: Experts,
    shared: u32,
) -> Mixture<Named> {
    let shared = (shared > 0).then(|| SharedExpert {
        expert: Dense::Plain(squared(metadata, layer, "_shexp", shared)),
        gate: None,
    });
    let gated = mixture(metadata, layer, experts);
    // Nothing gates them, so that up is never one matrix with a gate.
    let up = layer.mixture(experts.count, experts.width, experts.routing).up;
    Mixture { gate: None, up, shared, activation: Activation::SquaredRelu, ..gated }
}
