//! Asking a host to hold layers before anybody computes with them.
//!
//! A requester that sees how its household could be faster says [`PlacementRequest`] on the
//! connection; the host decides by its own limits and answers [`Placed`], again and again while it
//! loads. Neither carries more than a model's digest, a range and a code. What a host then holds is
//! in its adverts, and those alone decide who is asked to compute.

use nook_base::{ErrorCode, LayerRange, ModelDigest};
use serde::{Deserialize, Serialize};

/// Please hold these layers in memory. A later wish for the same model replaces the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementRequest {
    /// The model.
    pub model: ModelDigest,
    /// The layers; none: what was asked for before is not needed any more, which is not answered.
    pub layers: LayerRange,
}

/// What became of a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The model.
    pub model: ModelDigest,
    /// The layers that were asked for.
    pub layers: LayerRange,
    /// How they stand now.
    pub state: PlaceState,
}

/// How layers that were asked for stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlaceState {
    /// They are being read into memory.
    Loading {
        /// How much of them is, 0 to 100. More, as a peer may say, counts as 100.
        percent: u8,
    },
    /// They are in memory.
    Held,
    /// They are not, or not any more, and why; the sentence is that of the code.
    Refused {
        /// Why.
        code: ErrorCode,
    },
    /// Their weights are on the way to the device, which is to hold them when they have come.
    Fetching {
        /// How much of them has come, 0 to 100. More, as a peer may say, counts as 100.
        percent: u8,
    },
}
