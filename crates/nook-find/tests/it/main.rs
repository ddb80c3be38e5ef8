//! The finder, on a network in memory and on the real one.

mod air;
mod mdns;
