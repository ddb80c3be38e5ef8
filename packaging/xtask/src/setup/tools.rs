//! Cargo's tools that the stages run: the one on the search path where it will do, else one that is
//! built once into the target folder.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::places::Places;
use crate::process::{Program, cargo};
use crate::{outside, say};

/// A program that comes as a crate.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The crate, and its program.
    pub(crate) name: &'static str,
    /// What is installed where none will do.
    pub(crate) version: &'static str,
    /// Which versions on the search path will do.
    pub(crate) takes: Takes,
}

/// Which versions will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Only the one that would be installed.
    Exactly,
    /// That one and later ones of its major and minor version.
    OrLater,
}

/// Licences, bans, sources, advisories; `deny.toml` is written for this version.
pub(crate) const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", takes: Takes::Exactly };
/// Runs the Rust tests; `.config/nextest.toml` is written for this version.
pub(crate) const NEXTEST: Tool =
    Tool { name: "cargo-nextest", version: "0.9.143", takes: Takes::OrLater };

/// The program of `tool`; builds it when there is none.
pub(crate) fn tool(places: &Places, tool: &Tool) -> Result<PathBuf> {
    let will_do = |program: &PathBuf| tool.will_do(program, &places.root);
    if let Some(found) = outside::find_program(tool.name).filter(will_do) {
        return Ok(found);
    }
    let home = places.made("tools")?;
    let program = home.join("bin").join(tool.name).with_extension(std::env::consts::EXE_EXTENSION);
    if !program.exists() || !will_do(&program) {
        say::line(&format!("{} is not here yet; building it takes some minutes, once.", tool.name));
        let build = places.target.join("tools/build");
        cargo(&places.root)
            .args(["install", tool.name, "--locked", "--version", tool.version])
            .args(["--force".as_ref(), "--root".as_ref(), home.as_os_str()])
            .args(["--target-dir".as_ref(), build.as_os_str()])
            .run()?;
        // The tool is kept, its gigabyte of intermediate files is not.
        std::fs::remove_dir_all(build)?;
    }
    Ok(program)
}

impl Tool {
    fn will_do(&self, program: &Path, folder: &Path) -> bool {
        let said = Program::new(program, folder).args(["--version"]).output_quietly();
        said.is_some_and(|said| self.fits(&said))
    }

    /// Whether a program that says this of itself will do: `cargo-deny 0.20.2`, and more behind it.
    fn fits(&self, said: &str) -> bool {
        let mut words = said.split_whitespace();
        let (name, version) = (words.next(), words.next().unwrap_or_default());
        name == Some(self.name)
            && match self.takes {
                Takes::Exactly => version == self.version,
                Takes::OrLater => is_or_later(version, self.version),
            }
    }
}

fn is_or_later(version: &str, least: &str) -> bool {
    let (Some(version), Some(least)) = (numbers(version), numbers(least)) else {
        return false;
    };
    version[..2] == least[..2] && version[2] >= least[2]
}

fn numbers(version: &str) -> Option<[u32; 3]> {
    let numbers: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_a_version_that_will_do_is_taken() {
        for (tool, said, fits) in [
            (&DENY, "cargo-deny 0.20.2\n", true),
            (&DENY, "cargo-deny 0.20.3\n", false),
            (&DENY, "", false),
            (&NEXTEST, "cargo-nextest 0.9.143 (60fa45f63 2026-08-04)\nrelease: 0.9.143\n", true),
            (&NEXTEST, "cargo-nextest 0.9.200", true),
            (&NEXTEST, "cargo-nextest 0.9.99", false),
            (&NEXTEST, "cargo-nextest 0.10.143", false),
            (&NEXTEST, "cargo-nextest 0.9.143-rc.1", false),
            (&NEXTEST, "another 0.9.143", false),
        ] {
            assert_eq!(tool.fits(said), fits, "{said:?}");
        }
    }
}
