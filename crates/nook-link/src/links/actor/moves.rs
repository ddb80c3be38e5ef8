//! The part of the actor that lets links take better ways.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use nook_base::{PeerId, clock};

use super::{Actor, Peer};
use crate::links::input::{Offered, Passage, Tried};
use crate::links::trial::{TrialTask, follow};
use crate::links::ways::{Candidate, Needed, Way};
use crate::socket;

impl Actor {
    pub(super) fn next_trial(&self) -> Option<Instant> {
        self.peers.values().filter_map(|peer| peer.ways.due()).min()
    }

    pub(super) fn try_due(&mut self) {
        let now = clock::now();
        let due = |peer: &Peer| peer.ways.due().is_some_and(|due| due <= now);
        if !self.peers.values().any(due) {
            return;
        }
        let interfaces: BTreeMap<IpAddr, String> = socket::interfaces().into_iter().collect();
        for (id, peer) in self.peers.iter_mut().filter(|(_, peer)| due(peer)) {
            let candidates: Vec<Candidate> =
                peer.book.candidates(now).into_iter().filter_map(candidate).collect();
            let begun = peer.ways.begin(&candidates, now);
            let (Some(number), Some(live)) = (peer.standing.live(), &peer.live) else {
                continue;
            };
            if begun.is_empty() {
                continue;
            }
            let Some(listens_at) = live.listens_at else {
                // It takes no links: nothing to compare with, and nobody to compare.
                peer.ways.over(number, (&[], &[]), crate::links::ways::Ending::Deaf, now);
                continue;
            };
            let interface = |ip: IpAddr| interfaces.get(&ip.to_canonical());
            let present = interface(live.local.ip());
            let needed = |it: &Candidate| match interface(it.way.local) {
                Some(name) if Some(name) == present => Needed::Far,
                _ => Needed::Clearly,
            };
            let task = TrialTask {
                greeter: Arc::clone(&self.greeter),
                turns: Arc::clone(&self.trial_turns),
                peer: *id,
                number,
                present: (listens_at, live.local),
                others: begun.into_iter().map(|it| (it, needed(&it))).collect(),
                mux: live.mux.clone(),
                mover: live.mover.clone(),
            };
            self.greeter.tasks.spawn_until_cancelled("link trial", task.run());
        }
    }

    pub(super) fn on_tried(&mut self, tried: &Tried) {
        let now = clock::now();
        for (address, failure) in &tried.failures {
            self.on_address_failure(tried.peer, *address, *failure, now);
        }
        if let Some(peer) = self.peers.get_mut(&tried.peer) {
            let absent: Vec<SocketAddr> = tried.failures.iter().map(|(at, _)| *at).collect();
            peer.ways.over(tried.number, (&tried.answered, &absent), tried.ending, now);
        }
    }

    /// A device that this one is linked with asks to go on elsewhere. That it is the same one, and
    /// not one with a copied key, its MOVE on the link shows.
    pub(super) fn on_offered(&mut self, offered: Offered) {
        let Some(peer) = self.peers.get_mut(&offered.trial.peer.id()) else {
            return; // dropping the connection refuses
        };
        let (Some(number), Some(live)) = (peer.standing.live(), &peer.live) else {
            return;
        };
        if !peer.ways.may_follow() {
            return;
        }
        let follow = follow(
            Arc::clone(&self.greeter),
            (number, live.listen_port),
            live.mover.clone(),
            offered,
        );
        self.greeter.tasks.spawn_until_cancelled("link follow", follow);
    }

    pub(super) fn on_moved(&mut self, id: PeerId, number: u64, passage: Passage) {
        let now = clock::now();
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let way = Way::between(passage.local, passage.remote);
        if !peer.ways.moved(number, way, now) {
            return; // it has ended meanwhile
        }
        if let Some(address) = passage.listens_at {
            peer.book.succeeded(address, now);
        }
        if let Some(live) = &mut peer.live {
            live.probe = passage.probe.clone();
            (live.local, live.remote) = (passage.local, passage.remote);
            live.listens_at = passage.listens_at;
            // A pump that has ended says Down by itself.
            live.passage.send_replace(Some(passage));
        }
    }
}

fn candidate(address: SocketAddr) -> Option<Candidate> {
    let local = socket::leaves_from(address)?;
    Some(Candidate { address, way: Way::between(local, address) })
}
