//! The state of the asking side, and what changes it: one event at a time.
//!
//! What happens is an [`Event`], what others own is lent as [`Surroundings`], what is to be done
//! comes out as [`Effect`]s. The parts of the state lie in the modules below.

pub(crate) mod awaiting;
pub(crate) mod embed;
mod forgetting;
pub(crate) mod gains;
mod helped;
mod keeping;
pub(crate) mod past;
pub(crate) mod placement;
pub(crate) mod probing;
pub(crate) mod queue;
mod readiness;
pub(crate) mod records;
pub(crate) mod replies;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use nook_api::views::{DecisionView, LentDayView, PastReplyView};
use nook_api::{Answer, Asker, Counted, EmbedRequest, Embedded, GenerateRequest, Reply};
use nook_base::{LayerRange, ModelDigest, PeerId};
use nook_pipeline::HopVisit;
use nook_plan::Link;
use nook_resources::adverts::{AdvertBook, Heard};
use nook_resources::catalogue::Entry;
use nook_resources::estimates::{Ends, Estimates};
use nook_resources::open_models::{Listed, OpenModelCache};
use nook_resources::prefix_cache::Unwanted;
use nook_store::{Measured, Settings};
use nook_wire::{KeptHistory, OffloadOffers, Placed, PlacementRequest};
use tokio::sync::oneshot;

use self::awaiting::Awaiting;
use self::gains::Gains;
use self::helped::Helped;
use self::keeping::Keeping;
use self::past::PastReplies;
use self::placement::{PlacementLook, Wishes};
use self::probing::{Probed, Probing, Round};
use self::queue::{EmbedMark, Queue};
use self::readiness::Readiness;
use self::records::{Note, Records};
use self::replies::{ReplyJob, Waiting, count};
use crate::choice::gains::Gain;
use crate::choice::outlook::Outlook;
use crate::reply::Me;

/// What happens to the asking side.
#[derive(Debug)]
pub enum Event {
    /// A front end wants a reply.
    Generate {
        /// Who that is.
        asker: Asker,
        /// Which model is meant by the request's name.
        model: ModelDigest,
        /// What is to be answered, and how.
        request: Box<GenerateRequest>,
        /// The kept conversation that the reply belongs to.
        conversation: Option<i64>,
        /// Told as soon as the reply has a place, be it in the queue.
        placed: Option<oneshot::Sender<()>>,
        /// Who waits for the reply.
        answer: Answer<Reply>,
    },
    /// A front end wants to know how long a prompt is.
    Count {
        /// For this model.
        model: ModelDigest,
        /// The prompt, with what goes into it.
        request: Box<GenerateRequest>,
        /// Who waits for it.
        answer: Answer<Counted>,
    },
    /// A front end wants vectors for texts.
    Embed {
        /// Of this model.
        model: ModelDigest,
        /// What is wanted.
        request: EmbedRequest,
        /// Who waits for it.
        answer: Answer<Embedded>,
    },
    /// A task of this side reports.
    Report(Report),
    /// Nobody will go on with what these replies with a model left.
    Unwanted(ModelDigest, Unwanted),
    /// What this device computed for others tells how fast it is.
    Helped {
        /// With which model.
        model: ModelDigest,
        /// The steps that were answered.
        visits: Vec<HopVisit>,
    },
    /// What an earlier run of this node measured.
    Measured(Measured),
    /// This device has measured its processor or a GPU: that is to be kept.
    BackendsMeasured,
    /// A second has passed.
    Tick,
    /// A device answers what this one asked it to hold.
    Placed(PeerId, Placed),
    /// A device of the same person says which models it would run whole.
    OffloadOffers(PeerId, OffloadOffers),
    /// A device offers something else than before, came, or went.
    OffersChanged,
    /// The link to a device is new or gone: what it said on the one before is void.
    LinkChanged(PeerId),
    /// The link to a device stands between these two addresses, where this was measured.
    WayTaken(PeerId, Ends, Option<Link>),
    /// A device is not paired any more.
    Unpaired(PeerId),
    /// Who may compute for this device, or see its words, has changed.
    TrustChanged {
        /// Devices that may see its words.
        may_see: BTreeSet<PeerId>,
    },
    /// A kept conversation was deleted, or a temporary one has ended.
    ChatEnded(i64),
    /// The list of models has changed.
    ModelsChanged,
    /// Somebody else computes on this device now: it does not measure itself meanwhile.
    Lending,
    /// The node leaves.
    Leave,
}

