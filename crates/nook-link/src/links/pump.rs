//! One link's events, in order: `Up`, its calls and messages, `Down`.
//!
//! A pump begins after the pump of the device's previous link has ended, also where the device was
//! not paired in between, so that the node never sees two links of one device at once.

use std::sync::Arc;

use nook_mux::{Incoming, Side};
use nook_wire::{Hello, Message};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

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
            remote: session.remote,
            listens_at,
        };
        self.shared.table().insert(peer, link.clone());
        let heard = self.events.send(LinkEvent::Up(link)).await.is_ok();
        if heard {
            forward(&mut session, &self.events).await;
        }
        let reason = session.mux.closed().await;
        self.shared.table().remove(&peer);
        let down = LinkEvent::Down { peer, link: self.number, reason };
        // Nobody listens when everything is being shut down.
        let _ = self.events.send(down).await;
    }
}

/// Hands on what the device begins, until the connection ends or nobody listens.
async fn forward(session: &mut Session, events: &mpsc::Sender<LinkEvent>) {
    let peer = session.peer.id();
    while let Some(incoming) = session.incoming.recv().await {
        let event = match incoming {
            Incoming::Call(call) => LinkEvent::IncomingCall { peer, call },
            Incoming::Control(message) => LinkEvent::Control { peer, message },
        };
        if events.send(event).await.is_err() {
            return;
        }
    }
}
