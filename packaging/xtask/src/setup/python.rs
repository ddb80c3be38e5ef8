//! Python environments: pinned packages in a folder of their own. Some have what tests import;
//! others have one program each that is published as a Python package.
//!
//! The folder's name holds a hash of the requirements, so a changed list makes a new environment
//! and an interrupted installation is never taken for a finished one (the mark is written last).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::places::Places;
use crate::process::Program;

/// Packages that tests written in Python import; each list is an environment of its own, because
/// not all of them agree on what they need.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Packages {
    /// What drives the window, and the packages of OpenAI, Anthropic and Ollama.
    Usual,
    /// Foreign programs at the port.
    Programs,
    /// The one of them that needs an older package.
    Instructor,
}

impl Packages {
    pub(crate) const ALL: [Self; 3] = [Self::Usual, Self::Programs, Self::Instructor];

    fn list(self) -> &'static str {
        match self {
            Self::Usual => "requirements.txt",
            Self::Programs => "requirements-programs.txt",
            Self::Instructor => "requirements-instructor.txt",
        }
    }
}

/// The interpreter of an environment of tests; makes the environment when it is not there.
pub(crate) fn environment(places: &Places, packages: Packages) -> Result<PathBuf> {
    let requirements = places.python_tests().join(packages.list());
    let list = std::fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    environment_of(places, "python", &list)
}

/// The interpreter of an environment called `name` with the packages of `list`, one in a line.
pub(crate) fn environment_of(places: &Places, name: &str, list: &str) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    list.hash(&mut hasher);
    let folder = places.made(format!("{name}/{:016x}", hasher.finish()))?;
    let programs = folder.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let python = programs.join("python").with_extension(std::env::consts::EXE_EXTENSION);
    let mark = folder.join("complete");
    if !mark.exists() {
        let system = if cfg!(windows) { "python" } else { "python3" };
        Program::new(system, &places.root)
            .args(["-m".as_ref(), "venv".as_ref(), "--clear".as_ref(), folder.as_os_str()])
            .run()?;
        let requirements = folder.join("requirements.txt");
        std::fs::write(&requirements, list)?;
        Program::new(&python, &places.root)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(["--requirement".as_ref(), requirements.as_os_str()])
            .run()?;
        std::fs::write(&mark, list)?;
    }
    Ok(python)
}

/// A program that a package brought into the environment of `interpreter`.
pub(crate) fn program(interpreter: &Path, name: &str) -> PathBuf {
    interpreter.with_file_name(name).with_extension(std::env::consts::EXE_EXTENSION)
}
