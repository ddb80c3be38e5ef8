//! Gemma 3n (Gemma team, 2025), text only: four hidden states of each position side by side, of
//! which each layer computes one; a narrow way beside attention; an input of each layer by token;
//! late layers that read the keys and values of earlier ones; in the first layers, gates that stay
//! shut below a cut-off.
//!
//! Reference: `Gemma3nForCausalLM` of Hugging Face transformers. Norm weights are plain. Scores are
//! not scaled. The layers whose keys and values others read may not be cut from those: see
//! [`sources`]. What goes from layer to layer are the streams and, behind them, the rows of
//! [`LayerInputs`](crate::parts::LayerInputs), which whoever looks up embeddings makes for all
//! layers: whoever holds layers alone needs no token ids.
//!
//! The deviation of the cut-off is that of all gates (divided by their number), as in the reference;
//! llama.cpp divides by one less, which at the width of the published models changes 3e-5 of it. The
//! reference also clamps the weights of corrections to 120; files name no bound, and neither
//! llama.cpp nor this clamps them.

use nook_base::limits::HIDDEN_MAX;
use nook_kernels::{RopeLayout, RopeScaling};

use super::builder::{LayerNames, model, rope};
use super::gemma::scaled;
use super::gemma4::{WINDOW_ROPE_BASE, layer_input, layer_inputs, own_or_shared, sources, unused};
use super::metadata::{Metadata, Sizes};
use super::{Description, HeadSpec, Streams};
use crate::error::Fault;
use crate::parts::{
    Activation, AltUp, Attention, Block, Cutoff, Factors, FeedForward, Laurel, OtherStreams, Reach,
    RopeSpec, Turn,
};
use crate::shape::CONTEXT_MAX;
use crate::weights::Named;

/// Most hidden states side by side; the published models have four.
const STREAMS_MAX: u32 = 16;

/// Cap of the logits where the file names none: older converters write none, and llama.cpp takes
/// this.
const LOGIT_CAP_USUAL: f32 = 30.0;

/// What all layers share.
#[derive(Debug, Clone, Copy)]
struct Shared {
    /// Positions seen by the layers with a window.
    window: u32,
    /// Hidden states side by side.
    streams: u32,
    /// Which of them layers compute.
    active: u32,
    /// Numbers of a layer's input by token.
    input: u32,
    /// Rows of the first of the thin matrices beside attention.
    laurel_rank: u32,
}

/// What differs from layer to layer.
#[derive(Debug, Clone, Copy)]
struct Kind {
    slides: bool,
    /// How far before it the layer lies whose keys and values it reads; 0 for its own.
    source: u32,
    cutoff: Option<Cutoff>,
}

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let (sizes, varied) = metadata.varied_sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let name = "attention.sliding_window_pattern";
    let slides = metadata.truths(name, sizes.layers)?;
    let slides = slides.ok_or_else(|| Fault::MissingKey { key: metadata.key(name) })?;
    let sources = sources(metadata, &slides)?;
    let cutoffs = metadata.fractions("activation_sparsity_scale", sizes.layers)?;
    let streams = metadata.number(
        "altup.num_inputs",
        None,
        2..=STREAMS_MAX.min(HIDDEN_MAX / sizes.hidden),
    )?;
    let all_streams = streams * sizes.hidden;
    let (inputs, input) = layer_inputs(metadata, &sizes, all_streams)?
        .ok_or_else(|| metadata.bad("embedding_length_per_layer_input", 0, "at least 1"))?;
    let shared = Shared {
        window: metadata.number("attention.sliding_window", None, 1..=CONTEXT_MAX)?,
        streams,
        active: metadata.number("altup.active_idx", None, 0..=streams - 1)?,
        input,
        laurel_rank: laurel_rank(metadata)?,
    };
    let block = |index: u32| {
        let at = index as usize;
        let own = varied.sizes_of(&sizes, index);
        let deviations = cutoffs.get(at).copied().flatten();
        let kind = Kind {
            slides: slides.get(at).copied().unwrap_or_default(),
            source: sources.get(at).copied().unwrap_or_default(),
            cutoff: deviations.map(|deviations| Cutoff { deviations }),
        };
        block(LayerNames { sizes: &own, index }, shared, kind)
    };
    let blocks = (0..sizes.layers).map(block).collect();
    let mut plain = model(&sizes, rope(metadata, &sizes)?, blocks);
    plain.shape.row = all_streams + sizes.layers * input;
    plain.layer_inputs = Some(inputs);
    plain.streams = Some(Streams {
        count: streams,
        spread: OtherStreams::new("altup_proj.weight", sizes.hidden, streams),
        merge: OtherStreams::new("altup_unembd_proj.weight", sizes.hidden, streams),
    });
    plain.passed_over = unused(metadata, &sources);
    plain.ropes.push(window_rope(metadata, &sizes)?);
    let soft_cap = metadata.positive("final_logit_softcapping")?.unwrap_or(LOGIT_CAP_USUAL);
    let head = HeadSpec { soft_cap: Some(soft_cap), ..plain.head };
    Ok(scaled(&sizes, Description { head, ..plain }))
}

