//! Other devices as a state machine: who is seen, paired, trusted and linked, and what they say.
//!
//! [`Devices::on`] turns a [`DeviceEvent`] into [`DeviceEffect`]s. It spawns nothing and sends
//! nothing. Of the disk it writes only the short list of paired devices, because a device counts as
//! paired once that is durable.

mod help;
mod joining;
mod linked;
mod pairing;
mod shown;
#[cfg(test)]
mod tests;
mod versions;
mod wake;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nook_api::views::{
    DeviceTrouble, DeviceView, PairedByCodeView, PairingView, Trouble, TroubleView, Trust,
};
use nook_api::{Answer, DeviceCommand, NodeError, PairTarget, sentence};
use nook_base::limits::ADVERT_LIFE_SILENCES;
use nook_base::{PeerId, WakeAddress};
use nook_find::{Sighting, Tag, WakeError};
use nook_host::HostEvent;
use nook_library::LibraryEvent;
use nook_link::KnownPeer;
use nook_link::pairing::{PairedPeer, PairingEvent};
use nook_requester::Event;
use nook_resources::adverts::Heard;
use nook_store::{HelpAnswer, Peer, Peers, PeersError, Settings};
use nook_trust::pairing::PairingCode;
use nook_trust::{DeviceName, Gate, TrustLevel};
use nook_wire::{Advert, DeviceFacts, HelpTerms, Message, Releases, VersionMismatch};
use tokio::sync::oneshot;

pub(crate) use help::Offered;
pub(crate) use joining::refusal;
pub(crate) use linked::{LinkMoved, LinkUp};
pub(crate) use pairing::{Window, resolve};
use shown::{bad, level};
pub(crate) use shown::{name_of, paired, trust};
use wake::Wakings;

/// What the problems of devices are noted under.
const REFUSED: &str = "refused";
const VERSION: &str = "version";
const TWIN: &str = "twin";
const PEERS: &str = "peers";

/// Shortest time between two moments in which new names of linked devices are taken.
const NAMES_PAUSE: Duration = Duration::from_secs(10);

/// A device that was seen by mDNS.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) name: Option<String>,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) pairing_port: Option<u16>,
    /// Seconds since 1970.
    pub(crate) at: u64,
}

/// Something that happened.
#[derive(Debug)]
pub(crate) enum DeviceEvent {
    /// The node has started, or the settings for names and trust were edited.
    SettingsChanged,
    /// A second has passed.
    Tick,
    /// A front end asks for something.
    Asked(DeviceCommand),
    /// Somebody appeared on the network, or left it.
    Sighted(Sighting),
    /// A link stands.
    LinkUp(LinkUp),
    /// It goes another way.
    LinkMoved(LinkMoved),
    /// It has ended.
    LinkDown(PeerId),
    /// A linked device says something that is no call.
    Said(PeerId, Message),
    /// A device that sleeps was not called.
    NotCalled(PeerId, WakeError),
    /// A paired device does not take this one.
    RefusedBy(PeerId),
    /// A paired device speaks no common version; with both sides' versions, where they are known.
    VersionMismatch(PeerId, Option<VersionMismatch>),
    /// The same id comes from two addresses at once.
    SameIdTwice { peer: PeerId, kept: SocketAddr, refused: SocketAddr },
    /// The pairing window that was asked for is open.
    WindowOpened(Window, Answer<PairingView>),
    /// Something happened at the pairing window with this number.
    Window(u64, PairingEvent),
    /// The other side of a pairing is proven; it is stored before anybody is told.
    Store(PairedPeer, oneshot::Sender<bool>),
}

/// What the machine sees of the node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) now: Instant,
    /// Seconds since 1970.
    pub(crate) unix: u64,
    pub(crate) settings: &'a Settings,
}

