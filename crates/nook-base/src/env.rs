//! The one place that reads the process environment, and what follows from it for colours.

use std::ffi::OsString;
use std::io::IsTerminal;

/// The variable `name` as text; `None` when unset, empty or not Unicode.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the sanctioned wrapper")]
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The variable `name` as the system holds it, for paths; `None` when unset or empty.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the sanctioned wrapper")]
pub fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// All variables, as the system holds them.
pub fn all() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

/// Variables that a program needs to start on some system.
const BARE: &[&str] =
    &["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "SystemRoot", "TMPDIR", "TEMP"];

/// The environment of a process that works on what strangers wrote: what it needs to start, and no
/// token, address or name of anybody.
pub fn bare() -> impl Iterator<Item = (&'static str, OsString)> {
    BARE.iter().filter_map(|name| Some((*name, raw(name)?)))
}

/// Whether colours may be written to `stream`: it is a terminal that knows them, and the person has
/// not set `NO_COLOR` (<https://no-color.org>).
#[must_use]
pub fn may_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && are_wished(raw("NO_COLOR").is_some(), text("TERM").as_deref())
}

fn are_wished(no_color: bool, terminal: Option<&str>) -> bool {
    !no_color && terminal != Some("dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_whose_owner_did_not_refuse_them() {
        assert!(are_wished(false, Some("xterm-256color")));
        assert!(are_wished(false, None), "Windows sets no TERM");
        assert!(!are_wished(true, Some("xterm-256color")));
        assert!(!are_wished(false, Some("dumb")));
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(!may_colour(&file), "a file is no terminal");
    }
}
