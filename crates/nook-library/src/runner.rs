//! Carries out the jobs of the library; each reports its end as an event.
//!
//! An event that nobody takes means that the node is leaving: what a job left is found, or taken
//! back, by the next start.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nook_api::views::HubView;
use nook_api::{Answer, NodeError, sentence};
use nook_base::tasks::Tasks;
use nook_base::{ErrorCode, ModelDigest};
use nook_fetch::{Fetched, Fetcher, Order, Search, Seat};
use nook_resources::workers::Workers;
use nook_store::{Home, ModelsMove, Stager};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_blocking;

use crate::elsewhere;
use crate::events::{Job, LibraryEvent, Transfer};
use crate::folder::{FolderSeen, NotBrought, bring};
use crate::joining::stage_import;
use crate::judging::{Checked, Unfit, check};
use crate::part_job::PartJob;
use crate::partial::PartialPlace;
use crate::parts_here::PartsHere;
use crate::reading::import_wording;
use crate::rereading::{Reread, RereadJob, reread};
use crate::searching;
use crate::taking::Taker;

/// How often a worker is looked at that still has a file open that was deleted or copied elsewhere.
const OLD_FILE_LOOK: Duration = Duration::from_secs(5);

/// Looks after which it is left alone: it lets go of the file when it ends by itself.
const OLD_FILE_LOOKS_MAX: u32 = 720;

/// Searches at the hub that run at once: each may take megabytes for as long as a server takes.
const SEARCHES_MAX: usize = 2;

/// What carries out the jobs of [`ModelLibrary`](crate::ModelLibrary).
#[derive(Debug)]
pub struct Runner {
    home: Home,
    workers: Workers,
    events: mpsc::Sender<LibraryEvent>,
    tasks: Tasks,
    /// Whose turn it is to look through a vocabulary.
    reading: Arc<Semaphore>,
    /// Whose turn it is to ask the hub.
    searching: Arc<Semaphore>,
}

impl Runner {
    /// A runner whose tasks belong to `tasks` and report to `events`.
    #[must_use]
    pub fn new(
        home: Home,
        workers: Workers,
        events: mpsc::Sender<LibraryEvent>,
        tasks: Tasks,
    ) -> Self {
        let reading = Arc::new(Semaphore::new(1));
        let searching = Arc::new(Semaphore::new(SEARCHES_MAX));
        Self { home, workers, events, tasks, reading, searching }
    }

    /// Begins a job.
    pub fn run(&self, job: Job) {
        match job {
            Job::Fetch { key, order, seat, transfer } => self.fetch(key, order, seat, transfer),
            job @ Job::Copy { .. } => self.copy(job),
            Job::Search { search, fetcher, answer } => self.search(search, fetcher, answer),
            Job::Check { key, fetched, wanted, stager } => self.check(key, fetched, wanted, stager),
            Job::Delete { key, folder } => {
                let named = key.as_str().to_owned();
                self.report("delete-download", async move {
                    let deleted = spawn_blocking(move || folder.discard(&key)).await;
                    if let Ok(Err(error)) = deleted {
                        tracing::warn!(%error, "a download could not be deleted; the next start tries again");
                    }
                    LibraryEvent::Deleted { key: named }
                });
            }
            Job::Import { file, name, answer, stager } => self.import(file, name, answer, stager),
            job @ Job::Bring { .. } => self.bring(job),
            Job::Settle(prepared) => self.clear(prepared, ModelsMove::settle),
            Job::Undo(prepared) => self.clear(prepared, ModelsMove::undo),
            Job::CloseWhenIdle(model) => {
                let workers = self.workers.clone();
                let waiting = async move { end_when_idle(&workers, model).await };
                self.tasks.spawn_until_cancelled("old-model-file", waiting);
            }
            Job::LookAtFolder { library, downloads, is_away, reads_all } => {
                self.report("models-folder", async move {
                    let look = move || FolderSeen::look(library, downloads, is_away, reads_all);
                    let seen = spawn_blocking(look).await;
                    if let Err(error) = &seen {
                        tracing::error!(%error, "a look at the models failed; they are looked at again");
                    }
                    LibraryEvent::FolderSeen(seen.ok().map(Box::new))
                });
            }
            Job::Reread(job) => self.reread(job),
            Job::TakePart(job) => self.take_part(*job),
            Job::DeletePart { model, folder } => {
                let place = PartialPlace::new(folder, model);
                self.report("delete-part", async move {
                    let left = spawn_blocking(move || delete_part(&place).then(|| place.look()));
                    let partial = left.await.ok().flatten().flatten().map(Box::new);
                    LibraryEvent::PartDeleted { model, partial }
                });
            }
            Job::LeavePart { model, folder } => {
                let place = PartialPlace::new(folder, model);
                self.tasks.spawn_until_cancelled("leave-part", async move {
                    let _ = spawn_blocking(move || delete_part(&place)).await;
                });
            }
            Job::LookElsewhere { here, answer } => {
                self.tasks.spawn_until_cancelled("look-elsewhere", async move {
                    let look = spawn_blocking(move || elsewhere::look(&here)).await;
                    // Whoever asked may have left.
                    let _ = answer.send(look.map_err(|_| ErrorCode::WorkerCrashed.into()));
                });
            }
            Job::ReadCapabilities { entry, answer } => {
                let reading = self.reading.clone();
                self.tasks.spawn_until_cancelled("capabilities", async move {
                    // A vocabulary takes tens of megabytes while it is looked through.
                    let Ok(_turn) = reading.acquire().await else { return };
                    let read = spawn_blocking(move || entry.capabilities()).await;
                    let read = read.map_err(|_| ErrorCode::WorkerCrashed.into());
                    let _ = answer.send(read.and_then(|read| read));
                });
            }
        }
    }

