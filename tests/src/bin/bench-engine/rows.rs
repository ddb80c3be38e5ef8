//! The rows of the target table, and what was found for each.

use std::fmt;

use clap::ValueEnum;
use nook_tests::figures::Spread;
use serde::Serialize;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Tokens one by one, against llama.cpp
    Decode,
    /// A prompt in one step, against llama.cpp
    Prefill,
    /// Several streams in one pass, against one stream
    Streams,
    /// Decode at many positions, against decode at few
    Depth,
    /// Memory in use, against the bytes of the file
    Memory,
    /// From opening the file to the first token
    Load,
    /// Decode on a busy machine, against decode on an idle one
    Busy,
}

/// What the design asks for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// Whether the target was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// There is nothing to judge; the row's note says why.
    Open,
}

/// What ours is compared with.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Against {
    pub(crate) what: &'static str,
    pub(crate) figures: Spread,
}

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) part: Part,
    pub(crate) file: &'static str,
    pub(crate) threads: usize,
    pub(crate) unit: &'static str,
    pub(crate) ours: Option<Spread>,
    pub(crate) against: Vec<Against>,
    /// Of samples taken in the same round.
    pub(crate) ratio: Option<Spread>,
    pub(crate) target: Target,
    pub(crate) verdict: Verdict,
    /// Bytes of the file times tokens per second, as a share of plain reading; it may exceed 1.
    pub(crate) of_bandwidth: Option<f64>,
    pub(crate) note: Option<String>,
}

impl Part {
    /// What the design asks for; see the table of targets there.
    pub(crate) fn target(self) -> Target {
        match self {
            Self::Decode => Target::AtLeast(1.25),
            Self::Prefill => Target::AtLeast(1.2),
            Self::Streams => Target::AtLeast(3.0),
            Self::Depth => Target::AtLeast(0.75),
            Self::Memory => Target::AtMost(1.15),
            Self::Load => Target::AtMost(1.0),
            Self::Busy => Target::AtLeast(0.4),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Memory => "MB",
            Self::Load => "s",
            _ => "tokens/s",
        }
    }
}

impl Target {
    fn is_met_by(self, found: f64) -> bool {
        match self {
            Self::AtLeast(limit) => found >= limit,
            Self::AtMost(limit) => found <= limit,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(limit) => write!(f, "≥ {limit:.2}"),
            Self::AtMost(limit) => write!(f, "≤ {limit:.2}"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::Open => "open",
        })
    }
}

impl Row {
    /// A row without figures, and why.
    pub(crate) fn open(part: Part, file: &'static str, threads: usize, why: String) -> Self {
        Self {
            part,
            file,
            threads,
            unit: part.unit(),
            ours: None,
            against: Vec::new(),
            ratio: None,
            target: part.target(),
            verdict: Verdict::Open,
            of_bandwidth: None,
            note: Some(why),
        }
    }

    /// A row whose own figures are judged.
    pub(crate) fn alone(part: Part, file: &'static str, threads: usize, ours: &[f64]) -> Self {
        let row = Self { note: None, ..Self::open(part, file, threads, String::new()) };
        let Some(ours) = spread(ours) else {
            return Self { note: Some("nothing was measured".to_owned()), ..row };
        };
        Self { ours: Some(ours), verdict: judged(part.target(), ours.median), ..row }
    }

