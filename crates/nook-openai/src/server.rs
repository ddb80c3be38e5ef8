//! The listener: connections, their limits and timers.
//!
//! hyper is driven directly because `axum::serve` sets no timers: a client that dribbles its header
//! would hold a connection for ever.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use nook_base::Sensitive;
use nook_base::tasks::Tasks;
use nook_node::{House, PortSettings};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::{chat, guard, models};

/// Connections at once; the next one waits in the system's queue.
const CONNECTIONS_MAX: usize = 64;

/// Longest wait for a request's header.
const HEADER_LIMIT: Duration = Duration::from_secs(10);

/// Largest header, in bytes.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Replies made at once for programs; see [`REPLIES_WAITING_MAX`].
const REPLIES_MAX: usize = 4;

/// Requests that may wait for one of [`REPLIES_MAX`]; one more is answered 429.
pub(crate) const REPLIES_WAITING_MAX: usize = 16;

/// Pause after a failed accept, so that a lasting failure does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// What every request can reach.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    pub(crate) house: House,
    pub(crate) address: SocketAddr,
    pub(crate) key: Arc<Sensitive<String>>,
    pub(crate) origins: Arc<Vec<String>>,
    pub(crate) replies: Arc<Semaphore>,
    pub(crate) waiting: Arc<Semaphore>,
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
    /// An address that other machines could reach.
    #[error("{address} is not an address of this machine alone: use 127.0.0.1")]
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
}

/// Opens the port and serves it until `tasks` is cancelled.
pub async fn serve(
    house: House,
    settings: &PortSettings,
    tasks: &Tasks,
) -> Result<PortHandle, PortError> {
    let address = settings.address;
    if !address.ip().is_loopback() {
        return Err(PortError::NotLoopback { address });
    }
    let failed = |source| PortError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let port = Port {
        house,
        address,
        key: Arc::new(Sensitive(settings.key.0.clone())),
        origins: Arc::new(settings.allowed_origins.clone()),
        replies: Arc::new(Semaphore::new(REPLIES_MAX)),
        waiting: Arc::new(Semaphore::new(REPLIES_WAITING_MAX)),
        metrics: recorder(),
    };
    let router = router(port);
    let group = tasks.clone();
    tasks.spawn_until_cancelled("port", accept(listener, router, group));
    Ok(PortHandle { address })
}

async fn accept(listener: TcpListener, router: Router, tasks: Tasks) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(seat) = seats.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tasks.spawn_until_cancelled("port-connection", async move {
                    attend(stream, router).await;
                    drop(seat);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the port could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn attend(stream: TcpStream, router: Router) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY on a connection of the port");
    }
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
    if let Err(error) = served {
        // Clients that leave in the middle are usual.
        tracing::debug!(%error, "a connection of the port ended early");
    }
}

fn router(port: Port) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/health", get(healthz))
        .route("/metrics", get(metrics))
        .route("/v1", get(models::hello))
        .route("/v1/models", get(models::list))
        .route("/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
        .route("/v1/chat/completions", post(chat::complete))
        .route("/v1/chat/completions/", post(chat::complete))
        .route("/chat/completions", post(chat::complete))
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
    port.metrics.run_upkeep();
    port.metrics.render()
}

/// One recorder a process: a second port (tests) shares the first one's.
fn recorder() -> PrometheusHandle {
    static RECORDER: std::sync::OnceLock<PrometheusHandle> = std::sync::OnceLock::new();
    RECORDER
        .get_or_init(|| match PrometheusBuilder::new().install_recorder() {
            Ok(handle) => handle,
            Err(error) => {
                tracing::warn!(%error, "another recorder is set: /metrics shows nothing");
                PrometheusBuilder::new().build_recorder().handle()
            }
        })
        .clone()
}
