//! One transformer layer: norm, mixing of positions, residual; norm, feed-forward, residual.

use std::f32::consts::FRAC_1_SQRT_2;

use nook_kernels::vector;

use super::streams::StreamBuffers;
use super::{
    AltUp, Attention, Broken, Buffers, DenseBesideMixture, Gated, GatedDelta, KeyHeads, Lanes,
    Laurel, LayerInput, LayerState, Mamba2, Mixture, Mla, Norm, Plain, SharedAttention, ShortConv,
    StateShape, Step, sized,
};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// One layer. Norms and parts that a family does not have are absent.
#[derive(Debug)]
pub(crate) struct Block<W: Weights> {
    pub(crate) attention_norm: Option<Norm<W>>,
    pub(crate) mixer: Option<Mixer<W>>,
    /// Of what attention gives, before it is added.
    pub(crate) post_attention_norm: Option<Norm<W>>,
    pub(crate) feed_forward_norm: Option<Norm<W>>,
    pub(crate) feed_forward: Option<FeedForward<W>>,
    /// Of what the feed-forward layer gives, before it is added.
    pub(crate) post_feed_forward_norm: Option<Norm<W>>,
    /// What both are multiplied with before they are added.
    pub(crate) residual_scale: f32,
    /// A narrow way beside the mixer.
    pub(crate) laurel: Option<Laurel<W>>,
    /// What makes one hidden state of several, and several of what the layer makes of it.
    pub(crate) streams: Option<AltUp<W>>,
    /// What the layer makes of its own input of each token.
    pub(crate) layer_input: Option<LayerInput<W>>,
    /// What the hidden states are multiplied with at the end: one number (Gemma 4).
    pub(crate) output_scale: Option<W::Numbers>,
}

/// What mixes positions.
#[derive(Debug)]
pub(crate) enum Mixer<W: Weights> {
    Attention(Attention<W>),
    Latent(Mla<W>),
    Delta(GatedDelta<W>),
    Mamba(Mamba2<W>),
    Convolution(ShortConv<W>),
    Shared(SharedAttention<W>),
}

/// What each position goes through alone.
#[derive(Debug)]
pub(crate) enum FeedForward<W: Weights> {
    Gated(Gated<W>),
    Plain(Plain<W>),
    Mixture(Mixture<W>),
    Beside(DenseBesideMixture<W>),
}

/// Buffers of blocks, beside those of their parts.
#[derive(Debug, Default)]
pub(crate) struct BlockBuffers {
    normed: Vec<f32>,
    out: Vec<f32>,
    /// Of a way beside the mixer.
    side: Vec<f32>,
    streams: StreamBuffers,
    pub(crate) parts: Buffers,
}

impl<W: Weights> Block<W> {
    /// What a session remembers of the layer.
    pub(crate) fn state(&self) -> StateShape {
        match &self.mixer {
            Some(Mixer::Attention(attention)) => attention.state(),
            Some(Mixer::Latent(latent)) => latent.state(),
            Some(Mixer::Delta(delta)) => delta.state(),
            Some(Mixer::Mamba(mamba)) => mamba.state(),
            Some(Mixer::Convolution(convolution)) => convolution.state(),
            Some(Mixer::Shared(_)) | None => StateShape::Nothing,
        }
    }

