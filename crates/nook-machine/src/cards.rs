//! The graphics cards of NVIDIA in this machine, as their driver's management library (NVML) tells.
//!
//! The library comes with the driver and is opened while the program runs: where there is none,
//! there are no cards. Others than NVIDIA's are not told, because no library that is kept well
//! tells them all.

use std::sync::OnceLock;

use crate::careful::Careful;

/// A graphics card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// As its driver calls it: `NVIDIA GeForce RTX 4090`.
    pub name: String,
    /// All of its memory, in bytes.
    pub memory_bytes: u64,
}

static CARDS: OnceLock<Vec<Card>> = OnceLock::new();

/// Looks for cards, the first time. Blocks for up to some hundred milliseconds: never on a thread
/// that others wait for.
pub fn look_for_cards() {
    CARDS.get_or_init(|| Careful::<()>::default().look("cards", |()| seen()).unwrap_or_default());
}

/// The cards that were found; none before there was a look.
#[must_use]
pub fn cards() -> &'static [Card] {
    CARDS.get().map_or(&[], Vec::as_slice)
}

#[cfg(any(target_os = "linux", windows))]
fn seen() -> Option<Vec<Card>> {
    let told = |error: &nvml_wrapper::error::NvmlError| {
        tracing::debug!(%error, "no graphics card is told of");
    };
    let nvml = nvml_wrapper::Nvml::init().inspect_err(told).ok()?;
    let count = nvml.device_count().inspect_err(told).ok()?;
    let card = |index| {
        let device = nvml.device_by_index(index)?;
        Ok(Card { name: device.name()?, memory_bytes: device.memory_info()?.total })
    };
    Some((0..count).filter_map(|index| card(index).inspect_err(told).ok()).collect())
}

#[cfg(not(any(target_os = "linux", windows)))]
fn seen() -> Option<Vec<Card>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_finds_what_the_driver_tells_and_nothing_where_there_is_none() {
        look_for_cards();
        let has_driver = std::path::Path::new("/proc/driver/nvidia/gpus").is_dir();
        assert!(has_driver || cards().is_empty(), "{:?}", cards());
        assert!(cards().iter().all(|card| !card.name.is_empty() && card.memory_bytes > 0));
    }
}
