//! What a sampler may be asked for, and what it then does: raw wishes, checked settings.

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

/// What a client or a settings file asks for; absent fields mean the defaults of
/// [`SamplerSettings::new`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RawSamplerSettings {
    /// 0 (greedy) to [`TEMPERATURE_MAX`]; default 0.8.
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
    /// How many of the last tokens count as lately; default 64.
    pub repetition_window: Option<u32>,
    /// Taken off a token's logit for each time that the reply already has it, as OpenAI defines it;
    /// default 0.
    pub frequency_penalty: Option<f32>,
    /// Taken off a token's logit once the reply has it; default 0.
    pub presence_penalty: Option<f32>,
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
    /// Checks `raw` and fills in llama.cpp's defaults. The seed is the caller's: nothing here makes
    /// chance.
    pub fn new(raw: RawSamplerSettings, seed: u64) -> Result<Self, SamplerSettingsError> {
        let unit = "from 0 to 1";
        let temperature = raw.temperature.unwrap_or(0.8);
        let penalty = raw.repetition_penalty.unwrap_or(1.0);
        let repetition_window = raw.repetition_window.unwrap_or(64);
        if repetition_window > WINDOW_MAX {
            return Err(SamplerSettingsError {
                field: "repetition_window",
                allowed: "at most 1048576",
                value: f64::from(repetition_window),
            });
        }
        Ok(Self {
            temperature: within("temperature", "from 0 to 10", temperature, 0.0, TEMPERATURE_MAX)?,
            top_k: raw.top_k.unwrap_or(40),
            top_p: within("top_p", unit, raw.top_p.unwrap_or(0.95), 0.0, 1.0)?,
            min_p: within("min_p", unit, raw.min_p.unwrap_or(0.05), 0.0, 1.0)?,
            repetition_penalty: within(
                "repetition_penalty",
                "from 0.1 to 10",
                penalty,
                1.0 / PENALTY_MAX,
                PENALTY_MAX,
            )?,
            repetition_window,
            frequency_penalty: count_penalty("frequency_penalty", raw.frequency_penalty)?,
            presence_penalty: count_penalty("presence_penalty", raw.presence_penalty)?,
            seed,
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

    /// What would be asked for to get these settings, with the seed.
    #[must_use]
    pub fn raw(&self) -> (RawSamplerSettings, u64) {
        let raw = RawSamplerSettings {
            temperature: Some(self.temperature),
            top_k: Some(self.top_k),
            top_p: Some(self.top_p),
            min_p: Some(self.min_p),
            repetition_penalty: Some(self.repetition_penalty),
            repetition_window: Some(self.repetition_window),
            frequency_penalty: Some(self.frequency_penalty),
            presence_penalty: Some(self.presence_penalty),
        };
        (raw, self.seed)
    }

    /// Whether chance plays no part.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }
}

fn count_penalty(field: &'static str, wish: Option<f32>) -> Result<f32, SamplerSettingsError> {
    within(field, "from -2 to 2", wish.unwrap_or(0.0), -COUNT_PENALTY_MAX, COUNT_PENALTY_MAX)
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
