//! Nemotron-H, Nemotron Nano 2 (NVIDIA, 2025) and Nemotron 3 (2025 and 2026): each layer is one
//! thing alone, a Mamba-2 layer, attention without positions, or a feed-forward layer.
//!
//! Reference: `NemotronHForCausalLM` of Hugging Face transformers. A layer with key-value heads is
//! attention, one with a feed-forward width is that, any other is one of Mamba-2. Feed-forward
//! layers have no gate and square what is above 0. With experts, these are chosen by a sigmoid and a
//! bias and weighed by the sigmoid alone; beside them is a shared one of a width of its own. In
//! Nemotron 3 Super the chosen experts compute in a narrower latent space. In Nemotron 3 Puzzle
//! their width, and how many of them a position uses, differ from layer to layer and are listed;
//! what stands there for layers without experts counts for nothing. Layers that predict further
//! tokens count in `block_count` and in the lists by layer, and are passed over.

use nook_base::limits::HIDDEN_MAX;
use nook_kernels::RopeLayout;

use super::Description;
use super::builder::{LayerNames, layers, model, pass_over_predicting, rope};
use super::experts::{Experts, WIDTH, experts_of_any_width, mixture};
use super::mamba::Mamba;
use super::metadata::{Metadata, Sizes};
use crate::error::Fault;
use crate::parts::{
    Activation, Attention, Block, Dense, FeedForward, LatentSpace, Mixer, Mixture, Plain, Routing,
    SharedExpert,
};
use crate::shape::{EXPERTS_MAX, FEED_FORWARD_MAX};
use crate::weights::{Named, StackSpec};

/// The key of how many experts a position uses.
const USED: &str = "expert_used_count";

/// The experts of a file without gates, whose sizes may differ from layer to layer.
struct SquaredExperts {
    /// What all layers share: neither the width nor the number used.
    common: Experts,
    /// Experts that a position uses, by layer.
    used: Vec<u32>,
    /// Width of one expert, by layer.
    widths: Vec<u32>,
    /// Width of the shared expert; 0 for none.
    shared: u32,
    /// Width that the chosen experts compute in; 0 for that of hidden states.
    latent: u32,
}

pub(super) fn describe(metadata: &Metadata<'_>) -> Result<Description, Fault> {
    let root_mean_square = "attention.layer_norm_rms_epsilon";
    // The norms are those of the first key; published files name the second.
    let named = metadata.header.value(&metadata.key(root_mean_square)).is_some();
    let epsilon = if named { root_mean_square } else { "attention.layer_norm_epsilon" };
    let (mut sizes, varied) = metadata.varied_sizes(epsilon)?;
    metadata.check_value_length(&sizes)?;
    let experts = SquaredExperts::of(metadata, &sizes)?;
    let passed_over = pass_over_predicting(metadata, &mut sizes)?;
    let mamba = Mamba::of(metadata)?;
    let blocks = layers(&sizes, |layer| {
        let own = varied.sizes_of(&sizes, layer.index);
        let layer = LayerNames { sizes: &own, ..layer };
        if own.kv_heads > 0 {
            return Ok(mixing(layer, Mixer::Attention(attention(metadata, layer))));
        }
        if own.feed_forward == 0 {
            return Ok(mixing(layer, Mixer::Mamba(mamba.layer(metadata, layer))));
        }
        let feed_forward = match &experts {
            Some(experts) => FeedForward::Mixture(experts.layer(metadata, layer)?),
            None => FeedForward::Plain(squared(metadata, layer, "", own.feed_forward)),
        };
        Ok(Block {
            feed_forward_norm: Some(layer.norm("attn_norm", sizes.hidden)),
            feed_forward: Some(feed_forward),
            ..nothing()
        })
    })?;
    // Nothing turns.
    let ropes = Vec::new();
    Ok(Description { ropes, passed_over, ..model(&sizes, rope(metadata, &sizes)?, blocks) })
}

