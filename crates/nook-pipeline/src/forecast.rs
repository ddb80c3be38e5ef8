//! What each device is expected to take, as earlier replies and probes have measured it.
//!
//! The node fills a [`Forecast`] when a walk begins; the walk only reads it. It sizes the first
//! waits of a call (`pace`), shows that a device has become slower than itself, and says what
//! somebody else would take instead (`slow`). A device that is not in it is unknown: nothing is
//! concluded from that.

use std::collections::BTreeMap;
use std::time::Duration;

use nook_base::LayerRange;
use nook_plan::{Line, Place};

/// What is known of every device, for one model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forecast {
    devices: BTreeMap<Place, DeviceForecast>,
}

/// What is known of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceForecast {
    /// Computing one position; the unit is a layer.
    pub decode: Line,
    /// Computing many positions; the unit is a layer and position. Absent: as many decode steps.
    pub prefill: Option<Line>,
    /// There and back, for one position.
    pub away: Duration,
    /// Reading one layer into memory.
    pub load_layer: Duration,
    /// Layers that are in memory.
    pub held: Vec<LayerRange>,
}

impl Forecast {
    /// Says what is known of the device at `place`.
    pub fn insert(&mut self, place: Place, device: DeviceForecast) {
        self.devices.insert(place, device);
    }

    /// One position through `layers`, the way included.
    pub(crate) fn step(&self, place: Place, layers: LayerRange) -> Option<Duration> {
        let device = self.devices.get(&place)?;
        Some(device.away.saturating_add(device.decode.at(u64::from(layers.len()))))
    }

    /// `positions` through `layers` in one go, the way excluded.
    pub(crate) fn bulk(
        &self,
        place: Place,
        layers: LayerRange,
        positions: u32,
    ) -> Option<Duration> {
        let device = self.devices.get(&place)?;
        let units = u64::from(layers.len()).saturating_mul(u64::from(positions));
        let one_by_one = || device.decode.at(u64::from(layers.len())).saturating_mul(positions);
        Some(device.prefill.map_or_else(one_by_one, |line| line.at(units)))
    }

    /// Until `layers` are in memory.
    pub(crate) fn ready(&self, place: Place, layers: LayerRange) -> Option<Duration> {
        let device = self.devices.get(&place)?;
        let is_held = |layer: &u32| device.held.iter().any(|held| held.contains_layer(*layer));
        let missing = layers.iter().filter(|layer| !is_held(layer)).count();
        Some(device.load_layer.saturating_mul(u32::try_from(missing).unwrap_or(u32::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_told_with_its_parts_and_what_is_not_is_unknown() {
        let (ms, layers) = (Duration::from_millis, LayerRange::with_len(2, 4));
        let mut forecast = Forecast::default();
        assert_eq!(forecast.step(Place::Local, layers), None);
        let mut device = DeviceForecast {
            decode: Line { fixed: ms(1), slope: ms(2) },
            prefill: Some(Line { fixed: ms(5), slope: ms(1) }),
            away: ms(3),
            load_layer: ms(100),
            held: vec![LayerRange::with_len(0, 4)],
        };
        forecast.insert(Place::Local, device.clone());
        assert_eq!(forecast.step(Place::Local, layers), Some(ms(12)));
        assert_eq!(forecast.bulk(Place::Local, layers, 10), Some(ms(45)));
        assert_eq!(forecast.ready(Place::Local, layers), Some(ms(200)));
        device.prefill = None;
        forecast.insert(Place::Local, device);
        assert_eq!(forecast.bulk(Place::Local, layers, 10), Some(ms(90)));
    }
}
