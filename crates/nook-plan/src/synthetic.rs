//! Made-up households and the slow, certain answer, for tests and the simulator.
//!
//! [`households`] draws devices, links and models from the spread that households have;
//! [`exhaustive`] tries every route. Both know only the public side of the planner.

pub mod exhaustive;
pub mod households;
pub mod verify;

pub use exhaustive::cheapest;
pub use households::{Chance, Household, Shaped};
pub use verify::{Broken, verify};
