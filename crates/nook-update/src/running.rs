//! The program that runs and may be replaced while it does.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Command;

use crate::install::{InstallError, Portable};
use crate::installed::Installed;

/// The program that runs, by its file when it started: what lies there later may be a newer one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningProgram {
    file: PathBuf,
    words: Vec<OsString>,
}

impl RunningProgram {
    /// This process. To be asked for before anything can have been replaced.
    pub fn this() -> io::Result<Self> {
        Ok(Self { file: std::env::current_exe()?, words: std::env::args_os().skip(1).collect() })
    }

    /// The same with other words on the command line.
    #[must_use]
    pub fn with_words(self, words: impl IntoIterator<Item = OsString>) -> Self {
        Self { words: words.into_iter().collect(), ..self }
    }

    /// Its file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Its words on the command line.
    #[must_use]
    pub fn words(&self) -> &[OsString] {
        &self.words
    }

    /// The installed package that it belongs to, if it is one that it looks after itself.
    #[must_use]
    pub fn portable(&self) -> Option<Portable> {
        match Installed::of(&self.file) {
            Installed::Portable { prefix } => Some(Portable::at(&prefix)),
            Installed::Managed(_) | Installed::Built => None,
        }
    }

    /// Takes back a swap that was stopped in the middle, before anything else is started; the
    /// version that is back, if there was one to take back. Waits for the disk.
    pub fn recover(&self) -> Result<Option<String>, InstallError> {
        self.portable().map_or(Ok(None), |portable| portable.recover())
    }

    /// This start is counted where the version is on trial; the version that is back in its place, if
    /// it was started too often without coming up. To be asked for before anything that may fail, and
    /// to be followed by [`RunningProgram::become_what_lies_there`] then. Waits for the disk.
    pub fn starts(&self) -> Result<Option<String>, InstallError> {
        self.portable().map_or(Ok(None), |portable| portable.starts())
    }

    /// All of it has come up. Waits for the disk.
    pub fn came_up(&self) -> Result<(), InstallError> {
        self.portable().map_or(Ok(()), |portable| portable.came_up())
    }

    /// It ends before it has come up, and is not to blame. Waits for the disk.
    pub fn left(&self) -> Result<(), InstallError> {
        self.portable().map_or(Ok(()), |portable| portable.left())
    }

    /// It cannot do what it is there for; the version that is back in its place, if it was on trial.
    /// Waits for the disk.
    pub fn gives_up(&self) -> Result<Option<String>, InstallError> {
        self.portable().map_or(Ok(None), |portable| portable.gives_up())
    }

    /// Whether it has not come up yet since it was put in place.
    #[must_use]
    pub fn is_on_trial(&self) -> bool {
        self.portable().is_some_and(|portable| portable.is_on_trial())
    }

    /// Becomes the program that lies there now, in the same process and with the same words. Returns
    /// only if that cannot be done.
    #[cfg(unix)]
    pub fn become_what_lies_there(&self) -> io::Error {
        use std::os::unix::process::CommandExt as _;
        Command::new(&self.file).args(&self.words).exec()
    }

    /// Between two nodes: swaps what an update has prepared, and becomes the program that lies
    /// there then, in the same process. Returns only if that cannot be done. `tell` is told in a
    /// sentence if the swap did not work; then the program becomes what it was.
    #[cfg(unix)]
    pub fn start_anew(&self, tell: impl FnOnce(String)) -> io::Error {
        let portable = self.portable();
        if let Some(Err(error)) = portable.as_ref().map(Portable::finish) {
            tell(format!("the update did not work: {error}"));
        }
        let error = self.become_what_lies_there();
        // The file is none that the system can start: the one before was.
        match portable.map(|portable| portable.take_back()) {
            Some(Ok(_)) => self.become_what_lies_there(),
            _ => error,
        }
    }
}