    /// What of the layer candle has no code for, in words.
    pub(crate) fn needs_processor(&self) -> Option<&'static str> {
        let mixer = match &self.mixer {
            Some(Mixer::Attention(attention)) => attention.needs_processor(),
            Some(Mixer::Delta(delta)) if delta.sharing != KeyHeads::Tiled => {
                Some("value heads that share key heads in groups")
            }
            Some(Mixer::Mamba(_)) => Some("a Mamba layer"),
            Some(Mixer::Convolution(_)) => Some("a gated convolution"),
            Some(Mixer::Shared(_)) => Some("attention over another layer's keys"),
            Some(Mixer::Latent(_) | Mixer::Delta(_)) | None => None,
        };
        let feed_forward = match &self.feed_forward {
            Some(FeedForward::Gated(gated)) => gated.needs_processor(),
            Some(FeedForward::Plain(plain)) => plain.activation.needs_processor(),
            Some(FeedForward::Mixture(mixture)) => mixture.needs_processor(),
            Some(FeedForward::Beside(_)) => Some("a dense layer beside experts"),
            None => Some("a layer of one part"),
        };
        let scale = self.output_scale.as_ref().map(|_| "a scale of whole layers");
        let laurel = self.laurel.as_ref().map(|_| "a narrow way beside attention");
        let streams = self.streams.as_ref().map(|_| "several hidden states side by side");
        mixer.or(feed_forward).or(scale).or(laurel).or(streams)
    }

    /// How many layers before this one the one lies that it reads; 0 where it reads none.
    pub(crate) fn reads_back(&self) -> u32 {
        match &self.mixer {
            Some(Mixer::Shared(shared)) => shared.distance,
            _ => 0,
        }
    }
}

impl Part for Block<Named> {
    type With<W: Weights> = Block<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Block<S::Into>, Fault> {
        Ok(Block {
            attention_norm: self.attention_norm.read(source)?,
            mixer: self.mixer.read(source)?,
            post_attention_norm: self.post_attention_norm.read(source)?,
            feed_forward_norm: self.feed_forward_norm.read(source)?,
            feed_forward: self.feed_forward.read(source)?,
            post_feed_forward_norm: self.post_feed_forward_norm.read(source)?,
            residual_scale: self.residual_scale,
            laurel: self.laurel.read(source)?,
            streams: self.streams.read(source)?,
            layer_input: self.layer_input.read(source)?,
            output_scale: match &self.output_scale {
                Some(scale) => Some(source.numbers(scale)?),
                None => None,
            },
        })
    }
}

impl Part for Mixer<Named> {
    type With<W: Weights> = Mixer<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Mixer<S::Into>, Fault> {
        Ok(match self {
            Self::Attention(attention) => Mixer::Attention(attention.read(source)?),
            Self::Latent(latent) => Mixer::Latent(latent.read(source)?),
            Self::Delta(delta) => Mixer::Delta(delta.read(source)?),
            Self::Mamba(mamba) => Mixer::Mamba(mamba.read(source)?),
            Self::Convolution(convolution) => Mixer::Convolution(convolution.read(source)?),
            Self::Shared(shared) => Mixer::Shared(shared.read(source)?),
        })
    }
}

impl Part for FeedForward<Named> {
    type With<W: Weights> = FeedForward<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<FeedForward<S::Into>, Fault> {
        Ok(match self {
            Self::Gated(gated) => FeedForward::Gated(gated.read(source)?),
            Self::Plain(plain) => FeedForward::Plain(plain.read(source)?),
            Self::Mixture(mixture) => FeedForward::Mixture(mixture.read(source)?),
            Self::Beside(both) => FeedForward::Beside(both.read(source)?),
        })
    }
}

impl Block<Held> {
    /// Takes rows `x` (n, hidden), or (n, streams, hidden) in models with several, through the
    /// layer, in place.
    pub(crate) fn forward(
        &self,
        x: &mut [f32],
        step: &Step<'_>,
        lanes: &mut Lanes<'_>,
        buffers: &mut BlockBuffers,
    ) -> Result<(), Broken> {
        match &self.streams {
            Some(streams) => self.through_streams(streams, x, step, lanes, buffers)?,
            None => {
                self.through(x, step, lanes, buffers)?;
                if let Some(input) = &self.layer_input {
                    let BlockBuffers { out, parts, .. } = buffers;
                    input.forward(x, sized(out, x.len()), step, parts)?;
                }
            }
        }
        if let Some(scale) = self.output_scale.as_ref().and_then(|scale| scale.first()) {
            vector::scale(step.compute, x, *scale);
        }
        Ok(())
    }

