//! How much of a model this device computes itself, whoever computes the rest. Pure.

use nook_base::{LayerRange, ModelPart};

/// Embedding and head together are about as large as so many layers, in models with the
/// vocabularies of today and 1 to 32 billion parameters.
pub const ENDS_IN_LAYERS: u64 = 6;

/// About how many bytes one layer is of a file of `bytes` bytes with so many layers, of which
/// nothing else is known.
#[must_use]
pub fn layer_bytes_of(bytes: u64, layers: u32) -> u64 {
    bytes / u64::from(layers).saturating_add(ENDS_IN_LAYERS)
}

/// Layers that this device keeps for itself of every model that it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptEnds {
    /// Layers at the beginning.
    pub prefix: u32,
    /// Layers at the end.
    pub suffix: u32,
}

impl KeptEnds {
    /// What is taken of a model with so many layers. One layer more than is computed here: what
    /// other devices make of it is compared with what this one makes of it.
    pub(crate) fn parts(self, layers: u32) -> [ModelPart; 2] {
        let last = self.suffix.clamp(1, layers.max(1)).min(layers);
        let first = self.prefix.saturating_add(1).min(layers.saturating_sub(last));
        let start = LayerRange::with_len(0, first);
        let end = LayerRange::with_len(layers.saturating_sub(last), last);
        [
            ModelPart { layers: start, embedding: true, head: false },
            ModelPart { layers: end, embedding: false, head: true },
        ]
    }

    /// About how many bytes that is of a file of `bytes` bytes, of which nothing else is known.
    pub(crate) fn bytes_of(self, bytes: u64, layers: u32) -> u64 {
        let [start, end] = self.parts(layers);
        let taken = start.layers.len().saturating_add(end.layers.len());
        let each = layer_bytes_of(bytes, layers);
        each.saturating_mul(u64::from(taken).saturating_add(ENDS_IN_LAYERS)).min(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_what_stays_here_and_one_layer_to_compare() {
        let parts = |prefix, suffix, layers| {
            let [start, end] = KeptEnds { prefix, suffix }.parts(layers);
            assert!(start.embedding && !start.head && end.head && !end.embedding);
            (start.layers, end.layers)
        };
        let range = LayerRange::with_len;
        assert_eq!(parts(1, 1, 32), (range(0, 2), range(31, 1)));
        assert_eq!(parts(4, 2, 32), (range(0, 5), range(30, 2)));
        // A small model is here whole.
        assert_eq!(parts(1, 1, 2), (range(0, 1), range(1, 1)));
        assert_eq!(parts(9, 9, 4), (range(0, 0), range(0, 4)));
        assert_eq!(parts(0, 0, 4), (range(0, 1), range(3, 1)));
        assert_eq!(parts(1, 1, 0), (range(0, 0), range(0, 0)));
        let kept = KeptEnds { prefix: 1, suffix: 1 };
        assert_eq!(kept.bytes_of(20_000, 34), 4_500, "nine of forty");
        assert!(kept.bytes_of(u64::MAX, 0) > u64::MAX / 2, "nonsense overflows nothing");
    }
}
