//! Qwen3 (Qwen team, 2025), dense and as a mixture of experts: no biases, a norm of each query and
//! key head before it turns, halves that turn.
//!
//! Reference: `Qwen3ForCausalLM` and `Qwen3MoeForCausalLM` of Hugging Face transformers. The
//! mixture takes a softmax over all experts, the best few, and makes their weights add up to 1 (in
//! the publisher's configuration, in no GGUF key). Every layer is a mixture.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{layers, model, rope};
use super::metadata::{Metadata, Sizes};
use crate::error::Fault;
use crate::parts::{Activation, FeedForward, Routing};
use crate::shape::FEED_FORWARD_MAX;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = sizes(metadata)?;
    let blocks = layers(&sizes, |layer| {
        Ok(layer.block(layer.normed_attention(RopeLayout::Halves), layer.gated(Activation::Silu)))
    })?;
    Ok(model(&sizes, rope(metadata, &sizes)?, blocks))
}

pub(super) fn describe_mixture(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = sizes(metadata)?;
    let Some((count, used)) = metadata.experts()? else {
        return Err(metadata.bad("expert_count", 0, "1 or more"));
    };
    let width = metadata.number("expert_feed_forward_length", None, 1..=FEED_FORWARD_MAX)?;
    let routing = Routing::softmax(used, true);
    let blocks = layers(&sizes, |layer| {
        let mixture = FeedForward::Mixture(layer.mixture(count, width, routing));
        Ok(layer.block(layer.normed_attention(RopeLayout::Halves), mixture))
    })?;
    Ok(model(&sizes, rope(metadata, &sizes)?, blocks))
}

fn sizes(metadata: &Metadata<'_>) -> Result<Sizes, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    Ok(sizes)
}
