//! What one prompt's walk is allowed: sizes, chances and deadlines.
//!
//! The node fills [`PipelineSettings`] from its configuration and the model's header; the pipeline
//! only reads them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nook_base::limits::CHUNK_BYTES;
use nook_base::{ActivationDtype, LayerRange, PeerId, Sensitive};

use crate::forecast::Forecast;
use crate::norm_bounds::NormBounds;
use crate::prefix_cache::Resume;

/// Steps of prefill that one segment may have under way: the second travels while the first is
/// computed. Decode has one by its nature.
pub const PREFILL_WINDOW: usize = 2;

/// Chunks that a segment may have waiting for it before the segment in front pauses. It keeps a
/// fast device from computing a long prompt that is then cancelled.
pub const QUEUED_CHUNKS_MAX: u32 = 4;

/// Bytes of activations kept for replay, over all segments of one prompt: 8,192 positions of a
/// 4,096 wide model in f16 at 16 boundaries. Beyond it a segment forgets what it has consumed, and
/// a failure there is repaired from the nearest earlier segment that still has everything.
pub const REPLAY_LOG_BYTES_MAX: usize = 1 << 30;

/// Longest wait for the token that is under way when a reply is stopped. If it comes, every host is
/// between two steps and can keep the conversation; if not, the calls are broken off.
pub const STOP_LIMIT: Duration = Duration::from_secs(1);

/// What to do about layers that no other device can compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FallBack {
    /// Compute them here.
    Allow,
    /// End with `shard_unavailable` or `pipeline_stalled`.
    Refuse,
}

/// Everything a [`crate::Pipeline`] needs to know besides its route.
#[derive(Debug, Clone)]
pub struct PipelineSettings {
    /// Width of the hidden state, in numbers.
    pub hidden: u32,
    /// How activations are written between segments.
    pub dtype: ActivationDtype,
    /// Most positions in one step; at least 1 is used.
    pub prefill_chunk: u32,
    /// Steps under way per segment; at least 1 is used. Usually [`PREFILL_WINDOW`].
    pub prefill_window: usize,
    /// Longest history, prompt and reply together, in positions.
    pub positions_max: u32,
    /// Failures of other devices after which this device is preferred
    /// (`fallback_to_local_after_failures`).
    pub failovers_max: u32,
    /// Whether this device may stand in (`fallback_to_local`).
    pub fall_back: FallBack,
    /// Layers besides those of its route that this device has memory for: it stands in for no more.
    pub room_here: u32,
    /// Layers whose weights this device has: it stands in for no others.
    pub weights_here: Vec<LayerRange>,
    /// How long to wait for what.
    pub deadlines: Deadlines,
    /// What earlier walks over this model have shown about the size of its numbers.
    pub norm_bounds: Arc<NormBounds>,
    /// What each device is expected to take; empty when nothing was measured.
    pub forecast: Arc<Forecast>,
    /// How much is computed twice to catch what no cheap check can.
    pub spot_check: SpotCheck,
    /// Usually [`REPLAY_LOG_BYTES_MAX`].
    pub replay_log_bytes_max: usize,
    /// Secret of this conversation; keys the history marks. A prompt that resumes goes on with the
    /// one of the entry instead.
    pub history_key: Sensitive<[u8; 32]>,
    /// Where to go on, when the route is the one that an entry names; else everything is computed.
    pub resume: Option<Resume>,
    /// Devices that can hand a result to, or take one from, another of them; whether two of them
    /// are linked they say when they are asked. Empty: every result comes here.
    pub forward: BTreeSet<PeerId>,
}

/// What another device, or this one, computes a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpotCheck {
    /// Chance of each chunk of prefill, in millionths; 0 checks none.
    pub share_ppm: u32,
    /// Chance of each step of decode that what its host answered up to it is checked, in
    /// millionths; 0 checks none.
    pub decode_ppm: u32,
    /// Drawn anew for every prompt; what is checked depends on it alone, so nobody can foresee it.
    pub random: u64,
    /// Whether the first token waits.
    pub first_words: FirstWords,
}

/// When the first token of a reply may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstWords {
    /// As soon as there is one.
    AtOnce,
    /// Once all that other devices answered of the prompt was computed twice. What nobody can
    /// compute again is not waited for.
    Checked,
}

impl SpotCheck {
    /// Nothing is computed twice.
    pub const OFF: Self =
        Self { share_ppm: 0, decode_ppm: 0, random: 0, first_words: FirstWords::AtOnce };
}

/// How long each kind of wait may take before a segment is suspected. Each miss doubles the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Another device accepts a call; it may have to read layers from disk.
    pub open: Duration,
    /// The same of a device of which it is known how long that takes; the reading comes on top.
    pub open_measured: Duration,
    /// A worker here accepts a call; it may have to load a whole model.
    pub open_local: Duration,
    /// Added to the first step of a call: first use of a device's memory and kernels.
    pub first_step: Duration,
    /// The same of a device that was measured before: its kernels have run.
    pub first_step_measured: Duration,
    /// Prefill, for each position of the step, before anything was measured.
    pub prefill_position: Duration,
    /// Least for a step of prefill, whatever was measured.
    pub prefill_floor: Duration,
    /// Least for a step of one position, whatever was measured.
    pub decode_floor: Duration,
    /// Most for a warm step of one position, unless the device has shown to be slower.
    pub decode_ceiling: Duration,
    /// Our own worker gets this many times longer: nobody else could be asked, and its death is
    /// noticed without a deadline.
    pub local_patience: u32,
    /// Bytes of a step, or of its answer, in one piece. While pieces move, a wait begins anew, but
    /// no oftener than there are pieces of this size: who splits an answer finer is not waited for
    /// longer.
    pub piece_bytes: usize,
    /// A device says whether it can hand its results to another; it asks that one first.
    pub forward: Duration,
    /// The node answers a wish for offers from a table in memory.
    pub offers: Duration,
    /// How long a reply that has begun waits for a device without which nobody can go on; computers
    /// of a household sleep, restart and come back.
    pub absence: Duration,
    /// Time between two looks for it.
    pub absence_look: Duration,
}

impl Deadlines {
    /// The figures that the product uses.
    #[must_use]
    pub fn usual() -> Self {
        Self {
            open: Duration::from_secs(30),
            open_measured: Duration::from_secs(5),
            open_local: Duration::from_secs(300),
            first_step: Duration::from_secs(10),
            first_step_measured: Duration::from_secs(3),
            prefill_position: Duration::from_millis(100),
            prefill_floor: Duration::from_secs(2),
            decode_floor: Duration::from_millis(500),
            decode_ceiling: Duration::from_secs(5),
            local_patience: 10,
            piece_bytes: CHUNK_BYTES,
            forward: Duration::from_secs(3),
            offers: Duration::from_secs(1),
            absence: Duration::from_secs(300),
            absence_look: Duration::from_secs(2),
        }
    }
}
