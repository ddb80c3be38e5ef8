//! The lock-free pool of the kernels, run by loom in every order that its threads can take.
//!
//! `--cfg loom` changes what the kernels are built of, so the build has a folder of its own.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::process::{Program, cargo};
use crate::stages::{Outcome, Round};

/// The models, in `crates/nook-kernels/src/pool/model.rs`.
const MODELS: &str = "pool::model::";
/// How often a thread is interrupted where it could have gone on. With 2 all is over in seconds;
/// faults that need more are rare, and 3 takes minutes.
const PREEMPTIONS_MAX: &str = "2";
/// A model that takes longer has grown; it is to be made smaller.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Checks every model.
pub(crate) fn stage(round: &Round) -> Result<Outcome> {
    let list = test(round, &["--list"])?.output()?;
    let count = list.lines().filter(|line| line.ends_with(": test")).count();
    if count == 0 {
        bail!("nook-kernels has no tests `{MODELS}…`");
    }
    test(round, &[])?.test()?;
    Ok(Outcome::Passed { note: format!("{count} models") })
}

fn test(round: &Round, options: &[&str]) -> Result<Program> {
    Ok(cargo(&round.places.root)
        .args(["test", "--package", "nook-kernels", "--lib", "--", MODELS])
        .args(options)
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", PREEMPTIONS_MAX)
        .env("CARGO_TARGET_DIR", round.places.made("loom")?)
        .within(LIMIT))
}
