//! Installs the .rpm into a root of its own, has its program answer there, installs it again over
//! itself, and removes it.
//!
//! The root is a folder: `rpm` calls chroot(2) for it, so this takes root's rights. What the package
//! requires is not looked for, as that root has no other package: which libraries it names is
//! checked where it is looked into. The programs run with the libraries of this machine.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::bundle::Packages;
use crate::bundle::contents::fresh;
use crate::bundle::first_words::{self, Times, timed};
use crate::outside;
use crate::places::Places;
use crate::process::Program;

/// What the package is called.
const NAME: &str = "inglenook";
/// Folders in which the package has files; the folders themselves belong to the system.
const FOLDERS: [&str; 2] = ["usr/bin", "usr/share"];

/// Gives what to say of it, or why it was not done.
pub(crate) fn prove(places: &Places, packages: &Packages) -> Result<Result<String, String>> {
    if outside::find_program("rpm").is_none() {
        return Ok(Err("the .rpm was not installed: no `rpm` here".to_owned()));
    }
    let Some(uid) = Program::new("id", &places.root).args(["-u"]).output_quietly() else {
        return Ok(Err("the .rpm was not installed: nobody knows who this is".to_owned()));
    };
    if uid.trim() != "0" {
        return Ok(Err("the .rpm was not installed: that takes root's rights".to_owned()));
    }
    let root = fresh(&places.made("packages")?.join("rpm-root"))?.to_owned();
    let rpm = |words: &[&str]| {
        Program::new("rpm", &places.root).args(["--root".as_ref(), root.as_os_str()]).args(words)
    };
    let file = packages.rpm.to_string_lossy();
    rpm(&["--initdb"]).run()?;
    let installing = timed(|| rpm(&["--install", "--nodeps", "--nosignature", &file]).run())?;
    rpm(&["--verify", "--nodeps", NAME]).run()?;
    let home = fresh(&places.made("packages")?.join("rpm-owner"))?.to_owned();
    let first_words = first_words::wait(&root.join("usr/bin/nook"), &home)?;
    // What a newer build of the same package does.
    rpm(&["--upgrade", "--force", "--nodeps", "--nosignature", &file]).run()?;
    rpm(&["--verify", "--nodeps", NAME]).run()?;
    rpm(&["--erase", "--nodeps", NAME]).run()?;
    let left: Vec<_> = FOLDERS.iter().filter(|folder| has_files(&root.join(folder))).collect();
    ensure!(left.is_empty(), "left over after removing the .rpm: files in {left:?}");
    std::fs::remove_dir_all(&root)?;
    let times = Times { installing, first_words }.say(".rpm");
    Ok(Ok(format!("{times} in a root of its own, removed")))
}

/// Whether any file lies below a folder.
fn has_files(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() { has_files(&path) } else { true }
    })
}
