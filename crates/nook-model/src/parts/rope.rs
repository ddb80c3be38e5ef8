//! Rotary frequencies of a model, and which of them a session uses.

use std::ops::Range;

use nook_kernels::{Compute, Rope, RopeLayout, RopeScaling, RopeTable, rotate};

use super::Span;
use crate::error::Fault;
use crate::weights::{Named, Part, Source, Weights};

/// One set of frequencies.
#[derive(Debug)]
pub(crate) struct RopeSpec<W: Weights> {
    pub(crate) base: f32,
    /// Numbers of a head that turn.
    pub(crate) dimensions: u32,
    pub(crate) scaling: RopeScaling,
    /// Factor of the length of what was turned.
    pub(crate) magnitude: f32,
    pub(crate) factors: Factors<W>,
}

/// Least divisor of a frequency: below it, positions would turn so fast that single precision
/// cannot hold their angles.
const FACTOR_MIN: f32 = 1e-3;

/// Divisors of the frequencies that lie in the file as tensors.
#[derive(Debug)]
pub(crate) enum Factors<W: Weights> {
    None,
    /// `rope_freqs.weight` (Llama 3.1 and later).
    Always(W::Numbers),
    /// Two sets (LongRoPE, Ding et al. 2024): `long` for sessions that may come to have more
    /// positions than `original`, `short` for others. Every host of a route opens its session with
    /// the same number of positions, so all choose alike, and no session changes its mind on the
    /// way. (llama.cpp chooses by the size of its context, which is the same; transformers by the
    /// length so far.)
    ByWindow {
        original: u32,
        short: W::Numbers,
        long: W::Numbers,
    },
}

/// Frequencies, ready to make tables.
#[derive(Debug)]
pub(crate) struct RopeSet {
    /// For sessions of at most so many positions.
    usual: Rope,
    /// The window above which the other set is used, and that set.
    wide: Option<(u32, Rope)>,
}

/// Turns of the rows of a step: one table for rows that follow each other and use the same set.
#[derive(Debug)]
pub(crate) struct Tables {
    tables: Vec<(Range<usize>, RopeTable)>,
}

impl Part for RopeSpec<Named> {
    type With<W: Weights> = RopeSpec<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<RopeSpec<S::Into>, Fault> {
        let factors = match &self.factors {
            Factors::None => Factors::None,
            Factors::Always(factors) => Factors::Always(source.numbers(factors)?),
            Factors::ByWindow { original, short, long } => Factors::ByWindow {
                original: *original,
                short: source.numbers(short)?,
                long: source.numbers(long)?,
            },
        };
        Ok(RopeSpec {
            base: self.base,
            dimensions: self.dimensions,
            scaling: self.scaling,
            magnitude: self.magnitude,
            factors,
        })
    }
}

impl<W: Weights> RopeSpec<W> {
    /// Whether sessions of these two windows use the same frequencies.
    pub(crate) fn turns_alike(&self, window: u32, other: u32) -> bool {
        match &self.factors {
            Factors::None | Factors::Always(_) => true,
            Factors::ByWindow { original, .. } => (window > *original) == (other > *original),
        }
    }
}

impl<W: Weights<Numbers = Vec<f32>>> RopeSpec<W> {
    /// The frequencies; fails when a factor is none that a model could have.
    pub(crate) fn build(&self) -> Result<RopeSet, Fault> {
        let plain = |factors: Option<&[f32]>| {
            let dimensions = self.dimensions as usize;
            Rope::new(self.base, dimensions, self.scaling, factors).with_magnitude(self.magnitude)
        };
        let divided = |factors: &[f32]| {
            let possible = |factor: &f32| factor.is_finite() && *factor >= FACTOR_MIN;
            match factors.iter().all(possible) {
                true => Ok(plain(Some(factors))),
                false => Err(Fault::RopeFactors),
            }
        };
        Ok(match &self.factors {
            Factors::None => RopeSet { usual: plain(None), wide: None },
            Factors::Always(factors) => RopeSet { usual: divided(factors)?, wide: None },
            Factors::ByWindow { original, short, long } => {
                RopeSet { usual: divided(short)?, wide: Some((*original, divided(long)?)) }
            }
        })
    }
}

impl RopeSet {
    /// Turns of the rows of `spans`, which follow each other.
    pub(crate) fn tables(&self, spans: &[Span]) -> Tables {
        let mut tables = Vec::new();
        let same = |a: &Span, b: &Span| self.is_wide(a.window) == self.is_wide(b.window);
        for group in spans.chunk_by(same) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else {
                continue;
            };
            let positions = |span: &Span| span.first..span.first + span.rows.len() as u32;
            let positions: Vec<u32> = group.iter().flat_map(positions).collect();
            let rope = match &self.wide {
                Some((original, wide)) if first.window > *original => wide,
                _ => &self.usual,
            };
            tables.push((first.rows.start..last.rows.end, rope.table(&positions)));
        }
        Tables { tables }
    }

    fn is_wide(&self, window: u32) -> bool {
        self.wide.as_ref().is_some_and(|(original, _)| window > *original)
    }
}

impl Tables {
    /// Cosines and sines (n, pairs) of all rows, one after the other, and the number of pairs.
    pub(crate) fn joined(&self) -> (Vec<f32>, Vec<f32>, usize) {
        let all = |numbers: fn(&RopeTable) -> &[f32]| {
            self.tables.iter().flat_map(|(_, table)| numbers(table)).copied().collect()
        };
        let pairs = self.tables.first().map_or(0, |(_, table)| table.pairs());
        (all(RopeTable::cosines), all(RopeTable::sines), pairs)
    }

    /// Turns the heads of `x` (n, heads * `head_dim`), from number `offset` of each head on.
    pub(crate) fn turn(
        &self,
        compute: &Compute,
        x: &mut [f32],
        heads: usize,
        head_dim: usize,
        offset: usize,
        layout: RopeLayout,
    ) {
        let width = heads * head_dim;
        for (rows, table) in &self.tables {
            let x = &mut x[rows.start * width..rows.end * width];
            rotate(compute, x, heads, head_dim, offset, layout, table);
        }
    }
}
