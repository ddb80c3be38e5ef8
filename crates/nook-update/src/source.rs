//! Where updates come from: the list and its signature from one address, packages from beside it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nook_base::env;
use nook_fetch::{
    Address, AddressError, Bringer, FetchError, Fetched, Fetcher, FileOrder, Folder, Hubs, Limits,
    Progress, SystemRoom,
};
use semver::Version;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::catalogue::CatalogueRefusal;
use crate::install::InstallError;
use crate::installed::{Installed, PackageKind};
use crate::keys::{KeyError, Keys};
use crate::limits::{DOCUMENT_LIMIT, MANIFEST_BYTES_MAX, PACKAGE_LIMIT, SIGNATURE_BYTES_MAX};
use crate::manifest::{Manifest, Offer, Package, SIGNATURE_END};
use crate::refusal::Refusal;
use crate::release;
use crate::seen::{Held, Seen, SeenError};

/// Names the address of the list of versions, in place of the one that was built in.
pub const ADDRESS_VARIABLE: &str = "INGLENOOK_UPDATES_URL";

/// Names the public keys that may sign it, in place of those that were built in.
pub const KEY_VARIABLE: &str = "INGLENOOK_UPDATES_KEY";

/// The folder of what is remembered and loaded, in the data folder.
const FOLDER: &str = "updates";
const DOWNLOADS: &str = "downloads";

