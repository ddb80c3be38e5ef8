//! The lending side by lists of events: what happens in, what is to be done out. There is no
//! runtime, no worker and no other device; a call is a word.

mod audited;
mod calls;
mod cards;
mod fetching;
mod leases;
mod scene;
mod sharing;
mod upkeep;
