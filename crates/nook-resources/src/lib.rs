//! What there is to compute with: this device's models and worker processes, what other devices
//! offer, and how fast everybody is.
//!
//! The asking side (`requester`) and the lending side both build on this and do not know each
//! other. Nothing here decides who computes what.

pub mod adverts;
pub mod catalogue;
pub mod gauges;
pub mod memory;
pub mod shelf;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod traffic;
pub mod trails;
pub mod whole_ids;
pub mod workers;
