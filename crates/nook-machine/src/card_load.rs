//! How much of the graphics cards other programs take: games, and whatever else draws or computes.
//!
//! NVIDIA's management library (NVML) tells it for its cards, on Linux and Windows; for all others
//! Linux tells it in the open files of each program (`drm`). What this process and its children
//! (the workers) take is not counted.

#[cfg(target_os = "linux")]
mod drm;

use std::collections::BTreeSet;

/// What is kept between two looks.
#[derive(Default)]
pub(crate) struct CardLoad {
    #[cfg(any(target_os = "linux", windows))]
    nvidia: nvidia::Cards,
    #[cfg(target_os = "linux")]
    others: drm::Clients,
}

impl CardLoad {
    /// Share of the time of the busiest card that others than the processes `own` took since the look
    /// before, 0 to 1; `None` where nothing tells.
    pub(crate) fn of_others(&mut self, own: &BTreeSet<u32>) -> Option<f32> {
        let mut seen: [Option<f32>; 2] = [None, None];
        #[cfg(any(target_os = "linux", windows))]
        {
            seen[0] = self.nvidia.look(own);
        }
        #[cfg(target_os = "linux")]
        {
            seen[1] = self.others.look(std::path::Path::new("/proc"), own, nook_base::clock::now());
        }
        #[cfg(not(any(target_os = "linux", windows)))]
        let _ = own;
        seen.into_iter().flatten().reduce(f32::max)
    }
}

impl std::fmt::Debug for CardLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CardLoad").finish_non_exhaustive()
    }
}

#[cfg(any(target_os = "linux", windows))]
mod nvidia {
    use std::collections::{BTreeMap, BTreeSet};

    use nvml_wrapper::Nvml;

    /// The cards of NVIDIA. The library is opened at the first look, and where there is none nobody
    /// looks again.
    #[derive(Default)]
    pub(super) struct Cards {
        library: Option<Option<Nvml>>,
        /// When each card's last sample was taken, as it counts.
        seen: BTreeMap<u32, u64>,
    }

    impl Cards {
        pub(super) fn look(&mut self, own: &BTreeSet<u32>) -> Option<f32> {
            let library = self.library.get_or_insert_with(|| Nvml::init().ok()).as_ref()?;
            let mut most = None;
            for index in 0..library.device_count().ok()? {
                let Ok(card) = library.device_by_index(index) else { continue };
                let since = self.seen.get(&index).copied();
                // Nothing was used, or the card does not say.
                let Ok(samples) = card.process_utilization_stats(since) else { continue };
                let mut of_others: BTreeMap<u32, u32> = BTreeMap::new();
                for sample in
                    samples.into_iter().filter(|it| since.is_none_or(|at| it.timestamp > at))
                {
                    let newest = self.seen.entry(index).or_default();
                    *newest = (*newest).max(sample.timestamp);
                    if !own.contains(&sample.pid) {
                        let known = of_others.entry(sample.pid).or_default();
                        *known = (*known).max(sample.sm_util);
                    }
                }
                let percent: u32 = of_others.values().sum();
                let share = percent.min(100) as f32 / 100.0;
                most = Some(most.map_or(share, |most: f32| most.max(share)));
            }
            most
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computer_without_a_card_says_nothing_or_that_nobody_uses_it() {
        let mut load = CardLoad::default();
        load.of_others(&BTreeSet::new());
        let share = load.of_others(&BTreeSet::new()).unwrap_or(0.0);
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
