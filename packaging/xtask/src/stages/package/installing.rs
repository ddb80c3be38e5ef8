//! Installs the .deb on this machine, has it driven, removes it, and proves that nothing of it is
//! left and that what a user has stays.
//!
//! The machine is left as it was, also when something fails: [`Marked`] removes on drop, and a run
//! that was killed in between is cleaned up after by the next one, which finds in the lock file
//! what was put here. Several runs on one machine take turns.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::bundle::Packages;
use crate::bundle::contents::fresh;
use crate::bundle::first_words::{self, Times, timed};
use crate::bundle::look::{self, Entry};
use crate::places::Places;
use crate::process::Program;
use crate::setup::packages;
use crate::stages::package::earlier::{self, Running};
use crate::{outside, say};

/// What the package is called.
const NAME: &str = "inglenook";
/// Another run on this machine may take so long; past it this one fails.
const TURN_LIMIT: Duration = Duration::from_secs(10 * 60);
const LOOK: Duration = Duration::from_millis(500);
/// First line of the lock file from before installing until after removing; below it stand the
/// names of the packages that come along.
const MARK: &str = "installed by `cargo xtask test`";
/// Longest lock file that is read, in bytes. What is longer was not written by these tests, and is
/// refused.
const MARK_BYTES_MAX: u64 = 1 << 20;
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
    if let Some(brought) = turn.marked()? {
        say::loud("an earlier run was ended before it could remove the package; it is removed now");
        purge(places, &brought)?;
        turn.mark(None)?;
    }
    ensure!(
        !is_installed(places, NAME),
        "a package called {NAME} is installed on this machine, and not by these tests: it is left alone"
    );
    let before = present(&entries);
    let files = before.iter().filter(|path| !path.is_dir()).collect::<Vec<_>>();
    ensure!(files.is_empty(), "lies here already, from no package of ours: {files:?}");
    let brought = others_that_come(places, &packages.deb)?;
    let installed = Marked::put(&mut turn, &brought, || purge(places, &brought))?;
    let outcome = replaces_an_earlier_one(places, &packages.deb).and_then(|installing| {
        let (owner, first_words) = use_it(places, &entries, drive)?;
        Ok((owner, Times { installing, first_words }))
    });
    let removed = installed.remove().and_then(|()| gone(&entries, &before));
    if let (Err(_), Err(error)) = (&outcome, &removed) {
        say::loud(&format!("what was installed could not be removed either: {error:#}"));
    }
    let (owner, times) = outcome?;
    removed?;
    owner.is_untouched()?;
    Ok(format!(
        "{} in place of an earlier one under a node, driven, removed without a trace",
        times.say(".deb")
    ))
}

/// Installs an earlier package, and this one over it while a node runs; how long this one took.
fn replaces_an_earlier_one(places: &Places, deb: &Path) -> Result<Duration> {
    install(places, &earlier::make(places, deb)?)?;
    let running = Running::start(places)?;
    let installing = timed(|| install(places, deb))?;
    running.goes_on()?;
    Ok(installing)
}

/// What is done between installing and removing, and how long the first words took.
fn use_it(
    places: &Places,
    entries: &[Entry],
    drive: impl FnOnce(&Path) -> Result<()>,
) -> Result<(Owner, Duration)> {
    let missing: Vec<_> = entries.iter().filter(|entry| !entry.path.exists()).collect();
    ensure!(missing.is_empty(), "not there after installing: {missing:?}");
    let used = Owner::who_used_it(places)?;
    drive(Path::new("/"))?;
    Ok(used)
}

/// What may lie on this machine because of this run, and is marked in the lock file. Removed on
/// drop at the latest; what cannot be removed keeps its mark, for the next run.
struct Marked<'a, Remove: FnMut() -> Result<()>> {
    turn: &'a mut Turn,
    remove: Remove,
    is_over: bool,
}

impl<'a, Remove: FnMut() -> Result<()>> Marked<'a, Remove> {
    /// Marks first, so that a run that is killed while it installs is cleaned up after too.
    fn put(turn: &'a mut Turn, brought: &[String], remove: Remove) -> Result<Self> {
        turn.mark(Some(brought))?;
        Ok(Self { turn, remove, is_over: false })
    }

    fn remove(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.is_over = true;
        (self.remove)()?;
        self.turn.mark(None)?;
        Ok(())
    }
}

impl<Remove: FnMut() -> Result<()>> Drop for Marked<'_, Remove> {
    fn drop(&mut self) {
        if !self.is_over
            && let Err(error) = self.end()
        {
            say::loud(&format!("{NAME} may still be installed on this machine: {error:#}"));
        }
    }
}

