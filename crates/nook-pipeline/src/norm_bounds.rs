//! Bounds on how much a span of layers changes the norm of its input, to find impossible answers.
//!
//! The *gain* of a row is the mean magnitude of its numbers after the span over that before it, in
//! octaves (factors of two). Residual layers change it little. Over every cut of the reference
//! models of this tree the norm_bounds of one span lie within 3 octaves of each other, so an answer
//! a thousand times too large or too small (10 octaves) stands out. The mean magnitude is used, not
//! the root of the mean square, because trained models put almost all the energy of some rows into
//! one or two numbers ("massive activations", Sun et al. 2024, arXiv:2402.17762). This is strongest
//! at position 0, which therefore has bounds of its own.
//!
//! Until a span is learned, wide bounds hold that grow with its layers. Whoever runs a walk keeps
//! what it observed ([`crate::Pipeline::norm_bounds`]) if the reply was completed, and hands it to
//! the next one. What this device computed itself outweighs what others answered. Wrong numbers of
//! the right size (of another layer, or another token) are not found here; see `verification`.

use std::collections::BTreeMap;

use nook_base::{Activation, LayerRange};

/// Octaves beyond the learned norm_bounds that are still believed: half of what "a thousand times"
/// is, less the width that honest norm_bounds have.
const MARGIN: f64 = 4.0;

/// Rows after which a span's norm_bounds are learned.
const ROWS_MIN: u64 = 32;

/// Bounds of a span that is not learned, in octaves: as high as this, and one more for each layer.
const UNLEARNED_HIGH: f64 = 5.0;

/// See [`UNLEARNED_HIGH`]; however many layers.
const UNLEARNED_HIGH_MAX: f64 = 14.0;

/// See [`UNLEARNED_HIGH`].
const UNLEARNED_LOW: f64 = -6.0;

/// The first position may gain this much more, learned or not.
const FIRST_POSITION: f64 = 4.0;

/// Inputs quieter than this say nothing about a gain, and no answer counts as quieter.
const SILENCE: f64 = 1e-20;

/// Spans remembered of one model; of more, the others keep the wide bounds. A house cuts a model in
/// few ways.
const SPANS_MAX: usize = 256;

/// The norm_bounds of the spans of one model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NormBounds {
    spans: BTreeMap<(u32, u32), Span>,
}

/// Gains of one span: of the first position, and of all others.
#[derive(Debug, Clone, Default, PartialEq)]
struct Span {
    first: Gains,
    others: Gains,
}

/// Least and greatest gain seen, in octaves.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Gains {
    rows: u64,
    low: f64,
    high: f64,
    /// Whether this device computed them.
    ours: bool,
}

/// What is known of one span, to be kept over a restart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpanNormRange {
    /// The layers.
    pub layers: LayerRange,
    /// At position 0; absent when it was never seen.
    pub first: Option<NormRange>,
    /// At all others.
    pub others: Option<NormRange>,
}

/// Least and greatest gain seen, in octaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormRange {
    /// Rows seen.
    pub rows: u64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// Whether this device computed them.
    pub ours: bool,
}

/// Who computed what is learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// This device.
    Ours,
    /// Another one.
    Theirs,
}

/// A gain that no honest device answers.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("a gain of {gain:.1} octaves")]
pub struct OutOfBounds {
    /// In octaves.
    pub gain: f64,
}

/// The norm_bounds of one step, row by row.
#[derive(Debug, Clone)]
pub struct StepNormGain {
    layers: LayerRange,
    position: u32,
    norm_bounds: Vec<Option<f64>>,
}

impl StepNormGain {
    /// `input` and `output` have the same shape; `position` is that of their first row.
    #[must_use]
    pub fn of(layers: LayerRange, position: u32, input: &Activation, output: &Activation) -> Self {
        // What falls silent has lost at least that much: subnormal numbers are none of a gain's
        // silence.
        let gain = |(before, after): (f64, f64)| {
            (before > SILENCE).then(|| (after.max(SILENCE) / before).log2())
        };
        let norm_bounds = magnitudes(input).into_iter().zip(magnitudes(output)).map(gain).collect();
        Self { layers, position, norm_bounds }
    }

