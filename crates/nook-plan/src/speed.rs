//! How fast one device computes one model: measured visits in, figures out.
//!
//! The owner keeps one [`SpeedEstimate`] for each device and model. A calibration [`Probe`] seeds
//! it; each RESULT (layers, rows, computing time) refines it. Decode and prefill are two axes,
//! because devices differ about 6 times in one and 55 times in the other. Cold visits (the first
//! after a load) size time limits and never rank a device; loading is a term of its own.

use std::time::Duration;

use crate::figure::{BytesPerSecond, Figure};
use crate::fit::{Line, LineFit};

/// Fewest rows of a visit that says something about prefill. What lies between one row and this is
/// neither axis.
pub const PREFILL_ROWS_MIN: u32 = 16;

/// Share of a new load in the average.
const LOAD_SHARE: u64 = 2;

/// Whether a visit found the layers in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmth {
    /// The first visit after the layers were loaded, or after a long rest.
    Cold,
    /// Any other.
    Warm,
}

/// One answered step, as RESULT tells it. The host's own claim must be cut to what really passed
/// before it comes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// Layers computed.
    pub layers: u32,
    /// Positions computed.
    pub rows: u32,
    /// Time spent computing, waiting excluded.
    pub compute: Duration,
    /// Whether it ranks the device.
    pub warmth: Warmth,
}

/// What the calibration at first use found: two visits of different size on each axis, on the range
/// that will be used or a stand-in with layers of `layer_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Bytes of one layer's weights in the model that was probed.
    pub layer_bytes: u64,
    /// `(layers, time)` of two steps of one row.
    pub decode: [(u32, Duration); 2],
    /// `(layers * rows, time)` of two steps of many rows.
    pub prefill: [(u64, Duration); 2],
}

/// What is known of one device's speed with one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Speed {
    /// One row; the unit is a layer.
    pub decode: Figure<Line>,
    /// Many rows; the unit is a layer and row.
    pub prefill: Figure<Line>,
    /// Weights from disk (or another device) into memory.
    pub load: Figure<BytesPerSecond>,
    /// Embedding, norm, head and sampling for one token. Only asked of devices that have the ends.
    pub ends: Figure<Duration>,
}

/// Measures one device with one model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpeedEstimate {
    decode: LineFit,
    prefill: LineFit,
    load: Option<BytesPerSecond>,
    ends: LineFit,
    cold_max: Duration,
}

impl SpeedEstimate {
    /// Starts from a probe, scaled from the layers that were probed to those of `layer_bytes`.
    #[must_use]
    pub fn seeded(probe: &Probe, layer_bytes: u64) -> Self {
        let [small, large] = probe.decode.map(|(layers, took)| (u64::from(layers), took));
        let fit = |line: Line| LineFit::seeded(line.scaled(probe.layer_bytes, layer_bytes));
        Self {
            decode: fit(Line::through(small, large)),
            prefill: fit(Line::through(probe.prefill[0], probe.prefill[1])),
            ..Self::default()
        }
    }

    /// Goes on from figures of an earlier run, which the first visits move as they move a probe's.
    #[must_use]
    pub fn known(speed: &Speed) -> Self {
        let fit = |line: Figure<Line>| line.measured().map(LineFit::seeded).unwrap_or_default();
        let ends = speed.ends.measured().map(|fixed| Line { fixed, slope: Duration::ZERO });
        Self {
            decode: fit(speed.decode),
            prefill: fit(speed.prefill),
            load: speed.load.measured(),
            ends: fit(ends.into()),
            cold_max: Duration::ZERO,
        }
    }

    /// Takes in one answered step.
    pub fn observe(&mut self, visit: &Visit) {
        if visit.warmth == Warmth::Cold {
            self.cold_max = self.cold_max.max(visit.compute);
            return;
        }
        if visit.rows == 1 {
            self.decode.observe(u64::from(visit.layers), visit.compute);
        } else if visit.rows >= PREFILL_ROWS_MIN {
            let units = u64::from(visit.layers).saturating_mul(u64::from(visit.rows));
            self.prefill.observe(units, visit.compute);
        }
    }

