//! What was sent at each place in each way, what was read of it, and what that says of the attacks
//! themselves.

use nook_base::ActivationDtype;

use crate::sent::{Content, Sent};
use crate::view::{Control, Controls, CutView, FormatView, Recovered};

/// What must be read from the embedding itself, or the attacks do not work.
const POSITIVE_MIN: f64 = 0.99;

/// What may be read from random numbers by chance. Some tokens are frequent, so it is not zero.
const NEGATIVE_MAX: f64 = 0.1;

/// The same at a single place. Where few tokens are attacked, an attack that always says the same one
/// is right about one of them.
const NEGATIVE_PLACE_MAX: f64 = 0.3;

/// What was sent at one cut in one way, and what was read of it.
pub(crate) struct Trial {
    pub(crate) cut: usize,
    pub(crate) sent: Sent,
    pub(crate) recovered: Recovered,
    pub(crate) next: f64,
}

/// The trials of one measurement, place by place, and what was too large to be sent.
#[derive(Default)]
pub(crate) struct Trials {
    pub(crate) done: Vec<Trial>,
    pub(crate) too_large: Vec<(usize, Sent)>,
}

impl Trials {
    /// What was read at each place, given by the layers `before` it.
    pub(crate) fn cut_views(&self, before: &[u32]) -> Vec<CutView> {
        let views = before.iter().enumerate().map(|(cut, layers_before)| {
            let plain = |sent: &Sent| sent.content == Content::Plain;
            let here = self.done.iter().filter(|it| it.cut == cut && plain(&it.sent));
            let too_large = self.too_large.iter().filter(|(at, sent)| *at == cut && plain(sent));
            CutView {
                layers_before: *layers_before,
                formats: here
                    .map(|it| FormatView {
                        format: it.sent.format,
                        recovered: it.recovered,
                        next: it.next,
                    })
                    .collect(),
                too_large_for: too_large.map(|(_, sent)| sent.format).collect(),
            }
        });
        views.collect()
    }

    /// Whether the attacks work, and find nothing where there is nothing.
    pub(crate) fn controls(&self) -> Controls {
        let plain = Sent { format: ActivationDtype::F32, content: Content::Plain };
        let embedding = self.done.iter().find(|trial| trial.cut == 0 && trial.sent == plain);
        let mut read = embedding.map_or_else(Recovered::default, |trial| trial.recovered);
        // Replay goes through all the layers: where it read less at one place, something is broken.
        for trial in self.done.iter().filter(|trial| trial.sent == plain) {
            read.replay = read.replay.min(trial.recovered.replay);
        }
        let is_random = |trial: &&Trial| matches!(trial.sent.content, Content::Random(_));
        let random: Vec<&Trial> = self.done.iter().filter(is_random).collect();
        let mean = |of: &dyn Fn(&Trial) -> bool| {
            let of: Vec<_> = random.iter().filter(|it| of(it)).map(|it| it.recovered).collect();
            Recovered::mean(&of)
        };
        let by_chance = mean(&|_| true);
        // One place that is broken must not hide among the others.
        let at_worst = random.iter().map(|it| mean(&|other| other.cut == it.cut).highest().1);
        let at_worst = at_worst.fold(0.0, f64::max);
        Controls {
            positive: Control {
                recovered: read,
                limit: POSITIVE_MIN,
                passed: read.nearest.min(read.replay) >= POSITIVE_MIN,
            },
            negative: Control {
                recovered: by_chance,
                limit: NEGATIVE_MAX,
                passed: by_chance.highest().1 <= NEGATIVE_MAX && at_worst <= NEGATIVE_PLACE_MAX,
            },
        }
    }
}

/// The share of `right` that was guessed.
pub(crate) fn share(guesses: &[Option<u32>], right: impl Iterator<Item = Option<u32>>) -> f64 {
    let same = guesses.iter().zip(right).filter(|(guess, right)| **guess == *right).count();
    same as f64 / guesses.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_fail_where_an_attack_does_not_work_or_reads_from_nothing() {
        let trial = |cut, content, replay| Trial {
            cut,
            sent: Sent { format: ActivationDtype::F32, content },
            recovered: Recovered { nearest: replay, replay, ..Recovered::default() },
            next: 0.0,
        };
        let of = |positive, inner, negative| {
            let done = vec![
                trial(0, Content::Plain, positive),
                trial(1, Content::Plain, inner),
                trial(0, Content::Random(0), 0.0),
                trial(1, Content::Random(0), negative),
            ];
            let controls = Trials { done, ..Trials::default() }.controls();
            (controls.positive.passed, controls.negative.passed)
        };
        assert_eq!(of(1.0, 1.0, 0.04), (true, true));
        assert_eq!(of(0.9, 1.0, 0.04), (false, true));
        assert_eq!(of(1.0, 0.9, 0.04), (false, true), "replay broke behind the embedding");
        assert_eq!(of(1.0, 1.0, 0.3), (true, false));
    }
}
