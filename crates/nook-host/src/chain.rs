//! Results that go from host to host: what a host does when a requester makes it a part of a chain.
//!
//! ```text
//! requester ══ call ══► proxy of the first host ── outlet ══ relay ══► feed ── proxy of the next
//!     ▲                        │ PASSED                                             │ RESULT
//!     └────────────────────────┴────────────────── the requester's own call ◄───────┘
//! ```
//!
//! A call of a guest has two ends here: its `Feed` says where steps come from (the requester, or
//! one carrier), its `Outlet` where results go (home, or to the next host). Both begin as usual
//! and are joined by a ticket before the first step. The first host checks that the requester of
//! this very call wants it, and that its own owner lets it send to the next device; then it opens a
//! relay there. The next host asks its gate about the *requester* ([`Gate::admit_ticket`]) and
//! joins the relay to the call that this requester itself has opened. A relay opens nothing and is
//! worth nothing without that call; when it ends, however it ends, the requester is told on its own
//! call and goes on without.
//!
//! Nothing is buffered here. A chunk is taken from the worker when the next host has room for it,
//! so a slow next host stops this host's worker, and by the same credit the requester.
//!
//! [`Gate::admit_ticket`]: nook_trust::Gate::admit_ticket

pub(crate) mod feed;
pub(crate) mod outlet;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use nook_base::{ErrorCode, PeerId, clock};
use nook_mux::Call;
use nook_store::{AuditAsked, AuditSubject, AuditWhy};
use nook_trust::purpose::Lend;
use nook_trust::{Admitted, DevicePublicKey, Ticket, TicketClaim};
use nook_wire::{Message, Open, WireError};
use tokio::sync::{mpsc, oneshot, watch};

use super::audit::{Audit, subject};
use super::events::HostEvent;
use super::giving::{self, Asked, Giving};
use super::refusal::{end_code, error, opening, refuse};
use super::terms::{CopyPass, NamedCall, NamedCalls};
use nook_resources::adverts::AdvertBook;

/// Longest wait for the next host to take a relay. Then the requester is told that there is none.
/// It waits longer itself, so that this answer is in time.
const RELAY_LIMIT: Duration = Duration::from_secs(2);

/// What the calls of guests need to be joined with other hosts. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Chains {
    me: PeerId,
    events: mpsc::Sender<HostEvent>,
    pub(crate) book: watch::Receiver<Arc<AdvertBook>>,
    named: NamedCalls,
}

/// One guest's call as a part of a chain. Dropping it gives its name back.
#[derive(Debug)]
pub(crate) struct Member {
    chains: Chains,
    guest: PeerId,
    open: Open,
    /// Whether the name means this call, and not an earlier one that still lives.
    is_named: bool,
}

impl Chains {
    pub(crate) fn new(
        me: PeerId,
        events: mpsc::Sender<HostEvent>,
        book: watch::Receiver<Arc<AdvertBook>>,
        named: NamedCalls,
    ) -> Self {
        Self { me, events, book, named }
    }

    /// A call of an admitted guest that was opened like this, and where its carrier would arrive. A
    /// second call of a name that is taken is served like any, but no carrier finds it: a requester
    /// that uses a name twice keeps the first meaning of its tickets.
    pub(crate) fn member(
        &self,
        guest: &Admitted<Lend>,
        open: Open,
    ) -> (Member, oneshot::Receiver<Call<Message>>) {
        let (carrier, arrival) = oneshot::channel();
        let guest = guest.peer();
        let is_named = match self.named.all().entry((guest, open.session)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(NamedCall { open: open.clone(), carrier: Some(carrier) });
                true
            }
        };
        (Member { chains: self.clone(), guest, open, is_named }, arrival)
    }
}

/// Joins a carrier's call to the call that the ticket names, if that call waits for one.
pub(crate) fn join(
    calls: &NamedCalls,
    requester: &Admitted<Lend>,
    claim: &TicketClaim,
    call: Call<Message>,
) -> Result<(), (Call<Message>, WireError)> {
    let key = (requester.peer(), claim.session);
    let mut all = calls.all();
    let gone = "no call of that name waits for steps: it is over, has begun, or has a carrier";
    let Some(named) = all.get_mut(&key).filter(|named| named.carrier.is_some()) else {
        return Err((call, error(ErrorCode::NotFound, gone)));
    };
    if !is_for(claim, &named.open) {
        let sentence = "the ticket is for a call that was opened otherwise";
        return Err((call, error(ErrorCode::BadRequest, sentence)));
    }
    // From here on the name is used up.
    match named.carrier.take().map(|carrier| carrier.send(call)) {
        None | Some(Ok(())) => Ok(()),
        Some(Err(call)) => Err((call, error(ErrorCode::NotFound, gone))),
    }
}

