//! The folder of the models: what is known of it, and moving the files to another one.
//!
//! A move waits until no download writes. Then a job brings the files over
//! ([`nook_store::ModelsMove`]), and only after that the setting is changed: from then on the new
//! folder counts. Until then both places of each file are known ([`FilePlace`]), so a reply that
//! loads layers meanwhile finds them. Downloads rest while it lasts and go on in the new place.
//!
//! The folder is looked at once a second. While a chosen one is not there nothing is deleted, made
//! or loaded into it; when it is back its models are read again.
//!
//! [`FilePlace`]: nook_resources::file_place::FilePlace

use std::path::{Path, PathBuf};

use nook_api::views::{FolderTrouble, Problem, Reason, SystemReason, Wording};
use nook_api::{Answer, NodeError, sentence};
use nook_base::{ErrorCode, ModelDigest, NotedFile};
use nook_fetch::{Folder, Room as _, SystemRoom};
use nook_model::ModelFile;
use nook_store::{FileError, Library, ModelsMove, MoveError, MovePlan, Stamps};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::downloads::disk_free;
use crate::on_disk::{DownloadsLook, Seen};
use crate::partial::{PartialModel, scan};
use crate::reading::{self, Found, States};

/// What is known of the folder besides the list of models.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    pub(crate) job: Option<MoveJob>,
    pub(crate) problem: Option<Problem>,
    /// A folder was chosen and is not there.
    pub(crate) is_away: bool,
    /// Models whose file is not there, by name.
    pub(crate) missing: Vec<String>,
    pub(crate) looking: Looking,
}

/// A move.
#[derive(Debug)]
pub(crate) struct MoveJob {
    pub(crate) to: Option<PathBuf>,
    pub(crate) stop: CancellationToken,
    pub(crate) told: watch::Receiver<MoveProgress>,
    /// As it was at the last look.
    pub(crate) shown: MoveProgress,
    pub(crate) stage: Stage,
}

/// How far a move is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MoveProgress {
    /// Bytes that are in the new place.
    pub(crate) done: u64,
    /// Bytes that are to be there in the end.
    pub(crate) bytes: u64,
}

/// What a move does.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Waits for the downloads to rest; whoever asked waits too.
    Emptying(watch::Sender<MoveProgress>, Answer<()>),
    /// A job brings the files.
    Bringing,
    /// Everything is in the new place, and the setting is being changed.
    Choosing(Box<Brought>),
    /// A job removes what was copied, or takes everything back.
    Clearing,
}

/// Everything is in the new place.
#[derive(Debug)]
pub struct Brought {
    pub(crate) prepared: ModelsMove,
    /// Opened there: the old file would keep its room on the old disk while it is open.
    pub(crate) files: Vec<(ModelDigest, ModelFile)>,
    /// Whose files lie on another disk now.
    pub(crate) copied: Vec<ModelDigest>,
}

/// Why nothing is there.
#[derive(Debug)]
pub enum NotBrought {
    /// It cannot be done; whoever asked waits to hear it.
    Refused(MoveError, Answer<()>),
    /// It was begun and taken back; what the models' files are now.
    Broke(MoveError, Stamps),
    /// The job is gone: the next start takes back what it left.
    Lost,
}

/// Whether a look is under way, and what the next one is to do.
#[derive(Debug, Default)]
pub(crate) struct Looking {
    pub(crate) is_under_way: bool,
    /// All headers are to be read, also where the folder neither came nor went.
    pub(crate) is_unread: bool,
}

/// What a look at the folder has seen.
#[derive(Debug)]
pub struct FolderSeen {
    /// The list, as it was when the look began.
    pub(crate) library: Library,
    pub(crate) is_there: bool,
    /// Room on its disk, in bytes.
    pub(crate) disk_free: Option<u64>,
    /// What it holds of downloads.
    pub(crate) downloads: Seen,
    /// What the files of whole models are; nothing while models move, when each gets another stamp.
    pub(crate) states: States,
    /// The headers, where they were read.
    pub(crate) found: Option<Found>,
    /// The partial models, where the headers were read and the folder is there.
    pub(crate) parts: Vec<PartialModel>,
}

impl FolderSeen {
    /// Looks; waits for the disk. `is_away`: as it was at the last look; absent while models move,
    /// when no header is read.
    pub(crate) fn look(
        library: Library,
        downloads: DownloadsLook,
        is_away: Option<bool>,
        reads_all: bool,
    ) -> Self {
        let is_there = library.is_there();
        let reads = is_away.is_some_and(|is_away| reads_all || is_away == is_there);
        let found = reads.then(|| reading::read(library.models(), !is_there));
        let states = match (&found, is_away) {
            (Some(found), _) => found.states.clone(),
            (None, Some(_)) => reading::states(library.models()),
            (None, None) => States::new(),
        };
        let parts = match reads && is_there {
            true => scan(&Folder::at(library.partial_folder())),
            false => Vec::new(),
        };
        let disk_free = disk_free(library.folder());
        let downloads = downloads.look();
        Self { library, is_there, disk_free, downloads, states, found, parts }
    }
}

