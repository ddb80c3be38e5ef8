//! What a worker has loaded because another device asked, and how many bytes that is where.

use std::collections::BTreeSet;

use nook_base::{DeviceBytes, LayerRange, ModelPart};
use nook_model::LoadedModel;

use crate::account::{Account, Caller};

/// Layers and ends that are there for other devices alone.
#[derive(Debug, Default)]
pub(crate) struct LentParts {
    /// Layers that are there because another device asked, and for this device's own use never
    /// since.
    pub(crate) layers: BTreeSet<u32>,
    /// Bytes of embedding, norm and head that are there for such a reason.
    pub(crate) ends: DeviceBytes,
}

impl LentParts {
    /// Bytes of all of it in `loaded`.
    pub(crate) fn bytes(&self, loaded: &LoadedModel) -> DeviceBytes {
        self.layers.iter().map(|at| held_bytes(loaded, *at)).sum::<DeviceBytes>().plus(self.ends)
    }

    /// Takes note that `part` is there for this device's own use from now on; bytes that are not
    /// lent any more.
    pub(crate) fn become_own(&mut self, part: ModelPart, loaded: &LoadedModel) -> DeviceBytes {
        let own = part.layers.iter().filter(|at| self.layers.remove(at));
        let bytes: DeviceBytes = own.map(|at| held_bytes(loaded, at)).sum();
        let has_ends = part.embedding || part.head;
        let ends = if has_ends { std::mem::take(&mut self.ends) } else { DeviceBytes::default() };
        bytes.plus(ends)
    }

    /// Bytes of the GPU that a load may take for `caller`: what the account leaves, without what
    /// conversations over the layers that are lent there will still need.
    pub(crate) fn gpu_max(&self, caller: Caller, account: &Account, loaded: &LoadedModel) -> u64 {
        let kept_free = loaded.kept_free(self.layers.iter().copied());
        let still = kept_free.saturating_sub(account.lent_caches_on_gpu());
        match account.gpu_bytes_free(caller) {
            u64::MAX => u64::MAX,
            free => free.saturating_sub(still),
        }
    }
}

/// One inner layer.
pub(crate) fn layer(at: u32) -> ModelPart {
    ModelPart::inner(LayerRange::with_len(at, 1))
}

/// Bytes of a layer that is held.
pub(crate) fn held_bytes(loaded: &LoadedModel, at: u32) -> DeviceBytes {
    loaded.part_bytes_by_device(&layer(at), u64::MAX)
}

/// Bytes that holding the layers of `part` adds, where `gpu_max` bytes of the GPU may be taken.
pub(crate) fn missing_layers(loaded: &LoadedModel, part: ModelPart, gpu_max: u64) -> DeviceBytes {
    let missing = part.layers.iter().filter(|at| !loaded.holds(&layer(*at)));
    bytes_of_layers(loaded, missing, gpu_max)
}

/// Bytes of these layers.
pub(crate) fn bytes_of_layers(
    loaded: &LoadedModel,
    layers: impl IntoIterator<Item = u32>,
    gpu_max: u64,
) -> DeviceBytes {
    // Together, as one that goes to a card leaves less room there for the next one.
    let ranges = LayerRange::joined(layers);
    let bytes =
        |range: &LayerRange| loaded.part_bytes_by_device(&ModelPart::inner(*range), gpu_max);
    ranges.iter().map(bytes).sum()
}

/// The ends of `part` that are not held.
pub(crate) fn missing_ends(loaded: &LoadedModel, part: ModelPart) -> Vec<ModelPart> {
    let none = LayerRange::with_len(part.layers.start(), 0);
    let ends = [
        ModelPart { layers: none, embedding: part.embedding, head: false },
        ModelPart { layers: none, embedding: false, head: part.head },
    ];
    ends.into_iter().filter(|end| !loaded.holds(end)).collect()
}

/// Bytes of these ends.
pub(crate) fn bytes_of_ends(loaded: &LoadedModel, ends: &[ModelPart], gpu_max: u64) -> DeviceBytes {
    ends.iter().map(|end| loaded.part_bytes_by_device(end, gpu_max)).sum()
}
