//! What there is to compute with: this device's models and worker processes, what other devices
//! offer, and how fast everybody is.
//!
//! The asking side (`requester`) and the lending side both build on this and do not know each
//! other. Nothing here decides who computes what.

pub mod adverts;
pub mod backends;
pub mod catalogue;
mod crashes;
pub mod estimates;
pub mod file_place;
pub mod memory;
pub mod offload_ids;
pub mod open_models;
pub mod prefix_cache;
pub mod sandbox;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod traffic;
pub mod workers;
