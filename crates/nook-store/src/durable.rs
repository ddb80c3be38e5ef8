//! Writing a file so that a crash at any moment leaves either the old content or the new one.
//!
//! Write a temporary file beside the target, flush it to the disk, rename it over the target, flush
//! the folder. Every other module of this crate writes through here. The steps are an enum so that
//! tests can fail any one of them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nook_base::paths::private_folders;

/// What was being done to a file when it went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Reading it.
    Read,
    /// Writing it; the earlier content is untouched.
    Write,
    /// Making the folder.
    CreateFolder,
    /// Removing it.
    Remove,
}

/// A file that the system would not read or write: the machine's trouble, not the content's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} could not be {}: {reason}{}", path.display(), deed.participle(), advice(*kind))]
pub struct FileError {
    /// Which file.
    pub path: PathBuf,
    /// What was tried.
    pub deed: Deed,
    /// The kind of failure.
    pub kind: io::ErrorKind,
    /// The system's words.
    pub reason: String,
}

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// The owner only (0600); on Windows the user's own folder sees to it.
    Owner,
    /// Whoever the system's defaults allow.
    Default,
}

/// The steps of an atomic write, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    CreateTemporary,
    WriteBytes,
    FlushFile,
    Rename,
    FlushFolder,
}

/// Asked before each step; an error takes the place of the step. Tests inject failures with it.
pub(crate) trait Disk {
    fn permit(&self, step: Step) -> io::Result<()>;
}

/// The real disk: nothing is made to fail.
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn permit(&self, _: Step) -> io::Result<()> {
        Ok(())
    }
}

impl Deed {
    fn participle(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "written",
            Self::CreateFolder => "created",
            Self::Remove => "removed",
        }
    }
}

impl FileError {
    pub(crate) fn new(path: &Path, deed: Deed, error: &io::Error) -> Self {
        Self { path: path.to_owned(), deed, kind: error.kind(), reason: error.to_string() }
    }
}

fn advice(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ". Nothing was changed. Check that the folder belongs to you and can be written"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ". Nothing was changed. Free some disk space and try again"
        }
        _ => "",
    }
}

/// Replaces the content of `path` by `bytes`, durably. On an error the old content stands.
pub(crate) fn write(path: &Path, bytes: &[u8], readers: Readers) -> Result<(), FileError> {
    write_on(&RealDisk, path, bytes, readers)
}

/// As [`write()`], on a disk that may refuse steps.
pub(crate) fn write_on(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    readers: Readers,
) -> Result<(), FileError> {
    let temporary = temporary_beside(path);
    let written = write_steps(disk, path, &temporary, bytes, readers);
    written.map_err(|error| {
        // Already renamed, never created: either way there may be nothing to clean up.
        let _ = fs::remove_file(&temporary);
        FileError::new(path, Deed::Write, &error)
    })
}

fn write_steps(
    disk: &dyn Disk,
    path: &Path,
    temporary: &Path,
    bytes: &[u8],
    readers: Readers,
) -> io::Result<()> {
    disk.permit(Step::CreateTemporary)?;
    let mut file = create(temporary, readers)?;
    disk.permit(Step::WriteBytes)?;
    file.write_all(bytes)?;
    disk.permit(Step::FlushFile)?;
    file.sync_all()?;
    drop(file);
    disk.permit(Step::Rename)?;
    fs::rename(temporary, path)?;
    disk.permit(Step::FlushFolder)?;
    flush_folder_of(path)
}

/// Most bytes of a file that is read as a whole. The largest, the built-in model, has a tenth of it.
const BYTES_MAX: u64 = 64 << 20;

/// Reads `path`; `None` when there is no such file. What is no plain file is not opened: a pipe would
/// keep whoever reads it waiting, and a device may have no end.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    match read_plain(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::new(path, Deed::Read, &error)),
    }
}

fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let found = fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// Removes `path`; nothing happens when there is no such file.
pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Ok(()) => {
            let _ = flush_folder_of(path);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FileError::new(path, Deed::Remove, &error)),
    }
}

/// Makes the renames and removals in the folder of `path` durable.
pub(crate) fn flush_folder_of(path: &Path) -> io::Result<()> {
    // Windows has no such call: the file system's journal keeps renames in order there.
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    let _ = path;
    Ok(())
}

/// A name beside `path` that no other write of this process uses; other processes are kept out by
/// the lock of the home.
pub(crate) fn temporary_beside(path: &Path) -> PathBuf {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{name}.new-{}-{number}", std::process::id()))
}

/// Removes what interrupted writes left in `folder`. Failures only leave litter.
pub(crate) fn sweep(folder: &Path) {
    sweep_where(folder, |_| true);
}

