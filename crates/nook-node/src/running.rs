//! The event loop: one closed list of things that happen, handled one at a time.
//!
//! Nothing here waits for a network, a disk full of weights or a model: what takes long runs in a
//! task of its own and comes back as an event. Leaving has an order, in [`leave`].

use std::time::Duration;

use nook_base::{ErrorCode, ModelDigest, clock};
use nook_find::Sighting;
use nook_link::LinkEvent;
use nook_shard::WorkerStatus;
use nook_wire::Message;
use tokio::sync::{mpsc, oneshot};

use crate::awake::UnderWay;
use crate::chats::ChatEvent;
use crate::devices::DeviceEvent;
use crate::meters::Figures;
use crate::mishaps;
use crate::preferences::settings_trouble;
use crate::state::State;
use crate::updates::UpdateEvent;
use nook_api::views::TroubleView;
use nook_api::{Command, NodeError, RestartWaits};
use nook_host::{HostEvent, OwnSpeed};
use nook_library::LibraryEvent;
use nook_requester::Event;
use nook_resources::prefix_cache::Unwanted;

/// How often the house looks at what changes by itself: adverts that grow old, links, problems.
const TICK: Duration = Duration::from_secs(1);

/// Longest wait for workers to end when the node leaves.
const WORKERS_LIMIT: Duration = Duration::from_secs(3);

/// Longest wait for a goodbye to be written to a peer.
const GOODBYE_LIMIT: Duration = Duration::from_millis(300);

/// Longest wait of a restart for streams of other devices.
const GUESTS_LIMIT: Duration = Duration::from_secs(60);

/// How long a node that is to start anew stays for its answers to be written.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// Everything that the loop reads.
pub(crate) struct Inboxes {
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) devices: mpsc::Receiver<DeviceEvent>,
    pub(crate) chats: mpsc::Receiver<ChatEvent>,
    pub(crate) requester: mpsc::Receiver<Event>,
    pub(crate) host: mpsc::Receiver<HostEvent>,
    pub(crate) library: mpsc::Receiver<LibraryEvent>,
    /// What models that made room for others have left.
    pub(crate) left: mpsc::Receiver<(ModelDigest, Unwanted)>,
    pub(crate) updates: mpsc::Receiver<UpdateEvent>,
    pub(crate) links: mpsc::Receiver<LinkEvent>,
    pub(crate) sightings: mpsc::Receiver<Sighting>,
}

/// Runs the house until somebody asks it to leave.
pub(crate) async fn run(mut state: State, mut inboxes: Inboxes) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        let done = tokio::select! {
            biased;
            command = inboxes.commands.recv() => match command {
                Some(command) => state.dispatch(command).map(Some),
                // Every handle is gone: nobody can ask for anything any more.
                None => Some(None),
            },
            Some(event) = inboxes.devices.recv() => {
                state.tell_devices(event);
                None
            }
            Some(event) = inboxes.chats.recv() => {
                state.on_chat(event);
                None
            }
            Some(event) = inboxes.requester.recv() => {
                state.ask(event);
                None
            }
            Some(event) = inboxes.host.recv() => {
                state.tell_host(event);
                None
            }
            Some(event) = inboxes.library.recv() => {
                state.tell_library(event);
                None
            }
            Some((model, unwanted)) = inboxes.left.recv() => {
                state.ask(Event::Unwanted(model, unwanted));
                None
            }
            Some(event) = inboxes.updates.recv() => {
                state.on_update(event);
                None
            }
            Some(event) = inboxes.links.recv() => {
                state.on_link(event);
                None
            }
            Some(sighting) = inboxes.sightings.recv() => {
                state.tell_devices(DeviceEvent::Sighted(sighting));
                None
            }
            _ = tick.tick() => {
                state.on_tick();
                None
            }
        };
        state.weigh_traffic();
        state.tell_terms();
        state.publish();
        let done = done.or_else(|| state.restarts_now().then_some(None));
        if let Some(done) = done {
            leave(state, inboxes, done).await;
            return;
        }
    }
}

/// Leaving, in order: 1 refuse what is asked from now on, 2 stop lending and let guests' steps
/// finish, 3 tell the devices, 4 keep what was measured and lent, 5 end the workers, 6 cancel every
/// task, 7 let go of the home.
async fn leave(mut state: State, mut inboxes: Inboxes, done: Option<oneshot::Sender<()>>) {
    inboxes.commands.close();
    let leaving = state.host_effects(HostEvent::Leave);
    state.host_runner.finish(leaving).await;
    for link in state.links.all() {
        let goodbye = Message::Draining { sentence: "Inglenook was closed there.".to_owned() };
        // A peer that does not read its goodbye notices the closed link all the same.
        let _ = tokio::time::timeout(GOODBYE_LIMIT, link.mux().send(goodbye)).await;
        link.mux().close(None);
    }
    state.keep_measured_now().await;
    let left = state.host_effects(HostEvent::Left);
    state.host_runner.finish(left).await;
    if tokio::time::timeout(WORKERS_LIMIT, state.workers.stop_all()).await.is_err() {
        tracing::warn!("a worker did not end in time; it ends with this process");
    }
    let tasks = state.tasks.clone();
    drop(inboxes);
    // The loop itself is one of the tasks, so it only cancels; `NodeHandle::shut_down` joins.
    tasks.cancel();
    drop(state);
    if let Some(done) = done {
        let _ = done.send(());
    }
}

