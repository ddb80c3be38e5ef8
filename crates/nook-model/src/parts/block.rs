//! One transformer layer: norm, mixing of positions, residual; norm, feed-forward, residual.

use nook_kernels::vector;

use super::{
    Attention, Broken, Buffers, Gated, GatedDelta, Lanes, Mixture, Mla, Norm, Plain, StateShape,
    Step, sized,
};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// One layer. Norms that a family does not have are absent.
#[derive(Debug)]
pub(crate) struct Block<W: Weights> {
    pub(crate) attention_norm: Option<Norm<W>>,
    pub(crate) mixer: Mixer<W>,
    /// Of what attention gives, before it is added.
    pub(crate) post_attention_norm: Option<Norm<W>>,
    pub(crate) feed_forward_norm: Option<Norm<W>>,
    pub(crate) feed_forward: FeedForward<W>,
    /// Of what the feed-forward layer gives, before it is added.
    pub(crate) post_feed_forward_norm: Option<Norm<W>>,
    /// What both are multiplied with before they are added.
    pub(crate) residual_scale: f32,
}

/// What mixes positions.
#[derive(Debug)]
pub(crate) enum Mixer<W: Weights> {
    Attention(Attention<W>),
    Latent(Mla<W>),
    Delta(GatedDelta<W>),
}

/// What each position goes through alone.
#[derive(Debug)]
pub(crate) enum FeedForward<W: Weights> {
    Gated(Gated<W>),
    Plain(Plain<W>),
    Mixture(Mixture<W>),
}

/// Buffers of blocks, beside those of their parts.
#[derive(Debug, Default)]
pub(crate) struct BlockBuffers {
    normed: Vec<f32>,
    out: Vec<f32>,
    pub(crate) parts: Buffers,
}

impl<W: Weights> Block<W> {
    /// What a session remembers of the layer.
    pub(crate) fn state(&self) -> StateShape {
        match &self.mixer {
            Mixer::Attention(attention) => attention.state(),
            Mixer::Latent(latent) => latent.state(),
            Mixer::Delta(delta) => delta.state(),
        }
    }
}

impl Part for Block<Named> {
    type With<W: Weights> = Block<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Block<S::Into>, Fault> {
        Ok(Block {
            attention_norm: self.attention_norm.read(source)?,
            mixer: match &self.mixer {
                Mixer::Attention(attention) => Mixer::Attention(attention.read(source)?),
                Mixer::Latent(latent) => Mixer::Latent(latent.read(source)?),
                Mixer::Delta(delta) => Mixer::Delta(delta.read(source)?),
            },
            post_attention_norm: self.post_attention_norm.read(source)?,
            feed_forward_norm: self.feed_forward_norm.read(source)?,
            feed_forward: match &self.feed_forward {
                FeedForward::Gated(gated) => FeedForward::Gated(gated.read(source)?),
                FeedForward::Plain(plain) => FeedForward::Plain(plain.read(source)?),
                FeedForward::Mixture(mixture) => FeedForward::Mixture(mixture.read(source)?),
            },
            post_feed_forward_norm: self.post_feed_forward_norm.read(source)?,
            residual_scale: self.residual_scale,
        })
    }
}

impl Block<Held> {
    /// Takes rows `x` (n, hidden) through the layer, in place.
    pub(crate) fn forward(
        &self,
        x: &mut [f32],
        step: &Step<'_>,
        lanes: &mut Lanes<'_>,
        buffers: &mut BlockBuffers,
    ) -> Result<(), Broken> {
        let BlockBuffers { normed, out, parts } = buffers;
        let result = sized(out, x.len());
        let input = entry(self.attention_norm.as_ref(), step, x, normed);
        match &self.mixer {
            Mixer::Attention(part) => part.forward(input, result, step, lanes, parts)?,
            Mixer::Latent(part) => part.forward(input, result, step, lanes, parts)?,
            Mixer::Delta(part) => part.forward(input, result, step, lanes, parts)?,
        }
        self.join(self.post_attention_norm.as_ref(), step, x, result, normed);
        let input = entry(self.feed_forward_norm.as_ref(), step, x, normed);
        match &self.feed_forward {
            FeedForward::Gated(part) => part.forward(step.compute, input, result, parts)?,
            FeedForward::Plain(part) => {
                let Buffers { scratch, up, .. } = parts;
                part.forward(step.compute, scratch, up, input, result)?;
            }
            FeedForward::Mixture(part) => part.forward(input, result, step, parts)?,
        }
        self.join(self.post_feed_forward_norm.as_ref(), step, x, result, normed);
        Ok(())
    }

    /// Adds what a part gave to the hidden states.
    fn join(
        &self,
        norm: Option<&Norm<Held>>,
        step: &Step<'_>,
        x: &mut [f32],
        result: &mut [f32],
        normed: &mut Vec<f32>,
    ) {
        let result = match norm {
            Some(norm) => {
                let normed = sized(normed, x.len());
                norm.forward(step.compute, result, normed);
                normed
            }
            None => result,
        };
        // One is exact anyway; leaving it out saves a pass over memory.
        if self.residual_scale != 1.0 {
            vector::scale(step.compute, result, self.residual_scale);
        }
        vector::add(step.compute, x, result);
    }
}

/// What goes into a part: the hidden states, normed where there is a norm.
fn entry<'a>(
    norm: Option<&Norm<Held>>,
    step: &Step<'_>,
    x: &'a [f32],
    normed: &'a mut Vec<f32>,
) -> &'a [f32] {
    match norm {
        Some(norm) => {
            let normed = sized(normed, x.len());
            norm.forward(step.compute, x, normed);
            normed
        }
        None => x,
    }
}
