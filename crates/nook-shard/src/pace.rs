//! How many rows of a long step are computed at once.
//!
//! While somebody decodes, a piece of another's prefill should take about as long as a decode pass:
//! then nobody who waits for a token waits for more than one such piece, and a prompt still gets
//! half of the time. How many rows that are depends on the machine and on the part of the model, so
//! it is measured. Results do not depend on it. Pure: times come as arguments.

use std::time::{Duration, Instant};

use nook_base::ModelPart;

/// Rows up to which a step counts as decode (with a few guesses to verify): below about so many, a
/// pass takes as long as reading the weights, whoever's rows they are.
pub(crate) const DECODE_ROWS_MAX: usize = 8;

/// Fewest rows of a piece. With less, more time goes into reading weights than into computing.
pub(crate) const PIECE_ROWS_MIN: usize = 16;

/// Most rows of a piece: the usual step of prefill. More gains nothing, and whoever begins to
/// decode meanwhile waits for it.
pub(crate) const PIECE_ROWS_MAX: usize = 128;

/// Somebody decodes for so long after a decode step: longer than a token's way over other devices.
const DECODE_LINGERS: Duration = Duration::from_secs(1);

/// Parts of the model whose times are remembered; the one measured longest ago makes room.
const PARTS_MAX: usize = 8;

/// Weight of a new measurement in the mean.
const NEWEST: f64 = 0.25;

/// What was measured, and when somebody decoded last.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    decoded: Option<Instant>,
    parts: Vec<Times>,
}

#[derive(Debug)]
struct Times {
    part: ModelPart,
    /// Seconds of a decode pass.
    decode: Option<f64>,
    /// Seconds of one row of prefill.
    row: Option<f64>,
}

impl Pace {
    /// A pass for decode steps over `part` was done at `now`.
    pub(crate) fn decoded(&mut self, part: ModelPart, took: Duration, now: Instant) {
        self.decoded = Some(now);
        mean(&mut self.times(part).decode, took.as_secs_f64());
    }

    /// A piece of `rows` rows was computed.
    pub(crate) fn prefilled(&mut self, part: ModelPart, rows: usize, took: Duration) {
        if rows > 0 {
            mean(&mut self.times(part).row, took.as_secs_f64() / rows as f64);
        }
    }

    /// How long a decode pass over `part` takes; nothing is known before the first one.
    pub(crate) fn decode_time(&self, part: ModelPart) -> Option<Duration> {
        let times = self.parts.iter().find(|times| times.part == part)?;
        // A mean of times is one; should it ever not be, it is as good as unknown.
        Duration::try_from_secs_f64(times.decode?).ok()
    }

    /// Rows of the next piece over `part`.
    pub(crate) fn piece_rows(&self, part: ModelPart, now: Instant) -> usize {
        let lingers = |at: Instant| now.saturating_duration_since(at) < DECODE_LINGERS;
        if !self.decoded.is_some_and(lingers) {
            return PIECE_ROWS_MAX;
        }
        let times = self.parts.iter().find(|times| times.part == part);
        // Whoever decodes may do so over another part; a pass over this one stands for it.
        match times.and_then(|times| times.decode.zip(times.row)) {
            // The quotient of two times is no more than a number of rows; a strange one is clamped.
            Some((decode, row)) => ((decode / row) as usize).clamp(PIECE_ROWS_MIN, PIECE_ROWS_MAX),
            None => PIECE_ROWS_MIN,
        }
    }

    fn times(&mut self, part: ModelPart) -> &mut Times {
        let times = match self.parts.iter().position(|times| times.part == part) {
            Some(index) => self.parts.remove(index),
            None => Times { part, decode: None, row: None },
        };
        if self.parts.len() == PARTS_MAX {
            self.parts.remove(0);
        }
        self.parts.push(times);
        self.parts.last_mut().expect("it was pushed just now")
    }
}

fn mean(value: &mut Option<f64>, newest: f64) {
    *value = Some(value.map_or(newest, |mean| mean + NEWEST * (newest - mean)));
}

#[cfg(test)]
mod tests {
    use nook_base::{LayerRange, clock};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn part(layers: u32) -> ModelPart {
        ModelPart::inner(LayerRange::with_len(1, layers))
    }

    #[test]
    fn alone_a_piece_is_large_and_beside_decode_it_takes_as_long_as_decode() {
        let (mut pace, start) = (Pace::default(), clock::now());
        assert_eq!(pace.piece_rows(part(4), start), PIECE_ROWS_MAX);
        pace.decoded(part(4), 60 * MS, start);
        assert_eq!(pace.piece_rows(part(4), start), PIECE_ROWS_MIN, "nothing is known yet");
        pace.prefilled(part(4), 16, 32 * MS);
        assert_eq!(pace.piece_rows(part(4), start + 900 * MS), 30);
        assert_eq!(pace.piece_rows(part(4), start + 1000 * MS), PIECE_ROWS_MAX);
        assert_eq!(pace.piece_rows(part(9), start), PIECE_ROWS_MIN);
    }

    #[test]
    fn strange_times_stay_within_bounds() {
        let (mut pace, start) = (Pace::default(), clock::now());
        let check = |pace: &Pace, rows| assert_eq!(pace.piece_rows(part(1), start), rows);
        pace.decoded(part(1), Duration::ZERO, start);
        pace.prefilled(part(1), 16, Duration::ZERO);
        check(&pace, PIECE_ROWS_MIN);
        pace.prefilled(part(1), 0, MS);
        pace.decoded(part(1), 3600 * 1000 * MS, start);
        check(&pace, PIECE_ROWS_MAX);
    }

    #[test]
    fn the_newest_parts_are_remembered() {
        let (mut pace, start) = (Pace::default(), clock::now());
        for layers in 1..=9 {
            pace.decoded(part(layers), 40 * MS, start);
            pace.prefilled(part(layers), 1, MS);
        }
        assert_eq!(pace.parts.len(), PARTS_MAX);
        assert_eq!(pace.piece_rows(part(1), start), PIECE_ROWS_MIN);
        assert_eq!(pace.piece_rows(part(9), start), 40);
    }
}
