//! What the figures were measured on and with.

use std::path::Path;
use std::process::Command;

use serde::Serialize;
use sysinfo::System;
use time::OffsetDateTime;

/// This machine.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    /// What whoever ran the bench calls it.
    pub(crate) called: Option<String>,
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) ram_gib: u64,
    pub(crate) system: String,
    pub(crate) kernel: String,
}

/// Which program was measured, how, and when.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Run {
    pub(crate) inglenook: &'static str,
    /// Short hash; `-dirty` when files differ from it.
    pub(crate) commit: String,
    pub(crate) rustc: String,
    pub(crate) profile: &'static str,
    /// Day, UTC.
    pub(crate) date: String,
    pub(crate) command: String,
    pub(crate) quick: bool,
    pub(crate) note: Option<String>,
    /// Runnable threads over the last minute, before and after: more than a core or two at the start
    /// means that something else ran.
    pub(crate) load_before: f64,
    pub(crate) load_after: f64,
}

impl Machine {
    pub(crate) fn this(called: Option<String>) -> Self {
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
    pub(crate) fn begins(quick: bool, note: Option<String>) -> Self {
        let words: Vec<String> = std::env::args().skip(1).collect();
        Self {
            inglenook: env!("CARGO_PKG_VERSION"),
            commit: commit(),
            rustc: says("rustc", &["--version"]).unwrap_or_else(|| "unknown".to_owned()),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            date: date(),
            command: format!("cargo xtask bench walk {}", words.join(" ")).trim_end().to_owned(),
            quick,
            note,
            load_before: load(),
            load_after: 0.0,
        }
    }
}

/// Runnable threads, averaged over the last minute; 0 where the system does not say.
pub(crate) fn load() -> f64 {
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
