//! MiniCPM 3 (OpenBMB, 2024): latent attention as in DeepSeek-V2, but halves turn, in a dense model
//! with the multipliers of the first MiniCPM, which no key says.
//!
//! Reference: `MiniCPM3ForCausalLM` of its publisher, and llama.cpp, which has the same constants.
//! The value's width is in no key either: it is the heads' share of the hidden state. Two sets of
//! rotary factors, as in Phi-3.

use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{layers, long_rope, model};
use super::deepseek2::{Latent, RANK_MAX, attention};
use super::metadata::Metadata;
use super::minicpm::{residual_scale, scaled};
use crate::error::Fault;
use crate::parts::{Activation, Block, Mixer};
use crate::shape::HEAD_DIM_MAX;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let mut sizes = metadata.sizes("attention.layer_norm_rms_epsilon")?;
    let key = sizes.head_dim.max(2);
    let turning = metadata.rope_dimensions(key - 1)?;
    sizes.rope_dimensions = turning;
    if sizes.kv_heads != sizes.heads {
        let expected = format!("{}, the number of heads", sizes.heads);
        return Err(metadata.bad("attention.head_count_kv", sizes.kv_heads, expected));
    }
    let share = (sizes.hidden / sizes.heads).max(1);
    let latent = Latent {
        rank: metadata.number("attention.kv_lora_rank", None, 1..=RANK_MAX)?,
        query_rank: Some(metadata.number("attention.q_lora_rank", None, 1..=RANK_MAX)?),
        still: key - turning,
        turning,
        value: metadata.number("attention.value_length", Some(share), 1..=HEAD_DIM_MAX)?,
        absorbed: false,
        scale: 1.0 / (key as f32).sqrt(),
        layout: RopeLayout::Halves,
    };
    let residual_scale = residual_scale(metadata, &sizes)?;
    let blocks = layers(&sizes, |layer| {
        let mixer = Mixer::Latent(attention(layer, latent));
        Ok(Block { residual_scale, ..layer.mixed_block(mixer, layer.gated(Activation::Silu)) })
    })?;
    let plain = model(&sizes, long_rope(metadata, &sizes)?, blocks);
    scaled(metadata, &sizes, plain)
}
