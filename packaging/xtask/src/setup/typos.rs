//! Typos, the spelling check of code and documents. Its Python package brings the program built.
//!
//! What it leaves alone is in `.typos.toml`.

use std::path::PathBuf;

use anyhow::Result;

use crate::places::Places;
use crate::process::Program;
use crate::setup::python;

/// The version that `.typos.toml` is written for.
const REQUIREMENTS: &str = "typos==1.52.0\n";

/// Looks at every file that git does not ignore; a misspelt word is an error.
pub(crate) fn check(places: &Places) -> Result<()> {
    Program::new(tool(places)?, &places.root).args(["--hidden", "--format", "brief"]).test()
}

/// The program; installs it when it is not there.
pub(crate) fn tool(places: &Places) -> Result<PathBuf> {
    let interpreter = python::environment_of(places, "typos", REQUIREMENTS)?;
    Ok(python::program(&interpreter, "typos"))
}
