//! Which device should hold which layers: what this one does for others.
//!
//! The asking half (`requester::placement`) says PLACE to the devices whose layers should change. This half (`leases`) decides by the owner's limits, loads, answers PLACED, and lets go
//! of what nobody uses. Neither decides who computes: adverts tell what is held, and replies go by
//! those.

mod leases;

pub(crate) use leases::{Leases, Progress, window};
