//! Qwen2 and Qwen2.5 (Qwen team, 2024), dense and as a mixture of experts: Llama with biases of
//! queries, keys and values, and halves that turn.
//!
//! Reference: `Qwen2ForCausalLM` and `Qwen2MoeForCausalLM` of Hugging Face transformers. The biases
//! are in no metadata, and some models of this form have none. Long contexts come by YaRN where the
//! file names it. The mixture does not make weights add up to 1, and a sigmoid gates its shared
//! expert; no key says so. Where the file does not name them, the width of an expert is that of a
//! layer divided by the experts used, and that of the shared expert is that of a layer, as in
//! llama.cpp.

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
    let named = |name| metadata.number(name, Some(0), 0..=FEED_FORWARD_MAX);
    let own = Some(named("expert_feed_forward_length")?).filter(|width| *width > 0);
    let shared = named("expert_shared_feed_forward_length")?;
    let sizes = metadata.sizes_or("attention.layer_norm_rms_epsilon", own)?;
    let width = own.unwrap_or(sizes.feed_forward / used);
    let shared = if shared > 0 { shared } else { sizes.feed_forward };
    if width == 0 {
        let expected = format!("at least {used}, the experts that are used");
        return Err(metadata.bad("feed_forward_length", sizes.feed_forward, expected));
    }
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
