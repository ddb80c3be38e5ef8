//! One attempt at one device: its addresses race, one connection is kept, HELLO is exchanged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use nook_base::{ErrorCode, PeerId};
use nook_mux::{CloseReason, Side, metered};
use nook_wire::Message;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::greet::{CONNECT_DEADLINE, GreetError, Greeter};
use super::input::{AddressFailure, DialFailure, Dialled, Input};
use super::session::{Greeted, Upgraded};
use crate::{socket, tls, websocket};

/// How long one address is tried alone before the next joins in.
const RACE_AFTER: Duration = Duration::from_millis(250);

/// Attempts under way at once, to all devices; further ones wait for their turn.
pub(super) const DIALS_MAX: usize = 16;

/// One attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) greeter: Arc<Greeter>,
    pub(super) turns: Arc<Semaphore>,
    pub(super) peer: PeerId,
    pub(super) number: u64,
    /// Best first.
    pub(super) addresses: Vec<SocketAddr>,
}

impl Attempt {
    pub(super) async fn run(self) {
        let Ok(_turn) = self.turns.acquire().await else {
            return;
        };
        let mut failures = Vec::new();
        let outcome = match self.race(&mut failures).await {
            Some(upgraded) => match self.greet(upgraded).await {
                Some(outcome) => outcome,
                None => return, // another connection has won meanwhile; nobody waits for this one
            },
            None => Err(DialFailure::NoConnection),
        };
        let dialled = Dialled { peer: self.peer, number: self.number, failures, outcome };
        // The actor is gone only when everything is being shut down.
        let _ = self.greeter.inputs.send(Input::Dialled(dialled)).await;
    }

    /// The first address that leads to the device wins; the others are dropped before HELLO, so
    /// that the device has one connection to think about.
    async fn race(&self, failures: &mut Vec<(SocketAddr, AddressFailure)>) -> Option<Upgraded> {
        let connector =
            tls::link_connector(&self.greeter.identity, self.peer, self.greeter.pins.clone());
        let mut waiting = self.addresses.iter().copied();
        let mut running = FuturesUnordered::new();
        loop {
            if let Some(address) = waiting.next() {
                let (greeter, connector) = (&self.greeter, connector.clone());
                running.push(
                    async move { (address, connect(greeter, address, None, connector).await) },
                );
            } else if running.is_empty() {
                return None;
            }
            // The next address joins in when one has failed, or when none has answered for a while.
            let finished = if waiting.len() == 0 {
                running.next().await
            } else {
                timeout(RACE_AFTER, running.next()).await.unwrap_or(None)
            };
            match finished {
                Some((_, Ok(upgraded))) => return Some(upgraded),
                Some((address, Err(failure))) => failures.push((address, failure)),
                None => {}
            }
        }
    }

    /// Says HELLO, if this dial is still wanted, and waits for the answer. `None`: not wanted.
    async fn greet(&self, upgraded: Upgraded) -> Option<Result<Greeted, DialFailure>> {
        let (answer, may_greet) = oneshot::channel();
        let question = Input::MayGreet { peer: self.peer, number: self.number, answer };
        self.greeter.inputs.send(question).await.ok()?;
        if !may_greet.await.unwrap_or(false) {
            return None;
        }
        let mut session = self.greeter.start(upgraded, Side::Dialer);
        let own = Message::Hello(self.greeter.own_hello());
        if session.mux.send(own).await.is_err() {
            return Some(Err(DialFailure::NotAnswered));
        }
        Some(match self.greeter.hello_of(&mut session).await {
            Ok((hello, protocol)) => {
                let (side, listens_at) = (Side::Dialer, Some(session.remote));
                Ok(Greeted { session, hello, protocol, side, listens_at })
            }
            Err(GreetError::Incompatible(versions)) => {
                Err(DialFailure::Incompatible { versions: Some(versions) })
            }
            Err(GreetError::NoHello) if was_incompatible(&session.mux).await => {
                Err(DialFailure::Incompatible { versions: None })
            }
            Err(GreetError::NoHello) => Err(DialFailure::NotAnswered),
        })
    }
}

/// A connection to `address` that no HELLO was said on. `from`: by the interface with that address.
pub(super) async fn connect(
    greeter: &Greeter,
    address: SocketAddr,
    from: Option<SocketAddr>,
    connector: tokio_rustls::TlsConnector,
) -> Result<Upgraded, AddressFailure> {
    let connected = timeout(CONNECT_DEADLINE, upgrade(greeter, address, from, connector)).await;
    connected.unwrap_or(Err(AddressFailure::NoAnswer))
}

async fn upgrade(
    greeter: &Greeter,
    address: SocketAddr,
    from: Option<SocketAddr>,
    connector: tokio_rustls::TlsConnector,
) -> Result<Upgraded, AddressFailure> {
    let stream = socket::connect(address, from).await.map_err(|_| AddressFailure::NoAnswer)?;
    let local = stream.local_addr().map_err(|_| AddressFailure::NoAnswer)?;
    socket::tune(&stream);
    let (stream, meter) = metered(stream);
    let session =
        connector.connect(tls::server_name(), stream).await.map_err(
            |error| match tls::refusal_in(&error) {
                Some(_) => AddressFailure::SomebodyElse,
                None => AddressFailure::NoAnswer,
            },
        )?;
    let peer = tls::authenticate(session.get_ref().1, &greeter.pins)
        .map_err(|_| AddressFailure::SomebodyElse)?;
    // The other side's verdict on this device's key arrives with the answer to the upgrade.
    let socket = websocket::dial(session.into()).await.map_err(|error| {
        if tls::is_refusal_by_peer(&error) {
            AddressFailure::NotTaken
        } else {
            AddressFailure::NoAnswer
        }
    })?;
    Ok(Upgraded { peer, local, remote: address, socket, meter })
}

/// Whether the other end has closed the connection because of the version.
async fn was_incompatible(mux: &nook_mux::Mux<Message>) -> bool {
    let mismatch = CloseReason::Remote { code: Some(ErrorCode::VersionMismatch) };
    mux.is_closed() && mux.closed().await == mismatch
}
