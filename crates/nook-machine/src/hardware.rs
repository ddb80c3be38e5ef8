//! What people know this computer by: its kind and its processor. Neither changes while it runs.
//!
//! On Linux the kind is that of the case, which the firmware tells (SMBIOS, `chassis_type`); a board
//! without such firmware is small. On a Mac it is told by the product's name. Elsewhere only a
//! battery tells, and the owner can say it.

use std::path::Path;

use nook_base::FormFactor;
use sysinfo::{CpuRefreshKind, RefreshKind, System};

use crate::battery::{Battery, Power};
use crate::careful::Careful;

/// What does not change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Its kind; `None` where nothing tells.
    pub form: Option<FormFactor>,
    /// Its processor's name; empty where nothing tells.
    pub processor: String,
}

/// Looks at it. Blocks for some milliseconds: never on a thread that others wait for.
#[must_use]
pub fn hardware() -> Hardware {
    let power = Careful::<Battery>::default().look("battery", Battery::power);
    let has_battery = matches!(power, Some(Power::Battery { .. }));
    let form = Careful::<()>::default().look("kind", |()| told(Path::new("/")));
    let processor = Careful::<()>::default().look("processor", |()| Some(processor()));
    Hardware {
        form: form.or(has_battery.then_some(FormFactor::Laptop)),
        processor: processor.unwrap_or_default(),
    }
}

fn processor() -> String {
    let kind = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let Ok(system) = System::new_with_specifics(kind) else { return String::new() };
    system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()).unwrap_or_default()
}

/// What the firmware says; `root` is where the file system begins.
#[cfg(target_os = "linux")]
fn told(root: &Path) -> Option<FormFactor> {
    if let Ok(chassis) = std::fs::read_to_string(root.join("sys/class/dmi/id/chassis_type")) {
        return of_chassis(chassis.trim().parse().ok()?);
    }
    let model = std::fs::read(root.join("proc/device-tree/model")).ok()?;
    Some(of_board(&String::from_utf8_lossy(&model)))
}

#[cfg(not(target_os = "linux"))]
fn told(_: &Path) -> Option<FormFactor> {
    of_product(&sysinfo::Product::name().ok()?)
}

/// By the number that SMBIOS (DSP0134, 7.4.1) gives to each kind of case.
#[cfg(any(target_os = "linux", test))]
fn of_chassis(chassis: u8) -> Option<FormFactor> {
    Some(match chassis {
        // Portable, laptop, notebook, hand held, docking station, sub-notebook, tablet, convertible,
        // detachable.
        8..=12 | 14 | 30..=32 => FormFactor::Laptop,
        // Desktop, low profile, pizza box, all in one, space-saving, lunch box, sealed case.
        3..=5 | 13 | 15 | 16 | 24 => FormFactor::Desktop,
        6 | 7 => FormFactor::Tower,
        // Gateway, embedded, mini PC, stick PC.
        33..=36 => FormFactor::Mini,
        // Main server chassis, rack mount, blade and its enclosure.
        17 | 23 | 28 | 29 => FormFactor::Server,
        // Other, unknown, parts of computers, and virtual machines.
        _ => return None,
    })
}

/// By the name in the device tree of a board.
#[cfg(any(target_os = "linux", test))]
fn of_board(model: &str) -> FormFactor {
    of_product(model).unwrap_or(FormFactor::Mini)
}

/// By the name under which a computer is sold, where it says that.
fn of_product(name: &str) -> Option<FormFactor> {
    let name = name.to_lowercase();
    let is = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if is(&["book", "laptop"]) {
        Some(FormFactor::Laptop)
    } else if is(&["imac"]) {
        Some(FormFactor::Desktop)
    } else if is(&["mac mini", "macmini", "mac studio"]) {
        Some(FormFactor::Mini)
    } else if is(&["mac pro", "macpro"]) {
        Some(FormFactor::Tower)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_case_tells_the_kind_and_a_virtual_machine_has_none() {
        let kinds = [(10, FormFactor::Laptop), (31, FormFactor::Laptop), (3, FormFactor::Desktop)];
        for (chassis, kind) in kinds {
            assert_eq!(of_chassis(chassis), Some(kind), "{chassis}");
        }
        assert_eq!(of_chassis(7), Some(FormFactor::Tower));
        assert_eq!(of_chassis(35), Some(FormFactor::Mini));
        assert_eq!(of_chassis(23), Some(FormFactor::Server));
        for other in [0, 1, 2, 18, 99] {
            assert_eq!(of_chassis(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_tells_it_where_there_is_no_number() {
        assert_eq!(of_product("MacBook Air (M2, 2022)"), Some(FormFactor::Laptop));
        assert_eq!(of_product("iMac (24-inch, M1, 2021)"), Some(FormFactor::Desktop));
        assert_eq!(of_product("Mac mini (2024)"), Some(FormFactor::Mini));
        assert_eq!(of_product("OptiPlex 7090"), None);
        assert_eq!(of_board("Raspberry Pi 5 Model B Rev 1.0\0"), FormFactor::Mini);
        assert_eq!(of_board("Apple MacBook Pro (14-inch, M1 Pro, 2021)\0"), FormFactor::Laptop);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_files_of_the_system_are_read() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(told(root.path()), None);
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/device-tree/model", "Raspberry Pi 4 Model B\0");
        assert_eq!(told(root.path()), Some(FormFactor::Mini));
        write("sys/class/dmi/id/chassis_type", "9\n");
        assert_eq!(told(root.path()), Some(FormFactor::Laptop));
        write("sys/class/dmi/id/chassis_type", "1\n");
        assert_eq!(told(root.path()), None);
    }

    #[test]
    fn this_computer_is_looked_at() {
        let seen = hardware();
        assert_eq!(seen.processor.trim(), seen.processor);
    }
}
