//! `cargo xtask bundle`: the packages for Linux: .deb and .rpm through Tauri's own bundler, and a
//! plain archive with a script that installs into a home ([`portable`]). Those for Windows are made by
//! [`windows`].
//!
//! [`make`] takes programs that are built, lays out beside them what a package holds ([`contents`]:
//! completions, manual pages, licences, metadata), asks [`needs`] which libraries they want of the
//! system, and hands all of it to the bundler as a configuration that is merged into
//! `src-tauri/tauri.conf.json`. The bundler patches the program that it packs, so everything
//! happens in a folder of its own under the target folder: what Cargo built stays as it was, and
//! sizes and hashes are those of the packed files. [`look`] reads packages that are made and names
//! their faults.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::json;

use crate::bundle::contents::PackedFile;
use crate::launch::{NOOK, TRAY_APP};
use crate::places::Places;
use crate::process::{Program, cargo};
use crate::setup::{self, Purpose, SetupOptions};
use crate::stages::{build, package, ui};
use crate::{outside, say};

pub(crate) mod contents;
mod cuda;
pub(crate) mod first_words;
pub(crate) mod look;
mod needs;
mod notices;
pub(crate) mod portable;
mod prerelease;
pub(crate) mod windows;

/// Where npm puts the bundler, and its program in there.
const BUNDLER: &str = "packaging/bundler";
const BUNDLER_PROGRAM: &str = "node_modules/@tauri-apps/cli/tauri.js";

/// How to make the packages.
#[derive(Debug, Args)]
pub(crate) struct BundleOptions {
    /// Without optimisation, from the everyday build: quick to make, for looking at
    #[arg(long)]
    debug: bool,
    /// Drive the packed programs as well; in CI (`CI` is set) install the .deb for that and remove
    /// it
    #[arg(long)]
    drive: bool,
    /// Build the worker program for NVIDIA's cards instead, which no package holds; needs the CUDA
    /// toolkit
    #[arg(long, conflicts_with = "drive")]
    cuda: bool,
    /// Make the packages for Windows instead: an installer and a .zip; needs mingw and makensis
    #[arg(long, conflicts_with_all = ["drive", "cuda"])]
    windows: bool,
    /// Install missing system packages without asking
    #[arg(long)]
    yes: bool,
}

/// How the programs were built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Unoptimised; symbols are taken out here, or a package has 300 MB.
    Debug,
    /// Optimised; Cargo has taken the symbols out.
    Release,
}

/// The programs that go into a package, as Cargo built them.
#[derive(Debug)]
pub(crate) struct Programs<'a> {
    /// The tray app.
    pub(crate) inglenook: &'a Path,
    /// The command line.
    pub(crate) nook: &'a Path,
}

/// Packages that were made.
#[derive(Debug)]
pub(crate) struct Packages {
    /// For Debian and its children.
    pub(crate) deb: PathBuf,
    /// For Fedora and its relatives.
    pub(crate) rpm: PathBuf,
    /// For every other Linux, and for accounts that may install nothing.
    pub(crate) portable: PathBuf,
    /// What the .deb installs, as it lies in it.
    pub(crate) unpacked: PathBuf,
}

/// Builds the programs, makes the packages, checks them and says how large they are.
pub(crate) fn command(places: &Places, options: &BundleOptions) -> Result<()> {
    let profile = if options.debug { Profile::Debug } else { Profile::Release };
    if options.cuda {
        return cuda::command(places, profile);
    }
    if !cfg!(target_os = "linux") {
        bail!("packages for Linux and Windows are made on Linux");
    }
    if options.windows {
        setup::ensure(places, Purpose::Run, &SetupOptions { yes: options.yes })?;
        return windows::command(places, profile);
    }
    let purpose = if options.drive { Purpose::Test } else { Purpose::Run };
    setup::ensure(places, purpose, &SetupOptions { yes: options.yes })?;
    ui::build_pages(places)?;
    let build = cargo(&places.root)
        .args(["build", "--package", "inglenook", "--package", "nook-cli", "--bins"])
        .args(build::features(places)?)
        .args((profile == Profile::Release).then_some("--release"));
    let built = build::collected(build)?;
    let packages = make(places, profile, &Programs::of(&built)?)?;
    if options.drive {
        say::line(&package::prove(places, &packages)?);
        return Ok(());
    }
    look::check(places, &packages)?.iter().for_each(|skipped| say::loud(skipped));
    packages.say(places)
}

/// Makes both packages of programs that are built.
pub(crate) fn make(places: &Places, profile: Profile, programs: &Programs<'_>) -> Result<Packages> {
    ui::install(&places.root.join(BUNDLER))?;
    let folder = places.made(Path::new("packages").join(profile.folder()))?;
    let bundled = folder.join("bundle");
    // What an earlier run left must not be taken for what this one made.
    if bundled.exists() {
        std::fs::remove_dir_all(&bundled)?;
    }
    let app = folder.join(TRAY_APP);
    copy_program(places, profile, programs.inglenook, &app)?;
    let nook = contents::fresh(&folder.join("contents"))?.join(NOOK);
    copy_program(places, profile, programs.nook, &nook)?;
    let files = contents::lay_out(places, &folder.join("contents"), &nook)?;
    let configuration = folder.join("bundle.json");
    let wanted = needs::of(places, &folder, &[&app, &nook])?;
    std::fs::write(&configuration, configuration_text(places, &files, &wanted)?)?;
    let debug = (profile == Profile::Debug).then_some("--debug");
    Program::new("node", &places.root.join("src-tauri"))
        .args([places.root.join(BUNDLER).join(BUNDLER_PROGRAM)])
        .args(["bundle", "--bundles", "deb,rpm"])
        .args(debug)
        .args(["--config".as_ref(), configuration.as_os_str()])
        .env("CARGO_TARGET_DIR", places.target.join("packages"))
        .env("CI", "true")
        .run()?;
    let deb = only_file(&bundled.join("deb"), "deb")?;
    prerelease::mend_deb(&deb, &deb.with_extension(""), &portable::version(places)?)?;
    let unpacked = deb.with_extension("").join("data");
    if !unpacked.join("usr/bin").is_dir() {
        bail!("the bundler did not leave what it packed in {}", unpacked.display());
    }
    let portable = portable::make(places, &folder, &unpacked)?;
    Ok(Packages { rpm: only_file(&bundled.join("rpm"), "rpm")?, deb, portable, unpacked })
}

