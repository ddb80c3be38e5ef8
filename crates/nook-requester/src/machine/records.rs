//! How other devices did in the replies of this one: who is left out for a while and why, and what
//! size of numbers each model's layers give.
//!
//! Owned by the node's event loop. Replies tell it through [`Note`]s; what follows goes out with
//! the advert book, so that routes and takeovers see it, and into the problems that the owner
//! reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nook_base::{LayerRange, ModelDigest, PeerId};
use nook_pipeline::{
    CircuitBreaker, CircuitBreakerRecord, Corrupt, HopVisit, Joint, NormBounds, SpanNormRange,
};
use nook_plan::{Place, Probe};

use crate::machine::awaiting::Awaited;
use crate::machine::past::Passed;
use crate::machine::probing::golden::Subject;
use crate::machine::{Effect, Requester, Surroundings};
use crate::metrics;
use crate::views_of::wrong_result;
use nook_api::views::{DecisionView, DeviceTrouble, ReplySpeedView, TroubleView, WrongResult};

/// Models whose norm_bounds are remembered; of more, those with the highest digests start without.
const MODELS_MAX: usize = 64;

/// What a reply tells about the devices that compute for it.
#[derive(Debug)]
pub(crate) enum Note {
    /// It was lost, too late, or answered what cannot be right.
    Failed(PeerId),
    /// It let a deadline pass.
    Late(PeerId),
    /// What it answered for this model cannot be right.
    Suspect { peer: PeerId, model: ModelDigest, suspicion: Suspicion },
    /// Where a reply will be computed, and why.
    Decided { reply: u64, decision: Box<DecisionView> },
    /// Something happened to a reply, or it ended.
    Passed { reply: u64, passed: Passed },
    /// How a reply went in the end.
    Went { reply: u64, speed: ReplySpeedView },
    /// Steps that were answered; a row travels as `row_bytes`.
    Measured { model: ModelDigest, row_bytes: u64, visits: Vec<HopVisit> },
    /// Positions that devices computed for a reply.
    Helped(Vec<(PeerId, u64)>),
    /// A probe of two sizes came to its end.
    Probed { place: Place, model: ModelDigest, probe: Probe },
    /// A device and this one have computed the same layer from the same numbers.
    Compared { subject: Subject, layer: LayerRange, agrees: bool },
    /// A device accepted a call for layers of `bytes` after `took`.
    Opened { place: Place, model: ModelDigest, bytes: u64, took: Duration },
    /// Which devices hand their results to which, as a reply has seen.
    Joined(Vec<Joint>),
    /// A reply waits for what is named, for as long as that is held.
    Awaits(Weak<Awaited>),
    /// A reply that has not begun waits for these devices, which sleep.
    Wakes(Vec<PeerId>),
    /// The reply came to its end, with these devices in its route.
    SeenThrough { model: ModelDigest, peers: Vec<PeerId>, norm_bounds: NormBounds },
}

impl Note {
    /// What of it is about devices that are known: a reply may end after one of its devices was
    /// unpaired, and nothing is remembered of that one any more.
    fn of_known(self, is_known: impl Fn(PeerId) -> bool) -> Option<Self> {
        let is_known_place = |place: &Place| match place {
            Place::Local => true,
            Place::Peer(peer) => is_known(*peer),
        };
        match self {
            Self::Failed(peer) | Self::Late(peer) | Self::Suspect { peer, .. } => {
                is_known(peer).then_some(self)
            }
            Self::Compared { ref subject, .. } => is_known(subject.peer).then_some(self),
            Self::Probed { ref place, .. } | Self::Opened { ref place, .. } => {
                is_known_place(place).then_some(self)
            }
            Self::Measured { model, row_bytes, mut visits } => {
                visits.retain(|visit| is_known_place(&visit.place));
                Some(Self::Measured { model, row_bytes, visits })
            }
            Self::Helped(mut helped) => {
                helped.retain(|(peer, _)| is_known(*peer));
                Some(Self::Helped(helped))
            }
            Self::Joined(mut joints) => {
                joints.retain(|joint| is_known(joint.from) && is_known(joint.to));
                Some(Self::Joined(joints))
            }
            Self::Decided { .. }
            | Self::Went { .. }
            | Self::Passed { .. }
            | Self::Awaits(_)
            | Self::Wakes(_)
            | Self::SeenThrough { .. } => Some(self),
        }
    }
}

