//! How this computer is: what it runs on, and how warm its processor is.

use sysinfo::Components;

use crate::battery::{Battery, Power};
use crate::careful::Careful;

/// What parts are called whose temperature is that of the processor, as drivers name them:
/// `coretemp Package id 0`, `k10temp Tctl`, `cpu_thermal temp1`, `PMU tdie1`.
const OF_PROCESSOR: [&str; 6] = ["cpu", "coretemp", "k10temp", "package", "tctl", "tdie"];

/// The same words stand in the names of graphics cards.
const OF_CARD: &str = "gpu";

/// Degrees that a processor can have; a sensor that says something else is not believed.
const DEGREES: std::ops::RangeInclusive<f32> = 1.0..=125.0;

/// What was read in one look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Readings {
    /// `None` where the system does not say.
    pub power: Option<Power>,
    /// Of the warmest part of the processor, in whole degrees Celsius; `None` where nothing tells.
    pub temperature: Option<u8>,
}

/// The sensors, with what is kept between two looks.
#[derive(Debug, Default)]
pub struct Sensors {
    battery: Careful<Battery>,
    temperature: Careful<Temperature>,
}

#[derive(Debug, Default)]
struct Temperature;

impl Sensors {
    /// Reads everything once. Blocks for some milliseconds: never on a thread that others wait for.
    pub fn look(&mut self) -> Readings {
        Readings {
            power: self.battery.look("battery", Battery::power),
            temperature: self.temperature.look("temperature", |_| {
                let components = Components::new_with_refreshed_list().ok()?;
                let read = components.iter().map(|it| (it.label(), it.temperature()));
                warmest(read.filter_map(|(label, degrees)| Some((label, degrees?))))
            }),
        }
    }
}

fn warmest<'a>(components: impl Iterator<Item = (&'a str, f32)>) -> Option<u8> {
    let is_processor = |label: &str| {
        let label = label.to_lowercase();
        OF_PROCESSOR.iter().any(|word| label.contains(word)) && !label.contains(OF_CARD)
    };
    let degrees =
        components.filter(|(label, degrees)| is_processor(label) && DEGREES.contains(degrees));
    let warmest = degrees.map(|(_, degrees)| degrees).max_by(f32::total_cmp)?;
    // In range, so that nothing is cut.
    Some(warmest.round() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warmest_part_of_the_processor_counts_and_nothing_else() {
        let read = [
            ("coretemp Package id 0", 61.4),
            ("coretemp Core 3", 58.0),
            ("nvme Composite Samsung", 80.0),
            ("amdgpu edge", 90.0),
            ("GPU package", 88.0),
            ("k10temp Tctl", f32::NAN),
            ("cpu_thermal temp1", -128.0),
        ];
        assert_eq!(warmest(read.into_iter()), Some(61));
        assert_eq!(warmest(read.into_iter().skip(2)), None);
        assert_eq!(warmest([("PMU tdie1", 44.6)].into_iter()), Some(45));
        assert_eq!(warmest([].into_iter()), None);
    }

    #[test]
    fn a_look_says_what_can_be() {
        let seen = Sensors::default().look();
        if let Some(Power::Battery { percent, .. }) = seen.power {
            assert!(percent <= 100);
        }
        assert!(seen.temperature.is_none_or(|degrees| (1..=125).contains(&degrees)), "{seen:?}");
    }
}
