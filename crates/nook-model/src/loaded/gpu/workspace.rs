//! Memory that a step uses again and again, on the device. It grows to the largest step and stays.
//!
//! Where a buffer is replaced by a larger one while a step is being recorded, what was recorded
//! keeps the old one until it is done.

use std::sync::Arc;

use nook_gpu::{Buffer, Gpu, GpuError, Quantised};

/// Buffers of one step, each for one purpose at a time.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    /// Hidden states (n, hidden), and those of the layer's input.
    pub(super) x: Slot,
    /// What comes to the layers by token (n, extra).
    pub(super) inputs: Slot,
    pub(super) normed: Slot,
    pub(super) result: Slot,
    pub(super) query: Slot,
    pub(super) key: Slot,
    pub(super) value: Slot,
    pub(super) mixed: Slot,
    pub(super) gate: Slot,
    pub(super) up: Slot,
    pub(super) spare: Slot,
    pub(super) latent: Slot,
    pub(super) heads: Slot,
    /// Of several hidden states, the one that a layer computes; and what comes by a way beside the
    /// mixer.
    pub(super) active: Slot,
    pub(super) side: Slot,
    /// What goes into a dense layer or a mixture beside it, into its router, and comes of the first.
    pub(super) branches: [Slot; 3],
    /// Rows of an expert, and what comes of them.
    pub(super) input: Slot,
    pub(super) output: Slot,
    pub(super) expert_rows: Slot,
    pub(super) expert_weights: Slot,
    /// Shares of attention over long contexts.
    pub(super) shares: Slot,
    pub(super) logits: Slot,
    pub(super) ids: Slot,
    /// Activations in bytes.
    quantised: Option<Quantised>,
}

/// One buffer that grows.
#[derive(Debug, Default)]
pub(super) struct Slot(Option<Arc<Buffer>>);

impl Slot {
    /// The buffer, of at least `length` numbers.
    pub(super) fn sized(&mut self, gpu: &Gpu, length: usize) -> Result<Arc<Buffer>, GpuError> {
        if let Some(buffer) = self.0.as_ref().filter(|buffer| buffer.len() >= length) {
            return Ok(Arc::clone(buffer));
        }
        // The old one is given back first: both together may be too much.
        self.0 = None;
        let buffer = Arc::new(Buffer::new(gpu, "a step", length)?);
        self.0 = Some(Arc::clone(&buffer));
        Ok(buffer)
    }
}

impl Workspace {
    /// Room for `numbers` activations in bytes.
    pub(super) fn quantised(
        &mut self,
        gpu: &Gpu,
        numbers: usize,
    ) -> Result<&mut Quantised, GpuError> {
        let room = self.quantised.as_ref().map_or(0, Quantised::room);
        if room < numbers || self.quantised.is_none() {
            self.quantised = None;
            self.quantised = Some(Quantised::new(gpu, numbers)?);
        }
        // Filled above.
        self.quantised.as_mut().ok_or(GpuError::Missing)
    }
}
