//! The lending side as a state machine: [`Host::on`] turns what happens into what is to be done.
//!
//! It owns what is lent and to whom: the owner's choice, the terms under which guests are served,
//! leases, what the workers hold, the pause, and the count of what was computed for others. It
//! spawns no task, sends nothing and reads neither clock nor disk. Calls under way share some of
//! its values (permits, counts, cancellation tokens); a token is cancelled the moment it is decided
//! that its call ends.

mod audited;
mod calls;
mod fetching;
mod offers;
mod placement;
mod sharing;
#[cfg(test)]
mod tests;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use nook_base::{ModelDigest, PeerId};
use nook_machine::Conditions;
use nook_mux::Call;
use nook_store::LentDays;
use nook_wire::{Have, Message};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::audited::Held;
use self::fetching::Fetches;
pub use self::upkeep::worker_limits;
use super::audit::Audit;
use super::events::{HostEffect, HostEvent, HostTask, Surroundings};
use super::leases::Leases;
use super::ledger::Ledger;
use super::lent::Lent;
use super::pause::Pause;
use super::residency::Residency;
use super::terms::{Given, Terms};
use super::usage::Usage;
use nook_api::Sharing;
use nook_api::views::{LentDayView, PauseReason};

/// The lending side; at first nothing is lent.
#[derive(Debug)]
pub struct Host<C = Call<Message>> {
    /// What the owner chose.
    sharing: Sharing,
    /// Absent while nothing is lent, by choice or because sharing pauses.
    terms: Option<Terms>,
    streams_max: u16,
    /// One permit for each stream, over all models and workers. It outlives the terms, so that
    /// streams which still end under old ones count; a new one is made only when the number itself
    /// changes.
    streams: Arc<Semaphore>,
    /// Who is helped now, and how much. It outlives the terms, as streams that still end do.
    usage: Usage,
    /// Ends the calls of one device when it is trusted less.
    guests: BTreeMap<PeerId, CancellationToken>,
    /// Models whose memory is to be freed once no reply of this device needs it.
    owed: BTreeSet<ModelDigest>,
    advertised_at: Option<Instant>,
    /// Whether an advert waits for its moment.
    advert_waits: bool,
    /// Layers that other devices asked this one to hold.
    leases: Leases,
    fetches: Fetches,
    /// What the workers hold.
    residency: Residency,
    pause: Pause,
    /// How much was computed for others.
    ledger: Ledger,
    /// What others asked.
    audit: Audit,
    /// What is held for others, as it is noted there.
    held: Held,
    own: OwnDevices,
    copies: Copies,
    /// Ends everything with the node.
    lifetime: CancellationToken,
    /// What is to be done, in order.
    effects: Vec<HostEffect<C>>,
}

/// Devices of the same person, whose whole requests are run here.
#[derive(Debug, Default)]
struct OwnDevices {
    /// Who was told anything on the link that there is.
    told: BTreeSet<PeerId>,
    /// Ends what runs here whole for one device, when it is its owner's own no more.
    cuts: BTreeMap<PeerId, CancellationToken>,
}

/// Models that are given to other devices.
#[derive(Debug, Default)]
struct Copies {
    given: Arc<Vec<Given>>,
    /// What each linked device was told last.
    told: BTreeMap<PeerId, Have>,
    /// Ends what is given to one device, when it is trusted too little.
    cuts: BTreeMap<PeerId, CancellationToken>,
}

impl<C> Host<C> {
    /// A host that lends nothing yet. `lifetime` is cancelled when the node ends.
    pub fn new(lent_days: LentDays, audit: Audit, lifetime: CancellationToken) -> Self {
        Self {
            sharing: Sharing::default(),
            terms: None,
            streams_max: 0,
            streams: Arc::new(Semaphore::new(0)),
            usage: Usage::default(),
            guests: BTreeMap::new(),
            owed: BTreeSet::new(),
            advertised_at: None,
            advert_waits: false,
            leases: Leases::default(),
            fetches: Fetches::default(),
            residency: Residency::default(),
            pause: Pause::default(),
            ledger: Ledger::new(lent_days),
            audit,
            held: Held::default(),
            own: OwnDevices::default(),
            copies: Copies::default(),
            lifetime,
            effects: Vec::new(),
        }
    }

