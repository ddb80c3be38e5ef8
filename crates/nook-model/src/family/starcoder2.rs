//! StarCoder2 (Lozhkov et al. 2024): layer norms, biases everywhere, a plain GELU feed-forward
//! layer, halves that turn.
//!
//! Reference: `Starcoder2ForCausalLM` of Hugging Face transformers, with the tanh form of GELU that
//! its configuration names. A sliding window that the file names is used.

use nook_kernels::RopeLayout;

use super::builder::{LayerNames, layers, model, rope};
use super::llama::window;
use super::metadata::Metadata;
use super::{Description, HeadSpec};
use crate::error::Fault;
use crate::parts::{Activation, Attention, Block, FeedForward, Norm, NormKind, Plain};
use crate::weights::{Named, VectorSpec};

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let reach = window(metadata)?;
    let blocks = layers(&sizes, |layer| {
        let (hidden, width) = (sizes.hidden, sizes.feed_forward);
        let attention = Attention {
            output: layer.biased("attn_output", sizes.heads * sizes.head_dim, hidden),
            reach,
            ..layer.biased_attention(RopeLayout::Halves)
        };
        let feed_forward = FeedForward::Plain(Plain {
            up: layer.biased("ffn_up", hidden, width),
            down: layer.biased("ffn_down", width, hidden),
            activation: Activation::GeluTanh,
        });
        Ok(Block {
            attention_norm: Some(norm(layer, "attn_norm")),
            feed_forward_norm: Some(norm(layer, "ffn_norm")),
            ..layer.block(attention, feed_forward)
        })
    })?;
    let plain = model(&sizes, rope(metadata, &sizes)?, blocks);
    let norm = Norm {
        kind: NormKind::Layer,
        bias: Some(VectorSpec::new("output_norm.bias", sizes.hidden)),
        ..plain.head.norm
    };
    Ok(Description { head: HeadSpec { norm, ..plain.head }, ..plain })
}

fn norm(layer: LayerNames<'_>, name: &str) -> Norm<Named> {
    let width = layer.sizes.hidden;
    Norm {
        kind: NormKind::Layer,
        bias: Some(layer.vector(&format!("{name}.bias"), width)),
        ..layer.norm(name, width)
    }
}
