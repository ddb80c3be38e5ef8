//! Positional reads from one open file, without a shared cursor, and the check that it is still the
//! file that was opened.
//!
//! Everything that is read of a model passes through [`Reader::read`]. So that is where a partial
//! file's absent tensors are refused: nothing can take its holes for weights.

mod partial;

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use nook_base::FileStamp;

use crate::error::Fault;
use crate::gguf::Header;
use crate::presence::Presence;

pub(crate) use partial::Partial;

/// An open model file.
#[derive(Debug)]
pub(crate) struct Reader {
    file: File,
    length: u64,
    modified: Option<SystemTime>,
    /// What it must be as long as anything is read, where all of it was digested before.
    noted: Option<FileStamp>,
    /// What may be read, where the file has a record of present tensors.
    partial: Option<Partial>,
}

impl Reader {
    /// Opens the file at `path`, with its record of present tensors if it has one, and reads the
    /// header.
    ///
    /// With `noted` the open file must have this stamp now and behind each read.
    pub(crate) fn open(path: &Path, noted: Option<FileStamp>) -> Result<(Self, Header), Fault> {
        let before = Presence::load(path)?;
        let mut reader = Self::open_file(path)?;
        // The record stands from before the file is made until after it is removed. So the same
        // record before and after means that it is of the file that was opened between.
        let record = match (before, Presence::load(path)?) {
            (None, None) => None,
            (Some(before), Some(after)) if before.is_same_record(&after) => Some(after),
            _ => return Err(Fault::Changed),
        };
        reader.noted = noted;
        // Before the header is understood: what is wrong with another file is no news.
        reader.check_noted()?;
        let header = reader.header()?;
        let partial = record.map(|it| Partial::new(path, it, reader.length, &header));
        reader.partial = partial.transpose()?;
        Ok((reader, header))
    }

    /// The header, as it is in the file now. Refuses a file that has another stamp than it must
    /// have.
    pub(crate) fn header(&self) -> Result<Header, Fault> {
        let header = Header::read(FromStart { file: &self.file, at: 0 }, self.length)?;
        self.check_noted()?;
        Ok(header)
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
        let (length, modified) = (facts.len(), facts.modified().ok());
        Ok(Self { file, length, modified, noted: None, partial: None })
    }

    /// What the file must be as long as anything is read.
    pub(crate) fn noted(&self) -> Option<FileStamp> {
        self.noted
    }

    /// Length of the file when it was opened.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// What may be read, where the file has a record of present tensors.
    pub(crate) fn partial(&self) -> Option<&Partial> {
        self.partial.as_ref()
    }

    /// Fails when the file has another length or another time of change than when it was opened, or
    /// another stamp than it must have.
    pub(crate) fn check_unchanged(&self) -> Result<(), Fault> {
        self.check_noted()?;
        let facts = self.file.metadata().map_err(Fault::read("checking it"))?;
        // Other tensors may arrive in a partial file at any time, and each moves its time of
        // change. Present tensors are never written again, so only the length can tell that it is
        // not the file that was opened. It cannot be another inode: one file stays open here,
        // whatever replaces it at its path.
        let is_same_time = self.partial.is_some() || facts.modified().ok() == self.modified;
        if facts.len() == self.length && is_same_time { Ok(()) } else { Err(Fault::Changed) }
    }

    fn check_noted(&self) -> Result<(), Fault> {
        let Some(noted) = self.noted else { return Ok(()) };
        let facts = self.file.metadata().map_err(Fault::read("checking it"))?;
        if FileStamp::of(&facts) == noted { Ok(()) } else { Err(Fault::Changed) }
    }

    /// Fills `bytes` from byte `at` on. Refuses a range that touches an absent tensor.
    pub(crate) fn read(&self, at: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        if let Some(partial) = &self.partial {
            partial.check(at, bytes.len() as u64)?;
        }
        read_exact_at(&self.file, at, bytes).map_err(|error| match error.kind() {
            // The header was checked against the length, so the file was cut since.
            io::ErrorKind::UnexpectedEof => Fault::Changed,
            kind => Fault::Read { doing: "reading weights", kind },
        })
    }
}

/// Reads a file from its beginning, without the cursor that all who have it open share.
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl io::Read for FromStart<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = read_at(self.file, bytes, self.at)?;
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}

fn read_exact_at(file: &File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match read_at(file, &mut bytes[done..], at + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_at(file, bytes, at);
    #[cfg(windows)]
    return std::os::windows::fs::FileExt::seek_read(file, bytes, at);
}
