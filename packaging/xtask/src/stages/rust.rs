//! Runs the test programs that the build stage made, one after the other.
//!
//! Their output goes straight through, so the closing `test result:` line of each is in the log; what a
//! failed one wrote last comes once more at the end.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::process::{Program, cargo};
use crate::stages::build::{Built, TestProgram, features};
use crate::stages::{Outcome, Round};

/// The package whose tests start whole households.
const HOUSEHOLD_PACKAGE: &str = "nook-tests";
/// A test program that takes longer hangs; it is ended so that the other stages still tell theirs.
const TEST_PROGRAM_LIMIT: Duration = Duration::from_secs(15 * 60);

/// The tests of every crate, and the examples in its documentation.
pub(crate) fn crates(round: &mut Round) -> Result<Outcome> {
    let ran = run_all(round, |test| test.package != HOUSEHOLD_PACKAGE)?;
    cargo(&round.places.root)
        .args(["test", "--workspace", "--exclude", "xtask", "--doc"])
        .args(features(&round.places)?)
        .test()?;
    Ok(ran)
}

/// The tests of whole households.
pub(crate) fn households(round: &mut Round) -> Result<Outcome> {
    let is_household = |test: &TestProgram| test.package == HOUSEHOLD_PACKAGE;
    let has_tests = built(round)?.tests.iter().any(|test| is_household(test) && test.is_own_file());
    if !has_tests {
        return Ok(Outcome::NotThere { missing: "tests/tests/*.rs".to_owned() });
    }
    run_all(round, is_household)
}

fn run_all(round: &Round, wanted: impl Fn(&TestProgram) -> bool) -> Result<Outcome> {
    let built = built(round)?;
    let mut failed = Vec::new();
    let mut said = String::new();
    let mut ran = 0;
    for test in built.tests.iter().filter(|test| wanted(test)) {
        let mut program = Program::new(&test.program, &test.folder)
            .env("CARGO_MANIFEST_DIR", &test.folder)
            .within(TEST_PROGRAM_LIMIT);
        for (variable, name) in [("NOOK_BIN", "nook"), ("INGLENOOK_BIN", "inglenook")] {
            if let Some(path) = built.program(name) {
                program = program.env(variable, path);
            }
        }
        ran += 1;
        if let Err(error) = program.test() {
            failed.push(format!("{} ({})", test.package, test.target));
            let _ = write!(said, "\n{error}");
        }
    }
    if !failed.is_empty() {
        bail!("{} of {ran} test programs failed: {}{said}", failed.len(), failed.join(", "));
    }
    Ok(Outcome::Passed { note: format!("{ran} test programs") })
}

fn built(round: &Round) -> Result<&Built> {
    match &round.built {
        Some(built) => Ok(built),
        None => bail!("nothing was built"),
    }
}

impl TestProgram {
    /// Whether it is an integration test, not the (mostly empty) unit tests of the package.
    fn is_own_file(&self) -> bool {
        self.target.replace('-', "_") != self.package.replace('-', "_")
    }
}
