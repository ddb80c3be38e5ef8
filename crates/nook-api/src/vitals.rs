//! What is under way in a node, as numbers: almost all of them are 0 again once nobody asks for anything.

use serde::{Deserialize, Serialize};

/// What is under way in a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Vitals {
    /// Tasks that run, those of links and doors included.
    pub tasks: usize,
    /// Replies of this device under way.
    pub replies: usize,
    /// Replies that wait for one of those to end.
    pub replies_waiting: usize,
    /// Streams that are lent to other devices.
    pub streams: u16,
    /// Its worker processes.
    pub workers: Vec<WorkerVitals>,
}

/// What is under way in a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct WorkerVitals {
    /// Its process.
    pub pid: u32,
    /// Its model, by its name here.
    #[serde(default)]
    pub model: String,
    /// Conversations, those of other devices included.
    pub sessions: u16,
    /// Conversations of other devices.
    pub guest_sessions: u16,
    /// Conversations that are kept for a later call.
    pub parked: u16,
    /// Bytes of weights.
    pub weight_bytes: u64,
    /// Bytes promised to conversations.
    pub cache_bytes: u64,
    /// Bytes of the conversations that are kept.
    pub parked_bytes: u64,
    /// Where it computes, as the setting `distributed_inference.backend` names it; `auto` while it
    /// has no model.
    pub backend: String,
}
