//! A server that behaves as it is told, a folder, a disk with as much room as the test says.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nook_fetch::{
    FILE_BYTES_MAX, FetchError, Fetched, Fetcher, Folder, Hubs, Limits, Order, Pace, Pin, Progress,
    Room, Source,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::file_server::{self, FileServer, Served};

pub(crate) const PATH: &str = "/o/r/resolve/main/model.gguf";
pub(crate) const MEGABYTE: usize = 1 << 20;

/// Impatient where a test waits for it, patient where only a busy machine would be noticed.
pub(crate) const PACE: Pace = Pace {
    connect: Duration::from_secs(10),
    stall: Duration::from_secs(3),
    wait_first: Duration::from_millis(1),
    wait_max: Duration::from_millis(5),
    tries_max: 4,
    tries_before_next: 2,
};

pub(crate) const LIMITS: Limits =
    Limits { pace: PACE, file_bytes_max: FILE_BYTES_MAX, sync_every_bytes: 2 * MEGABYTE as u64 };

/// A disk with as much room as the test says.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) free: AtomicU64,
    /// What other programs write between two looks.
    pub(crate) shrinks_by: AtomicU64,
}

impl Room for Disk {
    fn free(&self, _: &Path) -> std::io::Result<u64> {
        Ok(self.free.fetch_sub(self.shrinks_by.load(Ordering::SeqCst), Ordering::SeqCst))
    }
}

pub(crate) struct Desk {
    pub(crate) server: FileServer,
    _home: tempfile::TempDir,
    pub(crate) folder: Folder,
    pub(crate) disk: Arc<Disk>,
    pub(crate) fetcher: Fetcher,
    pub(crate) pin: Option<String>,
    pub(crate) told: watch::Sender<Progress>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::with(LIMITS, None)
    }

    /// A desk that asks `next` after its own server.
    pub(crate) fn with(limits: Limits, next: Option<&FileServer>) -> Self {
        let server = FileServer::start().expect("a server");
        let home = tempfile::tempdir().expect("a folder");
        let folder = Folder::at(home.path().join("downloads"));
        let disk = Arc::new(Disk { free: AtomicU64::new(u64::MAX), shrinks_by: AtomicU64::new(0) });
        let next = next.map(FileServer::address);
        let hubs = Hubs::read(Some(&server.address()), next.as_deref());
        let hubs = hubs.expect("addresses of this machine");
        let fetcher = Fetcher::new(hubs, limits, disk.clone());
        let told = watch::Sender::new(Progress::default());
        Self { server, _home: home, folder, disk, fetcher, pin: None, told }
    }

    /// Two servers: that of the desk, and the one that is asked next.
    pub(crate) fn mirrored() -> (Self, FileServer) {
        let next = FileServer::start().expect("a server");
        (Self::with(LIMITS, Some(&next)), next)
    }

    /// Serves `bytes` as the hub does: its digest in the origin's own field.
    pub(crate) fn serve(&self, bytes: &[u8]) -> Served {
        Served::file(bytes.to_vec(), "\"storage\"")
            .with("X-Linked-Etag", &format!("\"{}\"", sha256(bytes)))
            .with("X-Linked-Size", &bytes.len().to_string())
    }

    pub(crate) fn order(&self) -> Order {
        let source: Source = "hf:o/r/model.gguf".parse().expect("a source");
        Order { source, pin: Pin { sha256: self.pin.clone() } }
    }

    pub(crate) async fn fetch(&self) -> Result<Fetched, FetchError> {
        self.fetch_until(&CancellationToken::new()).await
    }

    pub(crate) async fn fetch_until(
        &self,
        stop: &CancellationToken,
    ) -> Result<Fetched, FetchError> {
        self.fetcher.fetch(&self.folder, &self.order(), stop, &self.told).await
    }

    pub(crate) fn bytes_here(&self) -> u64 {
        self.folder.bytes_of(&self.order().source.key())
    }

    /// How many files lie in the folder, of whatever kind.
    pub(crate) fn files_here(&self) -> usize {
        fs::read_dir(self.folder.path()).expect("a folder").count()
    }

    /// Loads until the server stalls, and stops there.
    pub(crate) async fn fetch_until_stalled(&self, at: usize) {
        let (stop, mut heard) = (CancellationToken::new(), self.told.subscribe());
        let stopping = async {
            let heard = heard.wait_for(|progress| progress.have >= at as u64).await;
            drop(heard.expect("it loads"));
            stop.cancel();
        };
        let (stopped, ()) = tokio::join!(self.fetch_until(&stop), stopping);
        assert_eq!(stopped.expect_err("it was stopped"), FetchError::Stopped);
        assert_eq!(self.bytes_here(), at as u64);
    }

    /// Where each request wanted to begin.
    pub(crate) fn begins(&self) -> Vec<u64> {
        begins(&self.server)
    }

    #[track_caller]
    pub(crate) fn check_whole(fetched: &Fetched, bytes: &[u8]) {
        assert!(fs::read(&fetched.path).expect("a file") == bytes, "the bytes are the server's");
        assert_eq!(fetched.sha256, sha256(bytes));
        assert_eq!(fetched.bytes, bytes.len() as u64);
    }
}

pub(crate) fn begins(server: &FileServer) -> Vec<u64> {
    let from = |request: &file_server::Request| {
        let range = request.range.as_deref().unwrap_or("bytes=0-");
        range.trim_start_matches("bytes=").trim_end_matches('-').parse().expect("a number")
    };
    server.asked().iter().map(from).collect()
}

/// A file that begins as models do; `kind` makes its bytes differ.
pub(crate) fn model(length: usize, kind: u8) -> Vec<u8> {
    let noise = (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ kind);
    b"GGUF".iter().copied().chain(noise).take(length).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
