//! What xtask asks of the world around it: environment, clock, terminal.
//!
//! xtask stands outside the product's crates, so it has its own sanctioned wrappers for the calls
//! that lints forbid everywhere else.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Instant;

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