    /// Works until the node leaves, and reports what came of it.
    fn report(
        &self,
        name: &'static str,
        work: impl Future<Output = LibraryEvent> + Send + 'static,
    ) {
        let events = self.events.clone();
        self.tasks.spawn_until_cancelled(name, async move {
            let _ = events.send(work.await).await;
        });
    }

    fn fetch(&self, key: String, order: Order, seat: Seat, transfer: Transfer) {
        let Transfer { fetcher, folder, stop, tell } = transfer;
        let events = self.events.clone();
        // It watches its own token, a child of the node's, so that what came is made durable first.
        self.tasks.spawn("download", async move {
            let outcome = Box::new(fetcher.fetch(&folder, &order, &stop, &tell).await);
            // Whoever hears of the end looks whom the seat is for.
            drop(seat);
            let _ = events.send(LibraryEvent::Downloaded { key, outcome, giver: None }).await;
        });
    }

    fn copy(&self, job: Job) {
        let Job::Copy { key, order, seat, transfer, holders, first, traffic, parts } = job else {
            return;
        };
        let model = order.source.model();
        let taker = Taker::new(model, holders, first, traffic);
        let Transfer { fetcher, folder, stop, tell } = transfer;
        let events = self.events.clone();
        // It watches its own token, as a download does.
        self.tasks.spawn("copy", async move {
            let place = PartialPlace::new(parts, model);
            let here = spawn_blocking(move || PartsHere::look(&place)).await.ok().flatten();
            let mut taker = taker.with(here);
            let outcome = fetcher.copy(&folder, &order, &mut taker, seat, &stop, &tell).await;
            let (outcome, giver) = (Box::new(outcome), taker.only_device());
            let _ = events.send(LibraryEvent::Downloaded { key, outcome, giver }).await;
        });
    }

    fn take_part(&self, job: PartJob) {
        let events = self.events.clone();
        // It watches its own token, so that what came is recorded first.
        self.tasks.spawn("take-part", async move {
            let end = Box::new(job.run().await);
            let _ = events.send(LibraryEvent::PartEnded(end)).await;
        });
    }

    fn search(&self, search: Search, fetcher: Fetcher, answer: Answer<HubView>) {
        let turns = self.searching.clone();
        self.report("search-models", async move {
            // Never closed. A person asks once; whoever asks often waits.
            let _turn = turns.acquire().await;
            let found = searching::found(&search, fetcher.search(&search).await);
            LibraryEvent::Searched { found: Box::new(found), answer }
        });
    }

    fn check(&self, key: String, fetched: Fetched, wanted: Option<ModelDigest>, stager: Stager) {
        self.report("check-download", async move {
            let Fetched { slot, path, verified, .. } = fetched;
            let checked = spawn_blocking(move || check(&stager, &path, wanted));
            let lost = || Err(Unfit::Unread("the check was interrupted; resume it".to_owned()));
            let staged = checked.await.unwrap_or_else(|_| lost());
            let vouched = verified || wanted.is_some();
            LibraryEvent::Checked(Box::new(Checked { key, slot, staged, vouched }))
        });
    }

    fn import(
        &self,
        file: PathBuf,
        name: Option<String>,
        answer: Answer<nook_api::views::ModelView>,
        stager: Stager,
    ) {
        self.report("import", async move {
            let staged = spawn_blocking(move || {
                stage_import(&stager, &file).map_err(|error| {
                    let wording = import_wording(&error);
                    let error = NodeError::new(ErrorCode::BadModel, sentence(&error.to_string()));
                    NodeError { wording, ..error }
                })
            });
            let staged = staged.await.unwrap_or_else(|_| Err(ErrorCode::BadModel.into()));
            LibraryEvent::Imported { staged: Box::new(staged), name, answer }
        });
    }

    fn bring(&self, job: Job) {
        let Job::Bring { library, to, wanted, stop, tell, answer } = job else { return };
        let (home, events) = (self.home.clone(), self.events.clone());
        // It watches its own token, a child of the node's, and takes everything back when that
        // ends.
        self.tasks.spawn("move-models", async move {
            let plan = library.plan_move(&home, to.as_deref());
            let bringing = spawn_blocking(move || bring(plan, wanted, &stop, &tell, answer));
            let brought = bringing.await.unwrap_or(Err(NotBrought::Lost));
            let _ = events.send(LibraryEvent::Brought(Box::new(brought))).await;
        });
    }

    fn clear(&self, prepared: ModelsMove, work: impl FnOnce(&ModelsMove) + Send + 'static) {
        self.report("clear-models", async move {
            let cleared = spawn_blocking(move || {
                work(&prepared);
                prepared.stamps()
            });
            // What is lost with a task is done by the next start.
            LibraryEvent::Cleared(cleared.await.unwrap_or_default())
        });
    }

    fn reread(&self, job: RereadJob) {
        let RereadJob { model, path, stop } = job;
        self.report("reread-model", async move {
            let reread = spawn_blocking(move || reread(&path, model, &stop)).await;
            let reread = reread.unwrap_or_else(|error| Reread::Unread(error.to_string()));
            LibraryEvent::Reread { model, reread }
        });
    }
}

/// Deletes a partial model; whether something may be left. Waits for the disk.
fn delete_part(place: &PartialPlace) -> bool {
    let deleted = place.discard();
    if let Err(error) = &deleted {
        tracing::warn!(%error, "layers of a model could not be deleted");
    }
    deleted.is_err()
}

/// A worker keeps the file open that it began with: it is ended once it holds no conversation.
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
