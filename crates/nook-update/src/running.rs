//! The program that runs and may be replaced while it does.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
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

    /// Between two nodes: swaps what an update has prepared, and becomes the program that lies
    /// there then, in the same process. Returns only if that cannot be done. `tell` is told in a
    /// sentence if the swap did not work; then the program becomes what it was.
    #[cfg(unix)]
    pub fn start_anew(&self, tell: impl FnOnce(String)) -> io::Error {
        use std::os::unix::process::CommandExt as _;
        let portable = self.portable();
        if let Some(Err(error)) = portable.as_ref().map(Portable::finish) {
            tell(format!("the update did not work: {error}"));
        }
        let become_it = || Command::new(&self.file).args(&self.words).exec();
        let error = become_it();
        // The file is none that the system can start: the one before was.
        match portable.map(|portable| portable.back()) {
            Some(Ok(_)) => become_it(),
            _ => error,
        }
    }
}
