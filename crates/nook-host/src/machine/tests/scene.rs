//! A host with one device of each trust level around it, and its effects as lines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nook_base::{ErrorCode, LayerRange, clock};
use nook_model::ModelFile;
use nook_shard::WorkerStatus;
use nook_store::{AuditList, Settings};
use nook_trust::{Gate, TrustLevel};
use nook_wire::{Advert, Have, HaveModel, OffloadOffers, PlaceState, Placed, PlacementRequest};
use tokio::sync::watch;

use super::super::*;
use crate::residency::Surveyed;
use crate::terms::{CopyPass, Guest};
use nook_resources::adverts::Heard;
use nook_resources::catalogue::{Entry, PartialEntry, PartialModels};
use nook_resources::estimates::Estimates;
use nook_resources::file_place::FilePlace;
use nook_resources::open_models::Listed;

pub(super) type Effect = HostEffect<&'static str>;
pub(super) type Event = HostEvent<&'static str>;

pub(super) const OWN: PeerId = PeerId([1; 32]);
pub(super) const TRUSTED: PeerId = PeerId([2; 32]);
pub(super) const GUEST: PeerId = PeerId([3; 32]);
pub(super) const STRANGER: PeerId = PeerId([4; 32]);
pub(super) const ME: PeerId = PeerId([9; 32]);

/// The model that each device brings along; it has six layers.
pub(super) const EMBER: ModelDigest = ModelDigest([11; 32]);
/// The same file as a model that the owner has added.
pub(super) const AMBER: ModelDigest = ModelDigest([12; 32]);

/// Streams that the owner lends at once.
pub(super) const STREAMS: u32 = 2;

pub(super) struct Scene {
    pub(super) host: Host<&'static str>,
    pub(super) settings: Settings,
    pub(super) levels: BTreeMap<PeerId, TrustLevel>,
    pub(super) models: Vec<Entry>,
    pub(super) partial: Partial,
    pub(super) heard: BTreeMap<PeerId, Heard>,
    pub(super) estimates: Estimates,
    pub(super) linked: Vec<PeerId>,
    pub(super) replies: usize,
    pub(super) now: Instant,
    pub(super) unix_seconds: u64,
    pub(super) today: u32,
}

impl Scene {
    /// A host that was just started with sharing switched on, and one trusted device linked to it.
    pub(super) fn new() -> Self {
        let mut settings = Settings::default();
        settings.inference.enabled = true;
        settings.host.serve_shards = true;
        settings.host.max_concurrent_streams = STREAMS;
        settings.host.max_lent_memory = Some(nook_store::Megabytes(1_073));
        settings.network.give_models = true;
        let pause = &mut settings.host.pause;
        (pause.on_battery, pause.in_full_screen) = (true, false);
        (pause.when_busy_percent, pause.quiet_hours, pause.until) = (None, None, 0);
        Self {
            host: Host::new(LentDays::default(), audit(), CancellationToken::new()),
            settings,
            levels: BTreeMap::from([
                (OWN, TrustLevel::Own),
                (TRUSTED, TrustLevel::Trusted),
                (GUEST, TrustLevel::Guest),
            ]),
            models: vec![entry(EMBER, "ember"), entry(AMBER, "amber")],
            partial: Partial::default(),
            heard: BTreeMap::new(),
            estimates: Estimates::default(),
            linked: vec![TRUSTED],
            replies: 0,
            now: clock::now(),
            unix_seconds: 1_000_000,
            today: 20_000,
        }
    }

    /// The same, and it lends.
    pub(super) fn sharing() -> Self {
        let mut scene = Self::new();
        scene.effects(Event::SharingSet);
        scene
    }

    pub(super) fn effects(&mut self, event: Event) -> Vec<Effect> {
        let gate = Gate::new(self.settings.gate, self.levels.clone());
        let context = Surroundings {
            now: self.now,
            unix_seconds: self.unix_seconds,
            today: self.today,
            me: ME,
            settings: &self.settings,
            memory_total: Some(16 << 30),
            gate: &gate,
            models: &self.models,
            partial: &self.partial,
            heard: &self.heard,
            estimates: &self.estimates,
            linked: &self.linked,
            replies: self.replies,
            fresh_key: nook_base::Sensitive([7; 32]),
        };
        self.host.on(event, &context)
    }

    /// What is to be done about `event`, a line for each effect.
    pub(super) fn on(&mut self, event: Event) -> Vec<String> {
        self.effects(event).iter().map(line).collect()
    }

    /// The same without what other devices are told about sharing and giving.
    pub(super) fn does(&mut self, event: Event) -> Vec<String> {
        let is_told =
            |line: &String| [" hears: ", "from now on given: "].iter().any(|it| line.contains(it));
        self.on(event).into_iter().filter(|line| !is_told(line)).collect()
    }

