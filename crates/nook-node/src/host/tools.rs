//! What the tasks that serve guests work with.

use std::sync::Arc;

use nook_base::PeerId;
use tokio::sync::{mpsc, watch};

use super::events::HostEvent;
use super::giving::Giving;
use crate::resources::adverts::AdvertBook;
use crate::resources::shelf::Shelf;
use crate::resources::workers::Workers;

/// Handles that every call of a guest gets. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    /// This device.
    pub(crate) me: PeerId,
    pub(crate) workers: Workers,
    /// Where models are opened for whole requests.
    pub(crate) shelf: Shelf,
    /// Who may be sent results.
    pub(crate) book: watch::Receiver<Arc<AdvertBook>>,
    pub(crate) giving: Giving,
    /// Where tasks report.
    pub(crate) events: mpsc::Sender<HostEvent>,
}
