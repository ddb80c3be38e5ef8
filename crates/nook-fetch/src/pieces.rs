//! A model in several files: fetched piece by piece, and joined into one.
//!
//! Each piece is a download of its own, with everything that belongs to one: it goes on where it
//! was, and is checked against its publisher's digest. When all are here they become one file, so
//! that nothing behind this knows of pieces. A piece goes as soon as its data are durable there, so
//! beside the model itself the disk needs the room of its largest piece, and a joining that was
//! stopped or killed goes on. *How* they become one is the caller's knowledge: see [`Join`].

use std::path::PathBuf;

use reqwest::Url;
use reqwest::header::{CONTENT_LENGTH, LOCATION};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::answer::{Linked, Version};
use crate::error::FetchError;
use crate::fetching::{Desk, Fetched, Fetcher, Order, fetched, judged};
use crate::folder::FileKey;
use crate::held::Held;
use crate::limits::{DISK_RESERVE_BYTES, REDIRECTS_MAX};
use crate::part::{Left, Part, is_whole};
use crate::progress::{Phase, Progress};
use crate::redirects::follow;
use crate::run::is_redirect;
use crate::seam::{Join, Joining, Seam};
use crate::source::Source;

/// Bytes that are joined between two looks whether to stop.
const JOIN_BYTES: u64 = 16 << 20;

/// All pieces, whole.
struct Loaded {
    paths: Vec<PathBuf>,
    verified: bool,
    commit: Option<String>,
}

/// What is known of a piece before it is loaded.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Bytes that are here.
    have: u64,
    /// Its length, where the server says.
    bytes: Option<u64>,
}

/// The pieces of one model.
#[derive(Clone, Copy)]
pub(crate) struct Pieces<'a> {
    desk: Desk<'a>,
    sources: &'a [Source],
    join: Join,
}

impl Fetcher {
    /// Fetches all pieces of `order` and joins them.
    pub(crate) async fn fetch_pieces(
        &self,
        desk: Desk<'_>,
        order: &Order,
        sources: &[Source],
    ) -> Result<Fetched, FetchError> {
        let join = self.join.ok_or_else(|| {
            let reason = "this program takes models in one file only".to_owned();
            FetchError::Pieces { reason }
        })?;
        let expected = order.pin.sha256.as_deref();
        let part = match self.open_for(desk).await? {
            Left::Part(part) => part,
            Left::Whole(whole) => {
                let seam = whole.slot.seam();
                let seam = spawn_blocking(move || Seam::read(&seam)).await.ok().flatten();
                let verified = seam.is_some_and(|seam| seam.verified);
                return judged(whole, expected)
                    .map(|it| Fetched { verified: it.verified || verified, ..it });
            }
        };
        let mut held = Held::of(part);
        let pieces = Pieces { desk, sources, join };
        let seam = match self.bring_together(pieces, &mut held).await {
            Ok(seam) => seam,
            Err(error) => return Err(held.kept(error).await.0),
        };
        let whole = held.finish(expected).await?;
        let joined = fetched(whole, expected.is_some());
        Ok(Fetched { verified: joined.verified || seam.verified, ..joined })
    }

    async fn bring_together(
        &self,
        pieces: Pieces<'_>,
        held: &mut Held,
    ) -> Result<Seam, FetchError> {
        let seam = match held.visit(|part| Ok(Seam::of(part))).await? {
            Some(seam) => seam,
            None => {
                let loaded = self.load(pieces).await?;
                begin(pieces.join, loaded, held).await?
            }
        };
        self.join(pieces.desk, held, &seam).await?;
        Ok(seam)
    }

