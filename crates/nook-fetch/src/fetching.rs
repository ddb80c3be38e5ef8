//! One download, from the first question to the checked file.
//!
//! A [`Fetcher`] asks the servers that may have a file one after another; a [`Run`] takes it from
//! one of them. What came from one server is gone on with at the next where a digest says that it
//! is the same file, and what a server that comes first says of the file binds those behind it.
//! Only the network is waited for here; the disk is visited on threads that may wait. Cancelling
//! the token ends a download within one visit to the disk, with everything that came in the file.

use std::sync::Arc;

use reqwest::Url;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::client::Clients;
use crate::error::FetchError;
use crate::folder::{FileKey, Folder, Slot};
use crate::limits::Limits;
use crate::part::{Left, Part, Whole};
use crate::progress::Progress;
use crate::room::Room;
use crate::run::{Ended, Run, Shape, server_of};
use crate::seam::Join;
use crate::source::{Hubs, Source};

/// What is to be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Where it is.
    pub source: Source,
    /// What it must be.
    pub pin: Pin,
}

/// What is known of a file before anybody was asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pin {
    /// Digest of the whole file, hexadecimal in small letters. It wins over what the server says.
    pub sha256: Option<String>,
}

/// A whole file, in its folder and still held.
#[derive(Debug)]
pub struct Fetched {
    /// Its place; [`Slot::discard`] it once the file was taken away.
    pub slot: Slot,
    /// Where it lies.
    pub path: std::path::PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Its digest, hexadecimal.
    pub sha256: String,
    /// Whether that was compared with one that the catalogue or the publisher's server names. Where
    /// it was not, only the length is known to be right.
    pub verified: bool,
    /// The commit of the repository that has it, where the server says so.
    pub commit: Option<String>,
}

/// Fetches files. Cloning gives another handle to the same clients.
#[derive(Debug, Clone)]
pub struct Fetcher {
    pub(crate) clients: Arc<Clients>,
    pub(crate) hubs: Hubs,
    pub(crate) limits: Limits,
    pub(crate) room: Arc<dyn Room>,
    /// How pieces become one file; absent where only whole files are fetched.
    pub(crate) join: Option<Join>,
}

/// What one download works with.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) folder: &'a Folder,
    /// Its place in the folder, and how the source is written.
    pub(crate) name: (&'a FileKey, &'a str),
    pub(crate) shape: Shape,
    pub(crate) stop: &'a CancellationToken,
    pub(crate) told: &'a watch::Sender<Progress>,
}

impl Fetcher {
    /// A fetcher with `hubs` behind `hf:`. Nothing is asked yet.
    #[must_use]
    pub fn new(hubs: Hubs, limits: Limits, room: Arc<dyn Room>) -> Self {
        Self { clients: Arc::new(Clients::new(&limits.pace)), hubs, limits, room, join: None }
    }

    /// One that fetches models in several files too: `join` says how they become one.
    #[must_use]
    pub fn joining(self, join: Join) -> Self {
        Self { join: Some(join), ..self }
    }

    /// Fetches `order` into `folder`, going on where an earlier run ended. `told` hears how far it
    /// is.
    ///
    /// Ends early with what stands in [`FetchError`], or with [`FetchError::Stopped`] once `stop`
    /// is cancelled; what was loaded then stays, unless the error says otherwise.
    pub async fn fetch(
        &self,
        folder: &Folder,
        order: &Order,
        stop: &CancellationToken,
        told: &watch::Sender<Progress>,
    ) -> Result<Fetched, FetchError> {
        let (key, text) = (order.source.key(), order.source.to_string());
        let shape = Shape::model(&self.limits);
        let desk = Desk { folder, name: (&key, &text), shape, stop, told };
        let pieces = order.source.pieces();
        if !pieces.is_empty() {
            return self.fetch_pieces(desk, order, &pieces).await;
        }
        self.fetch_from(desk, order.source.urls(&self.hubs), order.pin.sha256.clone()).await
    }

