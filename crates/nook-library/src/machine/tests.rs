//! The library by lists of events. Jobs are not run: what they would report is an event of the
//! test.

mod catalogue;
mod parts;
mod touched;

use std::path::{Path, PathBuf};
use std::time::Duration;

use nook_api::views::{CopyExtent, DownloadAsk, DownloadState, DownloadView, ModelView, MoveState};
use nook_base::{ErrorCode, PeerId};
use nook_fetch::{FetchError, HouseSource};
use nook_store::{HomeChoice, Stamps, Take};
use nook_wire::{Have, HaveModel};
use tokio::sync::oneshot;

use super::*;
use crate::folder::{FolderSeen, NotBrought, bring};
use crate::parts::PartNotice;
use crate::reading::digest_of;

const PEER: PeerId = PeerId([7; 32]);

/// The answer that a front end waits for.
type Waiting<T> = oneshot::Receiver<Result<T, NodeError>>;

/// A home of its own with its library.
struct Scene {
    folder: tempfile::TempDir,
    home: Home,
    library: ModelLibrary,
    jobs: Vec<Job>,
    seconds: u64,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&HomeChoice::At(folder.path().join("home"))).unwrap();
        let (traffic, lifetime) = (Traffic::default(), CancellationToken::new());
        let library = ModelLibrary::open(&home, None, 0, traffic, lifetime).unwrap();
        let mut scene = Self { folder, home, library, jobs: Vec::new(), seconds: 0 };
        assert_eq!(
            scene.on(LibraryEvent::Started),
            ["problems of models: 0", "problems of models-folder: 0"]
        );
        scene
    }

    /// What comes of an event, a line for each effect. Jobs are kept; answers are given.
    fn on(&mut self, event: LibraryEvent) -> Vec<String> {
        let around = Surroundings {
            now: nook_base::clock::now() + Duration::from_secs(self.seconds),
            unix: self.seconds,
            paired: &|name| match name {
                "attic" => Ok(PEER),
                _ => Err(ErrorCode::NotFound.into()),
            },
            name_of: &|_| "attic".to_owned(),
            giver: &|_| None,
        };
        let effects = self.library.on(event, &around);
        effects.into_iter().map(|effect| self.line(effect)).collect()
    }

    fn line(&mut self, effect: LibraryEffect) -> String {
        match effect {
            LibraryEffect::ModelsChanged => "models changed".to_owned(),
            LibraryEffect::Note(subject, troubles) => {
                format!("problems of {subject}: {}", troubles.len())
            }
            LibraryEffect::Show => "show".to_owned(),
            LibraryEffect::ChooseFolder(_) => "choose the folder".to_owned(),
            LibraryEffect::Answer(answered) => match answered {
                Answered::Done(answer, done) => said("answer", answer, done),
                Answered::Download(answer, begun) => said("download", answer, begun),
                Answered::Hub(answer, found) => said("search", answer, found),
                Answered::Model(answer, taken) => {
                    drop(answer);
                    match taken {
                        Ok(model) => format!("model {}", self.library.name_of(model)),
                        Err(error) => format!("model refused: {}", error.code.name()),
                    }
                }
            },
            LibraryEffect::Part(PartNotice::Present { model, part, .. }) => {
                format!("layers {} of {} are here", part.layers, model.0[0])
            }
            LibraryEffect::Part(PartNotice::Failed { model, part, why }) => {
                format!("layers {} of {} failed: {why}", part.layers, model.0[0])
            }
            LibraryEffect::Part(PartNotice::Gone { model }) => {
                format!("nothing of {} is here", model.0[0])
            }
            LibraryEffect::Run(job) => {
                let line = job_line(&job);
                self.jobs.push(job);
                line
            }
        }
    }

    fn pull(&mut self, source: &str) -> (Vec<String>, Waiting<DownloadView>) {
        let (answer, waiting) = oneshot::channel();
        let command = ModelCommand::Pull { source: source.to_owned(), name: None, answer };
        (self.on(LibraryEvent::Asked(command)), waiting)
    }

    fn change(&mut self, key: &str, ask: DownloadAsk) -> Vec<String> {
        let answer = oneshot::channel().0;
        let key = key.to_owned();
        self.on(LibraryEvent::Asked(ModelCommand::ChangeDownload { key, ask, answer }))
    }

    fn remove(&mut self, name: &str) -> Vec<String> {
        let answer = oneshot::channel().0;
        let name = name.to_owned();
        self.on(LibraryEvent::Asked(ModelCommand::RemoveModel { name, answer }))
    }

    /// The job of a download ends so.
    fn ended(&mut self, key: &str, error: FetchError) -> Vec<String> {
        // Its permit goes with it.
        self.jobs.retain(|job| !matches!(job, Job::Fetch { key: of, .. } if of == key));
        let (key, outcome) = (key.to_owned(), Box::new(Err(error)));
        self.on(LibraryEvent::Downloaded { key, outcome, giver: None })
    }

    /// The folder is looked at, for real.
    fn look(&mut self, reads_all: bool) -> Vec<String> {
        let library = self.library.library.clone();
        let downloads = self.library.downloads.to_look_for();
        let seen = FolderSeen::look(library, downloads, Some(false), reads_all);
        self.on(LibraryEvent::FolderSeen(Some(Box::new(seen))))
    }

    /// A file of the owner is checked, for real, and joins the list.
    fn import(&mut self, file: &Path, name: &str) -> Vec<String> {
        let staged = self.library.library.stager().stage(file, Take::InPlace, digest_of);
        let staged = Box::new(Ok(staged.unwrap()));
        let answer = oneshot::channel::<Result<ModelView, NodeError>>().0;
        self.on(LibraryEvent::Imported { staged, name: Some(name.to_owned()), answer })
    }

    /// A file of its own, which no other test removes.
    fn model_file(&self) -> PathBuf {
        let file = self.folder.path().join("stories.gguf");
        std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(STORIES), &file).unwrap();
        file
    }

    fn states(&self) -> Vec<(String, DownloadState)> {
        let views = self.library.download_views();
        views.into_iter().map(|view| (view.name, view.state)).collect()
    }
}