/// Something to be done, in this order.
#[derive(Debug)]
pub(crate) enum DeviceEffect {
    /// These devices may connect, and are dialled.
    Connect(Vec<KnownPeer>),
    /// A paired device was seen at these addresses; none: it is seen no more.
    Dial(PeerId, Vec<SocketAddr>),
    /// It may sleep: it is dialled at once, and called where it can be.
    Call(PeerId, Vec<WakeAddress>),
    /// Discovery knows it as reached.
    Reached(PeerId),
    /// The neighbourhood is told what this device is seen as.
    Announce,
    /// A pairing window is opened; whoever asked waits.
    OpenWindow(Answer<PairingView>),
    /// The pairing window is closed.
    CloseWindow,
    /// Pair with a device that shows a code.
    Join(Box<Join>),
    /// The gate is new: both sides, the links and the library act by it.
    TrustChanged,
    /// What replies may route by has changed.
    PublishBook,
    /// The lending side is told.
    Host(HostEvent),
    /// The asking side is told.
    Requester(Event),
    /// The library is told.
    Library(LibraryEvent),
    /// A linked device has this of a release of the program.
    Releases(PeerId, Releases),
    /// What still was to be said to a device is not said any more.
    DropOutbox(PeerId),
    /// The problems of one subject are these now.
    Note(&'static str, Vec<TroubleView>),
    /// The view is made current before anything that follows.
    Show,
    /// A pairing was stored, or was not.
    Stored(oneshot::Sender<bool>, bool),
    /// Sharing is switched on, and a front end answered with what came of it.
    ShareAndAnswer(Answer<()>),
    /// A front end is answered.
    Answer(Answer<()>, Result<(), NodeError>),
    /// A front end hears what came of waking a device.
    AnswerWoken(Answer<u32>, Result<u32, NodeError>),
    /// A front end is told the code.
    AnswerCode(Answer<PairingView>, Result<PairingView, NodeError>),
    /// A front end that wanted to pair is refused.
    AnswerJoin(Answer<DeviceView>, NodeError),
}

/// A pairing that this device begins.
#[derive(Debug)]
pub(crate) struct Join {
    pub(crate) target: PairTarget,
    pub(crate) code: PairingCode,
    /// Where the other device shows its code, as far as that is known.
    pub(crate) addresses: Option<Vec<SocketAddr>>,
    pub(crate) answer: Answer<DeviceView>,
}

/// Other devices.
#[derive(Debug)]
pub(crate) struct Devices {
    /// Who is paired, as it is on the disk.
    peers: Peers,
    gate: Gate,
    seen: BTreeMap<Tag, Seen>,
    /// Who is linked, with the version of its program.
    linked: BTreeMap<PeerId, String>,
    /// What each of them offers.
    heard: BTreeMap<PeerId, Heard>,
    /// Names that linked devices have given themselves since they linked, not taken yet.
    new_names: BTreeMap<PeerId, String>,
    /// When such names were taken last.
    names_taken: Option<Instant>,
    /// What the owners of linked devices allow, as these say.
    terms: BTreeMap<PeerId, HelpTerms>,
    /// What linked devices say that they are.
    facts: BTreeMap<PeerId, DeviceFacts>,
    /// How this device is woken from where each of them is.
    wake_from: BTreeMap<PeerId, Vec<WakeAddress>>,
    /// Those that are called now, or did not come.
    wakings: Wakings,
    window: Option<Window>,
    /// Who typed the code of the last window that ended well.
    paired_by_code: Option<PairedByCodeView>,
    /// What is wrong with single devices, by subject.
    troubles: BTreeMap<&'static str, BTreeMap<PeerId, TroubleView>>,
    effects: Vec<DeviceEffect>,
}

impl Devices {
    /// The devices that are paired; nothing is known yet of where they are.
    pub(crate) fn new(peers: Peers, settings: &Settings) -> Self {
        Self {
            gate: gate(&peers, settings),
            peers,
            seen: BTreeMap::new(),
            linked: BTreeMap::new(),
            heard: BTreeMap::new(),
            new_names: BTreeMap::new(),
            names_taken: None,
            terms: BTreeMap::new(),
            facts: BTreeMap::new(),
            wake_from: BTreeMap::new(),
            wakings: Wakings::default(),
            window: None,
            paired_by_code: None,
            troubles: BTreeMap::new(),
            effects: Vec::new(),
        }
    }

