//! Our engine, measured in fresh processes of this very program.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;

use crate::probe::Job;

/// Has `job` done by a new process of `program`; what it found.
pub(crate) fn found<T: DeserializeOwned>(program: &Path, job: &Job) -> anyhow::Result<T> {
    let output = Command::new(program)
        .arg("--probe")
        .arg(serde_json::to_string(job)?)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!("{}", reason(&output.stderr, output.status));
    }
    serde_json::from_slice(&output.stdout).context("a measurement told nothing that is understood")
}

/// The last line that a failed program wrote, else how it ended.
pub(crate) fn reason(stderr: &[u8], status: std::process::ExitStatus) -> String {
    let said = String::from_utf8_lossy(stderr);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last = last.map(|line| line.trim_start_matches("bench-engine: ").to_owned());
    last.unwrap_or_else(|| format!("a measurement ended with {status}"))
}