/// A model that the program does not bring along.
const STORIES: &str = "../../tests/fixtures/stories260K/stories260K-q8_0.gguf";

/// Answers, and says how.
fn said<T>(what: &str, answer: Answer<T>, answered: Result<T, NodeError>) -> String {
    let line = match &answered {
        Ok(_) => format!("{what}: done"),
        Err(error) => format!("{what} refused: {}", error.code.name()),
    };
    let _ = answer.send(answered);
    line
}

fn job_line(job: &Job) -> String {
    match job {
        Job::Fetch { order, .. } => format!("fetch {}", order.source.file_name()),
        Job::Copy { first, .. } => format!("copy, {} first", first.map_or("nobody", |_| "attic")),
        Job::Search { search, .. } => format!("search {search:?}"),
        Job::Check { .. } => "check what came".to_owned(),
        Job::Delete { .. } => "delete the files".to_owned(),
        Job::Import { .. } => "check a file".to_owned(),
        Job::Bring { wanted, .. } => format!("bring {} models", wanted.len()),
        Job::Reread(_) => "read a file again".to_owned(),
        Job::Settle(_) => "settle".to_owned(),
        Job::Undo(_) => "take it back".to_owned(),
        Job::CloseWhenIdle(_) => "close the worker when it is idle".to_owned(),
        Job::LookAtFolder { reads_all, .. } => {
            format!("look at the folder{}", if *reads_all { ", all headers" } else { "" })
        }
        Job::TakePart(job) => {
            let layers: Vec<_> = job.parts.iter().map(|part| part.layers.to_string()).collect();
            format!("take layers {} of {}", layers.join(" and "), job.model.0[0])
        }
        Job::DeletePart { model, .. } => format!("delete layers of {}", model.0[0]),
        Job::LeavePart { model, .. } => format!("leave layers of {}", model.0[0]),
        Job::LookElsewhere { .. } => "look elsewhere".to_owned(),
        Job::ReadCapabilities { entry, .. } => format!("what {} can", entry.listed.name),
    }
}