    /// Something happened; what is to be done about it, in order.
    pub(crate) fn on(
        &mut self,
        event: DeviceEvent,
        around: &Surroundings<'_>,
    ) -> Vec<DeviceEffect> {
        match event {
            DeviceEvent::SettingsChanged => self.peers_changed(around),
            DeviceEvent::Tick => {
                let before = self.heard.len();
                self.take_new_names(around.now);
                self.heard.retain(|_, heard| heard.is_fresh(around.now));
                if self.heard.len() != before {
                    self.push(DeviceEffect::PublishBook);
                }
                self.keep_wakes(around.now);
                self.go_on_waking(around);
            }
            DeviceEvent::Asked(command) => self.asked(command, around),
            DeviceEvent::Sighted(sighting) => self.on_sighting(sighting, around),
            DeviceEvent::LinkUp(up) => self.on_link_up(up, around),
            DeviceEvent::LinkMoved(moved) => self.on_link_moved(moved, around),
            DeviceEvent::LinkDown(peer) => self.on_link_down(peer),
            DeviceEvent::Said(peer, message) => self.on_message(peer, message, around),
            DeviceEvent::NotCalled(peer, why) => self.not_called(peer, &why, around.now),
            DeviceEvent::RefusedBy(peer) => self.on_refused_by(peer),
            DeviceEvent::VersionMismatch(peer, versions) => {
                let trouble = versions::trouble(&self.name_of(peer), versions);
                self.note_of(VERSION, peer, Some(trouble));
            }
            DeviceEvent::SameIdTwice { peer, kept, refused } => {
                let name = self.name_of(peer);
                let words = format!(
                    "Two computers present themselves as {name} ({kept} and {refused}): one was \
                     copied from the other. Remove Inglenook's data folder on the copy."
                );
                let (kept, refused) = (kept.to_string(), refused.to_string());
                let trouble = DeviceTrouble::Twice { kept, refused };
                self.note_of(TWIN, peer, Some(TroubleView::with(&name, words, trouble)));
            }
            DeviceEvent::WindowOpened(window, answer) => self.window_opened(window, answer, around),
            DeviceEvent::Window(number, event) => self.on_window(number, &event),
            DeviceEvent::Store(peer, stored) => {
                let durable = self.store(peer, around);
                // Whoever joins looks for the new device in the view as soon as it is stored.
                self.push(DeviceEffect::Show);
                self.push(DeviceEffect::Stored(stored, durable));
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// Who is paired.
    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Who may do what.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Who is seen on the network.
    pub(crate) fn seen(&self) -> &BTreeMap<Tag, Seen> {
        &self.seen
    }

    /// What linked devices offer.
    pub(crate) fn heard(&self) -> &BTreeMap<PeerId, Heard> {
        &self.heard
    }

    /// What a linked device says that it is.
    pub(crate) fn facts(&self, peer: PeerId) -> Option<&DeviceFacts> {
        self.facts.get(&peer)
    }

    fn push(&mut self, effect: DeviceEffect) {
        self.effects.push(effect);
    }

    /// Sets the problems of one subject; none clears it.
    fn note(&mut self, subject: &'static str, troubles: impl IntoIterator<Item = TroubleView>) {
        self.push(DeviceEffect::Note(subject, troubles.into_iter().collect()));
    }

    /// Sets or clears the problem that one device has with a subject. The others keep theirs.
    fn note_of(&mut self, subject: &'static str, peer: PeerId, trouble: Option<TroubleView>) {
        let of_subject = self.troubles.entry(subject).or_default();
        let before = match &trouble {
            Some(trouble) => of_subject.insert(peer, trouble.clone()),
            None => of_subject.remove(&peer),
        };
        if before != trouble {
            let all: Vec<TroubleView> = of_subject.values().cloned().collect();
            self.note(subject, all);
        }
    }

    /// Nothing is wrong any more with a device that is linked, or not paired any more.
    fn clear_troubles(&mut self, peer: PeerId) {
        [REFUSED, VERSION, TWIN].into_iter().for_each(|subject| self.note_of(subject, peer, None));
    }

    fn asked(&mut self, command: DeviceCommand, around: &Surroundings<'_>) {
        use DeviceCommand as Of;
        match command {
            Of::ShowCode { answer } => match self.pairing_view(around) {
                Some(open) => self.push(DeviceEffect::AnswerCode(answer, Ok(open))),
                None => self.push(DeviceEffect::OpenWindow(answer)),
            },
            Of::CancelPairing { answer } => {
                self.close_window();
                self.push(DeviceEffect::Answer(answer, Ok(())));
            }
            Of::Join { target, code, answer } => self.join(target, &code, answer),
            Of::SetTrust { device, trust, answer } => {
                let set = self.set_trust(&device, trust, around);
                self.push(DeviceEffect::Answer(answer, set));
            }
            Of::AnswerHelp { device, help, answer } => {
                self.answer_help(&device, help, answer, around);
            }
            Of::Wake { device, answer } => self.wake(&device, answer, around),
            Of::Forget { device, answer } => {
                let forgotten = self.forget(&device, around);
                self.push(DeviceEffect::Answer(answer, forgotten));
            }
        }
    }

    fn on_sighting(&mut self, sighting: Sighting, around: &Surroundings<'_>) {
        match sighting {
            Sighting::Seen { tag, name, addresses, pairing_port, .. } => {
                if let Some(peer) = self.paired_by_tag(tag) {
                    self.push(DeviceEffect::Dial(peer, addresses.clone()));
                }
                let at = around.unix;
                self.seen.insert(tag, Seen { name, addresses, pairing_port, at });
            }
            Sighting::Gone { tag } => {
                if let Some(peer) = self.paired_by_tag(tag) {
                    self.push(DeviceEffect::Dial(peer, Vec::new()));
                }
                self.seen.remove(&tag);
            }
        }
    }

    /// A device does not know this one any more. Logged and told once, until it takes it again.
    fn on_refused_by(&mut self, peer: PeerId) {
        if self.troubles.get(REFUSED).is_some_and(|known| known.contains_key(&peer)) {
            return;
        }
        tracing::warn!(?peer, "it does not know this device any more: pair them again");
        let name = self.name_of(peer);
        let words = format!("{name} does not know this device any more: pair them again.");
        let trouble = TroubleView::with(&name, words, DeviceTrouble::Forgot);
        self.note_of(REFUSED, peer, Some(trouble));
    }

    /// Takes what linked devices call themselves by now. A name is written to the disk, so a device
    /// that says one name after the other has it written no more often than [`NAMES_PAUSE`].
    fn take_new_names(&mut self, now: Instant) {
        let is_early = |taken: Instant| now.saturating_duration_since(taken) < NAMES_PAUSE;
        if self.new_names.is_empty() || self.names_taken.is_some_and(is_early) {
            return;
        }
        self.names_taken = Some(now);
        for (peer, name) in std::mem::take(&mut self.new_names) {
            self.take_name(peer, &name);
        }
    }

    /// A device that was renamed says so, at once and when it connects.
    fn take_name(&mut self, peer: PeerId, said: &str) {
        let name = DeviceName::sanitised(said);
        if self.peers.get(peer).is_some_and(|known| known.name != name) {
            let renamed = self.peers.rename(peer, name);
            self.note(PEERS, renamed.err().map(|error| not_saved(&error)));
            self.push(DeviceEffect::PublishBook);
        }
    }

    fn on_message(&mut self, peer: PeerId, message: Message, around: &Surroundings<'_>) {
        match message {
            Message::Place(wish) => self.push(DeviceEffect::Host(HostEvent::Place { peer, wish })),
            Message::Placed(placed) => {
                self.push(DeviceEffect::Requester(Event::Placed(peer, placed)));
            }
            Message::DropKept(kept) => {
                self.push(DeviceEffect::Host(HostEvent::DropKept { peer, kept }));
            }
            // Said again on a standing link: it was renamed. Taken at the next look at the clock.
            Message::Hello(hello) => {
                if self.linked.contains_key(&peer) {
                    self.new_names.insert(peer, hello.device_name);
                }
            }
            Message::Advert(advert) => self.on_advert(peer, advert, around),
            Message::OffloadOffers(offers) => {
                self.push(DeviceEffect::Requester(Event::OffloadOffers(peer, offers)));
            }
            Message::Have(have) => {
                self.push(DeviceEffect::Library(LibraryEvent::Have(peer, have)));
            }
            Message::Releases(releases) => {
                if self.linked.contains_key(&peer) {
                    self.push(DeviceEffect::Releases(peer, releases));
                }
            }
            Message::HelpTerms(terms) => {
                if !terms.asks {
                    self.push(DeviceEffect::Host(HostEvent::AsksNoMore(peer)));
                }
                self.take_terms(peer, terms, around);
            }
            Message::DeviceFacts(facts) => {
                if self.linked.contains_key(&peer) {
                    self.facts.insert(peer, *facts);
                }
            }
            Message::Draining { .. } => {
                self.heard.remove(&peer);
                self.push(DeviceEffect::PublishBook);
            }
            other => {
                tracing::debug!(?peer, message = ?nook_wire::WireMessage::kind(&other), "ignored")
            }
        }
    }

    fn on_advert(&mut self, peer: PeerId, advert: Advert, around: &Surroundings<'_>) {
        let offer =
            |advert: &Advert| (advert.shards.clone(), advert.memory_free_bytes, advert.fetch_bytes);
        let before = self.heard.get(&peer).map(|heard| offer(&heard.advert));
        if before != Some(offer(&advert)) {
            self.push(DeviceEffect::Requester(Event::OffersChanged));
        }
        let silent_max = around.settings.inference.shard_health_timeout;
        let life = silent_max.saturating_mul(ADVERT_LIFE_SILENCES);
        let app_version = self.linked.get(&peer).cloned().unwrap_or_default();
        let heard = Heard { advert, at: around.now, life, app_version };
        self.heard.insert(peer, heard);
        self.push(DeviceEffect::PublishBook);
    }

    /// Who is paired, or how far they are trusted, has changed.
    fn peers_changed(&mut self, around: &Surroundings<'_>) {
        self.gate = gate(&self.peers, around.settings);
        self.push(DeviceEffect::TrustChanged);
        let connectable = self.peers.list().iter().filter(|peer| peer.level.may_connect());
        let known = connectable
            .map(|peer| KnownPeer { id: peer.id, addresses: peer.addresses.clone() })
            .collect();
        self.push(DeviceEffect::Connect(known));
        let seen: Vec<_> = self
            .seen
            .iter()
            .filter_map(|(tag, seen)| Some((self.paired_by_tag(*tag)?, seen.addresses.clone())))
            .collect();
        for (peer, addresses) in seen {
            self.push(DeviceEffect::Dial(peer, addresses));
        }
        self.push(DeviceEffect::Host(HostEvent::AdvertsChanged));
    }

    /// Stores a device that was just proven; whether it is durable.
    fn store(&mut self, peer: PairedPeer, around: &Surroundings<'_>) -> bool {
        let id = peer.id;
        let known = self.peers.get(id);
        let level = known.map_or(TrustLevel::Guest, |known| known.level.max(TrustLevel::Guest));
        let asks = level == TrustLevel::Guest;
        let stored = self.peers.add(Peer {
            id,
            name: peer.name,
            level,
            addresses: peer.addresses,
            paired_at: around.unix,
            last_seen: Some(around.unix),
            help: if asks {
                HelpAnswer::Open
            } else {
                known.map_or(HelpAnswer::Open, |it| it.help)
            },
            wake: known.map_or_else(Vec::new, |it| it.wake.clone()),
            woke_seconds: known.and_then(|it| it.woke_seconds),
        });
        match stored {
            Ok(()) => {
                tracing::info!(peer = ?id, "paired");
                self.clear_troubles(id);
                self.peers_changed(around);
                true
            }
            Err(error) => {
                tracing::error!(%error, "a new device could not be saved");
                self.note(PEERS, [not_saved(&error)]);
                false
            }
        }
    }

    /// Sets how far a device is trusted.
    fn set_trust(
        &mut self,
        device: &str,
        trust: Trust,
        around: &Surroundings<'_>,
    ) -> Result<(), NodeError> {
        let id = paired(&self.peers, device)?;
        self.peers
            .set_level(id, level(trust), HelpAnswer::ByTrust)
            .map_err(|error| bad(sentence(&error.to_string())))?;
        self.peers_changed(around);
        Ok(())
    }

    /// Unpairs a device.
    fn forget(&mut self, device: &str, around: &Surroundings<'_>) -> Result<(), NodeError> {
        let id = paired(&self.peers, device)?;
        self.peers.remove(id).map_err(|error| bad(sentence(&error.to_string())))?;
        self.heard.remove(&id);
        self.stop_waking(id);
        self.clear_troubles(id);
        self.push(DeviceEffect::Requester(Event::Unpaired(id)));
        self.push(DeviceEffect::DropOutbox(id));
        self.peers_changed(around);
        Ok(())
    }

    fn paired_by_tag(&self, tag: Tag) -> Option<PeerId> {
        self.peers.list().iter().map(|peer| peer.id).find(|id| tag.matches(id))
    }

    /// What a device is called.
    pub(crate) fn name_of(&self, peer: PeerId) -> String {
        name_of(&self.peers, peer)
    }
}

/// The gate over the paired devices as they are now.
fn gate(peers: &Peers, settings: &Settings) -> Gate {
    Gate::new(settings.gate, peers.levels()).helping_only(peers.only_helped())
}

/// The list of paired devices is not on the disk as it is here.
fn not_saved(error: &PeersError) -> TroubleView {
    TroubleView::of_error(error, Trouble::DevicesNotSaved { reason: error.to_string().into() })
}
