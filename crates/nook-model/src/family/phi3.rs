//! Phi-3, Phi-3.5 and Phi-4 (Microsoft, 2024): Llama with fused projections, and halves that turn,
//! sometimes only a part of each head.
//!
//! Reference: `Phi3ForCausalLM` of Hugging Face transformers. `attn_qkv` holds queries, keys and
//! values in this order, `ffn_up` the gate and then the up matrix. Models with long contexts carry
//! two sets of rotary factors ([`crate::parts::Factors::ByWindow`]). A sliding window that the file
//! names is used, as the publisher's model does (llama.cpp leaves it out).

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{layers, long_rope, model};
use super::llama::window;
use super::metadata::Metadata;
use crate::error::Fault;
use crate::parts::{Activation, Attention, Linear};

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let reach = window(metadata)?;
    let blocks = layers(&sizes, |layer| {
        let (query, key) = (sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim);
        let fused = layer.matrix("attn_qkv", sizes.hidden, query + 2 * key);
        let attention = Attention {
            query: Linear::new(fused.part(0, query)),
            key: Linear::new(fused.part(query, key)),
            value: Some(Linear::new(fused.part(query + key, key))),
            reach,
            ..layer.attention(RopeLayout::Halves)
        };
        Ok(layer.block(attention, layer.fused_gated(Activation::Silu)))
    })?;
    Ok(model(&sizes, long_rope(metadata, &sizes)?, blocks))
}