#[test]
fn what_can_be_searched_for_is_and_anything_else_is_refused_at_once() {
    let mut scene = Scene::new();
    let search = |scene: &mut Scene, words: &str| {
        let (answer, _waiting) = oneshot::channel();
        let command = ModelCommand::SearchModels { words: words.to_owned(), answer };
        scene.on(LibraryEvent::Asked(command))
    };
    assert_eq!(search(&mut scene, " qwen 4b "), ["search Words(\"qwen 4b\")"]);
    assert!(search(&mut scene, "o/r")[0].starts_with("search Repository"));
    assert_eq!(search(&mut scene, " "), ["search refused: bad_request"]);
}

#[test]
fn a_model_joins_the_list_and_leaves_it() {
    let mut scene = Scene::new();
    let file = scene.model_file();
    let joined = scene.import(&file, "stories");
    assert_eq!(joined, ["models changed", "show", "model stories"]);
    assert!(scene.library.model("STOR").is_ok(), "a beginning of the name is enough");
    let left = scene.remove("stories");
    assert_eq!(left[0], "close the worker when it is idle", "it has the file open");
    assert_eq!(left[1..], ["models changed", "show", "answer: done"]);
    assert!(scene.library.model("stories").is_err());
    assert!(file.exists(), "a file that only was listed stays");
    assert_eq!(scene.remove("stories"), ["show", "answer refused: not_found"]);
}

#[test]
fn a_model_whose_file_is_gone_is_said_to_be_unusable_and_can_leave_the_list() {
    let mut scene = Scene::new();
    let file = scene.model_file();
    scene.import(&file, "stories");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(scene.on(LibraryEvent::Tick), ["look at the folder"]);
    assert_eq!(scene.on(LibraryEvent::Tick), [""; 0], "one look at a time");
    // The folder is as it was, so no header is read until something asks for it.
    scene.library.read_models();
    let looks = scene.on(LibraryEvent::FolderSeen(None));
    assert_eq!(looks, [""; 0], "a look that failed has seen nothing");
    assert_eq!(scene.on(LibraryEvent::Tick), ["look at the folder, all headers"]);
    let told = scene.look(true);
    let expected = ["problems of models: 1", "problems of models-folder: 0", "models changed"];
    assert_eq!(told, expected);
    let error = scene.library.model("stories").unwrap_err();
    assert_eq!(error.code, ErrorCode::BadModel);
    assert_eq!(scene.library.folder_view().missing, ["stories"]);
    let left = scene.remove("stories");
    let expected = [
        "close the worker when it is idle",
        "look at the folder, all headers",
        "models changed",
        "show",
        "answer: done",
    ];
    assert_eq!(left, expected);
}

#[test]
fn downloads_run_two_at_a_time_and_the_next_begins_when_one_ends() {
    let mut scene = Scene::new();
    let (first, mut view) = scene.pull("https://example.org/a.gguf");
    assert_eq!(first, ["fetch a.gguf", "show", "download: done"]);
    let key = view.try_recv().unwrap().unwrap().key;
    assert_eq!(
        scene.pull("https://example.org/b.gguf").0,
        ["fetch b.gguf", "show", "download: done"]
    );
    assert_eq!(scene.pull("https://example.org/c.gguf").0, ["show", "download: done"]);
    let gone = FetchError::NotThere { host: "example.org".into(), status: 404 };
    assert_eq!(scene.ended(&key, gone), ["fetch c.gguf"]);
    let states: Vec<_> = scene.states().into_iter().map(|(_, state)| state).collect();
    let connecting = DownloadState::Connecting;
    assert_eq!(states, [DownloadState::Failed, connecting, connecting]);
}