/// A layer without parts.
fn nothing() -> Block<Named> {
    Block {
        attention_norm: None,
        mixer: None,
        post_attention_norm: None,
        feed_forward_norm: None,
        feed_forward: None,
        post_feed_forward_norm: None,
        residual_scale: 1.0,
        laurel: None,
        streams: None,
        layer_input: None,
        output_scale: None,
    }
}

fn mixing(layer: LayerNames<'_>, mixer: Mixer<Named>) -> Block<Named> {
    let norm = layer.norm("attn_norm", layer.sizes.hidden);
    Block { attention_norm: Some(norm), mixer: Some(mixer), ..nothing() }
}

fn attention(metadata: &Metadata<'_>, layer: LayerNames<'_>) -> Attention<Named> {
    Attention { turn: None, ..layer.maybe_biased_attention(metadata, RopeLayout::Halves) }
}

/// A feed-forward layer without a gate, for tensors whose names end in `ending`.
fn squared(
    metadata: &Metadata<'_>,
    layer: LayerNames<'_>,
    ending: &str,
    width: u32,
) -> Plain<Named> {
    let hidden = layer.sizes.hidden;
    Plain {
        up: layer.maybe_biased(metadata, &format!("ffn_up{ending}"), hidden, width),
        down: layer.maybe_biased(metadata, &format!("ffn_down{ending}"), width, hidden),
        activation: Activation::SquaredRelu,
    }
}

impl SquaredExperts {
    /// As the metadata say; `sizes` counts the layers that predict, too, as the lists do.
    fn of(metadata: &Metadata<'_>, sizes: &Sizes) -> Result<Option<Self>, Fault> {
        let count = metadata.number("expert_count", Some(0), 0..=EXPERTS_MAX)?;
        if count == 0 {
            return Ok(None);
        }
        let shared = "expert_shared_feed_forward_length";
        Ok(Some(Self {
            common: experts_of_any_width(metadata, sizes, count, Routing::sigmoid(0, true))?,
            used: metadata.numbers(USED, None, sizes.layers, 0..=count)?,
            widths: metadata.numbers(WIDTH, None, sizes.layers, 0..=FEED_FORWARD_MAX)?,
            shared: metadata.number(shared, Some(0), 0..=FEED_FORWARD_MAX)?,
            latent: metadata.number("moe_latent_size", Some(0), 0..=HIDDEN_MAX)?,
        }))
    }

    /// The experts of one layer that has some.
    fn layer(
        &self,
        metadata: &Metadata<'_>,
        layer: LayerNames<'_>,
    ) -> Result<Mixture<Named>, Fault> {
        let some = |name: &str, numbers: &[u32]| match numbers.get(layer.index as usize) {
            None | Some(0) => {
                let got = format!("0 in layer {}", layer.index);
                Err(metadata.bad(name, got, "at least 1 where a layer has experts"))
            }
            Some(number) => Ok(*number),
        };
        let used = some(USED, &self.used)? as usize;
        let width = some(WIDTH, &self.widths)?;
        let routing = Routing { used, ..self.common.routing };
        let experts = Experts { width, routing, ..self.common };
        let hidden = layer.sizes.hidden;
        let within = if self.latent > 0 { self.latent } else { hidden };
        let stack = |name: &str, columns, rows| {
            StackSpec::new(layer.tensor(name), columns, rows, experts.count)
        };
        Ok(Mixture {
            latent: (self.latent > 0).then(|| LatentSpace {
                down: layer.linear("ffn_latent_down", hidden, within),
                up: layer.linear("ffn_latent_up", within, hidden),
            }),
            gate: None,
            up: stack("ffn_up_exps.weight", within, width),
            down: stack("ffn_down_exps.weight", width, within),
            shared: (self.shared > 0).then(|| SharedExpert {
                expert: Dense::Plain(squared(metadata, layer, "_shexp", self.shared)),
                gate: None,
            }),
            activation: Activation::SquaredRelu,
            ..mixture(metadata, layer, experts)
        })
    }
}