fn copy_program(places: &Places, profile: Profile, from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    if profile == Profile::Debug {
        if outside::find_program("strip").is_none() {
            say::loud("no `strip` here: the packages of this build hold all its symbols");
            return Ok(());
        }
        Program::new("strip", &places.root).args([to]).run()?;
    }
    Ok(())
}

/// What is merged into `src-tauri/tauri.conf.json`.
fn configuration_text(
    places: &Places,
    files: &contents::Contents,
    wanted: &needs::Needs,
) -> Result<String> {
    let map = |kind: &[PackedFile]| {
        let entries = files.both.iter().chain(kind);
        entries
            .map(|file| (file.path.clone(), json!(file.source)))
            .collect::<serde_json::Map<_, _>>()
    };
    let template = places.root.join("packaging/linux/inglenook.desktop");
    let mut linux = json!({
        "deb": {"files": map(&files.deb), "section": "utils", "desktopTemplate": template},
        "rpm": {"files": map(&files.rpm), "desktopTemplate": template},
    });
    // An array takes the place of the one in the file; where nothing was found out, that one
    // stands.
    if let Some(depends) = &wanted.deb {
        linux["deb"]["depends"] = json!(depends);
    }
    if let Some(depends) = &wanted.rpm {
        linux["rpm"]["depends"] = json!(depends);
    }
    let version = portable::version(places)?;
    Ok(serde_json::to_string_pretty(&json!({"version": version, "bundle": {"linux": linux}}))?)
}

/// The one file in `folder` that ends so.
fn only_file(folder: &Path, ending: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)
        .with_context(|| format!("the bundler made nothing in {}", folder.display()))?
    {
        let path = entry?.path();
        if path.is_file() && path.extension().is_some_and(|known| known == ending) {
            found.push(path);
        }
    }
    match <[PathBuf; 1]>::try_from(found) {
        Ok([one]) => Ok(one),
        Err(found) => bail!("{} files end in .{ending} in {}", found.len(), folder.display()),
    }
}

impl Profile {
    /// What Cargo and the bundler call its folder.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }
}

impl<'a> Programs<'a> {
    /// The two programs among those that were built.
    pub(crate) fn of(built: &'a build::Built) -> Result<Self> {
        let program = |name: &str| {
            built.program(name).with_context(|| format!("the program `{name}` was not built"))
        };
        Ok(Self { inglenook: program("inglenook")?, nook: program("nook")? })
    }
}

impl Packages {
    /// Says how large programs and packages are, and their hashes: of the packed programs, which
    /// are not the bytes that Cargo built.
    pub(crate) fn say(&self, places: &Places) -> Result<()> {
        let programs = [TRAY_APP, NOOK].map(|name| self.unpacked.join("usr/bin").join(name));
        let named = programs.iter().map(|path| ("program", path));
        let packages = [&self.deb, &self.rpm, &self.portable].map(|path| ("package", path));
        for (kind, path) in named.chain(packages) {
            let bytes = path.metadata()?.len();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let hash = Program::new("sha256sum", &places.root)
                .args([path])
                .output_quietly()
                .and_then(|said| said.split_whitespace().next().map(str::to_owned))
                .map_or_else(String::new, |hash| format!("  sha256 {hash}"));
            say::line(&format!("{kind} {name:<32} {:>8.2} MB{hash}", bytes as f64 / 1e6));
        }
        say::line(&format!("packages lie in {}", self.deb.parent().unwrap_or(&self.deb).display()));
        Ok(())
    }

    /// Sizes in a few words, for a closing line.
    pub(crate) fn sizes(&self) -> Result<String> {
        let megabytes = |path: &Path| Ok::<_, anyhow::Error>(path.metadata()?.len() as f64 / 1e6);
        let [deb, rpm, portable] = [&self.deb, &self.rpm, &self.portable].map(|it| megabytes(it));
        Ok(format!(".deb {:.1} MB, .rpm {:.1} MB, .tar.gz {:.1} MB", deb?, rpm?, portable?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_leaves_the_written_configuration_alone() {
        let places = Places::find().unwrap();
        let file = |path: &str| PackedFile { path: path.to_owned(), source: "source".into() };
        let files = contents::Contents {
            both: vec![file("/usr/bin/nook")],
            deb: vec![file("/usr/share/a")],
            rpm: vec![],
        };
        let text = |wanted| configuration_text(&places, &files, &wanted).unwrap();
        let read = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
        let unknown = read(text(needs::Needs { deb: None, rpm: None }));
        let linux = &unknown["bundle"]["linux"];
        assert_eq!(linux["deb"].get("depends"), None);
        assert_eq!(linux["deb"]["files"]["/usr/share/a"], "source");
        assert_eq!(linux["rpm"]["files"]["/usr/bin/nook"], "source");
        assert_eq!(linux["rpm"]["files"].get("/usr/share/a"), None);
        let known = read(text(needs::Needs { deb: Some(vec!["libc6".to_owned()]), rpm: None }));
        assert_eq!(known["bundle"]["linux"]["deb"]["depends"][0], "libc6");
    }
}