    fn rows(&self) -> impl Iterator<Item = (bool, f64)> {
        let is_first = |index: usize| self.position == 0 && index == 0;
        let rows = self.norm_bounds.iter().enumerate();
        rows.filter_map(move |(index, gain)| gain.map(|gain| (is_first(index), gain)))
    }
}

impl NormBounds {
    /// Refuses a step whose norm_bounds this span does not have.
    pub fn check(&self, step: &StepNormGain) -> Result<(), OutOfBounds> {
        let span = self.spans.get(&key(step.layers));
        for (is_first, gain) in step.rows() {
            let learned = span.map(|span| if is_first { span.first } else { span.others });
            let (low, high) = bounds(learned.unwrap_or_default(), step.layers, is_first);
            if !(low..=high).contains(&gain) {
                return Err(OutOfBounds { gain });
            }
        }
        Ok(())
    }

    /// Remembers the norm_bounds of a step that passed.
    pub fn learn(&mut self, step: &StepNormGain, source: Source) {
        if self.spans.len() >= SPANS_MAX && !self.spans.contains_key(&key(step.layers)) {
            return;
        }
        let span = self.spans.entry(key(step.layers)).or_default();
        for (is_first, gain) in step.rows() {
            let seen = Gains { rows: 1, low: gain, high: gain, ours: source == Source::Ours };
            let norm_bounds = if is_first { &mut span.first } else { &mut span.others };
            norm_bounds.merge(seen);
        }
    }

    /// Everything that is known.
    pub fn spans(&self) -> impl Iterator<Item = SpanNormRange> {
        self.spans.iter().filter_map(|((start, end), span)| {
            let layers = LayerRange::new(*start, *end).ok()?;
            let (first, others) = (span.first.seen(), span.others.seen());
            Some(SpanNormRange { layers, first, others })
        })
    }

    /// Takes back what an earlier run has kept; what is known already counts as well.
    pub fn restore(&mut self, kept: &SpanNormRange) {
        let (first, others) = (Gains::from(kept.first), Gains::from(kept.others));
        let key = key(kept.layers);
        self.merge(&Self { spans: [(key, Span { first, others })].into() });
    }

    /// Adds what another walk over the same model has observed.
    pub fn merge(&mut self, other: &Self) {
        for (key, seen) in &other.spans {
            if self.spans.len() < SPANS_MAX || self.spans.contains_key(key) {
                let span = self.spans.entry(*key).or_default();
                span.first.merge(seen.first);
                span.others.merge(seen.others);
            }
        }
    }
}

impl From<Option<NormRange>> for Gains {
    fn from(seen: Option<NormRange>) -> Self {
        seen.map_or_else(Self::default, |NormRange { rows, low, high, ours }| Self {
            rows,
            low,
            high,
            ours,
        })
    }
}

impl Gains {
    fn seen(self) -> Option<NormRange> {
        let Self { rows, low, high, ours } = self;
        (rows > 0).then_some(NormRange { rows, low, high, ours })
    }

    fn merge(&mut self, seen: Self) {
        if seen.rows == 0 || (self.ours && !seen.ours) {
            return;
        }
        if self.rows == 0 || (seen.ours && !self.ours) {
            *self = seen;
            return;
        }
        self.rows = self.rows.saturating_add(seen.rows);
        self.low = self.low.min(seen.low);
        self.high = self.high.max(seen.high);
    }
}

fn bounds(learned: Gains, layers: LayerRange, is_first: bool) -> (f64, f64) {
    let (low, high) = if learned.rows >= ROWS_MIN {
        (learned.low - MARGIN, learned.high + MARGIN)
    } else {
        let high = UNLEARNED_HIGH + f64::from(layers.len());
        (UNLEARNED_LOW, high.min(UNLEARNED_HIGH_MAX))
    };
    if is_first { (low - FIRST_POSITION, high + FIRST_POSITION) } else { (low, high) }
}

fn key(layers: LayerRange) -> (u32, u32) {
    (layers.start(), layers.end())
}

