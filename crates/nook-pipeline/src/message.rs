//! What goes into a pipeline and what comes out of it.
//!
//! An [`Event`] tells what happened; an [`Action`] is something the node must now do. Both are
//! closed lists. Token ids appear in two places only: in [`Event::Begin`] and [`Event::NextToken`],
//! and in [`Action::SendTokens`], which names a [`LocalAttempt`]: by type they cannot go to another
//! device (invariant I-2).

use std::time::Duration;

use nook_base::{
    Activation, ActivationDtype, ErrorCode, LayerRange, LogitRows, ModelPart, PeerId, PrefixHash,
    Sensitive,
};
use nook_plan::{Offer, Place, Segment};

use crate::arrival::Corrupt;

/// One try at one segment: one call. Never used twice within a pipeline, so what still arrives for
/// an old attempt is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub(crate) u64);

impl AttemptId {
    /// The one that a pipeline opens first.
    pub const FIRST: Self = Self(1);
}

/// An attempt that is known to run on this device; the only kind that is handed token ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocalAttempt(AttemptId);

/// Something that happened to a prompt.
#[derive(Debug, Clone)]
pub enum Event {
    /// Start, with the token ids of the whole rendered prompt.
    Begin {
        /// At least one id.
        prompt: Sensitive<Vec<u32>>,
    },
    /// A call was accepted.
    Opened {
        /// Which.
        attempt: AttemptId,
        /// Positions the host already holds; 0 for a new call, else those that `Open` named.
        position: u32,
    },
    /// A piece of a step or of its result has moved; at most as often as a tensor has pieces.
    Progress {
        /// On which call.
        attempt: AttemptId,
    },
    /// A step was computed and activations came back.
    Output {
        /// Which call.
        attempt: AttemptId,
        /// Which step of it.
        step: u64,
        /// First position.
        position: u32,
        /// Positions.
        count: u32,
        /// `count` rows.
        activation: Activation,
        /// Time the host says it computed, in µs.
        compute_us: u32,
        /// Time the host says the step waited there, in µs.
        queue_us: u32,
    },
    /// The segment with the head has computed a step. The logits it was asked for stay with the
    /// node.
    Logits {
        /// Which call.
        attempt: AttemptId,
        /// Which step of it.
        step: u64,
        /// First position of the step.
        position: u32,
        /// Time computed, in µs.
        compute_us: u32,
        /// Time waited, in µs.
        queue_us: u32,
    },
    /// The other side of the call says that it went wrong.
    Failed {
        /// Which call.
        attempt: AttemptId,
        /// Why.
        code: ErrorCode,
        /// Details; shown only when our own worker says it, a device's words are not trusted.
        sentence: String,
    },
    /// The node's own check of a frame says that this is no answer to what was asked.
    Corrupt {
        /// Which call.
        attempt: AttemptId,
        /// What is wrong with it: a sentence without its capital and full stop.
        sentence: String,
    },
    /// The link or the worker behind the call is gone.
    Lost {
        /// Which call.
        attempt: AttemptId,
    },
    /// A host says whether its results go on to the next one, or that this is over.
    Forwarding {
        /// Which call: the one that was asked to, or the one that its results went to.
        attempt: AttemptId,
        /// Why they do not; `None`: from now on they do.
        refused: Option<ErrorCode>,
    },
    /// A result of a host has gone on to the next one.
    Passed {
        /// Which call computed it.
        attempt: AttemptId,
        /// Which step of it.
        step: u64,
        /// Time the host says it computed, in µs.
        compute_us: u32,
        /// Time the host says the step waited there, in µs.
        queue_us: u32,
    },
    /// The host says that it is about to leave: it answers what it has and takes nothing new.
    Draining {
        /// Which call.
        attempt: AttemptId,
    },
    /// A host that leaves would give what it remembers of this conversation; comes before
    /// `Draining`.
    KvCacheOffered {
        /// Which call.
        attempt: AttemptId,
        /// How long that is expected to take, to the node and on to another device.
        takes: Duration,
    },
    /// The answer to [`Action::RequestKvCache`]: the node has them. All that the host has answered
    /// came before.
    KvCacheReceived {
        /// The call of the host that leaves.
        attempt: AttemptId,
        /// Positions that it remembered.
        position: u32,
        /// Their prefix hash.
        mark: PrefixHash,
    },
    /// The answer to [`Action::SendKvCache`]: from now on the host remembers so many positions.
    KvCacheImported {
        /// The call of the host that was given them.
        attempt: AttemptId,
        /// Positions; 0 when it was given nothing.
        position: u32,
    },
    /// The answer to [`Action::Sample`]: the token at the next position.
    NextToken(Sensitive<u32>),
    /// The answer to [`Action::Sample`]: the reply is complete.
    Finish,
    /// The answer to [`Action::WantOffers`]: every fresh offer for this model.
    Offers(Vec<Offer>),
    /// Time has passed; wanted at [`crate::Pipeline::next_deadline`].
    Tick,
    /// The caller does not want the reply any more. While a reply is said, the token that is under
    /// way is still computed, so that hosts can keep the conversation; a second `Cancel` ends at
    /// once.
    Cancel,
}

