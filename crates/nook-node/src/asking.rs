//! Where the node meets its asking side: what others own is lent to it for one event, and its
//! effects are carried out.

use std::collections::BTreeMap;
use std::sync::Arc;

use nook_base::{PeerId, clock};
use nook_machine::Conditions;
use nook_store::{Measured, MeasuredFile, Peers, SettingsFile};
use nook_trust::Purpose;
use nook_wire::{KeptHistory, Message};
use tokio::sync::oneshot;

use crate::chats::Naming;
use crate::devices::DeviceEvent;
use crate::state::State;
use nook_api::views::TroubleView;
use nook_api::{
    Answer, Asker, Counted, DeviceCommand, EmbedRequest, Embedded, GenerateRequest, Reply,
    StartedTurn, Turn,
};
use nook_host::HostEvent;
use nook_requester::Me;
use nook_requester::{Effect, Event, Lending, LentLayers, Surroundings};
use nook_resources::adverts::{AdvertBook, Heard};
use nook_resources::catalogue::Entry;

/// What of the node the asking side sees.
struct Parts<'a> {
    me: &'a Me,
    settings: &'a SettingsFile,
    models: &'a [Entry],
    book: Arc<AdvertBook>,
    peers: &'a Peers,
    heard: &'a BTreeMap<PeerId, Heard>,
    lent: Option<OwnLending>,
}

/// What is lent, and whether this device may measure itself.
struct OwnLending {
    lent: Vec<LentLayers>,
    is_at_rest: bool,
    memory_free: u64,
}

impl Parts<'_> {
    fn show<T>(&self, look: impl FnOnce(&Surroundings<'_>) -> T) -> T {
        let is_paired = |peer| self.peers.get(peer).is_some();
        look(&Surroundings {
            now: clock::now(),
            unix: clock::unix_seconds(),
            today: nook_machine::day_of_calendar(),
            me: self.me,
            settings: self.settings.settings(),
            models: self.models,
            book: &self.book,
            heard: self.heard,
            is_paired: &is_paired,
            lending: self.lent.as_ref().map(|own| Lending {
                lent: &own.lent,
                is_at_rest: own.is_at_rest,
                memory_free: own.memory_free,
            }),
        })
    }
}

impl State {
    /// Something happened to the asking side.
    pub(crate) fn ask(&mut self, event: Event) {
        for effect in self.ask_quietly(event) {
            self.perform(effect);
        }
    }

    /// The same, with the effects left to the caller.
    pub(crate) fn ask_quietly(&mut self, event: Event) -> Vec<Effect> {
        let lent = self.own_lending();
        let Self { requester, me, settings, library, book, devices, .. } = self;
        let book = book.borrow().clone();
        let (peers, heard) = (devices.peers(), devices.heard());
        let parts = Parts { me, settings, models: library.entries(), book, peers, heard, lent };
        parts.show(|around| requester.on(event, around))
    }

    /// What the asking side sees now.
    pub(crate) fn around<T>(&self, look: impl FnOnce(&Surroundings<'_>) -> T) -> T {
        let Self { me, settings, library, book, devices, .. } = self;
        let (book, lent) = (book.borrow().clone(), self.own_lending());
        let (peers, heard) = (devices.peers(), devices.heard());
        Parts { me, settings, models: library.entries(), book, peers, heard, lent }.show(look)
    }

    fn own_lending(&self) -> Option<OwnLending> {
        if !self.host.is_lending() {
            return None;
        }
        let layers = |lent: &nook_host::Lent| LentLayers { model: lent.model, layers: lent.layers };
        let conditions = self.host.conditions(clock::now());
        let at_rest = conditions.is_some_and(|conditions| is_at_rest(&conditions));
        Some(OwnLending {
            lent: self.host.lent().iter().map(layers).collect(),
            is_at_rest: self.host.streams() == 0 && at_rest,
            memory_free: self.host.residency().available(),
        })
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Start(task) => self.runner.start(task),
            Effect::Drop(None, kept) => self.workers.drop_kept(None, kept),
            Effect::Drop(Some(peer), kept) => self.say_drop(peer, kept),
            Effect::AskToHold(peer, wish) => {
                // A link that is gone is asked again when it is back and looked at.
                self.outbox.post(peer, Message::Place(wish));
            }
            Effect::Take { model, name, layers } => self.take_layers(model, &name, &layers),
            Effect::Wake(peer) => self.wake(peer),
            Effect::PublishBook => self.publish_book(),
            Effect::Advertise => self.tell_host(HostEvent::AdvertsChanged),
            Effect::UsesLent(model) => self.host.note_served(model),
            Effect::ReplyOver => self.tell_host(HostEvent::ReplyEnded),
            Effect::Keep(measured) | Effect::KeepNow(measured) => {
                let measured = self.with_backends(measured);
                let file = self.measured.clone();
                let saved = async move { save(file, measured).await };
                self.tasks.spawn_until_cancelled("keep", saved);
            }
        }
    }

    /// A front end wants a reply, in the kept `conversation` if one is named; `placed` is told once
    /// it has a place.
    pub(crate) fn generate(
        &mut self,
        (asker, request): (Asker, Box<GenerateRequest>),
        (conversation, placed): (Option<i64>, Option<oneshot::Sender<()>>),
        answer: Answer<Reply>,
    ) {
        match self.model(&request.model).map(Entry::digest) {
            Ok(model) => {
                self.ask(Event::Generate { asker, model, request, conversation, placed, answer });
            }
            Err(error) => drop(answer.send(Err(error))),
        }
    }