/// What a task of this side tells it.
#[derive(Debug)]
pub struct Report(pub(crate) Said);

/// The same, for this crate alone.
#[derive(Debug)]
pub(crate) enum Said {
    /// A reply of this device ended.
    ReplyEnded,
    /// A reply or a probe tells something about the devices that compute.
    Noted(Note),
    /// How the usual reply with a model could be divided; absent where that could not be worked
    /// out.
    Outlook(ModelDigest, Option<Box<Outlook>>),
    /// What each device brings to the usual reply with a model.
    Gains(ModelDigest, Vec<Gain>),
    /// A probe round goes on, or has ended.
    Probed(Probed),
}

impl From<Said> for Event {
    fn from(said: Said) -> Self {
        Self::Report(Report(said))
    }
}

/// What is to be done, in order.
#[derive(Debug)]
pub enum Effect {
    /// Work for a task.
    Start(Task),
    /// Whoever keeps this is to drop it: this device's worker, or another device.
    Drop(Option<PeerId>, KeptHistory),
    /// A device is asked to hold layers; none of them gives them back.
    AskToHold(PeerId, PlacementRequest),
    /// This device lacks layers that it is to compute itself: they are to be taken from others.
    Take {
        /// Of this model.
        model: ModelDigest,
        /// What it is called here.
        name: String,
        /// The layers.
        layers: Vec<LayerRange>,
    },
    /// What is known of other devices has changed: the advert book is out of date.
    PublishBook,
    /// A reply cannot be made without a device that sleeps: it is to be woken.
    Wake(PeerId),
    /// What others are told of this device has changed.
    Advertise,
    /// This device computes on a model of which it lends layers.
    UsesLent(ModelDigest),
    /// A reply has ended: memory that waited for that can be freed.
    ReplyOver,
    /// What was measured is to be written.
    Keep(Measured),
    /// The same, before the node leaves.
    KeepNow(Measured),
}

/// Work that takes time, for the [`Runner`](crate::Runner).
#[derive(Debug)]
pub struct Task(pub(crate) Work);

/// The same, for this crate alone.
#[derive(Debug)]
pub(crate) enum Work {
    /// Make a reply.
    Reply(Box<ReplyJob>),
    /// Count the tokens of a prompt.
    Count { listed: Listed, request: Box<GenerateRequest>, answer: Answer<Counted> },
    /// Work out vectors.
    Embed { listed: Listed, request: EmbedRequest, answer: Answer<Embedded>, mark: EmbedMark },
    /// Measure and compare devices.
    Probe(Box<Round>),
    /// Work out where layers would do most good.
    LookAtPlacement(Box<PlacementLook>),
}

/// What others own, as it is while one event is handled.
pub struct Surroundings<'a> {
    /// Now.
    pub now: Instant,
    /// The same in seconds since 1970, for what is kept.
    pub unix: u64,
    /// The same in days since 1970-01-01 by the local calendar.
    pub today: u32,
    /// This device.
    pub me: &'a Me,
    /// What the owner chose.
    pub settings: &'a Settings,
    /// The models of this device.
    pub models: &'a [Entry],
    /// What other devices offer.
    pub book: &'a AdvertBook,
    /// What all of them say that they offer, also those that may not compute for this device:
    /// nothing is routed by it.
    pub heard: &'a BTreeMap<PeerId, Heard>,
    /// Whether a device is paired.
    pub is_paired: &'a dyn Fn(PeerId) -> bool,
    /// What this device lends now; absent while it lends nothing.
    pub lending: Option<Lending<'a>>,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Surroundings<'_> {
    /// The model with this digest, if it is here.
    fn entry(&self, model: ModelDigest) -> Option<&Entry> {
        self.models.iter().find(|entry| entry.digest() == model)
    }

    /// Its name, for people.
    fn model_name(&self, model: ModelDigest) -> String {
        self.entry(model).map_or_else(|| model.short(), |entry| entry.listed.name.clone())
    }
}

