//! Layers that other devices asked this one to hold.
//!
//! A PLACE is judged here by what the owner allows: sharing, the gate, the layers that the owner
//! named, streams, the cap on lending and the memory of the machine; the worker has the last word.
//! A grant becomes a lease and a task that loads layer by layer, so that whoever computes meanwhile
//! waits for one layer at most. A lease ends when its layers were not used for as long as the owner
//! set, when the owner wants the machine or its memory back, when the device is trusted no more, or
//! when other layers are needed more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nook_base::{ErrorCode, LayerRange, ModelDigest, ModelPart, PeerId, clock};
use nook_plan::{least_covered, most_needed};
use nook_shard::{Worker, WorkerError};
use nook_trust::{Admitted, Purpose};
use nook_wire::{Message, PlaceState, PlaceWish, Placed};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::holdings::OWNERS_MEMORY;
use crate::resources::catalogue::Entry;
use crate::resources::shelf::FilePlace;
use crate::resources::workers::Workers;
use crate::state::{Inside, State};

/// Leases at once; a wish beyond them is refused as busy.
const LEASES_MAX: usize = 64;

/// Least time between two different wishes of one device for one model: loading costs more than
/// asking. One that comes sooner is refused as rate limited.
const WISH_EVERY: Duration = Duration::from_secs(2);

/// Steps in which the progress of a loading is told.
const PERCENT_STEP: u8 = 10;

/// What others asked for, by model and device.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    leases: BTreeMap<(ModelDigest, PeerId), Lease>,
    /// Layers whose leases ended and whose memory is to be freed once no conversation is held; few,
    /// because each model has one entry.
    owed: BTreeMap<ModelDigest, LayerRange>,
    /// Those of them that a task frees, and what ends it; it is cancelled too once they are free.
    freeing: BTreeMap<ModelDigest, (LayerRange, CancellationToken)>,
    numbers: u64,
}

#[derive(Debug)]
struct Lease {
    layers: LayerRange,
    state: PlaceState,
    /// When it was asked for.
    since: Instant,
    /// When a conversation of any device with this model was last seen.
    used: Instant,
    /// Ends the loading.
    cut: CancellationToken,
    number: u64,
}

/// How a loading goes on, or how it came to its end. The house alone tells the device, so that what it says of
/// a lease that is over is its last word about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    peer: PeerId,
    model: ModelDigest,
    number: u64,
    state: PlaceState,
}

/// Everything that the task of one lease needs.
struct Job {
    admitted: Admitted,
    wish: PlaceWish,
    /// Of the lease.
    number: u64,
    name: String,
    path: FilePlace,
    /// Layers of ended leases; freed before anything is loaded.
    free_first: Vec<LayerRange>,
    workers: Workers,
    inside: mpsc::Sender<Inside>,
}

impl Leases {
    /// What was asked for of `model`, by everybody but `but`.
    pub(crate) fn asked(&self, model: ModelDigest, but: Option<PeerId>) -> Vec<LayerRange> {
        let of_it = self.leases.iter().filter(|((of, by), _)| *of == model && Some(*by) != but);
        of_it.map(|(_, lease)| lease.layers).collect()
    }

    /// How the lease stands that this wish would only repeat.
    fn repeated(&self, peer: PeerId, wish: PlaceWish) -> Option<PlaceState> {
        let lease = self.leases.get(&(wish.model, peer))?;
        (lease.layers == wish.layers).then_some(lease.state)
    }

    fn check_rate(&self, peer: PeerId, model: ModelDigest, now: Instant) -> Result<(), ErrorCode> {
        match self.leases.get(&(model, peer)) {
            Some(lease) if now.saturating_duration_since(lease.since) < WISH_EVERY => {
                Err(ErrorCode::RateLimited)
            }
            None if self.leases.len() >= LEASES_MAX => Err(ErrorCode::Busy),
            _ => Ok(()),
        }
    }

    fn add(&mut self, peer: PeerId, wish: PlaceWish, cut: CancellationToken, now: Instant) -> u64 {
        self.numbers += 1;
        let lease = Lease {
            layers: wish.layers,
            state: PlaceState::Loading { percent: 0 },
            since: now,
            used: now,
            cut,
            number: self.numbers,
        };
        if let Some(before) = self.leases.insert((wish.model, peer), lease) {
            before.cut.cancel();
            self.owe(wish.model, before.layers);
        }
        self.numbers
    }

