//! The actor of all links: one closed list of what can happen, one loop, no open-ended wait.
//!
//! Decisions are [`Standing`]'s; this file carries them out by starting and dropping tasks.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use nook_base::tasks::Tasks;
use nook_base::{ErrorCode, PeerId, clock};
use nook_mux::{Mover, Mux};
use nook_wire::{Message, VersionMismatch};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

use super::accept::KnownHosts;
use super::address::AddressBook;
use super::dial::{Attempt, DIALS_MAX};
use super::greet::Greeter;
use super::input::{AddressFailure, DialFailure, Dialled, Input, Passage};
use super::pump::Pump;
use super::session::{Greeted, LinkStream};
use super::standing::{DialOrder, OnArrival, PROBE_DEADLINE, Standing};
use super::trial::TRIALS_MAX;
use super::ways::{Way, Ways};
use super::{KnownPeer, LinkEvent, LoopbackPolicy, Shared};
use crate::websocket::{FrameSocket, Probe};

mod moves;

/// Owns all standings.
#[derive(Debug)]
pub(super) struct Actor {
    greeter: Arc<Greeter>,
    shared: Arc<Shared>,
    events: mpsc::Sender<LinkEvent>,
    loopback: LoopbackPolicy,
    peers: HashMap<PeerId, Peer>,
    /// Pumps of links to devices that are not paired any more, until they end: at most one per
    /// device. Should the device be paired again, the pump of its new link waits for it.
    leaving: HashMap<PeerId, JoinHandle<()>>,
    turns: Arc<Semaphore>,
    trial_turns: Arc<Semaphore>,
    /// Of the last dial or link.
    number: u64,
}

/// One paired device.
#[derive(Debug)]
struct Peer {
    standing: Standing,
    ways: Ways,
    book: AddressBook,
    /// The task of the current dial; cancelled when the dial is dropped.
    dial: Option<Tasks>,
    live: Option<Live>,
    /// The pump of the last link.
    pump: Option<JoinHandle<()>>,
    /// A connection that waits for a decision; a newer one takes its place.
    parked: Option<Greeted>,
}

/// What the actor keeps of a live link.
#[derive(Debug)]
struct Live {
    mux: Mux<Message>,
    mover: Mover<FrameSocket<LinkStream>>,
    probe: Probe,
    local: SocketAddr,
    remote: SocketAddr,
    /// Where the device takes links on this way.
    listens_at: Option<SocketAddr>,
    listen_port: u16,
    /// Tells the pump.
    passage: watch::Sender<Option<Passage>>,
}