impl Moving {
    /// As the start found the folder.
    pub(crate) fn begun(is_away: bool, missing: Vec<String>) -> Self {
        Self { is_away, missing, ..Self::default() }
    }

    /// Whether nothing may be written to the folder now.
    pub(crate) fn holds(&self) -> bool {
        self.job.is_some() || self.is_away
    }

    /// Whether the library's files may lie elsewhere than they are listed.
    pub(crate) fn hides_files(&self) -> bool {
        let is_between = |job: &MoveJob| !matches!(job.stage, Stage::Emptying(..));
        self.is_away || self.job.as_ref().is_some_and(is_between)
    }

    /// Takes a look at how far a move is.
    pub(crate) fn look(&mut self) {
        if let Some(job) = &mut self.job {
            job.shown = *job.told.borrow_and_update();
        }
    }
}

/// Brings everything over; without an error, whoever asked was told why not.
pub(crate) fn bring(
    plan: MovePlan,
    wanted: Vec<(ModelDigest, PathBuf)>,
    stop: &CancellationToken,
    tell: &watch::Sender<MoveProgress>,
    answer: Answer<()>,
) -> Result<Brought, NotBrought> {
    let prepared = match plan.prepare(|folder| SystemRoom.free(folder)) {
        Ok(prepared) => prepared,
        Err(error) => return Err(NotBrought::Refused(error, answer)),
    };
    let _ = answer.send(Ok(()));
    let bytes = prepared.bytes();
    let mut told = |done| {
        tell.send_replace(MoveProgress { done, bytes });
    };
    if let Err(error) = prepared.run(&|| stop.is_cancelled(), &mut told) {
        return Err(NotBrought::Broke(error, prepared.stamps()));
    }
    let copied = match prepared.renames() {
        true => Vec::new(),
        false => wanted.iter().map(|(digest, _)| *digest).collect(),
    };
    let stamps = prepared.stamps();
    let open = |(digest, path): (ModelDigest, PathBuf)| {
        // What nobody knows any more is read again behind the move.
        let stamp = Some(*stamps.get(path.file_name()?.to_str()?)?);
        Some((digest, ModelFile::open_noted(&NotedFile { path, stamp }).ok()?))
    };
    let files = wanted.into_iter().filter_map(open).collect();
    Ok(Brought { prepared, files, copied })
}

/// Why models do not move, for every front end.
pub(crate) fn refusal(error: &MoveError) -> NodeError {
    let shown = |path: &Path| path.display().to_string();
    let trouble = match error {
        MoveError::NotWhole { .. } => return worded(error, Wording::WholePath),
        MoveError::NotText { folder } => {
            return worded(error, Wording::PathNoText { path: shown(folder) });
        }
        MoveError::NotThere { folder } => FolderTrouble::NotThere { folder: shown(folder) },
        MoveError::NotAFolder { folder } => FolderTrouble::NotAFolder { folder: shown(folder) },
        MoveError::AlreadyThere { folder } => FolderTrouble::AlreadyThere { folder: shown(folder) },
        MoveError::Inside { folder } => FolderTrouble::Inside { folder: shown(folder) },
        MoveError::OfAnother { folder } => FolderTrouble::OfAnother { folder: shown(folder) },
        MoveError::InTheWay { file } => FolderTrouble::InTheWay { file: shown(file) },
        MoveError::NoRoom { needed, free } => {
            FolderTrouble::NoRoom { needed: *needed, free: *free }
        }
        MoveError::Changed { file } => FolderTrouble::Changed { file: shown(file) },
        MoveError::Stopped => FolderTrouble::Stopped,
        MoveError::File(file) => {
            FolderTrouble::Refused { file: shown(&file.path), reason: reason_of_file(file) }
        }
    };
    worded(error, Wording::ModelsFolder { trouble })
}

fn worded(error: &MoveError, wording: Wording) -> NodeError {
    let code = match error {
        MoveError::Stopped => ErrorCode::Cancelled,
        _ => ErrorCode::BadRequest,
    };
    NodeError::new(code, sentence(&error.to_string())).worded(wording)
}

/// The reason of a file that the system refuses.
fn reason_of_file(error: &FileError) -> Reason {
    Reason { means: SystemReason::of(error.kind), said: error.reason.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_owner_stopped_is_told_from_what_is_refused() {
        let away = MoveError::NotThere { folder: PathBuf::from("/media/disk") };
        let codes = [MoveError::Stopped, away].map(|error| refusal(&error).code);
        // The window shows no fault for the first one.
        assert_eq!(codes, [ErrorCode::Cancelled, ErrorCode::BadRequest]);
    }
}
