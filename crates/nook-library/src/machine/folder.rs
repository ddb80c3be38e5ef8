//! Moving the models to another folder, and what is said while its disk is away.

use std::path::{Path, PathBuf};

use nook_api::views::{
    FolderTrouble, ModelsFolderView, MoveState, MoveView, Trouble, TroubleView, Wording,
};
use nook_api::{Answer, NodeError};
use nook_base::ErrorCode;
use nook_store::{FileStanding, ModelEntry, MoveError, SettingValue, Stamps};
use tokio::sync::watch;

use super::ModelLibrary;
use crate::events::{Job, LibraryEffect};
use crate::folder::{Brought, MoveJob, MoveProgress, NotBrought, Stage, refusal};

/// What the problems of the folder are noted under.
const SUBJECT: &str = "models-folder";

impl ModelLibrary {
    /// Moves the models to the folder `to`, or back to the usual one. Answered once it is known
    /// whether that can be done; the view shows the rest.
    pub(super) fn move_models(&mut self, to: Option<PathBuf>, answer: Answer<()>) {
        if let Err(refused) = self.check_no_move() {
            return self.answer_done(answer, Err(refused));
        }
        let (tell, told) = watch::channel(MoveProgress::default());
        let stop = self.lifetime.child_token();
        let stage = Stage::Emptying(tell, answer);
        self.moving.problem = None;
        self.moving.job = Some(MoveJob { to, stop, told, shown: MoveProgress::default(), stage });
        self.downloads.rest();
        self.parts.rest();
        self.start_downloads();
        self.start_parts();
    }

