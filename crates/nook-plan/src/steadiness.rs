//! When a better placement is worth moving layers for.
//!
//! Figures wobble, and a move costs gigabytes and every conversation whose cache lies at the old
//! cut. So the owner looks again and again and moves only when the gain was large several times in
//! a row. When the present placement no longer works at all, there is nothing to wait for.

use std::time::Duration;

/// The least predicted gain that counts.
pub const MOVE_GAIN_MIN_PERCENT: u32 = 15;

/// How many looks in a row must show it.
pub const LOOKS_IN_A_ROW: u32 = 3;

/// What one look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The usual reply over the present placement; `None` when it does not work any more.
    pub now: Option<Duration>,
    /// The usual reply over the proposed one.
    pub then: Duration,
    /// What the move costs once: loading, and reading conversations again.
    pub moving: Duration,
    /// Replies over which that must pay.
    pub replies_ahead: u32,
}

/// What to do after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Leave everything where it is.
    Stay,
    /// Move to what was proposed.
    Move,
}

/// Counts looks. One for each model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Steadiness {
    looks: u32,
}

impl Steadiness {
    /// Takes in one look. After a move, counting begins anew.
    pub fn look(&mut self, look: &Look) -> Verdict {
        let Some(now) = look.now else {
            self.looks = 0;
            return Verdict::Move;
        };
        self.looks = if is_worth_it(now, look) { self.looks + 1 } else { 0 };
        if self.looks < LOOKS_IN_A_ROW {
            return Verdict::Stay;
        }
        self.looks = 0;
        Verdict::Move
    }
}

/// Whether the same work is done more than 15 % faster, and the move pays within the replies ahead.
fn is_worth_it(now: Duration, look: &Look) -> bool {
    let is_large =
        now.as_nanos() * 100 > look.then.as_nanos() * u128::from(100 + MOVE_GAIN_MIN_PERCENT);
    let gain = now.saturating_sub(look.then).as_nanos() * u128::from(look.replies_ahead);
    is_large && gain > look.moving.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Looks with these times of the present placement against 10 s; `M` for a move, `-` for none.
    fn verdicts(now: &[u64], moving: u32) -> String {
        let mut steadiness = Steadiness::default();
        let mut verdict = |now: &u64| {
            let now = (*now > 0).then(|| Duration::from_millis(*now));
            let (then, moving) = (10 * SECOND, moving * SECOND);
            match steadiness.look(&Look { now, then, moving, replies_ahead: 20 }) {
                Verdict::Stay => '-',
                Verdict::Move => 'M',
            }
        };
        now.iter().map(&mut verdict).collect()
    }

    #[test]
    fn only_a_large_gain_three_times_in_a_row_moves_anything() {
        assert_eq!(verdicts(&[11_501, 11_501, 11_501], 0), "--M");
        assert_eq!(verdicts(&[11_500, 11_500, 11_500, 11_500], 0), "----");
        assert_eq!(verdicts(&[20_000, 20_000, 11_000, 20_000, 20_000, 20_000], 0), "-----M");
        assert_eq!(verdicts(&[20_000; 7], 0), "--M--M-");
    }

    #[test]
    fn a_move_must_pay_within_the_replies_ahead() {
        assert_eq!(verdicts(&[12_000; 3], 39), "--M");
        assert_eq!(verdicts(&[12_000; 3], 40), "---");
    }

    #[test]
    fn what_no_longer_works_is_left_at_once() {
        assert_eq!(verdicts(&[12_000, 0, 12_000, 12_000, 12_000], 0), "-M--M");
    }
}
