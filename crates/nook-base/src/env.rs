//! The one place that reads the process environment.

use std::ffi::OsString;

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