/// Removes the package and those that came with it, as far as they are there.
fn purge(places: &Places, brought: &[String]) -> Result<()> {
    let all = std::iter::once(NAME).chain(brought.iter().map(String::as_str));
    let there: Vec<_> = all.filter(|name| is_installed(places, name)).collect();
    if !there.is_empty() {
        packages::apt(places)
            .args(["-y", "-o", packages::APT_LOCK_SECONDS, "purge"])
            .args(there)
            .run()?;
    }
    ensure!(!is_installed(places, NAME), "the system still knows {NAME} after removing it");
    Ok(())
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

/// Packages that apt would install with it. Where apt knows too little to say, its lists are
/// fetched.
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

/// `Inst libfoo (1.2 Debian:12 [amd64])`. What is there already and is only brought up to date has
/// its old version between: `Inst libbar [1.1] (1.2 Debian:12 [amd64])`. That one stays.
fn others(said: &str) -> Vec<String> {
    let new = said.lines().filter_map(|line| {
        let (name, version) = line.strip_prefix("Inst ")?.split_once(' ')?;
        (name != NAME && !version.starts_with('[')).then(|| name.to_owned())
    });
    new.collect()
}

fn is_installed(places: &Places, name: &str) -> bool {
    // Anything but "never heard of" or "not here" counts: half installed is installed.
    Program::new("dpkg-query", &places.root)
        .args(["--show", "--showformat=${db:Status-Status}", name])
        .output_quietly()
        .is_some_and(|status| !matches!(status.trim(), "" | "not-installed"))
}

fn present(entries: &[Entry]) -> Vec<&Path> {
    entries.iter().map(|entry| entry.path.as_path()).filter(|path| path.exists()).collect()
}

/// Nothing of the package is there but what was there before.
fn gone(entries: &[Entry], before: &[&Path]) -> Result<()> {
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
    /// Lets a user with a fresh home use the installed program.
    fn who_used_it(places: &Places) -> Result<(Self, Duration)> {
        let home = fresh(&places.made("packages/owner")?)?.to_owned();
        let waited = first_words::wait(Path::new("/usr/bin/nook"), &home)?;
        let files = files_below(&home)?;
        ensure!(!files.is_empty(), "using the program left nothing in {}", home.display());
        Ok((Self { home, files }, waited))
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
        Self::take_at(&std::env::temp_dir().join("inglenook-package-test.lock"))
    }

    fn take_at(path: &Path) -> Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
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

    /// What an earlier run brought and could not remove; absent where none left anything.
    fn marked(&mut self) -> Result<Option<Vec<String>>> {
        let mut text = String::new();
        self.file.rewind()?;
        (&self.file).take(MARK_BYTES_MAX + 1).read_to_string(&mut text)?;
        ensure!(
            text.len() as u64 <= MARK_BYTES_MAX,
            "the lock file is too long: look, and delete it"
        );
        let mut lines = text.lines();
        match lines.next() {
            None => return Ok(None),
            Some(first) => {
                ensure!(first == MARK, "the lock file holds {first:?}: look, and delete it")
            }
        }
        let names: Vec<_> = lines.map(str::to_owned).collect();
        // They become words of a command that may do anything here.
        let odd = names.iter().find(|name| !is_package_name(name));
        ensure!(odd.is_none(), "the lock file names a package {odd:?}: look, and delete it");
        Ok(Some(names))
    }

    /// Remembers what is brought, or that nothing is left.
    fn mark(&mut self, brought: Option<&[String]>) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        if let Some(brought) = brought {
            let names = brought.iter().map(|name| format!("{name}\n")).collect::<String>();
            self.file.write_all(format!("{MARK}\n{names}").as_bytes())?;
        }
        Ok(())
    }
}

/// Debian Policy, 5.6.7, with an architecture behind it where apt names one.
fn is_package_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.starts_with(is_plain) && name.chars().all(|c| is_plain(c) || "+-.:".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_come_with_ours_are_known_beforehand() {
        let said = "Reading package lists...\nInst libfoo1 (1.2 Debian:12 [amd64])\n\
                    Inst libbar2 [1.1] (1.2 Debian:12 [amd64]) []\n\
                    Inst libfoo1:i386 (1.2 Debian:12 [i386])\n\
                    Inst inglenook (0.1.0 local-deb [amd64])\nConf libfoo1 (1.2)\n";
        assert_eq!(others(said), ["libfoo1", "libfoo1:i386"], "what was there before is no guest");
    }

    /// A lock file of a test's own; the next run opens it again.
    fn lock_file(test: &str) -> PathBuf {
        let path = Places::find().unwrap().made("packages").unwrap().join(test);
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn a_run_that_could_not_install_leaves_no_mark() {
        let path = lock_file("test-mark-1.lock");
        let brought = ["libfoo1".to_owned()];
        let mut turn = Turn::take_at(&path).unwrap();
        assert_eq!(turn.marked().unwrap(), None);
        let installed = Marked::put(&mut turn, &brought, || Ok(())).unwrap();
        assert_eq!(installed.turn.marked().unwrap().as_deref(), Some(&brought[..]));
        // What a `?` does between installing and removing.
        drop(installed);
        assert_eq!(turn.marked().unwrap(), None);
    }

    #[test]
    fn the_next_run_knows_what_a_killed_one_brought() {
        let path = lock_file("test-mark-2.lock");
        let brought = ["libfoo1".to_owned(), "libfoo1:i386".to_owned()];
        let mut turn = Turn::take_at(&path).unwrap();
        let stuck = Marked::put(&mut turn, &brought, || bail!("apt is locked")).unwrap();
        assert!(stuck.remove().is_err());
        drop(turn);
        let mut next = Turn::take_at(&path).unwrap();
        assert_eq!(next.marked().unwrap().as_deref(), Some(&brought[..]));
        next.mark(None).unwrap();
        assert_eq!(next.marked().unwrap(), None);
    }

    #[test]
    fn what_is_no_package_name_becomes_no_word_of_a_command() {
        let path = lock_file("test-mark-3.lock");
        for odd in ["-oAPT::Get::Force=1", "../x", "a b", "", "Foo"] {
            std::fs::write(&path, format!("{MARK}\nlibfoo1\n{odd}\n")).unwrap();
            assert!(Turn::take_at(&path).unwrap().marked().is_err(), "{odd:?}");
        }
        std::fs::write(&path, "something else\n").unwrap();
        assert!(Turn::take_at(&path).unwrap().marked().is_err());
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
