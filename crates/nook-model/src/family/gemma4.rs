//! Gemma 4 (Gemma team, 2026), dense and as a mixture of experts beside a dense layer: as Gemma 3
//! with unscaled scores, norms of values, other heads in the layers that see everything, and a scale
//! of each layer's result.
//!
//! Reference: `Gemma4ForCausalLM` of Hugging Face transformers. Layers that see everything have
//! heads of another width and number, and may make values of the keys before norm and turn; a part
//! of their pairs turns, which `rope_freqs` says by dividing the other frequencies by 1e30. Layers
//! with a window turn with a base of their own. Norm weights are plain. The router sees the hidden
//! states themselves, normed without `ffn_norm`, times a vector and `1 / sqrt(width)`; its weights
//! are made to add up to 1 and then multiplied by a scale of each expert.
//!
//! The small models give each layer an input by token: see [`LayerInputs`]. Their last layers read
//! the keys and values of the last layer of their kind that has its own: no cut may lie between.

use std::f32::consts::FRAC_1_SQRT_2;

use nook_base::limits::HIDDEN_MAX;
use nook_kernels::{RopeLayout, RopeScaling};

use super::builder::{LayerNames, model, rope};
use super::gemma::scaled;
use super::metadata::{Metadata, Sizes};
use super::{Description, HeadSpec};
use crate::error::Fault;
use crate::parts::{
    Activation, Attention, Block, DenseBesideMixture, Factors, FeedForward, LayerInput,
    LayerInputs, Linear, Mixer, Mixture, Norm, Reach, RopeSpec, Routing, SharedAttention, Turn,
};
use crate::shape::{CONTEXT_MAX, FEED_FORWARD_MAX, HEAD_DIM_MAX};
use crate::weights::{MatrixSpec, Named};

/// Rotary base of the layers with a window, where the file names none.
pub(super) const WINDOW_ROPE_BASE: f32 = 10_000.0;

/// What the layers with a window have of their own.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// Positions seen.
    positions: u32,
    head_dim: u32,
}

/// What the layers with experts share.
#[derive(Debug, Clone, Copy)]
struct Experts {
    count: u32,
    used: u32,
    width: u32,
}

/// What differs from layer to layer.
#[derive(Debug, Clone, Copy)]
struct Kind {
    /// Absent in layers that see everything.
    window: Option<Window>,
    /// How far before it the layer lies whose keys and values it reads; 0 for its own.
    source: u32,
    experts: Option<Experts>,
    /// Numbers of its input by token; 0 for none.
    width: u32,
}

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let (sizes, varied) = metadata.varied_sizes("attention.layer_norm_rms_epsilon")?;
    metadata.check_value_length(&sizes)?;
    let name = "attention.sliding_window_pattern";
    let slides = metadata.truths(name, sizes.layers)?;
    let slides = slides.ok_or_else(|| Fault::MissingKey { key: metadata.key(name) })?;
    let window = window(metadata, &sizes)?;
    let sources = sources(metadata, &slides)?;
    let experts = experts(metadata)?;
    let layer_inputs = layer_inputs(metadata, &sizes, sizes.hidden)?;
    let width = layer_inputs.as_ref().map_or(0, |(_, width)| *width);
    let each = (0u32..).zip(slides.iter().zip(&sources));
    let block = |(index, (slides, source)): (u32, (&bool, &u32))| {
        let own = varied.sizes_of(&sizes, index);
        let head_dim = if *slides { window.head_dim } else { own.head_dim };
        let own = Sizes { head_dim, ..own };
        let layer = LayerNames { sizes: &own, index };
        let kind = Kind { window: slides.then_some(window), source: *source, experts, width };
        block(metadata, layer, kind)
    };
    let blocks = each.map(block).collect();
    let mut plain = model(&sizes, rope(metadata, &sizes)?, blocks);
    plain.shape.row += sizes.layers * width;
    plain.layer_inputs = layer_inputs.map(|(inputs, _)| inputs);
    plain.passed_over = unused(metadata, &sources);
    plain.ropes.push(RopeSpec {
        base: metadata.rope_base("rope.freq_base_swa")?.unwrap_or(WINDOW_ROPE_BASE),
        dimensions: window_rope_dimensions(metadata, window.head_dim)?,
        scaling: RopeScaling::None,
        magnitude: 1.0,
        factors: Factors::None,
    });
    let soft_cap = metadata.positive("final_logit_softcapping")?;
    let head = HeadSpec { soft_cap, ..plain.head };
    Ok(scaled(&sizes, Description { head, ..plain }))
}

