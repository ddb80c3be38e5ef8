//! The lending side in the node: what it is told, and what the node does for it.

use nook_base::{ModelPart, Sensitive, clock};

use crate::preferences::not_changed;
use crate::state::State;
use crate::status_line::pause_words;
use nook_api::views::{PauseReason, PauseView};
use nook_api::{NodeError, PauseFor, Sharing};
use nook_host::{Guests, HostEffect, HostEvent, Surroundings};
use nook_library::{LibraryEvent, PartWish};
use nook_requester::Event;

const SHARING_KEY: &str = "distributed_inference.host.serve_shards";

const UNTIL_KEY: &str = "distributed_inference.host.pause.until";

/// How long nothing is lent after memory was wanted at once: else the next reply of somebody else
/// takes it again.
const FREED_SECONDS: u64 = 15 * 60;

const HOUR_SECONDS: u64 = 3600;

impl State {
    /// Something happened that the lending side is to know.
    pub(crate) fn tell_host(&mut self, event: HostEvent) {
        for effect in self.host_effects(event) {
            self.perform_for_host(effect);
        }
    }

    /// What the lending side wants done about `event`.
    pub(crate) fn host_effects(&mut self, event: HostEvent) -> Vec<HostEffect> {
        let linked = self.outbox.peers();
        let context = Surroundings {
            now: clock::now(),
            unix_seconds: clock::unix_seconds(),
            today: nook_machine::day_of_calendar(),
            me: self.me.id,
            settings: self.settings.settings(),
            memory_total: nook_resources::memory::memory_total(),
            gate: self.devices.gate(),
            models: self.library.entries(),
            partial: &self.library,
            heard: self.devices.heard(),
            estimates: self.requester.estimates(),
            linked: &linked,
            replies: self.work_running(),
            fresh_key: Sensitive(rand::random()),
        };
        self.host.on(event, &context)
    }

    fn perform_for_host(&mut self, effect: HostEffect) {
        match effect {
            HostEffect::Tell(peer, message) => self.outbox.post(peer, message),
            HostEffect::SayNow => {
                for peer in self.outbox.peers() {
                    self.outbox.say_now(peer);
                }
            }
            HostEffect::StopOwnProbe => self.ask(Event::Lending),
            HostEffect::FindLink { peer, answer } => {
                let link = self.links.link(peer);
                // A call that has ended waits no more.
                let _ = answer.send(link.ok_or(nook_base::ErrorCode::ShardUnavailable));
            }
            HostEffect::NoLink { answer, code } => drop(answer.send(Err(code))),
            HostEffect::Measured { model, visits } => {
                self.ask(Event::Helped { model, visits });
            }
            HostEffect::LimitWorkers(limits, shares) => {
                if !self.workers.limit(limits, shares) {
                    self.tell_host(HostEvent::LimitsNotTaken);
                }
            }
            HostEffect::DropKept(peer, kept) => self.workers.drop_kept(Some(peer), kept),
            HostEffect::Fetch { model, name, layers, from } => {
                let (part, holders) = (ModelPart::inner(layers), [from].into());
                self.tell_library(LibraryEvent::TakePart(PartWish { model, name, part, holders }));
            }
            HostEffect::StopFetching(model) => self.tell_library(LibraryEvent::StopPart(model)),
            HostEffect::ForgetFetched(model) => {
                self.tell_library(LibraryEvent::ForgetPart(model));
            }
            HostEffect::Needed(models) => self.tell_library(LibraryEvent::PartsNeeded(models)),
            HostEffect::WakeUp => self.wake_up(),
            HostEffect::Run(task) => self.host_runner.run(task),
        }
    }

    /// Switches sharing, and keeps the choice.
    pub(crate) fn set_sharing(&mut self, sharing: Sharing) -> Result<(), NodeError> {
        let change = (SHARING_KEY, (sharing == Sharing::On).into());
        self.settings.change(&[change]).map_err(|error| not_changed(&error))?;
        self.tell_host(HostEvent::SharingSet);
        Ok(())
    }

    /// Nothing is lent for a while, because the owner says so; kept over a restart.
    pub(crate) fn pause_sharing(&mut self, span: PauseFor) -> Result<(), NodeError> {
        let until = match span {
            PauseFor::Hour => clock::unix_seconds().saturating_add(HOUR_SECONDS),
            PauseFor::UntilTomorrow => nook_machine::next_morning(),
        };
        self.pause_until(until)
    }

    /// Ends the owner's own pause; other reasons stay.
    pub(crate) fn resume_sharing(&mut self) -> Result<(), NodeError> {
        self.pause_until(0)
    }

    /// Gives back all memory that no reply of this device needs, at once, and lends nothing for a
    /// quarter of an hour.
    pub(crate) fn free_memory(&mut self) -> Result<(), NodeError> {
        let guests = if self.host.is_lending() { Guests::Draining } else { Guests::None };
        if self.host.sharing() == Sharing::On {
            let until = clock::unix_seconds().saturating_add(FREED_SECONDS);
            let asked = self.settings.settings().host.pause.until;
            self.pause_until(until.max(asked))?;
        }
        self.tell_host(HostEvent::MemoryWanted { guests });
        Ok(())
    }

    fn pause_until(&mut self, until: u64) -> Result<(), NodeError> {
        let until = i64::try_from(until).unwrap_or(i64::MAX);
        self.settings.change(&[(UNTIL_KEY, until.into())]).map_err(|error| not_changed(&error))?;
        self.tell_host(HostEvent::PauseSet);
        Ok(())
    }

    /// Why nothing is lent though it is switched on, for people.
    pub(crate) fn pause_view(&self) -> Option<PauseView> {
        let reason = self.host.paused()?;
        let until = self.settings.settings().host.pause.until;
        let until = (reason == PauseReason::Owner).then_some(until);
        Some(PauseView { reason, sentence: pause_words(reason, until), until })
    }
}
