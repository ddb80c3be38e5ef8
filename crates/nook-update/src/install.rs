//! The portable package: a downloaded archive becomes the installed version, or nothing changes.
//!
//! In order: unpack beside the installed files, ask the new program for its version, let the
//! package's own script lay its files out as they are to be installed, swap, and ask the installed
//! program once more. What fails before the swap removes what it made; what fails behind it swaps
//! back. The version before stays until the next update, for [`Portable::back`]; the new one is on
//! trial until it has come up (`on_trial`).

mod on_trial;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nook_base::clock;
use semver::Version;

use crate::limits::{SCRIPT_LIMIT, VERSION_LIMIT};
use crate::program::run;
use crate::swap::{Swap, SwapError, Way, remove_folder};
use crate::unpack::{Most, UnpackError, unpack};

/// Everything of an update that is no installed file, below the prefix and so on its disk.
const FOLDER: &str = "lib/inglenook-update";
const UNPACKED: &str = "unpacked";
const LOCK: &str = "lock";
const SCRIPT: &str = "install.sh";

/// Longest wait for another process that moves files, and how often that is looked at. It checks a
/// new version meanwhile, which is bounded too; nobody is kept longer from starting.
const ALONE_LIMIT: Duration = Duration::from_secs(10);
const ALONE_LOOK: Duration = Duration::from_millis(50);

/// A new version that did not get into place. The old one is there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// The archive is not taken.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// The new program does not run here, or is another one.
    #[error(
        "the new program does not answer as version {version}: {reason}. The version that was here stays"
    )]
    Program {
        /// The version that it should be.
        version: String,
        /// What came instead.
        reason: String,
    },
    /// The package's script failed.
    #[error("the package's script did not work ({said}). The version that was here stays")]
    Script {
        /// What it said.
        said: String,
    },
    /// Files could not be swapped.
    #[error("{0}. The version that was here is put back")]
    Swap(SwapError),
    /// Neither could they be swapped back.
    #[error(
        "{error}, and the version that was here could not be put back: {back}. Run `nook update --undo`, or install the package by hand"
    )]
    Stuck {
        /// What went wrong first.
        error: String,
        /// And then.
        back: SwapError,
    },
    /// The system refuses.
    #[error("{}: {reason}. The version that was here stays", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// Another process is at work on the same installed package.
    #[error(
        "another process puts a version in place, or takes one back; try again when it is done"
    )]
    Busy,
    /// There is nothing to go back to.
    #[error("there is no earlier version to go back to")]
    NothingBefore,
}

// Not as a source: its words stand in the sentence already, and would be said twice.
impl From<SwapError> for InstallError {
    fn from(error: SwapError) -> Self {
        Self::Swap(error)
    }
}

/// How far an update is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapStage {
    /// There was none, or it was taken back.
    Nothing,
    /// The new version is ready, and not in place.
    Prepared,
    /// It is in place.
    Done,
}

/// A portable package that is installed. Everything waits for the disk.
#[derive(Debug)]
pub struct Portable {
    prefix: PathBuf,
    folder: PathBuf,
    most: Most,
    patience: Duration,
}

impl Portable {
    /// The one below `prefix`, the folder with `bin` and `share`.
    #[must_use]
    pub fn at(prefix: &Path) -> Self {
        let folder = prefix.join(FOLDER);
        Self { prefix: prefix.to_owned(), folder, most: Most::USUAL, patience: VERSION_LIMIT }
    }

    /// The same, waiting no longer than this for a program to say its version, and for another
    /// process.
    #[must_use]
    pub fn waiting(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The program that is installed, whichever version it is.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.prefix.join("bin").join("nook")
    }

    /// Ends a swap that something stopped: the version that was there before comes back. Returns
    /// its version if there was something to do. A version that lies ready is left alone: whoever
    /// prepared it goes on.
    pub fn recover(&self) -> Result<Option<String>, InstallError> {
        // Without it nothing was ever begun, and no folder is made for that.
        if self.swap().journal()?.is_none() {
            return Ok(None);
        }
        let _alone = self.alone()?;
        self.end_swap()
    }

    /// The same, and forgets a version that lies ready: it is not to be put in place any more.
    pub fn abandon(&self) -> Result<(), InstallError> {
        let _alone = self.alone()?;
        self.end_swap()?;
        match self.swap().journal()? {
            Some(journal) if !journal.done => Ok(self.swap().forget()?),
            _ => Ok(()),
        }
    }

    fn end_swap(&self) -> Result<Option<String>, InstallError> {
        let swap = self.swap();
        match swap.journal()? {
            Some(journal) if journal.begun && !journal.done => {
                let from = journal.from.clone();
                swap.bring(Way::Back, journal)?;
                Ok(Some(from))
            }
            _ => Ok(None),
        }
    }