    /// Loads what is missing of each piece, one after the other.
    async fn load(&self, pieces: Pieces<'_>) -> Result<Loaded, FetchError> {
        let Pieces { desk, sources, .. } = pieces;
        let known = self.look(pieces).await?;
        let mut loaded = Loaded { paths: Vec::new(), verified: true, commit: None };
        let mut done = 0u64;
        for (number, source) in (1..).zip(sources) {
            let (key, text) = (desk.name.0.piece(number), source.to_string());
            let (tell, heard) = watch::channel(Progress::default());
            let own = Desk { name: (&key, &text), told: &tell, ..desk };
            let bytes = total(&known);
            let retold = retell(heard, desk.told, (done, bytes));
            // Of the commit that the first one came from: versions never mix.
            let at = loaded.commit.as_deref().map_or_else(|| source.clone(), |it| source.at(it));
            let piece = tokio::select! {
                biased;
                piece = self.fetch_from(own, at.urls(&self.hubs), None) => piece?,
                () = retold => return Err(FetchError::Lost),
            };
            done = done.saturating_add(piece.bytes);
            loaded.verified &= piece.verified;
            loaded.commit = loaded.commit.or(piece.commit);
            loaded.paths.push(piece.path);
        }
        Ok(loaded)
    }

    /// What is here of each piece and how long it is, and whether all of it may come.
    async fn look(&self, pieces: Pieces<'_>) -> Result<Vec<Known>, FetchError> {
        let Pieces { desk, sources, .. } = pieces;
        let mut known = Vec::with_capacity(sources.len());
        for (number, source) in (1..).zip(sources) {
            let here = here(desk, desk.name.0.piece(number), source.to_string()).await?;
            known.push(here);
        }
        desk.told.send_modify(|progress| {
            progress.phase = Phase::Asking;
            progress.have = known.iter().map(|piece| piece.have).sum();
        });
        for (piece, source) in known.iter_mut().zip(sources) {
            if piece.bytes.is_none() {
                piece.bytes = tokio::select! {
                    biased;
                    () = desk.stop.cancelled() => return Err(FetchError::Stopped),
                    bytes = self.length(source) => bytes?,
                };
            }
            if piece.bytes.is_none() {
                // Without one of them the sum is not known, and whoever does not say one may take
                // long not to say each of the others.
                break;
            }
        }
        let Some(bytes) = total(&known) else { return Ok(known) };
        let most = self.limits.file_bytes_max;
        if bytes > most {
            return Err(FetchError::TooLarge { bytes, most });
        }
        let have: u64 = known.iter().map(|piece| piece.have).sum();
        let largest = known.iter().filter_map(|piece| piece.bytes).max().unwrap_or(0);
        self.has_room(desk, bytes.saturating_sub(have).saturating_add(largest)).await?;
        Ok(known)
    }

