//! Qwen3.5 (Qwen team, 2026), dense and as a mixture of experts, and Qwen3-Next (2025): three layers
//! of a gated delta net to one of attention whose result is gated.
//!
//! Reference: `Qwen3_5ForCausalLM`, `Qwen3_5MoeForCausalLM` and `Qwen3NextForCausalLM` of Hugging
//! Face transformers, and llama.cpp for how files lay it out: the gate of a head follows its query in `attn_q`; `ssm_a`
//! holds `-exp(A_log)`; norms are already `1 + w`; `post_attention_norm` is the norm before the
//! feed-forward layer. A part of each head turns, in halves; the rotary sections are for pictures,
//! and of a text all positions are equal. Layers that predict further tokens count in `block_count`
//! and are passed over. The first files of Qwen3-Next hold `ssm_in` in place of `attn_qkv` and
//! `attn_gate`. The mixture renormalises, and a sigmoid gates its shared expert.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{LayerNames, layers, model, pass_over_predicting, rope};
use super::metadata::{Metadata, Sizes};
use crate::error::Fault;
use crate::parts::{
    Activation, Attention, Block, Dense, FeedForward, GatedDelta, KeyHeads, Linear, Mixer, Mixture,
    Routing, SharedExpert,
};
use crate::shape::{FEED_FORWARD_MAX, HEAD_DIM_MAX, HEADS_MAX, LAYERS_MAX};
use crate::weights::{MatrixSpec, Named, VectorSpec};

/// Each so-manieth layer is one of attention.
const INTERVAL_USUAL: u32 = 4;

/// Longest convolution; the known ones see 4 positions.
pub(super) const KERNEL_MAX: u32 = 64;

/// Sizes of the delta nets.
#[derive(Debug, Clone, Copy)]
struct Net {
    dim: u32,
    key_heads: u32,
    value_heads: u32,
    sharing: KeyHeads,
    kernel: u32,
}

/// What the layers with experts share.
#[derive(Debug, Clone, Copy)]
struct Experts {
    count: u32,
    used: u32,
    width: u32,
    shared: u32,
}

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    build(metadata, sizes, KeyHeads::Tiled, |layer| layer.gated(Activation::Silu))
}

pub(super) fn describe_mixture(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    mixtures(metadata, KeyHeads::Tiled)
}

/// Qwen3-Next: value heads share key heads in groups, and two projections are one.
pub(super) fn describe_next(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    mixtures(metadata, KeyHeads::Grouped)
}

fn mixtures(metadata: &Metadata<'_>, sharing: KeyHeads) -> Result<Description, Fault> {
    let Some((count, used)) = metadata.experts()? else {
        return Err(metadata.bad("expert_count", 0, "1 or more"));
    };
    let width = metadata.number("expert_feed_forward_length", None, 1..=FEED_FORWARD_MAX)?;
    let name = "expert_shared_feed_forward_length";
    let shared = metadata.number(name, Some(width), 1..=FEED_FORWARD_MAX)?;
    let sizes = metadata.sizes_or("attention.layer_norm_rms_epsilon", Some(width))?;
    let experts = Experts { count, used, width, shared };
    build(metadata, sizes, sharing, |layer| FeedForward::Mixture(mixture(metadata, layer, experts)))
}