impl State {
    fn on_chat(&mut self, event: ChatEvent) {
        match event {
            ChatEvent::Generate { asker, request, conversation, placed, answer } => {
                self.generate((asker, request), (conversation, Some(placed)), answer);
            }
            ChatEvent::Ended(conversation) => self.ask(Event::ChatEnded(conversation)),
        }
    }

    fn on_tick(&mut self) {
        #[cfg(all(feature = "test-panics", debug_assertions))]
        crate::test_panics::obey(&self.tasks);
        let mishaps: Vec<_> = self.tasks.panics().iter().map(mishaps::shown).collect();
        self.note(mishaps::PROBLEM, mishaps);
        self.wake_up();
        self.tell_devices(DeviceEvent::Tick);
        self.note_turned_away();
        let own_speed = if self.is_unmeasured() { OwnSpeed::Unknown } else { OwnSpeed::Known };
        self.tell_host(HostEvent::Tick { own_speed });
        self.ask(Event::Tick);
        self.tell_facts();
        self.show_meters();
        self.rest_when_quiet();
        self.stay_awake_while_needed();
        self.fits.own_rate.tick(self.is_busy(), &self.tasks);
        self.look_at_fits();
        self.learn_backends();
        self.tell_library(LibraryEvent::Tick);
        self.watch_versions();
        let before = self.settings.settings().clone();
        match self.settings.reload() {
            Ok(true) => self.settings_changed(&before),
            Ok(false) => self.note("settings", []),
            Err(error) => {
                self.note("settings", [TroubleView::of_error(&error, settings_trouble(&error))])
            }
        }
    }

    /// The settings were edited, by hand or through a front end: what can change while running
    /// does.
    pub(crate) fn settings_changed(&mut self, before: &nook_store::Settings) {
        tracing::info!("settings.toml changed");
        self.apply_name();
        self.tell_devices(DeviceEvent::SettingsChanged);
        self.set_up_library();
        self.tell_host(HostEvent::SettingsChanged { before: Box::new(before.clone()) });
        self.announce();
    }

    /// After a sleep the others have hung up and the network may be another one: whoever is missing
    /// is dialled now, without the wait that grew meanwhile.
    pub(crate) fn wake_up(&mut self) {
        if self.looks.slept(clock::unix_seconds()) {
            tracing::info!("this computer was asleep: connecting again");
            self.links.network_changed();
        }
    }

    /// Remembers that the program is to start anew; what that waits for.
    pub(crate) fn restart_when_quiet(&self) -> Result<RestartWaits, NodeError> {
        match self.restart.order(clock::now()) {
            true => Ok(RestartWaits { replies: self.own_replies(), streams: self.host.streams() }),
            false => {
                let sentence = "This Inglenook cannot start itself again: close it, and start it.";
                Err(NodeError::new(ErrorCode::BadRequest, sentence))
            }
        }
    }

    /// Replies of this device and requests for vectors, those that wait for their turn included.
    fn own_replies(&self) -> usize {
        self.work_running().saturating_add(self.requester.replies_waiting())
    }

    /// Whether it does now: nothing is under way that it would cut, no reply of this device and none
    /// that waits for its turn. Other devices are waited for too, but a house that talks all day
    /// keeps no version for ever: what they have under way goes on elsewhere, as whenever a device
    /// leaves.
    fn restarts_now(&self) -> bool {
        let Some(waited) = self.restart.ordered_for(clock::now()) else { return false };
        let may = self.own_replies() == 0 && (self.host.streams() == 0 || waited > GUESTS_LIMIT);
        // Whoever ordered it is answered first.
        let restarts = may && waited > ANSWER_TIME;
        if restarts {
            self.restart.begin();
        }
        restarts
    }

    /// Whether anything is computed here, for this device or for others.
    fn is_busy(&self) -> bool {
        self.work_running() > 0 || self.host.streams() > 0
    }

    /// Gives memory back, if it is time to.
    fn rest_when_quiet(&mut self) {
        if self.quiet.look(self.is_busy()) {
            // It may take some milliseconds, for which the loop does not wait.
            self.tasks.spawn_until_cancelled("rest", async {
                // Nothing is lost where the runtime is ending.
                let _ = tokio::task::spawn_blocking(nook_model::heap::give_back).await;
            });
        }
    }

    /// Keeps this machine from falling asleep by itself in the middle of something.
    fn stay_awake_while_needed(&mut self) {
        let (streams, answers) = (self.host.streams(), self.host.answers());
        let under_way = UnderWay { replies: self.work_running(), streams, answers };
        let rest = self.awake.look(under_way, clock::now());
        self.rest.send_if_modified(|told| std::mem::replace(told, rest) != rest);
    }

    /// Shows the metrics how things stand.
    fn show_meters(&mut self) {
        let passes = self.host.residency().all().map(|(_, it)| u64::from(it.passes.waiting));
        let waiting = passes.sum::<u64>().saturating_add(self.requester.replies_waiting() as u64);
        let bytes = |it: &WorkerStatus| {
            it.weight_bytes.saturating_add(it.cache_bytes).saturating_add(it.parked_bytes)
        };
        let models = self.host.residency().all();
        let memory = models.map(|(model, it)| (self.library.name_of(model), bytes(it))).collect();
        self.meters.show(Figures {
            waiting,
            guests: self.host.streams(),
            replies: self.replies_running(),
            memory,
            links: self.links.all(),
        });
    }
}
