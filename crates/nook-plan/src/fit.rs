//! A straight line through measured visits: a fixed cost and a cost for each unit of work.
//!
//! Weighted least squares with exponential forgetting, which is what an EWMA becomes when the thing
//! that is averaged has two unknowns. A device that always computes the same number of layers shows
//! only one point of its line; then the shape of the seed (the calibration probe) is kept and
//! scaled so that it goes through that point.

use std::time::Duration;

use crate::figure::{Figure, nanos};

/// What an older visit weighs when a new one comes: some ten visits count.
const FORGETTING: f64 = 0.9;

/// Share of a visit taken for fixed when all visits had the same size and there was no probe. A
/// small share of the model is then never priced as nearly free.
const FIXED_SHARE_ASSUMED: f64 = 0.25;

/// A visit longer than this many times what was expected counts as this long, once
/// [`VISITS_BEFORE_CLIPPING`] are known: a machine that slept for a moment did not become slow. A
/// machine that did become slow is followed within a few visits.
const CLIP: f64 = 2.0;
const VISITS_BEFORE_CLIPPING: u32 = 3;

/// Least relative spread of the sizes of visits for which a slope is read out of them.
const SPREAD_MIN: f64 = 0.05;

/// `fixed + slope * units`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// For each visit, however small.
    pub fixed: Duration,
    /// For each unit of work.
    pub slope: Duration,
}

/// The line of one kind of work on one device, as visits come in.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LineFit {
    seed: Option<Line>,
    visits: u32,
    /// Sums of weight, size, time, size squared, size times time.
    weight: f64,
    units: f64,
    time: f64,
    units_squared: f64,
    units_time: f64,
}

impl Line {
    /// Time of one visit with `units` of work; saturates.
    #[must_use]
    pub fn at(self, units: u64) -> Duration {
        let slope = nanos(self.slope).saturating_mul(units);
        Duration::from_nanos(nanos(self.fixed).saturating_add(slope))
    }

    /// The line through two visits of different size; where the larger was not slower, the slope of
    /// the larger visit from zero.
    #[must_use]
    pub fn through(small: (u64, Duration), large: (u64, Duration)) -> Self {
        let (low, high) = if small.0 <= large.0 { (small, large) } else { (large, small) };
        let units = high.0.saturating_sub(low.0);
        let more = nanos(high.1).saturating_sub(nanos(low.1));
        if units == 0 || more == 0 {
            let slope = nanos(high.1) / high.0.max(1);
            return Self { fixed: Duration::ZERO, slope: Duration::from_nanos(slope) };
        }
        let slope = more / units;
        let fixed = nanos(low.1).saturating_sub(slope.saturating_mul(low.0));
        Self { fixed: Duration::from_nanos(fixed), slope: Duration::from_nanos(slope) }
    }

    /// The same device with units that are `to / from` times as large: another model's layers.
    #[must_use]
    pub fn scaled(self, from: u64, to: u64) -> Self {
        let slope = u128::from(nanos(self.slope)) * u128::from(to) / u128::from(from.max(1));
        let slope = Duration::from_nanos(u64::try_from(slope).unwrap_or(u64::MAX));
        Self { slope: Duration::from_nanos(nanos(slope)), ..self }
    }
}

impl LineFit {
    /// Starts from a probe.
    #[must_use]
    pub fn seeded(seed: Line) -> Self {
        Self { seed: Some(seed), ..Self::default() }
    }

    /// Takes in one visit of `units` that took `took`. A visit without work is ignored.
    pub fn observe(&mut self, units: u64, took: Duration) {
        if units == 0 {
            return;
        }
        let x = units as f64;
        let mut y = nanos(took) as f64;
        if self.visits >= VISITS_BEFORE_CLIPPING
            && let Some(line) = self.line().measured()
        {
            y = y.min(CLIP * (nanos(line.at(units)) as f64).max(1.0));
        }
        self.visits = self.visits.saturating_add(1);
        for sum in [
            &mut self.weight,
            &mut self.units,
            &mut self.time,
            &mut self.units_squared,
            &mut self.units_time,
        ] {
            *sum *= FORGETTING;
        }
        self.weight += 1.0;
        self.units += x;
        self.time += y;
        self.units_squared += x * x;
        self.units_time += x * y;
    }

    /// Visits taken in so far; the probe is none.
    #[must_use]
    pub fn visits(&self) -> u32 {
        self.visits
    }