/// What is held against a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suspicion {
    pub(crate) wrong: WrongResult,
    /// The same in English, without its capital and full stop.
    pub(crate) reason: String,
}

impl From<&Corrupt> for Suspicion {
    fn from(corrupt: &Corrupt) -> Self {
        Self { wrong: wrong_result(corrupt), reason: corrupt.to_string() }
    }
}

/// What is remembered. Suspects are forgotten with the node; the rest is kept for a while
/// (`keeping`).
#[derive(Debug, Default)]
pub(crate) struct Records {
    conduct: CircuitBreaker,
    /// Why a device is suspect, until it sees a reply through.
    suspects: BTreeMap<PeerId, TroubleView>,
    norm_bounds: BTreeMap<ModelDigest, Arc<NormBounds>>,
    /// When each model was learned of last, in seconds since 1970.
    learned: BTreeMap<ModelDigest, u64>,
}

impl Records {
    /// What is known of the numbers of `model`.
    pub(crate) fn norm_bounds(&self, model: ModelDigest) -> Arc<NormBounds> {
        self.norm_bounds.get(&model).cloned().unwrap_or_default()
    }

    fn learn(&mut self, model: ModelDigest, seen: &NormBounds, unix: u64) {
        if self.norm_bounds.len() < MODELS_MAX || self.norm_bounds.contains_key(&model) {
            Arc::make_mut(self.norm_bounds.entry(model).or_default()).merge(seen);
            self.learned.insert(model, unix);
        }
    }

    /// Every span of every model, with when the model was learned of last.
    pub(crate) fn all_gains(&self) -> impl Iterator<Item = (ModelDigest, u64, SpanNormRange)> {
        self.norm_bounds.iter().flat_map(|(model, book)| {
            let at = self.learned.get(model).copied().unwrap_or_default();
            book.spans().map(move |span| (*model, at, span))
        })
    }

    /// Takes back a span of an earlier run.
    pub(crate) fn restore_gains(&mut self, model: ModelDigest, span: &SpanNormRange, at: u64) {
        if self.norm_bounds.len() < MODELS_MAX || self.norm_bounds.contains_key(&model) {
            Arc::make_mut(self.norm_bounds.entry(model).or_default()).restore(span);
            self.learned.insert(model, at);
        }
    }