    /// The right to move files, held by one process at a time: of two homes that share the
    /// installed package, each may have a node that looks after it.
    fn alone(&self) -> Result<File, InstallError> {
        fs::create_dir_all(&self.folder).map_err(failed(&self.folder))?;
        let path = self.folder.join(LOCK);
        let opened = File::options().write(true).create(true).truncate(false).open(&path);
        let lock = opened.map_err(failed(&path))?;
        let (began, limit) = (clock::now(), ALONE_LIMIT.min(self.patience));
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) if began.elapsed() > limit => {
                    return Err(InstallError::Busy);
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(ALONE_LOOK),
                Err(TryLockError::Error(error)) => return Err(failed(&path)(error)),
            }
        }
    }

    /// Puts the version in `archive` in place of `running`, at once.
    pub fn install(
        &self,
        archive: &Path,
        running: &Version,
        version: &Version,
    ) -> Result<(), InstallError> {
        self.prepare(archive, running, version)?;
        self.finish().map(|_| ())
    }

    /// Everything but the swap: unpacks, asks the new program, lays its files out and notes the
    /// swap. No installed file is touched.
    pub fn prepare(
        &self,
        archive: &Path,
        running: &Version,
        version: &Version,
    ) -> Result<(), InstallError> {
        let _alone = self.alone()?;
        self.end_swap()?;
        let swap = self.swap();
        // What a version left that is two updates old.
        swap.forget()?;
        let staged = self.stage(archive, version);
        let unpacked = self.folder.join(UNPACKED);
        remove_folder(&unpacked).map_err(failed(&unpacked))?;
        let noted = staged.and_then(|()| {
            Ok(swap.begin(&running.to_string(), &version.to_string()).map(|_| ())?)
        });
        if noted.is_err() {
            swap.forget()?;
        }
        noted
    }

    /// Swaps what was prepared; the version that is in place then, if something was. The program
    /// must say its new version, or everything is as before.
    pub fn finish(&self) -> Result<Option<String>, InstallError> {
        let _alone = self.alone()?;
        let swap = self.swap();
        let Some(journal) = swap.journal()?.filter(|journal| !journal.done) else {
            return Ok(None);
        };
        let to = journal.to.clone();
        let moved = swap.bring(Way::Forward, journal).map_err(InstallError::from);
        let checked = moved.and_then(|()| says_version(&self.program(), &to, self.patience));
        let Err(error) = checked else { return Ok(Some(to)) };
        match self.bring_back() {
            Ok(_) => Err(error),
            Err(InstallError::Swap(back)) => {
                Err(InstallError::Stuck { error: error.to_string(), back })
            }
            Err(other) => Err(other),
        }
    }

    /// How far the last update is.
    pub fn stage_of_swap(&self) -> Result<SwapStage, InstallError> {
        Ok(match self.swap().journal()? {
            None => SwapStage::Nothing,
            Some(journal) if journal.done => SwapStage::Done,
            Some(_) => SwapStage::Prepared,
        })
    }

    /// Puts the version back that was there before the last update; its version.
    pub fn back(&self) -> Result<String, InstallError> {
        let _alone = self.alone()?;
        self.bring_back()?.ok_or(InstallError::NothingBefore)
    }

    fn bring_back(&self) -> Result<Option<String>, InstallError> {
        let swap = self.swap();
        let Some(journal) = swap.journal()? else { return Ok(None) };
        let from = journal.from.clone();
        swap.bring(Way::Back, journal)?;
        Ok(Some(from))
    }

    /// Lays the files of the new version out beside the installed ones.
    fn stage(&self, archive: &Path, version: &Version) -> Result<(), InstallError> {
        let unpacked = self.folder.join(UNPACKED);
        remove_folder(&unpacked).map_err(failed(&unpacked))?;
        let file = File::open(archive).map_err(failed(archive))?;
        let package = unpack(io::BufReader::new(file), &unpacked, self.most)?;
        says_version(&package.join("bin").join("nook"), &version.to_string(), self.patience)?;
        let other = self.swap().other();
        let script = package.join(SCRIPT);
        let words =
            [script.as_path(), Path::new("--prefix"), &self.prefix, Path::new("--stage"), &other];
        let ran = run(Path::new("sh"), &words, SCRIPT_LIMIT).map_err(failed(&script))?;
        if !ran.status.success() {
            return Err(InstallError::Script { said: shortened(&ran.said) });
        }
        // Not a link, and there: what is swapped in must be what was looked at.
        let nook = other.join("bin").join("nook");
        let found = fs::symlink_metadata(&nook).map_err(failed(&nook))?;
        if !found.is_file() {
            return Err(InstallError::Script { said: "it put no program in place".to_owned() });
        }
        Ok(())
    }

    fn swap(&self) -> Swap {
        Swap::at(&self.prefix, &self.folder)
    }
}

/// Whether a program runs here and is what it should be.
fn says_version(program: &Path, version: &str, patience: Duration) -> Result<(), InstallError> {
    let wrong = |reason: String| InstallError::Program { version: version.to_string(), reason };
    let ran = run(program, &[Path::new("--version")], patience);
    let ran = ran.map_err(|error| wrong(error.to_string()))?;
    if !ran.status.success() {
        return Err(wrong(format!("it ended with {}: {}", ran.status, shortened(&ran.said))));
    }
    match ran.said.trim() == format!("nook {version}") {
        true => Ok(()),
        false => Err(wrong(format!("it says `{}`", shortened(&ran.said)))),
    }
}

/// What a program said, for a sentence.
fn shortened(said: &str) -> String {
    said.trim().chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    move |error| InstallError::File { path: path.to_owned(), reason: error.to_string() }
}