/// Looking for a new version, or taking it, did not work. The version that is here stays.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// Nobody is asked.
    #[error(
        "this program knows no address of releases: none has been made yet. Get new versions from where \
         you got this one; who makes releases of their own names the address in {ADDRESS_VARIABLE}"
    )]
    Nowhere,
    /// The variable holds no address.
    #[error("{ADDRESS_VARIABLE}: {0}")]
    Address(AddressError),
    /// The variable holds no key.
    #[error("{KEY_VARIABLE}: {0}")]
    Key(KeyError),
    /// The list is not believed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The list of models is not believed.
    #[error(transparent)]
    Catalogue(#[from] CatalogueRefusal),
    /// The network, the server or the disk.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// What was seen before cannot be read or noted.
    #[error(transparent)]
    Seen(#[from] SeenError),
    /// The new version did not get into place.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// A task of this program was lost.
    #[error("the update was interrupted inside this program; try again")]
    Lost,
}

// Not as sources: their words stand in the sentence already, and would be said twice.
impl From<AddressError> for UpdateError {
    fn from(error: AddressError) -> Self {
        Self::Address(error)
    }
}

impl From<KeyError> for UpdateError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

/// Updates of one installation.
#[derive(Debug, Clone)]
pub struct Updates {
    folder: PathBuf,
    fetcher: Fetcher,
    address: Option<Address>,
    keys: Keys,
    patience: Duration,
}

/// The right to look for updates and to install one, held by one process at a time.
#[derive(Debug)]
pub struct Claim(Held);

impl Updates {
    /// Updates of the data folder `data`, from where the environment says, else from where this
    /// program was built to look.
    pub fn usual(data: &Path) -> Result<Self, UpdateError> {
        let address = env::text(ADDRESS_VARIABLE);
        let address = address.as_deref().or(release::ADDRESS).map(str::parse).transpose()?;
        let keys = match env::text(KEY_VARIABLE) {
            Some(text) => Keys::read(&text)?,
            None => Keys::built_in()?,
        };
        // No model is fetched here, so it does not matter what stands behind `hf:`.
        let fetcher = Fetcher::new(Hubs::usual(), Limits::USUAL, Arc::new(SystemRoom));
        Ok(Self::new(data, fetcher, address, keys))
    }

    /// Updates of the data folder `data` from `address`, as far as `keys` sign them.
    #[must_use]
    pub fn new(data: &Path, fetcher: Fetcher, address: Option<Address>, keys: Keys) -> Self {
        Self { folder: data.join(FOLDER), fetcher, address, keys, patience: DOCUMENT_LIMIT }
    }

    /// The same, waiting no longer than this for the list and for its signature.
    #[must_use]
    pub fn waiting(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Whether there is anybody to ask, and a key to believe.
    #[must_use]
    pub fn can_be_asked(&self) -> bool {
        self.address.is_some() && !self.keys.is_empty()
    }

    /// What was seen of updates so far.
    pub fn seen(&self) -> Result<Seen, SeenError> {
        Seen::read(&self.folder)
    }

    /// Takes the right to look and to install. Waits for the disk.
    pub fn claim(&self) -> Result<Claim, SeenError> {
        Held::claim(&self.folder).map(Claim)
    }

    /// Remembers that a version was put in place here and did not come up.
    pub fn note_failed(&self, claim: &Claim, version: &Version) -> Result<(), SeenError> {
        claim.0.note_failed(version)
    }

    /// Asks for the list of versions; the newer version for `installed`, if there is one.
    pub async fn look(
        &self,
        claim: &Claim,
        running: &Version,
        installed: &Installed,
    ) -> Result<Option<Offer>, UpdateError> {
        let manifest = self.list(claim).await?;
        Ok(Self::offer(&manifest, running, installed)?)
    }

    /// Asks for the list of versions, checks it and remembers that it was seen.
    pub async fn list(&self, claim: &Claim) -> Result<Manifest, UpdateError> {
        let Some(address) = &self.address else { return Err(UpdateError::Nowhere) };
        if self.keys.is_empty() {
            return Err(Refusal::NoKey.into());
        }
        let signature_at = self.beside(&format!("{}{SIGNATURE_END}", address.file_name()))?;
        let bytes = self.document(address, MANIFEST_BYTES_MAX).await?;
        let signature = self.document(&signature_at, SIGNATURE_BYTES_MAX).await?;
        self.take(claim, &bytes, &signature)
    }

    /// The newer version for `installed` in `manifest`, if there is one.
    pub fn offer(
        manifest: &Manifest,
        running: &Version,
        installed: &Installed,
    ) -> Result<Option<Offer>, Refusal> {
        let kind = installed.kind().unwrap_or(PackageKind::Portable);
        manifest.offer(running, &kind.platform())
    }

    /// Downloads the package of `offer`, going on where an earlier run ended.
    pub async fn fetch(
        &self,
        _: &Claim,
        offer: &Offer,
        stop: &CancellationToken,
        told: &watch::Sender<Progress>,
    ) -> Result<Fetched, UpdateError> {
        let order = self.order(&offer.package)?;
        let folder = self.downloads();
        let fetched = self.fetcher.fetch_file(&folder, &order, stop, told);
        match tokio::time::timeout(PACKAGE_LIMIT, fetched).await {
            Ok(fetched) => Ok(fetched?),
            Err(_) => Err(FetchError::Stopped.into()),
        }
    }

    /// Takes `package` from devices of the house, into the place where [`Updates::fetch`] finds it.
    /// Nothing else than what the list names stays.
    pub async fn bring(
        &self,
        package: &Package,
        bringer: &mut impl Bringer,
        stop: &CancellationToken,
        told: &watch::Sender<Progress>,
    ) -> Result<(), UpdateError> {
        let order = self.order(package)?;
        let folder = self.downloads();
        let brought = self.fetcher.bring_file(&folder, &order, bringer, stop, told);
        match tokio::time::timeout(PACKAGE_LIMIT, brought).await {
            Ok(brought) => Ok(brought.map(|_| ())?),
            Err(_) => Err(FetchError::Stopped.into()),
        }
    }

    /// Removes everything that was downloaded but `package`, which other devices of the house may
    /// want: once a version is in place, nobody here needs the others.
    pub fn clear_downloads(&self, _: &Claim, package: &Package) {
        let kept = self.order(package).ok();
        if let Err(error) = self.downloads().keep_only(kept.as_ref()) {
            tracing::warn!(%error, "a download was left behind");
        }
    }

    /// Whether all of `package` is here. Waits for the disk.
    #[must_use]
    pub fn has_whole(&self, package: &Package) -> bool {
        self.whole_package(package).is_some()
    }

    /// The file of `package`, where all of it is here.
    pub(crate) fn whole_package(&self, package: &Package) -> Option<PathBuf> {
        self.downloads().whole_file(&self.order(package).ok()?)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The address of a file that lies beside the list of versions.
    pub(crate) fn beside(&self, file: &str) -> Result<Address, UpdateError> {
        let Some(address) = &self.address else { return Err(UpdateError::Nowhere) };
        Ok(address.beside(file)?)
    }

    /// A document of the server, at most `most` bytes of it.
    pub(crate) async fn document(
        &self,
        address: &Address,
        most: usize,
    ) -> Result<Vec<u8>, UpdateError> {
        Ok(self.fetcher.fetch_document(address, most, self.patience).await?)
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    fn downloads(&self) -> Folder {
        Folder::at(self.folder.join(DOWNLOADS))
    }

    fn order(&self, package: &Package) -> Result<FileOrder, UpdateError> {
        Ok(FileOrder {
            address: self.beside(&package.file)?,
            bytes: package.bytes,
            sha256: package.sha256.clone(),
        })
    }
}

impl Claim {
    /// Notes a list that was taken.
    pub(crate) fn note(&self, serial: u64, checked: u64) -> Result<(), SeenError> {
        self.0.note(serial, checked)
    }

    /// Notes when the newest list of models was written that was taken.
    pub(crate) fn note_models(&self, written: u64) -> Result<(), SeenError> {
        self.0.note_models(written)
    }
}
