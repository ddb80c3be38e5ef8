//! Which device computes which layers: pure functions of facts.
//!
//! The node measures ([`SpeedEstimate`], [`LinkEstimate`]) and turns that, fresh adverts of
//! admitted devices and its own catalogue into a [`Situation`]. [`plan`] decides whether a request
//! is walked alone or pooled and says why; [`predict()`] prices a given route; [`place`] says which
//! device should hold which layers, and [`Steadiness`] when that is worth a move. [`greedy_cover`]
//! is the simple reference, and what `nook-pipeline` covers a lost hop with. Whoever routes gets a
//! [`Route`], which exists only in a legal shape.
//!
//! Nothing here knows the time, the network or a random number (invariant I-4): the same facts, in
//! whatever order, give the same plan. Nothing here reserves anything either: two plans of the same
//! moment may count on the same memory, and the host refuses one of them, which goes elsewhere.

mod cover;
mod coverage;
mod decide;
mod explain;
mod facts;
mod figure;
mod fit;
mod link;
mod placement;
mod polish;
mod predict;
mod price;
mod reason;
mod route;
mod rows;
mod search;
mod shape;
mod speed;
mod steadiness;
#[cfg(feature = "synthetic")]
pub mod synthetic;
mod topology;
mod water;

pub use cover::{CoverError, Hop, OFFERS_MAX, Offer, Uncovered, WhyUncovered, greedy_cover};
pub use coverage::{least_covered, most_needed};
pub use decide::{Because, Decision, Execution, NoPlan, POOLING_GAIN_MIN_PERCENT, Plan, plan};
pub use facts::{
    Cached, Device, Ends, EndsHeld, ModelCosts, OffloadPolicy, Owner, Request, Situation, Standing,
    Width,
};
pub use figure::{BytesPerSecond, Figure, TERM_MAX};
pub use fit::{Line, LineFit};
pub use link::{LARGE_TRANSFER_BYTES, Link, LinkEstimate, RoundTrip, TRANSFERS_REMEMBERED};
pub use placement::{Aim, Placement, PlacementError, Share, Split, place};
pub use predict::{Basis, Impossible, Prediction, predict};
pub use price::{
    BANDWIDTH_ASSUMED, HOP_OVERHEAD, LOAD_ASSUMED, ROUND_TRIP_ASSUMED, VISIT_ASSUMED,
    WEIGHTS_ASSUMED,
};
pub use reason::{LeftOut, Out, Why};
pub use route::{End, Place, Route, RouteError, Segment};
pub use rows::{NARROW_GAIN_MIN_PERCENT, NarrowRows, Narrowed, Rows, plan_with_rows, rows_on};
pub use shape::{OffloadPermit, Shape, ShapeError};
pub use speed::{PREFILL_ROWS_MIN, Probe, Speed, SpeedEstimate, Visit, Warmth};
pub use steadiness::{LOOKS_IN_A_ROW, Look, MOVE_GAIN_MIN_PERCENT, Steadiness, Verdict};
pub use topology::{PlanError, Topology, even_split};
