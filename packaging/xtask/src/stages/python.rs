//! The stages whose tests are written in Python: foreign clients at the port, tray and windows.
//!
//! The tests find the programs through `NOOK_BIN` and `INGLENOOK_BIN` and leave pictures and logs
//! in the folder `OUT`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::places::Places;
use crate::process::Program;
use crate::setup::python::{self, Packages};
use crate::stages::{Outcome, Round};

/// Starting several nodes and a window takes seconds, beside others a minute; a file that takes longer
/// hangs.
const FILE_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Tests of foreign programs at the port.
const CLIENT_FILES: [(Packages, &[&str]); 3] = [
    (
        Packages::Usual,
        &["test_openai.py", "test_anthropic.py", "test_ollama.py", "test_examples.py"],
    ),
    (
        Packages::Programs,
        &[
            "test_langchain.py",
            "test_litellm.py",
            "test_pydantic_ai.py",
            "test_openai_agents.py",
            "test_llm.py",
        ],
    ),
    (Packages::Instructor, &["test_instructor.py"]),
];
/// What is asked of packed programs, wherever they lie.
const PACKAGE_FILE: &str = "test_package.py";
/// Tests of tray and windows; each gets a display, a session bus and a home of its own.
const WINDOW_FILES: [&str; 9] = [
    "test_tray.py",
    "test_no_tray.py",
    "test_first_start.py",
    "test_window.py",
    "test_pages.py",
    "test_notices.py",
    "test_graphics.py",
    "test_broken.py",
    "test_new_version.py",
];

/// Words for the interpreter that put a display, a session bus and a home around a test.
const DISPLAY: [&str; 2] = ["-m", "gui.run_gui"];

/// Foreign programs at the local port.
pub(crate) fn clients(round: &Round) -> Result<Outcome> {
    run_files(round, &CLIENT_FILES, &["nook"], &[])
}

/// Tray and windows on a private display.
pub(crate) fn windows(round: &Round) -> Result<Outcome> {
    if !cfg!(target_os = "linux") {
        let because = "windows are driven through X11 and D-Bus, which only Linux has".to_owned();
        return Ok(Outcome::Skipped { because });
    }
    let files: [(_, &[_]); 1] = [(Packages::Usual, &WINDOW_FILES)];
    run_files(round, &files, &["nook", "inglenook"], &DISPLAY)
}

/// Packed programs, on a private display too. `environment` says where they are.
pub(crate) fn packaged(places: &Places, environment: &[(&str, PathBuf)]) -> Result<()> {
    let interpreter = python::environment(places, Packages::Usual)?;
    let mut test = pytest(places, &interpreter, &DISPLAY, PACKAGE_FILE)?;
    for (name, value) in environment {
        test = test.env(name, value);
    }
    test.test()
}

/// Runs all files, those of each environment one after the other, and fails for all that failed.
fn run_files(
    round: &Round,
    groups: &[(Packages, &[&str])],
    programs: &[&str],
    wrapper: &[&str],
) -> Result<Outcome> {
    let places = &round.places;
    let built = round.built()?;
    let files = groups.iter().flat_map(|(_, files)| files.iter().copied()).collect::<Vec<_>>();
    for file in &files {
        if !places.python_tests().join(file).exists() {
            return Ok(Outcome::NotThere { missing: format!("tests/python/{file}") });
        }
    }
    let mut failed = Vec::new();
    let mut said = String::new();
    for (packages, files) in groups {
        let interpreter = python::environment(places, *packages)?;
        for file in *files {
            let mut test = pytest(places, &interpreter, wrapper, file)?;
            for program in programs {
                let Some(path) = built.program(program) else {
                    return Ok(Outcome::NotThere { missing: format!("the program `{program}`") });
                };
                test = test.env(&format!("{}_BIN", program.to_uppercase()), path);
            }
            if let Err(error) = test.test() {
                failed.push(*file);
                let _ = write!(said, "\n{error}");
            }
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}{said}", failed.join(", "));
    }
    Ok(Outcome::Passed { note: files.join(", ") })
}

fn pytest(places: &Places, interpreter: &Path, wrapper: &[&str], file: &str) -> Result<Program> {
    Ok(Program::new(interpreter, &places.python_tests())
        .args(wrapper)
        .args(if wrapper.is_empty() { vec![] } else { vec![interpreter.as_os_str()] })
        .args(["-m", "pytest", "-p", "no:cacheprovider", "--verbose", "--exitfirst", file])
        .env("OUT", places.made("window-tests")?)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .within(FILE_LIMIT))
}