fn build(
    metadata: &Metadata<'_>,
    mut sizes: Sizes,
    sharing: KeyHeads,
    feed_forward: impl Fn(LayerNames<'_>) -> FeedForward<Named>,
) -> Result<Description, Fault> {
    metadata.check_value_length(&sizes)?;
    let all_layers = sizes.layers;
    let passed_over = pass_over_predicting(metadata, &mut sizes)?;
    let interval =
        metadata.number("full_attention_interval", Some(INTERVAL_USUAL), 1..=LAYERS_MAX)?;
    let recurrent = metadata.truths("attention.recurrent_layers", all_layers)?;
    let net = net(metadata, sharing)?;
    let blocks = layers(&sizes, |layer| {
        let recurrent = match &recurrent {
            Some(list) => list.get(layer.index as usize).copied().unwrap_or(false),
            None => !(layer.index + 1).is_multiple_of(interval),
        };
        let mixer = match recurrent {
            true => Mixer::Delta(delta(metadata, layer, net)),
            false => Mixer::Attention(attention(layer)),
        };
        let norm = layer.norm("post_attention_norm", sizes.hidden);
        let block = layer.mixed_block(mixer, feed_forward(layer));
        Ok(Block { feed_forward_norm: Some(norm), ..block })
    })?;
    Ok(Description { passed_over, ..model(&sizes, rope(metadata, &sizes)?, blocks) })
}

fn net(metadata: &Metadata<'_>, sharing: KeyHeads) -> Result<Net, Fault> {
    let dim = metadata.number("ssm.state_size", None, 1..=HEAD_DIM_MAX)?;
    let key_heads = metadata.number("ssm.group_count", None, 1..=HEADS_MAX)?;
    let value_heads = metadata.number("ssm.time_step_rank", None, 1..=HEADS_MAX)?;
    if !value_heads.is_multiple_of(key_heads) {
        let expected = format!("a divisor of {value_heads} value heads");
        return Err(metadata.bad("ssm.group_count", key_heads, expected));
    }
    let inner = metadata.number("ssm.inner_size", None, 1..=u32::MAX)?;
    if inner != dim * value_heads {
        let expected = format!("{value_heads} heads of {dim}");
        return Err(metadata.bad("ssm.inner_size", inner, expected));
    }
    let kernel = metadata.number("ssm.conv_kernel", None, 1..=KERNEL_MAX)?;
    Ok(Net { dim, key_heads, value_heads, sharing, kernel })
}

fn attention(layer: LayerNames<'_>) -> Attention<Named> {
    let s = layer.sizes;
    let dim = s.head_dim;
    let both = layer.matrix("attn_q", s.hidden, 2 * s.heads * dim);
    Attention {
        query: Linear::new(both.interleaved(2 * dim, 0, dim)),
        gate: Some(Linear::new(both.interleaved(2 * dim, dim, dim))),
        query_norm: Some(layer.norm("attn_q_norm", dim)),
        key_norm: Some(layer.norm("attn_k_norm", dim)),
        ..layer.attention(RopeLayout::Halves)
    }
}

fn delta(metadata: &Metadata<'_>, layer: LayerNames<'_>, net: Net) -> GatedDelta<Named> {
    let Net { dim, key_heads, value_heads, sharing, kernel } = net;
    let hidden = layer.sizes.hidden;
    let (keys, values) = (dim * key_heads, dim * value_heads);
    let channels = 2 * keys + values;
    let (beta, alpha) = match sharing {
        KeyHeads::Tiled => (
            layer.linear("ssm_beta", hidden, value_heads),
            layer.linear("ssm_alpha", hidden, value_heads),
        ),
        // One matrix, key head by key head: first how far its value heads are corrected.
        KeyHeads::Grouped => {
            let (both, shared_by) =
                (layer.matrix("ssm_ba", hidden, 2 * value_heads), value_heads / key_heads);
            let part = |first| Linear::new(both.interleaved(2 * shared_by, first, shared_by));
            (part(0), part(shared_by))
        }
    };
    let is_first = sharing == KeyHeads::Grouped && metadata.has(&layer.tensor("ssm_in.weight"));
    let (mixed, gate) = if is_first {
        first_layout(layer, net)
    } else {
        (layer.linear("attn_qkv", hidden, channels), layer.linear("attn_gate", hidden, values))
    };
    GatedDelta {
        mixed,
        gate,
        beta,
        alpha,
        convolution: VectorSpec {
            tensor: layer.tensor("ssm_conv1d.weight"),
            dimensions: vec![kernel, channels],
        },
        step_bias: layer.vector("ssm_dt.bias", value_heads),
        decay: layer.vector("ssm_a", value_heads),
        norm: layer.norm("ssm_norm", dim),
        output: layer.linear("ssm_out", values, hidden),
        key_heads: key_heads as usize,
        value_heads: value_heads as usize,
        sharing,
        dim: dim as usize,
        kernel: kernel as usize,
        epsilon: layer.sizes.epsilon,
    }
}

/// What is convolved, and the gate, in the first files of Qwen3-Next: one matrix, key head by key
/// head its query, its key, the values of its value heads, and their gates.
fn first_layout(layer: LayerNames<'_>, net: Net) -> (Linear<Named>, Linear<Named>) {
    let Net { dim, key_heads, value_heads, .. } = net;
    let shared_by = value_heads / key_heads * dim;
    let period = 2 * (dim + shared_by);
    let all = layer.matrix("ssm_in", layer.sizes.hidden, key_heads * period);
    let part = |first, count| all.interleaved(period, first, count);
    let parts = [part(0, dim), part(dim, dim), part(2 * dim, shared_by)];
    let runs = parts.into_iter().flat_map(|part| part.runs).collect();
    let mixed = MatrixSpec { runs, ..all.clone() };
    (Linear::new(mixed), Linear::new(part(2 * dim + shared_by, shared_by)))
}

fn mixture(metadata: &Metadata<'_>, layer: LayerNames<'_>, experts: Experts) -> Mixture<Named> {
    let routing = Routing::softmax(experts.used, true);
    let plain = layer.maybe_fused_mixture(metadata, experts.count, experts.width, routing);
    Mixture { shared: Some(gated_shared(layer, experts.shared)), ..plain }
}

/// A shared expert of `width` that a sigmoid of one row gates.
pub(super) fn gated_shared(layer: LayerNames<'_>, width: u32) -> SharedExpert<Named> {
    let gate = MatrixSpec::row(layer.tensor("ffn_gate_inp_shexp.weight"), layer.sizes.hidden);
    SharedExpert {
        expert: Dense::Gated(layer.gated_named("_shexp", width, Activation::Silu)),
        gate: Some(Linear::new(gate)),
    }
}