/// As [`sweep`], but only of writes of these names: in a folder that is not this program's alone.
pub(crate) fn sweep_of(folder: &Path, names: &[&str]) {
    sweep_where(folder, |name| names.contains(&name));
}

fn sweep_where(folder: &Path, is_meant: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // As `temporary_beside` makes them.
        let written = name.strip_prefix('.').and_then(|name| name.rsplit_once(".new-"));
        if written.is_some_and(|(written, _)| is_meant(written)) {
            tracing::debug!(%name, "an interrupted write is swept away");
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Creates a new file, never following what stands there.
pub(crate) fn create(path: &Path, readers: Readers) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if readers == Readers::Owner {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let _ = readers;
    options.open(path)
}

/// Takes away what others may do with the file at `path`.
pub(crate) fn make_private(path: &Path) -> Result<(), FileError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let trouble = |error| FileError::new(path, Deed::Write, &error);
        let mode = fs::metadata(path).map_err(trouble)?.permissions().mode();
        if mode & 0o077 != 0 {
            tracing::warn!(file = %path.display(), "others could read this file; they no longer can");
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(trouble)?;
        }
    }
    let _ = path;
    Ok(())
}

/// Creates `folder` and its parents, for the owner only (0700) where it is new.
pub(crate) fn create_private_folder(folder: &Path) -> Result<(), FileError> {
    let made = private_folders().recursive(true).create(folder);
    made.map_err(|error| FileError::new(folder, Deed::CreateFolder, &error))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Fails one step with a given error.
    pub(crate) struct FailingDisk(pub(crate) Step, pub(crate) io::ErrorKind);

    impl Disk for FailingDisk {
        fn permit(&self, step: Step) -> io::Result<()> {
            if step == self.0 { Err(io::Error::from(self.1)) } else { Ok(()) }
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_plain_file_is_refused_and_nobody_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let endless = folder.path().join("endless");
        std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [endless, pipe] {
            let refused = read(&path).unwrap_err().to_string();
            assert!(refused.contains("no plain file"), "{refused}");
        }
        assert!(read(folder.path()).unwrap_err().to_string().contains("directory"));
        assert_eq!(read(&folder.path().join("none")).unwrap(), None);
    }

    #[test]
    fn m4_a_full_or_read_only_disk_leaves_the_old_content_and_no_litter() {
        let steps = [Step::CreateTemporary, Step::WriteBytes, Step::FlushFile, Step::Rename];
        for step in steps {
            for kind in [io::ErrorKind::StorageFull, io::ErrorKind::PermissionDenied] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("file");
                write(&path, b"old", Readers::Default).unwrap();
                let disk = FailingDisk(step, kind);
                let error = write_on(&disk, &path, b"new", Readers::Default).unwrap_err();
                assert_eq!((&error.path, error.deed, error.kind), (&path, Deed::Write, kind));
                assert_eq!(fs::read(&path).unwrap(), b"old", "{step:?}");
                assert_eq!(names(folder.path()), ["file"], "{step:?}");
            }
        }
    }

    #[test]
    fn a_failure_after_the_rename_leaves_the_new_content_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"old", Readers::Default).unwrap();
        let disk = FailingDisk(Step::FlushFolder, io::ErrorKind::Other);
        assert!(write_on(&disk, &path, b"new", Readers::Default).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn what_a_killed_write_left_is_swept_away_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"old", Readers::Default).unwrap();
        // Killed between write and rename: the temporary file stands there, perhaps half written.
        fs::write(temporary_beside(&path), b"ne").unwrap();
        fs::write(folder.path().join(".hidden"), b"mine").unwrap();
        fs::write(folder.path().join(".mine.new-year"), b"mine").unwrap();
        sweep_of(folder.path(), &["other", "file"]);
        assert_eq!(names(folder.path()), [".hidden", ".mine.new-year", "file"]);
        fs::write(temporary_beside(&path), b"ne").unwrap();
        fs::remove_file(folder.path().join(".mine.new-year")).unwrap();
        sweep(folder.path());
        assert_eq!(names(folder.path()), [".hidden", "file"]);
        assert_eq!(read(&path).unwrap().unwrap(), b"old");
    }

    #[cfg(unix)]
    #[test]
    fn secrets_are_created_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        write(&path, b"s", Readers::Owner).unwrap();
        write(&path, b"t", Readers::Owner).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let private = folder.path().join("a/b");
        create_private_folder(&private).unwrap();
        assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn errors_say_what_to_do() {
        let error = FileError::new(
            Path::new("/x/peers.json"),
            Deed::Write,
            &io::Error::from(io::ErrorKind::StorageFull),
        );
        let text = error.to_string();
        assert!(text.starts_with("/x/peers.json could not be written"), "{text}");
        assert!(text.contains("Free some disk space"), "{text}");
    }
}
