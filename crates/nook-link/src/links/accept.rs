//! The main port: from a TCP connection to a device that has said HELLO, within deadlines and caps.
//!
//! The accepting loop never serves: each connection has a task of its own, and a slot among those
//! who have not proved who they are.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nook_base::ErrorCode;
use nook_mux::{Metered, Side, metered};
use nook_wire::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::greet::{CONNECT_DEADLINE, GreetError, Greeter};
use super::input::Input;
use super::session::{Greeted, Upgraded};
use super::trial;
use super::turned_away::{TurnedAwayCounts, WhyTurnedAway};
use crate::accepting::Accepting;
use crate::admission::{Admission, Caller, counted_as};
use crate::{socket, tls, websocket};

/// How long a refused connection may take to read why.
const LINGER: Duration = Duration::from_millis(500);

/// Bytes of a refused connection that are read and thrown away.
const LINGER_BYTES_MAX: u64 = 16 << 10;

/// Hosts at which paired devices are, as far as they have shown. Written by the actor, read by the
/// door.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownHosts(Arc<Mutex<HashSet<IpAddr>>>);

/// The main port.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) greeter: Arc<Greeter>,
    pub(super) admission: Admission,
    pub(super) known_hosts: KnownHosts,
    pub(super) turned_away: TurnedAwayCounts,
}

impl KnownHosts {
    pub(super) fn set(&self, hosts: HashSet<IpAddr>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    fn caller(&self, host: IpAddr) -> Caller {
        let hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.contains(&host) { Caller::Known } else { Caller::Stranger }
    }
}

impl Door {
    pub(super) async fn serve(self, listeners: Vec<TcpListener>) {
        let acceptor = tls::link_acceptor(&self.greeter.identity, self.greeter.pins.clone());
        let mut accepting = Accepting::new(listeners);
        loop {
            let (stream, from) = accepting.next().await;
            let caller = self.known_hosts.caller(from.ip());
            let Some(slot) = self.admission.enter(from.ip(), caller) else {
                tracing::debug!(%from, "too many connections that have not proved who they are");
                self.turned_away.note(counted_as(from.ip()), WhyTurnedAway::TooMany, None);
                continue;
            };
            let greeter = self.greeter.clone();
            let (acceptor, turned_away) = (acceptor.clone(), self.turned_away.clone());
            self.greeter.tasks.spawn_until_cancelled("link door", async move {
                let upgrade = upgrade((&greeter, &turned_away), stream, from, acceptor);
                let upgraded = tokio::select! {
                    upgraded = timeout(CONNECT_DEADLINE, upgrade) => upgraded,
                    () = slot.must_leave() => {
                        tracing::debug!(%from, "gives way to others at the door");
                        return;
                    }
                };
                match upgraded {
                    Ok(Some(upgraded)) => {
                        slot.proven();
                        if let Some(upgraded) = trial::serve(&greeter, upgraded).await {
                            greet(&greeter, upgraded).await;
                        }
                    }
                    Ok(None) => {}
                    Err(_) => tracing::debug!(%from, "too slow at the door"),
                }
                drop(slot);
            });
        }
    }
}

async fn upgrade(
    (greeter, turned_away): (&Greeter, &TurnedAwayCounts),
    stream: TcpStream,
    remote: SocketAddr,
    acceptor: tokio_rustls::TlsAcceptor,
) -> Option<Upgraded> {
    let local = stream.local_addr().ok()?;
    socket::tune(&stream);
    let (stream, meter) = metered(stream);
    let session = match acceptor.accept(stream).into_fallible().await {
        Ok(session) => session,
        Err((error, stream)) => {
            tracing::debug!(%remote, %error, "refused at the door");
            if let Some(claims) = tls::refused_here(&error) {
                let from = counted_as(remote.ip());
                turned_away.note(from, WhyTurnedAway::NotPaired, claims);
            }
            linger(stream).await;
            return None;
        }
    };
    let peer = match tls::authenticate(session.get_ref().1, &greeter.pins) {
        Ok(peer) => peer,
        Err(error) => {
            tracing::debug!(%remote, %error, "refused after the handshake");
            turned_away.note(counted_as(remote.ip()), WhyTurnedAway::NotPaired, None);
            return None;
        }
    };
    let socket = websocket::accept(session.into()).await;
    let socket = socket.inspect_err(|error| tracing::debug!(%remote, %error, "no upgrade")).ok()?;
    Some(Upgraded { peer, local, remote, socket, meter })
}

/// Reads on for a moment after a refusal: closing a socket with unread bytes in it would destroy
/// the alert under way, and the other device could not say to its owner why.
async fn linger(mut stream: Metered<TcpStream>) {
    let drained = async {
        stream.shutdown().await?;
        let mut rest = stream.take(LINGER_BYTES_MAX);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // It is refused either way.
    let _ = timeout(LINGER, drained).await;
}

/// Takes HELLO; the actor decides whether it is answered.
async fn greet(greeter: &Greeter, upgraded: Upgraded) {
    let mut session = greeter.start(upgraded, Side::Acceptor);
    match greeter.hello_of(&mut session).await {
        Ok((hello, protocol)) => {
            let listens_at =
                (hello.listen_port != 0).then(|| with_port(session.remote, hello.listen_port));
            let side = Side::Acceptor;
            let greeted = Greeted { session, hello, protocol, side, listens_at };
            // The actor is gone only when everything is being shut down.
            let _ = greeter.inputs.send(Input::Arrived(greeted)).await;
        }
        Err(GreetError::NoHello) => {}
        Err(GreetError::Incompatible(versions)) => {
            let peer = session.peer.id();
            // The other end learns this side's versions, so that it can say the same to its owner.
            let own = Message::Hello(greeter.own_hello());
            if session.mux.send(own).await.is_ok() {
                session.dismiss(ErrorCode::VersionMismatch);
            }
            let input = Input::Incompatible { peer, versions };
            let _ = greeter.inputs.send(input).await;
        }
    }
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}
