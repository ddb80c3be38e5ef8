//! Builds the pieces that most families share, with the tensor names of GGUF.

use std::ops::Range;

use nook_kernels::{RopeLayout, RopeScaling};

use super::metadata::{Metadata, Sizes};
use super::{Description, HeadSpec};
use crate::error::Fault;
use crate::parts::{
    Activation, Attention, Block, Factors, FeedForward, Gated, Linear, Mixer, Mixture, Norm, Reach,
    RopeSpec, Routing, Turn,
};
use crate::weights::{MatrixSpec, Named, StackSpec, VectorSpec};

/// The tensors of one layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerNames<'a> {
    pub(super) sizes: &'a Sizes,
    pub(super) index: u32,
}

impl LayerNames<'_> {
    /// The name of the tensor `name` with its ending.
    pub(super) fn tensor(&self, name: &str) -> String {
        format!("blk.{}.{name}", self.index)
    }

    /// The matrix `name`, `columns` x `rows`.
    pub(super) fn matrix(&self, name: &str, columns: u32, rows: u32) -> MatrixSpec {
        MatrixSpec::new(self.tensor(&format!("{name}.weight")), columns, rows)
    }

    /// A vector, by its name with its ending.
    pub(super) fn vector(&self, name: &str, width: u32) -> VectorSpec {
        VectorSpec::new(self.tensor(name), width)
    }

    /// The matrix `name` without a bias.
    pub(super) fn linear(&self, name: &str, columns: u32, rows: u32) -> Linear<Named> {
        Linear::new(self.matrix(name, columns, rows))
    }

    /// The matrix `name` and its bias.
    pub(super) fn biased(&self, name: &str, columns: u32, rows: u32) -> Linear<Named> {
        let bias = self.vector(&format!("{name}.bias"), rows);
        Linear { matrix: self.matrix(name, columns, rows), bias: Some(bias) }
    }

    /// The matrix `name`, with its bias where the file has one.
    pub(super) fn maybe_biased(
        &self,
        metadata: &Metadata<'_>,
        name: &str,
        columns: u32,
        rows: u32,
    ) -> Linear<Named> {
        match metadata.has(&self.tensor(&format!("{name}.bias"))) {
            true => self.biased(name, columns, rows),
            false => self.linear(name, columns, rows),
        }
    }

    /// A root mean square norm.
    pub(super) fn norm(&self, name: &str, width: u32) -> Norm<Named> {
        Norm::rms(self.tensor(&format!("{name}.weight")), width, self.sizes.epsilon)
    }

    /// Attention as in Llama: no biases, no norms, everything seen, all heads turned by rope 0.
    pub(super) fn attention(&self, layout: RopeLayout) -> Attention<Named> {
        let s = self.sizes;
        let (query, key) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        Attention {
            query: self.linear("attn_q", s.hidden, query),
            key: self.linear("attn_k", s.hidden, key),
            value: Some(self.linear("attn_v", s.hidden, key)),
            gate: None,
            output: self.linear("attn_output", query, s.hidden),
            query_norm: None,
            key_norm: None,
            value_norm: None,
            turned_norm: None,
            heads: s.heads as usize,
            kv_heads: s.kv_heads as usize,
            head_dim: s.head_dim as usize,
            scale: 1.0 / (s.head_dim as f32).sqrt(),
            soft_cap: None,
            reach: Reach::All,
            turn: Some(Turn { rope: 0, layout }),
            temperature: None,
            sinks: None,
        }
    }

    /// As [`Self::attention`], with biases of queries, keys and values.
    pub(super) fn biased_attention(&self, layout: RopeLayout) -> Attention<Named> {
        let s = self.sizes;
        let (query, key) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        Attention {
            query: self.biased("attn_q", s.hidden, query),
            key: self.biased("attn_k", s.hidden, key),
            value: Some(self.biased("attn_v", s.hidden, key)),
            ..self.attention(layout)
        }
    }

    /// As [`Self::attention`], with each bias that the file has: no key says which there are.
    pub(super) fn maybe_biased_attention(
        &self,
        metadata: &Metadata<'_>,
        layout: RopeLayout,
    ) -> Attention<Named> {
        let s = self.sizes;
        let (query, key) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        Attention {
            query: self.maybe_biased(metadata, "attn_q", s.hidden, query),
            key: self.maybe_biased(metadata, "attn_k", s.hidden, key),
            value: Some(self.maybe_biased(metadata, "attn_v", s.hidden, key)),
            output: self.maybe_biased(metadata, "attn_output", query, s.hidden),
            ..self.attention(layout)
        }
    }

    /// As [`Self::attention`], with norms of query heads and key heads before they turn.
    pub(super) fn normed_attention(&self, layout: RopeLayout) -> Attention<Named> {
        Attention {
            query_norm: Some(self.norm("attn_q_norm", self.sizes.head_dim)),
            key_norm: Some(self.norm("attn_k_norm", self.sizes.head_dim)),
            ..self.attention(layout)
        }
    }

    /// A gated feed-forward layer without biases.
    pub(super) fn gated(&self, activation: Activation) -> FeedForward<Named> {
        FeedForward::Gated(self.gated_named("", self.sizes.feed_forward, activation))
    }

    /// As [`Self::gated`], with each bias that the file has.
    pub(super) fn maybe_biased_gated(
        &self,
        metadata: &Metadata<'_>,
        activation: Activation,
    ) -> FeedForward<Named> {
        let (hidden, width) = (self.sizes.hidden, self.sizes.feed_forward);
        FeedForward::Gated(Gated {
            gate: self.maybe_biased(metadata, "ffn_gate", hidden, width),
            up: self.maybe_biased(metadata, "ffn_up", hidden, width),
            down: self.maybe_biased(metadata, "ffn_down", width, hidden),
            activation,
            cutoff: None,
        })
    }

    /// As [`Self::gated`], of `width`, for tensors whose names end in `ending`.
    pub(super) fn gated_named(
        &self,
        ending: &str,
        width: u32,
        activation: Activation,
    ) -> Gated<Named> {
        let hidden = self.sizes.hidden;
        Gated {
            gate: self.linear(&format!("ffn_gate{ending}"), hidden, width),
            up: self.linear(&format!("ffn_up{ending}"), hidden, width),
            down: self.linear(&format!("ffn_down{ending}"), width, hidden),
            activation,
            cutoff: None,
        }
    }

    /// A gated layer whose gate and up matrices are one tensor `ffn_up`, the gate first.
    pub(super) fn fused_gated(&self, activation: Activation) -> FeedForward<Named> {
        let (hidden, width) = (self.sizes.hidden, self.sizes.feed_forward);
        let both = self.matrix("ffn_up", hidden, 2 * width);
        FeedForward::Gated(Gated {
            gate: Linear::new(both.part(0, width)),
            up: Linear::new(both.part(width, width)),
            down: self.linear("ffn_down", width, hidden),
            activation,
            cutoff: None,
        })
    }

    /// A mixture of `experts` gated layers of `width`, without a shared expert.
    pub(super) fn mixture(&self, experts: u32, width: u32, routing: Routing) -> Mixture<Named> {
        let hidden = self.sizes.hidden;
        let stack =
            |name: &str, columns, rows| StackSpec::new(self.tensor(name), columns, rows, experts);
        Mixture {
            router: self.linear("ffn_gate_inp", hidden, experts),
            choice_bias: None,
            latent: None,
            gate: Some(stack("ffn_gate_exps.weight", hidden, width)),
            up: stack("ffn_up_exps.weight", hidden, width),
            down: stack("ffn_down_exps.weight", width, hidden),
            biases: None,
            weight_scales: None,
            activation: Activation::Silu,
            routing,
            shared: None,
        }
    }

    /// As [`Self::mixture`]; gate and up of each expert may be one matrix, the gate first, as
    /// llama.cpp's converter makes them with `--fuse-gate-up-exps`.
    pub(super) fn maybe_fused_mixture(
        &self,
        metadata: &Metadata<'_>,
        experts: u32,
        width: u32,
        routing: Routing,
    ) -> Mixture<Named> {
        let plain = self.mixture(experts, width, routing);
        let name = self.tensor("ffn_gate_up_exps.weight");
        if !metadata.has(&name) {
            return plain;
        }
        let both = StackSpec::new(name, self.sizes.hidden, 2 * width, experts);
        Mixture { gate: Some(both.part(0, width)), up: both.part(width, width), ..plain }
    }

    /// A layer with a norm before each part, as in Llama.
    pub(super) fn block(
        &self,
        attention: Attention<Named>,
        feed_forward: FeedForward<Named>,
    ) -> Block<Named> {
        self.mixed_block(Mixer::Attention(attention), feed_forward)
    }

    /// As [`Self::block`], with any mixer.
    pub(super) fn mixed_block(
        &self,
        mixer: Mixer<Named>,
        feed_forward: FeedForward<Named>,
    ) -> Block<Named> {
        Block {
            attention_norm: Some(self.norm("attn_norm", self.sizes.hidden)),
            mixer: Some(mixer),
            post_attention_norm: None,
            feed_forward_norm: Some(self.norm("ffn_norm", self.sizes.hidden)),
            feed_forward: Some(feed_forward),
            post_feed_forward_norm: None,
            residual_scale: 1.0,
            laurel: None,
            streams: None,
            layer_input: None,
            output_scale: None,
        }
    }
}

