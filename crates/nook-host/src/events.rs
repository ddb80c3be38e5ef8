//! What happens to the lending side, what it knows of the rest of the node, and what it wants done.
//!
//! The state machine turns a [`HostEvent`] and a [`Surroundings`] into [`HostEffect`]s. The node
//! performs them in their order: most are its own (tell a device, write a setting), those of
//! [`HostTask`] are the runner's. `C` is a call of another device; only tests use another type than
//! [`Call`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nook_base::{ErrorCode, LayerRange, ModelDigest, PeerId, Sensitive};
use nook_link::Link;
use nook_machine::Conditions;
use nook_mux::Call;
use nook_pipeline::HopVisit;
use nook_shard::WorkerLimits;
use nook_store::{AuditList, AuditWhy, LentDays, Settings};
use nook_trust::purpose::Lend;
use nook_trust::{Admitted, Gate, Ticket, TicketClaim};
use nook_wire::{KeptHistory, Message, PlacementRequest, WireError};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::leases::{LeaseJob, Progress};
use super::residency::Surveyed;
use super::terms::{CopyPass, Given, Guest, NamedCalls, Terms};
use nook_api::Sharing;
use nook_resources::adverts::Heard;
use nook_resources::catalogue::{Entry, PartialModels};
use nook_resources::estimates::Estimates;
use nook_resources::workers::MemoryShares;

/// Something that happened.
#[derive(Debug)]
pub enum HostEvent<C = Call<Message>> {
    /// The node has started, or the owner has switched sharing: what is lent is worked out anew.
    SharingSet,
    /// The owner's own pause was set or taken back.
    PauseSet,
    /// The owner wants all memory back that no reply of this device needs.
    MemoryWanted {
        /// Whether guests were served until now.
        guests: Guests,
    },
    /// The settings were edited.
    SettingsChanged {
        /// The settings before.
        before: Box<Settings>,
    },
    /// Devices were paired, unpaired or trusted differently: the gate is new.
    PeersChanged,
    /// A device says that it would not use what this one lends.
    AsksNoMore(PeerId),
    /// Models came or went.
    ModelsChanged,
    /// What the adverts say is to be said now.
    AdvertsChanged,
    /// A device is linked.
    LinkUp(PeerId),
    /// Its link is gone.
    LinkDown(PeerId),
    /// A device begins a call.
    Call {
        /// The device.
        peer: PeerId,
        /// Its call.
        call: C,
    },
    /// A device brings steps in another's name.
    Relay {
        /// Who brings them.
        carrier: PeerId,
        /// Whose they are, with a signature.
        ticket: Box<Ticket>,
        /// Its call.
        call: C,
    },
    /// A guest's results are to go on to this device.
    NextHost {
        /// The device.
        peer: PeerId,
        /// Who waits for it.
        answer: oneshot::Sender<Result<Link, ErrorCode>>,
    },
    /// A device asks this one to hold layers, or gives them back.
    Place {
        /// The device.
        peer: PeerId,
        /// The layers.
        wish: PlacementRequest,
    },
    /// Layers that this device set out to fetch have come, or will not.
    Fetched {
        /// Of this model.
        model: ModelDigest,
        /// Which.
        layers: LayerRange,
        /// What became of them.
        outcome: Fetched,
    },
    /// A device will not go on with a conversation.
    DropKept {
        /// The device.
        peer: PeerId,
        /// Its name.
        kept: KeptHistory,
    },
    /// A guest's stream began or ended.
    StreamChanged,
    /// The pause between two adverts is over.
    AdvertDue,
    /// What was lent of these models has drained.
    Drained(BTreeSet<ModelDigest>),
    /// The workers have said what they hold.
    Surveyed(Surveyed),
    /// The workers took no new limits: too much waits there.
    LimitsNotTaken,
    /// Layers of a lease come into memory, are there, or will not be.
    Placing(Progress),
    /// Layers that are to be freed once no conversation is held.
    Owed {
        /// Of this model.
        model: ModelDigest,
        /// Which.
        layers: LayerRange,
    },
    /// Steps of guests were answered.
    Measured {
        /// Of this model.
        model: ModelDigest,
        /// The steps, with how long each took.
        visits: Vec<HopVisit>,
    },
    /// The machine was looked at; without conditions the look failed.
    Looked(Option<Conditions>),
    /// The machine is about to sleep, and waits a moment for `ready`.
    SleepNear {
        /// Told when nothing of others runs here.
        ready: oneshot::Sender<()>,
    },
    /// It is awake again.
    SleepOver,
    /// The owner wants the list forgotten of what others asked.
    AuditCleared,
    /// A reply of this device ended.
    ReplyEnded,
    /// A second has passed.
    Tick {
        /// Whether this device knows how fast it computes what it lends.
        own_speed: OwnSpeed,
    },
    /// The node leaves: guests finish their steps.
    Leave,
    /// Nothing is computed for others any more.
    Left,
}

/// What became of layers that were to be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetched {
    /// They are here.
    Present,
    /// Fetching them was stopped.
    Stopped,
    /// They did not come, for this reason.
    Failed(ErrorCode),
}

/// Whether guests were served until now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guests {
    /// They were: memory is freed when their steps are done.
    Draining,
    /// They were not.
    None,
}

/// Whether this device knows how fast it computes what it lends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnSpeed {
    /// It does.
    Known,
    /// It does not, and would measure itself if the machine were at rest.
    Unknown,
}

