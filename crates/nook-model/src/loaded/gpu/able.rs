//! What of a layer only the processor computes, though a GPU is asked to. candle knows less:
//! [`Block::needs_processor`].

use crate::parts::{Attention, Block, FeedForward, Mixer};
use crate::weights::Weights;

impl<W: Weights> Block<W> {
    /// What of the layer there is no code for on a GPU, in words.
    pub(super) fn unknown_to_gpu(&self) -> Option<&'static str> {
        let mixer = match &self.mixer {
            Some(Mixer::Attention(attention)) => attention.unknown_to_gpu(),
            Some(Mixer::Shared(_)) => Some("attention over another layer's keys"),
            Some(Mixer::Latent(_) | Mixer::Delta(_) | Mixer::Mamba(_) | Mixer::Convolution(_))
            | None => None,
        };
        let feed_forward = match &self.feed_forward {
            Some(FeedForward::Gated(gated)) => gated.cutoff.map(|_| "gates with a cut-off"),
            Some(FeedForward::Beside(_)) => Some("a dense layer beside experts"),
            Some(FeedForward::Plain(_) | FeedForward::Mixture(_)) | None => None,
        };
        let scale = self.output_scale.as_ref().map(|_| "a scale of whole layers");
        let laurel = self.laurel.as_ref().map(|_| "a narrow way beside attention");
        let streams = self.streams.as_ref().map(|_| "several hidden states side by side");
        mixer.or(feed_forward).or(scale).or(laurel).or(streams)
    }
}

impl<W: Weights> Attention<W> {
    fn unknown_to_gpu(&self) -> Option<&'static str> {
        match self {
            Self { value: None, .. } => Some("values that are made of keys"),
            Self { value_norm: Some(_), .. } => Some("a norm of values"),
            _ => None,
        }
    }
}
