//! What calls of guests are served under, and what a guest may do, as the gate has just said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nook_base::{ModelDigest, PeerId, Sensitive};
use nook_model::ModelFile;
use nook_mux::Call;
use nook_resources::file_place::FilePlace;
use nook_trust::Admitted;
use nook_trust::purpose::{CopyModels, Lend, RemoteWhole};
use nook_wire::{HaveModel, Message, Open, WireError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::lent::Lent;
use super::usage::Usage;

/// What is lent to guests as long as sharing stays as it is now.
#[derive(Debug, Clone)]
pub struct Terms {
    pub(crate) lent: Arc<Vec<Lent>>,
    /// One permit for each stream; all of them taken means busy, not a queue. Other terms share
    /// them.
    pub(crate) streams: Arc<Semaphore>,
    /// The streams that were taken under these terms and still run.
    pub(crate) running: TaskTracker,
    /// Cancelled when the owner stops sharing or this node leaves: what runs finishes its step.
    pub(crate) until: CancellationToken,
    /// Cancelled when the owner trusts this guest no more: what runs ends at once.
    pub(crate) revoked: CancellationToken,
    /// Models whose workers have served guests under these terms.
    pub(crate) served: Served,
    /// Who is helped now, and how much.
    pub(crate) usage: Usage,
    /// The calls that a ticket can name.
    pub(crate) named: NamedCalls,
    /// The key of the marks of the histories of whole requests. New terms have a new one, and keep
    /// nothing of what was before.
    pub(crate) marks_key: Sensitive<[u8; 32]>,
}

/// One of the streams that are lent; free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Stream {
    _permit: OwnedSemaphorePermit,
    _running: TaskTrackerToken,
}

impl Terms {
    /// A stream, where one is free.
    pub(crate) fn try_stream(&self) -> Option<Stream> {
        let permit = self.streams.clone().try_acquire_owned().ok()?;
        Some(Stream { _permit: permit, _running: self.running.token() })
    }

    /// A stream, once one is free.
    pub(crate) async fn stream(&self) -> Option<Stream> {
        let permit = self.streams.clone().acquire_owned().await.ok()?;
        Some(Stream { _permit: permit, _running: self.running.token() })
    }

    /// Waits until no stream runs any more that was taken under these terms. Those of others
    /// neither count nor are kept from anybody meanwhile.
    pub(crate) async fn drained(&self) {
        self.running.close();
        self.running.wait().await;
    }
}

/// Models that were lent; shared by the calls under the same terms.
#[derive(Debug, Clone, Default)]
pub(crate) struct Served {
    // Guards a set of digests; never held across an await.
    models: Arc<Mutex<BTreeSet<ModelDigest>>>,
}

impl Served {
    /// A worker of `model` serves a guest.
    pub(crate) fn note(&self, model: ModelDigest) {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).insert(model);
    }

    /// All of them.
    pub(crate) fn all(&self) -> BTreeSet<ModelDigest> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Calls of guests by their requester and its name for them; one entry for each call at most, so
/// streams bound them. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct NamedCalls {
    // Never held across an await.
    calls: Arc<Mutex<BTreeMap<(PeerId, u64), NamedCall>>>,
}

/// A guest's call that a ticket can mean.
#[derive(Debug)]
pub(crate) struct NamedCall {
    pub(crate) open: Open,
    /// Where its carrier is awaited; absent once one has come. The name stays taken for as long as
    /// the call lives, so that no ticket ever means two calls.
    pub(crate) carrier: Option<oneshot::Sender<Call<Message>>>,
}

impl NamedCalls {
    pub(crate) fn all(&self) -> MutexGuard<'_, BTreeMap<(PeerId, u64), NamedCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an admitted device may do on its call.
#[derive(Debug, Clone)]
pub struct Guest {
    pub(crate) admitted: Admitted<Lend>,
    /// Present where it is a device of the same person, whose whole requests are run.
    pub(crate) own: Option<OwnGuest>,
    /// What it needs to be given files, or why it gets none.
    pub(crate) copies: Result<CopyPass, WireError>,
}

/// A device that may have whole requests run here, as the gate has just said.
#[derive(Debug, Clone)]
pub(crate) struct OwnGuest {
    pub(crate) pass: Admitted<RemoteWhole>,
    /// Cancelled when the gate says so no more.
    pub(crate) revoked: CancellationToken,
}

/// A device that may be given files, as the gate has just said.
#[derive(Debug, Clone)]
pub struct CopyPass {
    pub(crate) pass: Admitted<CopyModels>,
    /// Cancelled when the gate says so no more.
    pub(crate) revoked: CancellationToken,
}

/// A model that is given. Its file is held open, as the library's check left it.
#[derive(Clone)]
pub struct Given {
    pub(crate) model: ModelDigest,
    pub(crate) name: String,
    pub(crate) layers: u32,
    pub(crate) file: ModelFile,
    /// Where that file is, and what it was when all of it was digested.
    pub(crate) place: FilePlace,
}

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Given({:?}, {} bytes)", self.model, self.file.file_bytes())
    }
}

impl Given {
    /// As other devices are told of it.
    pub(crate) fn told(&self) -> HaveModel {
        HaveModel {
            model: self.model,
            bytes: self.file.file_bytes(),
            layers: self.layers,
            name: self.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    fn terms(streams: Arc<Semaphore>) -> Terms {
        Terms {
            lent: Arc::default(),
            streams,
            running: TaskTracker::new(),
            until: CancellationToken::new(),
            revoked: CancellationToken::new(),
            served: Served::default(),
            usage: Usage::default(),
            named: NamedCalls::default(),
            marks_key: Sensitive([7; 32]),
        }
    }

    #[tokio::test]
    async fn terms_that_drain_wait_for_their_own_streams_and_keep_none_from_the_new_ones() {
        let streams = Arc::new(Semaphore::new(3));
        let (old, new) = (terms(streams.clone()), terms(streams));
        let first = old.try_stream().expect("it is free");
        let mut draining = pin!(old.drained());
        assert_eq!(draining.as_mut().now_or_never(), None);
        let others = [(); 2].map(|()| new.try_stream().expect("nobody has it"));
        assert!(new.try_stream().is_none(), "there are three");
        assert_eq!(draining.as_mut().now_or_never(), None);
        drop(first);
        assert_eq!(draining.now_or_never(), Some(()));
        drop(others);
    }
}
