//! The layers of Mamba-2 that several families have, with the tensor names of GGUF.

use super::builder::LayerNames;
use super::metadata::Metadata;
use super::qwen35::KERNEL_MAX;
use crate::error::Fault;
use crate::parts::{Linear, Mamba2};
use crate::shape::{HEAD_DIM_MAX, HEADS_MAX};
use crate::weights::{Named, VectorSpec};

/// Sizes of the layers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mamba {
    heads: u32,
    dim: u32,
    groups: u32,
    places: u32,
    kernel: u32,
}

impl Mamba {
    /// As the metadata say.
    pub(super) fn of(metadata: &Metadata<'_>) -> Result<Self, Fault> {
        let heads = metadata.number("ssm.time_step_rank", None, 1..=HEADS_MAX)?;
        let inner = metadata.number("ssm.inner_size", None, 1..=heads * HEAD_DIM_MAX)?;
        let groups = metadata.number("ssm.group_count", None, 1..=heads)?;
        if !inner.is_multiple_of(heads) {
            return Err(metadata.bad(
                "ssm.inner_size",
                inner,
                format!("a multiple of {heads} heads"),
            ));
        }
        if !heads.is_multiple_of(groups) {
            let expected = format!("a divisor of {heads} heads");
            return Err(metadata.bad("ssm.group_count", groups, expected));
        }
        let places = metadata.number("ssm.state_size", None, 1..=HEAD_DIM_MAX)?;
        let kernel = metadata.number("ssm.conv_kernel", None, 1..=KERNEL_MAX)?;
        Ok(Self { heads, dim: inner / heads, groups, places, kernel })
    }

    /// One layer. The first projection gives the gate, what is convolved, and the steps.
    pub(super) fn layer(self, metadata: &Metadata<'_>, layer: LayerNames<'_>) -> Mamba2<Named> {
        let Self { heads, dim, groups, places, kernel } = self;
        let (hidden, inner) = (layer.sizes.hidden, heads * dim);
        let channels = inner + 2 * groups * places;
        let all = layer.matrix("ssm_in", hidden, inner + channels + heads);
        let part = |first, rows| Linear::new(all.part(first, rows));
        let table = |name: &str, dimensions: [u32; 2]| VectorSpec {
            tensor: layer.tensor(name),
            dimensions: dimensions.to_vec(),
        };
        let bias = "ssm_conv1d.bias";
        let has_bias = metadata.has(&layer.tensor(bias));
        Mamba2 {
            gate: part(0, inner),
            mixed: part(inner, channels),
            step: part(inner + channels, heads),
            convolution: table("ssm_conv1d.weight", [kernel, channels]),
            convolution_bias: has_bias.then(|| layer.vector(bias, channels)),
            step_bias: layer.vector("ssm_dt.bias", heads),
            decay: table("ssm_a", [1, heads]),
            skip: table("ssm_d", [1, heads]),
            norm: table("ssm_norm.weight", [inner / groups, groups]),
            output: layer.linear("ssm_out", inner, hidden),
            heads: heads as usize,
            dim: dim as usize,
            groups: groups as usize,
            places: places as usize,
            kernel: kernel as usize,
            epsilon: layer.sizes.epsilon,
        }
    }
}
