//! What there is to compute with: this device's models and worker processes, what other devices
//! offer, and how fast everybody is.
//!
//! The asking side (`requester`) and the lending side both build on this and do not know each other.
//! Nothing here decides who computes what.

pub(crate) mod adverts;
pub(crate) mod catalogue;
pub(crate) mod gauges;
pub(crate) mod memory;
pub(crate) mod shelf;
pub(crate) mod tickets;
pub(crate) mod trails;
pub(crate) mod whole_ids;
pub(crate) mod workers;
