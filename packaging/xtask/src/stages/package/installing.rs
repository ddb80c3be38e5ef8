//! Installs the .deb on this machine, has it driven, removes it, and proves that nothing of it is left
//! and that what a user has stays.
//!
//! The machine is left as it was, also when something fails: [`Installed`] removes on drop, and a run
//! that was killed in between is cleaned up after by the next one, which finds the mark in the lock
//! file. Several runs on one machine take turns.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::bundle::Packages;
use crate::bundle::look::{self, Entry};
use crate::places::Places;
use crate::process::Program;
use crate::setup::packages;
use crate::{outside, say};

/// What the package is called.
const NAME: &str = "inglenook";
/// Another run on this machine may take so long; past it this one fails.
const TURN_LIMIT: Duration = Duration::from_secs(10 * 60);
const LOOK: Duration = Duration::from_millis(500);
/// Longest that the program may take for a few words.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// Stands in the lock file from before installing until after removing.
const MARK: &str = "installed by `cargo xtask test`\n";
/// Folders that small images leave out of packages; here they are what is tested.
const ALSO: [&str; 3] = ["/usr/share/man/*", "/usr/share/doc/inglenook/*", "/usr/share/icons/*"];

/// Installs, has `drive` drive what lies below the root of the system, removes. Gives what to say.
pub(crate) fn prove(
    places: &Places,
    packages: &Packages,
    drive: impl FnOnce(&Path) -> Result<()>,
) -> Result<String> {
    let mut turn = Turn::take()?;
    let entries = look::entries_of_deb(places, &packages.deb)?;
    if is_installed(places) {
        ensure!(
            turn.is_marked()?,
            "a package called {NAME} is installed on this machine, and not by these tests: it is left alone"
        );
        say::loud("an earlier run was ended before it could remove the package; it is removed now");
        Installed { places, brought: Vec::new(), is_removed: false }.remove()?;
    }
    let before = present(&entries);
    let files = before.iter().filter(|path| !path.is_dir()).collect::<Vec<_>>();
    ensure!(files.is_empty(), "lies here already, from no package of ours: {files:?}");
    let brought = others_that_come(places, &packages.deb)?;
    turn.mark(true)?;
    let installed = Installed { places, brought, is_removed: false };
    install(places, &packages.deb)?;
    let outcome = use_it(places, &entries, drive);
    let removed = installed.remove().and_then(|()| gone(places, &entries, &before));
    // A package that is still there keeps the mark, for the next run.
    if !is_installed(places) {
        turn.mark(false)?;
    }
    let owner = outcome?;
    removed?;
    owner.is_untouched()?;
    Ok("installed, driven, removed without a trace".to_owned())
}

/// What is done between installing and removing.
fn use_it(
    places: &Places,
    entries: &[Entry],
    drive: impl FnOnce(&Path) -> Result<()>,
) -> Result<Owner> {
    let missing: Vec<_> = entries.iter().filter(|entry| !entry.path.exists()).collect();
    ensure!(missing.is_empty(), "not there after installing: {missing:?}");
    let owner = Owner::who_used_it(places)?;
    drive(Path::new("/"))?;
    Ok(owner)
}

/// The package on this machine; removed on drop at the latest.
struct Installed<'a> {
    places: &'a Places,
    /// Packages that came with it.
    brought: Vec<String>,
    is_removed: bool,
}

impl Installed<'_> {
    fn remove(mut self) -> Result<()> {
        self.is_removed = true;
        self.purge()
    }

    fn purge(&self) -> Result<()> {
        packages::apt(self.places)
            .args(["-y", "-o", packages::APT_LOCK_SECONDS, "purge", NAME])
            .args(&self.brought)
            .run()
    }
}

impl Drop for Installed<'_> {
    fn drop(&mut self) {
        if self.is_removed || !is_installed(self.places) {
            return;
        }
        if let Err(error) = self.purge() {
            say::loud(&format!("{NAME} is still installed on this machine: {error:#}"));
        }
    }
}

fn install(places: &Places, deb: &Path) -> Result<()> {
    let also = ALSO
        .iter()
        .flat_map(|path| ["-o".to_owned(), format!("Dpkg::Options::=--path-include={path}")]);
    packages::apt(places)
        .args(["-y", "--no-install-recommends", "-o", packages::APT_LOCK_SECONDS])
        .args(packages::private_archives(places)?)
        .args(also)
        .args(["install".as_ref(), deb.as_os_str()])
        .run()
}

/// Packages that apt would install with it. Where apt knows too little to say, its lists are fetched.
fn others_that_come(places: &Places, deb: &Path) -> Result<Vec<String>> {
    let ask = || {
        packages::apt(places)
            .args(["--simulate", "--no-install-recommends", "-o", packages::APT_LOCK_SECONDS])
            .args(["install".as_ref(), deb.as_os_str()])
            .output()
    };
    let said = match ask() {
        Ok(said) => said,
        Err(_) => {
            packages::apt(places).args(["-o", packages::APT_LOCK_SECONDS, "update"]).run()?;
            ask()?
        }
    };
    Ok(others(&said))
}