    /// Takes one file from the first of `urls` that gives it.
    pub(crate) async fn fetch_from(
        &self,
        desk: Desk<'_>,
        urls: Vec<Url>,
        mut expected: Option<String>,
    ) -> Result<Fetched, FetchError> {
        let told = desk.told;
        let last = urls.len().saturating_sub(1);
        let (mut kept, mut errors, mut asked) = (None, Vec::new(), Vec::new());
        for (place, url) in urls.into_iter().enumerate() {
            let pace = self.limits.pace;
            let tries_max = if place == last { pace.tries_max } else { pace.tries_before_next };
            let ended = match self.at(desk, kept.take(), &url, expected.as_deref(), tries_max).await
            {
                Ok(fetched) => return Ok(fetched),
                Err(ended) => *ended,
            };
            let Ended { error, part, named } = ended;
            if !error.is_of_the_server() {
                return Err(error);
            }
            asked.push(server_of(&url));
            // The word of a server whose own file is not what it says binds nobody.
            if !matches!(error, FetchError::Digest { .. }) {
                let before = part.as_ref().and_then(|part| part.digest_by(&asked));
                expected = expected.or(named).or(before);
            }
            kept = part;
            if place < last {
                tracing::info!(download = desk.name.0.as_str(), %error, "asks the next server");
                told.send_modify(|progress| progress.trouble = Some(error.to_string()));
            }
            errors.push(error);
        }
        Err(match errors.len() {
            0 | 1 => errors.pop().unwrap_or(FetchError::Lost),
            _ => FetchError::Nowhere { errors },
        })
    }

    /// Takes the file from `url`, going on with `part` where there is one.
    pub(crate) async fn at(
        &self,
        desk: Desk<'_>,
        mut part: Option<Part>,
        url: &Url,
        expected: Option<&str>,
        tries_max: u32,
    ) -> Result<Fetched, Box<Ended>> {
        loop {
            let part = match part.take() {
                Some(part) => part,
                None => match self.open_for(desk).await? {
                    Left::Whole(whole) => return judged(whole, expected).map_err(Box::from),
                    Left::Part(part) => part,
                },
            };
            let is_mixed = part.written() > 0 && part.digest_by(&[server_of(url)]).is_none();
            let run = Run::new(self, url, (expected, desk.shape), tries_max, desk.stop, desk.told);
            match run.finish(part).await {
                // What was here before may be what was wrong, and is deleted: once more from the
                // beginning.
                Err(ended) if is_mixed && matches!(ended.error, FetchError::Digest { .. }) => {}
                ended => return ended.map(|whole| fetched(whole, expected.is_some())),
            }
        }
    }

    pub(crate) async fn open_for(&self, desk: Desk<'_>) -> Result<Left, FetchError> {
        let Desk { folder, name: (key, text), stop, told, .. } = desk;
        self.open(folder, key.clone(), text.to_owned(), stop, told).await
    }

    /// What an earlier run has left of the source that is written `text`.
    pub(crate) async fn open(
        &self,
        folder: &Folder,
        key: FileKey,
        text: String,
        stop: &CancellationToken,
        told: &watch::Sender<Progress>,
    ) -> Result<Left, FetchError> {
        let folder = folder.clone();
        let (stop, told, every) = (stop.clone(), told.clone(), self.limits.sync_every_bytes);
        let opened = spawn_blocking(move || {
            let slot = folder.claim(&key)?;
            let tell = |have| told.send_modify(|progress| progress.have = have);
            Part::open(slot, &text, every, &stop, tell)
        });
        opened.await.map_err(|_| FetchError::Lost)?
    }
}

/// A file that was whole already, as an earlier run left it.
pub(crate) fn judged(whole: Whole, expected: Option<&str>) -> Result<Fetched, FetchError> {
    match expected {
        Some(expected) if *expected != whole.sha256 => {
            let (expected, found) = (expected.to_owned(), whole.sha256.clone());
            whole.slot.discard()?;
            Err(FetchError::Digest { expected, found })
        }
        expected => Ok(fetched(whole, expected.is_some())),
    }
}

/// `is_expected`: whether it was compared with what was known before.
pub(crate) fn fetched(whole: Whole, is_expected: bool) -> Fetched {
    let Whole { slot, path, bytes, sha256, version } = whole;
    let verified = is_expected || version.sha256.is_some();
    Fetched { slot, path, bytes, sha256, verified, commit: version.commit }
}
