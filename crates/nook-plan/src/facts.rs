//! What the planner is told: the model, the request, this device and the others.
//!
//! The node fills these from its catalogue, its estimates ([`crate::SpeedEstimate`],
//! [`crate::LinkEstimate`]) and the adverts of connected devices; the planner only reads them.
//! Every field is a fact or an explicit [`Figure::Unknown`](crate::Figure::Unknown); none has a
//! default that flatters a device.

use std::time::Duration;

use nook_base::limits::{HOPS_MAX, PREFILL_CHUNK_TOKENS};
use nook_base::{LayerRange, PeerId};

use crate::link::Link;
use crate::reason::Out;
use crate::route::Place;
use crate::speed::Speed;

/// What one model asks of whoever computes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCosts {
    /// Transformer layers.
    pub layers: u32,
    /// Bytes of one layer's weights in memory, as the loader counts them; of the largest layer.
    pub layer_bytes: u64,
    /// Bytes of KV cache for one position of one layer.
    pub kv_bytes: u64,
    /// Bytes of embedding, norm and head in memory.
    pub ends_bytes: u64,
    /// Bytes of one row of activations as it travels: width times bytes of a number.
    pub row_bytes: u64,
    /// Boundaries between layers at which the family cannot be cut (`b` lies before layer `b`).
    pub uncuttable: Vec<u32>,
}

/// What one reply needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Tokens of the rendered prompt, exactly.
    pub prompt: u32,
    /// Tokens that the reply is expected to have: the weight of decode against prefill.
    pub reply: u32,
    /// Positions that the caches must have room for: prompt and the longest reply.
    pub positions: u32,
    /// Positions in one step of prefill.
    pub chunk: u32,
    /// How much stays at this device's two ends.
    pub ends: Ends,
    /// Most calls to other devices.
    pub hops_max: usize,
    /// Whether a device of trust `Own` may be asked to do everything, both ends included.
    pub whole: OffloadPolicy,
}

/// The layers at the two ends of this device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Layers `0..prefix` are computed here, with the embedding.
    pub prefix: u32,
    /// The last `suffix` layers are computed here, with norm and head.
    pub suffix: u32,
    /// Whether the planner may keep more here than that.
    pub width: Width,
}

/// Whether this device may compute more than its two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// As many layers as pays, in the middle too.
    Free,
    /// Wider ends, but nothing between two other devices.
    EndsOnly,
    /// Exactly the two ends: the shape is the owner's choice.
    Fixed,
}

/// Whether *whole-request on one device* is a shape that may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadPolicy {
    /// Only where the asked device is the requester's own.
    OnOwnDevices,
    /// Never.
    Refused,
}

/// Whose a device is, as the gate knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// Trust level `Own`: the same person's.
    Me,
    /// Anybody else's.
    Another,
}

/// Whether a device takes part at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It may be asked.
    Ready,
    /// It may not, and why.
    Out(Out),
}

/// A stretch of layers whose cache already holds the beginning of this conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cached {
    /// The layers, exactly as they were opened: a part of them is not resumed.
    pub layers: LayerRange,
    /// Positions of this prompt that are there.
    pub positions: u32,
}

/// One device, this one included, as far as it matters for one model.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// Which.
    pub place: Place,
    /// Whether it may be asked.
    pub standing: Standing,
    /// Whose it is.
    pub owner: Owner,
    /// Layers that it would compute, held or to be loaded; empty when it has another file.
    pub computes: Vec<LayerRange>,
    /// Those in memory. What is not costs loading and memory, once.
    pub held: Vec<LayerRange>,
    /// Whether embedding and head are in memory.
    pub ends: EndsHeld,
    /// Caches of this conversation.
    pub cached: Vec<Cached>,
    /// Memory that it would still spend, in bytes, as its own admission counts.
    pub memory_free: u64,
    /// Calls that it would accept now.
    pub streams_free: u16,
    /// Sessions of others that are open there, each of which has a step under way or soon.
    pub queue_depth: u16,
    /// Measured wait before a step, where there is a fresh figure; it then stands for the queue.
    pub wait: Option<Duration>,
    /// How fast it is with this model.
    pub speed: Speed,
    /// The way to it; not looked at for this device.
    pub link: Link,
    /// Devices to which it is known to hand its results, without the way over this device.
    pub hands_to: Vec<PeerId>,
}

/// Whether embedding, norm and head are in a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndsHeld {
    /// They are.
    InMemory,
    /// They would have to be loaded.
    ToLoad,
}

/// Everything that one plan is made of.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The model.
    pub model: &'a ModelCosts,
    /// The request.
    pub request: &'a Request,
    /// This device; its place is [`Place::Local`].
    pub here: &'a Device,
    /// The others, in any order, each once.
    pub others: &'a [Device],
}

impl ModelCosts {
    /// Whether the model may be cut before `layer`. Its two ends always may.
    #[must_use]
    pub fn may_cut(&self, layer: u32) -> bool {
        layer == 0 || layer >= self.layers || !self.uncuttable.contains(&layer)
    }
}

impl Request {
    /// A request with the usual chunk and as many hops as a route may have, one layer at each end.
    #[must_use]
    pub fn usual(prompt: u32, reply: u32) -> Self {
        Self {
            prompt,
            reply,
            positions: prompt.saturating_add(reply),
            chunk: PREFILL_CHUNK_TOKENS,
            ends: Ends { prefix: 1, suffix: 1, width: Width::Free },
            hops_max: HOPS_MAX,
            whole: OffloadPolicy::Refused,
        }
    }
}

impl Device {
    /// The device's id; `None` for this device.
    #[must_use]
    pub fn peer(&self) -> Option<PeerId> {
        match self.place {
            Place::Local => None,
            Place::Peer(peer) => Some(peer),
        }
    }
}
