//! What the tasks that serve guests work with.

use std::sync::Arc;

use nook_base::PeerId;
use tokio::sync::{mpsc, watch};

use super::audit::Audit;
use super::events::HostEvent;
use super::giving::Giving;
use nook_resources::adverts::AdvertBook;
use nook_resources::open_models::OpenModelCache;
use nook_resources::workers::Workers;

/// Handles that every call of a guest gets. Clones share them.
#[derive(Debug, Clone)]
pub struct Tools {
    /// This device.
    pub me: PeerId,
    /// Worker processes of this device.
    pub workers: Workers,
    /// Where models are opened for whole requests.
    pub open_models: OpenModelCache,
    /// Who may be sent results.
    pub book: watch::Receiver<Arc<AdvertBook>>,
    /// Models that are given to other devices.
    pub giving: Giving,
    /// Where it is noted what others ask.
    pub audit: Audit,
    /// Where tasks report.
    pub events: mpsc::Sender<HostEvent>,
}
