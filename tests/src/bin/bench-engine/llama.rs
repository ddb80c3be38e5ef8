//! llama.cpp, measured by its own `llama-bench`.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::ours::reason;

/// The option that says whether weights are rearranged while loading; older programs do not have
/// it.
const REPACK: &str = "--repack";

/// A `llama-bench` that can be run.
#[derive(Debug)]
pub(crate) struct LlamaBench {
    program: PathBuf,
    /// Told by each run; known after the first.
    version: OnceCell<String>,
}

/// Tokens per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LlamaSpeed {
    pub(crate) prefill: Option<f64>,
    pub(crate) decode: Option<f64>,
}

/// One line of `llama-bench -o json`; it has more fields.
#[derive(Debug, Deserialize)]
struct LlamaLine {
    build_commit: String,
    build_number: i64,
    n_prompt: u32,
    n_gen: u32,
    avg_ts: f64,
}

impl LlamaBench {
    /// The program at `path`, after a look whether it is one.
    pub(crate) fn at(path: &Path) -> anyhow::Result<Self> {
        let output = Command::new(path).arg("--help").output().with_context(|| {
            format!("cannot start {} (see packaging/README.md for llama-bench)", path.display())
        })?;
        if !String::from_utf8_lossy(&output.stdout).contains(REPACK) {
            bail!("{} is no llama-bench that knows {REPACK}; build a newer one", path.display());
        }
        Ok(Self { program: path.to_owned(), version: OnceCell::new() })
    }

    /// The build that was measured; `None` before the first measurement.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.get().map(String::as_str)
    }

    /// `prompt` tokens in one step, and `tokens` one by one from an empty context; a count of 0
    /// leaves its half out.
    pub(crate) fn speed(
        &self,
        file: &Path,
        threads: usize,
        repack: bool,
        prompt: u32,
        tokens: u32,
    ) -> anyhow::Result<LlamaSpeed> {
        let output = Command::new(&self.program)
            .arg("-m")
            .arg(file)
            .args(["-p", &prompt.to_string(), "-n", &tokens.to_string()])
            .args(["-t", &threads.to_string(), REPACK, if repack { "1" } else { "0" }])
            .args(["-r", "1", "-o", "json"])
            .output()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        if !output.status.success() {
            bail!("llama-bench: {}", reason(&output.stderr, output.status));
        }
        let (speed, version) = parse(&output.stdout)?;
        self.version.get_or_init(|| version);
        Ok(speed)
    }
}

/// The speeds, and the build that told them.
fn parse(json: &[u8]) -> anyhow::Result<(LlamaSpeed, String)> {
    let lines: Vec<LlamaLine> =
        serde_json::from_slice(json).context("llama-bench wrote no JSON that is understood")?;
    let first = lines.first().context("llama-bench measured nothing")?;
    let version = format!("{} (build {})", first.build_commit, first.build_number);
    let of = |prompt: bool| {
        let wanted = |line: &&LlamaLine| if prompt { line.n_gen == 0 } else { line.n_prompt == 0 };
        lines.iter().find(wanted).map(|line| line.avg_ts)
    };
    Ok((LlamaSpeed { prefill: of(true), decode: of(false) }, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_speeds_are_read() {
        let json = br#"[
            {"build_commit": "0c1e57098", "build_number": 7, "n_prompt": 512, "n_gen": 0,
             "avg_ts": 209.5, "samples_ts": [209.5]},
            {"build_commit": "0c1e57098", "build_number": 7, "n_prompt": 0, "n_gen": 64,
             "avg_ts": 38.25, "samples_ts": [38.25]}
        ]"#;
        let (speed, version) = parse(json).unwrap();
        assert_eq!(speed, LlamaSpeed { prefill: Some(209.5), decode: Some(38.25) });
        assert_eq!(version, "0c1e57098 (build 7)");
    }

    #[test]
    fn what_is_no_measurement_is_an_error() {
        assert!(parse(b"[]").unwrap_err().to_string().contains("measured nothing"));
        for other in ["", "{}", "[1]", "[{\"avg_ts\": 1}]"] {
            assert!(parse(other.as_bytes()).unwrap_err().to_string().contains("no JSON"));
        }
    }

    #[test]
    fn a_program_that_is_not_there_or_another_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("llama-bench");
        let error = LlamaBench::at(&missing).unwrap_err().to_string();
        assert!(error.contains("llama-bench") && error.contains("packaging/README.md"), "{error}");
        // The program of these tests answers `--help` too, with other options.
        let error = LlamaBench::at(&std::env::current_exe().unwrap()).unwrap_err().to_string();
        assert!(error.contains("is no llama-bench that knows --repack"), "{error}");
    }
}