/// What the lending side reads of the rest of the node.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// Now.
    pub now: Instant,
    /// The wall clock, in seconds since 1970.
    pub unix_seconds: u64,
    /// The day of the calendar here.
    pub today: u32,
    /// This device.
    pub me: PeerId,
    /// What the owner chose.
    pub settings: &'a Settings,
    /// All memory of the machine, if the system says.
    pub memory_total: Option<u64>,
    /// Who may what.
    pub gate: &'a Gate,
    /// The models of this device.
    pub models: &'a [Entry],
    /// What is here of models beside those, and could be fetched.
    pub partial: &'a dyn PartialModels,
    /// What other devices offer.
    pub heard: &'a BTreeMap<PeerId, Heard>,
    /// How fast this device computes.
    pub estimates: &'a Estimates,
    /// Devices with a link.
    pub linked: &'a [PeerId],
    /// Replies of this device under way, and requests for vectors.
    pub replies: usize,
    /// Random bytes that nobody has used before.
    pub fresh_key: Sensitive<[u8; 32]>,
}

impl<'a> Surroundings<'a> {
    /// The models of which all is here.
    pub(crate) fn whole(&self) -> impl Iterator<Item = &'a Entry> {
        self.models.iter().filter(|entry| !entry.ends_only)
    }

    /// Every model of which something is here, the whole ones first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &'a Entry> {
        self.whole().chain(self.partial.entries().iter().map(|partial| &partial.entry))
    }
}

/// Something that is to be done.
#[derive(Debug)]
pub enum HostEffect<C = Call<Message>> {
    /// Say this to a device, in place of what was to be said of the same thing.
    Tell(PeerId, Message),
    /// Say at once what waits to be said.
    SayNow,
    /// Nothing is measured on this device while it computes for others.
    StopOwnProbe,
    /// Answer with the link to this device, which may compute for this one.
    FindLink {
        /// The device.
        peer: PeerId,
        /// Who waits for it.
        answer: oneshot::Sender<Result<Link, ErrorCode>>,
    },
    /// Answer that there is no way to that device.
    NoLink {
        /// Who waits for it.
        answer: oneshot::Sender<Result<Link, ErrorCode>>,
        /// Why.
        code: ErrorCode,
    },
    /// Learn from these steps of guests how fast this device is.
    Measured {
        /// Of this model.
        model: ModelDigest,
        /// The steps, with how long each took.
        visits: Vec<HopVisit>,
    },
    /// Tell the workers what they may take.
    LimitWorkers(WorkerLimits, MemoryShares),
    /// The worker drops what it keeps of a conversation of this device.
    DropKept(PeerId, KeptHistory),
    /// Fetch these layers, and tell what became of it with [`HostEvent::Fetched`].
    Fetch {
        /// Of this model.
        model: ModelDigest,
        /// What it is called, for the log.
        name: String,
        /// Which.
        layers: LayerRange,
        /// The device that asks for them; it is asked for their weights before others.
        from: PeerId,
    },
    /// Layers of this model are fetched no more; what came stays.
    StopFetching(ModelDigest),
    /// What came of this model goes: somebody said no before it was complete, or the disk is full.
    ForgetFetched(ModelDigest),
    /// Of models of which only some layers are here, these are of use now.
    Needed(BTreeSet<ModelDigest>),
    /// Look for devices that have hung up while the machine slept.
    WakeUp,
    /// For the runner.
    Run(HostTask<C>),
}

/// Something that takes a while, or that the runner holds.
#[derive(Debug)]
pub enum HostTask<C = Call<Message>> {
    /// Serve the call of an admitted device.
    Serve { guest: Box<Guest>, call: C, terms: Box<Terms> },
    /// Refuse the call of a device that may not use layers here, unless it begins with something
    /// else.
    Refuse {
        peer: PeerId,
        copies: Result<CopyPass, WireError>,
        call: C,
        error: WireError,
        why: AuditWhy,
    },
    /// Refuse a call whose beginning was read.
    Answer { call: C, error: WireError },
    /// Join a carrier's call to the call that the ticket names.
    Join {
        requester: Admitted<Lend>,
        carrier: PeerId,
        claim: TicketClaim,
        call: C,
        named: NamedCalls,
    },
    /// Wait until nothing runs under these terms, and say so.
    Drain { terms: Box<Terms>, streams_max: u16 },
    /// Wait until nothing of others runs here and they know it, and say `ready`.
    DrainForSleep { streams: Arc<Semaphore>, streams_max: u16, ready: oneshot::Sender<()> },
    /// End the workers of these models; with `force` whatever they do.
    Free { models: BTreeSet<ModelDigest>, force: bool },
    /// Bring the layers of a lease into memory, until `cut`.
    Load { job: Box<LeaseJob>, cut: CancellationToken },
    /// Free these layers of other devices, until somebody asks for some of them.
    Release { model: ModelDigest, ranges: Vec<LayerRange>, until: CancellationToken },
    /// Nothing is kept any more for this device, or for all other devices.
    ForgetKept(Option<PeerId>),
    /// Say [`HostEvent::AdvertDue`] after this time.
    AdvertiseAfter(Duration),
    /// From now on these models are given.
    Give(Arc<Vec<Given>>),
    /// Ask the workers what they hold.
    Survey,
    /// Write down how much was lent.
    SaveLedger(LentDays),
    /// Write down what others asked.
    SaveAudit(AuditList),
    /// Look at the machine.
    LookAtMachine,
    /// While the owner shares, wait for sleeps of the machine.
    WatchSleep(Sharing),
}
