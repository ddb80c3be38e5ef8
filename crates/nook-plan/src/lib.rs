//! Which device computes which layers: pure functions of adverts.
//!
//! The node turns fresh adverts of admitted devices into [`Offer`]s and asks [`greedy_cover`] for
//! [`Hop`]s over the remote middle of a [`Topology`]; [`Route::boomerang`] puts them between this
//! device's own two ends. `nook-pipeline` walks a [`Route`] and asks for a new cover when a hop is
//! lost. Nothing here knows the time, the network or a random number (invariant I-4): the same
//! offers, in whatever order, give the same plan.

mod cover;
mod coverage;
mod route;
mod topology;

pub use cover::{CoverError, Hop, OFFERS_MAX, Offer, Uncovered, WhyUncovered, greedy_cover};
pub use coverage::least_covered;
pub use route::{End, Place, Route, RouteError, Segment};
pub use topology::{PlanError, Topology, even_split};
