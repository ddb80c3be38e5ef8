//! A plain archive with a script that puts Inglenook into a home.
//!
//! An AppImage would carry WebKitGTK, 90 MB that go out of date, and needs FUSE or a runtime from
//! elsewhere to start. This archive holds what the .deb holds and wants the same libraries of the
//! system; the script names those that are missing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use cargo_metadata::MetadataCommand;

use crate::bundle::contents::fresh;
use crate::bundle::first_words::{self, Times, timed};
use crate::outside;
use crate::places::Places;
use crate::process::Program;

/// The version that is built, for everything that builds.
pub(crate) const VERSION_VARIABLE: &str = "INGLENOOK_VERSION";

/// The script, in the tree and in the archive.
const SCRIPT: &str = "install.sh";
const SCRIPT_FROM: &str = "packaging/linux/install.sh";

/// The time of every file in the archive, so that the same files are the same archive.
const TIME: &str = "@0";

/// Makes the archive in `folder` from what the .deb holds.
pub(crate) fn make(places: &Places, folder: &Path, unpacked: &Path) -> Result<PathBuf> {
    let name = format!("inglenook-{}-linux-{}", version(places)?, std::env::consts::ARCH);
    let around = fresh(&folder.join("portable"))?.to_owned();
    let content = around.join(&name);
    fs::create_dir(&content)?;
    for part in ["bin", "share"] {
        let from = unpacked.join("usr").join(part);
        Program::new("cp", places.root.as_path())
            .args(["-r".as_ref(), from.as_os_str(), content.as_os_str()])
            .run()?;
    }
    fs::copy(places.root.join(SCRIPT_FROM), content.join(SCRIPT))?;
    let archive = around.join(format!("{name}.tar.gz"));
    Program::new("tar", &around)
        // Plain headers: an update takes no others.
        .args(["--create", "--format=ustar", "--sort=name"])
        .args(["--owner=0", "--group=0", "--numeric-owner"])
        .args([format!("--mtime={TIME}"), "--use-compress-program=gzip -9n".to_owned()])
        .args(["--file".as_ref(), archive.as_os_str()])
        .args([&name])
        .run()?;
    Ok(archive)
}

/// The version that is built for: of a release, else of the workspace.
pub(crate) fn version(places: &Places) -> Result<String> {
    if let Some(version) = outside::variable(VERSION_VARIABLE) {
        return version.into_string().ok().context("a version is text");
    }
    let metadata = MetadataCommand::new().current_dir(&places.root).no_deps().exec()?;
    let app = metadata.packages.iter().find(|package| package.name.as_str() == "inglenook");
    Ok(app.context("the workspace has no package `inglenook`")?.version.to_string())
}

/// Unpacks the archive, installs it into a made-up home twice, runs what is there and takes it out
/// again. How long installing and the first words took.
pub(crate) fn prove(places: &Places, archive: &Path) -> Result<Times> {
    let place = places.made("portable-proof")?;
    let (unpacked, home) = (place.join("unpacked"), place.join("home"));
    fresh(&unpacked)?;
    fresh(&home)?;
    Program::new("tar", &unpacked)
        .args(["--extract".as_ref(), "--file".as_ref(), archive.as_os_str()])
        .run()?;
    let script = only_folder(&unpacked)?.join(SCRIPT);
    let install = |arguments: &[&str]| {
        Program::new("sh", &place).args([&script]).args(arguments).env("HOME", &home)
    };
    // What is the owner's lies in the same folders.
    let theirs = home.join(".local/share/inglenook/settings.toml");
    fs::create_dir_all(theirs.parent().unwrap_or(&home))?;
    fs::write(&theirs, "")?;
    let installing = timed(|| install(&[]).run())?;
    let prefix = home.join(".local");
    // An earlier version had a file that this one has not.
    let list = prefix.join("share/doc/inglenook/installed.txt");
    fs::write(&list, fs::read_to_string(&list)? + "share/zzz/old\n")?;
    fs::create_dir(prefix.join("share/zzz"))?;
    fs::write(prefix.join("share/zzz/old"), "")?;
    install(&[]).run()?;
    ensure!(!prefix.join("share/zzz").exists(), "what only an earlier version had is still there");
    let said = Program::new(prefix.join("bin/nook"), &home).args(["--version"]).output()?;
    ensure!(said.contains(&version(places)?), "the installed `nook` says {said}");
    let owner = fresh(&place.join("owner"))?.to_owned();
    let first_words = first_words::wait(&prefix.join("bin/nook"), &owner)?;
    let held = |file: &str, what: &str| -> Result<()> {
        let text = fs::read_to_string(prefix.join(file))?;
        let wanted = format!("\"{}/bin/{what}", prefix.display());
        ensure!(text.contains(&wanted), "{file} does not start {wanted}");
        Ok(())
    };
    held("share/applications/Inglenook.desktop", "inglenook\"")?;
    held("share/systemd/user/inglenook.service", "nook\" up")?;
    install(&["--remove"]).run()?;
    let left = files_below(&home)?;
    ensure!(left == [theirs.clone()], "the script leaves {left:?}");
    ensure!(!install(&["--remove"]).succeeds(), "nothing is there to be taken out any more");
    Ok(Times { installing, first_words })
}

fn only_folder(around: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(around)?.collect::<Result<Vec<_>, _>>()?;
    match entries.as_slice() {
        [one] => Ok(one.path()),
        many => bail!("{} things lie in the archive, not one folder", many.len()),
    }
}

/// Every file below `folder`, and every folder that is empty.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    for entry in &entries {
        match entry.file_type()?.is_dir() {
            true => found.extend(files_below(&entry.path())?),
            false => found.push(entry.path()),
        }
    }
    if entries.is_empty() {
        found.push(folder.to_owned());
    }
    Ok(found)
}
