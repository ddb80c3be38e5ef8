//! How much memory and disk space other devices may take here: what the owner chose, else, of
//! memory, a part of what there is.
//!
//! One number for every machine would be too much for an old laptop and too little for a large one.
//! So
//! the file holds it only where the owner has chosen, and the usual amount follows the machine. How
//! much
//! memory that has is an argument: nothing here asks the system.

use super::{HostSettings, Megabytes};

const GIGABYTE: u64 = 1_000_000_000;

/// The usual amount where the system does not say how much memory it has.
const UNKNOWN_MACHINE_BYTES: u64 = 4 * GIGABYTE;

/// More is lent only by owners who say so, however large their machine is.
const USUAL_BYTES_MAX: u64 = 20 * GIGABYTE;

impl HostSettings {
    /// Most disk space for layers that were fetched, in bytes.
    #[must_use]
    pub fn fetched_bytes(&self) -> u64 {
        self.max_fetched_layers.bytes()
    }

    /// Most bytes of graphics cards' own memory for other devices; `u64::MAX` where the owner chose
    /// none: then only what a card has free limits it.
    #[must_use]
    pub fn gpu_bytes(&self) -> u64 {
        self.max_lent_gpu_memory.map_or(u64::MAX, Megabytes::bytes)
    }

    /// Most memory for shards on a machine that has `memory` bytes in all, as far as it says: what
    /// the
    /// owner chose, else [`usual_shard_bytes`]; never more than there is.
    #[must_use]
    pub fn shard_bytes(&self, memory: Option<u64>) -> u64 {
        let chosen = self.max_lent_memory.map(Megabytes::bytes);
        let wanted = chosen.unwrap_or_else(|| usual_shard_bytes(memory));
        memory.map_or(wanted, |all| wanted.min(all))
    }
}

/// Half of the machine's memory in whole gigabytes, at least one and at most twenty: the other half
/// is
/// for its owner.
#[must_use]
pub fn usual_shard_bytes(memory: Option<u64>) -> u64 {
    let half = |all: u64| all / 2 / GIGABYTE * GIGABYTE;
    memory.map_or(UNKNOWN_MACHINE_BYTES, |all| half(all).clamp(GIGABYTE, USUAL_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn a_machine_lends_half_of_what_it_has_and_never_more_than_all() {
        const MB: u64 = 1_000_000;
        for (memory, chosen, lent) in [
            // 8 GB as the system counts them, some taken by the firmware.
            (Some(7_900 * MB), None, 3 * GIGABYTE),
            (Some(16_500 * MB), None, 8 * GIGABYTE),
            (Some(128 * GIGABYTE), None, USUAL_BYTES_MAX),
            (Some(1_500 * MB), None, GIGABYTE),
            (Some(512 * MB), None, 512 * MB),
            (None, None, UNKNOWN_MACHINE_BYTES),
            (Some(7_900 * MB), Some(2 * GIGABYTE), 2 * GIGABYTE),
            (Some(7_900 * MB), Some(20 * GIGABYTE), 7_900 * MB),
            (Some(128 * GIGABYTE), Some(100 * GIGABYTE), 100 * GIGABYTE),
            (None, Some(20 * GIGABYTE), 20 * GIGABYTE),
        ] {
            let chosen = chosen.map(|bytes: u64| Megabytes(bytes / MB));
            let host = HostSettings { max_lent_memory: chosen, ..Settings::default().host };
            assert_eq!(host.shard_bytes(memory), lent, "{memory:?}, {chosen:?}");
        }
    }
}
