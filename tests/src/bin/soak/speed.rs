//! How fast replies of several devices were, beside what their asker does alone.
//!
//! Right behind each reply that others helped with, its asker makes the same one alone: the machine
//! is shared and noisy, so only what lies side by side is compared. A reply that took longer than
//! [`SLOW`] allows either was foretold to, or is told one by one.

use std::collections::BTreeMap;

use nook_api::views::{PartView, PredictedView, PredictionView, WorkView};
use nook_testkit::Told;
use serde::Serialize;

/// A reply of several devices at less than this part of the speed of one counts as slow.
pub(crate) const SLOW: f64 = 0.9;

/// Shortest reply whose speed says anything, in tokens.
const TOKENS_MIN: usize = 12;

/// How fast one reply was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// From asking to the last token.
    total_ms: f64,
    /// From asking to the first token.
    first_token_ms: f64,
    /// After the first token.
    tokens_per_second: f64,
}

/// The speed of one reply of several devices, and of the same one alone right behind it.
#[derive(Debug, Clone)]
pub(crate) struct Speed {
    together: Pace,
    /// Absent where the asker could not make the reply alone.
    pub(crate) alone: Option<Pace>,
    predicted: Option<PredictedView>,
    /// Devices that were lost, or whose layers another one took.
    lost: usize,
    /// Devices that were late.
    late: usize,
    /// Devices that were told to have other replies to make too.
    shared: usize,
    /// Positions that were gone on with, and those that were computed.
    gone_on: (u32, u32),
    /// What the others did and were waited for, one after the other.
    waits: String,
    /// What else the machine did.
    pub(crate) meanwhile: Meanwhile,
}

/// What the machine did while a reply was made by several devices, and by one, in words.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meanwhile {
    pub(crate) together: String,
    pub(crate) alone: String,
}

/// What is told of all of them.
#[derive(Debug, Default, Serialize, PartialEq)]
pub(crate) struct Speeds {
    /// Replies that were compared.
    pub(crate) compared: usize,
    /// Median speed of whole replies, in parts of that alone.
    pub(crate) whole: Option<f64>,
    /// The same of their tokens after the first.
    pub(crate) decode: Option<f64>,
    /// Those that were slower than [`SLOW`] of alone.
    pub(crate) slow: usize,
    /// Why some of those were foretold to be.
    pub(crate) foretold: BTreeMap<&'static str, u32>,
    /// The others, each with what is known of it.
    pub(crate) unforeseen: Vec<String>,
    /// How many of those had to share a helper: its owner's house asked it twice at a time, and who
    /// asked first could not know.
    pub(crate) shared: usize,
}

impl Pace {
    /// Of a reply that came to its end; none where it was too short.
    pub(crate) fn of(told: &Told) -> Option<Self> {
        let is_long = told.ids.len() >= TOKENS_MIN && told.tokens_per_second > 0.0;
        let Told { total_ms, first_token_ms, tokens_per_second, .. } = *told;
        is_long.then_some(Self { total_ms, first_token_ms, tokens_per_second })
    }
}

impl Speed {
    /// Of a reply that several devices have made to its end; none where it was too short.
    pub(crate) fn of(told: &Told) -> Option<Self> {
        let lost = told.lost.len() + told.failovers.len() + usize::from(told.fell_back);
        let (predicted, late, shared) = (told.predicted, told.late.len(), told.shared.len());
        let waits = told.timeline.iter().map(wait).collect::<Vec<_>>().join("; ");
        let meanwhile = Meanwhile::default();
        let (together, gone_on) = (Pace::of(told)?, (told.resumed, told.computed));
        Some(Self {
            together,
            alone: None,
            predicted,
            lost,
            late,
            shared,
            gone_on,
            waits,
            meanwhile,
        })
    }

    /// Why its reader was told that it would be slow, before it began or when it came to be so;
    /// absent where nothing was said.
    fn foretold(&self) -> Option<&'static str> {
        if self.lost > 0 {
            return Some("a helper was lost");
        }
        match self.predicted.map(|it| (it.alone, it.together)) {
            Some((None, Some(_))) => Some("it cannot be made alone"),
            Some((Some(alone), Some(together))) if alone.total_ms < together.total_ms * SLOW => {
                Some("so it was predicted")
            }
            _ => (self.shared > 0).then_some("a helper had other replies to make too"),
        }
    }

    /// What is known of a reply that nobody foretold to be slow.
    fn told(&self, alone: Pace) -> String {
        let said = |of: fn(PredictedView) -> Option<PredictionView>| {
            let of = self.predicted.and_then(of);
            of.map_or("nothing".to_owned(), |it| {
                format!("{:.0} ms ({:.1} tokens/s)", it.total_ms, it.tokens_per_second)
            })
        };
        let why = match (self.late, self.predicted) {
            (0, None) => "nothing was predicted",
            (0, Some(_)) => "the prediction was wrong",
            _ => "a helper was late",
        };
        let Self { together, waits, meanwhile, gone_on: (resumed, computed), .. } = self;
        format!(
            "{:.0} ms (first token {:.0} ms, {:.1} tokens/s; {resumed} positions gone on with, \
             {computed} computed), alone {:.0} ms ({:.0}, {:.1}); predicted {} together and {} \
             alone: {why} ({waits}); the machine meanwhile: {}; then, alone: {}",
            together.total_ms,
            together.first_token_ms,
            together.tokens_per_second,
            alone.total_ms,
            alone.first_token_ms,
            alone.tokens_per_second,
            said(|it| it.together),
            said(|it| it.alone),
            meanwhile.together,
            meanwhile.alone,
        )
    }
}