    /// What is worth keeping of devices that failed.
    pub(crate) fn conduct(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (PeerId, CircuitBreakerRecord)> {
        self.conduct.records(now)
    }

    /// Takes back what an earlier run has kept of a device.
    pub(crate) fn restore_conduct(
        &mut self,
        peer: PeerId,
        kept: CircuitBreakerRecord,
        now: Instant,
    ) {
        self.conduct.restore(peer, kept, now);
    }
}

impl Requester {
    /// A reply or a probe has something to tell.
    pub(super) fn on_note(&mut self, note: Note, around: &Surroundings<'_>) -> Vec<Effect> {
        let now = around.now;
        let Some(note) = note.of_known(around.is_paired) else { return Vec::new() };
        self.keeping.note();
        match note {
            Note::Decided { reply, decision } => {
                self.past.begin(reply, &decision, around.unix);
                self.last_decision = Some((reply, *decision));
                return Vec::new();
            }
            Note::Passed { reply, passed } => {
                self.past.note(reply, passed);
                return Vec::new();
            }
            Note::Went { reply, speed } => {
                // Another reply may have begun meanwhile; then that one is the last.
                if let Some((last, decision)) = &mut self.last_decision
                    && *last == reply
                {
                    decision.went = Some(speed);
                }
                return Vec::new();
            }
            Note::Awaits(awaited) => {
                self.awaiting.begin(awaited);
                return Vec::new();
            }
            Note::Helped(helped) => {
                self.helped.forget_old(around.today);
                for (peer, positions) in helped {
                    self.helped.add(peer, around.today, positions);
                }
                return Vec::new();
            }
            Note::Wakes(peers) => return peers.into_iter().map(Effect::Wake).collect(),
            Note::Measured { .. } | Note::Joined(_) | Note::Probed { .. } | Note::Opened { .. } => {
                self.on_measured(note, now);
                return Vec::new();
            }
            Note::Compared { subject, layer, agrees } => {
                if !agrees {
                    let Subject { peer, model, .. } = &subject;
                    tracing::warn!(?peer, ?model, %layer, "computes a layer otherwise than this device");
                    metrics::corruption_detected();
                }
                if !self.probing.golden.note(subject, agrees, now) {
                    return Vec::new();
                }
            }
            Note::Failed(peer) => {
                if self.records.conduct.failed(peer, now) {
                    let left = self.records.conduct.left_out(peer, now).unwrap_or_default();
                    let seconds = left.as_secs();
                    tracing::warn!(?peer, seconds, "failed repeatedly: left out of replies");
                }
            }
            Note::Late(peer) => self.records.conduct.late(peer, now),
            Note::Suspect { peer, model, suspicion } => {
                self.suspect(peer, model, suspicion, around);
            }
            Note::SeenThrough { model, peers, norm_bounds } => {
                self.records.learn(model, &norm_bounds, around.unix);
                for peer in peers {
                    self.records.conduct.seen_through(peer, now);
                    self.records.suspects.remove(&peer);
                }
            }
        }
        vec![Effect::PublishBook]
    }

    /// What was measured goes into the estimates.
    fn on_measured(&mut self, note: Note, now: Instant) {
        match note {
            Note::Measured { model, row_bytes, visits } => {
                for visit in &visits {
                    self.estimates.observe(model, visit, row_bytes, now);
                }
            }
            Note::Joined(joints) => {
                joints.iter().for_each(|joint| self.estimates.observe_joint(joint, now));
            }
            Note::Probed { place, model, probe } => {
                self.estimates.seed((place, model), &probe, now)
            }
            Note::Opened { place, model, bytes, took } => {
                self.estimates.observe_load((place, model), bytes, took, now);
            }
            _ => {}
        }
    }

    /// Tells the owner what is held against a device, and has it compared where that could clear
    /// it.
    fn suspect(
        &mut self,
        peer: PeerId,
        model: ModelDigest,
        suspicion: Suspicion,
        around: &Surroundings<'_>,
    ) {
        let Suspicion { wrong, reason } = suspicion;
        let name = around.book.name(&peer);
        tracing::warn!(?peer, reason, "a result cannot be right");
        let words = format!(
            "{name} sent back a result that cannot be right ({reason}). It was not used. If it \
             happens again, check the memory and the graphics driver there."
        );
        let trouble = DeviceTrouble::Suspect { wrong, reason };
        self.records.suspects.insert(peer, TroubleView::with(&name, words, trouble));
        match wrong {
            WrongResult::ContradictedHere => {
                self.probing.golden.contradicted(peer, model, around.now);
            }
            // Whoever of the two is wrong, comparing them with this device tells.
            WrongResult::ContradictedElsewhere => self.probing.golden.ask_again(peer, model),
            _ => {}
        }
    }

    /// Whether the devices that are left out or suspected now are others than the book says.
    pub(super) fn ejected_has_changed(&self, around: &Surroundings<'_>) -> bool {
        let (conduct, book, now) = (&self.records.conduct, around.book, around.now);
        !conduct.all_left_out(now).eq(book.left_out.iter().copied())
            || !conduct.all_suspected(now).eq(book.suspected.iter().copied())
    }

