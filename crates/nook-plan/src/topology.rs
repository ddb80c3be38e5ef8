//! How a model is divided between this device's two ends and the middle that others may compute.
//!
//! The settings say how many layers stay here at each end; [`Topology`] is the proof that they fit
//! the model. `Route::boomerang` and the cover take their middle from it.

use nook_base::LayerRange;

/// This device keeps layers `0..prefix` (with the embedding) and the last `suffix` layers (with
/// norm and head); the middle may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topology {
    layers: u32,
    prefix: u32,
    suffix: u32,
}

/// Numbers that divide no model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A model without layers cannot be divided.
    #[error("a model has at least one layer")]
    NoLayers,
    /// The two ends together are longer than the model.
    #[error(
        "{prefix} layers at the start and {suffix} at the end are more than the model's {layers}"
    )]
    EndsOverlap {
        /// Layers wanted at the start.
        prefix: u32,
        /// Layers wanted at the end.
        suffix: u32,
        /// Layers the model has.
        layers: u32,
    },
}

impl Topology {
    /// Divides a model of `layers` layers; the ends may meet but not overlap.
    pub fn new(layers: u32, prefix: u32, suffix: u32) -> Result<Self, PlanError> {
        if layers == 0 {
            return Err(PlanError::NoLayers);
        }
        match prefix.checked_add(suffix) {
            Some(ends) if ends <= layers => Ok(Self { layers, prefix, suffix }),
            _ => Err(PlanError::EndsOverlap { prefix, suffix, layers }),
        }
    }

    /// As [`Topology::new`], but a model too small for both ends and one layer between them stays
    /// here whole: its middle is empty.
    pub fn or_alone(layers: u32, prefix: u32, suffix: u32) -> Result<Self, PlanError> {
        let fits = prefix.checked_add(suffix).is_some_and(|ends| ends < layers);
        if fits { Self::new(layers, prefix, suffix) } else { Self::new(layers, layers, 0) }
    }

    /// Layers of the model.
    #[must_use]
    pub fn layers(self) -> u32 {
        self.layers
    }

    /// The layers at the start that stay here, with the embedding.
    #[must_use]
    pub fn prefix(self) -> LayerRange {
        LayerRange::with_len(0, self.prefix)
    }

    /// The layers that other devices may compute.
    #[must_use]
    pub fn middle(self) -> LayerRange {
        LayerRange::with_len(self.prefix, self.layers - self.prefix - self.suffix)
    }

    /// The layers at the end that stay here, with norm and head.
    #[must_use]
    pub fn suffix(self) -> LayerRange {
        LayerRange::with_len(self.layers - self.suffix, self.suffix)
    }

    /// Whether nothing is left for other devices.
    #[must_use]
    pub fn is_alone(self) -> bool {
        self.middle().is_empty()
    }
}

/// Cuts `middle` into `parts` contiguous ranges whose lengths differ by one at most, longer ones
/// first. Fewer ranges come out when there are fewer layers than parts; none of them is empty.
#[must_use]
pub fn even_split(middle: LayerRange, parts: usize) -> Vec<LayerRange> {
    let parts = u32::try_from(parts).unwrap_or(u32::MAX).min(middle.len());
    if parts == 0 {
        return Vec::new();
    }
    let (short, longer) = (middle.len() / parts, middle.len() % parts);
    let mut cursor = middle.start();
    (0..parts)
        .map(|index| {
            let range = LayerRange::with_len(cursor, short + u32::from(index < longer));
            cursor = range.end();
            range
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_lies_between_the_ends() {
        let topology = Topology::new(16, 1, 2).unwrap();
        assert_eq!(topology.prefix(), LayerRange::new(0, 1).unwrap());
        assert_eq!(topology.middle(), LayerRange::new(1, 14).unwrap());
        assert_eq!(topology.suffix(), LayerRange::new(14, 16).unwrap());
    }

    #[test]
    fn ends_that_do_not_fit_are_refused_by_name() {
        let overlap = |prefix, suffix| PlanError::EndsOverlap { prefix, suffix, layers: 4 };
        assert_eq!(Topology::new(4, 3, 2), Err(overlap(3, 2)));
        assert_eq!(Topology::new(4, u32::MAX, 2), Err(overlap(u32::MAX, 2)));
        assert_eq!(Topology::new(0, 0, 0), Err(PlanError::NoLayers));
    }

    #[test]
    fn a_model_too_small_for_a_middle_stays_here() {
        for layers in 1..=2 {
            assert!(Topology::or_alone(layers, 1, 1).unwrap().is_alone());
        }
        let three = Topology::or_alone(3, 1, 1).unwrap();
        assert_eq!(three.middle(), LayerRange::new(1, 2).unwrap());
        assert!(Topology::or_alone(3, u32::MAX, 1).unwrap().is_alone());
        assert_eq!(Topology::or_alone(0, 1, 1), Err(PlanError::NoLayers));
    }

    #[test]
    fn an_even_split_covers_all_in_near_equal_parts() {
        let show = |parts| -> Vec<String> {
            even_split(LayerRange::new(1, 12).unwrap(), parts)
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(show(3), ["1-4", "5-8", "9-11"]);
        assert_eq!(show(1), ["1-11"]);
        assert!(show(0).is_empty());
        assert_eq!(show(40).len(), 11);
    }
}
