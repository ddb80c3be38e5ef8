//! The listener: connections, their limits and timers.
//!
//! It listens on loopback, unless the owner has set `expose_to_lan` and another address: then other machines
//! of the network reach it too, by an address of this machine or by its name, and with the key as ever.
//! hyper is driven directly because `axum::serve` sets no timers: a client that dribbles its header
//! would hold a connection for ever.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::routing::{get, post};
use axum::{Extension, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use nook_api::{NodeHandle, PortSettings};
use nook_base::tasks::Tasks;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{chat, completions, embeddings, guard, models, openapi, recorder, responses};

/// Largest header, in bytes; a larger one is answered 431.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// One connection in so many is only for this machine.
const OWN_PART: usize = 4;

/// Pause after a failed accept, so that a lasting failure does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// What one client may take up before others would feel it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once; the next one waits in the system's queue. A quarter of them is only for this
    /// machine: where the network is let in, one more from there is closed, so that it holds up nobody.
    pub connections: usize,
    /// Longest wait for a request's header, also between two requests; then the connection ends.
    pub header: Duration,
    /// Longest wait for a whole body; then the answer is 408.
    pub body: Duration,
}

/// What every request can reach.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    pub(crate) house: NodeHandle,
    pub(crate) address: SocketAddr,
    pub(crate) origins: Arc<Vec<String>>,
    /// What this machine is called by others that may reach the port; `None` where none may.
    pub(crate) exposed_as: Option<Arc<Vec<String>>>,
    pub(crate) limits: Limits,
    pub(crate) wrong_keys: Arc<Semaphore>,
    pub(crate) strangers: Arc<guard::Strangers>,
    pub(crate) embeddings: embeddings::Queue,
    metrics: PrometheusHandle,
}

/// The open port. It closes with the tasks it was given.
#[derive(Debug, Clone)]
pub struct PortHandle {
    address: SocketAddr,
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

impl Limits {
    /// Those of every port; tests take smaller ones.
    pub const USUAL: Self =
        Self { connections: 64, header: Duration::from_secs(10), body: Duration::from_secs(30) };
}

impl PortHandle {
    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
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
    let port = Port {
        house,
        address,
        origins: Arc::new(settings.allowed_origins.clone()),
        exposed_as: settings.exposed.then(|| Arc::new(settings.host_names.clone())),
        limits,
        wrong_keys: Arc::new(Semaphore::new(guard::WRONG_KEYS_MAX)),
        strangers: Arc::default(),
        embeddings: embeddings::Queue::new(),
        metrics: recorder::handle(),
    };
    tasks.spawn_until_cancelled("port-meters", recorder::condense(port.metrics.clone()));
    tasks.spawn_until_cancelled("port-strangers", port.strangers.clone().tell(port.house.clone()));
    let router = router(port);
    let seats = Seats::new(limits.connections);
    for listener in [Some(listener), sibling(address).await].into_iter().flatten() {
        let attendant = Attendant { router: router.clone(), header: limits.header };
        let accepting = accept(listener, attendant, seats.clone(), tasks.clone());
        tasks.spawn_until_cancelled("port", accepting);
    }
    Ok(PortHandle { address })
}

/// The same number on `::1`: to some clients `localhost` means nothing else, also where others may reach the port.
async fn sibling(address: SocketAddr) -> Option<TcpListener> {
    if ![Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED].map(IpAddr::from).contains(&address.ip()) {
        return None;
    }
    let sibling = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port());
    match TcpListener::bind(sibling).await {
        Ok(listener) => Some(listener),
        Err(error) => {
            // Usual where IPv6 is off; the shown address works all the same.
            tracing::debug!(%error, %sibling, "the port is not open there");
            None
        }
    }
}

/// Where on this machine a connection came in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CameInAt(pub(crate) SocketAddr);

/// Who attends to one connection.
#[derive(Debug, Clone)]
struct Attendant {
    router: Router,
    header: Duration,
}

