//! How much of the graphics cards other programs take: games, and whatever else draws or computes.
//!
//! NVIDIA's management library (NVML) tells it for its cards, on Linux and Windows; for all others
//! Linux tells it in the open files of each program ([`drm`]). What this process and its children
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
    /// Share of the time of the busiest card since the look before, 0 to 1; `None` where nothing
    /// tells.
    pub(crate) fn of_others(&mut self) -> Option<f32> {
        let own = own();
        let mut seen: [Option<f32>; 2] = [None, None];
        #[cfg(any(target_os = "linux", windows))]
        {
            seen[0] = self.nvidia.look(&own);
        }
        #[cfg(target_os = "linux")]
        {
            seen[1] =
                self.others.look(std::path::Path::new("/proc"), &own, nook_base::clock::now());
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

/// This process and its children.
fn own() -> BTreeSet<u32> {
    let this = std::process::id();
    let mut own = BTreeSet::from([this]);
    // Linux lists the children of each thread.
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for thread in threads {
        let children = std::fs::read_to_string(thread.path().join("children"));
        let children = children.unwrap_or_default();
        own.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    own
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
    fn this_process_and_its_children_are_not_others() {
        let mut child = std::process::Command::new(if cfg!(windows) { "timeout" } else { "sleep" })
            .arg("60")
            .spawn()
            .unwrap();
        let own = own();
        assert!(own.contains(&std::process::id()));
        // Only Linux tells; there is no other reader there yet.
        assert_eq!(own.contains(&child.id()), cfg!(target_os = "linux"));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_computer_without_a_card_says_nothing_or_that_nobody_uses_it() {
        let mut load = CardLoad::default();
        load.of_others();
        let share = load.of_others().unwrap_or(0.0);
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