    /// A person says something in a conversation.
    pub(crate) fn say(&mut self, turn: Turn, answer: Answer<StartedTurn>) {
        if let Err(error) = self.model(&turn.model) {
            let _ = answer.send(Err(error));
            return;
        }
        let usual = &self.settings.settings().chat;
        self.chats.say(turn, (usual.temperature, usual.thinking), &self.tasks, answer);
    }

    /// Which models name conversations. The one that came with the program tells stories and names
    /// nothing.
    pub(crate) fn naming(&self) -> Naming {
        let named = self.settings.settings().chat.titles;
        let entries = self.library.entries().iter();
        let can = |entry: &&Entry| named && !entry.built_in;
        let models = entries.filter(can).map(|entry| entry.listed.name.clone()).collect();
        Naming { models, tasks: self.tasks.clone() }
    }

    /// A front end wants to know how long a prompt is.
    pub(crate) fn count(&mut self, request: Box<GenerateRequest>, answer: Answer<Counted>) {
        match self.model(&request.model).map(Entry::digest) {
            Ok(model) => self.ask(Event::Count { model, request, answer }),
            Err(error) => drop(answer.send(Err(error))),
        }
    }

    /// A front end wants vectors for texts.
    pub(crate) fn embed(&mut self, request: EmbedRequest, answer: Answer<Embedded>) {
        match self.model(&request.model).map(Entry::digest) {
            Ok(model) => self.ask(Event::Embed { model, request, answer }),
            Err(error) => drop(answer.send(Err(error))),
        }
    }

    /// Replies of this device that are under way.
    pub(crate) fn replies_running(&self) -> usize {
        self.requester.replies_running()
    }

    /// What this device computes for those who ask it: replies, and vectors.
    pub(crate) fn work_running(&self) -> usize {
        self.requester.work_running()
    }

    /// Whether something is lent of which this device does not know how fast it computes it.
    pub(crate) fn is_unmeasured(&self) -> bool {
        self.around(|around| self.requester.is_unmeasured(around))
    }

    /// What the owner should know about devices that failed.
    pub(crate) fn record_troubles(&self) -> Vec<TroubleView> {
        self.around(|around| self.requester.troubles(around))
    }

    /// Devices that may not compute for this one any more, or not see its words, drop what they
    /// keep of either. Called while the links still stand.
    pub(crate) fn drop_of_barred(&mut self) {
        let inference = &self.settings.settings().inference;
        let whole = inference.enabled && inference.whole_on_own_devices;
        let gate = self.devices.gate();
        let sees = |peer: &PeerId| whole && gate.check(*peer, Purpose::RemoteWhole).is_ok();
        let may_see = self.devices.peers().list().iter().map(|peer| peer.id).filter(sees).collect();
        self.ask(Event::TrustChanged { may_see });
        for peer in self.outbox.peers() {
            if !self.devices.gate().level(peer).may_connect() {
                self.outbox.say_now(peer);
            }
        }
    }

    /// Wakes a device for a reply, which sees by itself when it is there.
    fn wake(&mut self, peer: PeerId) {
        let (answer, _) = oneshot::channel();
        let device = peer.to_string();
        self.tell_devices(DeviceEvent::Asked(DeviceCommand::Wake { device, answer }));
    }

    /// Tells a device to drop what it keeps, as soon as there is a link to it.
    pub(crate) fn say_drop(&mut self, peer: PeerId, kept: KeptHistory) {
        // A link of which the house has not heard yet counts from then on.
        if self.links.link(peer).is_some() && self.outbox.hears(peer) {
            self.outbox.post(peer, Message::DropKept(kept));
        } else if self.devices.peers().get(peer).is_some() {
            self.outbox.owe(peer, kept);
        }
    }

    /// Writes what was measured up to now, before the node leaves.
    pub(crate) async fn keep_measured_now(&mut self) {
        for effect in self.ask_quietly(Event::Leave) {
            if let Effect::KeepNow(measured) = effect {
                save(self.measured.clone(), self.with_backends(measured)).await;
            }
        }
    }
}

/// Whether nobody would miss what measuring takes, as far as the machine says.
pub(crate) fn is_at_rest(conditions: &Conditions) -> bool {
    conditions.on_battery != Some(true) && conditions.full_screen != Some(true)
}

async fn save(file: MeasuredFile, measured: Measured) {
    match tokio::task::spawn_blocking(move || file.save(&measured)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "what was measured is not kept"),
        Err(error) => tracing::warn!(%error, "what was measured is not kept"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_on_battery_or_in_a_game_is_left_in_peace() {
        let rest = Conditions {
            on_battery: None,
            others_load: None,
            others_card_load: None,
            full_screen: None,
            minute_of_day: 0,
        };
        assert!(is_at_rest(&rest), "what the machine does not say holds nothing up");
        let mains = Conditions { on_battery: Some(false), full_screen: Some(false), ..rest };
        assert!(is_at_rest(&mains));
        for used in [
            Conditions { on_battery: Some(true), ..rest },
            Conditions { full_screen: Some(true), ..rest },
        ] {
            assert!(!is_at_rest(&used), "{used:?}");
        }
    }
}