    /// Forgets a device that is not paired any more.
    pub(super) fn forget_device(&mut self, peer: PeerId) {
        self.records.conduct.forget(peer);
        self.records.suspects.remove(&peer);
        self.past.forget(peer);
        self.estimates.forget(peer);
        self.keeping.note();
        self.probing.golden.forget(peer);
        self.wishes.forget(peer);
        self.gains.forget(peer);
        self.helped.forget(peer);
    }

    /// The devices that are left out at `now`.
    pub fn left_out(&self, now: Instant) -> BTreeSet<PeerId> {
        self.records.conduct.all_left_out(now).collect()
    }

    /// The devices that are suspected of hanging at `now`.
    pub fn suspected(&self, now: Instant) -> BTreeSet<PeerId> {
        self.records.conduct.all_suspected(now).collect()
    }

    /// The devices that compute a model otherwise than this one, each with the model.
    pub fn wrong(&self, now: Instant) -> BTreeSet<(PeerId, ModelDigest)> {
        self.probing.golden.wrong(now).collect()
    }

    /// What the owner should know about devices that failed.
    pub fn troubles(&self, around: &Surroundings<'_>) -> Vec<TroubleView> {
        let (now, name_of) = (around.now, |peer: PeerId| around.book.name(&peer));
        let left_out = self.records.conduct.all_left_out(now).filter_map(|peer| {
            let minutes = self.records.conduct.left_out(peer, now)?.as_secs().div_ceil(60);
            let name = name_of(peer);
            let plural = if minutes == 1 { "" } else { "s" };
            let words = format!(
                "{name} failed repeatedly and is left out of replies for {minutes} more \
                 minute{plural}."
            );
            Some(TroubleView::with(&name, words, DeviceTrouble::LeftOut { minutes }))
        });
        let wrong = self.probing.golden.wrong(now).map(|(peer, model)| {
            let (name, model) = (name_of(peer), around.model_name(model));
            let words = format!(
                "{name} computes {model} otherwise than this computer does and is not used for it. \
                 Update Inglenook on both; if that does not help, import the model there anew and \
                 check the memory and the graphics driver."
            );
            TroubleView::with(&name, words, DeviceTrouble::ComputesOtherwise { model })
        });
        let suspects = self.records.suspects.values().cloned();
        suspects.chain(wrong).chain(left_out).collect()
    }
}

#[cfg(test)]
mod tests {
    use nook_base::ModelPart;

    use super::*;

    #[test]
    fn nothing_is_remembered_of_a_device_that_was_unpaired_meanwhile() {
        let [known, gone] = [PeerId([1; 32]), PeerId([2; 32])];
        let of = |note: Note| note.of_known(|peer| peer == known);
        for peer in [known, gone] {
            assert_eq!(of(Note::Failed(peer)).is_some(), peer == known);
            assert_eq!(of(Note::Late(peer)).is_some(), peer == known);
        }
        let visit = |place| HopVisit {
            place,
            part: ModelPart::inner(LayerRange::with_len(1, 2)),
            rows: 1,
            logits: false,
            compute: Duration::ZERO,
            queue: Duration::ZERO,
            wire: Duration::ZERO,
            overlapped: false,
            forwarded: false,
        };
        let visits = [Place::Local, Place::Peer(gone), Place::Peer(known)].map(visit).to_vec();
        let measured = Note::Measured { model: ModelDigest([3; 32]), row_bytes: 1, visits };
        let Some(Note::Measured { visits, .. }) = of(measured) else { panic!("some is known") };
        let places: Vec<_> = visits.iter().map(|visit| visit.place).collect();
        assert_eq!(places, [Place::Local, Place::Peer(known)]);
    }
}
