//! What a device says of itself on a connection: who it is, and what it hosts.

use nook_base::{LayerRange, ModelDigest};
use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::version::ProtocolRange;

/// Longest app version in HELLO, in bytes; a longer one is cut by the sender, refused by the
/// receiver.
pub const APP_VERSION_BYTES_MAX: usize = 64;

/// Longest device name in HELLO, in bytes: 40 grapheme clusters of generous size. Cut by the
/// sender, refused by the receiver. It is untrusted text; whoever shows it cleans it.
pub const DEVICE_NAME_BYTES_MAX: usize = 512;

/// Most shards in one advert; the sender leaves out the rest, the receiver refuses more.
pub const ADVERT_SHARDS_MAX: usize = 256;

/// Who speaks. Its layout is that of every protocol version: a device reads it before it knows
/// which one the other speaks. What a later version has to say more stands in a message of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Protocol versions spoken.
    pub protocol: ProtocolRange,
    /// Version of the app, for people.
    #[serde(
        serialize_with = "bounded::write_text::<APP_VERSION_BYTES_MAX, _>",
        deserialize_with = "bounded::read_text::<APP_VERSION_BYTES_MAX, _>"
    )]
    pub app_version: String,
    /// Name of the device, untrusted text.
    #[serde(
        serialize_with = "bounded::write_text::<DEVICE_NAME_BYTES_MAX, _>",
        deserialize_with = "bounded::read_text::<DEVICE_NAME_BYTES_MAX, _>"
    )]
    pub device_name: String,
    /// Port on which it accepts links; 0 when it accepts none.
    pub listen_port: u16,
}

/// What a host holds and has room for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advert {
    /// Whether it lends anything now.
    pub sharing: bool,
    /// What it can compute.
    #[serde(
        serialize_with = "bounded::write_list::<ADVERT_SHARDS_MAX, _, _>",
        deserialize_with = "bounded::read_list::<ADVERT_SHARDS_MAX, _, _>"
    )]
    pub shards: Vec<ShardAdvert>,
    /// Sessions it would still accept.
    pub streams_free: u16,
    /// Sessions of guests that are open: a further one's steps take turns with theirs. Not the
    /// steps that wait at one moment: those are none between two of them, and a session that goes
    /// on comes back with the next.
    pub queue_depth: u16,
    /// Memory it would still spend, in bytes.
    pub memory_free_bytes: u64,
    /// Disk space that it would still spend, in bytes, on layers which the receiver asks it to hold
    /// and which it has to fetch before: from the receiver or from others. 0: it fetches none.
    pub fetch_bytes: u64,
}

/// A part of one model on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardAdvert {
    /// The model.
    pub model: ModelDigest,
    /// Layers it can compute.
    pub layers: LayerRange,
    /// Those of them that are in memory already.
    pub held: LayerRange,
    /// Measured decode time of one layer, in µs; `None`: not measured.
    pub decode_us_per_layer: Option<u32>,
    /// Measured prefill time of one layer and token, in µs; `None`: not measured.
    pub prefill_us_per_layer_token: Option<u32>,
}
