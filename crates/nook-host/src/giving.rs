//! Giving a model's bytes to another device: from its WANT to the end of the call.
//!
//! [`give`] takes the proof of the gate. It reads the model's file in pieces where the library
//! holds it open, and ends at any moment when trust falls or the model is given no more. A device
//! that takes slowly slows its own call by its credit, and one that takes nothing is gone after a
//! while. The manifest of a model is given under the same terms as its file, and so is what this
//! computer has of a release of this program.

mod manifests;
mod releases;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nook_base::{ErrorCode, ModelDigest, PeerId};
use nook_mux::{Call, CallReceiver, CallSender};
use nook_store::{AuditAsked, AuditSubject};
use nook_wire::{
    Document, Message, PIECE_BYTES_MAX, Piece, Want, WantRelease, WireError, chunks_of,
};
use tokio::sync::{Semaphore, watch};

use self::manifests::{Manifests, NoManifest};
use self::releases::release_range;
pub use self::releases::{GivenPackage, GivenRelease};
use super::audit::{Audit, Line, Moment, subject, why};
use super::refusal::error;
use super::terms::{CopyPass, Given};
use nook_resources::traffic::Traffic;

/// Longest wait for the next question on a call, and for room to send anything: a little longer
/// than the taker waits for bytes. Beyond it the taker counts as gone, and its place is free.
const TAKER_LIMIT: Duration = Duration::from_secs(75);

/// Calls on which files are given at once, to all devices together; one more is refused as busy,
/// and that device tries again or asks another. More would only share the line and the disk.
const COPIES_MAX: usize = 2;

/// What a taker hears while the file or its manifest is not ready.
const LATER: &str = "That device is still reading the model. Try again shortly.";

/// What is given, and how fast. Clones share it.
#[derive(Debug, Clone)]
pub struct Giving {
    /// What is given now; calls under way watch it.
    given: Arc<watch::Sender<Arc<Vec<Given>>>>,
    /// The same of a release of this program.
    release: Arc<watch::Sender<Arc<GivenRelease>>>,
    /// One permit for each call that files are given on.
    permits: Arc<Semaphore>,
    traffic: Traffic,
    manifests: Manifests,
}

impl Giving {
    /// Gives nothing yet.
    pub fn new(traffic: Traffic) -> Self {
        let given = Arc::new(watch::channel(Arc::default()).0);
        let release = Arc::new(watch::channel(Arc::default()).0);
        let permits = Arc::new(Semaphore::new(COPIES_MAX));
        Self { given, release, permits, traffic, manifests: Manifests::default() }
    }

    /// The same, but manifests that were worked out are kept in `folder` for the next start; it is
    /// made when it is needed.
    #[must_use]
    pub fn keeping_manifests_in(self, folder: PathBuf) -> Self {
        Self { manifests: self.manifests.kept_in(folder), ..self }
    }

    /// What a model that is given is called here.
    /// What the owner reads of a question.
    fn subject_of(&self, want: &Asked) -> AuditSubject {
        let Asked::Model(Want { model, .. }) = *want else {
            return AuditSubject { asked: AuditAsked::Release, model: None, layers: None };
        };
        let given = self.given.borrow();
        let name = given.iter().find(|given| given.model == model).map(|given| &*given.name);
        subject(AuditAsked::Copy, model, name, None)
    }

    /// Gives these from now on, and what is not among them no more.
    pub fn give(&self, given: Arc<Vec<Given>>) {
        self.given.send_replace(given);
    }

    /// Gives this of a release from now on.
    pub fn give_release(&self, release: Arc<GivenRelease>) {
        self.release.send_replace(release);
    }
}

/// What is asked for on a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked {
    /// Bytes of a model.
    Model(Want),
    /// Bytes of a release of this program.
    Release(WantRelease),
}

impl Asked {
    /// What `message` asks for, if it asks for bytes.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        match message {
            Message::Want(want) => Some(Self::Model(*want)),
            Message::WantRelease(want) => Some(Self::Release(*want)),
            _ => None,
        }
    }
}

/// A device that is given files.
struct Taker<'a> {
    pass: CopyPass,
    giving: &'a Giving,
    /// Where it is noted how much is given.
    line: &'a Line,
}

/// Why a call ends.
#[derive(Debug)]
enum Over {
    /// The taker has all that it wants, or is gone.
    Left,
    /// This side ends it, and says why.
    Refused(WireError),
}

