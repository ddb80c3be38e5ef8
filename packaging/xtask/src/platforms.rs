//! `cargo xtask platforms`: the other systems, as far as one Linux machine can tell.
//!
//! Windows: everything is cross-built, `nook` answers under wine, and the packages are made, installed,
//! asked and removed under wine. macOS: everything but the tray app is checked,
//! with zig as the C compiler; linking would need Apple's own kit. All of it builds in a folder of
//! its own under the target folder, so that it never disturbs the everyday build.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::places::Places;
use crate::process::{Program, cargo};
use crate::setup::{self, Purpose, SetupOptions};
use crate::{outside, say, stages};

mod macos;
mod windows;
mod wine;

/// Packages that other systems do not get from here: the tray app needs their own toolkits, the
/// tests and xtask are no part of the product.
const NOT_CROSSED: [&str; 6] =
    ["--exclude", "inglenook", "--exclude", "xtask", "--exclude", "nook-tests"];

/// Which systems to try.
#[derive(Debug, Args)]
pub(crate) struct PlatformOptions {
    /// Only this system
    #[arg(long)]
    only: Option<System>,
    /// Only these packages, instead of everything but the tray app
    #[arg(long, short, value_name = "PACKAGE")]
    package: Vec<String>,
    /// Install missing system packages without asking
    #[arg(long)]
    yes: bool,
}

/// A system that is not this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum System {
    Windows,
    Macos,
}

/// One attempt and how it went.
#[derive(Debug)]
pub(crate) struct Attempt {
    what: &'static str,
    took: Duration,
    outcome: Result<String>,
    /// Whether its failure fails the whole; the others are reports only.
    counts: bool,
}

/// What the attempts share.
#[derive(Debug)]
pub(crate) struct Crossing<'a> {
    places: &'a Places,
    target: PathBuf,
    packages: Vec<String>,
}

/// Tries the systems and prints one closing line for each attempt.
pub(crate) fn platforms(places: &Places, options: &PlatformOptions) -> Result<()> {
    setup::ensure(places, Purpose::Platforms, &SetupOptions { yes: options.yes })?;
    let crossing =
        Crossing { places, target: places.made("platforms")?, packages: options.package.clone() };
    let mut attempts = Vec::new();
    if options.only != Some(System::Macos) {
        windows::attempts(&crossing, &mut attempts);
    }
    if options.only != Some(System::Windows) {
        macos::attempts(&crossing, &mut attempts);
    }
    say::heading("closing lines");
    for attempt in &attempts {
        say::line(&attempt.closing_line());
    }
    let failed = attempts.iter().filter(|attempt| attempt.counts && attempt.outcome.is_err());
    let failed = failed.map(|attempt| attempt.what).collect::<Vec<_>>();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

impl Crossing<'_> {
    /// Cargo with the crossing's own target folder.
    fn cargo(&self) -> Program {
        cargo(&self.places.root).env("CARGO_TARGET_DIR", &self.target)
    }

    /// What to build: the packages asked for, or everything that can be crossed.
    fn selection(&self) -> Vec<String> {
        if self.packages.is_empty() {
            let all = ["--workspace"].into_iter().chain(NOT_CROSSED);
            return all.map(str::to_owned).collect();
        }
        self.packages.iter().flat_map(|name| ["--package".to_owned(), name.clone()]).collect()
    }

    /// Whether the selection holds the program `nook`.
    fn has_nook(&self) -> bool {
        self.packages.is_empty() || self.packages.iter().any(|name| name == "nook-cli")
    }

    /// Makes sure that Rust's standard library for `triple` is here.
    fn ensure_target(&self, triple: &str) -> Result<()> {
        Program::new("rustup", &self.places.root).args(["target", "add", triple]).run()
    }
}

impl Attempt {
    fn of(what: &'static str, counts: bool, attempt: impl FnOnce() -> Result<String>) -> Self {
        say::heading(what);
        let started = outside::now();
        let outcome = attempt();
        if let Err(error) = &outcome {
            say::loud(&format!("{what}: {error:#}"));
        }
        Self { what, took: started.elapsed(), outcome, counts }
    }

    fn closing_line(&self) -> String {
        let (word, note) = match &self.outcome {
            Ok(note) => ("passed", note.clone()),
            Err(error) if self.counts => ("FAILED", format!("{error:#}")),
            Err(error) => ("not yet", format!("{error:#}")),
        };
        let seconds = self.took.as_secs_f64();
        format!("platform {:<36} {word:<8} {seconds:>7.1} s  {note}", self.what)
            .trim_end()
            .to_owned()
    }
}

/// The pages must be there before the tray app is checked.
fn ensure_pages(places: &Places) -> Result<()> {
    if !stages::ui::is_there(places) {
        bail!("the tray app is not in the tree yet");
    }
    stages::ui::ensure_pages(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(counts: bool, outcome: Result<String>) -> Attempt {
        Attempt { what: "Windows: tray app", took: Duration::from_secs(2), outcome, counts }
    }

    #[test]
    fn closing_lines_tell_failures_from_reports() {
        let line = |counts, outcome| attempt(counts, outcome).closing_line();
        assert!(line(true, Err(anyhow::anyhow!("no linker"))).contains("FAILED"));
        assert!(line(false, Err(anyhow::anyhow!("no linker"))).contains("not yet"));
        assert!(line(true, Ok("answered".to_owned())).contains("passed"));
    }
}