/// What makes the rows of all layers, and the numbers in one; `None` where layers have none. They
/// follow `taken` other numbers of a position.
pub(super) fn layer_inputs(
    metadata: &Metadata<'_>,
    sizes: &Sizes,
    taken: u32,
) -> Result<Option<(LayerInputs<Named>, u32)>, Fault> {
    let name = "embedding_length_per_layer_input";
    let most = HIDDEN_MAX.saturating_sub(taken) / sizes.layers;
    let width = metadata.number(name, Some(0), 0..=most)?;
    if width == 0 {
        return Ok(None);
    }
    let all = sizes.layers * width;
    let projection = MatrixSpec::new("per_layer_model_proj.weight", sizes.hidden, all);
    let inputs = LayerInputs {
        table: MatrixSpec::new("per_layer_token_embd.weight", all, sizes.vocabulary),
        projection: Linear::new(projection),
        scale: 1.0 / (sizes.hidden as f32).sqrt(),
        norm: Norm::rms("per_layer_proj_norm.weight", width, sizes.epsilon),
        table_scale: (width as f32).sqrt(),
        sum_scale: FRAC_1_SQRT_2,
    };
    Ok(Some((inputs, width)))
}

/// How far before each layer the one lies whose keys and values it reads, the last of its kind that
/// has its own; 0 for those that have.
pub(super) fn sources(metadata: &Metadata<'_>, slides: &[bool]) -> Result<Vec<u32>, Fault> {
    let name = "attention.shared_kv_layers";
    let layers = slides.len() as u32;
    let shared = metadata.number(name, Some(0), 0..=layers - 1)?;
    let own = slides.len() - shared as usize;
    let distance = |(index, kind): (usize, &bool)| {
        let source = slides[..own].iter().rposition(|other| other == kind);
        match source {
            _ if index < own => Ok(0),
            Some(source) => Ok((index - source) as u32),
            None => Err(metadata.bad(name, shared, "layers of each kind with keys of their own")),
        }
    };
    slides.iter().enumerate().map(distance).collect()
}

fn window(metadata: &Metadata<'_>, sizes: &Sizes) -> Result<Window, Fault> {
    let positions = metadata.number("attention.sliding_window", None, 1..=CONTEXT_MAX)?;
    let usual = Some(sizes.head_dim);
    let head_dim = metadata.number("attention.key_length_swa", usual, 1..=HEAD_DIM_MAX)?;
    let name = "attention.value_length_swa";
    metadata.number(name, Some(head_dim), head_dim..=head_dim)?;
    Ok(Window { positions, head_dim })
}

fn window_rope_dimensions(metadata: &Metadata<'_>, head_dim: u32) -> Result<u32, Fault> {
    let name = "rope.dimension_count_swa";
    let number = metadata.number(name, Some(head_dim), 2..=head_dim)?;
    match number.is_multiple_of(2) {
        true => Ok(number),
        false => Err(metadata.bad(name, number, "an even number")),
    }
}

fn experts(metadata: &Metadata<'_>) -> Result<Option<Experts>, Fault> {
    let Some((count, used)) = metadata.experts()? else {
        return Ok(None);
    };
    let width = metadata.number("expert_feed_forward_length", None, 1..=FEED_FORWARD_MAX)?;
    Ok(Some(Experts { count, used, width }))
}

/// Keys and values that layers carry in some files although they read those of others.
pub(super) fn unused(metadata: &Metadata<'_>, sources: &[u32]) -> Vec<String> {
    let names = |index| {
        let name = move |part| format!("blk.{index}.{part}.weight");
        ["attn_k", "attn_v", "attn_k_norm"].map(name)
    };
    let readers = sources.iter().enumerate().filter(|(_, source)| **source > 0);
    let all = readers.flat_map(|(index, _)| names(index));
    all.filter(|name| metadata.has(name)).collect()
}