#[test]
fn a_download_that_is_deleted_while_it_runs_is_deleted_when_its_job_has_ended() {
    let mut scene = Scene::new();
    let key = scene.pull("https://example.org/a.gguf").1.try_recv().unwrap().unwrap().key;
    assert_eq!(scene.change(&key, DownloadAsk::Delete), ["show", "answer: done"]);
    assert_eq!(scene.states(), []);
    // Asked for again meanwhile: it begins when the old files are gone.
    assert_eq!(scene.pull("https://example.org/a.gguf").0, ["show", "download: done"]);
    assert_eq!(scene.change(&key, DownloadAsk::Delete), ["show", "answer: done"]);
    assert_eq!(scene.ended(&key, FetchError::Stopped), ["delete the files"]);
    assert_eq!(scene.pull("https://example.org/a.gguf").0, ["show", "download: done"]);
    assert_eq!(scene.on(LibraryEvent::Deleted { key }), ["fetch a.gguf"]);
}

#[test]
fn a_paused_download_rests_until_it_is_resumed() {
    let mut scene = Scene::new();
    let key = scene.pull("https://example.org/a.gguf").1.try_recv().unwrap().unwrap().key;
    assert_eq!(scene.change(&key, DownloadAsk::Pause), ["show", "answer: done"]);
    let Some(Job::Fetch { transfer, .. }) = scene.jobs.first() else { panic!("nothing runs") };
    assert!(transfer.stop.is_cancelled());
    assert_eq!(scene.ended(&key, FetchError::Stopped), [""; 0]);
    assert_eq!(scene.states(), [("a".to_owned(), DownloadState::Paused)]);
    assert_eq!(scene.change(&key, DownloadAsk::Resume), ["fetch a.gguf", "show", "answer: done"]);
    assert_eq!(scene.change("nothing", DownloadAsk::Resume), ["show", "answer refused: not_found"]);
}

/// Bytes that are shown of the only download.
fn have(scene: &Scene) -> u64 {
    scene.library.download_views()[0].have_bytes
}

#[test]
fn what_is_here_of_a_download_is_known_from_looks_and_jobs_and_no_disk_is_waited_for() {
    let mut scene = Scene::new();
    let key = scene.pull("https://example.org/a.gguf").1.try_recv().unwrap().unwrap().key;
    scene.change(&key, DownloadAsk::Pause);
    let Some(Job::Fetch { transfer, .. }) = scene.jobs.first() else { panic!("nothing runs") };
    transfer.tell.send_modify(|progress| progress.have = 9);
    scene.ended(&key, FetchError::Stopped);
    assert_eq!(have(&scene), 9, "what the job told last");
    let folder = scene.library.library.downloads_folder();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{key}.partial")), "12345").unwrap();
    assert_eq!(have(&scene), 9, "nobody has looked");
    scene.look(false);
    assert_eq!(have(&scene), 5);
    std::fs::remove_file(folder.join(format!("{key}.partial"))).unwrap();
    scene.change(&key, DownloadAsk::Resume);
    let Some(Job::Fetch { transfer, .. }) = scene.jobs.last() else { panic!("nothing runs") };
    assert_eq!(transfer.tell.borrow().have, 5, "it begins with what is known");
    scene.look(false);
    assert_eq!(have(&scene), 5, "what runs tells it by itself");
}

#[test]
fn a_copy_that_is_whole_needs_no_device_once_a_look_has_seen_it() {
    let mut scene = Scene::new();
    let source = HouseSource::new(nook_base::ModelDigest([1; 32]), "qwen");
    let key = source.key().as_str().to_owned();
    let listed = nook_store::DownloadEntry {
        key: key.clone(),
        source: source.to_string(),
        name: "qwen".to_owned(),
        wish: nook_store::DownloadWish::Run,
        added: 0,
    };
    scene.library.downloads.list.put(listed).unwrap();
    let folder = scene.library.library.downloads_folder();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{key}.gguf")), "12345").unwrap();
    let note = format!(
        r#"{{"version":1,"source":"{source}","file":{{"bytes":5}},"synced":5,"whole":"00"}}"#
    );
    std::fs::write(folder.join(format!("{key}.json")), note).unwrap();
    assert_eq!(scene.on(LibraryEvent::TrustChanged), [""; 0], "nobody has looked");
    assert_eq!(scene.look(false), ["copy, nobody first"]);
}

