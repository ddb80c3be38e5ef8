//! Builds every program and every test program in one go.
//!
//! All later stages run what this stage built. Asking Cargo again for a part of the workspace could
//! choose other features for shared dependencies and compile them a second time.

use std::io::BufReader;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use cargo_metadata::{Message, MetadataCommand};

use crate::places::Places;
use crate::process::{Program, cargo};
use crate::stages::{Outcome, Round, ui};

/// The package of the tray app and the feature that puts the pages into the binary; without it the
/// app asks a development server for them.
const TRAY_PACKAGE: &str = "inglenook";
const PAGES_FEATURE: &str = "custom-protocol";

/// What is built and tested: all but xtask, which is running; the tidy stage builds and tests it.
pub(crate) const EVERYTHING: [&str; 5] = ["--workspace", "--exclude", "xtask", "--bins", "--tests"];

/// What was built.
#[derive(Debug, Default)]
pub(crate) struct Built {
    /// Test programs, in the order of their packages.
    pub(crate) tests: Vec<TestProgram>,
    /// Programs with their names.
    pub(crate) programs: Vec<(String, PathBuf)>,
}

/// A test program.
#[derive(Debug)]
pub(crate) struct TestProgram {
    /// The package it tests.
    pub(crate) package: String,
    /// The target inside the package.
    pub(crate) target: String,
    /// Folder of the package.
    pub(crate) folder: PathBuf,
    /// The program itself.
    pub(crate) program: PathBuf,
}

impl Built {
    /// Path of the program `name`.
    pub(crate) fn program(&self, name: &str) -> Option<&PathBuf> {
        self.programs.iter().find(|(known, _)| known == name).map(|(_, path)| path)
    }
}

/// The stage.
pub(crate) fn stage(round: &Round) -> Result<Outcome> {
    ui::ensure_pages(&round.places)?;
    let built = build(&round.places)?;
    let note = format!("{} programs, {} test programs", built.programs.len(), built.tests.len());
    round.built.set(built).map_err(|_| anyhow!("it was built already"))?;
    Ok(Outcome::Passed { note })
}

/// Feature arguments for every Cargo command over the workspace; always the same ones, so that
/// all commands share their build.
pub(crate) fn features(places: &Places) -> Result<Vec<String>> {
    let metadata = MetadataCommand::new().current_dir(&places.root).no_deps().exec()?;
    let has_feature = metadata.packages.iter().any(|package| {
        package.name.as_str() == TRAY_PACKAGE && package.features.contains_key(PAGES_FEATURE)
    });
    Ok(if has_feature {
        vec![format!("--features={TRAY_PACKAGE}/{PAGES_FEATURE}")]
    } else {
        Vec::new()
    })
}

/// Builds everything.
pub(crate) fn build(places: &Places) -> Result<Built> {
    collected(cargo(&places.root).args(["build"]).args(EVERYTHING).args(features(places)?))
}

/// Runs a build by Cargo and collects the programs that it made.
pub(crate) fn collected(build: Program) -> Result<Built> {
    let mut child = build.args(["--message-format=json-render-diagnostics"]).piped()?;
    let output = child.stdout.take().expect("the child was started with a pipe");
    let mut built = Built::default();
    for message in Message::parse_stream(BufReader::new(output)) {
        if let Message::CompilerArtifact(artifact) = message? {
            note_artifact(&mut built, &artifact)?;
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("building failed: {status}");
    }
    Ok(built)
}

fn note_artifact(built: &mut Built, artifact: &cargo_metadata::Artifact) -> Result<()> {
    let Some(program) = artifact.executable.clone() else {
        return Ok(());
    };
    if !artifact.profile.test {
        built.programs.push((artifact.target.name.clone(), program.into()));
        return Ok(());
    }
    let manifest = &artifact.manifest_path;
    let folder = manifest.parent().with_context(|| format!("{manifest} has no folder"))?;
    built.tests.push(TestProgram {
        package: package_name(&artifact.package_id.repr),
        target: artifact.target.name.clone(),
        folder: folder.into(),
        program: program.into(),
    });
    Ok(())
}

/// `path+file:///…/crates/nook-wire#0.1.0` or `…/tests#nook-tests@0.1.0` to the package's name.
fn package_name(id: &str) -> String {
    let (folder, rest) = id.split_once('#').unwrap_or((id, ""));
    match rest.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => folder.rsplit('/').next().unwrap_or(folder).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names_are_read_from_both_forms_of_ids() {
        assert_eq!(package_name("path+file:///somewhere/crates/nook-wire#0.1.0"), "nook-wire");
        assert_eq!(package_name("path+file:///somewhere/tests#nook-tests@0.1.0"), "nook-tests");
    }
}
