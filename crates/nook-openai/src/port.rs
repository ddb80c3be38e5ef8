//! What every request to the port can reach: the node, the limits, and what requests share.
//!
//! `server` makes one [`Port`] and hands it to `router`; each route gets a clone. Nothing here
//! knows a route.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use metrics_exporter_prometheus::PrometheusHandle;
use nook_api::{NodeHandle, PortSettings};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::body;
use crate::embedding_queue::{EmbeddingQueue, Waiting};
use crate::error::ApiError;
use crate::pace::Pace;
use crate::preparing::{Place, Preparing};
use crate::reading::Reading;
use crate::recorder;
use crate::responses::KeptAnswers;
use crate::strangers::Strangers;

/// Wrong keys that are being answered at once; one more is told to try again later.
const WRONG_KEYS_MAX: usize = 8;

/// What one client may take up before others would feel it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once; the next one waits in the system's queue. A quarter of them is only for
    /// this machine: where the network is let in, one more from there is closed, so that it holds
    /// up nobody.
    pub connections: usize,
    /// Longest wait for a request's header, also between two requests; then the connection ends.
    pub header: Duration,
    /// Longest wait for a whole body; then the answer is 408.
    pub body: Duration,
    /// Longest time in which a client takes nothing of what is written to it; then the connection
    /// ends, and with it the reply. Long enough for a machine that is busy or just waking up.
    pub write: Duration,
}

impl Limits {
    /// Those of every port; tests take smaller ones.
    pub const USUAL: Self = Self {
        connections: 64,
        header: Duration::from_secs(10),
        body: Duration::from_secs(30),
        write: Duration::from_secs(60),
    };
}

/// What every request can reach.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    pub(crate) house: NodeHandle,
    pub(crate) address: SocketAddr,
    pub(crate) origins: Arc<Vec<String>>,
    /// Names that the owner allows besides.
    pub(crate) hosts: Arc<Vec<String>>,
    /// What this machine is called by others that may reach the port; `None` where none may.
    pub(crate) exposed_as: Option<Arc<Vec<String>>>,
    pub(crate) limits: Limits,
    pub(crate) wrong_keys: Arc<Semaphore>,
    pub(crate) strangers: Arc<Strangers>,
    pub(crate) embeddings: EmbeddingQueue,
    pub(crate) pace: Pace,
    pub(crate) preparing: Preparing,
    pub(crate) reading: Reading,
    pub(crate) kept: KeptAnswers,
    pub(crate) metrics: PrometheusHandle,
}

/// Where on this machine a connection came in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CameInAt(pub(crate) SocketAddr);

impl Port {
    /// Reads all of the `body` of a request for a reply, and looks at it once there is a place for
    /// it. The place is to be held until the reply has come, or was refused.
    pub(crate) async fn read_in_turn<T: DeserializeOwned + Send + 'static>(
        &self,
        body: Body,
    ) -> Result<(T, Place), ApiError> {
        let bytes = body::all(body, self.limits.body, body::BODY_BYTES_MAX).await?;
        let Some(place) = self.preparing.take().await else {
            let busy = ApiError::too_many("Too many requests for replies wait. Try again shortly.");
            return Err(busy.after(self.pace.seconds(1)));
        };
        Ok((self.reading.parse(bytes).await?, place))
    }

    /// Reads all of the `body` of a request for vectors if it may wait for its turn, which bounds how
    /// much of such bodies is in memory. The place is to be held until the vectors have come, or were
    /// refused.
    pub(crate) async fn read_for_vectors<T: DeserializeOwned + Send + 'static>(
        &self,
        body: Body,
    ) -> Result<(T, Waiting), ApiError> {
        let waiting = match self.embeddings.wait() {
            Ok(waiting) => waiting,
            Err(busy) => {
                // Read, and dropped: see `body`. How that went does not matter.
                let _ = body::all(body, self.limits.body, 0).await;
                return Err(busy);
            }
        };
        let bytes = body::all(body, self.limits.body, body::VECTORS_BYTES_MAX).await?;
        Ok((self.reading.parse(bytes).await?, waiting))
    }

    /// Reads all of the `body` of another request.
    pub(crate) async fn read<T: DeserializeOwned + Send + 'static>(
        &self,
        body: Body,
    ) -> Result<T, ApiError> {
        let bytes = body::all(body, self.limits.body, body::BODY_BYTES_MAX).await?;
        self.reading.parse(bytes).await
    }

    /// The port as it stands once its listener has `address`.
    pub(crate) fn new(
        house: NodeHandle,
        address: SocketAddr,
        settings: &PortSettings,
        limits: Limits,
    ) -> Self {
        Self {
            house,
            address,
            origins: Arc::new(settings.allowed_origins.clone()),
            hosts: Arc::new(settings.allowed_hosts.clone()),
            exposed_as: settings.exposed.then(|| Arc::new(settings.host_names.clone())),
            limits,
            wrong_keys: Arc::new(Semaphore::new(WRONG_KEYS_MAX)),
            strangers: Arc::default(),
            embeddings: EmbeddingQueue::new(),
            pace: Pace::default(),
            preparing: Preparing::new(),
            reading: Reading::new(),
            kept: KeptAnswers::default(),
            metrics: recorder::handle(),
        }
    }
}
