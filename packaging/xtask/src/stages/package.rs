//! Makes the packages of the everyday build, looks into them, and in CI installs, drives and
//! removes one.
//!
//! A person's machine is left alone: there the packed programs are driven from where they were
//! unpacked. What could not be done is said aloud, each with its reason.

use std::path::Path;

use anyhow::Result;

use crate::bundle::{self, Packages, Profile, Programs, look, portable, windows};
use crate::places::Places;
use crate::stages::{Outcome, Round, python};
use crate::{outside, say, setup};

mod earlier;
mod installing;
mod rpm;

/// The stage.
pub(crate) fn stage(round: &Round) -> Result<Outcome> {
    if !cfg!(target_os = "linux") {
        let because = "packages are made for Linux on Linux".to_owned();
        return Ok(Outcome::Skipped { because });
    }
    let places = &round.places;
    let built = round.built()?;
    let packages = bundle::make(places, Profile::Debug, &Programs::of(built)?)?;
    Ok(Outcome::Passed { note: prove(places, &packages)? })
}

/// Looks into packages that are made and has their programs driven. Gives what to say of it, with
/// what could not be done.
pub(crate) fn prove(places: &Places, packages: &Packages) -> Result<String> {
    let mut left_out = look::check(places, packages)?;
    let of_portable = portable::prove(places, &packages.portable)?.say(".tar.gz");
    packages.say(places)?;
    match outside::find_program("makensis") {
        Some(_) => windows::check_script(places)?,
        None => left_out.push("no makensis here for the installer for Windows".to_owned()),
    }
    let driven = match why_not_installed(places) {
        None => installing::prove(places, packages, |root| drive(places, packages, root))?,
        Some(why) => {
            left_out.push(format!("nothing was installed: {why}"));
            drive(places, packages, &packages.unpacked)?;
            "driven from where it was unpacked".to_owned()
        }
    };
    let of_rpm = rpm::prove(places, packages)?.unwrap_or_else(|why| {
        left_out.push(why);
        String::new()
    });
    let driven =
        [driven, of_rpm, of_portable].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>();
    let driven = driven.join(", ");
    left_out.iter().for_each(|what| say::loud(what));
    let skipped = left_out.iter().map(|what| format!("; SKIPPED: {what}")).collect::<String>();
    Ok(format!("{}, {driven}{skipped}", packages.sizes()?))
}

/// Why the package is not installed on this machine, if it is not.
fn why_not_installed(places: &Places) -> Option<&'static str> {
    if !outside::in_ci() {
        return Some("this is no CI (CI is not set), and a person's system is theirs");
    }
    if ["apt-get", "dpkg-query"].iter().any(|tool| outside::find_program(tool).is_none()) {
        return Some("no apt here");
    }
    (!setup::packages::may_become_root(places)).then_some("nobody here may become root")
}

/// Drives the programs that lie below `root`: in a terminal, in the window and from the tray.
fn drive(places: &Places, packages: &Packages, root: &Path) -> Result<()> {
    let programs = root.join("usr/bin");
    let environment = [
        ("PACKAGE_ROOT", root.to_owned()),
        ("PACKAGE_CONTENTS", packages.unpacked.clone()),
        ("INGLENOOK_BIN", programs.join("inglenook")),
        ("NOOK_BIN", programs.join("nook")),
    ];
    python::packaged(places, &environment)
}
