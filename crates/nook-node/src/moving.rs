//! The folder of the models: moving it, and noticing that its disk is away.
//!
//! A move waits until no download writes, then a task brings the files over ([`nook_store::ModelsMove`]);
//! only here, on the house loop, the setting is changed, and from then on the new folder counts. Until
//! then both places of each file are known ([`FilePlace`]), so that a reply which loads layers meanwhile
//! finds them. Downloads rest while it lasts and go on in the new place.
//!
//! The folder is looked at once a second (`looking`). While a chosen one is not there nothing is deleted,
//! made or loaded into it; when it is back its models are read again.
//!
//! [`FilePlace`]: crate::resources::shelf::FilePlace

mod looking;

use std::path::{Path, PathBuf};
use std::time::Duration;

use nook_base::{ErrorCode, ModelDigest};
use nook_fetch::{Room as _, SystemRoom};
use nook_model::ModelFile;
use nook_store::{FileStanding, ModelEntry, ModelsMove, MoveError, MovePlan, SettingValue};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::house::{Answer, HouseError};
use crate::models::sentence;
use crate::preferences::not_changed;
use crate::resources::workers::Workers;
use crate::state::{Inside, State};
use crate::views::{
    FolderTrouble, ModelsFolderView, MoveState, MoveView, Problem, Trouble, TroubleView, Wording,
};
use crate::views_of::reason_of_file;
use looking::Looking;

pub(crate) use looking::FolderSeen;

/// What the troubles of the folder are noted under.
const SUBJECT: &str = "models-folder";

/// How often a worker is looked at that still has a copied file open in its old place.
const OLD_FILE_LOOK: Duration = Duration::from_secs(5);

/// Looks after which it is left alone: it lets go of the file when it ends by itself.
const OLD_FILE_LOOKS_MAX: u32 = 720;

/// What the house knows of the folder besides the library.
#[derive(Debug, Default)]
pub(crate) struct Moving {
    job: Option<Job>,
    problem: Option<Problem>,
    /// A folder was chosen and is not there.
    is_away: bool,
    /// Models whose file is not there.
    missing: Vec<String>,
    looking: Looking,
}

/// A move.
#[derive(Debug)]
struct Job {
    to: Option<PathBuf>,
    stop: CancellationToken,
    told: watch::Receiver<Told>,
    /// As it was at the last look.
    shown: Told,
    stage: Stage,
}

/// How far it is.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    done: u64,
    bytes: u64,
}

#[derive(Debug)]
enum Stage {
    /// Waits for the downloads to rest; whoever asked waits too.
    Emptying(watch::Sender<Told>, Answer<()>),
    /// A task brings the files.
    Bringing,
    /// A task removes what was copied, or takes everything back.
    Clearing,
}

/// Everything is in the new place.
#[derive(Debug)]
pub(crate) struct Brought {
    prepared: ModelsMove,
    /// Opened there: the old file would keep its room on the old disk while it is open.
    files: Vec<(ModelDigest, ModelFile)>,
    /// Whose files lie on another disk now.
    copied: Vec<ModelDigest>,
}

/// Why nothing is there.
#[derive(Debug)]
pub(crate) enum NotBrought {
    /// It cannot be done; whoever asked waits to hear it.
    Refused(MoveError, Answer<()>),
    /// It was begun and taken back.
    Broke(MoveError),
    /// The task is gone: the next start takes back what it left.
    Lost,
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
    fn hides_files(&self) -> bool {
        let is_between = |job: &Job| !matches!(job.stage, Stage::Emptying(..));
        self.is_away || self.job.as_ref().is_some_and(is_between)
    }

    /// Takes a look at how far a move is.
    pub(crate) fn look(&mut self) {
        if let Some(job) = &mut self.job {
            job.shown = *job.told.borrow_and_update();
        }
    }
}

impl State {
    /// Moves the models to the folder `to`, or back to the usual one. Answered once it is known whether
    /// that can be done; the view shows the rest.
    pub(crate) fn move_models(&mut self, to: Option<PathBuf>, answer: Answer<()>) {
        if let Err(refused) = self.check_no_move() {
            let _ = answer.send(Err(refused));
            return;
        }
        let (tell, told) = watch::channel(Told::default());
        let stop = self.tasks.token().child_token();
        let stage = Stage::Emptying(tell, answer);
        self.moving.problem = None;
        self.moving.job = Some(Job { to, stop, told, shown: Told::default(), stage });
        self.downloads.rest();
        self.start_downloads();
    }

    /// Ends a move; everything stays, or goes back, where it was.
    pub(crate) fn stop_moving(&mut self) {
        match self.moving.job.take() {
            Some(Job { stage: Stage::Emptying(_, answer), .. }) => {
                let _ = answer.send(Err(refusal(&MoveError::Stopped)));
                self.start_downloads();
            }
            other => {
                if let Some(job) = &other {
                    job.stop.cancel();
                }
                self.moving.job = other;
            }
        }
    }

