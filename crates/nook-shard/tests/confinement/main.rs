//! What a process gives up, tried by such a process.
//!
//! A program of its own: what was given up does not come back.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io::ErrorKind::PermissionDenied;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use nook_shard::confinement;

    /// Names the folder in which the process that is confined tries what it can.
    const FOLDER: &str = "INGLENOOK_TEST_FOLDER";

    #[test]
    fn f16_a_worker_changes_no_file_and_reaches_no_network_and_a_sandbox_reads_nothing() {
        if let Some(folder) = nook_base::env::raw(FOLDER) {
            return tries(&PathBuf::from(folder));
        }
        let folder = tempfile::tempdir().unwrap();
        for name in ["temporary", "cache", "models"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("models/model.gguf"), "weights").unwrap();
        let confined = Command::new(std::env::current_exe().unwrap())
            .args(["--nocapture", "a_worker_changes_no_file"])
            .env(FOLDER, folder.path())
            .env("TMPDIR", folder.path().join("temporary"))
            .env("XDG_CACHE_HOME", folder.path().join("cache"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&confined.stderr);
        assert!(confined.status.success(), "{said}");
        // That it was one test, and not none.
        assert!(String::from_utf8_lossy(&confined.stdout).contains("1 passed"), "{said}");
    }

    fn tries(folder: &Path) {
        let model = folder.join("models/model.gguf");
        let socket = folder.join("node.sock");
        let listens = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listens.local_addr().unwrap();
        let node = UnixListener::bind(&socket).unwrap();
        // It could do all of it before.
        TcpStream::connect(address).unwrap();
        fs::write(folder.join("models/other"), "").unwrap();

        assert_eq!(confinement::worker(), [""; 0]);
        let refused = |tried: std::io::Result<()>| tried.map_err(|error| error.kind());
        assert_eq!(refused(TcpStream::connect(address).map(drop)), Err(PermissionDenied));
        assert_eq!(refused(UdpSocket::bind("127.0.0.1:0").map(drop)), Err(PermissionDenied));
        for file in [&model, &folder.join("models/new")] {
            assert_eq!(refused(fs::write(file, "other")), Err(PermissionDenied));
        }
        assert_eq!(refused(fs::remove_file(&model)), Err(PermissionDenied));
        let moved = fs::rename(&model, folder.join("temporary/model.gguf"));
        assert!(moved.is_err(), "it is as good as removing it");
        // What it needs.
        assert_eq!(fs::read_to_string(&model).unwrap(), "weights");
        fs::write(folder.join("temporary/scratch"), "").unwrap();
        fs::write(folder.join("cache/shader"), "").unwrap();
        fs::write("/dev/null", "").unwrap();
        let mut told = UnixStream::connect(&socket).unwrap();
        told.write_all(b"token").unwrap();
        let mut heard = [0; 5];
        node.accept().unwrap().0.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"token");
        // Its threads are held to it too.
        let by_thread =
            std::thread::spawn(move || fs::write(&model, "other").map_err(|e| e.kind()));
        assert_eq!(by_thread.join().unwrap(), Err(PermissionDenied));
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
        let limits = fs::read_to_string("/proc/self/limits").unwrap();
        let dump = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert_eq!(dump.split_whitespace().nth(4), Some("1"), "{dump}");

        assert_eq!(confinement::sandbox(), [""; 0]);
        let model = folder.join("models/model.gguf");
        assert_eq!(refused(fs::read(&model).map(drop)), Err(PermissionDenied));
        assert_eq!(refused(fs::read_dir(folder).map(drop)), Err(PermissionDenied));
        let scratch = fs::write(folder.join("temporary/scratch"), "");
        assert_eq!(refused(scratch), Err(PermissionDenied));
        fs::read_to_string("/proc/self/status").unwrap();
    }
}