    /// Takes in what happened; what is to be done about it, in order.
    pub fn on(&mut self, event: HostEvent<C>, context: &Surroundings<'_>) -> Vec<HostEffect<C>> {
        match event {
            HostEvent::SharingSet => {
                self.weigh(context);
                self.apply(context);
            }
            HostEvent::PauseSet => self.weigh_and_apply(context),
            HostEvent::MemoryWanted { guests } => self.free_all(guests, context),
            HostEvent::SettingsChanged { before } => self.settings_changed(&before, context),
            HostEvent::PeersChanged => self.end_revoked(context),
            HostEvent::AsksNoMore(peer) => self.end_leases_of(|of| of == peer, context),
            HostEvent::ModelsChanged => self.relist(context),
            HostEvent::AdvertsChanged => self.advertise(context),
            HostEvent::LinkUp(peer) => self.link_up(peer, context),
            HostEvent::LinkDown(peer) => self.forget_told(peer),
            HostEvent::Call { peer, call } => self.answer(peer, call, context),
            HostEvent::Relay { carrier, ticket, call } => {
                self.relay(carrier, &ticket, call, context);
            }
            HostEvent::NextHost { peer, answer } => self.next_host(peer, answer, context),
            HostEvent::Place { peer, wish } => self.place(peer, wish, context),
            HostEvent::Fetched { model, layers, outcome } => {
                self.fetched((model, layers), outcome, context);
            }
            HostEvent::DropKept { peer, kept } => self.push(HostEffect::DropKept(peer, kept)),
            HostEvent::StreamChanged => self.stream_changed(context),
            HostEvent::AdvertDue => self.advert_due(context),
            HostEvent::Drained(models) => {
                self.free(models, context);
                // The streams that have ended are free for the new terms.
                if self.terms.is_some() {
                    self.stream_changed(context);
                }
            }
            HostEvent::Surveyed(surveyed) => self.surveyed(surveyed, context),
            HostEvent::LimitsNotTaken => self.residency.told = None,
            HostEvent::Placing(progress) => self.placing(progress, context),
            HostEvent::Owed { model, layers } => self.leases.owe(model, layers),
            HostEvent::Measured { model, visits } => {
                self.push(HostEffect::Measured { model, visits });
            }
            HostEvent::Looked(conditions) => self.looked(conditions, context),
            HostEvent::SleepNear { ready } => self.sleep_near(ready, context),
            HostEvent::SleepOver => self.sleep_over(context),
            HostEvent::AuditCleared => {
                let list = self.audit.clear();
                self.run(HostTask::SaveAudit(list));
            }
            HostEvent::ReplyEnded => self.reply_ended(context),
            HostEvent::Tick { own_speed } => self.tick(own_speed, context),
            HostEvent::Leave => self.leave(),
            HostEvent::Left => self.close_books(context),
        }
        self.settle_fetches(context);
        self.settle_held(context);
        std::mem::take(&mut self.effects)
    }

    /// What the owner chose.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Whether calls of guests are served now.
    pub fn is_lending(&self) -> bool {
        self.terms.is_some()
    }

    /// What is lent now.
    pub fn lent(&self) -> &[Lent] {
        self.terms.as_ref().map_or(&[], |terms| &terms.lent)
    }

    /// Streams that may run at once.
    pub fn streams_max(&self) -> u16 {
        self.streams_max
    }

    /// Streams of other devices that run here now, also those of ended terms that still drain.
    pub fn streams(&self) -> u16 {
        self.usage.guests().values().fold(0, |all, one| all.saturating_add(*one))
    }

    /// How often something was computed for other devices since the node began.
    pub fn answers(&self) -> u64 {
        self.usage.answers()
    }

    /// Who is helped now, and with how many streams.
    pub fn guests(&self) -> BTreeMap<PeerId, u16> {
        self.usage.guests()
    }

    /// Why nothing is lent though it is switched on.
    pub fn paused(&self) -> Option<PauseReason> {
        self.pause.reason().filter(|_| self.sharing == Sharing::On)
    }

    /// What the machine did when it was looked at last, unless that is long ago.
    pub fn conditions(&self, now: Instant) -> Option<Conditions> {
        self.pause.conditions(now)
    }

    /// What the workers hold.
    pub fn residency(&self) -> &Residency {
        &self.residency
    }

    /// The days on which something was lent, oldest first.
    pub fn lent_days(&self) -> Vec<LentDayView> {
        self.ledger.view()
    }

    /// This device has its own layers of `model` loaded as a guest would: where sharing ends
    /// meanwhile, the worker ends with it.
    pub fn note_served(&self, model: ModelDigest) {
        if let Some(terms) = &self.terms {
            terms.served.note(model);
        }
    }

    fn push(&mut self, effect: HostEffect<C>) {
        self.effects.push(effect);
    }

    fn run(&mut self, task: HostTask<C>) {
        self.effects.push(HostEffect::Run(task));
    }
}
