//! How fast replies of several devices were, beside what their asker does alone.
//!
//! After each reply that others helped with, its asker makes the same one alone. What it does alone
//! is the median of such replies around that moment, because the machine is shared and noisy. A
//! reply that was slower than [`SLOW`] of that either was foretold to be, or is told one by one.

use std::collections::BTreeMap;
use std::time::Instant;

use nook_api::views::PredictedView;
use nook_testkit::Told;
use serde::Serialize;

/// A reply of several devices at less than this part of the speed of one counts as slow.
pub(crate) const SLOW: f64 = 0.9;

/// Shortest reply whose speed says anything, in tokens.
const TOKENS_MIN: usize = 12;

/// Replies alone whose median counts, the nearest ones in time.
const NEAREST: usize = 5;

/// The speed of one reply of several devices, and of the same one alone right behind it.
#[derive(Debug, Clone)]
pub(crate) struct Speed {
    pub(crate) asker: usize,
    pub(crate) at: Instant,
    /// Tokens a second after the first.
    pub(crate) together: f64,
    /// The same alone; absent where that reply failed.
    pub(crate) alone: Option<f64>,
    pub(crate) predicted: Option<PredictedView>,
    /// Devices that were lost, or whose layers another one took.
    pub(crate) lost: usize,
    /// Devices that were late.
    pub(crate) late: usize,
}

/// What is told of all of them.
#[derive(Debug, Default, Serialize, PartialEq)]
pub(crate) struct Speeds {
    /// Replies that were compared.
    pub(crate) compared: usize,
    /// Median of their speed in parts of that alone.
    pub(crate) median: Option<f64>,
    /// Those that were slower than [`SLOW`] of alone.
    pub(crate) slow: usize,
    /// Why some of those were foretold to be.
    pub(crate) foretold: BTreeMap<&'static str, u32>,
    /// The others, each with what is known of it.
    pub(crate) unforeseen: Vec<String>,
}

impl Speed {
    /// Of a reply that several devices have made to its end; none where it was too short.
    pub(crate) fn of(told: &Told, (asker, at): (usize, Instant)) -> Option<Self> {
        let is_long = told.ids.len() >= TOKENS_MIN;
        (is_long && told.tokens_per_second > 0.0).then(|| Self {
            asker,
            at,
            together: told.tokens_per_second,
            alone: None,
            predicted: told.predicted,
            lost: told.lost.len() + told.failovers.len() + usize::from(told.fell_back),
            late: told.late.len(),
        })
    }

    /// Why it was known before that it would be slow; absent where it was not.
    fn foretold(&self) -> Option<&'static str> {
        if self.lost > 0 {
            return Some("a helper was lost");
        }
        let predicted = self.predicted?;
        match (predicted.alone, predicted.together) {
            (None, Some(_)) => Some("it cannot be made alone"),
            (Some(alone), Some(together))
                if together.tokens_per_second < alone.tokens_per_second * SLOW =>
            {
                Some("so it was predicted")
            }
            _ => None,
        }
    }

    /// What is known of a reply that nobody foretold to be slow.
    fn told(&self, alone: f64) -> String {
        let speed = |of: Option<f64>| of.map_or("nothing".to_owned(), |it| format!("{it:.1}"));
        let of = |which: fn(PredictedView) -> Option<f64>| speed(self.predicted.and_then(which));
        let predicted_alone = of(|it| it.alone.map(|it| it.tokens_per_second));
        let predicted_together = of(|it| it.together.map(|it| it.tokens_per_second));
        let why = match (self.late, self.predicted) {
            (0, None) => "nothing was predicted",
            (0, Some(_)) => "the prediction was wrong",
            _ => "a helper was late",
        };
        format!(
            "{:.1} tokens/s, {alone:.1} alone; predicted {predicted_together} together and \
             {predicted_alone} alone: {why}",
            self.together
        )
    }
}

