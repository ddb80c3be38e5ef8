//! One link's events, in order: `Up`, its calls and messages, `Down`.
//!
//! A pump begins after the pump of the device's previous link has ended, also where the device was
//! not paired in between, so that the node never sees two links of one device at once.

use std::sync::Arc;

use nook_base::ErrorCode;
use nook_mux::{Incoming, Side};
use nook_wire::{Hello, Message};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::input::Passage;
use super::session::{Greeted, Session};
use super::{Link, LinkEvent, Shared};

/// Forwards the events of one link.
#[derive(Debug)]
pub(super) struct Pump {
    pub(super) number: u64,
    pub(super) greeted: Greeted,
    pub(super) own_hello: Hello,
    pub(super) shared: Arc<Shared>,
    pub(super) events: mpsc::Sender<LinkEvent>,
    pub(super) previous: Option<JoinHandle<()>>,
    /// The way that the link takes, once it has moved.
    pub(super) passage: watch::Receiver<Option<Passage>>,
}

impl Pump {
    pub(super) async fn run(self) {
        let Greeted { mut session, hello, protocol, side, listens_at } = self.greeted;
        if side == Side::Acceptor {
            // The answer that makes it a link. Should it fail, the end of the connection is noticed
            // below like any other.
            let _ = session.mux.send(Message::Hello(self.own_hello)).await;
        }
        if let Some(previous) = self.previous {
            // A panic in it has ended it as well.
            let _ = previous.await;
        }
        let peer = session.peer.id();
        let link = Link {
            number: self.number,
            peer: session.peer,
            mux: session.mux.clone(),
            hello: Arc::new(hello),
            protocol,
            local: session.local,
            remote: session.remote,
            listens_at,
        };
        self.shared.table().insert(peer, link.clone());
        let heard = self.events.send(LinkEvent::Up(link.clone())).await.is_ok();
        if heard {
            let moves = Moves { link, passage: self.passage, shared: &self.shared };
            forward(&mut session, &self.events, moves).await;
        }
        let reason = session.mux.closed().await;
        self.shared.table().remove(&peer);
        let down = LinkEvent::Down { peer, link: self.number, reason };
        // Nobody listens when everything is being shut down.
        let _ = self.events.send(down).await;
    }
}

/// Where a link goes.
struct Moves<'a> {
    link: Link,
    passage: watch::Receiver<Option<Passage>>,
    shared: &'a Shared,
}

impl Moves<'_> {
    /// The next way that the link takes.
    async fn next(&mut self) -> LinkEvent {
        loop {
            if self.passage.changed().await.is_err() {
                // The actor has let go of this link, which ends.
                std::future::pending::<()>().await;
            }
            let Some(passage) = self.passage.borrow_and_update().clone() else {
                continue;
            };
            let Passage { local, remote, listens_at, found, .. } = passage;
            self.link = Link { local, remote, listens_at, ..self.link.clone() };
            self.shared.table().insert(self.link.peer(), self.link.clone());
            return LinkEvent::Moved { link: self.link.clone(), found };
        }
    }
}

/// Hands on what the device begins, until the connection ends or nobody listens.
async fn forward(session: &mut Session, events: &mpsc::Sender<LinkEvent>, mut moves: Moves<'_>) {
    let peer = session.peer.id();
    loop {
        let event = tokio::select! {
            incoming = session.incoming.recv() => match incoming {
                Some(Incoming::Call(call)) => LinkEvent::IncomingCall { peer, call },
                // Before HELLO it would have had its answer.
                Some(Incoming::Control(Message::Trial(_))) => {
                    session.mux.close(Some(ErrorCode::BadRequest));
                    return;
                }
                Some(Incoming::Control(message)) => LinkEvent::Control { peer, message },
                None => return,
            },
            moved = moves.next() => moved,
        };
        if events.send(event).await.is_err() {
            return;
        }
    }
}
