//! Rotary position embeddings (Su et al., <https://arxiv.org/abs/2104.09864>), with linear scaling,
//! YaRN (Peng et al., <https://arxiv.org/abs/2309.00071>) and factors for single frequencies.

use std::f64::consts::PI;

use super::model::Model;

/// Which two numbers of a head turn together.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Pairs {
    /// `2 i` and `2 i + 1`.
    Adjacent,
    /// `i` and `i + half`.
    Halves,
}

#[derive(Clone)]
pub(super) struct Rope {
    /// Radians for each position, for each pair.
    frequencies: Vec<f64>,
    /// What turned numbers are multiplied by.
    magnitude: f64,
    pairs: Pairs,
}

impl Rope {
    /// Unscaled frequencies for `dimensions` numbers of a head.
    pub(super) fn new(base: f64, dimensions: usize, pairs: Pairs) -> Self {
        let frequency = |i| base.powf(-2.0 * i as f64 / dimensions as f64);
        Self { frequencies: (0..dimensions / 2).map(frequency).collect(), magnitude: 1.0, pairs }
    }

    /// As the file says: base, scaling, and factors where there are any.
    pub(super) fn of(model: &Model, dimensions: usize, pairs: Pairs) -> Self {
        let base = model.fraction("rope.freq_base").unwrap_or(10_000.0);
        let mut rope = Self::new(base, dimensions, pairs);
        match model.text("rope.scaling.type") {
            None | Some("none" | "longrope") => {}
            Some("linear") => {
                let factor = model.fraction("rope.scaling.factor").unwrap();
                rope.frequencies.iter_mut().for_each(|frequency| *frequency /= factor);
            }
            Some("yarn") => rope.stretch(model, base, dimensions),
            Some(other) => panic!("unknown rope scaling {other}"),
        }
        if model.has("rope_freqs.weight") {
            rope.divide(model.values("rope_freqs.weight"));
        }
        rope
    }

    /// Divides each frequency by its factor.
    pub(super) fn divide(&mut self, factors: &[f64]) {
        assert_eq!(factors.len(), self.frequencies.len());
        self.frequencies.iter_mut().zip(factors).for_each(|(frequency, by)| *frequency /= by);
    }

    /// Multiplies what was turned by `magnitude`.
    pub(super) fn with_magnitude(self, magnitude: f64) -> Self {
        Self { magnitude, ..self }
    }

    /// YaRN: slow frequencies are divided by the factor, fast ones kept, with a ramp between; the
    /// ramp's ends are the (whole) pair numbers that turn 32 times and once in the original
    /// context.
    fn stretch(&mut self, model: &Model, base: f64, dimensions: usize) {
        let factor = model.fraction("rope.scaling.factor").unwrap();
        let original = model.size("rope.scaling.original_context_length") as f64;
        let fast = model.fraction("rope.scaling.yarn_beta_fast").unwrap_or(32.0);
        let slow = model.fraction("rope.scaling.yarn_beta_slow").unwrap_or(1.0);
        let last = dimensions as f64 - 1.0;
        let pair_of = |turns: f64| {
            dimensions as f64 * (original / (turns * 2.0 * PI)).ln() / (2.0 * base.ln())
        };
        let low = pair_of(fast).floor().max(0.0);
        let high = pair_of(slow).ceil().min(last);
        for (i, frequency) in self.frequencies.iter_mut().enumerate() {
            let ramp = ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            *frequency *= 1.0 - ramp + ramp / factor;
        }
        self.magnitude = 0.1 * factor.ln() + 1.0;
    }

    /// Turns the first numbers of `head`, which stands at `position`.
    pub(super) fn turn(&self, head: &mut [f64], position: usize) {
        let half = self.frequencies.len();
        for (i, frequency) in self.frequencies.iter().enumerate() {
            let (a, b) = match self.pairs {
                Pairs::Adjacent => (2 * i, 2 * i + 1),
                Pairs::Halves => (i, i + half),
            };
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            let (x, y) = (head[a], head[b]);
            head[a] = (x * cos - y * sin) * self.magnitude;
            head[b] = (x * sin + y * cos) * self.magnitude;
        }
    }

    /// Turns every head of every row, from number `offset` of the head on.
    pub(super) fn turn_rows(&self, rows: &mut super::Rows, head_dim: usize, offset: usize) {
        for (position, row) in rows.iter_mut().enumerate() {
            for head in row.chunks_exact_mut(head_dim) {
                self.turn(&mut head[offset..], position);
            }
        }
    }
}
