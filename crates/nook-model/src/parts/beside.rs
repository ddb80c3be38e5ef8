//! A dense feed-forward layer and a mixture of experts beside it, each with norms of its own
//! (Gemma 4).
//!
//! Both see the hidden states themselves, each through its own norm; the router sees them through a
//! third. What they give is normed apart and added.

use nook_kernels::vector;

use super::{Broken, Buffers, Gated, Mixture, Norm, Step, sized};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// A dense layer beside a mixture.
#[derive(Debug)]
pub(crate) struct DenseBesideMixture<W: Weights> {
    pub(crate) dense_norm: Norm<W>,
    pub(crate) dense: Gated<W>,
    pub(crate) dense_post_norm: Norm<W>,
    pub(crate) router_norm: Norm<W>,
    /// What the router's input is multiplied with after its norm.
    pub(crate) router_scale: f32,
    pub(crate) mixture_norm: Norm<W>,
    pub(crate) mixture: Mixture<W>,
    pub(crate) mixture_post_norm: Norm<W>,
}

impl Part for DenseBesideMixture<Named> {
    type With<W: Weights> = DenseBesideMixture<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<DenseBesideMixture<S::Into>, Fault> {
        Ok(DenseBesideMixture {
            dense_norm: self.dense_norm.read(source)?,
            dense: self.dense.read(source)?,
            dense_post_norm: self.dense_post_norm.read(source)?,
            router_norm: self.router_norm.read(source)?,
            router_scale: self.router_scale,
            mixture_norm: self.mixture_norm.read(source)?,
            mixture: self.mixture.read(source)?,
            mixture_post_norm: self.mixture_post_norm.read(source)?,
        })
    }
}

impl DenseBesideMixture<Held> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(crate) fn forward(
        &self,
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        let compute = step.compute;
        // The parts below use `buffers` themselves; these are taken out for the while.
        let mut branches = std::mem::take(&mut buffers.branches);
        let [input, routed, dense] = &mut branches;
        let (input, routed, dense) =
            (sized(input, x.len()), sized(routed, x.len()), sized(dense, x.len()));
        self.dense_norm.forward(compute, x, input);
        self.dense.forward(compute, input, dense, buffers)?;
        self.dense_post_norm.forward_in_place(compute, dense, &mut buffers.spare);
        self.router_norm.forward(compute, x, routed);
        vector::scale(compute, routed, self.router_scale);
        self.mixture_norm.forward(compute, x, input);
        self.mixture.forward_chosen(routed, input, out, step, buffers)?;
        self.mixture_post_norm.forward_in_place(compute, out, &mut buffers.spare);
        vector::add(compute, out, dense);
        buffers.branches = branches;
        Ok(())
    }
}
