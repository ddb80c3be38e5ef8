//! Licences, bans, sources and advisories of all dependencies, by cargo-deny.
//!
//! The tool is installed once into the target folder. Advisories need a database that is fetched
//! from the internet; where it cannot be had, that one check is skipped aloud.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::outside;
use crate::places::Places;
use crate::process::{Program, cargo};
use crate::say;

/// The version that `deny.toml` is written for.
const CARGO_DENY_VERSION: &str = "0.20.2";
/// How long the advisory database may take; it is a few megabytes.
const DATABASE_LIMIT: Duration = Duration::from_secs(60);

/// Runs every check that can run; the note says which were skipped.
pub(crate) fn check(places: &Places) -> Result<String> {
    let tool = tool(places)?;
    // Duplicates only warn, and the toolkit brings dozens; their count is in the closing lines.
    let deny = || Program::new(&tool, &places.root).args(["--log-level", "error", "--workspace"]);
    deny().args(["check", "--show-stats", "bans", "licenses", "sources"]).run()?;
    if !deny().args(["fetch", "db"]).within(DATABASE_LIMIT).succeeds() {
        let skipped = "advisories SKIPPED: the advisory database cannot be fetched from here";
        say::loud(skipped);
        return Ok(skipped.to_owned());
    }
    deny().args(["check", "--disable-fetch", "advisories"]).run()?;
    Ok("with advisories".to_owned())
}

fn tool(places: &Places) -> Result<PathBuf> {
    let is_right = |tool: &PathBuf| {
        Program::new(tool, &places.root)
            .args(["--version"])
            .output()
            .is_ok_and(|said| said.trim() == format!("cargo-deny {CARGO_DENY_VERSION}"))
    };
    if let Some(found) = outside::find_program("cargo-deny").filter(is_right) {
        return Ok(found);
    }
    let home = places.made("tools")?;
    let installed = home.join("bin/cargo-deny").with_extension(std::env::consts::EXE_EXTENSION);
    if !installed.exists() || !is_right(&installed) {
        say::line("cargo-deny is not here yet; building it takes some minutes, once.");
        cargo(&places.root)
            .args(["install", "cargo-deny", "--locked", "--version", CARGO_DENY_VERSION])
            .args(["--force".as_ref(), "--root".as_ref(), home.as_os_str()])
            .args(["--target-dir".as_ref(), places.target.join("tools/build").as_os_str()])
            .run()?;
        // The tool is kept, its 1 GB of intermediate files is not.
        std::fs::remove_dir_all(places.target.join("tools/build"))?;
    }
    Ok(installed)
}
