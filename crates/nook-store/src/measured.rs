//! What was measured of devices and models, for the next start of the node.
//!
//! One file, `measured.json`, private to the owner: speeds, ways, sizes of numbers, who is left out
//! until when, and how much each device helped on each day. Numbers, ids, digests, and names of graphics cards are all that is in it. Everything has the time of its
//! last measurement, and what is older than its life is not handed out again. Nothing here is worth
//! a refusal to start: a file that cannot be read is reported, and the next save replaces it.

use std::net::IpAddr;
use std::path::PathBuf;

use nook_base::{ModelDigest, PeerId};
use serde::{Deserialize, Serialize};

use crate::durable::FileError;
use crate::home::Home;
use crate::json::{self, DocumentError};

const FILE: &str = "measured.json";
const VERSION: u64 = 1;

/// How long the speed of a device, and the way to it, are believed without a new measurement:
/// another network, another driver, another machine under the same name.
pub const SPEED_LIFE_SECONDS: u64 = 7 * 24 * 3600;

/// How long the sizes of a model's numbers are believed. They belong to the file, not to a machine.
pub const GAIN_LIFE_SECONDS: u64 = 90 * 24 * 3600;

/// How long it is believed which of the processor and the GPUs is faster with a model, as long as
/// the driver and this program stay the same.
pub const BACKEND_LIFE_SECONDS: u64 = 90 * 24 * 3600;

/// How long it counts how often a device was left out before.
pub const CONDUCT_LIFE_SECONDS: u64 = 24 * 3600;

/// Most entries of each kind; of more, those measured longest ago are not kept.
pub const MEASURED_MAX: usize = 256;

/// The file of one home.
#[derive(Debug, Clone)]
pub struct MeasuredFile {
    path: PathBuf,
}

/// Everything that is kept. Times are in seconds since 1970, durations in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// How fast devices compute models.
    pub speeds: Vec<MeasuredSpeed>,
    /// How far away devices are.
    pub ways: Vec<MeasuredWay>,
    /// How large the numbers of models are.
    pub norm_bounds: Vec<MeasuredGain>,
    /// Who failed.
    pub conduct: Vec<MeasuredConduct>,
    /// How fast the processor and the GPUs of this device compute the layers of models.
    #[serde(default)]
    pub backends: Vec<MeasuredBackend>,
    /// How much devices computed for this one.
    #[serde(default)]
    pub helped: Vec<MeasuredHelp>,
}

/// How fast one device computes one model; what nobody measured is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredSpeed {
    /// The device; absent for this one.
    #[serde(with = "device")]
    pub device: Option<PeerId>,
    /// The model.
    #[serde(with = "model")]
    pub model: ModelDigest,
    /// One position: fixed, and for each layer.
    pub decode: Option<[u64; 2]>,
    /// Many positions: fixed, and for each layer and position.
    pub prefill: Option<[u64; 2]>,
    /// Weights into memory, in bytes per second.
    pub load: Option<u64>,
    /// Embedding, norm and head for one token.
    pub ends: Option<u64>,
    /// When it was measured last.
    pub at: u64,
}

/// How far away one device is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredWay {
    /// The device.
    #[serde(with = "device")]
    pub device: Option<PeerId>,
    /// Round trip of a small message: mean and deviation.
    pub round_trip: Option<[u64; 2]>,
    /// Large transfers, in bytes per second.
    pub bandwidth: Option<u64>,
    /// Between which addresses: this device's and the other one's.
    #[serde(default)]
    pub ends: Option<[IpAddr; 2]>,
    /// When it was measured last.
    pub at: u64,
}

/// How much larger a span of layers makes its input, in octaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredGain {
    /// The model.
    #[serde(with = "model")]
    pub model: ModelDigest,
    /// First layer, and one past the last.
    pub layers: [u32; 2],
    /// At the first position; absent when it was never seen.
    pub first: Option<GainRange>,
    /// At all others.
    pub others: Option<GainRange>,
    /// When the model was last learned of.
    pub at: u64,
}

/// Least and greatest gain that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GainRange {
    /// Rows that were seen.
    pub rows: u64,
    /// In octaves.
    pub low: f64,
    /// In octaves.
    pub high: f64,
    /// Whether this device computed them.
    pub ours: bool,
}