    /// Ends the leases that `is_over` names; whose they were.
    fn end(
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

    fn owe(&mut self, model: ModelDigest, layers: LayerRange) {
        let owed = self.owed.entry(model).or_insert(layers);
        *owed = hull(&[*owed, layers]).unwrap_or(layers);
    }

    /// Layers of `model` that are owed and leased to nobody; from now on it is the caller who sees to them.
    fn take_owed(&mut self, model: ModelDigest) -> Vec<LayerRange> {
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

/// Which `len` layers a host offers whom others asked for some: those that were asked for, and more
/// where the fewest `others` have them. What does not fit together goes to the layers with the fewest
/// holders.
pub(crate) fn window(
    all: LayerRange,
    len: u32,
    others: &[LayerRange],
    asked: &[LayerRange],
) -> LayerRange {
    match hull(asked) {
        Some(hull) if hull.len() <= len && all.contains(hull) => {
            // Every window of that length in here has all that was asked for.
            let start = hull.end().saturating_sub(len).max(all.start());
            let end = hull.start().saturating_add(len).min(all.end());
            let around = LayerRange::new(start, end).unwrap_or(hull);
            least_covered(around, len, others)
        }
        _ => most_needed(all, len, others, asked),
    }
}

/// From the first layer of any to the last.
fn hull(ranges: &[LayerRange]) -> Option<LayerRange> {
    let ranges = ranges.iter().filter(|range| !range.is_empty());
    let start = ranges.clone().map(|range| range.start()).min()?;
    let end = ranges.map(|range| range.end()).max()?;
    LayerRange::new(start, end).ok()
}

impl State {
    /// A device asks this one to hold layers.
    pub(crate) fn on_place(&mut self, peer: PeerId, wish: PlaceWish) {
        if wish.layers.is_empty() {
            // Given back, and nobody waits for an answer.
            if !self.leases.end(|model, by, _| model == wish.model && by == peer).is_empty() {
                self.relist_lent();
            }
            return;
        }
        if let Some(state) = self.leases.repeated(peer, wish) {
            return self.tell_placed(peer, placed(wish, state));
        }
        if let Err(code) = self.grant(peer, wish) {
            tracing::info!(?peer, model = ?wish.model, layers = %wish.layers, %code, "not placed");
            self.tell_placed(peer, placed(wish, PlaceState::Refused { code }));
        }
    }

    /// Decides, and begins to load.
    fn grant(&mut self, peer: PeerId, wish: PlaceWish) -> Result<(), ErrorCode> {
        let now = clock::now();
        // The proof goes with the job: nothing is loaded for anybody without one (I-1).
        let admitted = self.gate.admit(peer, Purpose::Lend).map_err(|refusal| refusal.code())?;
        let terms = self.lending.terms.clone().ok_or(ErrorCode::ExperimentalDisabled)?;
        let entry = self.catalogue.iter().find(|entry| entry.digest() == wish.model);
        let entry = entry.ok_or(ErrorCode::WeightsMismatch)?;
        self.leases.check_rate(peer, wish.model, now)?;
        if terms.streams.available_permits() == 0 {
            return Err(ErrorCode::Busy);
        }
        let mut asked = self.leases.asked(wish.model, Some(peer));
        asked.push(wish.layers);
        let offered = self.offered(entry, &asked).ok_or(ErrorCode::OutOfMemory)?;
        self.check_limits(entry, wish, offered)?;
        let (name, path) = (entry.listed.name.clone(), entry.listed.path.clone());
        let ended = self.leases.end(|model, by, lease| {
            model == wish.model && by != peer && !offered.contains(lease.layers)
        });
        let cut = terms.until.child_token();
        let number = self.leases.add(peer, wish, cut.clone(), now);
        let free_first = self.leases.take_owed(wish.model);
        terms.served.note(wish.model);
        for (loser, placed) in ended {
            self.tell_placed(loser, placed);
        }
        let (workers, inside) = (self.workers.clone(), self.inside.clone());
        let job = Job { admitted, wish, number, name, path, free_first, workers, inside };
        tracing::info!(?peer, model = ?wish.model, layers = %wish.layers, "holding layers");
        self.tasks.spawn_until_cancelled("placing", job.run(cut));
        self.relist_lent();
        Ok(())
    }

    /// The owner's named layers, the others' greater need, and memory, in that order.
    fn check_limits(
        &self,
        entry: &Entry,
        wish: PlaceWish,
        offered: LayerRange,
    ) -> Result<(), ErrorCode> {
        let host = &self.settings.settings().host;
        if !LayerRange::all(entry.layers()).contains(wish.layers) {
            return Err(ErrorCode::BadRequest);
        }
        if !offered.contains(wish.layers) {
            let is_too_long = host.layers.is_none() && wish.layers.len() > offered.len();
            let code =
                if is_too_long { ErrorCode::OutOfMemory } else { ErrorCode::ShardUnavailable };
            return Err(code);
        }
        let held = self.holdings.held(wish.model, wish.layers);
        let missing = wish.layers.iter().filter(|layer| !held.contains_layer(*layer));
        let one = |layer| ModelPart::inner(LayerRange::with_len(layer, 1));
        let adds: u64 = missing.map(|layer| entry.file.weight_bytes(&one(layer))).sum();
        let others = self.holdings.lent_bytes(Some(wish.model));
        let fits =
            adds.saturating_add(others) <= self.lending_cap() && adds <= self.holdings.room();
        if fits { Ok(()) } else { Err(ErrorCode::OutOfMemory) }
    }

    /// A loading goes on, or came to its end: its device is told, unless it has been told by now that the
    /// lease is over.
    pub(crate) fn on_progress(&mut self, progress: Progress) {
        let Progress { peer, model, number, state } = progress;
        let key = (model, peer);
        let Some(lease) = self.leases.leases.get_mut(&key).filter(|it| it.number == number) else {
            return;
        };
        lease.state = state;
        lease.used = clock::now();
        let layers = lease.layers;
        self.tell_placed(peer, Placed { model, layers, state });
        if matches!(state, PlaceState::Loading { .. }) {
            return;
        }
        if matches!(state, PlaceState::Refused { .. }) {
            self.leases.end(|of, by, _| (of, by) == key);
            self.relist_lent();
        }
        self.survey();
    }

    /// Ends what is not used, what the owner needs and what the gate does not allow any more, and frees
    /// what was given back. Called when the workers have said what they hold.
    pub(crate) fn look_at_leases(&mut self, now: Instant) {
        let idle = self.settings.settings().host.shard_eviction_idle;
        let is_tight = self.holdings.available() < OWNERS_MEMORY;
        let (gate, holdings) = (&self.gate, &self.holdings);
        for ((model, _), lease) in &mut self.leases.leases {
            if holdings.conversations(*model).1 {
                lease.used = now;
            }
        }
        let ended = self.leases.end(|model, peer, lease| {
            let is_held = lease.state == PlaceState::Held;
            let unused = now.saturating_duration_since(lease.used);
            // The worker may have freed them by itself, or ended.
            let is_gone = is_held
                && unused > WISH_EVERY
                && !holdings.held(model, lease.layers).contains(lease.layers);
            let is_unused = is_held && (unused >= idle || (is_tight && !unused.is_zero()));
            is_gone || is_unused || gate.admit(peer, Purpose::Lend).is_err()
        });
        if !ended.is_empty() {
            self.relist_lent();
        }
        for (peer, placed) in ended {
            tracing::info!(?peer, model = ?placed.model, "layers are not held any more");
            self.tell_placed(peer, placed);
        }
        self.free_what_is_owed();
    }

    /// Ends every lease: the terms under which they were given are over.
    pub(crate) fn end_leases(&mut self) {
        for (peer, placed) in self.leases.end(|_, _, _| true) {
            self.tell_placed(peer, placed);
        }
    }

    /// Frees what guests brought with these models, as soon as no conversation is held, but for what
    /// is leased by then.
    pub(crate) fn take_back_lent(&mut self, models: BTreeSet<ModelDigest>) {
        for model in models {
            let entry = self.catalogue.iter().find(|entry| entry.digest() == model);
            if let Some(layers) = entry.map(Entry::layers) {
                self.leases.owe(model, LayerRange::all(layers));
            }
        }
    }

    fn free_what_is_owed(&mut self) {
        let free: Vec<ModelDigest> = self
            .leases
            .owed
            .keys()
            .filter(|model| !self.holdings.conversations(**model).0)
            .copied()
            .collect();
        for model in free {
            let ranges = self.leases.take_owed(model);
            let Some(all) = hull(&ranges) else { continue };
            let until = CancellationToken::new();
            self.leases.freeing.insert(model, (all, until.clone()));
            let (workers, inside) = (self.workers.clone(), self.inside.clone());
            self.tasks.spawn_until_cancelled("give-back", async move {
                let given_back = async {
                    if let Some(worker) = workers.find(model).await {
                        free_lent(model, &ranges, &worker, &inside).await;
                    }
                    until.cancel();
                };
                tokio::select! {
                    biased;
                    // Somebody has asked for layers of it, and frees first what is not among them.
                    () = until.cancelled() => {}
                    () = given_back => {}
                }
            });
        }
    }

    /// Layers that could not be freed, because a conversation began.
    pub(crate) fn on_owed(&mut self, model: ModelDigest, layers: LayerRange) {
        self.leases.owe(model, layers);
    }

    /// Tells a device, if it is there. One whose link is gone comes back with an advert, which says the same.
    fn tell_placed(&self, peer: PeerId, placed: Placed) {
        if self.links.link(peer).is_some() {
            self.bulletins.post(peer, Message::Placed(placed));
        }
    }
}

impl Job {
    /// Frees what is in the way, loads, and tells the house, unless the lease is over before.
    async fn run(self, cut: CancellationToken) {
        let loaded = async {
            let state = match self.load().await {
                Ok(()) => PlaceState::Held,
                Err(code) => PlaceState::Refused { code },
            };
            self.tell(state).await;
        };
        tokio::select! {
            biased;
            () = cut.cancelled() => {
                // Some of it may not be freed yet; what is leased by then is left out.
                for range in &self.free_first {
                    let _ = self.inside.send(Inside::Owed(self.wish.model, *range)).await;
                }
            }
            () = loaded => {}
        }
    }

    async fn tell(&self, state: PlaceState) {
        let (peer, model, number) = (self.admitted.peer(), self.wish.model, self.number);
        // A house that is leaving holds nothing any more.
        let _ = self.inside.send(Inside::Placing(Progress { peer, model, number, state })).await;
    }

    async fn load(&self) -> Result<(), ErrorCode> {
        let PlaceWish { model, layers } = self.wish;
        let worker = self.workers.get(model, &self.name).await.map_err(|error| error.code)?;
        // Where a conversation is held nothing is freed, and the worker says below what fits.
        free_lent(model, &self.free_first, &worker, &self.inside).await;
        let peer = self.admitted.peer();
        let mut told = None;
        for (done, layer) in layers.iter().enumerate() {
            let percent = u64::try_from(done).unwrap_or(0) * 100 / u64::from(layers.len().max(1));
            let percent = u8::try_from(percent).unwrap_or(100);
            // In few steps: small layers load fast.
            let step = percent / PERCENT_STEP * PERCENT_STEP;
            if told != Some(step) {
                told = Some(step);
                self.tell(PlaceState::Loading { percent: step }).await;
            }
            let one = LayerRange::with_len(layer, 1);
            self.path
                .with(async |file| worker.load_for(peer, &file, model, one).await)
                .await
                .map_err(|error| match error {
                    WorkerError::Refused { code, .. } => code,
                    _ => ErrorCode::WorkerCrashed,
                })?;
        }
        Ok(())
    }
}

/// Frees what other devices brought of `ranges`. What is in use is owed again, for the next look.
async fn free_lent(
    model: ModelDigest,
    ranges: &[LayerRange],
    worker: &Worker,
    inside: &mpsc::Sender<Inside>,
) {
    for range in ranges {
        if worker.release(*range).await.is_err() {
            // A house that is leaving ends the worker.
            let _ = inside.send(Inside::Owed(model, *range)).await;
        }
    }
}

fn placed(wish: PlaceWish, state: PlaceState) -> Placed {
    Placed { model: wish.model, layers: wish.layers, state }
}

/// The parts of `range` that lie in none of `kept`.
fn without(range: LayerRange, kept: &[LayerRange]) -> Vec<LayerRange> {
    let mut parts: Vec<LayerRange> = Vec::new();
    let free = range.iter().filter(|layer| !kept.iter().any(|kept| kept.contains_layer(*layer)));
    for layer in free {
        match parts.last_mut() {
            Some(last) if last.end() == layer => {
                *last = LayerRange::with_len(last.start(), last.len() + 1);
            }
            _ => parts.push(LayerRange::with_len(layer, 1)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: ModelDigest = ModelDigest([1; 32]);

    fn range(start: u32, end: u32) -> LayerRange {
        LayerRange::new(start, end).expect("in order")
    }

    #[test]
    fn what_was_asked_for_is_offered_with_more_where_the_others_have_least() {
        let all = LayerRange::all(16);
        assert_eq!(window(all, 6, &[], &[]), range(0, 6));
        assert_eq!(window(all, 6, &[], &[range(4, 7)]), range(1, 7));
        assert_eq!(window(all, 6, &[range(0, 4)], &[range(4, 7)]), range(4, 10));
        assert_eq!(window(all, 6, &[], &[range(4, 6), range(8, 10)]), range(4, 10));
        assert_eq!(window(all, 6, &[], &[range(14, 16)]), range(10, 16));
        assert_eq!(window(all, 0, &[], &[range(4, 6)]), range(0, 0));
    }

    #[test]
    fn asks_that_do_not_fit_together_yield_to_the_layers_that_fewest_hold() {
        let all = LayerRange::all(16);
        let asked = [range(0, 4), range(8, 12)];
        assert_eq!(window(all, 4, &[range(0, 6)], &asked), range(8, 12));
        assert_eq!(window(all, 4, &[range(8, 16)], &asked), range(0, 4));
    }

    #[test]
    fn what_is_kept_is_not_freed() {
        assert_eq!(without(range(2, 8), &[]), [range(2, 8)]);
        assert_eq!(without(range(2, 8), &[range(4, 5)]), [range(2, 4), range(5, 8)]);
        assert_eq!(without(range(2, 8), &[range(0, 9)]), []);
    }

    #[test]
    fn a_device_changes_its_mind_only_so_often_and_leases_are_bounded() {
        let (mut leases, now) = (Leases::default(), clock::now());
        let wish = |start| PlaceWish { model: MODEL, layers: range(start, start + 2) };
        let peer = |number: usize| {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&number.to_le_bytes());
            PeerId(id)
        };
        let token = CancellationToken::new;
        leases.add(peer(0), wish(0), token(), now);
        assert_eq!(leases.repeated(peer(0), wish(0)), Some(PlaceState::Loading { percent: 0 }));
        assert_eq!(leases.repeated(peer(0), wish(1)), None);
        let limited = leases.check_rate(peer(0), MODEL, now + WISH_EVERY / 2);
        assert_eq!(limited, Err(ErrorCode::RateLimited));
        assert_eq!(leases.check_rate(peer(0), MODEL, now + WISH_EVERY), Ok(()));
        for number in 1..LEASES_MAX {
            leases.add(peer(number), wish(0), token(), now);
        }
        assert_eq!(leases.check_rate(peer(LEASES_MAX), MODEL, now), Err(ErrorCode::Busy));
        // A new wish of the same device takes the place of its old one, whose layers are owed.
        let cut = token();
        leases.add(peer(0), wish(3), cut.clone(), now);
        assert_eq!((leases.leases.len(), leases.owed[&MODEL]), (LEASES_MAX, range(0, 2)));
        let ended = leases.end(|_, by, _| by == peer(0));
        assert_eq!((ended.len(), leases.owed[&MODEL]), (1, range(0, 5)));
        assert!(cut.is_cancelled(), "its loading ends");
    }

    #[test]
    fn layers_between_those_that_are_owed_stay_with_whoever_leases_them() {
        let (mut leases, now) = (Leases::default(), clock::now());
        let wish = |start, end| PlaceWish { model: MODEL, layers: range(start, end) };
        let [one, other] = [PeerId([1; 32]), PeerId([2; 32])];
        leases.add(one, wish(0, 2), CancellationToken::new(), now);
        leases.add(other, wish(3, 5), CancellationToken::new(), now);
        leases.add(one, wish(6, 8), CancellationToken::new(), now);
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
