//! The parameters that every kind of request may hold, checked once.
//!
//! Unknown fields are ignored, as clients expect. A known field that would change the reply and is
//! not supported is refused by name: never silently dropped.

use axum::http::StatusCode;
use nook_api::views::HouseholdView;
use nook_api::{Sampling, SamplingParameters};
use nook_base::Sensitive;
use nook_text::ReplyShape;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::ApiError;

/// Most stop strings. OpenAI takes 4, programs that complete code send dozens; a reply looks for
/// [`nook_text`]'s 80, of which a template needs a few.
const STOPS_MAX: usize = 64;

/// Name that stands for whatever model is here.
const DEFAULT_MODEL: &str = "default";

/// Strings that end the reply.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string, an array of strings or null")]
pub(crate) enum Stop {
    One(String),
    Several(Vec<String>),
}

/// What a stream brings besides the reply.
#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct StreamOptions {
    /// One more chunk at the end, without choices, with the usage.
    #[serde(default)]
    pub(crate) include_usage: bool,
}

/// Settings of a reply as sent.
#[derive(Debug, Default)]
pub(crate) struct SentSampling {
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) top_k: Option<i64>,
    pub(crate) min_p: Option<f64>,
    pub(crate) repetition_penalty: Option<f64>,
    pub(crate) seed: Option<i64>,
    pub(crate) frequency_penalty: Option<f64>,
    pub(crate) presence_penalty: Option<f64>,
    pub(crate) logit_bias: Option<Map<String, Value>>,
    pub(crate) alternatives: Option<usize>,
    pub(crate) shape: Option<ReplyShape>,
}

impl SentSampling {
    /// The house computes with 32 bits; what does not fit is refused here, ranges by the house.
    pub(crate) fn sampling(self) -> Result<Sampling, ApiError> {
        let parameters = SamplingParameters {
            temperature: narrow("temperature", self.temperature)?,
            top_k: top_k(self.top_k)?,
            top_p: narrow("top_p", self.top_p)?,
            min_p: narrow("min_p", self.min_p)?,
            repetition_penalty: narrow("repetition_penalty", self.repetition_penalty)?,
            // OpenAI's seeds are signed; only equality matters.
            seed: self.seed.map(i64::cast_unsigned),
            frequency_penalty: within_two("frequency_penalty", self.frequency_penalty)?,
            presence_penalty: within_two("presence_penalty", self.presence_penalty)?,
            repetition_window: None,
        };
        Ok(Sampling {
            parameters,
            biases: Sensitive(biases(self.logit_bias.unwrap_or_default())?),
            alternatives: self.alternatives,
            shape: self.shape,
        })
    }
}

/// 0 and -1 both stand for all of them.
fn top_k(sent: Option<i64>) -> Result<Option<u32>, ApiError> {
    match sent {
        Some(-1) => Ok(Some(0)),
        Some(..-1) => Err(ApiError::bad("top_k", "top_k is -1, 0 or a number of tokens.")),
        sent => Ok(sent.map(|count| u32::try_from(count).unwrap_or(u32::MAX))),
    }
}

fn narrow(param: &'static str, sent: Option<f64>) -> Result<Option<f32>, ApiError> {
    let Some(sent) = sent else { return Ok(None) };
    #[expect(clippy::cast_possible_truncation, reason = "what became infinite is refused below")]
    let narrowed = sent as f32;
    if narrowed.is_finite() {
        return Ok(Some(narrowed));
    }
    Err(ApiError::bad(param, format!("{param} must be an ordinary number, not {sent:e}.")))
}

fn within_two(param: &'static str, sent: Option<f64>) -> Result<Option<f32>, ApiError> {
    match narrow(param, sent)? {
        Some(value) if value.abs() > 2.0 => {
            Err(ApiError::bad(param, format!("{param} must be from -2 to 2, not {value}.")))
        }
        value => Ok(value),
    }
}

fn biases(sent: Map<String, Value>) -> Result<Vec<(u32, f32)>, ApiError> {
    let one = |(id, value): (String, Value)| {
        let id: Option<u32> = id.parse().ok();
        let value = value.as_f64().filter(|value| (-100.0..=100.0).contains(value));
        #[expect(clippy::cast_possible_truncation, reason = "it is from -100 to 100")]
        match (id, value) {
            (Some(id), Some(value)) => Ok((id, value as f32)),
            _ => Err(ApiError::bad(
                "logit_bias",
                "logit_bias maps token ids, as strings, to numbers from -100 to 100.",
            )),
        }
    };
    sent.into_iter().map(one).collect()
}

/// The stop strings, checked.
pub(crate) fn stops(param: &str, sent: Option<Stop>) -> Result<Vec<String>, ApiError> {
    let stops = match sent {
        None => Vec::new(),
        Some(Stop::One(text)) => vec![text],
        Some(Stop::Several(texts)) => texts,
    };
    if stops.len() > STOPS_MAX {
        return Err(ApiError::bad(param, format!("At most {STOPS_MAX} stop strings.")));
    }
    if stops.iter().any(String::is_empty) {
        return Err(ApiError::bad(param, "A stop string may not be empty."));
    }
    Ok(stops)
}

/// Most tokens of the reply. More than any window holds is as many as fit, and so is -1.
pub(crate) fn tokens_max(param: &str, sent: Option<i64>) -> Result<Option<u32>, ApiError> {
    match sent {
        Some(-1) => Ok(None),
        Some(..=0) => Err(ApiError::bad(param, format!("{param} must be at least 1."))),
        sent => Ok(sent.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX))),
    }
}

/// The first complaint whose condition holds.
pub(crate) fn refuse(complaints: &[(bool, &str, &str)]) -> Result<(), ApiError> {
    match complaints.iter().find(|(wrong, ..)| *wrong) {
        Some((_, param, why)) => Err(ApiError::bad(*param, format!("{param} {why}"))),
        None => Ok(()),
    }
}

/// An empty or default name stands for the model that a person would get who has chosen none.
pub(crate) fn model_name(sent: Option<String>, house: &HouseholdView) -> Result<String, ApiError> {
    if let Some(name) = sent.filter(|name| !name.is_empty() && name != DEFAULT_MODEL) {
        return Ok(name);
    }
    let usual = house.default_model.clone();
    usual.ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, "There is no model here yet."))
}