    /// Takes in one completed load.
    pub fn observe_load(&mut self, bytes: u64, took: Duration) {
        let new = BytesPerSecond::over(bytes, took).0;
        let mean = self.load.map_or(new, |old| old.0 - old.0 / LOAD_SHARE + new / LOAD_SHARE);
        self.load = Some(BytesPerSecond(mean.max(1)));
    }

    /// Takes in what embedding, norm, head and sampling took for one token.
    pub fn observe_ends(&mut self, took: Duration) {
        self.ends.observe(1, took);
    }

    /// The figures now.
    #[must_use]
    pub fn speed(&self) -> Speed {
        Speed {
            decode: self.decode.line(),
            prefill: self.prefill.line(),
            load: self.load.into(),
            ends: match self.ends.line() {
                Figure::Measured(line) => Figure::Measured(line.at(1)),
                Figure::Unknown => Figure::Unknown,
            },
        }
    }

    /// The longest cold visit so far: a lower bound for the limit of the first step after a load.
    #[must_use]
    pub fn cold_max(&self) -> Duration {
        self.cold_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(layers: u32, rows: u32, micros: u64) -> Visit {
        Visit { layers, rows, compute: Duration::from_micros(micros), warmth: Warmth::Warm }
    }

    #[test]
    fn a_cold_visit_sizes_limits_and_ranks_nothing() {
        let mut estimate = SpeedEstimate::default();
        estimate.observe(&Visit { warmth: Warmth::Cold, ..visit(1, 1, 224_000) });
        assert!(estimate.speed().decode.is_unknown());
        assert_eq!(estimate.cold_max(), Duration::from_millis(224));
        estimate.observe(&visit(1, 1, 1000));
        let decode = estimate.speed().decode.measured().unwrap();
        assert_eq!(decode.at(1), Duration::from_millis(1));
    }

    #[test]
    fn decode_and_prefill_are_measured_apart_and_what_lies_between_is_neither() {
        let mut estimate = SpeedEstimate::default();
        estimate.observe(&visit(10, 4, 1));
        assert_eq!(estimate.speed(), Speed::default());
        estimate.observe(&visit(10, 1, 5000));
        assert!(estimate.speed().prefill.is_unknown());
        estimate.observe(&visit(10, 128, 64_000));
        let prefill = estimate.speed().prefill.measured().unwrap();
        assert_eq!(prefill.at(1280), Duration::from_millis(64));
    }

    #[test]
    fn a_probe_on_one_model_seeds_another() {
        let ms = Duration::from_millis;
        let probe = Probe {
            layer_bytes: 100,
            decode: [(1, ms(3)), (5, ms(11))],
            prefill: [(128, ms(20)), (640, ms(84))],
        };
        let speed = SpeedEstimate::seeded(&probe, 200).speed();
        let decode = speed.decode.measured().unwrap();
        assert_eq!((decode.fixed, decode.slope), (ms(1), ms(4)));
        assert_eq!(speed.prefill.measured().unwrap().slope, Duration::from_micros(250));
        assert!(speed.load.is_unknown());
    }

    #[test]
    fn figures_of_an_earlier_run_come_back_as_they_were_and_new_visits_move_them() {
        let us = Duration::from_micros;
        let speed = Speed {
            decode: Figure::Measured(Line { fixed: us(100), slope: us(50) }),
            prefill: Figure::Unknown,
            load: Figure::Measured(BytesPerSecond(7)),
            ends: Figure::Measured(us(900)),
        };
        let mut estimate = SpeedEstimate::known(&speed);
        assert_eq!(estimate.speed(), speed);
        estimate.observe(&visit(10, 1, 1200));
        assert_eq!(estimate.speed().decode.measured().unwrap().at(10), us(1200));
        estimate.observe_ends(us(300));
        assert_eq!(estimate.speed().ends, Figure::Measured(us(300)));
    }

    #[test]
    fn loads_are_averaged_and_never_zero() {
        let mut estimate = SpeedEstimate::default();
        estimate.observe_load(4000, Duration::from_secs(1));
        estimate.observe_load(2000, Duration::from_secs(1));
        assert_eq!(estimate.speed().load, Figure::Measured(BytesPerSecond(3000)));
        estimate.observe_load(0, Duration::MAX);
        assert!(estimate.speed().load.measured().is_some_and(|rate| rate.0 > 0));
    }
}
