//! Layers that other devices asked this one to hold.
//!
//! A grant becomes a lease and a task that loads layer by layer ([`LeaseJob`]), so that whoever
//! computes meanwhile waits for one layer at most. A lease ends when its layers were not used for
//! as long as the owner set, when the owner wants the machine or its memory back, when the device
//! is trusted no more, or when other layers are needed more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use nook_base::limits::WISH_EVERY;
use nook_base::{ErrorCode, LayerRange, ModelDigest, PeerId};
use nook_trust::Admitted;
use nook_trust::purpose::Lend;
use nook_wire::{PlaceState, Placed, PlacementRequest};
use tokio_util::sync::CancellationToken;

use super::lent::{hull, without};
use nook_resources::file_place::FilePlace;

/// Leases at once; a wish beyond them is refused as busy.
pub(crate) const LEASES_MAX: usize = 64;

/// What others asked for, by model and device.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    pub(crate) leases: BTreeMap<(ModelDigest, PeerId), Lease>,
    /// Layers whose leases ended and whose memory is to be freed once no conversation is held; few,
    /// because each model has one entry.
    pub(crate) owed: BTreeMap<ModelDigest, LayerRange>,
    /// Those of them that a task frees, and what ends it; it is cancelled too once they are free.
    pub(crate) freeing: BTreeMap<ModelDigest, (LayerRange, CancellationToken)>,
    numbers: u64,
}

#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) layers: LayerRange,
    pub(crate) state: PlaceState,
    /// When it was asked for.
    since: Instant,
    /// When a conversation of any device with this model was last seen.
    pub(crate) used: Instant,
    /// Ends the loading.
    pub(crate) cut: CancellationToken,
    pub(crate) number: u64,
}

/// How a loading goes on, or how it came to its end. The state machine alone tells the device, so
/// that what it says of a lease that is over is its last word about it.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub(crate) peer: PeerId,
    pub(crate) model: ModelDigest,
    /// Of the lease.
    pub(crate) number: u64,
    pub(crate) state: PlaceState,
}

/// Everything that the task of one lease needs. The gate's proof goes with it: nothing is loaded
/// for anybody without one (I-1).
#[derive(Debug)]
pub struct LeaseJob {
    pub(crate) admitted: Admitted<Lend>,
    pub(crate) wish: PlacementRequest,
    /// Of the lease.
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) path: FilePlace,
    /// Layers of ended leases; freed before anything is loaded.
    pub(crate) free_first: Vec<LayerRange>,
}

impl Leases {
    /// What was asked for of `model`, by everybody but `but`.
    pub(crate) fn asked(&self, model: ModelDigest, but: Option<PeerId>) -> Vec<LayerRange> {
        let of_it = self.leases.iter().filter(|((of, by), _)| *of == model && Some(*by) != but);
        of_it.map(|(_, lease)| lease.layers).collect()
    }

    /// How the lease stands that this wish would only repeat.
    pub(crate) fn repeated(&self, peer: PeerId, wish: PlacementRequest) -> Option<PlaceState> {
        let lease = self.leases.get(&(wish.model, peer))?;
        (lease.layers == wish.layers).then_some(lease.state)
    }

    pub(crate) fn check_rate(
        &self,
        peer: PeerId,
        model: ModelDigest,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        match self.leases.get(&(model, peer)) {
            Some(lease) if now.saturating_duration_since(lease.since) < WISH_EVERY => {
                Err(ErrorCode::RateLimited)
            }
            None if self.leases.len() >= LEASES_MAX => Err(ErrorCode::Busy),
            _ => Ok(()),
        }
    }

    pub(crate) fn add(
        &mut self,
        peer: PeerId,
        (wish, state): (PlacementRequest, PlaceState),
        cut: CancellationToken,
        now: Instant,
    ) -> u64 {
        self.numbers += 1;
        let lease =
            Lease { layers: wish.layers, state, since: now, used: now, cut, number: self.numbers };
        if let Some(before) = self.leases.insert((wish.model, peer), lease) {
            before.cut.cancel();
            self.owe(wish.model, before.layers);
        }
        self.numbers
    }

    /// Ends the leases that `is_over` names; whose they were.
    pub(crate) fn end(
        &mut self,
        is_over: impl Fn(ModelDigest, PeerId, &Lease) -> bool,
    ) -> Vec<(PeerId, Placed)> {
        let over: Vec<(ModelDigest, PeerId)> = self
            .leases
            .iter()
            .filter(|((model, peer), lease)| is_over(*model, *peer, lease))
            .map(|(key, _)| *key)
            .collect();
        let mut ended = Vec::new();
        for (model, peer) in over {
            if let Some(lease) = self.leases.remove(&(model, peer)) {
                lease.cut.cancel();
                self.owe(model, lease.layers);
                let state = PlaceState::Refused { code: ErrorCode::ShardUnavailable };
                ended.push((peer, Placed { model, layers: lease.layers, state }));
            }
        }
        ended
    }

