//! What a leaving host remembers, while it is on its way through this device to the next host.
//!
//! The pipeline decides ([`nook_pipeline::Event::KvCacheOffered`] and what follows); here are the
//! bytes, and how long moving them would take. They are as sensitive as activations: they are never
//! looked at, go only over calls that the gate has let this device open, and are forgotten with the
//! reply at the latest.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use nook_base::{LayerRange, ModelPart, PeerId, Sensitive};
use nook_model::ModelFile;
use nook_pipeline::{AttemptId, Event, KvMigration, PrefixHash};
use nook_plan::Place;
use nook_wire::KvPieceHead;

use nook_resources::estimates::Facts;

/// Most bytes of one reply that are held here on their way; what is larger is computed again.
const HANDOVER_BYTES_MAX: u64 = 256 << 20;

/// What a way is taken to carry, in bytes per second, before any larger transfer was seen: a bad
/// Wi-Fi.
const ASSUMED_BYTES_PER_SECOND: u64 = 5_000_000;

/// Longest that giving may be expected to take: a host that leaves does not wait longer.
const GIVING_MAX: Duration = Duration::from_millis(500);

/// What is remembered of a position takes how much, and the ways carry what.
#[derive(Debug, Clone)]
pub(crate) struct CacheCosts {
    file: ModelFile,
    /// What is not measured is not in it.
    bandwidth: HashMap<PeerId, u64>,
}

/// The hand-overs of one reply.
#[derive(Debug)]
pub(crate) struct Handovers {
    costs: CacheCosts,
    /// Every call, however it ended: a reply has few.
    calls: HashMap<AttemptId, (Place, ModelPart)>,
    /// What came, by the call that it came on.
    came: HashMap<AttemptId, Vec<Piece>>,
}

/// A piece of what a host remembers.
pub(crate) type Piece = (KvPieceHead, Sensitive<Bytes>);

/// Pieces as they come in on one call.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    pieces: Vec<Piece>,
    bytes: u64,
}

impl Incoming {
    /// Whether the piece that `head` announces may come now; else why not.
    pub(crate) fn expects(&self, head: &KvPieceHead) -> Result<(), &'static str> {
        let before = self.pieces.last().map(|(before, _)| before);
        let begins = before.map_or(Some(0), KvPieceHead::end);
        let is_same = before.is_none_or(|before| {
            (before.position, before.mark) == (head.position, head.mark) && !before.is_last()
        });
        if head.end().is_none() || begins != Some(head.first) || !is_same {
            return Err("what it remembers came in pieces that do not follow each other");
        }
        if self.bytes.saturating_add(head.bytes) > HANDOVER_BYTES_MAX {
            return Err("what it remembers is more than may pass through here");
        }
        Ok(())
    }

    /// Adds a piece; all of them once it was the last.
    pub(crate) fn take(&mut self, head: KvPieceHead, bytes: Bytes) -> Option<Vec<Piece>> {
        self.bytes = self.bytes.saturating_add(head.bytes);
        self.pieces.push((head, Sensitive(bytes)));
        head.is_last().then(|| std::mem::take(self).pieces)
    }
}

impl CacheCosts {
    /// Of a model, by what was measured.
    pub(crate) fn of(file: ModelFile, facts: &Facts) -> Self {
        let known = |(peer, link): (&PeerId, &nook_plan::Link)| {
            link.bandwidth.measured().map(|rate| (*peer, rate.0))
        };
        Self { file, bandwidth: facts.links.iter().filter_map(known).collect() }
    }

    /// How long what `layers` remember of so many positions takes to come from `peer`.
    fn takes(&self, peer: PeerId, layers: LayerRange, positions: u32) -> Option<Duration> {
        let bytes = self.file.cache_bytes(layers, positions);
        if bytes > HANDOVER_BYTES_MAX {
            return None;
        }
        let rate = self.bandwidth.get(&peer).copied().unwrap_or(ASSUMED_BYTES_PER_SECOND);
        let takes = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        (takes <= GIVING_MAX).then_some(takes)
    }
}