/// Places for connections, of all listeners together.
#[derive(Debug, Clone)]
struct Seats {
    all: Arc<Semaphore>,
    /// Those of them that other machines may have.
    away: Arc<Semaphore>,
}

/// The place of one connection; given back when it is dropped.
type Seat = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl Seats {
    fn new(count: usize) -> Self {
        let away = count - count / OWN_PART;
        Self { all: Arc::new(Semaphore::new(count)), away: Arc::new(Semaphore::new(away)) }
    }

    /// Waits for a place. `None` for another machine where all of theirs are taken.
    async fn take(&self, from: IpAddr) -> Option<Seat> {
        let away = match from.to_canonical().is_loopback() {
            true => None,
            false => Some(self.away.clone().try_acquire_owned().ok()?),
        };
        Some((self.all.clone().acquire_owned().await.ok()?, away))
    }
}

async fn accept(listener: TcpListener, attendant: Attendant, seats: Seats, tasks: Tasks) {
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the port could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(seat) = seats.take(from.ip()).await else {
            tracing::debug!("other machines have all their connections of the port already");
            continue;
        };
        let attendant = attendant.clone();
        tasks.spawn_until_cancelled("port-connection", async move {
            attendant.attend(stream).await;
            drop(seat);
        });
    }
}

impl Attendant {
    async fn attend(self, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY on a connection of the port");
        }
        let router = match stream.local_addr() {
            Ok(address) => self.router.layer(Extension(CameInAt(address))),
            // It has ended already.
            Err(_) => return,
        };
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header)
            .max_buf_size(HEADER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
            .await;
        if let Err(error) = served {
            // Clients that leave in the middle are usual.
            tracing::debug!(%error, "a connection of the port ended early");
        }
    }
}

/// Every path with and without `/v1`, with and without a slash at its end: people type base
/// addresses in all four ways.
fn router(port: Port) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(healthz))
        .route("/health", get(healthz))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi::serve))
        .route("/v1", get(models::hello))
        .route("/v1/", get(models::hello));
    for base in ["/v1", ""] {
        for end in ["", "/"] {
            router = router
                .route(&format!("{base}/models{end}"), get(models::list))
                .route(&format!("{base}/chat/completions{end}"), post(chat::complete))
                .route(&format!("{base}/completions{end}"), post(completions::complete))
                .route(&format!("{base}/embeddings{end}"), post(embeddings::embed))
                .route(&format!("{base}/responses{end}"), post(responses::respond));
        }
        router = router.route(&format!("{base}/models/{{*id}}"), get(models::one));
    }
    router
        .fallback(guard::unknown_route)
        .method_not_allowed_fallback(guard::wrong_method)
        .layer(axum::middleware::from_fn_with_state(port.clone(), guard::check))
        .with_state(port)
}

/// Only says that the port answers; no version, nothing to learn.
async fn healthz() -> &'static str {
    "ok"
}

async fn metrics(axum::extract::State(port): axum::extract::State<Port>) -> String {
    port.metrics.render()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn other_machines_leave_a_quarter_of_the_connections_to_this_one() {
        let seats = Seats::new(Limits::USUAL.connections);
        let (here, mapped) = ([127, 0, 0, 1].into(), "::ffff:127.0.0.1".parse().unwrap());
        let there: IpAddr = [192, 168, 1, 5].into();
        let take = |from: IpAddr| seats.take(from).now_or_never();
        let taken: Vec<_> = (0..48).map(|_| take(there).flatten().unwrap()).collect();
        assert!(take(there).is_some_and(|seat| seat.is_none()), "closed at once");
        let own: Vec<_> = (0..16).map(|_| take(mapped).flatten().unwrap()).collect();
        assert!(take(here).is_none(), "it waits");
        drop(own);
        assert!(take(there).is_some_and(|seat| seat.is_none()));
        drop(taken);
        assert!(take(there).flatten().is_some());
    }
}
