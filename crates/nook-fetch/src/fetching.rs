//! One download, from the first question to the checked file.
//!
//! A [`Fetcher`] runs tries: ask (`redirects`, `answer`), take bytes (`part`), and on trouble that may
//! pass wait and try again from where the bytes end. Only the network is waited for here; the disk is
//! visited on threads that may wait. Cancelling the token ends a download within one visit to the
//! disk, with everything that came in the file.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{IF_RANGE, LOCATION, RANGE};
use reqwest::{Response, StatusCode, Url};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::answer::{self, Linked, Verdict, Version};
use crate::client::{Clients, plain, untrusted};
use crate::error::FetchError;
use crate::folder::{Folder, Slot};
use crate::limits::{DISK_RESERVE_BYTES, FILE_BYTES_MAX, Pace, REDIRECTS_MAX, WRITE_BYTES};
use crate::part::{Left, Part, Whole};
use crate::progress::{Phase, Progress};
use crate::redirects::follow;
use crate::room::Room;
use crate::source::{Hub, Source};

/// How every GGUF file begins.
const MAGIC: &[u8] = b"GGUF";

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
    /// Whether that was compared with one that the catalogue or the publisher's server names. Where it
    /// was not, only the length is known to be right.
    pub verified: bool,
    /// The commit of the repository that has it, where the server says so.
    pub commit: Option<String>,
}

/// Fetches files. Cloning gives another handle to the same clients.
#[derive(Debug, Clone)]
pub struct Fetcher {
    clients: Arc<Clients>,
    hub: Hub,
    pace: Pace,
    room: Arc<dyn Room>,
}

/// How a try ended that was not the last.
#[derive(Debug)]
enum Tried {
    /// Every byte is there.
    Done,
    /// It may go better with another try.
    Again { why: String, wait: Option<Duration> },
}

/// What asking came to.
enum Asked {
    Answer {
        response: Box<Response>,
        linked: Linked,
    },
    Again {
        why: String,
        wait: Option<Duration>,
    },
    /// The origin says, before any byte, that it has another version now.
    Changed,
}

/// One download under way.
struct Run<'a> {
    fetcher: &'a Fetcher,
    order: &'a Order,
    url: Url,
    stop: &'a CancellationToken,
    told: &'a watch::Sender<Progress>,
    /// Away while it visits the disk.
    part: Option<Part>,
}

impl Fetcher {
    /// A fetcher with `hub` behind `hf:`. Nothing is asked yet.
    #[must_use]
    pub fn new(hub: Hub, pace: Pace, room: Arc<dyn Room>) -> Self {
        Self { clients: Arc::new(Clients::new(&pace)), hub, pace, room }
    }

    /// Fetches `order` into `folder`, going on where an earlier run ended. `told` hears how far it is.
    ///
    /// Ends early with what stands in [`FetchError`], or with [`FetchError::Stopped`] once `stop` is
    /// cancelled; what was loaded then stays, unless the error says otherwise.
    pub async fn fetch(
        &self,
        folder: &Folder,
        order: &Order,
        stop: &CancellationToken,
        told: &watch::Sender<Progress>,
    ) -> Result<Fetched, FetchError> {
        let part = match self.open(folder, order, stop, told).await? {
            Left::Whole(whole) => return judged(whole, order),
            Left::Part(part) => Some(part),
        };
        let url = order.source.url(&self.hub);
        let mut run = Run { fetcher: self, order, url, stop, told, part };
        let loaded = run.load().await;
        if let Err(error) = loaded {
            // What came is durable before anybody is told that it is kept.
            let kept = run.on_disk(Part::keep).await;
            return Err(match error {
                FetchError::Stopped => kept.err().unwrap_or(FetchError::Stopped),
                error => error,
            });
        }
        tell(told, |progress| progress.phase = Phase::Finishing);
        let part = run.part.take().ok_or(FetchError::Lost)?;
        let expected = order.pin.sha256.clone();
        let finished = spawn_blocking(move || part.finish(expected.as_deref())).await;
        finished.map_err(|_| FetchError::Lost)?.map(|whole| fetched(whole, order))
    }