/// The mean magnitude of each row.
fn magnitudes(activation: &Activation) -> Vec<f64> {
    let width = (activation.hidden() as usize).max(1);
    let numbers = activation.to_f32();
    let mean = |row: &[f32]| row.iter().map(|x| f64::from(x.abs())).sum::<f64>() / width as f64;
    numbers.chunks_exact(width).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use nook_base::ActivationDtype;

    use super::*;

    fn rows(count: usize, size: f32) -> Activation {
        let numbers: Vec<f32> = (0..count).flat_map(|_| [size, -size]).collect();
        Activation::from_f32(&numbers, 2, ActivationDtype::F32).unwrap()
    }

    fn step(position: u32, count: usize, gain: f32) -> StepNormGain {
        let layers = LayerRange::with_len(1, 2);
        StepNormGain::of(layers, position, &rows(count, 0.3), &rows(count, 0.3 * gain))
    }

    fn learned(gain: f32, source: Source) -> NormBounds {
        let mut book = NormBounds::default();
        book.learn(&step(0, 40, gain), source);
        book
    }

    #[test]
    fn a_thousand_times_too_much_or_too_little_is_refused_learned_or_not() {
        for book in
            [NormBounds::default(), learned(2.0, Source::Theirs), learned(0.8, Source::Ours)]
        {
            for honest in [0.7, 1.0, 3.0, 10.0] {
                assert_eq!(book.check(&step(5, 1, honest)), Ok(()));
                assert!(book.check(&step(5, 1, honest * 1_000.0)).is_err());
            }
            assert!(book.check(&step(5, 1, 0.001)).is_err());
        }
    }

    #[test]
    fn the_first_position_may_be_louder_and_does_not_widen_the_bounds_of_others() {
        let book = learned(1.0, Source::Theirs);
        assert_eq!(book.check(&step(0, 1, 200.0)), Ok(()));
        assert!(book.check(&step(1, 1, 200.0)).is_err());
        let mut loud = NormBounds::default();
        loud.learn(&step(0, 1, 200.0), Source::Theirs);
        loud.learn(&step(1, 40, 1.0), Source::Theirs);
        assert!(loud.check(&step(1, 1, 200.0)).is_err());
    }

    #[test]
    fn what_this_device_computed_outweighs_what_others_answered() {
        let mut book = learned(60.0, Source::Theirs);
        book.merge(&learned(1.0, Source::Ours));
        assert_eq!(book, learned(1.0, Source::Ours));
        book.merge(&learned(60.0, Source::Theirs));
        assert_eq!(book, learned(1.0, Source::Ours));
    }

    #[test]
    fn what_was_learned_comes_back_after_a_restart() {
        let book = learned(2.0, Source::Ours);
        let mut again = NormBounds::default();
        book.spans().for_each(|span| again.restore(&span));
        assert_eq!(again, book);
        assert!(again.check(&step(5, 1, 2_000.0)).is_err());
    }

    #[test]
    fn a_silent_input_says_nothing_and_an_answer_that_falls_silent_is_refused() {
        let layers = LayerRange::with_len(1, 2);
        let silent = StepNormGain::of(layers, 3, &rows(1, 0.0), &rows(1, 1.0));
        let subnormal = StepNormGain::of(layers, 3, &rows(1, 1.0), &rows(1, 1e-40));
        for book in [NormBounds::default(), learned(1.0, Source::Ours)] {
            assert_eq!(book.check(&silent), Ok(()));
            assert!(book.check(&subnormal).is_err());
        }
    }

    #[test]
    fn no_more_spans_are_remembered_than_the_limit() {
        let mut book = NormBounds::default();
        for start in 0..SPANS_MAX as u32 + 9 {
            let layers = LayerRange::with_len(start, 1);
            book.learn(&StepNormGain::of(layers, 1, &rows(1, 1.0), &rows(1, 1.0)), Source::Theirs);
        }
        assert_eq!(book.spans.len(), SPANS_MAX);
        let mut other = NormBounds::default();
        let layers = LayerRange::with_len(5_000, 1);
        other.learn(&StepNormGain::of(layers, 1, &rows(1, 1.0), &rows(1, 1.0)), Source::Ours);
        book.merge(&other);
        assert_eq!(book.spans.len(), SPANS_MAX);
    }
}
