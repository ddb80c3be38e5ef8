//! The log of an app that the desktop started: a file beside the settings, as nobody reads its
//! terminal.
//!
//! It holds the same lines as the standard error, but of a panic its place alone, so nothing of
//! what people write (I-3), and is bounded: a full file becomes the one before, whose predecessor
//! is dropped. Only its owner can read it. While the data folder is not there yet, before the first
//! start of a house, there is no file. A line that cannot be written is lost here, and the next one
//! tries anew: a log never stops the program.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Inside the data folder.
const FILE: &str = "inglenook.log";

/// The one before.
const BEFORE: &str = "inglenook.log.1";

/// A file is not made longer than this; so the two take at most twice as much.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// Where the log of the home at `data` is.
pub(crate) fn place(data: &Path) -> PathBuf {
    data.join(FILE)
}

/// Where this program's log is, for people to read; absent where there is none.
pub(crate) fn shown_place() -> Option<String> {
    nook_node::data_folder(None).ok().map(|data| place(&data).display().to_string())
}

/// Takes lines, each in one write.
#[derive(Debug)]
pub(crate) struct LogFile {
    data: PathBuf,
    bytes_max: u64,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
}

impl LogFile {
    /// The log in the data folder `data`, which need not be there.
    pub(crate) fn new(data: PathBuf) -> Self {
        Self { data, bytes_max: LOG_BYTES_MAX, open: None }
    }

    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        // A line that is longer than a whole file is none of ours.
        if length > self.bytes_max {
            return Ok(());
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        if open.bytes > 0 && open.bytes.saturating_add(length) > self.bytes_max {
            // Windows renames no file that is open.
            drop(open);
            fs::rename(place(&self.data), self.data.join(BEFORE))?;
            open = self.begin()?;
        }
        open.file.write_all(line)?;
        open.bytes = open.bytes.saturating_add(length);
        self.open = Some(open);
        Ok(())
    }

    fn begin(&self) -> io::Result<Open> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        let file = options.open(place(&self.data))?;
        let bytes = file.metadata()?.len();
        Ok(Open { file, bytes })
    }
}

/// From now on a panic leaves a line with its place in the log. What it says may hold anything, so
/// only the standard error gets that.
pub(crate) fn note_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map_or_else(String::new, ToString::to_string);
        tracing::error!(place, "the program has a fault and a part of it ended");
        before(panic);
    }));
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Lost, and nowhere to say so: this is where things are said.
        let _ = self.write_line(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(data: &Path) -> LogFile {
        LogFile { bytes_max: 100, ..LogFile::new(data.to_owned()) }
    }

    fn text(data: &Path, name: &str) -> String {
        fs::read_to_string(data.join(name)).unwrap_or_default()
    }

    #[test]
    fn the_newest_lines_are_kept_and_two_files_are_all_there_ever_is() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        for start in 0..3 {
            // Each start goes on where the one before has ended.
            let mut log = small(data);
            for line in 0..40 {
                log.write_all(format!("start {start} line {line:02}\n").as_bytes()).unwrap();
                let sizes = [FILE, BEFORE].map(|name| text(data, name).len());
                assert!(sizes.iter().all(|size| *size <= 100), "{sizes:?}");
            }
        }
        assert!(text(data, FILE).ends_with("start 2 line 39\n"));
        let both = text(data, BEFORE) + &text(data, FILE);
        let lines: Vec<_> = both.lines().collect();
        assert!(lines.len() > 5 && lines.windows(2).all(|pair| pair[0] < pair[1]), "{lines:?}");
        assert_eq!(fs::read_dir(data).unwrap().count(), 2);
    }

    #[test]
    fn what_cannot_be_written_stops_nothing_and_is_tried_anew() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("home");
        let mut log = small(&data);
        log.write_all(b"before there is a folder\n").unwrap();
        fs::create_dir(&data).unwrap();
        log.write_all(b"now there is one\n").unwrap();
        log.write_all(&[b'x'; 200]).unwrap();
        assert_eq!(text(&data, FILE), "now there is one\n");
        // What is in the way of the one before: a folder of its name.
        fs::create_dir_all(data.join(BEFORE).join("x")).unwrap();
        for _ in 0..20 {
            log.write_all(b"a line of twenty one\n").unwrap();
        }
        assert!(text(&data, FILE).len() <= 100, "the bound stands");
        fs::remove_dir_all(data.join(BEFORE)).unwrap();
        log.write_all(b"at the end\n").unwrap();
        log.write_all(b"at the very end of it all, which is long enough to need another file\n")
            .unwrap();
        assert!(text(&data, FILE).ends_with("another file\n"));
    }

    #[test]
    fn a_panic_leaves_its_place_and_nothing_of_what_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::sync::Mutex::new(LogFile::new(folder.path().to_owned()));
        let log = tracing_subscriber::fmt().with_writer(file).with_ansi(false).finish();
        note_panics();
        // Of this thread alone: other tests may panic on purpose meanwhile.
        tracing::subscriber::with_default(log, || {
            std::panic::catch_unwind(|| panic!("said to a model")).unwrap_err();
        });
        let text = text(folder.path(), FILE);
        assert!(text.contains("log_file.rs:") && text.contains("ERROR"), "{text}");
        assert!(!text.contains("said to a model"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        small(folder.path()).write_all(b"x\n").unwrap();
        let mode = fs::metadata(place(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