impl Member {
    /// The advert book, for whoever waits until a device may not be used any more.
    pub(crate) fn book(&self) -> watch::Receiver<Arc<AdvertBook>> {
        self.chains.book.clone()
    }

    /// Opens a relay to the host of `ticket`; the code says why there is none.
    pub(crate) async fn relay(&self, ticket: &Ticket) -> Result<Call<Message>, ErrorCode> {
        self.check(ticket)?;
        let (answer, wait) = oneshot::channel();
        let question = HostEvent::NextHost { peer: ticket.claim.host, answer };
        self.chains.events.send(question).await.map_err(|_| ErrorCode::Draining)?;
        let link = wait.await.map_err(|_| ErrorCode::Draining)??;
        let joined = async {
            let mut call = link.mux().open_call().await.map_err(|_| ErrorCode::ShardUnavailable)?;
            let opening = Message::Relay(Box::new(ticket.clone()));
            call.send(opening).await.map_err(|error| error.code())?;
            match call.recv().await {
                Ok(Message::Onward { code: None }) => Ok(call),
                Ok(Message::Onward { code: Some(code) }) => Err(code),
                Ok(Message::Error(error)) => Err(error.code),
                Ok(_) => Err(ErrorCode::BadRequest),
                Err(error) => Err(end_code(&error)),
            }
        };
        let joined = tokio::time::timeout(RELAY_LIMIT, joined).await;
        joined.unwrap_or(Err(ErrorCode::PipelineStalled))
    }

    /// Whether the requester of this call wants just this. The next host checks the signature; here
    /// it is the link that proves who asks.
    fn check(&self, ticket: &Ticket) -> Result<(), ErrorCode> {
        let key = DevicePublicKey::from_bytes(&ticket.requester);
        let is_theirs = key.is_ok_and(|key| key.peer_id() == self.guest);
        let claim = &ticket.claim;
        let follows = claim.layers.start() == self.open.layers.end() && !claim.layers.is_empty();
        let here = (claim.carrier, claim.model, claim.dtype, claim.positions_max);
        let Open { model, dtype, positions_max, .. } = self.open;
        if is_theirs && follows && here == (self.chains.me, model, dtype, positions_max) {
            Ok(())
        } else {
            Err(ErrorCode::BadRequest)
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.is_named {
            self.chains.named.all().remove(&(self.guest, self.open.session));
        }
    }
}

/// A call of a device that may not use layers here. It may still bring another's steps, or want a
/// model; what it begins with tells. Everything else is refused as `error` says.
pub(crate) async fn relay_or_refuse(
    (peer, copies): (PeerId, Result<CopyPass, WireError>),
    mut call: Call<Message>,
    (error, why): (WireError, AuditWhy),
    (giving, events, audit): (Giving, mpsc::Sender<HostEvent>, Audit),
) {
    let message = match opening(&mut call).await {
        Ok(Some(message)) => message,
        // The other side has left already.
        Ok(None) => return,
        Err(late) => return refuse(call, late).await,
    };
    if let Some(want) = Asked::of(&message) {
        return giving::give((peer, copies), (&giving, &audit), want, call).await;
    }
    let asked = match message {
        Message::Relay(ticket) => return present(peer, ticket, call, &events).await,
        Message::Open(open) => subject(AuditAsked::Compute, open.model, None, Some(open.layers)),
        Message::OffloadRequest(ask) => subject(AuditAsked::Whole, ask.model, None, None),
        _ => AuditSubject { asked: AuditAsked::Compute, model: None, layers: None },
    };
    tracing::info!(?peer, code = %error.code, "a call was refused");
    audit.refuse(clock::unix_seconds(), peer, asked, why);
    refuse(call, error).await;
}

/// Takes a relay to the state machine, which asks the gate.
pub(crate) async fn present(
    carrier: PeerId,
    ticket: Box<Ticket>,
    call: Call<Message>,
    events: &mpsc::Sender<HostEvent>,
) {
    // A closed inbox means that the node is leaving, and this call with it.
    let _ = events.send(HostEvent::Relay { carrier, ticket, call }).await;
}

/// Whether `claim` is for a call that was opened like this.
fn is_for(claim: &TicketClaim, open: &Open) -> bool {
    (claim.session, claim.model, claim.layers) == (open.session, open.model, open.layers)
        && (claim.dtype, claim.positions_max) == (open.dtype, open.positions_max)
}
