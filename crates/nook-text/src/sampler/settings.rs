//! What a sampler may be asked for, and what it then does: parameters as sent, settings as checked.

use serde::{Deserialize, Serialize};

/// Hottest temperature that settings may ask for.
pub const TEMPERATURE_MAX: f32 = 10.0;
/// Strongest repetition penalty, and the reciprocal of the weakest.
pub const PENALTY_MAX: f32 = 10.0;
/// Longest repetition window, in tokens.
pub const WINDOW_MAX: u32 = 1 << 20;

/// Strongest frequency or presence penalty, and the strongest reward.
pub const COUNT_PENALTY_MAX: f32 = 2.0;

/// A setting that is out of range. The client is to blame.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{field} must be {allowed}, not {value}")]
pub struct SamplerSettingsError {
    /// The setting's name, as in [`SamplerSettings`].
    pub field: &'static str,
    /// What is allowed, for a person.
    pub allowed: &'static str,
    /// What was given.
    pub value: f64,
}

/// The sampling parameters of a request: what each front end takes and hands on. Absent fields mean
/// the defaults of [`SamplerSettings::new`], which also checks the ranges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplingParameters {
    /// 0 (greedy: always the likeliest token) to [`TEMPERATURE_MAX`]; default 0.8.
    pub temperature: Option<f32>,
    /// How many of the likeliest tokens stay, 0 for all; default 40.
    pub top_k: Option<u32>,
    /// The likeliest tokens that together have this probability stay, 1 for all; default 0.95.
    pub top_p: Option<f32>,
    /// Tokens with at least this part of the likeliest one's probability stay, 0 for all; default
    /// 0.05.
    pub min_p: Option<f32>,
    /// How much less likely a token becomes that was used lately (Keskar et al., arXiv
    /// 1909.05858), 1 for not at all; default 1.
    pub repetition_penalty: Option<f32>,
    /// How many of the last tokens count as lately, at most [`WINDOW_MAX`]; default 64.
    pub repetition_window: Option<u32>,
    /// Taken off a token's logit for each time that the reply already has it, as OpenAI defines it,
    /// from -[`COUNT_PENALTY_MAX`] to [`COUNT_PENALTY_MAX`]; default 0.
    pub frequency_penalty: Option<f32>,
    /// Taken off a token's logit once the reply has it, in the same range; default 0.
    pub presence_penalty: Option<f32>,
    /// Same seed, same reply; default: what [`SamplerSettings::new`] is given.
    pub seed: Option<u64>,
}

impl SamplingParameters {
    /// Always the likeliest token.
    pub const GREEDY: Self = Self {
        temperature: Some(0.0),
        top_k: None,
        top_p: None,
        min_p: None,
        repetition_penalty: None,
        repetition_window: None,
        frequency_penalty: None,
        presence_penalty: None,
        seed: None,
    };
}

/// How tokens are chosen. Every value is in range: only [`SamplerSettings::new`] makes one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplerSettings {
    pub(super) temperature: f32,
    pub(super) top_k: u32,
    pub(super) top_p: f32,
    pub(super) min_p: f32,
    pub(super) repetition_penalty: f32,
    pub(super) repetition_window: u32,
    pub(super) frequency_penalty: f32,
    pub(super) presence_penalty: f32,
    pub(super) seed: u64,
}

impl SamplerSettings {
    /// Checks `asked` and fills in llama.cpp's defaults. `seed` is taken where none was asked for:
    /// nothing here makes chance.
    pub fn new(asked: SamplingParameters, seed: u64) -> Result<Self, SamplerSettingsError> {
        let unit = "from 0 to 1";
        let temperature = asked.temperature.unwrap_or(0.8);
        let penalty = asked.repetition_penalty.unwrap_or(1.0);
        let repetition_window = asked.repetition_window.unwrap_or(64);
        if repetition_window > WINDOW_MAX {
            return Err(SamplerSettingsError {
                field: "repetition_window",
                allowed: "at most 1048576",
                value: f64::from(repetition_window),
            });
        }
        Ok(Self {
            temperature: within("temperature", "from 0 to 10", temperature, 0.0, TEMPERATURE_MAX)?,
            top_k: asked.top_k.unwrap_or(40),
            top_p: within("top_p", unit, asked.top_p.unwrap_or(0.95), 0.0, 1.0)?,
            min_p: within("min_p", unit, asked.min_p.unwrap_or(0.05), 0.0, 1.0)?,
            repetition_penalty: within(
                "repetition_penalty",
                "from 0.1 to 10",
                penalty,
                1.0 / PENALTY_MAX,
                PENALTY_MAX,
            )?,
            repetition_window,
            frequency_penalty: count_penalty("frequency_penalty", asked.frequency_penalty)?,
            presence_penalty: count_penalty("presence_penalty", asked.presence_penalty)?,
            seed: asked.seed.unwrap_or(seed),
        })
    }

    /// Always the likeliest token.
    #[must_use]
    pub const fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            repetition_window: 0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            seed: 0,
        }
    }

    /// What would be asked for to get these settings: every parameter is there.
    #[must_use]
    pub fn parameters(&self) -> SamplingParameters {
        SamplingParameters {
            temperature: Some(self.temperature),
            top_k: Some(self.top_k),
            top_p: Some(self.top_p),
            min_p: Some(self.min_p),
            repetition_penalty: Some(self.repetition_penalty),
            repetition_window: Some(self.repetition_window),
            frequency_penalty: Some(self.frequency_penalty),
            presence_penalty: Some(self.presence_penalty),
            seed: Some(self.seed),
        }
    }

    /// Whether chance plays no part.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }
}

fn count_penalty(field: &'static str, asked: Option<f32>) -> Result<f32, SamplerSettingsError> {
    within(field, "from -2 to 2", asked.unwrap_or(0.0), -COUNT_PENALTY_MAX, COUNT_PENALTY_MAX)
}

fn within(
    field: &'static str,
    allowed: &'static str,
    value: f32,
    least: f32,
    most: f32,
) -> Result<f32, SamplerSettingsError> {
    // Written so that NaN fails.
    if value >= least && value <= most {
        return Ok(value);
    }
    Err(SamplerSettingsError { field, allowed, value: f64::from(value) })
}