    /// What `peer` is told by the effects of `event`.
    pub(super) fn tells(&mut self, peer: PeerId, event: Event) -> Vec<String> {
        let told = self.effects(event);
        let of_peer = told.iter().filter(|it| matches!(it, HostEffect::Tell(to, _) if *to == peer));
        of_peer.map(line).collect()
    }

    /// Changes the settings as their file does.
    pub(super) fn set(&mut self, change: impl FnOnce(&mut Settings)) -> Vec<String> {
        let before = Box::new(self.settings.clone());
        change(&mut self.settings);
        self.does(Event::SettingsChanged { before })
    }

    pub(super) fn passes(&mut self, time: Duration) {
        self.now += time;
        self.unix_seconds += time.as_secs();
    }

    /// A call of `peer`, which is served: what it is served with.
    pub(super) fn served(&mut self, peer: PeerId) -> (Guest, Terms) {
        let effects = self.effects(Event::Call { peer, call: "a call" });
        let served = effects.into_iter().find_map(|effect| match effect {
            HostEffect::Run(HostTask::Serve { guest, terms, .. }) => Some((*guest, *terms)),
            _ => None,
        });
        served.expect("it is served")
    }
}

fn audit() -> Audit {
    Audit::new(AuditList::default(), watch::channel(Arc::default()).1)
}

/// What the library has beside whole models, and could take.
#[derive(Debug, Default)]
pub(super) struct Partial {
    pub(super) here: Vec<PartialEntry>,
    pub(super) room: u64,
    pub(super) given: Vec<HaveModel>,
    pub(super) percent: u8,
}

impl PartialModels for Partial {
    fn entries(&self) -> &[PartialEntry] {
        &self.here
    }

    fn room(&self) -> u64 {
        self.room
    }

    fn given(&self, model: ModelDigest) -> Result<HaveModel, ErrorCode> {
        let given = self.given.iter().find(|have| have.model == model);
        given.cloned().ok_or(ErrorCode::FetchFailed)
    }

    fn percent(&self, _: ModelDigest) -> u8 {
        self.percent
    }
}

pub(super) fn entry(digest: ModelDigest, name: &str) -> Entry {
    let path =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf"));
    let file = ModelFile::open(&path).expect("the built-in model");
    let listed = Listed { name: name.to_owned(), digest, path: FilePlace::new(path) };
    let built_in = digest == EMBER;
    Entry { listed, file, built_in, added: 0, owned: false, ends_only: false }
}

pub(super) fn wish(start: u32, end: u32) -> PlacementRequest {
    PlacementRequest { model: EMBER, layers: LayerRange::new(start, end).expect("in order") }
}

/// What a worker says that holds these layers of ember for other devices.
pub(super) fn status(held: LayerRange, sessions: u16, guest_sessions: u16) -> WorkerStatus {
    WorkerStatus {
        held: vec![held],
        sessions,
        guest_sessions,
        backend: nook_base::Backend::Native,
        ..WorkerStatus::default()
    }
}

/// What the workers say: this one for ember, on a machine with plenty of memory.
pub(super) fn surveyed(status: WorkerStatus) -> Event {
    let (models, cards) = (vec![(EMBER, Some(status))], BTreeMap::new());
    Event::Surveyed(Surveyed { models, available: 8 << 30, cards, watches_cards: false })
}

fn name(peer: PeerId) -> &'static str {
    match peer {
        OWN => "own",
        TRUSTED => "trusted",
        GUEST => "guest",
        STRANGER => "stranger",
        _ => "somebody",
    }
}

fn model(digest: ModelDigest) -> &'static str {
    match digest {
        EMBER => "ember",
        AMBER => "amber",
        _ => "some model",
    }
}

fn models(digests: impl IntoIterator<Item = ModelDigest>) -> String {
    digests.into_iter().map(model).collect::<Vec<_>>().join(", ")
}