impl Speeds {
    /// Compares all; each with whether one of its helpers helped another asker meanwhile.
    pub(crate) fn of<'a>(all: impl Iterator<Item = (&'a Speed, bool)>) -> Self {
        let mut speeds = Self::default();
        let (mut whole, mut decode) = (Vec::new(), Vec::new());
        for (speed, is_shared) in all {
            let Some(alone) = speed.alone else { continue };
            let ratio = alone.total_ms / speed.together.total_ms;
            whole.push(ratio);
            decode.push(speed.together.tokens_per_second / alone.tokens_per_second);
            if ratio >= SLOW {
                continue;
            }
            speeds.slow += 1;
            match speed.foretold() {
                Some(why) => *speeds.foretold.entry(why).or_default() += 1,
                None => {
                    let told = speed.told(alone);
                    let beside = if is_shared { "a helper had another asker too: " } else { "" };
                    speeds.unforeseen.push(format!("{beside}{told}"));
                    speeds.shared += usize::from(is_shared);
                }
            }
        }
        speeds.compared = whole.len();
        (speeds.whole, speeds.decode) = (median(whole), median(decode));
        speeds
    }
}

/// What one device did: its steps of the prompt and of the reply, in ms of work, queue and way.
fn wait(part: &PartView) -> String {
    let sums = |work: &WorkView| {
        let WorkView { steps, compute_ms, queue_ms, network_ms, .. } = *work;
        format!("{steps} steps {compute_ms:.0}+{queue_ms:.0}+{network_ms:.0}")
    };
    format!("{}: prompt {}, reply {}", part.device, sums(&part.prompt), sums(&part.reply))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(total_ms: f64) -> Pace {
        Pace { total_ms, first_token_ms: 90.0, tokens_per_second: 10.0 }
    }

    fn predicted(alone: Option<f64>, together: f64) -> Option<PredictedView> {
        let view = |total_ms| PredictionView {
            first_token_ms: 1.0,
            load_ms: 0.0,
            tokens_per_second: 10.0,
            total_ms,
            measured: true,
        };
        Some(PredictedView { alone: alone.map(view), together: Some(view(together)) })
    }

    #[test]
    fn slow_replies_are_foretold_or_told_one_by_one() {
        let speed = |together, alone| Speed {
            together: pace(together),
            alone: Some(pace(alone)),
            predicted: predicted(Some(1000.0), 900.0),
            lost: 0,
            late: 0,
            shared: 0,
            gone_on: (7, 9),
            waits: "PC: waited".to_owned(),
            meanwhile: Meanwhile { together: "busy".to_owned(), alone: "idle".to_owned() },
        };
        let fast = speed(1100.0, 1000.0);
        let wrong = speed(1250.0, 1000.0);
        let late = Speed { late: 1, predicted: None, ..speed(2000.0, 1000.0) };
        let lost = Speed { lost: 1, ..speed(9000.0, 1000.0) };
        let only_way = Speed { predicted: predicted(None, 3000.0), ..speed(3000.0, 1000.0) };
        let said = Speed { predicted: predicted(Some(1000.0), 1200.0), ..speed(1200.0, 1000.0) };
        let shared = Speed { shared: 1, ..speed(1300.0, 1000.0) };
        let nothing_beside = Speed { alone: None, ..speed(5000.0, 1.0) };
        let all = [fast, wrong, late, lost, only_way, said, shared, nothing_beside];
        let is_shared = [true, true, false, true, true, true, true, true];
        let speeds = Speeds::of(all.iter().zip(is_shared));
        assert_eq!((speeds.compared, speeds.slow, speeds.decode), (7, 6, Some(1.0)));
        let foretold: Vec<_> = speeds.foretold.into_iter().collect();
        let each = [
            "a helper had other replies to make too",
            "a helper was lost",
            "it cannot be made alone",
            "so it was predicted",
        ];
        assert_eq!(foretold, each.map(|why| (why, 1)));
        let wrong = "1250 ms (first token 90 ms, 10.0 tokens/s; 7 positions gone on with, 9 \
                     computed), alone 1000 ms (90, 10.0); predicted 900 ms (10.0 tokens/s) together and 1000 ms (10.0 tokens/s) alone: the prediction was wrong \
                     (PC: waited); the machine meanwhile: busy; then, alone: idle";
        let late = "2000 ms (first token 90 ms, 10.0 tokens/s; 7 positions gone on with, 9 \
                    computed), alone 1000 ms (90, 10.0); predicted nothing together and nothing alone: a helper was late (PC: waited); the \
                    machine meanwhile: busy; then, alone: idle";
        let shared = format!("a helper had another asker too: {wrong}");
        assert_eq!(speeds.unforeseen, [shared.as_str(), late]);
        assert_eq!(speeds.shared, 1);
    }
}
