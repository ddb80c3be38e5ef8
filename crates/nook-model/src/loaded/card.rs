//! The second executor: the same descriptions of models, computed by candle, on the CPU or on a
//! graphics card.
//!
//! [`Card`] owns the device and the weights on it ([`OnCard`]). A step brings token ids or hidden
//! states to the device, takes them through the layers there, and brings hidden states or logits
//! back; what sessions remember stays on the device ([`CardState`]). Families, ranges, sessions and
//! checks are those of the CPU: only what [`crate::parts`] does with slices is done with tensors
//! here, part by part under the same names.
//!
//! Results agree with the CPU's within rounding, not bit for bit: candle sums in another order, and
//! what it computes for a row may hang on the number of rows. A session never moves between
//! devices.
//!
//! candle is named in this folder alone. Its own path for the processor ([`Device::CandleCpu`]) is
//! in every program: a reference that shares no kernel with the others, and the way in which all of
//! this code is tested without a graphics card. Cards need the features `cuda` or `metal`.

mod attention;
mod block;
mod delta;
mod feed_forward;
mod mixture;
mod mla;
mod open;
mod pass;
mod state;
mod step;
mod weights;

use nook_base::ModelPart;
use nook_kernels::CacheKind;

use crate::device::Device;
use crate::error::Fault;
use crate::file::ModelFile;
use crate::inventory::Inventory;
use crate::parts::{Broken, StateShape};
use weights::{CardLoading, OnCard, bytes_on_card};

pub(crate) use state::{CardState, whole_blocks};

/// A graphics card with weights on it.
#[derive(Debug)]
pub(crate) struct Card {
    choice: Device,
    device: candle_core::Device,
    /// Whether weights are held in single precision.
    full: bool,
    pub(crate) inventory: Inventory<OnCard>,
}

impl Card {
    /// Opens the device and makes sure that it computes. Nothing of `file` is loaded yet.
    pub(crate) fn open(choice: Device, full: bool, file: &ModelFile) -> Result<Self, Fault> {
        let device = open::open(choice)?;
        if !full && let Some(widened) = weights::widened(file) {
            tracing::warn!(model = file.name(), "{widened}");
        }
        Ok(Self { choice, device, full, inventory: Inventory::new(file.shape().layers) })
    }

    /// Which device it is.
    pub(crate) fn device(&self) -> Device {
        self.choice
    }

    /// Loads what is missing of `part`.
    pub(crate) fn load(&mut self, file: &ModelFile, part: &ModelPart) -> Result<(), Fault> {
        check_parts(file, part)?;
        let mut loading = CardLoading { file, device: &self.device, full: self.full };
        self.inventory.load(file, part, &mut loading)
    }

    /// Bytes that the weights of `part` take on the device.
    pub(crate) fn part_bytes(&self, file: &ModelFile, part: &ModelPart) -> u64 {
        file.tensors_of(part).map(|tensor| bytes_on_card(tensor, self.full)).sum()
    }

    /// What a session remembers of a layer: nothing yet.
    pub(crate) fn empty_state(&self, shape: StateShape, kind: CacheKind) -> CardState {
        CardState::new(&self.device, shape, kind)
    }
}

/// Whether all of `part` can be computed here.
fn check_parts(file: &ModelFile, part: &ModelPart) -> Result<(), Fault> {
    if file.description().layer_inputs.is_some() {
        return Err(Fault::NeedsProcessor { layer: 0, what: "inputs of layers by token" });
    }
    if file.description().streams.is_some() {
        let what = "several hidden states side by side";
        return Err(Fault::NeedsProcessor { layer: 0, what });
    }
    for (layer, block) in (0u32..).zip(&file.description().blocks) {
        let what = block.needs_processor().filter(|_| part.layers.contains_layer(layer));
        if let Some(what) = what {
            return Err(Fault::NeedsProcessor { layer, what });
        }
    }
    Ok(())
}

impl From<candle_core::Error> for Broken {
    /// candle's errors tell shapes and causes, no numbers of tensors.
    fn from(error: candle_core::Error) -> Self {
        Self { reason: error.to_string() }
    }
}
