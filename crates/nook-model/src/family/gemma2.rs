//! Gemma 2 (Gemma team, 2024): Gemma with norms after each part, capped scores and logits, and a
//! sliding window in every layer of even number.
//!
//! Reference: `Gemma2ForCausalLM` of Hugging Face transformers; defaults of the caps and of the
//! window as in llama.cpp, whose converter did not always write them. Scores are divided by the
//! root of the head's width, in the 27B model (46 layers) by that of `hidden / heads`, which no key
//! says.

use nook_kernels::RopeLayout;

use super::builder::{layers, model, rope};
use super::gemma::{scaled, sizes};
use super::metadata::{Metadata, Sizes};
use super::{Description, HeadSpec};
use crate::error::Fault;
use crate::parts::{Activation, Attention, Block, Reach};
use crate::shape::CONTEXT_MAX;

/// Layers of the model that divides scores differently.
const LAYERS_27B: u32 = 46;

const SCORE_CAP_USUAL: f32 = 50.0;
const LOGIT_CAP_USUAL: f32 = 30.0;
const WINDOW_USUAL: u32 = 4096;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = sizes(metadata)?;
    let window =
        metadata.number("attention.sliding_window", Some(WINDOW_USUAL), 1..=CONTEXT_MAX)?;
    let score_cap = metadata.positive("attn_logit_softcapping")?.unwrap_or(SCORE_CAP_USUAL);
    let logit_cap = metadata.positive("final_logit_softcapping")?.unwrap_or(LOGIT_CAP_USUAL);
    let scale = scale(&sizes, LAYERS_27B);
    let blocks = layers(&sizes, |layer| {
        let slides = layer.index.is_multiple_of(2);
        let attention = Attention {
            scale,
            soft_cap: Some(score_cap),
            reach: if slides { Reach::Window(window) } else { Reach::All },
            ..layer.attention(RopeLayout::Halves)
        };
        Ok(Block {
            post_attention_norm: Some(layer.norm("post_attention_norm", sizes.hidden)),
            post_feed_forward_norm: Some(layer.norm("post_ffw_norm", sizes.hidden)),
            ..layer.block(attention, layer.gated(Activation::GeluTanh))
        })
    })?;
    let plain = model(&sizes, rope(metadata, &sizes)?, blocks);
    let head = HeadSpec { soft_cap: Some(logit_cap), ..plain.head };
    Ok(scaled(&sizes, Description { head, ..plain }))
}

/// Factor of the scores: by the head's width, or by `hidden / heads` where the model has `layers`.
pub(super) fn scale(sizes: &Sizes, layers: u32) -> f32 {
    let width = if sizes.layers == layers { sizes.hidden / sizes.heads } else { sizes.head_dim };
    1.0 / (width as f32).sqrt()
}
