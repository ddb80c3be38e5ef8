//! The house loop: one closed list of things that happen, handled one at a time.
//!
//! Nothing here waits for a network, a disk full of weights or a model: what takes long runs in a
//! task of its own and comes back as [`Inside`]. Leaving has an order, in [`leave`].

use std::time::Duration;

use nook_base::{ModelDigest, clock};
use nook_find::Sighting;
use nook_link::LinkEvent;
use nook_wire::Message;
use tokio::sync::{mpsc, oneshot};

use crate::house::Command;
use crate::preferences::settings_trouble;
use crate::state::{Inside, State};
use crate::views::TroubleView;
use nook_host::{HostEvent, OwnSpeed};
use nook_requester::Event;
use nook_resources::trails::Unwanted;

/// How often the house looks at what changes by itself: adverts that grow old, links, problems.
const LOOK: Duration = Duration::from_secs(1);

/// Longest wait for workers to end when the node leaves.
const WORKERS_LIMIT: Duration = Duration::from_secs(3);

/// Longest wait for a goodbye to be written to a peer.
const GOODBYE_LIMIT: Duration = Duration::from_millis(300);

/// Everything that the loop reads.
pub(crate) struct Inboxes {
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) inside: mpsc::Receiver<Inside>,
    pub(crate) requester: mpsc::Receiver<Event>,
    pub(crate) host: mpsc::Receiver<HostEvent>,
    /// What models that made room for others have left.
    pub(crate) left: mpsc::Receiver<(ModelDigest, Unwanted)>,
    pub(crate) links: mpsc::Receiver<LinkEvent>,
    pub(crate) sightings: Option<mpsc::Receiver<Sighting>>,
}

/// Runs the house until somebody asks it to leave.
pub(crate) async fn run(mut state: State, mut inboxes: Inboxes) {
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        let done = tokio::select! {
            biased;
            command = inboxes.commands.recv() => match command {
                Some(command) => state.dispatch(command).map(Some),
                // Every handle is gone: nobody can ask for anything any more.
                None => Some(None),
            },
            Some(inside) = inboxes.inside.recv() => {
                state.on_inside(inside);
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
            Some((model, unwanted)) = inboxes.left.recv() => {
                state.ask(Event::Unwanted(model, unwanted));
                None
            }
            Some(event) = inboxes.links.recv() => {
                state.on_link(event);
                None
            }
            Some(sighting) = next(&mut inboxes.sightings) => {
                state.on_sighting(sighting);
                None
            }
            _ = look.tick() => {
                state.on_look();
                None
            }
        };
        state.weigh_traffic();
        state.publish();
        if let Some(done) = done {
            leave(state, inboxes, done).await;
            return;
        }
    }
}

async fn next(sightings: &mut Option<mpsc::Receiver<Sighting>>) -> Option<Sighting> {
    match sightings {
        Some(receiver) => receiver.recv().await,
        None => std::future::pending().await,
    }
}

/// Leaving, in order: 1 refuse what is asked from now on, 2 stop lending and let guests' steps finish,
/// 3 tell the devices, 4 keep what was measured and lent, 5 end the workers, 6 cancel every task, 7 let go of the
/// home.
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
    fn on_inside(&mut self, inside: Inside) {
        match inside {
            Inside::Store { peer, stored } => {
                let durable = self.store_peer(peer);
                // Whoever joins looks for the new device in the view as soon as it is stored.
                self.publish();
                let _ = stored.send(durable);
            }
            Inside::Window { number, event } => self.on_window(number, event),
            Inside::Imported { staged, name, answer } => self.imported(*staged, name, answer),
            Inside::Downloaded { key, outcome } => self.on_downloaded(&key, *outcome),
            Inside::Copied { key, outcome, giver } => self.on_copied(&key, *outcome, giver),
            Inside::Deleted { key } => self.on_deleted(&key),
            Inside::Stocked(stocked) => self.on_stocked(*stocked),
            Inside::Brought(brought) => self.on_brought(*brought),
            Inside::Cleared => self.on_cleared(),
            Inside::FolderSeen(seen) => self.on_folder_seen(seen.map(|seen| *seen)),
            Inside::Generate { request, conversation, placed, answer } => {
                self.generate(request, (conversation, Some(placed)), answer);
            }
            Inside::ChatEnded(conversation) => self.ask(Event::ChatEnded(conversation)),
        }
    }

    fn on_look(&mut self) {
        let now = clock::now();
        #[cfg(all(feature = "test-panics", debug_assertions))]
        crate::test_panics::obey(&self.tasks);
        self.note_mishaps();
        self.wake_up();
        let before = self.heard.len();
        self.heard.retain(|_, heard| heard.is_fresh(now));
        if self.heard.len() != before {
            self.publish_book();
        }
        let own_speed = if self.is_unmeasured() { OwnSpeed::Unknown } else { OwnSpeed::Known };
        self.tell_host(HostEvent::Tick { own_speed });
        self.ask(Event::Tick);
        self.show_meters();
        self.rest_when_quiet();
        self.look_at_fits();
        if self.downloads.look(now) {
            self.start_downloads();
        }
        self.moving.look();
        self.look_at_folder();
        let before = self.settings.settings().clone();
        match self.settings.reload() {
            Ok(true) => self.settings_changed(&before),
            Ok(false) => self.note("settings", []),
            Err(error) => {
                self.note("settings", [TroubleView::of_error(&error, settings_trouble(&error))])
            }
        }
    }

    /// The settings were edited, by hand or through a front end: what can change while running does.
    pub(crate) fn settings_changed(&mut self, before: &nook_store::Settings) {
        tracing::info!("settings.toml changed");
        self.apply_name();
        self.peers_changed();
        self.tell_host(HostEvent::SettingsChanged { before: Box::new(before.clone()) });
        self.announce();
    }
}
