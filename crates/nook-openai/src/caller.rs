//! Who sent a request. The guard finds it out; routes and reports read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dialect::Dialect;

/// Who sent a request that was let through; handlers find it in the request's extensions.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The name of the key that was presented; absent for the main one.
    pub(crate) key: Option<String>,
    /// What it calls itself, cleaned; absent where it does not say.
    pub(crate) app: Option<String>,
    /// In whose form it speaks.
    pub(crate) dialect: Dialect,
    /// What its answer is known by in the log, and at the client.
    pub(crate) request_id: String,
    /// Whether the owner is told of this request by whoever answers it.
    pub(crate) reported: Reported,
}

/// Whether a request has a report of its own, for whoever would file one in its place. Set once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reported(Arc<AtomicBool>);

impl Reported {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