    /// The line now. Neither term is ever negative.
    #[must_use]
    pub fn line(&self) -> Figure<Line> {
        if self.visits == 0 {
            return self.seed.into();
        }
        let (x, y) = (self.units / self.weight, self.time / self.weight);
        let spread = self.units_squared / self.weight - x * x;
        if spread > SPREAD_MIN * x * x {
            let slope = (self.units_time / self.weight - x * y) / spread;
            return Figure::Measured(self.clamped(slope, x, y));
        }
        let fixed_share = match self.seed {
            Some(seed) => {
                let (fixed, slope) = (nanos(seed.fixed) as f64, nanos(seed.slope) as f64);
                fixed / (fixed + slope * x).max(1.0)
            }
            None => FIXED_SHARE_ASSUMED,
        };
        Figure::Measured(line(y * fixed_share, y * (1.0 - fixed_share) / x))
    }

    /// The nearest line with no negative term.
    fn clamped(&self, slope: f64, x: f64, y: f64) -> Line {
        if slope <= 0.0 {
            // Larger visits were not slower: the size explains nothing yet.
            return line(y * FIXED_SHARE_ASSUMED, y * (1.0 - FIXED_SHARE_ASSUMED) / x);
        }
        match y - slope * x {
            fixed if fixed >= 0.0 => line(fixed, slope),
            _ => line(0.0, self.units_time / self.units_squared),
        }
    }
}

/// A float becomes an integer by saturation, so no number makes this fail.
fn line(fixed: f64, slope: f64) -> Line {
    let time = |value: f64| {
        Duration::from_nanos(nanos(Duration::from_nanos(value.max(0.0).round() as u64)))
    };
    Line { fixed: time(fixed), slope: time(slope) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(value: u64) -> Duration {
        Duration::from_micros(value)
    }

    /// Times of 1, 10 and 30 units, in µs.
    fn shown(fit: &LineFit) -> [u128; 3] {
        let line = fit.line().measured().unwrap();
        [1, 10, 30].map(|units| line.at(units).as_micros())
    }

    #[test]
    fn nothing_seen_is_unknown_and_a_probe_is_known() {
        assert_eq!(LineFit::default().line(), Figure::Unknown);
        let seed = Line { fixed: micros(100), slope: micros(50) };
        assert_eq!(LineFit::seeded(seed).line(), Figure::Measured(seed));
    }

    #[test]
    fn two_sizes_of_visits_tell_the_fixed_part_from_the_rest() {
        let mut fit = LineFit::default();
        for round in 0..20 {
            let units = if round % 2 == 0 { 4 } else { 16 };
            fit.observe(units, micros(300 + 20 * units));
        }
        assert_eq!(shown(&fit), [320, 500, 900]);
    }

    #[test]
    fn one_size_keeps_the_shape_of_the_probe_and_goes_through_what_was_seen() {
        // The probe said 100 + 50 a unit; ten units turn out to take 1,200 and not 600.
        let mut fit = LineFit::seeded(Line { fixed: micros(100), slope: micros(50) });
        for _ in 0..50 {
            fit.observe(10, micros(1200));
        }
        assert_eq!(shown(&fit), [300, 1200, 3200]);
    }

    #[test]
    fn without_a_probe_a_small_share_is_not_priced_as_nearly_free() {
        let mut fit = LineFit::default();
        fit.observe(30, micros(3000));
        let [one, _, thirty] = shown(&fit);
        assert_eq!(thirty, 3000);
        assert!(one >= 750, "{one}");
    }

    #[test]
    fn a_single_hiccup_is_clipped_and_a_lasting_change_is_followed() {
        let mut fit = LineFit::seeded(Line { fixed: micros(0), slope: micros(100) });
        for _ in 0..10 {
            fit.observe(10, micros(1000));
        }
        fit.observe(10, Duration::from_secs(30));
        assert!(shown(&fit)[1] < 1600, "{:?}", shown(&fit));
        for _ in 0..25 {
            fit.observe(10, micros(5000));
        }
        assert!(shown(&fit)[1] > 4500, "{:?}", shown(&fit));
    }

    #[test]
    fn no_visit_makes_a_term_negative_or_fails() {
        let mut fit = LineFit::default();
        for (units, took) in
            [(1, micros(900)), (20, micros(10)), (u64::MAX, Duration::MAX), (0, micros(1))]
        {
            fit.observe(units, took);
            assert!(fit.line().measured().is_some());
        }
        assert_eq!(fit.visits(), 3);
    }

    #[test]
    fn a_line_scales_with_the_size_of_layers_but_its_fixed_part_stays() {
        let line = Line { fixed: micros(7), slope: micros(10) };
        assert_eq!(line.scaled(100, 250), Line { fixed: micros(7), slope: micros(25) });
        let through = Line::through((2, micros(30)), (12, micros(80)));
        assert_eq!(through, Line { fixed: micros(20), slope: micros(5) });
    }
}
