//! Pairing, tickets and the gate, in memory.

mod pairing;
mod promises;
mod tickets;
