//! Llama (Touvron et al. 2023), with grouped-query attention: Llama 1 to 3, Mistral, Ember and the
//! many that share the GGUF architecture `llama`; and Mixtral (Jiang et al. 2024), a mixture of
//! experts under the same name.
//!
//! Reference: `LlamaForCausalLM`, `MistralForCausalLM` and `MixtralForCausalLM` of Hugging Face
//! transformers; tensor names and the order of Q and K rows (adjacent pairs turn) as llama.cpp's
//! converter writes them. Llama 3.1 and later carry `rope_freqs.weight`, divisors of the rotary
//! frequencies that every holder of a layer needs. The first Mistral saw a sliding window; where
//! the file names it, it is used. Most models have no biases; others of this name do, of any of the
//! seven matrices of a layer (Granite Code, Bielik), and no key says which.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{LayerNames, layers, model, rope};
use super::metadata::Metadata;
use crate::error::Fault;
use crate::parts::{Activation, Attention, FeedForward, Reach, Routing};
use crate::shape::CONTEXT_MAX;
use crate::weights::Named;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let experts = metadata.experts()?;
    let reach = window(metadata)?;
    let blocks = layers(&sizes, |layer| {
        let plain = layer.maybe_biased_attention(metadata, RopeLayout::Adjacent);
        let attention = Attention { reach, ..plain };
        Ok(layer.block(attention, feed_forward(metadata, layer, experts)))
    })?;
    Ok(model(&sizes, rope(metadata, &sizes)?, blocks))
}

/// The sliding window that the file names; 0 is none.
pub(super) fn window(metadata: &Metadata<'_>) -> Result<Reach, Fault> {
    match metadata.number("attention.sliding_window", Some(0), 0..=CONTEXT_MAX)? {
        0 => Ok(Reach::All),
        window => Ok(Reach::Window(window)),
    }
}

/// Dense, with the biases that the file has, or the mixture of Mixtral: softmax, the best few, made
/// to add up to 1.
pub(super) fn feed_forward(
    metadata: &Metadata<'_>,
    layer: LayerNames<'_>,
    experts: Option<(u32, u32)>,
) -> FeedForward<Named> {
    let Some((count, used)) = experts else {
        return layer.maybe_biased_gated(metadata, Activation::Silu);
    };
    let routing = Routing::softmax(used, true);
    FeedForward::Mixture(layer.mixture(count, layer.sizes.feed_forward, routing))
}