impl Handovers {
    pub(crate) fn new(costs: CacheCosts) -> Self {
        Self { costs, calls: HashMap::new(), came: HashMap::new() }
    }

    /// A call is opened.
    pub(crate) fn opened(&mut self, attempt: AttemptId, place: Place, part: ModelPart) {
        self.calls.insert(attempt, (place, part));
    }

    /// How long the host of a call, which leaves, would take to hand over so many positions, and
    /// another to take them; `None` where it cannot, or not in the time that it has.
    pub(crate) fn offer(&self, attempt: AttemptId, positions: usize) -> Option<Duration> {
        let (Place::Peer(peer), part) = *self.calls.get(&attempt)? else { return None };
        let positions = u32::try_from(positions).ok()?;
        let takes = self.costs.takes(peer, part.layers, positions);
        // The same bytes go on to somebody who is not known yet.
        takes.map(|takes| takes * 2)
    }

    /// All that the host of a call remembers came.
    pub(crate) fn came(&mut self, attempt: AttemptId, pieces: Vec<Piece>) -> Event {
        let last = pieces.last().map(|(head, _)| (head.position, head.mark));
        let (position, mark) = last.unwrap_or((0, PrefixHash::EMPTY));
        self.came.insert(attempt, pieces);
        Event::KvCacheReceived { attempt, position, mark }
    }

    /// What came on the call `from`, for the host of `attempt`. The bytes are shared, not copied.
    pub(crate) fn pieces_for(&self, attempt: AttemptId, from: AttemptId) -> Option<Vec<Piece>> {
        self.came.get(&from).filter(|_| self.calls.contains_key(&attempt)).cloned()
    }

    /// What came on the call `from` is not needed any more.
    pub(crate) fn forget(&mut self, from: AttemptId) {
        self.came.remove(&from);
    }
}

/// Says in the log, and counts, how a hand-over goes. Names and times only.
pub(crate) fn note(from: &str, layers: LayerRange, news: KvMigration) {
    let outcome = match news {
        KvMigration::Chosen { transfer, replay, is_cheaper } => {
            let replay = replay.map_or_else(
                || "would begin before them".to_owned(),
                |replay| format!("takes {replay:.1?}"),
            );
            let choice = if is_cheaper { "moved" } else { "computed again" };
            tracing::info!(
                "{from} leaves: what its layers {layers} remember is {choice}; moving it takes \
                 {transfer:.1?}, computing it again {replay}"
            );
            return;
        }
        KvMigration::Moved { position } => {
            tracing::info!("what {from} remembered of {position} positions goes on elsewhere");
            "moved"
        }
        KvMigration::GivenUp => {
            tracing::info!("what {from} remembered did not come over: it is computed again");
            "given up"
        }
    };
    metrics::counter!("distributed_inference_handovers_total", "outcome" => outcome).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(first: u32, count: u32, mark: u8) -> KvPieceHead {
        let mark = PrefixHash([mark; 16]);
        KvPieceHead { first, count, bytes: 60 << 20, position: 300, mark }
    }

    #[test]
    fn pieces_follow_each_other_and_are_no_more_than_the_limit() {
        let mut incoming = Incoming::default();
        assert!(incoming.expects(&head(100, 100, 1)).is_err(), "the beginning is missing");
        for first in [0, 100, 200] {
            assert_eq!(incoming.expects(&head(first, 100, 1)), Ok(()));
            assert!(incoming.expects(&head(first + 1, 99, 1)).is_err(), "a gap");
            assert!(incoming.expects(&head(first, 301, 1)).is_err(), "beyond the end");
            let is_other = first > 0 && incoming.expects(&head(first, 100, 2)).is_err();
            assert!(first == 0 || is_other, "another history");
            let whole = incoming.take(head(first, 100, 1), Bytes::new());
            assert_eq!(whole.map(|pieces| pieces.len()), (first == 200).then_some(3));
        }
        // Five pieces of 60 MiB are more than 256.
        let taken = (0..6).take_while(|at| {
            let next = head(at * 10, 10, 1);
            incoming.expects(&next).is_ok() && incoming.take(next, Bytes::new()).is_none()
        });
        assert_eq!(taken.count(), 4);
    }
}
