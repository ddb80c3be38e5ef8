//! Licences, bans, sources and advisories of all dependencies, by cargo-deny.
//!
//! Advisories need a database that is fetched from the internet; where it cannot be had, that one
//! check is skipped aloud.

use std::time::Duration;

use anyhow::Result;

use crate::places::Places;
use crate::process::Program;
use crate::say;
use crate::setup::tools;

/// How long the advisory database may take; it is a few megabytes.
const DATABASE_LIMIT: Duration = Duration::from_secs(60);

/// Runs every check that can run; the note says which were skipped.
pub(crate) fn check(places: &Places) -> Result<String> {
    let tool = tools::tool(places, &tools::DENY)?;
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
