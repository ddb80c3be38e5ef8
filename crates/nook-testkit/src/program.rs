//! The program under test: the one that `NOOK_BIN` names, else the one that Cargo builds now.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, bail};

/// The `nook` program. Built once for each test program unless `NOOK_BIN` names one.
pub fn nook() -> anyhow::Result<&'static Path> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = PROGRAM.get_or_init(|| find().map_err(|error| format!("{error:#}")));
    match found {
        Ok(path) => Ok(path),
        Err(why) => bail!("there is no `nook` program to test: {why}"),
    }
}

fn find() -> anyhow::Result<PathBuf> {
    if let Some(given) = nook_base::env::raw("NOOK_BIN") {
        return Ok(given.into());
    }
    // Into the target folder that this test lies in, whichever that is.
    let own = std::env::current_exe()?;
    let profile = own.parent().and_then(Path::parent).context("a test lies in a target folder")?;
    let target = profile.parent().context("a test lies in a target folder")?;
    let cargo = nook_base::env::raw("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", "nook-cli", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .context("cargo cannot be run")?;
    anyhow::ensure!(status.success(), "building it failed");
    let program = profile.join(format!("nook{}", std::env::consts::EXE_SUFFIX));
    anyhow::ensure!(program.is_file(), "{} is not there", program.display());
    Ok(program)
}