fn mixer(metadata: &Metadata<'_>, layer: LayerNames<'_>, kind: Kind) -> Mixer<Named> {
    let normed = layer.normed_attention(RopeLayout::Halves);
    let has_values = metadata.has(&layer.tensor("attn_v.weight"));
    let reach = kind.window.map_or(Reach::All, |window| Reach::Window(window.positions));
    let rope = usize::from(kind.window.is_some());
    let turn = Some(Turn { rope, layout: RopeLayout::Halves });
    let own = Attention {
        value: normed.value.filter(|_| has_values),
        value_norm: Some(layer.sizes.epsilon),
        scale: 1.0,
        reach,
        turn,
        ..normed
    };
    own_or_shared(own, kind.source)
}

/// `own`, or the same over the keys and values of the layer that lies `distance` before it.
pub(super) fn own_or_shared(own: Attention<Named>, distance: u32) -> Mixer<Named> {
    if distance == 0 {
        return Mixer::Attention(own);
    }
    let Attention { query, output, query_norm, heads, head_dim, scale, reach, turn, .. } = own;
    Mixer::Shared(SharedAttention {
        query,
        output,
        query_norm,
        heads,
        head_dim,
        scale,
        reach,
        turn,
        distance,
    })
}

fn block(metadata: &Metadata<'_>, layer: LayerNames<'_>, kind: Kind) -> Block<Named> {
    let hidden = layer.sizes.hidden;
    let mixer = mixer(metadata, layer, kind);
    let dense = layer.gated_named("", layer.sizes.feed_forward, Activation::GeluTanh);
    let scale = "layer_output_scale.weight";
    let has_scale = metadata.has(&layer.tensor(scale));
    let plain = match kind.experts {
        None => layer.mixed_block(mixer, FeedForward::Gated(dense)),
        Some(experts) => {
            let both = DenseBesideMixture {
                dense_norm: layer.norm("ffn_norm", hidden),
                dense,
                dense_post_norm: layer.norm("post_ffw_norm_1", hidden),
                router_norm: Norm::rms(
                    layer.tensor("ffn_gate_inp.scale"),
                    hidden,
                    layer.sizes.epsilon,
                ),
                router_scale: 1.0 / (hidden as f32).sqrt(),
                mixture_norm: layer.norm("pre_ffw_norm_2", hidden),
                mixture: mixture(metadata, layer, experts),
                mixture_post_norm: layer.norm("post_ffw_norm_2", hidden),
            };
            let block = layer.mixed_block(mixer, FeedForward::Beside(both));
            Block { feed_forward_norm: None, ..block }
        }
    };
    Block {
        post_attention_norm: Some(layer.norm("post_attention_norm", hidden)),
        post_feed_forward_norm: Some(layer.norm("post_ffw_norm", hidden)),
        layer_input: (kind.width > 0).then(|| layer_input(layer, kind.width)),
        output_scale: has_scale.then(|| layer.vector(scale, 1)),
        ..plain
    }
}

pub(super) fn layer_input(layer: LayerNames<'_>, width: u32) -> LayerInput<Named> {
    let hidden = layer.sizes.hidden;
    LayerInput {
        gate: layer.linear("inp_gate", hidden, width),
        activation: Activation::GeluTanh,
        projection: layer.linear("proj", width, hidden),
        norm: layer.norm("post_norm", hidden),
        index: layer.index as usize,
        width: width as usize,
    }
}

fn mixture(metadata: &Metadata<'_>, layer: LayerNames<'_>, experts: Experts) -> Mixture<Named> {
    let Experts { count, used, width } = experts;
    let routing = Routing::softmax(used, true);
    Mixture {
        weight_scales: Some(layer.vector("ffn_down_exps.scale", count)),
        activation: Activation::GeluTanh,
        ..layer.maybe_fused_mixture(metadata, count, width, routing)
    }
}
