//! Everything that must be on the machine before building and testing.
//!
//! Asks [`packages`] which system packages are missing and has them installed (in CI or with
//! `--yes` at once, on a terminal after asking, otherwise the command is printed and that is the
//! error); makes the Python environments of the tests ([`python`]) and installs the spelling check
//! ([`typos`]); builds what is missing of Cargo's tools ([`tools`]); checks Node.

use std::io::Write as _;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::places::Places;
use crate::process::Program;
use crate::setup::packages::{Family, Wanted};
use crate::{outside, say};

pub(crate) mod packages;
pub(crate) mod python;
pub(crate) mod tools;
pub(crate) mod typos;
pub(crate) mod workflows;

/// The Node versions that the window's tools run on, as `ui/package.json` has it.
const NODE_WANTED: &str = "Node.js 20.19 or newer (of 22: 22.12 or newer)";

/// How setting up may go.
#[derive(Debug, Clone, Args)]
pub(crate) struct SetupOptions {
    /// Install missing system packages without asking
    #[arg(long)]
    pub(crate) yes: bool,
}

/// What the machine is to do; decides which packages it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Build the programs without a window.
    House,
    /// Build and run the tray app.
    Run,
    /// Run every test as well.
    Test,
    /// Cross-build for other systems as well.
    Platforms,
}

/// `cargo xtask setup`: what `run` and `test` do first, alone.
pub(crate) fn setup(places: &Places, options: &SetupOptions) -> Result<()> {
    ensure(places, Purpose::Test, options)?;
    say::line("Everything that building and testing need is here.");
    Ok(())
}

/// Makes sure that this machine has what `purpose` needs.
pub(crate) fn ensure(places: &Places, purpose: Purpose, options: &SetupOptions) -> Result<()> {
    ensure_packages(places, purpose, options)?;
    if purpose >= Purpose::Run {
        check_node(places)?;
    }
    if purpose >= Purpose::Test {
        for packages in python::Packages::ALL {
            python::environment(places, packages)?;
        }
        typos::tool(places)?;
        tools::tool(places, &tools::NEXTEST)?;
    }
    Ok(())
}

fn ensure_packages(places: &Places, purpose: Purpose, options: &SetupOptions) -> Result<()> {
    let Some(family) = Family::of_this_machine() else {
        return Ok(()); // Windows and macOS bring what the app needs with them.
    };
    let missing = family.missing(places, packages::wanted(purpose));
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|wanted| wanted.name(family)).collect::<Vec<_>>();
    say::line(&format!("Missing system packages: {}", names.join(" ")));
    let command = family.install_command(&names);
    if !options.yes && !outside::in_ci() {
        if !outside::on_terminal() {
            bail!("install the missing packages and try again:\n  {command}");
        }
        if !said_yes(&format!("Install them now with `{command}`?"))? {
            bail!("not installed; this is the command for later:\n  {command}");
        }
    }
    family.install(places, &names)?;
    still_missing(&family.missing(places, packages::wanted(purpose)), family)
}

fn still_missing(missing: &[&Wanted], family: Family) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|wanted| wanted.name(family)).collect::<Vec<_>>();
    bail!("still missing after installing: {}", names.join(" "))
}

fn said_yes(question: &str) -> Result<bool> {
    say::line(&format!("{question} [y/N]"));
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn check_node(places: &Places) -> Result<()> {
    let said = Program::new("node", &places.root)
        .args(["--version"])
        .output()
        .with_context(|| format!("{NODE_WANTED} builds the window's pages; it is not here"))?;
    if !node_version(&said).is_some_and(is_new_enough) {
        bail!("{NODE_WANTED} builds the window's pages; here is {said}");
    }
    Ok(())
}

/// Major and minor number.
fn node_version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.trim().strip_prefix('v')?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn is_new_enough(version: (u32, u32)) -> bool {
    ((20, 19)..(21, 0)).contains(&version) || version >= (22, 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_versions_are_read_and_old_ones_refused() {
        assert_eq!(node_version("v20.20.2\n"), Some((20, 20)));
        assert_eq!(node_version("command not found"), None);
        assert!([(20, 19), (20, 20), (22, 12), (24, 0)].into_iter().all(is_new_enough));
        assert!(![(18, 20), (20, 18), (21, 7), (22, 11)].into_iter().any(is_new_enough));
    }

    #[test]
    fn what_is_wanted_of_node_is_what_the_pages_want() {
        let package = std::fs::read_to_string(Places::find().unwrap().ui().join("package.json"));
        assert!(package.unwrap().contains(r#""node": "^20.19.0 || >=22.12.0""#));
    }
}
