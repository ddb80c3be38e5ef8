//! The local socket between a node and its worker: a Unix socket, or a named pipe on Windows.

use std::io;
use std::path::Path;

use interprocess::local_socket::tokio::{Listener, Stream, prelude::*};
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};

/// Longest socket path that every system takes: macOS allows 104 bytes with the final zero.
const SOCKET_PATH_BYTES_MAX: usize = 103;

/// Connects to the node.
pub(crate) async fn connect(socket: &str) -> io::Result<Stream> {
    Stream::connect(socket.to_fs_name::<GenericFilePath>()?).await
}

/// Listens for one worker.
pub(crate) fn listen(socket: &str) -> io::Result<Listener> {
    ListenerOptions::new().name(socket.to_fs_name::<GenericFilePath>()?).create_tokio()
}

/// The socket's name for one worker; fails when the folder's path is too long for the system.
pub(crate) fn socket_name(folder: &Path, tag: &str) -> Result<String, usize> {
    if cfg!(windows) {
        return Ok(format!(r"\\.\pipe\inglenook-{tag}"));
    }
    let name = folder.join(format!("{tag}.sock")).to_string_lossy().into_owned();
    if name.len() <= SOCKET_PATH_BYTES_MAX { Ok(name) } else { Err(name.len()) }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_folder_too_deep_for_a_socket_is_refused_before_anything_is_started() {
        assert!(socket_name(Path::new("/run/user/1000/inglenook"), "0123456789ab").is_ok());
        let deep = format!("/{}", "d".repeat(120));
        assert!(socket_name(Path::new(&deep), "0123456789ab").is_err());
    }
}
