//! What xtask asks of the world around it: environment, clock, terminal.
//!
//! xtask stands outside the product's crates, so it has its own sanctioned wrappers for the calls
//! that lints forbid everywhere else.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The environment variable `name`; `None` when unset or empty.
#[expect(clippy::disallowed_methods, reason = "xtask uses none of the product's crates")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Now, for durations.
#[expect(clippy::disallowed_methods, reason = "xtask uses none of the product's crates")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Linux counts processor time in hundredths of a second here, whatever the kernel's own clock
/// does.
const TICKS_PER_SECOND: u64 = 100;

/// What all programs that were started from here and have ended took of the processor, with what
/// they started; known on Linux alone.
pub(crate) fn processor_time_of_children() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    children_in(&stat)
}

/// See proc_pid_stat(5): behind the name, which may hold anything but ends with the last bracket,
/// the fields begin with the third; `cutime` and `cstime` are the 16th and 17th.
fn children_in(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(13).take(2).map(|field| field.parse::<u64>().ok());
    let ticks: Vec<u64> = ticks.collect::<Option<_>>()?;
    let [user, system] = ticks[..] else { return None };
    Some(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}

/// Whether a CI system runs us: nobody can be asked, and installing is wanted.
pub(crate) fn in_ci() -> bool {
    variable("CI").is_some_and(|value| value != "false" && value != "0")
}

/// Whether a person can be asked.
pub(crate) fn on_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Whether windows can be shown. Only Linux may lack a display.
pub(crate) fn has_display() -> bool {
    !cfg!(target_os = "linux")
        || variable("DISPLAY").is_some()
        || variable("WAYLAND_DISPLAY").is_some()
}

/// The full path of `program` on the search path.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let search_path = variable("PATH")?;
    std::env::split_paths(&search_path)
        .map(|folder| folder.join(program).with_extension(std::env::consts::EXE_EXTENSION))
        .find(|file| file.is_file())
}

/// Programs that Playwright drives as Chromium, best first.
const BROWSERS: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge"];

/// A browser made of Chromium: that which `CHROMIUM` names, else one on the search path.
pub(crate) fn find_browser() -> Option<PathBuf> {
    let named = variable("CHROMIUM").map(PathBuf::from).filter(|path| path.exists());
    named.or_else(|| BROWSERS.iter().find_map(|name| find_program(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_ended_children_are_read_behind_a_name_of_any_kind() {
        let stat = "7 (x) task) S 1 7 7 0 -1 4194304 9 99 0 0 11 12 250 50 20 0 1 0 5";
        assert_eq!(children_in(stat), Some(Duration::from_secs(3)));
        assert_eq!(children_in("7 (x) S 1"), None);
        assert_eq!(children_in("nothing"), None);
    }
}
