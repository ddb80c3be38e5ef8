//! Where one installation keeps its things, and the lock that makes it the only one there.
//!
//! A [`Home`] owns the data folder (0700), the lock on it, and a folder with a short path for
//! sockets. Everything else in this crate takes a `&Home`, so that nothing is written without the
//! lock. The lock is the operating system's on an open file: a killed process leaves none behind.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nook_base::env;

use crate::durable::{self, Deed, FileError};

/// Names the data folder; used for households on one machine, tests and unusual set-ups.
pub const HOME_VARIABLE: &str = "INGLENOOK_HOME";

const LOCK_FILE: &str = "lock";

/// Longest path of a Unix socket, in bytes: 104 on macOS and 108 on Linux with the final NUL; the
/// smaller one holds everywhere, so that a test on Linux speaks for macOS.
pub const SOCKET_PATH_BYTES_MAX: usize = 103;

/// Longest file name that [`Home::socket_path`] takes, in bytes.
const SOCKET_NAME_BYTES_MAX: usize = 24;

/// One installation's folders, held exclusively while this (or a clone of it) lives.
#[derive(Debug, Clone)]
pub struct Home {
    data: PathBuf,
    runtime: PathBuf,
    tag: String,
    is_default: bool,
    /// Never read: it only has to live.
    _held: Arc<Held>,
}

/// What all clones of a home hold together.
#[derive(Debug)]
struct Held {
    runtime: PathBuf,
    /// The lock lives as long as the file is open.
    _lock: File,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Only an empty folder goes: sockets of workers that still end stay where they are.
        let _ = fs::remove_dir(&self.runtime);
    }
}

/// Where a home is, before it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomeChoice {
    /// What `INGLENOOK_HOME` names, else the platform's data folder for this user.
    Usual,
    /// This folder.
    At(PathBuf),
}

/// A home that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HomeError {
    /// Another node holds it.
    #[error("Inglenook already runs with the data folder {}{}", data.display(), by_whom(*process))]
    AlreadyRunning {
        /// The folder.
        data: PathBuf,
        /// The process that holds it, where the lock file says so.
        process: Option<u32>,
    },
    /// The system names no folder for this user.
    #[error("this user has no home folder; name a data folder in {HOME_VARIABLE}")]
    NoUserFolder,
    /// A file or folder that the system refuses.
    #[error(transparent)]
    File(#[from] FileError),
    /// The folder for sockets is somebody else's or open to others.
    #[error("{} is not private to this user, so no sockets are put there; remove it", folder.display())]
    NotPrivate {
        /// The folder.
        folder: PathBuf,
    },
    /// A socket's path would be longer than the system takes.
    #[error("the socket path {} has {bytes} bytes, at most {SOCKET_PATH_BYTES_MAX} work; name a shorter folder in {HOME_VARIABLE} or XDG_RUNTIME_DIR", path.display())]
    SocketPathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
}

fn by_whom(process: Option<u32>) -> String {
    process.map_or_else(String::new, |id| format!(" (process {id})"))
}

impl Home {
    /// Opens the home and takes its lock; makes the folders where they are missing.
    pub fn open(choice: &HomeChoice) -> Result<Self, HomeError> {
        let usual = usual_folder();
        let data = data_folder(choice, usual.clone())?;
        let lock = take_lock(&data)?;
        durable::sweep(&data);

        let is_default = usual
            .and_then(|folder| fs::canonicalize(folder).ok())
            .is_some_and(|folder| folder == data);
        let tag = tag_of(&data);
        let runtime = runtime_folder(&data, &tag)?;
        let held = Held { runtime: runtime.clone(), _lock: lock };
        Ok(Self { data, runtime, tag, is_default, _held: Arc::new(held) })
    }

    /// The data folder of the home at `choice`, without opening the home. Nothing is made: it may
    /// be missing.
    pub fn data_of(choice: &HomeChoice) -> Result<PathBuf, HomeError> {
        named_folder(choice, usual_folder())
    }