/// The layers of a model, one by one.
pub(super) fn layers(
    sizes: &Sizes,
    mut block: impl FnMut(LayerNames<'_>) -> Result<Block<Named>, Fault>,
) -> Result<Vec<Block<Named>>, Fault> {
    (0..sizes.layers).map(|index| block(LayerNames { sizes, index })).collect()
}

/// A model of `blocks` with plain ends and one rope.
pub(super) fn model(
    sizes: &Sizes,
    rope: RopeSpec<Named>,
    blocks: Vec<Block<Named>>,
) -> Description {
    let matrix = |name: &str| MatrixSpec::new(name, sizes.hidden, sizes.vocabulary);
    Description {
        shape: sizes.shape(),
        embedding: matrix("token_embd.weight"),
        embedding_scale: 1.0,
        ropes: vec![rope],
        blocks,
        head: HeadSpec {
            norm: Norm::rms("output_norm.weight", sizes.hidden, sizes.epsilon),
            output: (!sizes.tied_output).then(|| matrix("output.weight")),
            scale: 1.0,
            soft_cap: None,
        },
        layer_inputs: None,
        streams: None,
        passed_over: Vec::new(),
    }
}

/// Takes the layers that predict further tokens out of `sizes`, and names their tensors: they count
/// in `block_count`, and the main pass has no use for them.
pub(super) fn pass_over_predicting(
    metadata: &Metadata<'_>,
    sizes: &mut Sizes,
) -> Result<Vec<String>, Fault> {
    let all_layers = sizes.layers;
    let predicts = metadata.number("nextn_predict_layers", Some(0), 0..=all_layers - 1)?;
    sizes.layers = all_layers - predicts;
    Ok(tensors_of_layers(metadata, sizes.layers..all_layers))
}

fn tensors_of_layers(metadata: &Metadata<'_>, layers: Range<u32>) -> Vec<String> {
    let is_meant = |name: &str| {
        let index = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next());
        let index = index.and_then(|index| index.parse::<u32>().ok());
        index.is_some_and(|index| layers.contains(&index))
    };
    let names = metadata.header.tensors().iter().map(|tensor| tensor.name.clone());
    names.filter(|name| is_meant(name)).collect()
}