impl Speeds {
    /// Compares all.
    pub(crate) fn of<'a>(all: impl Iterator<Item = &'a Speed>) -> Self {
        let all: Vec<&Speed> = all.collect();
        let (mut speeds, mut ratios) = (Self::default(), Vec::new());
        for speed in &all {
            let Some(alone) = alone_around(speed, &all) else { continue };
            let ratio = speed.together / alone;
            ratios.push(ratio);
            if ratio >= SLOW {
                continue;
            }
            speeds.slow += 1;
            match speed.foretold() {
                Some(why) => *speeds.foretold.entry(why).or_default() += 1,
                None => speeds.unforeseen.push(speed.told(alone)),
            }
        }
        speeds.compared = ratios.len();
        speeds.median = median(ratios);
        speeds
    }
}

/// What the asker of `speed` does alone around that moment.
fn alone_around(speed: &Speed, all: &[&Speed]) -> Option<f64> {
    let distance = |it: &Speed| {
        let since = it.at.saturating_duration_since(speed.at);
        since.max(speed.at.saturating_duration_since(it.at))
    };
    let mut near: Vec<_> = all.iter().filter(|it| it.asker == speed.asker).collect();
    near.sort_by_key(|it| distance(it));
    median(near.into_iter().filter_map(|it| it.alone).take(NEAREST).collect())
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nook_api::views::PredictionView;
    use nook_base::clock;

    use super::*;

    fn predicted(alone: Option<f64>, together: f64) -> Option<PredictedView> {
        let view = |tokens_per_second| PredictionView {
            first_token_ms: 1.0,
            load_ms: 0.0,
            tokens_per_second,
            total_ms: 1.0,
            measured: true,
        };
        Some(PredictedView { alone: alone.map(view), together: Some(view(together)) })
    }

    #[test]
    fn slow_replies_are_foretold_or_told_one_by_one() {
        let now = clock::now();
        let speed = |seconds, together, alone| Speed {
            asker: 0,
            at: now + Duration::from_secs(seconds),
            together,
            alone,
            predicted: predicted(Some(10.0), 12.0),
            lost: 0,
            late: 0,
        };
        let fast = speed(0, 9.1, Some(10.0));
        let wrong = speed(1, 8.0, Some(10.0));
        let lost = Speed { lost: 1, ..speed(2, 1.0, Some(10.0)) };
        let only_way = Speed { predicted: predicted(None, 3.0), ..speed(3, 3.0, Some(10.0)) };
        let said = Speed { predicted: predicted(Some(10.0), 8.0), ..speed(4, 8.0, None) };
        // Another device is as fast as it is.
        let other = Speed { asker: 1, ..speed(5, 5.0, Some(5.0)) };
        let all = [fast, wrong, lost, only_way, said, other];
        let speeds = Speeds::of(all.iter());
        assert_eq!((speeds.compared, speeds.slow), (6, 4));
        let foretold: Vec<_> = speeds.foretold.into_iter().collect();
        let each = ["a helper was lost", "it cannot be made alone", "so it was predicted"];
        assert_eq!(foretold, each.map(|why| (why, 1)));
        let told = "8.0 tokens/s, 10.0 alone; predicted 12.0 together and 10.0 alone: the prediction \
                    was wrong";
        assert_eq!(speeds.unforeseen, [told]);
    }

    #[test]
    fn alone_is_what_the_device_did_around_that_moment() {
        let now = clock::now();
        // The machine becomes half as fast after ten replies.
        let speed = |number: u64| Speed {
            asker: 0,
            at: now + Duration::from_secs(number),
            together: if number < 10 { 10.0 } else { 5.0 },
            alone: Some(if number < 10 { 10.0 } else { 5.0 }),
            predicted: None,
            lost: 0,
            late: 0,
        };
        let all: Vec<_> = (0..20).map(speed).collect();
        let speeds = Speeds::of(all.iter());
        assert_eq!((speeds.compared, speeds.slow, speeds.median), (20, 0, Some(1.0)));
    }
}
