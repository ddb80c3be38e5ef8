//! What the figures were measured on and with.

use std::path::Path;
use std::process::Command;

use serde::Serialize;
use sysinfo::System;
use time::OffsetDateTime;

/// This machine.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// What whoever ran the bench calls it.
    pub called: Option<String>,
    /// What its processor calls itself.
    pub cpu: String,
    /// Logical cores.
    pub cores: usize,
    /// Memory.
    pub ram_gib: u64,
    /// Operating system and its version.
    pub system: String,
    /// Version of its kernel.
    pub kernel: String,
}

/// Which program was measured, how, and when.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Version of the product.
    pub inglenook: &'static str,
    /// Short hash; `-dirty` when files differ from it.
    pub commit: String,
    /// What `rustc --version` says.
    pub rustc: String,
    /// `debug` or `release`: how the bench was built.
    pub profile: &'static str,
    /// Day, UTC.
    pub date: String,
    /// What was asked for.
    pub command: String,
    /// Whether this was a short run.
    pub quick: bool,
    /// What whoever ran the bench remarks.
    pub note: Option<String>,
    /// Runnable threads over the last minute, at the start: more than a core or two
    /// means that something else ran.
    pub load_before: f64,
    /// The same at the end.
    pub load_after: f64,
}

impl Machine {
    /// What this system says of itself.
    #[must_use]
    pub fn this(called: Option<String>) -> Self {
        let system = System::new_all().ok();
        let cpu = system.as_ref().and_then(|system| system.cpus().first());
        let unknown = || "unknown".to_owned();
        Self {
            called,
            cpu: cpu.map_or_else(unknown, |cpu| cpu.brand().trim().to_owned()),
            cores: system.as_ref().map_or(0, |system| system.cpus().len()),
            ram_gib: system.as_ref().map_or(0, |system| system.total_memory().div_ceil(1 << 30)),
            system: System::long_os_version().unwrap_or_else(|_| unknown()),
            kernel: System::kernel_version().unwrap_or_else(|_| unknown()),
        }
    }
}

impl Run {
    /// A run that begins now; `command` is what was asked for, see [`command`].
    #[must_use]
    pub fn begins(command: String, quick: bool, note: Option<String>) -> Self {
        Self {
            inglenook: env!("CARGO_PKG_VERSION"),
            commit: commit(),
            rustc: says("rustc", &["--version"]).unwrap_or_else(|| "unknown".to_owned()),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            date: date(),
            command,
            quick,
            note,
            load_before: load(),
            load_after: 0.0,
        }
    }
}

/// What was asked of the bench `bench`: the arguments of this process, with the values of the
/// options in `hidden` replaced by a word, since folders of one machine say nothing on another.
#[must_use]
pub fn command(bench: &str, hidden: &[(&str, &str)]) -> String {
    let words = std::env::args_os().skip(1);
    shown(bench, words.map(|word| word.to_string_lossy().into_owned()), hidden)
}

fn shown(bench: &str, words: impl Iterator<Item = String>, hidden: &[(&str, &str)]) -> String {
    let mut line = format!("cargo xtask bench {bench}");
    let mut instead: Option<&str> = None;
    for word in words {
        let (option, has_value) = match word.split_once('=') {
            Some((option, _)) => (option, true),
            None => (word.as_str(), false),
        };
        let of_option = hidden.iter().find(|(name, _)| *name == option).map(|(_, value)| *value);
        let word = match (instead.take(), of_option) {
            (Some(value), _) => value.to_owned(),
            (None, Some(value)) if has_value => format!("{option}={value}"),
            (None, value) => {
                instead = value;
                word
            }
        };
        line.push(' ');
        line.push_str(&word);
    }
    line
}

/// Runnable threads, averaged over the last minute; 0 where the system does not say.
#[must_use]
pub fn load() -> f64 {
    System::load_average().map_or(0.0, |load| load.one)
}

fn date() -> String {
    let now = OffsetDateTime::from(nook_base::clock::wall()).date();
    format!("{}-{:02}-{:02}", now.year(), u8::from(now.month()), now.day())
}

fn commit() -> String {
    let Some(hash) = says("git", &["rev-parse", "--short", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let changed = says("git", &["status", "--porcelain", "--untracked-files=no"]);
    if changed.is_some() { format!("{hash}-dirty") } else { hash }
}

/// What a program says on standard output; `None` when it says nothing or is not there.
fn says(program: &str, arguments: &[&str]) -> Option<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(program).args(arguments).current_dir(here).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_do_not_show_in_the_command() {
        let hidden = [("--save", "FOLDER"), ("--with", "PATH")];
        let check = |words: &str, expected: &str| {
            let words = words.split_whitespace().map(str::to_owned);
            assert_eq!(shown("walk", words, &hidden), expected);
        };
        check("", "cargo xtask bench walk");
        check("--save /a/b --quick", "cargo xtask bench walk --save FOLDER --quick");
        check("--with=/a/b --only hop", "cargo xtask bench walk --with=PATH --only hop");
        check("--note a=b", "cargo xtask bench walk --note a=b");
    }
}