/// What this device lends, as far as measuring itself goes.
#[derive(Debug, Clone, Copy)]
pub struct Lending<'a> {
    /// The layers, by model.
    pub lent: &'a [LentLayers],
    /// Whether nobody computes here now, and nobody would miss what measuring takes.
    pub is_at_rest: bool,
    /// Bytes that a worker could still take.
    pub memory_free: u64,
}

/// Layers of one model that this device lends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LentLayers {
    /// The model.
    pub model: ModelDigest,
    /// The layers.
    pub layers: LayerRange,
}

/// The state of the asking side.
#[derive(Debug)]
pub struct Requester {
    /// How other devices did in the replies of this one.
    records: Records,
    /// When that, and the estimates, were written last.
    keeping: Keeping,
    /// How fast the devices compute, and how far away they are.
    estimates: Estimates,
    /// The last reply and what was decided for it.
    last_decision: Option<(u64, DecisionView)>,
    past: PastReplies,
    probing: Probing,
    readiness: Readiness,
    /// Layers that this device asks others to hold.
    wishes: Wishes,
    awaiting: Awaiting,
    /// What each device brings.
    gains: Gains,
    /// What each device computed for this one.
    helped: Helped,
    /// What each device of the same person would run whole for this one; at most one entry for each
    /// link.
    whole_offers: BTreeMap<PeerId, OffloadOffers>,
    /// The models that are open, with what earlier replies left.
    open_models: OpenModelCache,
    /// Replies under way, and those that wait for their turn.
    queue: Queue,
}

impl Requester {
    /// The asking side of a node that starts at `now`.
    pub fn new(open_models: OpenModelCache, now: Instant) -> Self {
        Self {
            records: Records::default(),
            keeping: Keeping::new(now),
            estimates: Estimates::default(),
            last_decision: None,
            past: PastReplies::default(),
            probing: Probing::default(),
            readiness: Readiness::default(),
            wishes: Wishes::default(),
            awaiting: Awaiting::default(),
            gains: Gains::default(),
            helped: Helped::default(),
            whole_offers: BTreeMap::new(),
            open_models,
            queue: Queue::default(),
        }
    }