#[test]
fn what_no_device_gives_cannot_be_copied_and_a_device_that_is_no_giver_gives_nothing() {
    let mut scene = Scene::new();
    let model = HaveModel {
        model: nook_base::ModelDigest([1; 32]),
        bytes: 9,
        layers: 6,
        name: "qwen".to_owned(),
    };
    let said = scene.on(LibraryEvent::Have(PEER, Have { models: vec![model] }));
    assert_eq!(said, [""; 0]);
    let (answer, mut waiting) = oneshot::channel();
    let ask = ModelCommand::CopyModel {
        model: "qwen".to_owned(),
        from: None,
        extent: CopyExtent::Whole,
        answer,
    };
    let refused = scene.on(LibraryEvent::Asked(ask));
    assert_eq!(refused, ["show", "download refused: not_found"]);
    assert!(waiting.try_recv().unwrap().unwrap_err().sentence.contains("qwen"));
    let (answer, _waiting) = oneshot::channel();
    let from = Some("cellar".to_owned());
    let ask = ModelCommand::CopyModel {
        model: "qwen".to_owned(),
        from,
        extent: CopyExtent::Whole,
        answer,
    };
    assert_eq!(scene.on(LibraryEvent::Asked(ask)), ["show", "download refused: not_found"]);
}

#[test]
fn a_move_waits_for_downloads_and_is_chosen_last() {
    let mut scene = Scene::new();
    let key = scene.pull("https://example.org/a.gguf").1.try_recv().unwrap().unwrap().key;
    let to = scene.folder.path().join("elsewhere");
    std::fs::create_dir(&to).unwrap();
    let (answer, mut waiting) = oneshot::channel();
    let ask = ModelCommand::MoveModels { to: Some(to.clone()), answer };
    assert_eq!(scene.on(LibraryEvent::Asked(ask)), [""; 0]);
    let state = |scene: &Scene| scene.library.folder_view().moving.map(|it| it.state);
    assert_eq!(state(&scene), Some(MoveState::Waiting));
    assert_eq!(scene.pull("https://example.org/b.gguf").0, ["show", "download: done"]);
    assert_eq!(scene.ended(&key, FetchError::Stopped), ["show", "bring 0 models"]);
    assert_eq!(scene.remove("ember"), ["show", "answer refused: busy"]);
    let Some(Job::Bring { library, to, wanted, stop, tell, answer }) = scene.jobs.pop() else {
        panic!("nothing is brought");
    };
    let plan = library.plan_move(&scene.home, to.as_deref());
    let brought = bring(plan, wanted, &stop, &tell, answer);
    assert_eq!(waiting.try_recv().unwrap(), Ok(()));
    assert_eq!(scene.on(LibraryEvent::Brought(Box::new(brought))), ["choose the folder"]);
    assert_eq!(scene.on(LibraryEvent::FolderChosen(Ok(to.clone()))), ["settle"]);
    let begun = scene.on(LibraryEvent::Cleared(Stamps::new()));
    assert_eq!(begun, ["fetch a.gguf", "fetch b.gguf", "look at the folder, all headers"]);
    let folder = scene.library.folder_view();
    assert_eq!((Path::new(&folder.path), folder.moving), (&*to.unwrap(), None));
}

#[test]
fn a_move_that_cannot_be_done_is_answered_and_everything_goes_on() {
    let mut scene = Scene::new();
    let (answer, waiting) = oneshot::channel();
    // Only a whole path says where it leads.
    let to = Some(PathBuf::from("not/whole"));
    let ask = ModelCommand::MoveModels { to, answer };
    assert_eq!(scene.on(LibraryEvent::Asked(ask)), ["show", "bring 0 models"]);
    let Some(Job::Bring { library, to, wanted, stop, tell, answer }) = scene.jobs.pop() else {
        panic!("nothing is brought");
    };
    let brought =
        bring(library.plan_move(&scene.home, to.as_deref()), wanted, &stop, &tell, answer);
    assert!(matches!(brought, Err(NotBrought::Refused(..))), "{brought:?}");
    let told = scene.on(LibraryEvent::Brought(Box::new(brought)));
    assert_eq!(told, ["show", "answer refused: bad_request"]);
    drop(waiting);
    assert_eq!(scene.library.folder_view().moving, None);
}
