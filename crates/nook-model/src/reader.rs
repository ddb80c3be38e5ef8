//! Positional reads from one open file, without a shared cursor, and the check that it is still the
//! file that was opened.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use crate::error::Fault;
use crate::gguf::Header;

/// An open model file.
#[derive(Debug)]
pub(crate) struct Reader {
    file: File,
    length: u64,
    modified: Option<SystemTime>,
}

impl Reader {
    /// Opens the file at `path` and reads its header.
    pub(crate) fn open(path: &Path) -> Result<(Self, Header), Fault> {
        let reader = Self::open_file(path)?;
        let header = Header::read(&reader.file, reader.length)?;
        Ok((reader, header))
    }

    fn open_file(path: &Path) -> Result<Self, Fault> {
        // Asked before opening too: opening a pipe would wait for a writer.
        if !path.metadata().map_err(Fault::read("opening it"))?.is_file() {
            return Err(Fault::NotGguf);
        }
        let file = File::open(path).map_err(Fault::read("opening it"))?;
        let facts = file.metadata().map_err(Fault::read("opening it"))?;
        if !facts.is_file() {
            return Err(Fault::NotGguf);
        }
        Ok(Self { length: facts.len(), modified: facts.modified().ok(), file })
    }

    /// Length of the file when it was opened.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Fails when the file has another length or another time of change than when it was opened.
    pub(crate) fn check_unchanged(&self) -> Result<(), Fault> {
        let facts = self.file.metadata().map_err(Fault::read("checking it"))?;
        if facts.len() == self.length && facts.modified().ok() == self.modified {
            Ok(())
        } else {
            Err(Fault::Changed)
        }
    }

    /// Fills `bytes` from byte `at` on.
    pub(crate) fn read(&self, at: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        read_exact_at(&self.file, at, bytes).map_err(|error| match error.kind() {
            // The header was checked against the length, so the file was cut since.
            io::ErrorKind::UnexpectedEof => Fault::Changed,
            kind => Fault::Read { doing: "reading weights", kind },
        })
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(windows)]
fn read_exact_at(file: &File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    let mut done = 0;
    while done < bytes.len() {
        match file.seek_read(&mut bytes[done..], at + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