    /// Takes in an event; what is to be done now, in order.
    pub fn on(&mut self, event: Event, around: &Surroundings<'_>) -> Vec<Effect> {
        match event {
            Event::Generate { asker, model, request, conversation, placed, answer } => {
                let asked = Waiting { asker, model, request, conversation, answer };
                let (has_place, effects) = self.generate(asked, around);
                if let Some(placed) = placed.filter(|_| has_place) {
                    // Whoever asked may have left.
                    let _ = placed.send(());
                }
                effects
            }
            Event::Count { model, request, answer } => count(model, request, answer, around),
            Event::Embed { model, request, answer } => self.embed(model, request, answer, around),
            Event::Report(Report(said)) => self.on_report(said, around),
            Event::Unwanted(model, unwanted) => forgetting::unwanted(model, &unwanted),
            Event::Helped { model, visits } => {
                self.on_note(Note::Measured { model, row_bytes: 0, visits }, around)
            }
            Event::Measured(measured) => {
                self.take_back(measured, around);
                Vec::new()
            }
            Event::BackendsMeasured => {
                self.keeping.note();
                Vec::new()
            }
            Event::Tick => self.on_tick(around),
            Event::Placed(peer, placed) => {
                self.on_placed(peer, placed, around);
                Vec::new()
            }
            Event::OffloadOffers(peer, offers) => {
                self.whole_offers.insert(peer, offers);
                vec![Effect::PublishBook]
            }
            Event::OffersChanged => {
                // A device that stops sharing frees all that it keeps for others.
                let heard = around.book.heard.iter();
                for (peer, _) in heard.filter(|(_, heard)| !heard.advert.sharing) {
                    self.open_models.doubt(*peer);
                }
                self.wishes.household_changed();
                Vec::new()
            }
            Event::LinkChanged(peer) => {
                self.whole_offers.remove(&peer);
                // It may have started anew, and knows nothing then of what it was asked for.
                self.estimates.forget_held(peer);
                self.open_models.doubt(peer);
                self.wishes.forget(peer);
                self.wishes.household_changed();
                Vec::new()
            }
            Event::WayTaken(peer, ends, found) => {
                if self.estimates.way_taken(peer, ends, found.as_ref(), around.now) {
                    self.keeping.note();
                }
                Vec::new()
            }
            Event::Unpaired(peer) => {
                self.forget_device(peer);
                Vec::new()
            }
            Event::TrustChanged { may_see } => self.revoke(&may_see, around),
            Event::ChatEnded(conversation) => self.forget_chat(conversation),
            Event::ModelsChanged => self.keep_only_listed(around),
            Event::Lending => {
                self.probing.stop_own();
                Vec::new()
            }
            Event::Leave => self.keep_now(around),
        }
    }

    fn on_report(&mut self, said: Said, around: &Surroundings<'_>) -> Vec<Effect> {
        match said {
            Said::ReplyEnded => {
                let mut effects = self.reply_ended(around);
                effects.push(Effect::ReplyOver);
                effects
            }
            Said::Noted(note) => self.on_note(note, around),
            Said::Outlook(model, outlook) => self.on_outlook(model, outlook, around),
            Said::Gains(model, found) => {
                self.gains.take(model, found);
                Vec::new()
            }
            Said::Probed(probed) => self.on_probed(probed, around.now),
        }
    }

    /// What happens by itself, once a second.
    fn on_tick(&mut self, around: &Surroundings<'_>) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.ejected_has_changed(around) {
            effects.push(Effect::PublishBook);
        }
        // A reply whose task was lost tells nobody; whoever waits behind it begins here.
        effects.extend(self.reply_ended(around));
        self.look_for_helpers(around);
        effects.extend(self.probe_if_idle(around));
        effects.extend(self.ask_for_awaited(around));
        effects.extend(self.look_at_placement(around));
        effects.extend(self.keep_if_due(around));
        effects
    }

    /// Replies of this device that are under way.
    pub fn replies_running(&self) -> usize {
        self.queue.running()
    }

    /// What this device computes for those who ask it: replies, and vectors.
    pub fn work_running(&self) -> usize {
        self.queue.running().saturating_add(self.queue.embedding())
    }

    /// Whether one of the replies is the owner's.
    pub fn computes_for_owner(&self) -> bool {
        self.queue.runs_of_owner()
    }

    /// Replies that wait for one of those to end.
    pub fn replies_waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// How fast the devices compute, and how far away they are.
    pub fn estimates(&self) -> &Estimates {
        &self.estimates
    }

    /// What was decided for the last reply.
    pub fn last_decision(&self) -> Option<&DecisionView> {
        self.last_decision.as_ref().map(|(_, decision)| decision)
    }

    /// The last replies, the newest first.
    pub fn past_replies(&self) -> Vec<PastReplyView> {
        self.past.view()
    }

    /// What a device computed for this one on each of the last days, oldest first.
    pub fn helped_days(&self, peer: PeerId) -> Vec<LentDayView> {
        self.helped.view(peer)
    }

    /// What a device of the same person would run whole for this one.
    pub fn whole_offers(&self, peer: PeerId) -> Option<&OffloadOffers> {
        self.whole_offers.get(&peer).filter(|offers| !offers.offers.is_empty())
    }
}