/// Serves a call of `peer` that begins with `want`.
pub(crate) async fn give(
    (peer, pass): (PeerId, Result<CopyPass, WireError>),
    (giving, audit): (&Giving, &Audit),
    want: Asked,
    call: Call<Message>,
) {
    let line = audit.begin(Moment::read(), peer, giving.subject_of(&want));
    let (mut to_taker, mut from_taker) = call.split();
    let over = match pass {
        Ok(pass) => {
            let taker = Taker { pass, giving, line: &line };
            tokio::select! {
                biased;
                () = taker.pass.revoked.cancelled() => {
                    Over::Refused(error(ErrorCode::TrustDenied, ""))
                }
                over = serve(&taker, want, &mut to_taker, &mut from_taker) => over,
            }
        }
        Err(refusal) => Over::Refused(refusal),
    };
    match over {
        Over::Left => {
            line.end(Moment::read(), None);
            to_taker.close(None);
        }
        Over::Refused(error) => {
            let code = error.code;
            line.fail(Moment::read(), why(code));
            tracing::info!(?want, %code, "a copy was refused or has ended");
            // The taker may have left already; then there is nobody to tell.
            let _ = send(Message::Error(error), &mut to_taker).await;
            to_taker.close(Some(code));
        }
    }
}

/// Answers one question after the other; why there is none any more.
async fn serve(
    taker: &Taker<'_>,
    mut want: Asked,
    to_taker: &mut CallSender<Message>,
    from_taker: &mut CallReceiver<Message>,
) -> Over {
    let Ok(_permit) = taker.giving.permits.clone().try_acquire_owned() else {
        let why = "That device gives models to as many others as it can. Try again shortly.";
        return Over::Refused(error(ErrorCode::Busy, why));
    };
    let peer = taker.pass.pass.peer();
    match &want {
        Asked::Model(Want { model, from, .. }) => {
            tracing::info!(?peer, ?model, from, "giving a model");
        }
        Asked::Release(want) => tracing::info!(?peer, ?want, "giving of a release"),
    }
    loop {
        let mut early = None;
        let sent = {
            let sending = range(taker, &want, to_taker);
            tokio::pin!(sending);
            loop {
                tokio::select! {
                    biased;
                    // The last piece may have come before this side is through with it, as while it
                    // lets others go first. Whatever else is said before that is the end.
                    said = from_taker.recv(), if early.is_none() => match said {
                        Ok(said) => match Asked::of(&said) {
                            Some(next) => early = Some(next),
                            None => return Over::Left,
                        },
                        Err(_) => return Over::Left,
                    },
                    over = withdrawn(taker.giving.given.subscribe(), &want) => return over,
                    sent = &mut sending => break sent,
                }
            }
        };
        if let Err(over) = sent {
            return over;
        }
        if let Some(next) = early {
            want = next;
            continue;
        }
        let next = tokio::select! {
            biased;
            over = withdrawn(taker.giving.given.subscribe(), &want) => return over,
            next = tokio::time::timeout(TAKER_LIMIT, from_taker.recv()) => next,
        };
        match next {
            Ok(Ok(said)) => match Asked::of(&said) {
                Some(next) => want = next,
                None => {
                    let why = "a copy asks for one range after the other";
                    return Over::Refused(error(ErrorCode::BadRequest, why));
                }
            },
            Ok(Err(_)) => return Over::Left,
            Err(_) => return Over::Refused(error(ErrorCode::PipelineStalled, "")),
        }
    }
}

/// Sends the bytes of one range.
async fn range(
    taker: &Taker<'_>,
    want: &Asked,
    to_taker: &mut CallSender<Message>,
) -> Result<(), Over> {
    match want {
        Asked::Release(want) => release_range(taker, want, to_taker).await,
        Asked::Model(want) => match want.document {
            Document::File => file_range(taker, want, to_taker).await,
            Document::Manifest => manifest_range(taker, want, to_taker).await,
        },
    }
}

/// Sends bytes of a file.
async fn file_range(
    taker: &Taker<'_>,
    want: &Want,
    to_taker: &mut CallSender<Message>,
) -> Result<(), Over> {
    let length = given(taker, want.model)?.file.file_bytes();
    let Range { start: mut at, end } = asked(want, length)?;
    while at < end {
        let count = piece_bytes(at, end);
        // Looked up anew: a file that has moved is let go of where it was.
        let given = given(taker, want.model)?;
        if given.file.file_bytes() != length {
            // Another file of the same model: behind the weights it is not what was asked for.
            return Err(changed());
        }
        let bytes = read(given, at, count).await?;
        send_piece(taker, at, bytes, to_taker).await?;
        at = at.saturating_add(u64::from(count));
    }
    Ok(())
}