    /// Nobody removes anything from the folder while it moves.
    pub(crate) fn check_no_move(&self) -> Result<(), HouseError> {
        match self.moving.job {
            None => Ok(()),
            Some(_) => Err(HouseError::new(ErrorCode::Busy, "The models are being moved.")
                .worded(Wording::ModelsFolder { trouble: FolderTrouble::UnderWay })),
        }
    }

    /// Nor while its disk is away: it would stay there, with nothing to name it.
    pub(crate) fn check_in_reach(&self) -> Result<(), HouseError> {
        self.check_no_move()?;
        self.away_error(ErrorCode::BadRequest).map_or(Ok(()), Err)
    }

    /// What whoever wants something of the folder hears while it is away.
    pub(crate) fn away_error(&self, code: ErrorCode) -> Option<HouseError> {
        self.moving.is_away.then(|| self.found_away(code))
    }

    /// The same where it was just found to be away, before the next look has noted it.
    pub(crate) fn found_away(&self, code: ErrorCode) -> HouseError {
        let TroubleView { sentence, trouble } = self.away_view();
        let wording = trouble.map(|trouble| Wording::Trouble { trouble: Box::new(trouble) });
        HouseError { wording, ..HouseError::new(code, sentence) }
    }

    /// Whether the file of a listed model is gone or changed, by a look at the disk; not where it only may
    /// lie elsewhere.
    pub(crate) fn is_lost(&self, model: &ModelEntry) -> bool {
        let may_lie_elsewhere = model.owned && self.moving.hides_files();
        !may_lie_elsewhere && self.library.standing(model) == FileStanding::Lost
    }

    /// Begins to bring files, once no download writes any more.
    pub(crate) fn go_on_moving(&mut self) {
        let is_still = self.downloads.is_still();
        let waits = |job: &&mut Job| is_still && matches!(job.stage, Stage::Emptying(..));
        let Some(job) = self.moving.job.as_mut().filter(waits) else { return };
        let stage = std::mem::replace(&mut job.stage, Stage::Bringing);
        let Stage::Emptying(tell, answer) = stage else { return };
        let plan = self.library.plan_move(&self.home, job.to.as_deref());
        let mut wanted = Vec::new();
        for entry in self.catalogue.iter().filter(|entry| entry.owned && !entry.built_in) {
            if let Some(file) = entry.listed.path.now().file_name() {
                let there = plan.to().join(file);
                entry.listed.path.expect(there.clone());
                wanted.push((entry.digest(), there));
            }
        }
        let (stop, inside) = (job.stop.clone(), self.inside.clone());
        // Whoever asked is answered by the task, and looks at the view next.
        self.publish();
        // It watches its own token, a child of the node's, and takes everything back when that ends.
        self.tasks.spawn("move-models", async move {
            let bringing =
                tokio::task::spawn_blocking(move || bring(plan, wanted, &stop, &tell, answer));
            let brought = bringing.await.unwrap_or(Err(NotBrought::Lost));
            // A closed inbox means that the node is leaving; the next start takes everything back.
            let _ = inside.send(Inside::Brought(Box::new(brought))).await;
        });
    }

    /// All is in the new place, or nothing is.
    pub(crate) fn on_brought(&mut self, brought: Result<Brought, NotBrought>) {
        let why = match brought {
            Ok(brought) => return self.choose_folder(brought),
            Err(why) => why,
        };
        match why {
            NotBrought::Refused(error, answer) => {
                self.end_move();
                // Whoever hears it may ask for another folder at once.
                self.publish();
                let _ = answer.send(Err(refusal(&error)));
            }
            NotBrought::Broke(error) => {
                if error != MoveError::Stopped {
                    tracing::warn!(%error, "the models stay where they are");
                    self.moving.problem = Some(refusal(&error).into());
                }
                self.on_cleared();
            }
            NotBrought::Lost => {
                let words =
                    "The move broke off. Close Inglenook and start it again: that takes it back.";
                self.moving.problem = Some(HouseError::new(ErrorCode::Cancelled, words).into());
                self.on_cleared();
            }
        }
    }

    /// The setting is what counts; it is changed last.
    fn choose_folder(&mut self, brought: Brought) {
        let Brought { prepared, files, copied } = brought;
        let value = prepared.setting().map_or(SettingValue::Unset, SettingValue::from);
        if let Some(job) = &mut self.moving.job {
            job.stage = Stage::Clearing;
        }
        if let Err(error) = self.settings.change(&[("models.folder", value)]) {
            self.moving.problem = Some(not_changed(&error).into());
            return self.clear(move || prepared.undo());
        }
        let chosen = self.settings.settings().models.folder.clone();
        self.library.moved(chosen.as_deref());
        self.downloads.keep_in(self.library.downloads_folder());
        self.places(|place| place.settle());
        for (digest, file) in files {
            for entry in self.catalogue.iter_mut().filter(|entry| entry.digest() == digest) {
                entry.file = file.clone();
            }
        }
        tracing::info!(folder = %self.library.folder().display(), "the models were moved");
        self.let_go_of_old_files(copied);
        self.clear(move || prepared.settle());
    }

