//! What happened between the devices of a reply, for programs that want to know.
//!
//! A stream tells it as comments, which every client ignores; with `"inglenook": true` in the request it is
//! told as objects instead, and each answer says at its end who computed it. Names of devices and times,
//! nothing of what was said.

use nook_api::views::{FailoverView, LegView, PredictionView, ReplySummary, ShardState};
use schemars::JsonSchema;
use serde::Serialize;

/// Something that happened between devices.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Happened {
    /// A device of the reply is late, has other replies to make too, is lost, there again, or
    /// waited for because nobody can go on without it.
    ShardStatus {
        device: String,
        /// `online`, `degraded`, `shared`, `lost` or `awaited`.
        status: &'static str,
    },
    /// Another device took over.
    ShardFailover(HandOver),
    /// The asking device computes the missing layers itself.
    FallbackToLocal,
    /// The end: who computed the reply.
    Done(Computed),
}

/// A hand-over inside a reply.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct HandOver {
    /// The device that was lost.
    pub(crate) from: String,
    /// Who computes instead.
    pub(crate) to: String,
    /// How long the reply stood still, in milliseconds.
    pub(crate) pause_ms: f64,
    /// Tokens that were there before.
    pub(crate) after_tokens: u32,
}

/// Who computed a reply, and how fast.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Computed {
    /// In the order in which a token goes through them. The first and the last are the asking device, but for
    /// a reply that another device of the same person made whole: that is one part.
    pub(crate) route: Vec<Part>,
    pub(crate) failovers: Vec<HandOver>,
    /// From asking to the first token, in milliseconds.
    pub(crate) first_token_ms: f64,
    pub(crate) tokens_per_second: f64,
    /// What was predicted before it began, in tokens per second: on the asking device alone; null where it
    /// cannot make the reply alone, or nothing was predicted.
    pub(crate) predicted_alone: Option<f64>,
    /// The same with other devices, whether they were used or not; null where none could help.
    pub(crate) predicted_together: Option<f64>,
    /// Devices that had other replies to make at the same time: this one took turns with them.
    pub(crate) shared: Vec<String>,
}

/// What one device computed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "RoutePart")] // in the schema, parts of messages stand beside it
pub(crate) struct Part {
    pub(crate) device: String,
    /// First and last layer; null where it has an end of the model alone.
    pub(crate) layers: Option<[u32; 2]>,
}

impl Happened {
    pub(crate) fn status(device: String, status: ShardState) -> Self {
        let status = match status {
            ShardState::Online => "online",
            ShardState::Degraded => "degraded",
            ShardState::Shared => "shared",
            ShardState::Lost => "lost",
            ShardState::Awaited => "awaited",
        };
        Self::ShardStatus { device, status }
    }

    /// For people who read the stream.
    pub(crate) fn comment(&self) -> Option<String> {
        match self {
            Self::ShardStatus { device, status } => {
                Some(format!("shard_status {device}: {status}"))
            }
            Self::ShardFailover(HandOver { from, to, pause_ms, .. }) => {
                Some(format!("shard_failover {from} to {to} after {pause_ms:.0} ms"))
            }
            Self::FallbackToLocal => Some("fallback_to_local".to_owned()),
            Self::Done(_) => None,
        }
    }
}

impl From<FailoverView> for HandOver {
    fn from(view: FailoverView) -> Self {
        let FailoverView { from, to, pause_ms, after_tokens } = view;
        Self { from, to, pause_ms, after_tokens }
    }
}

impl From<&ReplySummary> for Computed {
    fn from(summary: &ReplySummary) -> Self {
        let part = |leg: &LegView| Part { device: leg.device.clone(), layers: leg.layers };
        let speed = |prediction: PredictionView| prediction.tokens_per_second;
        let predicted = summary.predicted;
        Self {
            route: summary.route.legs.iter().map(part).collect(),
            failovers: summary.failovers.iter().cloned().map(HandOver::from).collect(),
            first_token_ms: summary.first_token_ms,
            tokens_per_second: summary.tokens_per_second,
            predicted_alone: predicted.and_then(|it| it.alone).map(speed),
            predicted_together: predicted.and_then(|it| it.together).map(speed),
            shared: summary.shared.clone(),
        }
    }
}