/// Sends bytes of a manifest, once there is one.
async fn manifest_range(
    taker: &Taker<'_>,
    want: &Want,
    to_taker: &mut CallSender<Message>,
) -> Result<(), Over> {
    let from = given(taker, want.model)?;
    // Whoever has the manifest asks for the file next.
    read(from.clone(), 0, 0).await?;
    let given = taker.giving.given.subscribe();
    let manifest = match taker.giving.manifests.of(want.model, &from.file, given).await {
        Ok(manifest) => manifest,
        Err(NoManifest::Unreadable) => return Err(changed()),
        Err(NoManifest::Later) => {
            return Err(Over::Refused(error(ErrorCode::Busy, LATER)));
        }
    };
    let Range { start: mut at, end } = asked(want, manifest.len() as u64)?;
    while at < end {
        let count = piece_bytes(at, end);
        // The range lies in what is in memory, so these are far below what a machine counts to.
        let bytes = manifest.slice(at as usize..at as usize + count as usize);
        send_piece(taker, at, bytes, to_taker).await?;
        at = at.saturating_add(u64::from(count));
    }
    Ok(())
}

/// The range of a document of `length` bytes that is asked for.
fn asked(want: &Want, length: u64) -> Result<Range<u64>, Over> {
    want.range(length).ok_or_else(|| no_range(want.from, want.bytes, length))
}

fn no_range(from: u64, bytes: u64, length: u64) -> Over {
    let why = format!("{bytes} bytes from {from} on are no range of a document of {length} bytes");
    Over::Refused(error(ErrorCode::BadRequest, &why))
}

/// Bytes of the next piece of `at..end`.
fn piece_bytes(at: u64, end: u64) -> u32 {
    u32::try_from(end - at).unwrap_or(u32::MAX).min(PIECE_BYTES_MAX)
}

/// Sends one piece, and lets what is more urgent go first.
async fn send_piece(
    taker: &Taker<'_>,
    from: u64,
    bytes: Bytes,
    to_taker: &mut CallSender<Message>,
) -> Result<(), Over> {
    // At most the size of a piece.
    let head = Piece { from, bytes: bytes.len() as u32 };
    send(Message::Piece(head), to_taker).await?;
    for chunk in chunks_of(bytes) {
        let long = chunk.bytes.len();
        send(Message::Chunk(chunk), to_taker).await?;
        taker.line.gave(long as u64);
        taker.giving.traffic.give_way(long).await;
    }
    Ok(())
}

/// The model with this digest and its file, while it is given.
fn given(taker: &Taker<'_>, model: ModelDigest) -> Result<Given, Over> {
    let given = taker.giving.given.borrow();
    let found = given.iter().find(|given| given.model == model);
    found.cloned().ok_or_else(|| not_given(model))
}

fn not_given(model: ModelDigest) -> Over {
    let why = format!("this device does not give the model with digest {}", model.short());
    Over::Refused(error(ErrorCode::NotFound, &why))
}

/// Waits until what is asked for is not given any more; not at all where it never was. What there
/// is of a release is looked up with each range.
async fn withdrawn(mut given: watch::Receiver<Arc<Vec<Given>>>, want: &Asked) -> Over {
    let Asked::Model(Want { model, .. }) = *want else { return std::future::pending().await };
    let lacks = |given: &Arc<Vec<Given>>| given.iter().all(|given| given.model != model);
    if given.wait_for(lacks).await.is_err() {
        // The node is leaving, and every task with it.
        std::future::pending::<()>().await;
    }
    not_given(model)
}

async fn read(given: Given, at: u64, count: u32) -> Result<Bytes, Over> {
    let Given { file, place, .. } = given;
    let noted = file.noted();
    // At most the size of a piece.
    let read = tokio::task::spawn_blocking(move || file.bytes_at(at, count as usize));
    match read.await {
        Ok(Ok(bytes)) => Ok(bytes.into()),
        Ok(Err(wrong)) => {
            // Where the file lies is nobody else's business.
            tracing::warn!(%wrong, "a model cannot be given");
            place.settled().await;
            if place.stamp() != noted {
                // It moved; this device opens it again, where it is now.
                return Err(Over::Refused(error(ErrorCode::Busy, LATER)));
            }
            Err(changed())
        }
        Err(_) => Err(Over::Left),
    }
}

fn changed() -> Over {
    let why = "the model's file has changed there, or cannot be read";
    Over::Refused(error(ErrorCode::BadModel, why))
}

/// Sends a message once there is room for it; everything for the taker goes this way.
async fn send(message: Message, to_taker: &mut CallSender<Message>) -> Result<(), Over> {
    let sent = tokio::time::timeout(TAKER_LIMIT, to_taker.send(message)).await;
    sent.ok().and_then(Result::ok).ok_or(Over::Left)
}

#[cfg(test)]
mod tests;
