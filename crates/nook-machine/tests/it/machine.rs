//! What is read from a real machine: its own battery is replaced in a mount namespace, its own load
//! made.

use std::process::Command;
use std::time::Duration;

use nook_machine::Machine;

#[cfg(target_os = "linux")]
mod battery {
    use super::*;

    /// Set in the process that sees another battery: what that one must say.
    const EXPECTED: &str = "NOOK_MACHINE_EXPECTED";

    const TEST: &str = "machine::battery::a_battery_is_read_as_the_system_tells_it";

    /// Puts a battery with status `$1` (empty: none) where the system shows its own, and runs the
    /// rest.
    const REPLACE: &str = r#"
        set -e
        mount -t tmpfs tmpfs /sys/class
        mkdir /sys/class/power_supply
        if [ -n "$1" ]; then
            at=/sys/class/power_supply/BAT0
            mkdir "$at"
            echo Battery > "$at/type"; echo System > "$at/scope"; echo "$1" > "$at/status"
            echo 50000000 > "$at/energy_full"; echo 60000000 > "$at/energy_full_design"
            echo 25000000 > "$at/energy_now"; echo 9000000 > "$at/power_now"
            echo 12000000 > "$at/voltage_now"; echo 50 > "$at/capacity"
        fi
        shift
        exec "$@"
    "#;

    #[test]
    fn a_battery_is_read_as_the_system_tells_it() {
        if let Some(expected) = nook_base::env::text(EXPECTED) {
            assert_eq!(format!("{:?}", Machine::default().look().on_battery), expected);
            return;
        }
        for (status, expected) in [
            ("Discharging", "Some(true)"),
            ("Charging", "Some(false)"),
            ("Full", "Some(false)"),
            // Held at a level that spares the battery, on mains.
            ("Not charging", "Some(false)"),
            ("Unknown", "None"),
            ("", "None"),
        ] {
            let done = Command::new("unshare")
                .args(["--map-root-user", "--mount", "sh", "-c", REPLACE, "sh", status])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", TEST, "--nocapture"])
                .env(EXPECTED, expected)
                .output();
            let Ok(done) = done else { return skipped("no `unshare`") };
            let told = String::from_utf8_lossy(&done.stderr).into_owned()
                + &String::from_utf8_lossy(&done.stdout);
            if told.contains("unshare:") || told.contains("mount:") {
                return skipped(&told);
            }
            assert!(done.status.success(), "{status:?}: {told}");
            assert!(told.contains("1 passed"), "the test did not run there: {told}");
        }
    }

    fn skipped(why: &str) {
        crate::places::skip(TEST, &format!("no namespaces: {}", why.trim().replace('\n', " ")));
    }
}

/// Long enough for the system's counters of hundredths of a second.
const SPIN: Duration = Duration::from_millis(600);

#[cfg(unix)]
#[test]
fn the_load_of_others_counts_and_that_of_our_children_does_not() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let mut machine = Machine::default();
    assert_eq!(machine.look().others_load, None, "the first look has nothing to compare with");

    // So many that they get a good part of the processor, even where dozens of other programs
    // compute.
    let spin = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let mut children: Vec<_> = (0..16 * cores).map(|_| spin()).collect();
    // What began since the look before has nothing to compare with either.
    after_a_while(&mut machine);
    let beside_children = after_a_while(&mut machine);
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    // Their parent ends at once, so they are not ours any more.
    let strangers: Vec<String> = (0..cores).map(|_| stranger()).collect();
    after_a_while(&mut machine);
    let beside_strangers = after_a_while(&mut machine);
    assert!(Command::new("kill").args(&strangers).status().unwrap().success());

    eprintln!(
        "others take {beside_children:.2} beside our children, {beside_strangers:.2} beside strangers"
    );
    // Both times the machine is full; how much of it is ours depends on what else runs here.
    assert!(beside_strangers > 0.5, "{beside_strangers}");
    assert!(beside_children < beside_strangers - 0.1, "{beside_children}, {beside_strangers}");
}

/// A spinning process of nobody: its id.
#[cfg(unix)]
fn stranger() -> String {
    let script = "(while :; do :; done) >/dev/null 2>&1 & echo $!";
    let told = Command::new("sh").args(["-c", script]).output().expect("a shell");
    String::from_utf8(told.stdout).expect("a number").trim().to_owned()
}

fn after_a_while(machine: &mut Machine) -> f32 {
    std::thread::sleep(SPIN);
    machine.look().others_load.expect("the second look knows")
}