impl Actor {
    pub(super) fn new(
        greeter: Arc<Greeter>,
        shared: Arc<Shared>,
        events: mpsc::Sender<LinkEvent>,
        loopback: LoopbackPolicy,
    ) -> Self {
        Self {
            greeter,
            shared,
            events,
            loopback,
            peers: HashMap::new(),
            leaving: HashMap::new(),
            turns: Arc::new(Semaphore::new(DIALS_MAX)),
            trial_turns: Arc::new(Semaphore::new(TRIALS_MAX)),
            number: 0,
        }
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Input>, hosts: KnownHosts) {
        let mut peers = self.shared.peers.subscribe();
        let mut network = self.shared.network.subscribe();
        // Both were subscribed to after the handle was out: what was said before counts too.
        peers.mark_changed();
        loop {
            let next = self.next_dial().into_iter().chain(self.next_trial()).min();
            let pause = async {
                match next {
                    Some(due) => sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            // The handle and the tasks hold the senders; a failed wait means that all are gone.
            tokio::select! {
                biased;
                changed = peers.changed() => match changed {
                    Ok(()) => {
                        let known = Arc::clone(&peers.borrow_and_update());
                        self.set_peers(&known);
                    }
                    Err(_) => return,
                },
                changed = network.changed() => match changed {
                    Ok(()) => self.hurry(),
                    Err(_) => return,
                },
                input = inbox.recv() => match input {
                    Some(input) => self.on_input(input),
                    None => return,
                },
                () = pause => {}
            }
            self.dial_due();
            self.try_due();
            let now = clock::now();
            hosts.set(self.peers.values().flat_map(|peer| peer.book.hosts(now)).collect());
        }
    }

    fn on_input(&mut self, input: Input) {
        match input {
            Input::Sighted { peer, addresses } => self.on_sighted(peer, &addresses),
            Input::MayGreet { peer, number, answer } => {
                let known = self.peers.get_mut(&peer);
                let may = known.is_some_and(|peer| peer.standing.may_greet(number));
                // The dial may have been dropped in between.
                let _ = answer.send(may);
            }
            Input::Dialled(dialled) => self.on_dialled(dialled),
            Input::Arrived(greeted) => self.on_arrived(greeted),
            Input::Incompatible { peer, versions } => self.on_incompatible(peer, Some(versions)),
            Input::Probed { peer, number, alive } => self.on_probed(peer, number, alive),
            Input::Ended { peer, number } => self.on_ended(peer, number),
            Input::Knocked { peer } => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.ways.knocked(clock::now());
                }
            }
            Input::MayMove { peer, number, answer } => {
                let known = self.peers.get_mut(&peer);
                let may = known.is_some_and(|peer| peer.ways.may_move(number));
                // The trial may have been given up in between.
                let _ = answer.send(may);
            }
            Input::Tried(tried) => self.on_tried(&tried),
            Input::Offered(offered) => self.on_offered(*offered),
            Input::Moved { peer, number, passage } => self.on_moved(peer, number, passage),
            Input::NotMoved { peer, number } => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.ways.not_moved(number, clock::now());
                }
            }
        }
    }

    fn set_peers(&mut self, known: &[KnownPeer]) {
        let now = clock::now();
        let ids: HashSet<PeerId> = known.iter().map(|peer| peer.id).collect();
        let own = self.greeter.identity.id();
        self.leaving.retain(|_, pump| !pump.is_finished());
        for (id, peer) in self.peers.extract_if(|id, _| !ids.contains(id)) {
            self.leaving.extend(peer.dismiss().map(|pump| (id, pump)));
        }
        for known in known.iter().filter(|known| known.id != own) {
            let peer = self.peers.entry(known.id).or_insert_with(|| {
                let order = DialOrder::between(own, known.id);
                Peer { pump: self.leaving.remove(&known.id), ..Peer::new(order, now) }
            });
            // An address just typed, or just brought by pairing, is tried at once.
            if peer.book.set_typed(&known.addresses) {
                peer.standing.sighted(now);
                peer.ways.news(now);
            }
        }
    }

    /// The network changed: who is missing is dialled, who is linked is asked for a sign of life,
    /// since the cable that the link ran over may be gone.
    fn hurry(&mut self) {
        let now = clock::now();
        for (id, peer) in &mut self.peers {
            peer.standing.hurry(now);
            peer.ways.network(now);
            if let (Some(number), Some(live)) = (peer.standing.live(), &peer.live) {
                probe(&self.greeter, *id, number, live.probe.clone());
            }
        }
    }

    fn on_sighted(&mut self, peer: PeerId, addresses: &[SocketAddr]) {
        let Some(peer) = self.peers.get_mut(&peer) else {
            return;
        };
        let now = clock::now();
        if peer.book.set_sighted(addresses, self.loopback) {
            peer.ways.news(now);
        }
        if !addresses.is_empty() {
            peer.standing.sighted(now);
        }
    }

    fn on_dialled(&mut self, dialled: Dialled) {
        let now = clock::now();
        for (address, failure) in &dialled.failures {
            self.on_address_failure(dialled.peer, *address, *failure, now);
        }
        let Some(peer) = self.peers.get_mut(&dialled.peer) else {
            return; // not paired any more; dropping the session ends it
        };
        if !peer.standing.is_dialling(dialled.number) {
            return;
        }
        peer.dial = None;
        match dialled.outcome {
            Ok(greeted) => {
                if let Some(parked) = peer.parked.take() {
                    parked.session.dismiss(ErrorCode::Busy);
                }
                self.adopt(greeted);
            }
            Err(failure) => {
                peer.standing.dial_failed(now);
                if dialled.failures.iter().any(|(_, failure)| *failure == AddressFailure::NotTaken)
                {
                    peer.standing.refused(now);
                }
                if let DialFailure::Incompatible { versions } = failure {
                    self.on_incompatible(dialled.peer, versions);
                }
                self.take_parked(dialled.peer);
            }
        }
    }

    fn on_address_failure(
        &mut self,
        id: PeerId,
        address: SocketAddr,
        failure: AddressFailure,
        now: Instant,
    ) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        match failure {
            AddressFailure::NoAnswer => peer.book.failed(address),
            AddressFailure::SomebodyElse => {
                peer.book.refused(address, now);
                self.note(LinkEvent::PinRefused { peer: id, address });
            }
            AddressFailure::NotTaken => {
                peer.book.failed(address);
                self.note(LinkEvent::RefusedByPeer { peer: id });
            }
        }
    }

    fn on_incompatible(&mut self, id: PeerId, versions: Option<VersionMismatch>) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        peer.standing.refused(clock::now());
        self.note(LinkEvent::VersionMismatch { peer: id, versions });
    }

    fn on_arrived(&mut self, greeted: Greeted) {
        let id = greeted.session.peer.id();
        let Some(peer) = self.peers.get_mut(&id) else {
            greeted.session.dismiss(ErrorCode::TrustDenied);
            return;
        };
        match peer.standing.arrived() {
            OnArrival::Accept => self.adopt(greeted),
            OnArrival::AcceptInsteadOf(number) => {
                tracing::debug!(peer = ?id, number, "an arrival replaces the dial");
                self.adopt(greeted);
            }
            OnArrival::ParkForDial => peer.park(greeted),
            OnArrival::ParkForProbe(number) => {
                peer.park(greeted);
                if let Some(live) = &peer.live {
                    probe(&self.greeter, id, number, live.probe.clone());
                }
            }
        }
    }

    fn on_probed(&mut self, id: PeerId, number: u64, alive: bool) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        if peer.standing.live() != Some(number) {
            return; // it has ended meanwhile, and what was parked was taken then
        }
        let Some(live) = &peer.live else {
            return;
        };
        if !alive {
            // Its end makes room for the one that waits, or for a new dial.
            live.mux.close(Some(ErrorCode::PipelineStalled));
            return;
        }
        let Some(parked) = peer.parked.take() else {
            return;
        };
        let (kept, refused) = (live.remote, parked.session.remote);
        let settled = peer.standing.is_settled(clock::now());
        parked.session.dismiss(ErrorCode::Busy);
        if settled && kept.ip() != refused.ip() {
            self.note(LinkEvent::SameIdTwice { peer: id, kept, refused });
        }
    }

    fn on_ended(&mut self, id: PeerId, number: u64) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        if peer.standing.link_ended(number, clock::now()) {
            peer.live = None;
            peer.ways.ended();
            self.take_parked(id);
        }
    }

    /// The connection that waited is the next best thing, if its other end still waits too.
    fn take_parked(&mut self, id: PeerId) {
        let parked = self.peers.get_mut(&id).and_then(|peer| peer.parked.take());
        if let Some(parked) = parked
            && !parked.session.mux.is_closed()
        {
            self.adopt(parked);
        }
    }

    /// Makes a connection the link to its device.
    fn adopt(&mut self, greeted: Greeted) {
        let now = clock::now();
        self.number += 1;
        let number = self.number;
        let id = greeted.session.peer.id();
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        if let Some(dial) = peer.dial.take() {
            dial.cancel();
        }
        peer.standing.linked(number, now);
        if let Some(address) = greeted.listens_at {
            peer.book.succeeded(address, now);
        }
        let session = &greeted.session;
        peer.ways.linked(number, Way::between(session.local, session.remote), now);
        let mux = session.mux.clone();
        let (passage, moves) = watch::channel(None);
        peer.live = Some(Live {
            mux: mux.clone(),
            mover: session.mover.clone(),
            probe: session.probe.clone(),
            local: session.local,
            remote: session.remote,
            listens_at: greeted.listens_at,
            listen_port: greeted.hello.listen_port,
            passage,
        });
        let pump = Pump {
            number,
            greeted,
            own_hello: self.greeter.own_hello(),
            shared: Arc::clone(&self.shared),
            events: self.events.clone(),
            previous: peer.pump.take(),
            passage: moves,
        };
        let tasks = &self.greeter.tasks;
        peer.pump = Some(tasks.spawn_until_cancelled("link pump", pump.run()));
        // Apart from the pump, which may wait for a slow node: a dead link is redialled all the
        // same.
        let inputs = self.greeter.inputs.clone();
        tasks.spawn_until_cancelled("link end", async move {
            mux.closed().await;
            let _ = inputs.send(Input::Ended { peer: id, number }).await;
        });
    }

    fn next_dial(&self) -> Option<Instant> {
        let now = clock::now();
        let due = self.peers.values().filter_map(|peer| peer.due(now));
        due.min()
    }

    fn dial_due(&mut self) {
        let now = clock::now();
        for (id, peer) in &mut self.peers {
            if peer.due(now).is_none_or(|due| due > now) {
                continue;
            }
            self.number += 1;
            peer.standing.dialling(self.number, now);
            let attempt = Attempt {
                greeter: Arc::clone(&self.greeter),
                turns: Arc::clone(&self.turns),
                peer: *id,
                number: self.number,
                addresses: peer.book.candidates(now),
            };
            let tasks = self.greeter.tasks.child();
            tasks.spawn_until_cancelled("link dial", attempt.run());
            peer.dial = Some(tasks);
        }
    }

    /// Tells the node something that it can do without: dropped when it does not keep up.
    fn note(&self, event: LinkEvent) {
        if self.events.try_send(event).is_err() {
            tracing::debug!("a note about a link was dropped");
        }
    }
}