    fn clear(&self, work: impl FnOnce() + Send + 'static) {
        let inside = self.inside.clone();
        self.tasks.spawn_until_cancelled("clear-models", async move {
            // What is lost with a task is done by the next start.
            let _ = tokio::task::spawn_blocking(work).await;
            let _ = inside.send(Inside::Cleared).await;
        });
    }

    /// The move is over, and all that it left.
    pub(crate) fn on_cleared(&mut self) {
        self.end_move();
        // What the disk of another folder holds may be more than was known of the last one.
        self.read_models();
    }

    /// Nothing is on its way any more.
    fn end_move(&mut self) {
        // Those that were moved have settled.
        self.places(|place| place.stay());
        self.moving.job = None;
        self.start_downloads();
    }

    fn places(&self, change: impl Fn(&crate::resources::shelf::FilePlace)) {
        self.catalogue.iter().for_each(|entry| change(&entry.listed.path));
    }

    /// A worker keeps the file open that it began with. Where that was copied to another disk, the old
    /// one gets its room back when the worker ends: it is ended once it holds no conversation.
    fn let_go_of_old_files(&self, copied: Vec<ModelDigest>) {
        for model in copied {
            let workers = self.workers.clone();
            let waiting = async move { end_when_idle(&workers, model).await };
            self.tasks.spawn_until_cancelled("old-model-file", waiting);
        }
    }

    /// Says that the folder is away, or says it no more.
    pub(crate) fn note_folder(&mut self) {
        let away = self.away();
        self.note(SUBJECT, away);
    }

    /// What is said of the folder while it is away.
    pub(crate) fn away(&self) -> Option<TroubleView> {
        self.moving.is_away.then(|| self.away_view())
    }

    fn away_view(&self) -> TroubleView {
        let folder = self.library.folder().display().to_string();
        let own = self.library.models().iter().filter(|model| model.owned && !model.built_in);
        let models = u32::try_from(own.count()).unwrap_or(u32::MAX);
        let words = format!(
            "The models are looked for in {folder}, which is not there ({models} of them). Plug in \
             its disk, or choose another folder under Models. Nothing was deleted."
        );
        TroubleView::new(words, Trouble::ModelsFolderAway { folder, models })
    }

    pub(crate) fn models_folder_view(&self) -> ModelsFolderView {
        let shown = |path: &Path| path.display().to_string();
        let moving = self.moving.job.as_ref().map(|job| MoveView {
            to: shown(job.to.as_deref().unwrap_or(self.library.usual_folder())),
            state: match job.stage {
                Stage::Emptying(..) => MoveState::Waiting,
                Stage::Bringing => MoveState::Moving,
                Stage::Clearing => MoveState::Finishing,
            },
            done_bytes: job.shown.done,
            bytes: job.shown.bytes,
        });
        ModelsFolderView {
            path: shown(self.library.folder()),
            usual: self.library.is_usual(),
            there: !self.moving.is_away,
            missing: self.moving.missing.clone(),
            moving,
            problem: self.moving.problem.clone(),
        }
    }
}

/// Brings everything over; without an error, whoever asked was told why not.
fn bring(
    plan: MovePlan,
    wanted: Vec<(ModelDigest, PathBuf)>,
    stop: &CancellationToken,
    tell: &watch::Sender<Told>,
    answer: Answer<()>,
) -> Result<Brought, NotBrought> {
    let prepared = match plan.prepare(|folder| SystemRoom.free(folder)) {
        Ok(prepared) => prepared,
        Err(error) => return Err(NotBrought::Refused(error, answer)),
    };
    let _ = answer.send(Ok(()));
    let bytes = prepared.bytes();
    let mut told = |done| {
        tell.send_replace(Told { done, bytes });
    };
    prepared.run(&|| stop.is_cancelled(), &mut told).map_err(NotBrought::Broke)?;
    let copied = match prepared.renames() {
        true => Vec::new(),
        false => wanted.iter().map(|(digest, _)| *digest).collect(),
    };
    let open =
        |(digest, path): (ModelDigest, PathBuf)| Some((digest, ModelFile::open(&path).ok()?));
    let files = wanted.into_iter().filter_map(open).collect();
    Ok(Brought { prepared, files, copied })
}

async fn end_when_idle(workers: &Workers, model: ModelDigest) {
    let Some(pid) = workers.find(model).await.map(|worker| worker.pid()) else { return };
    for _ in 0..OLD_FILE_LOOKS_MAX {
        workers.free(model, false).await;
        if workers.find(model).await.is_none_or(|worker| worker.pid() != pid) {
            return;
        }
        tokio::time::sleep(OLD_FILE_LOOK).await;
    }
}

/// Why models do not move, for every door.
fn refusal(error: &MoveError) -> HouseError {
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

fn worded(error: &MoveError, wording: Wording) -> HouseError {
    let code = match error {
        MoveError::Stopped => ErrorCode::Cancelled,
        _ => ErrorCode::BadRequest,
    };
    HouseError::new(code, sentence(&error.to_string())).worded(wording)
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