    /// The folder for sockets of the home at `choice`, without opening the home: for whoever talks
    /// to the node that holds it.
    pub fn runtime_of(choice: &HomeChoice) -> Result<PathBuf, HomeError> {
        let data = data_folder(choice, usual_folder())?;
        runtime_folder(&data, &tag_of(&data))
    }

    /// The process that holds the home at `choice`, or held it last; absent where there was none or
    /// the system does not say (Windows, while it is held).
    #[must_use]
    pub fn process_of(choice: &HomeChoice) -> Option<u32> {
        process_in(&Self::data_of(choice).ok()?.join(LOCK_FILE))
    }

    /// The data folder.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The folder for sockets: private, with a short path, possibly emptied at every log-out.
    #[must_use]
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// Eight hexadecimal digits that tell this home from others on this machine: for the names of
    /// Windows pipes and keyring entries.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Whether this is the platform's usual folder for this user.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.is_default
    }

    /// The path of the socket `name` in the runtime folder, if the system takes one that long.
    pub fn socket_path(&self, name: &str) -> Result<PathBuf, HomeError> {
        checked_socket_path(&self.runtime, name)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.data.join(name)
    }
}

/// The data folder as it was named.
fn named_folder(choice: &HomeChoice, usual: Option<PathBuf>) -> Result<PathBuf, HomeError> {
    match choice {
        HomeChoice::At(folder) => Ok(folder.clone()),
        HomeChoice::Usual => match env::raw(HOME_VARIABLE) {
            Some(folder) => Ok(folder.into()),
            None => usual.ok_or(HomeError::NoUserFolder),
        },
    }
}

/// The data folder, made where it is missing. It has one name from here on, whatever links lead to
/// it.
fn data_folder(choice: &HomeChoice, usual: Option<PathBuf>) -> Result<PathBuf, HomeError> {
    let data = named_folder(choice, usual)?;
    durable::create_private_folder(&data)?;
    let named = fs::canonicalize(&data);
    Ok(named.map_err(|error| FileError::new(&data, Deed::Read, &error))?)
}

fn usual_folder() -> Option<PathBuf> {
    let folders = directories::ProjectDirs::from("", "", "inglenook")?;
    Some(folders.data_local_dir().to_owned())
}

fn take_lock(data: &Path) -> Result<File, HomeError> {
    let path = data.join(LOCK_FILE);
    let trouble = |error: &std::io::Error| FileError::new(&path, Deed::Write, error);
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| trouble(&error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let process = process_in(&path);
            return Err(HomeError::AlreadyRunning { data: data.to_owned(), process });
        }
        Err(TryLockError::Error(error)) => return Err(trouble(&error).into()),
    }
    // Only for messages, and for whoever waits for this process: a failure to write it changes nothing.
    let id = format!("{}\n", std::process::id());
    let _ = file.set_len(0);
    let _ = std::io::Write::write_all(&mut &file, id.as_bytes());
    Ok(file)
}

/// Windows does not let a locked file be read; then nobody is named.
fn process_in(lock: &Path) -> Option<u32> {
    fs::read_to_string(lock).ok()?.trim().parse().ok()
}

fn tag_of(data: &Path) -> String {
    let digest = blake3::hash(data.as_os_str().as_encoded_bytes());
    data_encoding::HEXLOWER.encode(&digest.as_bytes()[..4])
}