fn window_rope(metadata: &Metadata<'_>, sizes: &Sizes) -> Result<RopeSpec<Named>, Fault> {
    Ok(RopeSpec {
        base: metadata.rope_base("rope.freq_base_swa")?.unwrap_or(WINDOW_ROPE_BASE),
        dimensions: sizes.rope_dimensions,
        scaling: RopeScaling::None,
        magnitude: 1.0,
        factors: Factors::None,
    })
}

/// No key says it: it is what the first layer's matrix has.
fn laurel_rank(metadata: &Metadata<'_>) -> Result<u32, Fault> {
    let tensor = "blk.0.laurel_l.weight";
    let missing = || Fault::MissingTensor { tensor: tensor.to_owned() };
    let found = metadata.header.tensor(tensor).ok_or_else(missing)?;
    let rows = found.dimensions.get(1).copied().unwrap_or(0);
    let rank = u32::try_from(rows).ok().filter(|rank| (1..=HIDDEN_MAX).contains(rank));
    rank.ok_or_else(|| Fault::Dimensions {
        tensor: tensor.to_owned(),
        dimensions: found.dimensions.clone(),
    })
}

fn block(layer: LayerNames<'_>, shared: Shared, kind: Kind) -> Block<Named> {
    let Shared { window, laurel_rank, .. } = shared;
    let hidden = layer.sizes.hidden;
    let attention = Attention {
        value_norm: Some(layer.sizes.epsilon),
        scale: 1.0,
        reach: if kind.slides { Reach::Window(window) } else { Reach::All },
        turn: Some(Turn { rope: usize::from(kind.slides), layout: RopeLayout::Halves }),
        ..layer.normed_attention(RopeLayout::Halves)
    };
    let mut gated = layer.gated_named("", layer.sizes.feed_forward, Activation::GeluTanh);
    gated.cutoff = kind.cutoff;
    let mixer = own_or_shared(attention, kind.source);
    Block {
        post_attention_norm: Some(layer.norm("post_attention_norm", hidden)),
        post_feed_forward_norm: Some(layer.norm("post_ffw_norm", hidden)),
        laurel: Some(Laurel {
            left: layer.linear("laurel_l", hidden, laurel_rank),
            right: layer.linear("laurel_r", laurel_rank, hidden),
            norm: layer.norm("laurel_post_norm", hidden),
        }),
        streams: Some(alternating(layer, shared)),
        layer_input: Some(layer_input(layer, shared.input)),
        ..layer.mixed_block(mixer, FeedForward::Gated(gated))
    }
}

fn alternating(layer: LayerNames<'_>, shared: Shared) -> AltUp<Named> {
    let (hidden, count) = (layer.sizes.hidden, shared.streams);
    AltUp {
        norm: layer.norm("altup_router_norm", hidden),
        router: layer.linear("altup_router", hidden, count),
        predict: layer.linear("altup_predict_coef", count, count * count),
        correct: layer.linear("altup_correct_coef", count, count),
        scale: layer.vector("altup_correct_scale.weight", hidden),
        count: count as usize,
        active: shared.active as usize,
        hidden: hidden as usize,
    }
}
