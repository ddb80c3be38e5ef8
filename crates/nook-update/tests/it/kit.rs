//! A server with releases, whoever signs them, and an installation that asks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use minisign::KeyPair;
use nook_fetch::{
    FILE_BYTES_MAX, Fetched, Fetcher, Hubs, Limits, Pace, Progress, Room, SYNC_EVERY_BYTES,
};
use nook_update::{
    FORMAT, Installed, KIND, Keys, MANIFEST_FILE, Manifest, Offer, Package, PackageKind,
    SIGNATURE_END, UpdateError, Updates,
};
use semver::Version;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::file_server::{FileServer, Served};

pub(crate) const PACKAGE: &str = "inglenook-0.2.0.tar.gz";

/// Impatient where a test waits for it, patient where only a busy machine would be noticed.
const PACE: Pace = Pace {
    connect: Duration::from_secs(10),
    stall: Duration::from_secs(3),
    wait_first: Duration::from_millis(1),
    wait_max: Duration::from_millis(5),
    tries_max: 4,
    tries_before_next: 2,
};

/// A disk with as much room as the test says.
#[derive(Debug)]
struct Disk(AtomicU64);

impl Room for Disk {
    fn free(&self, _: &Path) -> std::io::Result<u64> {
        Ok(self.0.load(Ordering::SeqCst))
    }
}

/// Whoever makes releases.
pub(crate) struct Maker(KeyPair);

impl Maker {
    pub(crate) fn new() -> Self {
        Self(KeyPair::generate_unencrypted_keypair().unwrap())
    }

    pub(crate) fn keys(&self) -> Keys {
        Keys::read(&self.0.pk.to_base64()).unwrap()
    }

    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.sign_as(None, bytes)
    }

    /// Signs bytes with a comment that is signed with them.
    pub(crate) fn sign_as(&self, comment: Option<&str>, bytes: &[u8]) -> Vec<u8> {
        minisign::sign(None, &self.0.sk, bytes, comment, None).unwrap().to_bytes()
    }
}

pub(crate) struct Scene {
    pub(crate) server: FileServer,
    pub(crate) home: tempfile::TempDir,
    pub(crate) maker: Maker,
    disk: Arc<Disk>,
    pub(crate) package: Vec<u8>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let (server, home) = (FileServer::start().unwrap(), tempfile::tempdir().unwrap());
        let disk = Arc::new(Disk(AtomicU64::new(u64::MAX)));
        let package = (0..300_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8);
        let scene = Self { server, home, maker: Maker::new(), disk, package: package.collect() };
        scene.serve_package(Served::file(scene.package.clone(), "\"1\""));
        scene
    }

    pub(crate) fn manifest(&self) -> Manifest {
        let now = nook_base::clock::unix_seconds();
        Manifest {
            kind: KIND.to_owned(),
            format: FORMAT,
            version: Version::new(0, 2, 0),
            serial: 7,
            released: now - 100,
            expires: now + 100_000,
            notes: std::collections::BTreeMap::new(),
            packages: vec![Package {
                platform: PackageKind::Portable.platform(),
                file: PACKAGE.to_owned(),
                bytes: self.package.len() as u64,
                sha256: sha256(&self.package),
            }],
        }
    }

    /// Serves a list that the maker has signed.
    pub(crate) fn serve(&self, manifest: &Manifest) {
        self.serve_signed(manifest, &self.maker);
    }

    pub(crate) fn serve_signed(&self, manifest: &Manifest, maker: &Maker) {
        let bytes = serde_json::to_vec(manifest).unwrap();
        let signature = Served::file(maker.sign(&bytes), "\"s\"");
        self.serve_list(Served::file(bytes, "\"m\""));
        self.server.serve(&format!("/{MANIFEST_FILE}{SIGNATURE_END}"), signature);
    }

    pub(crate) fn serve_list(&self, served: Served) {
        self.server.serve(&format!("/{MANIFEST_FILE}"), served);
    }

    pub(crate) fn serve_package(&self, served: Served) {
        self.server.serve(&format!("/{PACKAGE}"), served);
    }

    pub(crate) fn updates(&self) -> Updates {
        let limits = Limits {
            pace: PACE,
            file_bytes_max: FILE_BYTES_MAX,
            sync_every_bytes: SYNC_EVERY_BYTES,
        };
        let fetcher = Fetcher::new(Hubs::usual(), limits, self.disk.clone());
        let address = format!("{}/{MANIFEST_FILE}", self.server.address()).parse().unwrap();
        Updates::new(self.home.path(), fetcher, Some(address), self.maker.keys())
            .waiting(Duration::from_secs(3))
    }

    pub(crate) fn leave_free(&self, bytes: u64) {
        self.disk.0.store(bytes, Ordering::SeqCst);
    }

    /// What a node of this version finds.
    pub(crate) async fn look(&self, running: &str) -> Result<Option<Offer>, UpdateError> {
        let updates = self.updates();
        let claim = updates.claim().unwrap();
        let installed = Installed::Portable { prefix: self.home.path().join("prefix") };
        updates.look(&claim, &running.parse().unwrap(), &installed).await
    }

    /// Looks and downloads.
    pub(crate) async fn fetch(&self) -> Result<Fetched, UpdateError> {
        let offer = self.look("0.1.0").await?.unwrap();
        let updates = self.updates();
        let claim = updates.claim().unwrap();
        let told = watch::Sender::new(Progress::default());
        updates.fetch(&claim, &offer, &CancellationToken::new(), &told).await
    }

    /// Whether nothing has its final name among the downloads.
    pub(crate) fn has_no_package(&self) -> bool {
        let found = std::fs::read_dir(self.home.path().join("updates/downloads"));
        let names = found.into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.into_string().ok()).all(|name| !name.ends_with(".gguf"))
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

/// An archive with these files: name, whether it is a program, content.
pub(crate) fn archive(files: &[(&str, bool, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, is_program, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(if *is_program { 0o755 } else { 0o644 });
        builder.append_data(&mut header, name, *content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}