    /// Rows `x` (n, streams, hidden): what goes through the layer is one hidden state of each.
    fn through_streams(
        &self,
        streams: &AltUp<Held>,
        x: &mut [f32],
        step: &Step<'_>,
        lanes: &mut Lanes<'_>,
        buffers: &mut BlockBuffers,
    ) -> Result<(), Broken> {
        // The layer itself uses `buffers`; these are taken out for the while.
        let mut held = std::mem::take(&mut buffers.streams);
        streams.predict(x, step, &mut held, &mut buffers.parts.scratch)?;
        self.through(held.active(), step, lanes, buffers)?;
        streams.correct(x, step, &mut held, &mut buffers.parts.scratch)?;
        if let Some(input) = &self.layer_input {
            streams.scaled(x, &mut held);
            let BlockBuffers { out, parts, .. } = buffers;
            let made = sized(out, held.active().len());
            input.make(held.active(), made, step, parts)?;
            streams.add_to_others(x, made);
        }
        buffers.streams = held;
        Ok(())
    }

    /// Mixing of positions and feed-forward, of rows `x` (n, hidden).
    fn through(
        &self,
        x: &mut [f32],
        step: &Step<'_>,
        lanes: &mut Lanes<'_>,
        buffers: &mut BlockBuffers,
    ) -> Result<(), Broken> {
        match &self.mixer {
            Some(mixer) => self.mix(mixer, x, step, lanes, buffers)?,
            None => pass_by(step, lanes)?,
        }
        if let Some(feed_forward) = &self.feed_forward {
            self.feed(feed_forward, x, step, buffers)?;
        }
        Ok(())
    }

    fn mix(
        &self,
        mixer: &Mixer<Held>,
        x: &mut [f32],
        step: &Step<'_>,
        lanes: &mut Lanes<'_>,
        buffers: &mut BlockBuffers,
    ) -> Result<(), Broken> {
        let BlockBuffers { normed, out, side, parts, .. } = buffers;
        let result = sized(out, x.len());
        let input = entry(self.attention_norm.as_ref(), step, x, normed);
        match mixer {
            Mixer::Attention(part) => part.forward(input, result, step, lanes, parts)?,
            Mixer::Latent(part) => part.forward(input, result, step, lanes, parts)?,
            Mixer::Delta(part) => part.forward(input, result, step, lanes, parts)?,
            Mixer::Mamba(part) => part.forward(input, result, step, lanes, parts)?,
            Mixer::Convolution(part) => part.forward(input, result, step, lanes, parts)?,
            Mixer::Shared(part) => part.forward(input, result, step, lanes, parts)?,
        }
        if let Some(laurel) = &self.laurel {
            laurel.forward(input, sized(side, x.len()), step, parts)?;
        }
        self.join(self.post_attention_norm.as_ref(), step, x, result, normed);
        if self.laurel.is_some() {
            // Both ways count alike.
            vector::add(step.compute, x, sized(side, x.len()));
            vector::scale(step.compute, x, FRAC_1_SQRT_2);
        }
        Ok(())
    }

    fn feed(
        &self,
        feed_forward: &FeedForward<Held>,
        x: &mut [f32],
        step: &Step<'_>,
        buffers: &mut BlockBuffers,
    ) -> Result<(), Broken> {
        let BlockBuffers { normed, out, parts, .. } = buffers;
        let result = sized(out, x.len());
        let input = entry(self.feed_forward_norm.as_ref(), step, x, normed);
        match feed_forward {
            FeedForward::Gated(part) => part.forward(step.compute, input, result, parts)?,
            FeedForward::Plain(part) => {
                let Buffers { scratch, up, .. } = parts;
                part.forward(step.compute, scratch, up, input, result)?;
            }
            FeedForward::Mixture(part) => part.forward(input, result, step, parts)?,
            FeedForward::Beside(part) => part.forward(input, result, step, parts)?,
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

/// Counts the rows of a layer that remembers nothing.
pub(super) fn pass_by(step: &Step<'_>, lanes: &mut Lanes<'_>) -> Result<(), Broken> {
    for span in &step.spans {
        let LayerState::Nothing(state) = lanes.state(span.lane)? else {
            return Err(Broken::new("a state for a layer that remembers nothing"));
        };
        state.advance(span.first, span.rows.len() as u32)?;
    }
    Ok(())
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
