//! OLMo 2 (OLMo team, 2024): no norms before the parts but after them, and norms of whole query and
//! key rows before they turn (halves). OLMo 3 files carry the same name and a sliding window.
//!
//! Reference: `Olmo2ForCausalLM` and `Olmo3ForCausalLM` of Hugging Face transformers. Where the
//! file names a window, three layers with it are followed by one that sees everything, and only
//! those scale their positions.

use nook_kernels::{RopeLayout, RopeScaling};

use super::Description;
use super::builder::{layers, model, rope};
use super::llama::window;
use super::metadata::Metadata;
use crate::error::Fault;
use crate::parts::{Activation, Attention, Block, Factors, Reach, RopeSpec, Turn};

/// Each so-manieth layer sees everything, in files with a window.
const PATTERN: u32 = 4;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let reach = window(metadata)?;
    let blocks = layers(&sizes, |layer| {
        let slides = reach != Reach::All && !(layer.index + 1).is_multiple_of(PATTERN);
        let attention = Attention {
            query_norm: Some(layer.norm("attn_q_norm", sizes.heads * sizes.head_dim)),
            key_norm: Some(layer.norm("attn_k_norm", sizes.kv_heads * sizes.head_dim)),
            reach: if slides { reach } else { Reach::All },
            turn: Some(Turn { rope: usize::from(slides), layout: RopeLayout::Halves }),
            ..layer.attention(RopeLayout::Halves)
        };
        Ok(Block {
            attention_norm: None,
            post_attention_norm: Some(layer.norm("post_attention_norm", sizes.hidden)),
            feed_forward_norm: None,
            post_feed_forward_norm: Some(layer.norm("post_ffw_norm", sizes.hidden)),
            ..layer.block(attention, layer.gated(Activation::Silu))
        })
    })?;
    let mut plain = model(&sizes, rope(metadata, &sizes)?, blocks);
    if reach != Reach::All {
        plain.ropes.push(RopeSpec {
            base: sizes.rope_base,
            dimensions: sizes.rope_dimensions,
            scaling: RopeScaling::None,
            magnitude: 1.0,
            factors: Factors::None,
        });
    }
    Ok(plain)
}