fn line(effect: &Effect) -> String {
    match effect {
        HostEffect::Tell(peer, message) => format!("{} hears: {}", name(*peer), said(message)),
        HostEffect::SayNow => "what waits is said now".to_owned(),
        HostEffect::StopOwnProbe => "stop measuring".to_owned(),
        HostEffect::FindLink { peer, .. } => format!("find the link to {}", name(*peer)),
        HostEffect::NoLink { code, .. } => format!("no link: {code:?}"),
        HostEffect::Measured { model: of, visits } => {
            format!("measured: {} steps of {}", visits.len(), model(*of))
        }
        HostEffect::LimitWorkers(limits, shares) => {
            format!("limit workers: {} streams, {} bytes", limits.streams_max, shares.rest.memory)
        }
        HostEffect::DropKept(peer, _) => format!("drop a conversation of {}", name(*peer)),
        HostEffect::Fetch { model: of, layers, from, .. } => {
            format!("fetch {layers} of {}, first from {}", model(*of), name(*from))
        }
        HostEffect::StopFetching(of) => format!("stop fetching {}", model(*of)),
        HostEffect::ForgetFetched(of) => format!("forget what came of {}", model(*of)),
        HostEffect::Needed(of) => format!("of use: {}", models(of.iter().copied())),
        HostEffect::WakeUp => "look for devices".to_owned(),
        HostEffect::Run(task) => task_line(task),
    }
}

fn task_line(task: &HostTask<&'static str>) -> String {
    match task {
        HostTask::Serve { guest, call, .. } => format!(
            "serve {call} of {}; whole requests: {}; copies: {}",
            name(guest.admitted.peer()),
            if guest.own.is_some() { "yes" } else { "no" },
            copies(&guest.copies)
        ),
        HostTask::Refuse { peer, copies: pass, call, error, .. } => {
            let copies = copies(pass);
            format!("refuse {call} of {}: {:?}; copies: {copies}", name(*peer), error.code)
        }
        HostTask::Answer { call, error } => format!("refuse {call}: {:?}", error.code),
        HostTask::Join { requester, carrier, call, .. } => {
            format!("join {call} of {} to a call of {}", name(*carrier), name(requester.peer()))
        }
        HostTask::Drain { streams_max, .. } => format!("drain {streams_max} streams"),
        HostTask::DrainForSleep { streams_max, .. } => {
            format!("drain {streams_max} streams, then say ready")
        }
        HostTask::Free { models: of, force: true } => {
            format!("free {}", models(of.iter().copied()))
        }
        HostTask::Free { models: of, force: false } => {
            format!("free {} unless in use", models(of.iter().copied()))
        }
        HostTask::Load { job, .. } => {
            let (peer, layers) = (name(job.admitted.peer()), job.wish.layers);
            match job.free_first.as_slice() {
                [] => format!("load {layers} for {peer}"),
                first => format!("free {first:?} and load {layers} for {peer}"),
            }
        }
        HostTask::Release { model: of, ranges, .. } => {
            let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
            format!("release {} of {}", ranges.join(", "), model(*of))
        }
        HostTask::ForgetKept(None) => "forget what is kept for others".to_owned(),
        HostTask::ForgetKept(Some(peer)) => format!("forget what is kept for {}", name(*peer)),
        HostTask::AdvertiseAfter(time) => format!("advertise in {} ms", time.as_millis()),
        HostTask::Give(given) => {
            format!("from now on given: {}", models(given.iter().map(|it| it.model)))
        }
        HostTask::Survey => "ask the workers".to_owned(),
        HostTask::SaveLedger(days) => {
            let days: Vec<_> = days.days().iter().map(|it| (it.day, it.positions)).collect();
            format!("save {days:?}")
        }
        HostTask::SaveAudit(list) => format!("save {} entries", list.entries().len()),
        HostTask::LookAtMachine => "look at the machine".to_owned(),
        HostTask::WatchSleep(sharing) => format!("watch for sleeps: {sharing:?}"),
    }
}

fn copies(pass: &Result<CopyPass, nook_wire::WireError>) -> String {
    match pass {
        Ok(_) => "yes".to_owned(),
        Err(error) => format!("{:?}", error.code),
    }
}

fn said(message: &Message) -> String {
    match message {
        Message::Advert(Advert { sharing: false, .. }) => "nothing is shared".to_owned(),
        Message::Advert(advert) => {
            let shards = advert.shards.iter();
            let shards: Vec<String> =
                shards.map(|it| format!("{} {}", model(it.model), it.layers)).collect();
            format!("{}; {} streams free", shards.join(", "), advert.streams_free)
        }
        Message::OffloadOffers(OffloadOffers { offers }) => {
            format!("whole: {}", models(offers.iter().map(|it| it.model)))
        }
        Message::Have(Have { models: have }) => {
            format!("given: {}", models(have.iter().map(|it| it.model)))
        }
        Message::Placed(Placed { layers, state, .. }) => match state {
            PlaceState::Loading { percent } => format!("{layers} {percent} %"),
            PlaceState::Fetching { percent } => format!("{layers} fetched {percent} %"),
            PlaceState::Held => format!("{layers} held"),
            PlaceState::Refused { code } => format!("{layers} {code:?}"),
        },
        other => format!("{other:?}"),
    }
}