    async fn open(
        &self,
        folder: &Folder,
        order: &Order,
        stop: &CancellationToken,
        told: &watch::Sender<Progress>,
    ) -> Result<Left, FetchError> {
        let (folder, key, text) = (folder.clone(), order.source.key(), order.source.to_string());
        let (stop, told) = (stop.clone(), told.clone());
        let opened = spawn_blocking(move || {
            let slot = folder.claim(&key)?;
            Part::open(slot, &text, &stop, |have| tell(&told, |progress| progress.have = have))
        });
        opened.await.map_err(|_| FetchError::Lost)?
    }
}

impl Run<'_> {
    /// Tries until every byte is there.
    async fn load(&mut self) -> Result<(), FetchError> {
        let pace = self.fetcher.pace;
        let (mut furthest, mut tries) = (self.written(), 0);
        loop {
            let (why, wait) = match self.attempt().await? {
                Tried::Done => return Ok(()),
                Tried::Again { why, wait } => (why, wait),
            };
            if self.written() > furthest {
                (furthest, tries) = (self.written(), 0);
            }
            tries += 1;
            if tries >= pace.tries_max {
                return Err(FetchError::GaveUp { host: self.host(), tries, last: why });
            }
            tracing::debug!(tries, why, "a download tries again");
            let have = self.written();
            tell(self.told, |progress| {
                *progress = Progress {
                    phase: Phase::Waiting,
                    have,
                    bytes: progress.bytes,
                    trouble: Some(why),
                };
            });
            let wait = wait.unwrap_or_default().max(pace.wait(tries));
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(FetchError::Stopped),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// One question and its answer.
    async fn attempt(&mut self) -> Result<Tried, FetchError> {
        let asked_from = self.written();
        tell(self.told, |progress| {
            (progress.phase, progress.have) = (Phase::Asking, asked_from);
        });
        let stop = self.stop;
        let asked = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(FetchError::Stopped),
            asked = self.ask(asked_from) => asked?,
        };
        let (response, linked) = match asked {
            Asked::Answer { response, linked } => (response, linked),
            Asked::Again { why, wait } => return Ok(Tried::Again { why, wait }),
            Asked::Changed => return self.anew("the file on the server has changed").await,
        };
        let (status, host) = (response.status(), self.host());
        match answer::read(status, response.headers(), &linked, asked_from) {
            Verdict::Bytes(head) => {
                self.check(&head.version)?;
                let known = self.part.as_ref().and_then(Part::version);
                let is_same = known.is_some_and(|known| known.is_same(&head.version));
                if head.from > 0 && !is_same {
                    return self.anew("the file on the server has changed").await;
                }
                if head.from == 0 && asked_from > 0 {
                    self.on_disk(Part::empty).await?;
                }
                self.has_room(&head.version, head.from).await?;
                let bytes = head.version.bytes;
                self.on_disk(move |part| part.begin(head.version)).await?;
                self.take(*response, bytes).await
            }
            Verdict::Complete(version) => {
                let known = self.part.as_ref().and_then(Part::version);
                if known.is_some_and(|known| known.is_same(&version)) {
                    return Ok(Tried::Done);
                }
                self.anew("the file on the server has changed").await
            }
            Verdict::Anew(why) => self.anew(why).await,
            Verdict::Later { why, wait } => Ok(Tried::Again { why, wait }),
            Verdict::NotThere => Err(FetchError::NotThere { host, status: status.as_u16() }),
            Verdict::Refused => Err(FetchError::Refused { host, status: status.as_u16() }),
            Verdict::Unexpected => Err(FetchError::Unexpected { host, status: status.as_u16() }),
        }
    }

    /// Asks for everything from `from` on, wherever the origin sends the question.
    async fn ask(&self, from: u64) -> Result<Asked, FetchError> {
        let known = self.part.as_ref().and_then(Part::version);
        let mut url = self.url.clone();
        let mut linked: Option<Linked> = None;
        for _ in 0..=REDIRECTS_MAX {
            let mut request = self.fetcher.clients.of(&url)?.get(url.clone());
            if from > 0 {
                request = request.header(RANGE, format!("bytes={from}-"));
                // With a digest the origin's word decides, and its storage has tags of its own.
                let mark = known.filter(|known| known.sha256.is_none());
                if let Some(mark) = mark.and_then(|known| known.validator.as_deref()) {
                    request = request.header(IF_RANGE, mark);
                }
            }
            let response = match timeout(self.fetcher.pace.stall, request.send()).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => match untrusted(&error) {
                    Some(reason) => {
                        let host = url.host_str().unwrap_or_default().to_owned();
                        return Err(FetchError::Untrusted { host, reason });
                    }
                    None => return Ok(Asked::Again { why: plain(&error), wait: None }),
                },
                Err(_) => {
                    let why = "the server did not answer".to_owned();
                    return Ok(Asked::Again { why, wait: None });
                }
            };
            // Only the origin speaks for the file, not whoever it hands the download to.
            let is_origin = url.origin() == self.url.origin();
            let said = Linked::read(response.headers());
            if is_origin && said.sha256.is_some() && linked.is_none() {
                let digest = said.sha256.as_ref();
                let before = known.and_then(|known| known.sha256.as_ref());
                if from > 0 && before.is_some() && before != digest {
                    return Ok(Asked::Changed);
                }
                linked = Some(said);
            }
            if !is_redirect(response.status()) {
                let (response, linked) = (Box::new(response), linked.unwrap_or_default());
                return Ok(Asked::Answer { response, linked });
            }
            let refused = |why: String| FetchError::Redirect { host: self.host(), why };
            let location = response.headers().get(LOCATION).and_then(|it| it.to_str().ok());
            let location = location.ok_or_else(|| refused("to no address".to_owned()))?;
            url = follow(&url, location).map_err(refused)?;
        }
        let why = format!("more than {REDIRECTS_MAX} times");
        Err(FetchError::Redirect { host: self.host(), why })
    }

    /// Takes bytes until they end; `bytes` is the length of the whole file.
    async fn take(
        &mut self,
        mut response: Response,
        bytes: Option<u64>,
    ) -> Result<Tried, FetchError> {
        let mut gathered = Vec::with_capacity(WRITE_BYTES);
        let have = self.written();
        tell(self.told, |progress| {
            *progress = Progress { phase: Phase::Loading, have, bytes, trouble: None };
        });
        let broken = loop {
            let next = tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    self.put(&mut gathered).await?;
                    return Err(FetchError::Stopped);
                }
                next = timeout(self.fetcher.pace.stall, response.chunk()) => next,
            };
            match next {
                Ok(Ok(Some(chunk))) => {
                    gathered.extend_from_slice(&chunk);
                    let have = self.written().saturating_add(gathered.len() as u64);
                    if let Some(bytes) = bytes.filter(|bytes| have > *bytes) {
                        self.discard().await?;
                        return Err(FetchError::TooLong { host: self.host(), bytes });
                    }
                    if gathered.len() >= WRITE_BYTES {
                        self.put(&mut gathered).await?;
                    }
                    tell(self.told, |progress| progress.have = have);
                }
                Ok(Ok(None)) => break None,
                Ok(Err(error)) => break Some(plain(&error)),
                Err(_) => break Some("no byte came for too long".to_owned()),
            }
        };
        self.put(&mut gathered).await?;
        let have = self.written();
        match broken {
            _ if bytes == Some(have) => Ok(Tried::Done),
            None if bytes.is_none() => Ok(Tried::Done),
            None => Ok(Tried::Again { why: "the server stopped early".to_owned(), wait: None }),
            Some(why) => Ok(Tried::Again { why, wait: None }),
        }
    }

    /// Writes what was gathered. The first bytes must be those of a model file: networks that want a
    /// log-in answer everything with a page.
    async fn put(&mut self, gathered: &mut Vec<u8>) -> Result<(), FetchError> {
        if gathered.is_empty() {
            return Ok(());
        }
        let is_start = self.written() == 0;
        let begins = gathered.get(..MAGIC.len().min(gathered.len())).unwrap_or_default();
        if is_start && !MAGIC.starts_with(begins) {
            self.discard().await?;
            return Err(FetchError::NotGguf { host: self.host() });
        }
        let bytes = std::mem::replace(gathered, Vec::with_capacity(WRITE_BYTES));
        self.on_disk(move |part| part.append(&bytes)).await
    }

    /// What the server says of the file must be possible, and what the catalogue knows.
    fn check(&self, version: &Version) -> Result<(), FetchError> {
        if let Some(bytes) = version.bytes.filter(|bytes| *bytes > FILE_BYTES_MAX) {
            return Err(FetchError::TooLarge { bytes });
        }
        match (&self.order.pin.sha256, &version.sha256) {
            (Some(expected), Some(found)) if expected != found => Err(FetchError::NotTheOne {
                host: self.host(),
                expected: expected.clone(),
                found: found.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Whether what is still to come leaves the reserve free. Where the system does not say, a full
    /// disk is noticed when it is full.
    async fn has_room(&self, version: &Version, from: u64) -> Result<(), FetchError> {
        let needed = version.bytes.unwrap_or(0).saturating_sub(from);
        let Some(folder) = self.part.as_ref().map(|part| part.folder().to_owned()) else {
            return Err(FetchError::Lost);
        };
        let room = self.fetcher.room.clone();
        let free = spawn_blocking(move || room.free(&folder)).await;
        match free.map_err(|_| FetchError::Lost)? {
            Ok(free) if free < needed.saturating_add(DISK_RESERVE_BYTES) => {
                Err(FetchError::NoRoom { needed, free })
            }
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::debug!(%error, "the system does not say how much room there is");
                Ok(())
            }
        }
    }

    async fn anew(&mut self, why: &str) -> Result<Tried, FetchError> {
        self.on_disk(Part::empty).await?;
        Ok(Tried::Again { why: why.to_owned(), wait: None })
    }

    async fn discard(&mut self) -> Result<(), FetchError> {
        let part = self.part.take().ok_or(FetchError::Lost)?;
        spawn_blocking(move || part.discard()).await.map_err(|_| FetchError::Lost)?
    }

    /// Visits the disk with the part.
    async fn on_disk<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Part) -> Result<T, FetchError> + Send + 'static,
    ) -> Result<T, FetchError> {
        let mut part = self.part.take().ok_or(FetchError::Lost)?;
        let visit = spawn_blocking(move || {
            let outcome = work(&mut part);
            (part, outcome)
        });
        let (part, outcome) = visit.await.map_err(|_| FetchError::Lost)?;
        self.part = Some(part);
        outcome
    }

    fn written(&self) -> u64 {
        self.part.as_ref().map_or(0, Part::written)
    }

    fn host(&self) -> String {
        self.url.host_str().unwrap_or_default().to_owned()
    }
}

/// A file that was whole already, as an earlier run left it.
fn judged(whole: Whole, order: &Order) -> Result<Fetched, FetchError> {
    match &order.pin.sha256 {
        Some(expected) if *expected != whole.sha256 => {
            let (expected, found) = (expected.clone(), whole.sha256.clone());
            whole.slot.discard()?;
            Err(FetchError::Digest { expected, found })
        }
        _ => Ok(fetched(whole, order)),
    }
}

fn fetched(whole: Whole, order: &Order) -> Fetched {
    let Whole { slot, path, bytes, sha256, version } = whole;
    let verified = order.pin.sha256.is_some() || version.sha256.is_some();
    Fetched { slot, path, bytes, sha256, verified, commit: version.commit }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Tells also where nobody listens yet.
fn tell(told: &watch::Sender<Progress>, change: impl FnOnce(&mut Progress)) {
    told.send_modify(change);
}