    /// Ends a move; everything stays, or goes back, where it was.
    pub(super) fn stop_moving(&mut self) {
        match self.moving.job.take() {
            Some(MoveJob { stage: Stage::Emptying(_, answer), .. }) => {
                self.answer_done(answer, Err(refusal(&MoveError::Stopped)));
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
    pub(super) fn check_no_move(&self) -> Result<(), NodeError> {
        match self.moving.job {
            None => Ok(()),
            Some(_) => Err(NodeError::new(ErrorCode::Busy, "The models are being moved.")
                .worded(Wording::ModelsFolder { trouble: FolderTrouble::UnderWay })),
        }
    }

    /// Nor while its disk is away: it would stay there, with nothing to name it.
    pub(super) fn check_in_reach(&self) -> Result<(), NodeError> {
        self.check_no_move()?;
        self.away_error(ErrorCode::BadRequest).map_or(Ok(()), Err)
    }

    /// What whoever wants something of the folder hears while it is away.
    pub(super) fn away_error(&self, code: ErrorCode) -> Option<NodeError> {
        self.moving.is_away.then(|| self.found_away(code))
    }

    /// The same where it was just found to be away, before the next look has noted it.
    pub(super) fn found_away(&self, code: ErrorCode) -> NodeError {
        let TroubleView { sentence, trouble } = self.away_view();
        let wording = trouble.map(|trouble| Wording::Trouble { trouble: Box::new(trouble) });
        NodeError { wording, ..NodeError::new(code, sentence) }
    }

    /// Whether the file of a listed model is gone or changed, by a look at the disk; not where it
    /// only may lie elsewhere.
    pub(super) fn is_lost(&self, model: &ModelEntry) -> bool {
        let may_lie_elsewhere = model.owned && self.moving.hides_files();
        !may_lie_elsewhere && self.library.standing(model) == FileStanding::Lost
    }

    /// Begins to bring files, once no download writes any more.
    pub(super) fn go_on_moving(&mut self) {
        let is_still = self.downloads.is_still() && self.parts.is_still();
        let waits = |job: &&mut MoveJob| is_still && matches!(job.stage, Stage::Emptying(..));
        let Some(job) = self.moving.job.as_mut().filter(waits) else { return };
        let stage = std::mem::replace(&mut job.stage, Stage::Bringing);
        let Stage::Emptying(tell, answer) = stage else { return };
        let (to, stop) = (job.to.clone(), job.stop.clone());
        let folder = to.clone().unwrap_or_else(|| self.library.usual_folder().to_owned());
        let mut wanted = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.is_moved()) {
            if let Some(file) = entry.listed.path.now().file_name() {
                let there = folder.join(file);
                entry.listed.path.expect(there.clone());
                wanted.push((entry.digest(), there));
            }
        }
        let library = self.library.clone();
        // Whoever asked is answered by the job, and looks at the view next.
        self.effects.push(LibraryEffect::Show);
        self.run(Job::Bring { library, to, wanted, stop, tell, answer });
    }

    /// All is in the new place, or nothing is.
    pub(super) fn on_brought(&mut self, brought: Result<Brought, NotBrought>) {
        let why = match brought {
            Ok(brought) => return self.choose_folder(brought),
            Err(why) => why,
        };
        match why {
            NotBrought::Refused(error, answer) => {
                self.end_move();
                // Whoever hears it may ask for another folder at once.
                self.answer_done(answer, Err(refusal(&error)));
            }
            NotBrought::Broke(error, stamps) => {
                if error != MoveError::Stopped {
                    tracing::warn!(%error, "the models stay where they are");
                    self.moving.problem = Some(refusal(&error).into());
                }
                self.on_cleared(&stamps);
            }
            NotBrought::Lost => {
                let words =
                    "The move broke off. Close Inglenook and start it again: that takes it back.";
                self.moving.problem = Some(NodeError::new(ErrorCode::Cancelled, words).into());
                self.on_cleared(&Stamps::new());
            }
        }
    }

    /// The setting is what counts; it is changed last.
    fn choose_folder(&mut self, brought: Brought) {
        let value = brought.prepared.setting().map_or(SettingValue::Unset, SettingValue::from);
        match &mut self.moving.job {
            Some(job) => job.stage = Stage::Choosing(Box::new(brought)),
            // Nobody moves: what was brought is taken back.
            None => return self.run(Job::Undo(brought.prepared)),
        }
        self.effects.push(LibraryEffect::ChooseFolder(value));
    }

    /// The setting was changed to this folder, or could not be.
    pub(super) fn on_folder_chosen(&mut self, chosen: Result<Option<PathBuf>, NodeError>) {
        let Some(job) = &mut self.moving.job else { return };
        let Stage::Choosing(brought) = std::mem::replace(&mut job.stage, Stage::Clearing) else {
            return;
        };
        let Brought { prepared, files, copied } = *brought;
        let chosen = match chosen {
            Ok(chosen) => chosen,
            Err(error) => {
                self.moving.problem = Some(error.into());
                return self.run(Job::Undo(prepared));
            }
        };
        self.library.moved(chosen.as_deref(), &prepared.stamps());
        self.downloads.keep_in(self.library.downloads_folder());
        self.parts_moved();
        for entry in &self.entries {
            entry.listed.path.settle(self.library.get(entry.digest()).and_then(|it| it.stamp));
        }
        for (digest, file) in files {
            for entry in self.entries.iter_mut().filter(|entry| entry.digest() == digest) {
                entry.file = file.clone();
            }
        }
        tracing::info!(folder = %self.library.folder().display(), "the models were moved");
        // A worker keeps the file open that it began with. Where that was copied to another disk,
        // the old one gets its room back when the worker ends.
        copied.into_iter().for_each(|model| self.run(Job::CloseWhenIdle(model)));
        self.run(Job::Settle(prepared));
    }

    /// The move is over, and all that it left.
    pub(super) fn on_cleared(&mut self, stamps: &Stamps) {
        self.library.stayed(stamps);
        self.end_move();
        // What the disk of another folder holds may be more than was known of the last one.
        self.read_models();
    }

    /// Nothing is on its way any more.
    fn end_move(&mut self) {
        // Those that were moved have settled.
        for entry in &self.entries {
            entry.listed.path.stay();
            if let Some(model) = self.library.get(entry.digest()) {
                entry.listed.path.lies(&model.path, model.stamp);
            }
        }
        self.moving.job = None;
        self.start_downloads();
    }

    /// Says that the folder is away, or says it no more.
    pub(super) fn note_folder(&mut self) {
        let away = self.away();
        self.note(SUBJECT, away);
    }

    /// What is said of the folder while it is away.
    pub(super) fn away(&self) -> Option<TroubleView> {
        self.moving.is_away.then(|| self.away_view())
    }

    fn away_view(&self) -> TroubleView {
        let folder = self.library.folder().display().to_string();
        let own = self.library.models().iter().filter(|model| model.is_moved());
        let models = u32::try_from(own.count()).unwrap_or(u32::MAX);
        let words = format!(
            "The models are looked for in {folder}, which is not there ({models} of them). Plug in \
             its disk, or choose another folder under Models. Nothing was deleted."
        );
        TroubleView::new(words, Trouble::ModelsFolderAway { folder, models })
    }

    /// Where the models lie, and how far a move of them is.
    #[must_use]
    pub fn folder_view(&self) -> ModelsFolderView {
        let shown = |path: &Path| path.display().to_string();
        let moving = self.moving.job.as_ref().map(|job| MoveView {
            to: shown(job.to.as_deref().unwrap_or(self.library.usual_folder())),
            state: match job.stage {
                Stage::Emptying(..) => MoveState::Waiting,
                Stage::Bringing => MoveState::Moving,
                Stage::Choosing(..) | Stage::Clearing => MoveState::Finishing,
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
