//! Gemma 3 (Gemma team, 2025): as Gemma 2 without caps, with norms of query and key heads, and five
//! layers with a sliding window for each one that sees everything.
//!
//! Reference: `Gemma3ForCausalLM` of Hugging Face transformers. Layers with a window turn with base
//! 10,000 and unscaled positions; the base and the scaling that the file names are those of the
//! others. Every sixth layer sees everything, and all layers do where the file names no window
//! (Rnj-1, Essential AI 2025). Scores as in Gemma 2; its 27B model has 62 layers.

use nook_kernels::{RopeLayout, RopeScaling};

use super::builder::{layers, model, rope};
use super::gemma::{scaled, sizes};
use super::gemma2::scale;
use super::metadata::Metadata;
use super::{Description, HeadSpec};
use crate::error::Fault;
use crate::parts::{Activation, Attention, Block, Factors, Reach, RopeSpec, Turn};
use crate::shape::CONTEXT_MAX;

const LAYERS_27B: u32 = 62;

/// Rotary base of the layers with a window.
const WINDOW_ROPE_BASE: f32 = 10_000.0;

/// Each so-manieth layer sees everything.
const PATTERN_USUAL: u32 = 6;

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let sizes = sizes(metadata)?;
    let window = metadata.number("attention.sliding_window", Some(0), 0..=CONTEXT_MAX)?;
    let pattern = pattern(metadata, sizes.layers)?;
    let scale = scale(&sizes, LAYERS_27B);
    let blocks = layers(&sizes, |layer| {
        let slides = window > 0 && !(layer.index + 1).is_multiple_of(pattern);
        let attention = Attention {
            scale,
            reach: if slides { Reach::Window(window) } else { Reach::All },
            turn: Some(Turn { rope: usize::from(slides), layout: RopeLayout::Halves }),
            ..layer.normed_attention(RopeLayout::Halves)
        };
        Ok(Block {
            post_attention_norm: Some(layer.norm("post_attention_norm", sizes.hidden)),
            post_feed_forward_norm: Some(layer.norm("post_ffw_norm", sizes.hidden)),
            ..layer.block(attention, layer.gated(Activation::GeluTanh))
        })
    })?;
    let mut plain = model(&sizes, rope(metadata, &sizes)?, blocks);
    if window > 0 {
        plain.ropes.push(RopeSpec {
            base: metadata.rope_base("rope.freq_base_swa")?.unwrap_or(WINDOW_ROPE_BASE),
            dimensions: sizes.rope_dimensions,
            scaling: RopeScaling::None,
            magnitude: 1.0,
            factors: Factors::None,
        });
    }
    let soft_cap = metadata.positive("final_logit_softcapping")?;
    let head = HeadSpec { soft_cap, ..plain.head };
    Ok(scaled(&sizes, Description { head, ..plain }))
}

/// Of so many layers the last sees everything. A list by layer, which some files have, counts as
/// none: llama.cpp does not read it for this family, and the published models have one pattern.
fn pattern(metadata: &Metadata<'_>, layers: u32) -> Result<u32, Fault> {
    let name = "attention.sliding_window_pattern";
    match metadata.header.value(&metadata.key(name)) {
        Some(value) if value.is_list() => Ok(PATTERN_USUAL),
        _ => metadata.number(name, Some(PATTERN_USUAL), 1..=layers.max(PATTERN_USUAL)),
    }
}
