//! Runs the Rust tests with cargo-nextest, each as a process of its own.
//!
//! `.config/nextest.toml` says how: how many at once, how long one may take, what is told of one
//! that failed. Their programs are those that the build stage made.

use std::path::Path;

use anyhow::Result;

use crate::places::Places;
use crate::process::{Program, cargo};
use crate::say;
use crate::setup::tools;
use crate::stages::build::{EVERYTHING, features};
use crate::stages::{Outcome, Round};

/// Tests that compute on a GPU, or decide what does: of the kernels, the pass, the worker, the choice
/// and whole households.
const OF_GPUS: &str = "package(nook-gpu) | (package(nook-model) & test(/^gpu/)) \
                       | (package(nook-shard) & test(/^devices::/)) \
                       | (package(nook-resources) & test(/^backends::/)) \
                       | (package(nook-tests) & test(/^gpu::/))";

/// Tests of the pass through candle, which is the code for graphics cards, on the processor.
const OF_CANDLE: &str = "package(nook-model) & test(/^(card|loaded::card)/)";

/// Tests that start whole households.
const OF_HOUSEHOLDS: &str = "package(nook-tests)";

/// Names the file to which a test adds a line when it, or a part of it, cannot run on this machine:
/// nextest shows nothing of a test that passes.
const NOTES_VARIABLE: &str = "NOOK_TEST_NOTES";

/// The tests of every crate, and the examples in its documentation.
pub(crate) fn crates(round: &Round) -> Result<Outcome> {
    let ran =
        run(round, "ci", &format!("not {OF_HOUSEHOLDS} & not ({OF_GPUS}) & not ({OF_CANDLE})"))?;
    cargo(&round.places.root)
        .args(["test", "--workspace", "--exclude", "xtask", "--doc"])
        .args(features(&round.places)?)
        .test()?;
    Ok(ran)
}

/// The tests of whole households.
pub(crate) fn households(round: &Round) -> Result<Outcome> {
    run(round, "household", &format!("{OF_HOUSEHOLDS} & not ({OF_GPUS})"))
}

/// All that has to do with GPUs, on whatever driver this machine has: Mesa's software adapter where
/// there is no card.
pub(crate) fn gpus(round: &Round) -> Result<Outcome> {
    run(round, "ci", OF_GPUS)
}

/// The pass through candle on the processor, against the kernels of the CPU and foreign references.
pub(crate) fn candle(round: &Round) -> Result<Outcome> {
    run(round, "ci", OF_CANDLE)
}

/// cargo-nextest, about to run tests; which ones is to be added.
pub(crate) fn nextest(places: &Places) -> Result<Program> {
    let tool = tools::tool(places, &tools::NEXTEST)?;
    Ok(Program::new(tool, &places.root).args(["nextest", "run"]))
}

fn run(round: &Round, profile: &str, which: &str) -> Result<Outcome> {
    let places = &round.places;
    let built = round.built()?;
    let notes = places.made("test-notes")?.join("notes.txt");
    std::fs::write(&notes, "")?;
    let mut tests = nextest(places)?
        .args(EVERYTHING)
        .args(features(places)?)
        .args(["--profile", profile, "-E", which])
        .env(NOTES_VARIABLE, &notes);
    for (variable, name) in [("NOOK_BIN", "nook"), ("INGLENOOK_BIN", "inglenook")] {
        if let Some(path) = built.program(name) {
            tests = tests.env(variable, path);
        }
    }
    let ran = tests.test();
    let note = tell_notes(&notes)?;
    ran?;
    Ok(Outcome::Passed { note })
}

/// Says what tests could not do here, each once; how many that were.
fn tell_notes(file: &Path) -> Result<String> {
    let mut lines: Vec<String> =
        std::fs::read_to_string(file)?.lines().map(str::to_owned).collect();
    lines.sort();
    lines.dedup();
    for line in &lines {
        say::loud(line);
    }
    Ok(match lines.len() {
        0 => String::new(),
        many => format!("{many} tests could not do all of their work here"),
    })
}