/// How fast one processor or GPU of this device computes one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredBackend {
    /// The model.
    #[serde(with = "model")]
    pub model: ModelDigest,
    /// Which, with its driver: another one is measured anew.
    pub device: String,
    /// One position: fixed, and for each layer.
    pub decode: [u64; 2],
    /// Many positions: fixed, and for each layer and position.
    pub prefill: [u64; 2],
    /// Layers of the model.
    pub layers: u32,
    /// Those of them before which it cannot be cut; none in what an earlier version wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncuttable: Vec<u32>,
    /// Bytes of its weights.
    pub weight_bytes: u64,
    /// When it was measured.
    pub at: u64,
}

/// How one device behaved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredConduct {
    /// The device.
    #[serde(with = "device")]
    pub device: Option<PeerId>,
    /// How often it was left out since it last saw a reply through.
    pub times: u32,
    /// Until when it is left out; in the past when it is not.
    pub until: u64,
}

/// How much one device computed for this one on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredHelp {
    /// The device.
    #[serde(with = "device")]
    pub device: Option<PeerId>,
    /// Days since 1970-01-01 by the local calendar.
    pub day: u32,
    /// Positions of prompts and replies of this device that went through layers of that one; one
    /// that came twice counts twice.
    pub positions: u64,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u64,
    #[serde(flatten)]
    measured: Measured,
}

impl MeasuredFile {
    /// The file of `home`, which need not exist.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        Self { path: home.file(FILE) }
    }

    /// What still counts at `now`; nothing where there is no file.
    pub fn load(&self, now: u64) -> Result<Measured, DocumentError> {
        let document: Option<Document> = json::load(&self.path, VERSION)?;
        let mut measured = document.map(|document| document.measured).unwrap_or_default();
        // A time that has not come yet is a clock that was set back: as good as now, no better.
        let counts = |at: u64, life: u64| now.saturating_sub(at) < life;
        measured.speeds.retain(|it| counts(it.at, SPEED_LIFE_SECONDS));
        measured.ways.retain(|it| counts(it.at, SPEED_LIFE_SECONDS) && it.device.is_some());
        measured.norm_bounds.retain(|it| counts(it.at, GAIN_LIFE_SECONDS) && it.is_sound());
        measured.backends.retain(|it| counts(it.at, BACKEND_LIFE_SECONDS));
        measured.conduct.retain(|it| counts(it.until, CONDUCT_LIFE_SECONDS) && it.device.is_some());
        measured.helped.retain(|it| it.device.is_some());
        bound(&mut measured);
        Ok(measured)
    }

    /// Replaces the file.
    pub fn save(&self, measured: &Measured) -> Result<(), FileError> {
        let mut measured = measured.clone();
        bound(&mut measured);
        json::save(&self.path, &Document { version: VERSION, measured })
    }
}

impl MeasuredGain {
    fn is_sound(&self) -> bool {
        let is_range = |range: &GainRange| {
            range.low.is_finite() && range.high.is_finite() && range.low <= range.high
        };
        let [start, end] = self.layers;
        start < end && self.first.iter().chain(&self.others).all(is_range)
    }
}

fn bound(measured: &mut Measured) {
    newest(&mut measured.speeds, |it| it.at);
    newest(&mut measured.ways, |it| it.at);
    newest(&mut measured.norm_bounds, |it| it.at);
    newest(&mut measured.conduct, |it| it.until);
    newest(&mut measured.backends, |it| it.at);
    newest(&mut measured.helped, |it| it.day.into());
}

/// The newest [`MEASURED_MAX`] entries, in the order they have.
fn newest<T>(list: &mut Vec<T>, at: impl Fn(&T) -> u64) {
    if list.len() > MEASURED_MAX {
        list.sort_by_key(|entry| std::cmp::Reverse(at(entry)));
        list.truncate(MEASURED_MAX);
    }
}

/// Ids as other files write them.
mod device {
    use nook_base::PeerId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        id: &Option<PeerId>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        id.map(|id| id.to_string()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PeerId>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// Digests as other files write them.
pub(crate) mod model {
    use nook_base::ModelDigest;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(
        digest: &ModelDigest,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(digest)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ModelDigest, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