/// `Inst libfoo (1.2 Debian:12 [amd64])`.
fn others(said: &str) -> Vec<String> {
    let names = said.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
    names.filter(|name| *name != NAME).map(str::to_owned).collect()
}

fn is_installed(places: &Places) -> bool {
    // Anything but "never heard of" or "not here" counts: half installed is installed.
    Program::new("dpkg-query", &places.root)
        .args(["--show", "--showformat=${db:Status-Status}", NAME])
        .output_quietly()
        .is_some_and(|status| !matches!(status.trim(), "" | "not-installed"))
}

fn present(entries: &[Entry]) -> Vec<&Path> {
    entries.iter().map(|entry| entry.path.as_path()).filter(|path| path.exists()).collect()
}

/// Nothing of the package is there but what was there before.
fn gone(places: &Places, entries: &[Entry], before: &[&Path]) -> Result<()> {
    ensure!(!is_installed(places), "the system still knows {NAME} after removing it");
    let left: Vec<_> = present(entries).into_iter().filter(|path| !before.contains(path)).collect();
    ensure!(left.is_empty(), "left over after removing the package: {left:?}");
    Ok(())
}

/// A user who used the program, and everything that then lay in their home.
struct Owner {
    home: PathBuf,
    files: BTreeMap<PathBuf, u64>,
}

impl Owner {
    /// Lets a user with a fresh home use the installed program as it comes: no option names a folder.
    fn who_used_it(places: &Places) -> Result<Self> {
        let home = places.made("packages/owner")?;
        std::fs::remove_dir_all(&home)?;
        std::fs::create_dir(&home)?;
        let said = Program::new("/usr/bin/nook", &home)
            .args(["generate", "--alone", "--max-tokens", "4", "--prompt", "Once upon a time"])
            .env("HOME", &home)
            .env("XDG_DATA_HOME", home.join(".local/share"))
            .env("XDG_CONFIG_HOME", home.join(".config"))
            .without("INGLENOOK_HOME")
            .env("INGLENOOK_KEYRING", "off")
            .within(ANSWER_LIMIT)
            .output()?;
        ensure!(!said.trim().is_empty(), "the model said nothing");
        let files = files_below(&home)?;
        ensure!(!files.is_empty(), "using the program left nothing in {}", home.display());
        Ok(Self { home, files })
    }

    fn is_untouched(&self) -> Result<()> {
        let now = files_below(&self.home)?;
        ensure!(now == self.files, "removing the package changed files in {}", self.home.display());
        Ok(())
    }
}

/// All files below `folder`, each with a hash of what it holds.
fn files_below(folder: &Path) -> Result<BTreeMap<PathBuf, u64>> {
    let mut files = BTreeMap::new();
    let mut ahead = vec![folder.to_owned()];
    while let Some(folder) = ahead.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let about = path.symlink_metadata()?;
            if about.is_dir() {
                ahead.push(path);
            } else if about.is_file() {
                let mut hasher = DefaultHasher::new();
                std::fs::read(&path)?.hash(&mut hasher);
                files.insert(path, hasher.finish());
            }
        }
    }
    Ok(files)
}

/// The right to have the package on this machine; given up when it is dropped.
struct Turn {
    file: File,
}

impl Turn {
    /// Waits for other runs.
    fn take() -> Result<Self> {
        let path = std::env::temp_dir().join("inglenook-package-test.lock");
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let end = outside::now() + TURN_LIMIT;
        let mut is_told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { file }),
                Err(TryLockError::Error(error)) => return Err(error).context("cannot lock"),
                Err(TryLockError::WouldBlock) if outside::now() > end => {
                    bail!("another run has had the package for {} s", TURN_LIMIT.as_secs())
                }
                Err(TryLockError::WouldBlock) if !is_told => {
                    say::line("another run on this machine tests the package now; waiting for it");
                    is_told = true;
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
            }
        }
    }

    fn is_marked(&mut self) -> Result<bool> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        Ok(text == MARK)
    }

    fn mark(&mut self, is_installed: bool) -> Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        if is_installed {
            self.file.write_all(MARK.as_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_come_with_ours_are_known_beforehand() {
        let said = "Reading package lists...\nInst libfoo1 (1.2 Debian:12 [amd64])\n\
                    Inst inglenook (0.1.0 local-deb [amd64])\nConf libfoo1 (1.2)\n";
        assert_eq!(others(said), ["libfoo1"]);
    }

    #[test]
    fn a_changed_file_of_the_user_is_noticed() {
        let places = Places::find().unwrap();
        let home = places.made("packages/test-owner").unwrap();
        std::fs::create_dir_all(home.join("deep")).unwrap();
        std::fs::write(home.join("deep/chats"), "one").unwrap();
        let owner = Owner { files: files_below(&home).unwrap(), home };
        owner.is_untouched().unwrap();
        std::fs::write(owner.home.join("deep/chats"), "two").unwrap();
        assert!(owner.is_untouched().is_err());
        std::fs::remove_dir_all(&owner.home).unwrap();
    }
}
