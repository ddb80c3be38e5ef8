//! How replies are made where a person chooses it: whether a model thinks first, and how freely it
//! chooses its words.

use serde::{Deserialize, Serialize};

/// The highest temperature that a person may choose.
pub const TEMPERATURE_MAX: f64 = 2.0;

/// Whether models think aloud before they answer in this device's chats; one that cannot does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub enum ThinkingChoice {
    /// As each does unasked.
    Usual,
    /// Not where it can be switched off.
    Off,
    /// Also where it must be switched on.
    On,
}

impl ThinkingChoice {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Usual, Self::Off, Self::On];

    /// Its word, in settings and wherever it is kept.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::Off => "off",
            Self::On => "on",
        }
    }

    /// The one that a word means.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.word() == word)
    }
}

/// What was chosen for the replies of one conversation; what is absent is as the settings say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct ReplyChoices {
    /// Whether the model thinks aloud before it answers.
    pub thinking: Option<ThinkingChoice>,
    /// The temperature, from 0 (always the likeliest token) to [`TEMPERATURE_MAX`].
    pub temperature: Option<f32>,
}

impl ReplyChoices {
    /// Whether the figures are in their ranges.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let range = 0.0..=TEMPERATURE_MAX;
        self.temperature.is_none_or(|temperature| range.contains(&f64::from(temperature)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temperature_outside_its_range_is_not_sound() {
        let of = |temperature| ReplyChoices { temperature, thinking: None }.is_sound();
        for sound in [None, Some(0.0), Some(0.7), Some(2.0)] {
            assert!(of(sound), "{sound:?}");
        }
        for bad in [-0.1, 2.1, f32::NAN, f32::INFINITY] {
            assert!(!of(Some(bad)), "{bad}");
        }
    }
}