    /// A row that is judged by `ours` against the best of `others`, round by round.
    pub(crate) fn compared(
        part: Part,
        file: &'static str,
        threads: usize,
        ours: &[f64],
        others: &[(&'static str, &[f64])],
    ) -> Self {
        let row = Self { note: None, ..Self::open(part, file, threads, String::new()) };
        let told = others.iter().filter_map(|(what, samples)| {
            Some((Against { what, figures: spread(samples)? }, *samples))
        });
        let told: Vec<_> = told.collect();
        let best = told.iter().max_by(|a, b| a.0.figures.median.total_cmp(&b.0.figures.median));
        let ratio = best.and_then(|(_, samples)| spread(&ratios(ours, samples)));
        let verdict = ratio.map_or(Verdict::Open, |ratio| judged(part.target(), ratio.median));
        let against = told.into_iter().map(|(against, _)| against).collect();
        Self { ours: spread(ours), against, ratio, verdict, ..row }
    }
}

fn judged(target: Target, found: f64) -> Verdict {
    if target.is_met_by(found) { Verdict::Met } else { Verdict::Missed }
}

/// `None` for no samples.
fn spread(samples: &[f64]) -> Option<Spread> {
    (!samples.is_empty()).then(|| Spread::of(samples.iter().copied()))
}

/// Of samples of the same round; a round without a partner, or one that took no time, tells
/// nothing.
fn ratios(ours: &[f64], other: &[f64]) -> Vec<f64> {
    let pairs = ours.iter().zip(other);
    pairs.map(|(ours, other)| ours / other).filter(|ratio| ratio.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_the_rounds() {
        // Each round is twice as fast, though the machine slowed down in the middle.
        let ours = [40.0, 20.0, 44.0];
        let other = [20.0, 10.0, 22.0];
        let row = Row::compared(Part::Decode, "f", 1, &ours, &[("llama.cpp", &other)]);
        let ratio = row.ratio.unwrap();
        assert_eq!((ratio.min, ratio.median, ratio.max), (2.0, 2.0, 2.0));
        assert_eq!((row.ours.unwrap().median, row.verdict), (40.0, Verdict::Met));
    }

    #[test]
    fn the_faster_of_two_is_the_one_to_beat() {
        let others: [(_, &[f64]); 2] = [("default", &[100.0, 90.0]), ("other", &[150.0, 160.0])];
        let row = Row::compared(Part::Prefill, "f", 2, &[165.0, 176.0], &others);
        let ratio = row.ratio.unwrap();
        assert!((ratio.median - 1.1).abs() < 1e-9, "{ratio:?}");
        assert_eq!(row.verdict, Verdict::Missed);
        assert_eq!(row.against.len(), 2);
    }

    #[test]
    fn without_a_partner_the_verdict_is_open() {
        let row = Row::compared(Part::Decode, "f", 1, &[40.0], &[]);
        assert_eq!((row.verdict, row.ratio.is_none()), (Verdict::Open, true));
        let row = Row::compared(Part::Decode, "f", 1, &[40.0], &[("llama.cpp", &[])]);
        assert_eq!((row.verdict, row.against.len()), (Verdict::Open, 0));
        let row = Row::compared(Part::Decode, "f", 1, &[], &[("llama.cpp", &[30.0])]);
        assert_eq!((row.verdict, row.ours), (Verdict::Open, None));
        let row = Row::compared(Part::Decode, "f", 1, &[1.0], &[("llama.cpp", &[0.0])]);
        assert_eq!((row.verdict, row.ratio), (Verdict::Open, None));
    }

    #[test]
    fn targets_have_a_direction_and_include_their_limit() {
        assert!(Target::AtLeast(1.25).is_met_by(1.25) && !Target::AtLeast(1.25).is_met_by(1.24));
        assert!(Target::AtMost(1.0).is_met_by(1.0) && !Target::AtMost(1.0).is_met_by(1.01));
        assert!(!Target::AtLeast(1.0).is_met_by(f64::NAN));
        assert_eq!(Row::alone(Part::Load, "f", 2, &[0.9, 0.8, 2.0]).verdict, Verdict::Met);
        assert_eq!(Row::alone(Part::Load, "f", 2, &[1.1]).verdict, Verdict::Missed);
        assert_eq!(Row::alone(Part::Load, "f", 2, &[]).verdict, Verdict::Open);
        assert_eq!(Part::Decode.target().to_string(), "≥ 1.25");
    }
}