/// Something the node must do.
#[derive(Debug, Clone)]
pub enum Action {
    /// Open a call; answered by `Opened`, `Failed` or `Lost`.
    Open {
        /// Its name from now on.
        attempt: AttemptId,
        /// Where.
        place: Place,
        /// Which part of the model.
        part: ModelPart,
        /// How activations are written on this call, both ways.
        dtype: ActivationDtype,
        /// Room to reserve, in positions.
        positions_max: u32,
        /// Where to go on, when the host should hold an earlier call of this conversation: after so
        /// many positions, whose mark is this. `Opened` must then name the same position.
        resume: Option<(u32, PrefixHash)>,
    },
    /// Send a step of token ids to our own worker; answered by `Output`, or `Logits` when the part
    /// has the head.
    SendTokens {
        /// Which call.
        attempt: LocalAttempt,
        /// Which step of it, from 0.
        step: u64,
        /// First position; equals the length of the worker's cache.
        position: u32,
        /// One id per position.
        ids: Sensitive<Vec<u32>>,
        /// Prefix hash of the positions before.
        history_before: PrefixHash,
        /// Prefix hash with these positions.
        history_after: PrefixHash,
        /// Logits wanted, when the part has the head.
        rows: LogitRows,
        /// How urgent.
        priority: Priority,
    },
    /// Send a step of activations; answered by `Output`, or `Logits` when the part has the head.
    SendActivation {
        /// Which call.
        attempt: AttemptId,
        /// Which step of it, from 0.
        step: u64,
        /// First position; equals the length of the host's cache.
        position: u32,
        /// One row per position.
        activation: Activation,
        /// Prefix hash of the positions before.
        history_before: PrefixHash,
        /// Prefix hash with these positions.
        history_after: PrefixHash,
        /// Logits wanted, when the part has the head.
        rows: LogitRows,
        /// How urgent.
        priority: Priority,
    },
    /// Ask the host of a call to hand its results to that of another, as steps of the same numbers;
    /// answered by `Forwarding`. Both calls are open and have had no step.
    Forward {
        /// The call whose results go on.
        attempt: AttemptId,
        /// The call that they go to.
        next: AttemptId,
    },
    /// End a call, whether or not the other side still exists. Comes exactly once for every `Open`.
    Close {
        /// Which.
        attempt: AttemptId,
        /// Why.
        reason: CloseReason,
    },
    /// Ask a host that leaves for what it remembers; answered by `KvCacheReceived`, or by `Failed`
    /// or `Lost`.
    RequestKvCache {
        /// The call.
        attempt: AttemptId,
    },
    /// Give a host what another one remembered; answered by `KvCacheImported`. No step is sent
    /// before.
    SendKvCache {
        /// The call of the host that takes.
        attempt: AttemptId,
        /// The call of the host that gave.
        from: AttemptId,
    },
    /// What came from this call is not needed any more.
    DiscardKvCache {
        /// The call of the host that gave.
        from: AttemptId,
    },
    /// Choose the next token from the logits of `position`; answered by `NextToken`, `Finish` or
    /// `Cancel`.
    Sample {
        /// The call that has them.
        attempt: AttemptId,
        /// The last position of the history.
        position: u32,
    },
    /// Tell which devices could compute `layers`; answered by `Offers`.
    WantOffers {
        /// The span in need.
        layers: LayerRange,
        /// Devices that have failed in this prompt: no offer of theirs would be taken.
        failed: Vec<PeerId>,
    },
    /// Tell the user and the counters.
    Report(Report),
    /// The end: it went wrong. Nothing follows.
    Aborted {
        /// Why.
        code: ErrorCode,
        /// For people.
        sentence: String,
        /// What went wrong first, when the end is only a consequence of it.
        first_cause: Option<ErrorCode>,
        /// The layers that nobody computes, and who had them last, where that is why.
        missing: Option<Segment>,
    },
    /// The end, after `Finish`. Nothing follows.
    Done,
}

