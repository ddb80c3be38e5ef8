//! What the privacy meter found of one model, as it is kept and shown.

use serde::{Deserialize, Serialize};

use crate::ActivationDtype;

/// The figures of one measurement: what four known attacks read at the place (a cut and a format)
/// where most was read behind the first layer. Numbers only: nothing of a text, and no path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct PrivacyFigures {
    /// When it was measured, in seconds since 1970.
    pub measured_at: u64,
    /// Tokens of a public text that were attacked.
    pub tokens: u32,
    /// Tokens among which each attack had to find the right one.
    pub candidates: u32,
    /// Layers before the place.
    pub layers_before: u32,
    /// The format that the activations were written in.
    pub format: ActivationDtype,
    /// Share of the tokens that the nearest embedding read, from 0 to 1.
    pub nearest: f64,
    /// The same for a linear map that was learnt on another text.
    pub probe: f64,
    /// The same for the model's own last step, applied early.
    pub lens: f64,
    /// The same for computing each token that it could have been with the model file.
    pub replay: f64,
    /// Share of places at which the last step also told the token that the model would write next.
    pub next: f64,
}

impl PrivacyFigures {
    /// The largest share that one attack read.
    #[must_use]
    pub fn most(&self) -> f64 {
        [self.nearest, self.probe, self.lens, self.replay].into_iter().fold(0.0, f64::max)
    }

    /// Whether they can be figures of a measurement: shares are shares, and something was attacked.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let shares = [self.nearest, self.probe, self.lens, self.replay, self.next];
        let are_shares = shares.iter().all(|share| (0.0..=1.0).contains(share));
        are_shares && self.tokens > 0 && self.candidates > 0 && self.layers_before > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: PrivacyFigures = PrivacyFigures {
        measured_at: 1,
        tokens: 64,
        candidates: 2048,
        layers_before: 1,
        format: ActivationDtype::F16,
        nearest: 0.1,
        probe: 0.8,
        lens: 0.2,
        replay: 0.7,
        next: 1.0,
    };

    #[test]
    fn the_most_is_that_of_one_attack_and_what_is_said_next_is_none() {
        assert_eq!(FIGURES.most(), 0.8);
    }

    #[test]
    fn what_cannot_have_been_measured_is_not_sound() {
        assert!(FIGURES.is_sound());
        for other in [
            PrivacyFigures { probe: 1.01, ..FIGURES },
            PrivacyFigures { replay: f64::NAN, ..FIGURES },
            PrivacyFigures { lens: -0.1, ..FIGURES },
            PrivacyFigures { next: 2.0, ..FIGURES },
            PrivacyFigures { tokens: 0, ..FIGURES },
            PrivacyFigures { candidates: 0, ..FIGURES },
            PrivacyFigures { layers_before: 0, ..FIGURES },
        ] {
            assert!(!other.is_sound(), "{other:?}");
        }
    }
}
