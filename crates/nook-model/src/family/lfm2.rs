//! LFM2 and LFM2.5 (Liquid AI, 2025), dense and as a mixture of experts: gated short convolutions,
//! with a few layers of attention among them.
//!
//! Reference: `Lfm2ForCausalLM` and `Lfm2MoeForCausalLM` of Hugging Face transformers. A layer
//! without key-value heads is a convolution, whose projection gives the entry gate, the exit gate
//! and the input, in this order. Query and key heads are normed before they turn, in halves. The
//! last norm is called `token_embd_norm`. Experts are chosen by a sigmoid and a bias, and weighed by
//! the sigmoid alone, made to add up to (very nearly) 1.

use nook_kernels::RopeLayout;

use super::builder::{LayerNames, layers, model, rope};
use super::experts::{Experts, experts, mixture};
use super::llama::window;
use super::metadata::{Metadata, Sizes, Varied};
use super::qwen35::KERNEL_MAX;
use super::{Description, HeadSpec};
use crate::error::Fault;
use crate::parts::{Activation, Attention, FeedForward, Linear, Mixer, Norm, Routing, ShortConv};
use crate::weights::{Named, VectorSpec};

/// What keeps the sum of weights above 0.
const SUM_OFFSET: f32 = 1e-6;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let (sizes, varied) = metadata.varied_sizes("attention.layer_norm_rms_epsilon")?;
    build(metadata, &sizes, &varied, None)
}

pub(super) fn describe_mixture(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let (sizes, varied) = metadata.varied_sizes("attention.layer_norm_rms_epsilon")?;
    let usual = Routing { sum_offset: SUM_OFFSET, ..Routing::sigmoid(0, true) };
    let Some(experts) = experts(metadata, &sizes, usual)? else {
        return Err(metadata.bad("expert_count", 0, "1 or more"));
    };
    build(metadata, &sizes, &varied, Some(experts))
}

fn build(
    metadata: &Metadata<'_>,
    sizes: &Sizes,
    varied: &Varied,
    experts: Option<Experts>,
) -> Result<Description, Fault> {
    metadata.check_value_length(sizes)?;
    let kernel = metadata.number("shortconv.l_cache", None, 2..=KERNEL_MAX)?;
    let reach = window(metadata)?;
    let blocks = layers(sizes, |layer| {
        let own = varied.sizes_of(sizes, layer.index);
        let layer = LayerNames { sizes: &own, ..layer };
        let mixer = if own.kv_heads == 0 {
            Mixer::Convolution(convolution(layer, kernel))
        } else {
            let attention = layer.normed_attention(RopeLayout::Halves);
            Mixer::Attention(Attention { reach, ..attention })
        };
        let experts = experts.filter(|experts| layer.index >= experts.first_layer);
        let feed_forward = match experts {
            Some(experts) => FeedForward::Mixture(mixture(metadata, layer, experts)),
            None => layer.gated(Activation::Silu),
        };
        Ok(layer.mixed_block(mixer, feed_forward))
    })?;
    let plain = model(sizes, rope(metadata, sizes)?, blocks);
    let norm = Norm::rms("token_embd_norm.weight", sizes.hidden, sizes.epsilon);
    Ok(Description { head: HeadSpec { norm, ..plain.head }, ..plain })
}

fn convolution(layer: LayerNames<'_>, kernel: u32) -> ShortConv<Named> {
    let hidden = layer.sizes.hidden;
    let all = layer.matrix("shortconv.in_proj", hidden, 3 * hidden);
    let part = |index: u32| Linear::new(all.part(index * hidden, hidden));
    ShortConv {
        entry_gate: part(0),
        exit_gate: part(1),
        input: part(2),
        convolution: VectorSpec {
            tensor: layer.tensor("shortconv.conv.weight"),
            dimensions: vec![kernel, hidden],
        },
        output: layer.linear("shortconv.out_proj", hidden, hidden),
        hidden: hidden as usize,
        kernel: kernel as usize,
    }
}