/// Asks a live link for a sign of life.
fn probe(greeter: &Greeter, peer: PeerId, number: u64, probe: Probe) {
    let inputs = greeter.inputs.clone();
    let work = async move {
        let alive = timeout(PROBE_DEADLINE, probe.answer()).await.is_ok();
        let probed = Input::Probed { peer, number, alive };
        // The actor is gone only when everything is being shut down.
        let _ = inputs.send(probed).await;
    };
    greeter.tasks.spawn_until_cancelled("link probe", work);
}

impl Peer {
    fn new(order: DialOrder, now: Instant) -> Self {
        Self {
            standing: Standing::new(order, now),
            ways: Ways::new(order, now),
            book: AddressBook::default(),
            dial: None,
            live: None,
            pump: None,
            parked: None,
        }
    }

    /// When to dial, if there is anything to dial.
    fn due(&self, now: Instant) -> Option<Instant> {
        let due = self.standing.due()?;
        if self.book.candidates(due.max(now)).is_empty() {
            return self.book.next_return().map(|back| back.max(due));
        }
        Some(due)
    }

    fn park(&mut self, greeted: Greeted) {
        if let Some(older) = self.parked.replace(greeted) {
            older.session.dismiss(ErrorCode::Busy);
        }
    }

    /// Not paired any more, or blocked: everything of it ends now, but the pump of its last link,
    /// which may wait for a slow node.
    fn dismiss(self) -> Option<JoinHandle<()>> {
        if let Some(dial) = self.dial {
            dial.cancel();
        }
        if let Some(parked) = self.parked {
            parked.session.dismiss(ErrorCode::TrustDenied);
        }
        if let Some(live) = self.live {
            live.mux.close(Some(ErrorCode::TrustDenied));
        }
        self.pump
    }
}