/// The folder for sockets. The data folder itself may be nested too deep for one.
fn runtime_folder(data: &Path, tag: &str) -> Result<PathBuf, HomeError> {
    let name = format!("inglenook-{tag}");
    let longest = "x".repeat(SOCKET_NAME_BYTES_MAX);
    let bases = env::raw("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .into_iter()
        .filter(|base| base.is_absolute() && base.is_dir())
        .chain([std::env::temp_dir(), PathBuf::from("/tmp")]);
    let folder = bases
        .map(|base| base.join(&name))
        .find(|folder| checked_socket_path(folder, &longest).is_ok())
        .unwrap_or_else(|| data.join("run"));
    durable::create_private_folder(&folder)?;
    check_private(&folder, data)?;
    Ok(folder)
}

fn checked_socket_path(folder: &Path, name: &str) -> Result<PathBuf, HomeError> {
    let path = folder.join(name);
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES_MAX {
        return Err(HomeError::SocketPathTooLong { path, bytes });
    }
    Ok(path)
}

/// In a shared folder such as `/tmp` another user may have made the folder first.
#[cfg(unix)]
fn check_private(folder: &Path, data: &Path) -> Result<(), HomeError> {
    use std::os::unix::fs::MetadataExt;
    let look = |path: &Path| {
        fs::symlink_metadata(path).map_err(|error| FileError::new(path, Deed::Read, &error))
    };
    let (found, home) = (look(folder)?, look(data)?);
    if found.is_dir() && found.uid() == home.uid() && found.mode() & 0o077 == 0 {
        Ok(())
    } else {
        Err(HomeError::NotPrivate { folder: folder.to_owned() })
    }
}

#[cfg(not(unix))]
fn check_private(_: &Path, _: &Path) -> Result<(), HomeError> {
    Ok(()) // The user's temporary folder is the user's own.
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_node_is_told_that_one_runs_already_and_gets_in_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let choice = HomeChoice::At(folder.path().join("home"));
        let first = Home::open(&choice).unwrap();
        let clone = first.clone();
        let second = Home::open(&choice).unwrap_err();
        assert_eq!(
            second,
            HomeError::AlreadyRunning {
                data: first.data().to_owned(),
                process: cfg!(unix).then(std::process::id),
            }
        );
        drop(first);
        assert!(Home::open(&choice).is_err(), "the clone still holds it");
        drop(clone);
        assert!(Home::open(&choice).is_ok(), "the file that is left locks nobody out");
    }

    #[test]
    fn a_link_to_a_home_is_that_home() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real");
        let home = Home::open(&HomeChoice::At(real.clone())).unwrap();
        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&real, &link).unwrap();
            let again = Home::open(&HomeChoice::At(link));
            assert!(matches!(again, Err(HomeError::AlreadyRunning { .. })));
        }
        assert!(!home.is_default());
        assert_eq!(home.tag().len(), 8);
    }

    #[test]
    fn socket_paths_are_short_or_refused() {
        let deep = PathBuf::from(format!("/{}", "deep/".repeat(30)));
        assert!(matches!(
            checked_socket_path(&deep, "w"),
            Err(HomeError::SocketPathTooLong { .. })
        ));
        let exact = PathBuf::from(format!("/{}", "d".repeat(SOCKET_PATH_BYTES_MAX - 3)));
        assert!(checked_socket_path(&exact, "w").is_ok());
        assert!(checked_socket_path(&exact, "ww").is_err());

        let folder = tempfile::tempdir().unwrap();
        let nested = folder.path().join("deep/".repeat(30));
        let home = Home::open(&HomeChoice::At(nested)).unwrap();
        let socket = home.socket_path("worker-1.sock").unwrap();
        assert!(socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX);
    }

    #[cfg(unix)]
    #[test]
    fn a_socket_folder_that_others_can_enter_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&HomeChoice::At(folder.path().join("home"))).unwrap();
        let runtime = folder.path().join("runtime");
        fs::create_dir(&runtime).unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(
            check_private(&runtime, home.data()),
            Err(HomeError::NotPrivate { folder: runtime })
        );
    }

    #[cfg(unix)]
    #[test]
    fn the_data_folder_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&HomeChoice::At(folder.path().join("home"))).unwrap();
        for path in [home.data(), home.runtime()] {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", path.display());
        }
    }
}
