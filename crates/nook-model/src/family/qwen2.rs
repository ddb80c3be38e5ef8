//! Qwen2 and Qwen2.5 (Qwen team, 2024), dense and as a mixture of experts: Llama with biases of
//! queries, keys and values, and halves that turn.
//!
//! Reference: `Qwen2ForCausalLM` and `Qwen2MoeForCausalLM` of Hugging Face transformers. The biases
//! are in no metadata: every layer must have them. Long contexts come by YaRN where the file names
//! it. The mixture does not make weights add up to 1, and a sigmoid gates its shared expert; no key
//! says so.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{layers, model, rope};
use super::metadata::Metadata;
use super::qwen35::gated_shared;
use crate::error::Fault;
use crate::parts::{Activation, FeedForward, Mixture, Routing};
use crate::shape::FEED_FORWARD_MAX;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let blocks = layers(&sizes, |layer| {
        let attention = layer.maybe_biased_attention(metadata, RopeLayout::Halves);
        Ok(layer.block(attention, layer.gated(Activation::Silu)))
    })?;
    Ok(model(&sizes, rope(metadata, &sizes)?, blocks))
}

pub(super) fn describe_mixture(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let Some((count, used)) = metadata.experts()? else {
        return Err(metadata.bad("expert_count", 0, "1 or more"));
    };
    let width = metadata.number("expert_feed_forward_length", None, 1..=FEED_FORWARD_MAX)?;
    let name = "expert_shared_feed_forward_length";
    let shared = metadata.number(name, None, 1..=FEED_FORWARD_MAX)?;
    let sizes = metadata.sizes_or("attention.layer_norm_rms_epsilon", Some(width))?;
    metadata.check_value_length(&sizes)?;
    let routing = Routing::softmax(used, false);
    let blocks = layers(&sizes, |layer| {
        let plain = layer.mixture(count, width, routing);
        let mixture = Mixture { shared: Some(gated_shared(layer, shared)), ..plain };
        let attention = layer.maybe_biased_attention(metadata, RopeLayout::Halves);
        Ok(layer.block(attention, FeedForward::Mixture(mixture)))
    })?;
    Ok(model(&sizes, rope(metadata, &sizes)?, blocks))
}