/// Which queue a step takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Somebody is watching for this token.
    Decode,
    /// Prefill and replay let decode go first.
    Bulk,
}

/// Why a call is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// In order and between two steps: the host may keep the conversation for the next reply.
    Finished,
    /// The caller left.
    Cancelled,
    /// A newer attempt at the same layers takes over; this one did nothing wrong.
    Superseded,
    /// It went wrong; the code says what.
    Failed(ErrorCode),
}

/// What users and counters want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A device's share of this route changed its state.
    ShardStatus {
        /// The device.
        peer: PeerId,
        /// Its layers.
        layers: LayerRange,
        /// The new state.
        state: ShardState,
    },
    /// Others have taken over and caught up.
    ShardFailover {
        /// Who had the layers.
        from: PeerId,
        /// Who has them now, in layer order.
        to: Vec<Place>,
        /// The layers.
        layers: LayerRange,
        /// From the loss, or from when a late device was given its step, to the next token.
        pause: Duration,
    },
    /// What a device answered cannot be right; it was not used.
    ShardSuspect {
        /// The device.
        peer: PeerId,
        /// Its layers.
        layers: LayerRange,
        /// What is wrong with it.
        reason: Corrupt,
    },
    /// Numbers of this model are larger than f16 holds; the rest of the reply uses f32.
    ActivationsWidened,
    /// What a leaving device remembers is given to another, or is not.
    KvMigration {
        /// Who leaves.
        from: PeerId,
        /// Its layers.
        layers: LayerRange,
        /// What was decided, or came of it.
        news: KvMigration,
    },
    /// This device takes over layers of another.
    FallbackToLocal {
        /// The layers.
        layers: LayerRange,
    },
}

/// How a hand-over goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvMigration {
    /// Moving and computing again were compared.
    Chosen {
        /// What moving is expected to take.
        transfer: Duration,
        /// What computing again is expected to take; `None` where it would begin before these
        /// layers.
        replay: Option<Duration>,
        /// Whether moving was chosen.
        is_cheaper: bool,
    },
    /// Another device goes on with what was remembered.
    Moved {
        /// Positions that were not computed again.
        position: u32,
    },
    /// It did not come about; everything is computed again.
    GivenUp,
}

/// How a device does in this route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardState {
    /// It accepted the call.
    Online,
    /// It let a deadline pass, and may still answer.
    Late,
    /// It is busy, slow or leaving.
    Degraded,
    /// It is out of this prompt.
    Lost,
    /// Nobody can go on without it: the reply waits.
    Awaited,
}

impl AttemptId {
    /// A number for logs and maps.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

impl LocalAttempt {
    /// The proof, when `place` is this device.
    pub(crate) fn new(attempt: AttemptId, place: Place) -> Option<Self> {
        match place {
            Place::Local => Some(Self(attempt)),
            Place::Peer(_) => None,
        }
    }

    /// The attempt's id.
    #[must_use]
    pub fn id(self) -> AttemptId {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_ids_cannot_be_addressed_to_another_device() {
        let peer = Place::Peer(PeerId([1; 32]));
        assert_eq!(LocalAttempt::new(AttemptId(1), peer), None);
        assert!(LocalAttempt::new(AttemptId(1), Place::Local).is_some());
    }

    #[test]
    fn debug_output_shows_no_token() {
        let begin = Event::Begin { prompt: Sensitive(vec![424_242]) };
        let next = Event::NextToken(Sensitive(424_242));
        assert!(!format!("{begin:?} {next:?}").contains("424242"));
    }
}
