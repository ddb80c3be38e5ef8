//! The listener: connections, their limits and timers.
//!
//! It listens on loopback, unless the owner has set `expose_to_lan` and another address: then other
//! machines of the network reach it too, by an address of this machine or by its name, and with the
//! key as ever. hyper is driven directly because `axum::serve` sets no timers: a client that
//! dribbles its header, or reads nothing, would hold a connection for ever.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router, middleware};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nook_api::{NodeHandle, PortSettings};
use nook_base::tasks::Tasks;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::attended::{self, Attended};
use crate::connections::{Connections, Seat};
use crate::port::{CameInAt, Limits, Port};
use crate::recorder;
use crate::router::router;
use crate::write_limit::WriteLimited;

/// Largest header, in bytes; a larger one is answered 431.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// How long what is under way has to say that it ends, when the port closes. The node waits no
/// longer than twice that for all its tasks.
const LEAVING: Duration = Duration::from_secs(1);

/// Pause after a failed accept, so that a lasting failure does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The open port. It closes with the tasks it was given.
#[derive(Debug, Clone)]
pub struct PortHandle {
    address: SocketAddr,
    localhost_taken: Option<SocketAddr>,
}

/// Why the port did not open.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Something holds the address, or it is not of this machine.
    #[error(
        "the port {address} cannot be opened ({source}): close the program that uses it, or set another one under [port] address in settings.toml"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// An address that other machines could reach, and the owner has not said that they may.
    #[error(
        "{address} is not an address of this machine alone: use 127.0.0.1, or set expose_to_lan = true beside it under [port]; then every program in your network that has the key can use this computer"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
}

impl PortHandle {
    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address that `localhost` means too, where another program has it: who goes there shows
    /// it the key and the prompt.
    #[must_use]
    pub fn localhost_taken(&self) -> Option<SocketAddr> {
        self.localhost_taken
    }
}

/// Opens the port and serves it until `tasks` is cancelled.
pub async fn serve(
    house: NodeHandle,
    settings: &PortSettings,
    limits: Limits,
    tasks: &Tasks,
) -> Result<PortHandle, PortError> {
    let address = settings.address;
    if !address.ip().is_loopback() && !settings.exposed {
        return Err(PortError::NotLoopback { address });
    }
    let failed = |source| PortError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let port = Port::new(house, address, settings, limits);
    tasks.spawn_until_cancelled("port-meters", recorder::condense(port.metrics.clone()));
    tasks.spawn_until_cancelled("port-strangers", port.strangers.clone().tell(port.house.clone()));
    let router = router(port);
    let connections = Connections::new(limits.connections);
    let (sibling, localhost_taken) = sibling(address).await;
    for listener in [Some(listener), sibling].into_iter().flatten() {
        let attendant = Attendant { router: router.clone(), limits, tasks: tasks.clone() };
        let accepting = accept(listener, attendant, connections.clone(), tasks.clone());
        tasks.spawn_until_cancelled("port", accepting);
    }
    Ok(PortHandle { address, localhost_taken })
}

/// The same number on `::1`: to some clients `localhost` means nothing else, also where others may
/// reach the port. Without it, the address where another program has it.
async fn sibling(address: SocketAddr) -> (Option<TcpListener>, Option<SocketAddr>) {
    if ![Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED].map(IpAddr::from).contains(&address.ip()) {
        return (None, None);
    }
    let sibling = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port());
    match TcpListener::bind(sibling).await {
        Ok(listener) => (Some(listener), None),
        Err(error) if error.kind() == ErrorKind::AddrInUse => (None, Some(sibling)),
        Err(error) => {
            // Usual where IPv6 is off; the shown address works all the same.
            tracing::debug!(%error, %sibling, "the port is not open there");
            (None, None)
        }
    }
}

/// Who attends to one connection.
#[derive(Debug, Clone)]
struct Attendant {
    router: Router,
    limits: Limits,
    tasks: Tasks,
}

/// When a connection ends that its client leaves open.
struct Ends {
    tasks: Tasks,
    seat: Arc<Seat>,
}

impl Ends {
    /// Waits until the connection is to end as soon as nothing is asked on it.
    async fn when_idle(&self) {
        self.tasks.token().cancelled().await;
    }

    /// Waits until it is to end, whatever it does.
    async fn at_last(&self) {
        self.tasks.token().cancelled().await;
        tokio::time::sleep(LEAVING).await;
    }
}

async fn accept(
    listener: TcpListener,
    attendant: Attendant,
    connections: Connections,
    tasks: Tasks,
) {
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the port could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(seat) = connections.take(from.ip()).await else {
            tracing::debug!("other machines have all their connections of the port already");
            continue;
        };
        let attendant = attendant.clone();
        // Not dropped when the node leaves: it watches the tasks itself, and ends soon after.
        tasks.spawn("port-connection", async move {
            attendant.attend(stream, seat).await;
        });
    }
}

impl Attendant {
    async fn attend(self, stream: TcpStream, seat: Arc<Seat>) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY on a connection of the port");
        }
        let router = match stream.local_addr() {
            Ok(address) => self.router.layer(Extension(CameInAt(address))),
            // It has ended already.
            Err(_) => return,
        };
        let ends = Ends { tasks: self.tasks, seat };
        serve_connection(stream, router, self.limits, ends).await;
    }
}

/// Serves one connection to its end.
async fn serve_connection<IO>(stream: IO, router: Router, limits: Limits, ends: Ends)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let stream = Attended::new(WriteLimited::new(stream, limits.write), ends.seat.clone());
    let router = router.layer(middleware::from_fn_with_state(ends.seat.clone(), attended::answer));
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => Some(ended),
        // At once: what was read of a request that is not whole has been answered by nobody.
        () = ends.seat.must_leave() => return,
        () = ends.when_idle() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            // What is under way goes on to its end, and says so itself where the node leaves.
            served.as_mut().graceful_shutdown();
            tokio::select! {
                ended = served.as_mut() => ended,
                () = ends.at_last() => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        // Clients that leave in the middle are usual.
        tracing::debug!(%error, "a connection of the port ended early");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use axum::response::sse::Event;
    use axum::routing::get;
    use tokio::io::AsyncWriteExt;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::stream::{self, Outgoing};

    /// A reply that never ends.
    struct Endless;

    impl Outgoing for Endless {
        type Piece = Event;

        async fn take_next(&mut self, ready: &mut VecDeque<Event>) -> bool {
            ready.push_back(Event::default().data("word"));
            true
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_its_stream_is_given_up_after_the_limit() {
        let limits = Limits { write: Duration::from_secs(7), ..Limits::USUAL };
        let router = Router::new().route("/", get(async || stream::send(Endless)));
        let (mut client, server) = tokio::io::duplex(1 << 10);
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let started = Instant::now();
        // The clock leaps from one timer to the next.
        let seat = Connections::new(1).take([127, 0, 0, 1].into()).await.unwrap();
        let ends = Ends { tasks: Tasks::new(), seat };
        let served = serve_connection(server, router, limits, ends);
        let ended = timeout(Duration::from_secs(3600), served).await;
        assert!(ended.is_ok(), "it holds its connection");
        assert_eq!(started.elapsed().as_secs(), limits.write.as_secs());
        drop(client);
    }
}
