//! Foreign programs at the port that are written for Node.
//!
//! The tests run in Node's own runner and find the program through `NOOK_BIN`.

use std::time::Duration;

use anyhow::Result;

use crate::process::Program;
use crate::stages::{Outcome, Round, ui};

/// Starting a node is quick; a run that takes longer hangs.
const RUN_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The tests.
const FILES: [&str; 5] = [
    "openai.test.mjs",
    "anthropic.test.mjs",
    "ollama.test.mjs",
    "ai-sdk.test.mjs",
    "langchain.test.mjs",
];

/// Foreign programs at the local port.
pub(crate) fn clients(round: &Round) -> Result<Outcome> {
    let folder = round.places.node_tests();
    let built = round.built()?;
    if let Some(file) = FILES.iter().find(|file| !folder.join(file).exists()) {
        return Ok(Outcome::NotThere { missing: format!("tests/node/{file}") });
    }
    let Some(nook) = built.program("nook") else {
        return Ok(Outcome::NotThere { missing: "the program `nook`".to_owned() });
    };
    ui::install(&folder)?;
    Program::new("node", &folder)
        .args(["--test", "--test-concurrency=1"])
        .args(FILES)
        .env("NOOK_BIN", nook)
        .within(RUN_LIMIT)
        .test()?;
    Ok(Outcome::Passed { note: FILES.join(", ") })
}