    /// Models of which leases wait for layers that are on their way, and whose those are.
    pub(crate) fn fetching(&self) -> BTreeMap<ModelDigest, BTreeSet<PeerId>> {
        let waits = |lease: &Lease| matches!(lease.state, PlaceState::Fetching { .. });
        let mut fetching = BTreeMap::<_, BTreeSet<PeerId>>::new();
        for ((model, peer), _) in self.leases.iter().filter(|(_, lease)| waits(lease)) {
            fetching.entry(*model).or_default().insert(*peer);
        }
        fetching
    }

    /// Whether anybody asked for layers of `model`.
    pub(crate) fn has(&self, model: ModelDigest) -> bool {
        self.leases.keys().any(|(of, _)| *of == model)
    }

    pub(crate) fn owe(&mut self, model: ModelDigest, layers: LayerRange) {
        let owed = self.owed.entry(model).or_insert(layers);
        *owed = hull(&[*owed, layers]).unwrap_or(layers);
    }

    /// Layers of `model` that are owed and leased to nobody; from now on it is the caller who sees
    /// to them.
    pub(crate) fn take_owed(&mut self, model: ModelDigest) -> Vec<LayerRange> {
        if let Some((layers, freeing)) = self.freeing.remove(&model)
            && !freeing.is_cancelled()
        {
            // Whoever takes them now must not find them freed later.
            freeing.cancel();
            self.owe(model, layers);
        }
        let owed = self.owed.remove(&model);
        owed.map_or_else(Vec::new, |owed| without(owed, &self.asked(model, None)))
    }
}

#[cfg(test)]
mod tests {
    use nook_base::clock;

    use super::*;

    const MODEL: ModelDigest = ModelDigest([1; 32]);

    const LOADING: PlaceState = PlaceState::Loading { percent: 0 };

    fn range(start: u32, end: u32) -> LayerRange {
        LayerRange::new(start, end).expect("in order")
    }

    #[test]
    fn a_device_changes_its_mind_only_so_often_and_leases_are_bounded() {
        let (mut leases, now) = (Leases::default(), clock::now());
        let wish = |start| PlacementRequest { model: MODEL, layers: range(start, start + 2) };
        let peer = |number: usize| {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&number.to_le_bytes());
            PeerId(id)
        };
        let token = CancellationToken::new;
        leases.add(peer(0), (wish(0), LOADING), token(), now);
        assert_eq!(leases.repeated(peer(0), wish(0)), Some(PlaceState::Loading { percent: 0 }));
        assert_eq!(leases.repeated(peer(0), wish(1)), None);
        let limited = leases.check_rate(peer(0), MODEL, now + WISH_EVERY / 2);
        assert_eq!(limited, Err(ErrorCode::RateLimited));
        assert_eq!(leases.check_rate(peer(0), MODEL, now + WISH_EVERY), Ok(()));
        for number in 1..LEASES_MAX {
            leases.add(peer(number), (wish(0), LOADING), token(), now);
        }
        assert_eq!(leases.check_rate(peer(LEASES_MAX), MODEL, now), Err(ErrorCode::Busy));
        // A new wish of the same device takes the place of its old one, whose layers are owed.
        let cut = token();
        leases.add(peer(0), (wish(3), LOADING), cut.clone(), now);
        assert_eq!((leases.leases.len(), leases.owed[&MODEL]), (LEASES_MAX, range(0, 2)));
        let ended = leases.end(|_, by, _| by == peer(0));
        assert_eq!((ended.len(), leases.owed[&MODEL]), (1, range(0, 5)));
        assert!(cut.is_cancelled(), "its loading ends");
    }

    #[test]
    fn layers_between_those_that_are_owed_stay_with_whoever_leases_them() {
        let (mut leases, now) = (Leases::default(), clock::now());
        let wish = |start, end| PlacementRequest { model: MODEL, layers: range(start, end) };
        let [one, other] = [PeerId([1; 32]), PeerId([2; 32])];
        leases.add(one, (wish(0, 2), LOADING), CancellationToken::new(), now);
        leases.add(other, (wish(3, 5), LOADING), CancellationToken::new(), now);
        leases.add(one, (wish(6, 8), LOADING), CancellationToken::new(), now);
        leases.end(|_, by, _| by == one);
        assert_eq!(leases.take_owed(MODEL), [range(0, 3), range(5, 8)]);
        assert_eq!(leases.take_owed(MODEL), [], "the caller sees to them");
    }

    #[test]
    fn what_a_task_is_still_to_free_is_taken_from_it_and_what_it_has_freed_is_not() {
        let mut leases = Leases::default();
        let until = CancellationToken::new();
        leases.freeing.insert(MODEL, (range(0, 4), until.clone()));
        assert_eq!(leases.take_owed(MODEL), [range(0, 4)]);
        assert!(until.is_cancelled(), "it frees nothing any more");
        leases.freeing.insert(MODEL, (range(0, 4), until));
        assert_eq!(leases.take_owed(MODEL), []);
    }
}
