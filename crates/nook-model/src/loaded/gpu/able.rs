//! What of a layer only the processor computes, though a GPU is asked to. candle knows less:
//! [`Block::needs_processor`].

use crate::parts::{Block, FeedForward};
use crate::weights::Weights;

impl<W: Weights> Block<W> {
    /// What of the layer there is no code for on a GPU, in words.
    pub(super) fn unknown_to_gpu(&self) -> Option<&'static str> {
        let feed_forward = match &self.feed_forward {
            Some(FeedForward::Gated(gated)) => gated.cutoff.map(|_| "gates with a cut-off"),
            _ => None,
        };
        let laurel = self.laurel.as_ref().map(|_| "a narrow way beside attention");
        let streams = self.streams.as_ref().map(|_| "several hidden states side by side");
        feed_forward.or(laurel).or(streams)
    }
}
