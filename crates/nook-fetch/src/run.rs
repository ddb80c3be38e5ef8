//! Taking a file from one server: asking, taking bytes, and trying again.
//!
//! A [`Run`] makes tries: ask (`redirects`, `answer`), take bytes (`part`), and on trouble that may
//! pass wait and try again from where the bytes end. `fetching` starts it with what an earlier run
//! has left and gets that back when it ends without the whole file.

use reqwest::header::{IF_RANGE, LOCATION, RANGE};
use reqwest::{Response, StatusCode, Url};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::answer::{self, Linked, Passing, Received, Verdict, Version};
use crate::client::{plain, untrusted};
use crate::error::FetchError;
use crate::fetching::Fetcher;
use crate::held::Held;
use crate::limits::{Limits, REDIRECTS_MAX, WRITE_BYTES};
use crate::part::{Part, Whole};
use crate::progress::{Phase, Progress};
use crate::redirects::follow;

/// How every GGUF file begins.
const MAGIC: &[u8] = b"GGUF";

/// What a file must look like, whoever has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Its first bytes: networks that want a log-in answer everything with a page.
    begins: &'static [u8],
    /// Its length, where it is known before anybody is asked.
    bytes: Option<u64>,
    /// Most bytes of it.
    bytes_max: u64,
}

impl Shape {
    /// That of a model file.
    pub(crate) fn model(limits: &Limits) -> Self {
        Self { begins: MAGIC, bytes: None, bytes_max: limits.file_bytes_max }
    }

    /// That of any file of this length.
    pub(crate) fn of_bytes(bytes: u64) -> Self {
        Self { begins: &[], bytes: Some(bytes), bytes_max: bytes }
    }
}

/// How a try ended that was not the last.
#[derive(Debug)]
enum Tried {
    /// Every byte is there.
    Done,
    /// It may go better with another try.
    Again(Passing),
}

/// What asking came to.
enum Asked {
    Answer {
        response: Box<Response>,
        linked: Linked,
    },
    Again(Passing),
    /// The origin says, before any byte, that it has another version now.
    Changed,
}

/// A download under way at one server.
pub(crate) struct Run<'a> {
    fetcher: &'a Fetcher,
    url: &'a Url,
    /// Digest that the file must have.
    expected: Option<&'a str>,
    shape: Shape,
    tries_max: u32,
    stop: &'a CancellationToken,
    told: &'a watch::Sender<Progress>,
    held: Held,
    /// Digest that the server itself names.
    named: Option<String>,
}

/// A run that ended without the whole file.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) error: FetchError,
    /// What came, durable; absent where it was deleted.
    pub(crate) part: Option<Part>,
    /// Digest that the server itself named.
    pub(crate) named: Option<String>,
}

impl From<FetchError> for Box<Ended> {
    fn from(error: FetchError) -> Self {
        Self::new(Ended { error, part: None, named: None })
    }
}