/// The rope that the metadata name: scaling, and `rope_freqs.weight` where the file has it.
pub(super) fn rope(metadata: &Metadata<'_>, sizes: &Sizes) -> Result<RopeSpec<Named>, Fault> {
    let (scaling, magnitude) = metadata.rope_scaling(sizes)?;
    let tensor = "rope_freqs.weight";
    let factors = if metadata.has(tensor) {
        Factors::Always(VectorSpec::new(tensor, sizes.rope_dimensions / 2))
    } else {
        Factors::None
    };
    Ok(RopeSpec {
        base: sizes.rope_base,
        dimensions: sizes.rope_dimensions,
        scaling,
        magnitude,
        factors,
    })
}

/// As [`rope`], with the two sets of factors of LongRoPE where the file has them.
pub(super) fn long_rope(metadata: &Metadata<'_>, sizes: &Sizes) -> Result<RopeSpec<Named>, Fault> {
    let (short, long) = ("rope_factors_short.weight", "rope_factors_long.weight");
    if !metadata.has(short) && !metadata.has(long) {
        return rope(metadata, sizes);
    }
    let name = "rope.scaling.original_context_length";
    let usual = Some(sizes.context_length);
    let original = metadata.number(name, usual, 1..=sizes.context_length)?;
    let kind_key = metadata.key("rope.scaling.type");
    let kind = metadata.header.text(&kind_key)?.unwrap_or("longrope");
    if kind != "longrope" && kind != "none" {
        return Err(super::metadata::bad(&kind_key, kind, "longrope"));
    }
    let half = sizes.rope_dimensions / 2;
    Ok(RopeSpec {
        base: sizes.rope_base,
        dimensions: sizes.rope_dimensions,
        scaling: RopeScaling::None,
        magnitude: metadata.positive("rope.scaling.attn_factor")?.unwrap_or(1.0),
        factors: Factors::ByWindow {
            original,
            short: VectorSpec::new(short, half),
            long: VectorSpec::new(long, half),
        },
    })
}
