//! From samples to the few numbers that are told.

use serde::Serialize;

/// How samples are spread. The unit is that of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// How many samples.
    pub n: usize,
    /// The smallest; of times the best, because interference only adds.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// What 95 of 100 do not exceed.
    pub p95: f64,
    /// What 99 of 100 do not exceed.
    pub p99: f64,
    /// The largest; of speeds the best.
    pub max: f64,
}

impl Spread {
    /// The spread of `samples`; all zero for none.
    #[must_use]
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |percent| rank(&sorted, percent);
        Self { n: sorted.len(), min: at(0), median: at(50), p95: at(95), p99: at(99), max: at(100) }
    }
}

/// The nearest rank: the smallest sample that at least `percent` of all do not exceed.
fn rank(sorted: &[f64], percent: usize) -> f64 {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_that_occurred() {
        let spread = Spread::of((1..=200).rev().map(f64::from));
        assert_eq!((spread.n, spread.min, spread.median), (200, 1.0, 100.0));
        assert_eq!((spread.p95, spread.p99, spread.max), (190.0, 198.0, 200.0));
        let one = Spread::of([7.0]);
        assert_eq!((one.min, one.p99), (7.0, 7.0));
        assert_eq!(Spread::of([]).n, 0);
    }
}