impl<'a> Run<'a> {
    /// A run that asks `url`, at most `tries_max` times without anything new.
    pub(crate) fn new(
        fetcher: &'a Fetcher,
        url: &'a Url,
        (expected, shape): (Option<&'a str>, Shape),
        tries_max: u32,
        stop: &'a CancellationToken,
        told: &'a watch::Sender<Progress>,
    ) -> Self {
        let (held, named) = (Held::default(), None);
        Self { fetcher, url, expected, shape, tries_max, stop, told, held, named }
    }

    /// Goes on from `part` to the whole, checked file.
    pub(crate) async fn finish(mut self, part: Part) -> Result<Whole, Box<Ended>> {
        self.held = Held::of(part);
        if let Err(error) = self.load().await {
            let (error, part) = self.held.kept(error).await;
            return Err(Box::new(Ended { error, part, named: self.named }));
        }
        tell(self.told, |progress| progress.phase = Phase::Finishing);
        let finished = self.held.finish(self.expected).await;
        finished.map_err(|error| Box::new(Ended { error, part: None, named: self.named }))
    }

    /// Tries until every byte is there.
    async fn load(&mut self) -> Result<(), FetchError> {
        let pace = self.fetcher.limits.pace;
        let (mut furthest, mut tries) = (self.written(), 0);
        loop {
            let Passing { why, wait } = match self.attempt().await? {
                Tried::Done => return Ok(()),
                Tried::Again(passing) => passing,
            };
            if self.written() > furthest {
                (furthest, tries) = (self.written(), 0);
            }
            tries += 1;
            if tries >= self.tries_max {
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
            Asked::Again(passing) => return Ok(Tried::Again(passing)),
            Asked::Changed => return self.anew("the file on the server has changed").await,
        };
        let (status, host, server) = (response.status(), self.host(), self.server());
        let fields = response.headers();
        let received = Received { status, fields, linked: &linked, server: &server };
        match answer::read(received, asked_from) {
            Verdict::Bytes(head) => {
                self.check(&head.version)?;
                let is_same = self.version().is_some_and(|known| known.is_same(&head.version));
                if head.from > 0 && !is_same {
                    return self.anew("the file on the server has changed").await;
                }
                if head.from == 0 && asked_from > 0 {
                    self.held.visit(Part::empty).await?;
                }
                self.held.visit(move |part| part.begin(head.version)).await?;
                self.held.has_room(self.fetcher).await?;
                self.take(*response).await
            }
            Verdict::Complete(version) => {
                self.check(&version)?;
                if self.version().is_some_and(|known| known.is_same(&version)) {
                    return Ok(Tried::Done);
                }
                self.anew("the file on the server has changed").await
            }
            Verdict::Anew(why) => self.anew(why).await,
            Verdict::Later(passing) => Ok(Tried::Again(passing)),
            Verdict::NotThere => Err(FetchError::NotThere { host, status: status.as_u16() }),
            Verdict::Refused => Err(FetchError::Refused { host, status: status.as_u16() }),
            Verdict::Unexpected => Err(FetchError::Unexpected { host, status: status.as_u16() }),
        }
    }

    /// Asks for everything from `from` on, wherever the origin sends the question.
    async fn ask(&mut self, from: u64) -> Result<Asked, FetchError> {
        let (mut url, mut linked): (Url, Option<Linked>) = (self.url.clone(), None);
        for _ in 0..=REDIRECTS_MAX {
            let mut request = self.fetcher.clients.of(&url)?.get(url.clone());
            if from > 0 {
                request = request.header(RANGE, format!("bytes={from}-"));
                if let Some(mark) = self.mark() {
                    request = request.header(IF_RANGE, mark);
                }
            }
            let response = match timeout(self.fetcher.limits.pace.stall, request.send()).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => match untrusted(&error) {
                    Some(reason) => {
                        let host = url.host_str().unwrap_or_default().to_owned();
                        return Err(FetchError::Untrusted { host, reason });
                    }
                    None => return Ok(Asked::Again(Passing::of(plain(&error)))),
                },
                Err(_) => {
                    return Ok(Asked::Again(Passing::of("the server did not answer")));
                }
            };
            // Only the origin speaks for the file, not whoever it hands the download to.
            let is_origin = url.origin() == self.url.origin();
            let said = Linked::read(response.headers());
            if is_origin && said.sha256.is_some() && linked.is_none() {
                self.named.clone_from(&said.sha256);
                let before = self.version().and_then(|known| known.sha256.as_ref());
                let has_changed = before.is_some() && before != said.sha256.as_ref();
                if from > 0 && has_changed && !self.is_another(&said) {
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

    /// Takes bytes until they end.
    async fn take(&mut self, mut response: Response) -> Result<Tried, FetchError> {
        let mut gathered = Vec::with_capacity(WRITE_BYTES);
        let bytes = self.version().and_then(|version| version.bytes);
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
                next = timeout(self.fetcher.limits.pace.stall, response.chunk()) => next,
            };
            match next {
                Ok(Ok(Some(chunk))) => {
                    gathered.extend_from_slice(&chunk);
                    let have = self.written().saturating_add(gathered.len() as u64);
                    self.is_not_too_long(have, bytes).await?;
                    if gathered.len() >= WRITE_BYTES {
                        let synced = self.held.synced();
                        self.put(&mut gathered).await?;
                        if self.held.synced() > synced {
                            self.held.has_room(self.fetcher).await?;
                        }
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
            None => Ok(Tried::Again(Passing::of("the server stopped early"))),
            Some(why) => Ok(Tried::Again(Passing::of(why))),
        }
    }

    /// Ends with what came deleted once it is more than was promised, or without a promise more
    /// than is taken of any file.
    async fn is_not_too_long(&mut self, have: u64, bytes: Option<u64>) -> Result<(), FetchError> {
        let most = bytes.unwrap_or(self.shape.bytes_max);
        if have <= most {
            return Ok(());
        }
        self.held.discard().await?;
        Err(match bytes {
            Some(bytes) => FetchError::TooLong { host: self.host(), bytes },
            None => FetchError::TooLarge { bytes: have, most },
        })
    }

    /// Writes what was gathered. The first bytes must be those of such a file.
    async fn put(&mut self, gathered: &mut Vec<u8>) -> Result<(), FetchError> {
        if gathered.is_empty() {
            return Ok(());
        }
        let is_start = self.written() == 0;
        let magic = self.shape.begins;
        let begins = gathered.get(..magic.len().min(gathered.len())).unwrap_or_default();
        if is_start && !magic.starts_with(begins) {
            self.held.discard().await?;
            return Err(FetchError::NotGguf { host: self.host() });
        }
        let bytes = std::mem::replace(gathered, Vec::with_capacity(WRITE_BYTES));
        self.held.visit(move |part| part.append(&bytes)).await
    }

    /// What the server says of the file must be possible, and the file that is meant.
    fn check(&self, version: &Version) -> Result<(), FetchError> {
        let most = self.shape.bytes_max;
        if let Some(bytes) = version.bytes.filter(|bytes| *bytes > most) {
            return Err(FetchError::TooLarge { bytes, most });
        }
        if let (Some(expected), Some(found)) = (self.shape.bytes, version.bytes)
            && expected != found
        {
            let said = |bytes: u64| format!("{bytes} bytes");
            let (expected, found) = (said(expected), said(found));
            return Err(FetchError::NotTheOne { host: self.host(), expected, found });
        }
        match (self.expected, &version.sha256) {
            (Some(expected), Some(found)) if expected != found => Err(FetchError::NotTheOne {
                host: self.host(),
                expected: expected.to_owned(),
                found: found.clone(),
            }),
            _ => Ok(()),
        }
    }

    async fn anew(&mut self, why: &str) -> Result<Tried, FetchError> {
        self.held.visit(Part::empty).await?;
        Ok(Tried::Again(Passing::of(why)))
    }

    fn written(&self) -> u64 {
        self.held.written()
    }

    /// Which version of the file the bytes that are here belong to.
    fn version(&self) -> Option<&Version> {
        self.held.version()
    }

    /// What makes this server send the whole file when it has another one by now. With a digest the
    /// origin's word decides, and its storage has tags of its own.
    fn mark(&self) -> Option<&str> {
        let known = self.version().filter(|known| known.sha256.is_none())?;
        let is_its_own = known.server.as_deref() == Some(self.server().as_str());
        known.validator.as_deref().filter(|_| is_its_own)
    }

    /// Whether the server speaks of a file that is not the one that is meant, so that what is here
    /// is not to be given up for it.
    fn is_another(&self, said: &Linked) -> bool {
        self.expected.is_some_and(|expected| said.sha256.as_deref() != Some(expected))
    }

    fn host(&self) -> String {
        self.url.host_str().unwrap_or_default().to_owned()
    }

    fn server(&self) -> String {
        server_of(self.url)
    }
}

/// Which server an address leads to, for what it says of its files.
pub(crate) fn server_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

pub(crate) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Tells also where nobody listens yet.
fn tell(told: &watch::Sender<Progress>, change: impl FnOnce(&mut Progress)) {
    told.send_modify(change);
}