    /// How long a file is, where a server says so at once. Whoever takes it finds out anyhow.
    async fn length(&self, source: &Source) -> Result<Option<u64>, FetchError> {
        for url in source.urls(&self.hubs) {
            if let Some(bytes) = self.length_at(&url).await? {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    async fn length_at(&self, origin: &Url) -> Result<Option<u64>, FetchError> {
        let mut url = origin.clone();
        for _ in 0..=REDIRECTS_MAX {
            let request = self.clients.of(&url)?.head(url.clone());
            let Ok(Ok(response)) = timeout(self.limits.pace.stall, request.send()).await else {
                return Ok(None);
            };
            let fields = response.headers();
            let linked = Linked::read(fields).bytes.filter(|_| url.origin() == origin.origin());
            if linked.is_some() {
                return Ok(linked);
            }
            let text = |name| fields.get(name).and_then(|value| value.to_str().ok());
            if !is_redirect(response.status()) {
                let length = text(CONTENT_LENGTH).filter(|_| response.status().is_success());
                return Ok(length.and_then(|length| length.parse().ok()));
            }
            match text(LOCATION).and_then(|location| follow(&url, location).ok()) {
                Some(next) => url = next,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Whether so many bytes more leave the reserve free, where the system says.
    async fn has_room(&self, desk: Desk<'_>, needed: u64) -> Result<(), FetchError> {
        let (folder, room) = (desk.folder.path().to_owned(), self.room.clone());
        let free =
            spawn_blocking(move || room.free(&folder)).await.map_err(|_| FetchError::Lost)?;
        match free {
            Ok(free) if free < needed.saturating_add(DISK_RESERVE_BYTES) => {
                Err(FetchError::NoRoom { needed, free })
            }
            _ => Ok(()),
        }
    }

    /// Joins from where an earlier run ended.
    async fn join(&self, desk: Desk<'_>, held: &mut Held, seam: &Seam) -> Result<(), FetchError> {
        let bytes = Some(seam.bytes());
        for ((number, data), end) in (1..).zip(&seam.data).zip(seam.ends()) {
            let key = desk.name.0.piece(number);
            if held.written() < end {
                self.has_room(desk, end.saturating_sub(held.written())).await?;
            }
            while held.written() < end {
                if desk.stop.is_cancelled() {
                    return Err(FetchError::Stopped);
                }
                let have = held.written();
                desk.told.send_modify(|progress| {
                    *progress = Progress { phase: Phase::Finishing, have, bytes, trouble: None };
                });
                let path = desk.folder.whole_of(&key);
                let data = data.clone();
                let joined = held.visit(move |part| {
                    if !path.is_file() {
                        // Somebody deleted it: all of it comes anew.
                        part.empty()?;
                        return Err(FetchError::Lost);
                    }
                    Seam::append(part, &path, (&data, end), JOIN_BYTES)
                });
                joined.await?;
            }
            if held.synced() < end {
                held.visit(Part::keep).await?;
            }
            let folder = desk.folder.clone();
            let gone = spawn_blocking(move || folder.discard(&key)).await;
            gone.map_err(|_| FetchError::Lost)??;
        }
        Ok(())
    }
}

/// Plans the whole file and writes what stands first in it.
async fn begin(join: Join, loaded: Loaded, held: &mut Held) -> Result<Seam, FetchError> {
    let Loaded { paths, verified, commit } = loaded;
    held.visit(move |part| {
        let planned = join(&paths);
        let joining: Joining = planned.map_err(|reason| FetchError::Pieces { reason })?;
        let seam = Seam::new(&joining, verified, commit);
        let version = Version {
            validator: Some(seam.mark.clone()),
            bytes: Some(seam.bytes()),
            commit: seam.commit.clone(),
            ..Version::default()
        };
        part.empty()?;
        seam.write(&part.slot().seam())?;
        part.begin(version)?;
        part.append(&joining.header)?;
        part.keep()?;
        Ok(seam)
    })
    .await
}

/// What is here of a piece.
async fn here(desk: Desk<'_>, key: FileKey, text: String) -> Result<Known, FetchError> {
    let folder = desk.folder.clone();
    let looked = spawn_blocking(move || {
        let have = folder.bytes_of(&key);
        let (note, whole) = (folder.note_of(&key), folder.whole_of(&key));
        Known { have, bytes: is_whole(&note, &whole, &text).then_some(have) }
    });
    looked.await.map_err(|_| FetchError::Lost)
}

/// Bytes of all pieces together, once each is known.
fn total(known: &[Known]) -> Option<u64> {
    known.iter().map(|piece| piece.bytes).sum()
}

/// Tells `to` how far the whole is, from what is `heard` of one piece behind `done` bytes.
async fn retell(
    mut heard: watch::Receiver<Progress>,
    to: &watch::Sender<Progress>,
    (done, bytes): (u64, Option<u64>),
) {
    while heard.changed().await.is_ok() {
        let piece = heard.borrow_and_update().clone();
        let phase = match piece.phase {
            Phase::Finishing => Phase::Loading,
            phase => phase,
        };
        let have = done.saturating_add(piece.have);
        to.send_replace(Progress { phase, have, bytes, trouble: piece.trouble });
    }
}
