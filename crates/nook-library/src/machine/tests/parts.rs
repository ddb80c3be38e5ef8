//! Layers that are asked for, as lists of events.

use std::collections::BTreeSet;
use std::path::PathBuf;

use nook_api::views::Wording;
use nook_base::{LayerRange, ModelDigest, ModelPart};
use nook_fetch::Folder;
use nook_model::{Manifest, ModelFile, Presence};
use nook_resources::catalogue::PartialModels;

use super::*;
use crate::part_failure::PartFailure;
use crate::part_job::PartEnd;
use crate::partial::{Found, PartialModel, PartialPlace};
use crate::parts::{PARTS_ASKED_MAX, PartWish};

fn model(number: u8) -> ModelDigest {
    ModelDigest([number; 32])
}

fn layers(start: u32, end: u32) -> ModelPart {
    ModelPart::inner(LayerRange::new(start, end).unwrap())
}

/// An end of the job of a model, with nothing here.
fn end(number: u8, failure: Option<PartFailure>) -> LibraryEvent {
    let model = model(number);
    LibraryEvent::PartEnded(Box::new(PartEnd {
        model,
        failure,
        partial: None,
        liars: BTreeSet::new(),
    }))
}

impl Scene {
    fn wish(&mut self, number: u8, part: ModelPart) -> Vec<String> {
        let (model, name) = (model(number), "amber".to_owned());
        let wish = PartWish { model, name, part, holders: BTreeSet::new() };
        self.on(LibraryEvent::TakePart(wish))
    }

    /// The job of a model has ended; so much is here, as far as the cap is concerned. The file is
    /// a whole one, so all of its parts are.
    fn here(&mut self, number: u8, bytes: u64, failure: Option<PartFailure>) -> Vec<String> {
        // Its permit goes with it.
        self.jobs.retain(|job| !matches!(job, Job::TakePart(of) if of.model == model(number)));
        let path = self.model_file();
        let file = ModelFile::open(&path).unwrap();
        let (model, liars) = (model(number), BTreeSet::new());
        let partial = Some(PartialModel { model, path, file, bytes, used: 0 });
        self.on(LibraryEvent::PartEnded(Box::new(PartEnd { model, failure, partial, liars })))
    }

    fn ended_part(&mut self, number: u8, failure: PartFailure) -> Vec<String> {
        self.jobs.retain(|job| !matches!(job, Job::TakePart(of) if of.model == model(number)));
        self.on(end(number, Some(failure)))
    }

    fn deleted(&mut self, number: u8) -> Vec<String> {
        self.on(LibraryEvent::PartDeleted { model: model(number), partial: None })
    }

    fn known(&self) -> Vec<u8> {
        self.library.partial_models().map(|partial| partial.model.0[0]).collect()
    }

    /// The library as the next start finds it.
    fn opened_again(&self) -> ModelLibrary {
        let lifetime = CancellationToken::new();
        ModelLibrary::open(&self.home, None, 0, Traffic::default(), lifetime).unwrap()
    }

    /// A partial model on the disk, of which no tensor is here.
    fn begun_on_disk(&self) -> (ModelDigest, PathBuf) {
        let whole = self.model_file();
        let manifest = Manifest::at(&whole).unwrap();
        let digest = manifest.digest();
        let bytes = std::fs::read(&whole).unwrap();
        let header = &bytes[..manifest.header_bytes() as usize];
        let folder = Folder::at(self.library.library.partial_folder());
        let place = PartialPlace::new(folder, digest);
        let Ok(Found::Nothing(slot)) = place.find() else { panic!("something is there") };
        let begun = place.begin(slot, manifest, header).unwrap();
        (digest, begun.sparse.path().to_owned())
    }
}

#[test]
fn one_model_has_one_job_and_a_second_wish_goes_on_behind_it() {
    let mut scene = Scene::new();
    assert_eq!(scene.wish(1, layers(2, 4)), ["take layers 2-3 of 1"]);
    assert_eq!(scene.wish(1, layers(4, 6)), [""; 0]);
    assert_eq!(scene.wish(1, layers(4, 6)), [""; 0], "the same again");
    let told = scene.here(1, 10, None);
    assert_eq!(told, ["layers 2-3 of 1 are here", "take layers 4-5 of 1"]);
    // The file that the test has put there has them all.
    assert_eq!(scene.wish(1, layers(2, 3)), ["layers 2-2 of 1 are here"]);
    assert_eq!(scene.here(1, 20, None), ["layers 4-5 of 1 are here"]);
    assert_eq!(scene.known(), [1]);
}

#[test]
fn two_models_are_taken_at_once_and_more_wait_and_too_many_are_refused() {
    let mut scene = Scene::new();
    assert_eq!(scene.wish(1, layers(0, 1)), ["take layers 0-0 of 1"]);
    assert_eq!(scene.wish(2, layers(0, 1)), ["take layers 0-0 of 2"]);
    for number in 0..PARTS_ASKED_MAX as u8 {
        assert_eq!(scene.wish(10 + number, layers(0, 1)), [""; 0]);
    }
    let refused = scene.wish(99, layers(0, 1));
    assert_eq!(refused, ["layers 0-0 of 99 failed: too many layers are asked for at once"]);
    let told = scene.ended_part(2, PartFailure::NoHolder);
    let failed = "layers 0-0 of 2 failed: no device that gives this model is here";
    assert_eq!(told, [failed, "take layers 0-0 of 10"]);
}

#[test]
fn a_permit_that_a_job_gives_back_while_it_waits_is_taken_at_the_next_look() {
    let mut scene = Scene::new();
    scene.wish(1, layers(0, 1));
    scene.wish(2, layers(0, 1));
    assert_eq!(scene.wish(3, layers(0, 1)), [""; 0]);
    // As a job does that waits for a device that is busy.
    scene.jobs.remove(0);
    assert_eq!(scene.on(LibraryEvent::Tick), ["take layers 0-0 of 3", "look at the folder"]);
}

#[test]
fn layers_that_are_wanted_no_more_are_stopped_or_forgotten() {
    let stopped =
        |layers: &str, of| format!("layers {layers} of {of} failed: {}", PartFailure::Stopped);
    let mut scene = Scene::new();
    scene.wish(1, layers(0, 1));
    scene.wish(1, layers(1, 2));
    let told = scene.on(LibraryEvent::StopPart(model(1)));
    assert_eq!(told, [stopped("1-1", 1), stopped("0-0", 1)]);
    let Some(Job::TakePart(job)) = scene.jobs.first() else { panic!("nothing runs") };
    assert!(job.transfer.stop.is_cancelled());
    assert_eq!(scene.here(1, 10, Some(PartFailure::Stopped)), [""; 0], "it is known");
    assert_eq!(scene.known(), [1], "what came stays");
    assert_eq!(scene.on(LibraryEvent::ForgetPart(model(1))), ["delete layers of 1"]);
    // Asked for again meanwhile: it begins when the old file is gone.
    assert_eq!(scene.wish(1, layers(3, 4)), [""; 0]);
    assert_eq!(scene.deleted(1), ["nothing of 1 is here", "take layers 3-3 of 1"]);
    assert_eq!(scene.on(LibraryEvent::ForgetPart(model(1))), [stopped("3-3", 1)]);
    assert_eq!(scene.here(1, 5, Some(PartFailure::Stopped)), ["delete layers of 1"]);
    assert_eq!(scene.deleted(1), ["nothing of 1 is here"]);
    assert_eq!(scene.known(), [0; 0]);
    assert_eq!(scene.on(LibraryEvent::ForgetPart(model(1))), [""; 0], "nothing is there");
}

#[test]
fn whoever_asks_while_a_stopped_job_is_ending_hears_only_of_the_next_one() {
    let mut scene = Scene::new();
    scene.wish(1, layers(0, 1));
    let told = scene.on(LibraryEvent::StopPart(model(1)));
    assert_eq!(told, [format!("layers 0-0 of 1 failed: {}", PartFailure::Stopped)]);
    // Another device wants the same layers before the job has ended.
    assert_eq!(scene.wish(1, layers(0, 1)), [""; 0]);
    assert_eq!(scene.ended_part(1, PartFailure::Stopped), ["take layers 0-0 of 1"]);
    assert_eq!(scene.here(1, 10, None), ["layers 0-0 of 1 are here"]);
}

#[test]
fn at_the_cap_those_that_nobody_needs_go_the_longest_unused_first() {
    let mut scene = Scene::new();
    for number in 1..=3 {
        scene.seconds = 10 - u64::from(number);
        scene.wish(number, layers(0, 1));
        scene.here(number, 100, None);
    }
    // The third is the longest unused, but needed.
    scene.on(LibraryEvent::PartsNeeded([model(3)].into()));
    scene.on(LibraryEvent::PartsCap(350));
    assert_eq!(scene.wish(4, layers(0, 1)), ["take layers 0-0 of 4"]);
    let full = PartFailure::CapReached { needed: 120, most: 50 };
    assert_eq!(scene.here(4, 1, Some(full.clone())), ["delete layers of 2"]);
    // Nothing is taken before there is room.
    assert_eq!(scene.wish(5, layers(0, 1)), [""; 0]);
    let begun = scene.deleted(2);
    assert_eq!(begun, ["nothing of 2 is here", "take layers 0-0 of 4", "take layers 0-0 of 5"]);
    assert_eq!(scene.known(), [1, 3, 4]);
    // More than all that can go.
    let too_much = PartFailure::CapReached { needed: 900, most: 50 };
    let told = scene.here(4, 1, Some(too_much));
    let failed = "layers 0-0 of 4 failed: the layers need 900 bytes, and 50 may be used for them";
    assert_eq!(told, [failed]);
    // One that is let go of counts as used until then.
    scene.seconds = 99;
    scene.on(LibraryEvent::PartsNeeded(BTreeSet::new()));
    let told = scene.here(5, 1, Some(PartFailure::CapReached { needed: 150, most: 51 }));
    assert_eq!(told, ["delete layers of 4", "delete layers of 1"], "and not the third");
}

#[test]
fn a_cap_that_is_lowered_holds_for_what_is_here_already() {
    let mut scene = Scene::new();
    for number in 1..=3 {
        scene.seconds = 10 - u64::from(number);
        scene.wish(number, layers(0, 1));
        scene.here(number, 100, None);
    }
    scene.on(LibraryEvent::PartsNeeded([model(2)].into()));
    assert_eq!(scene.on(LibraryEvent::PartsCap(300)), [""; 0]);
    assert_eq!(scene.on(LibraryEvent::PartsCap(250)), ["delete layers of 3"]);
    scene.deleted(3);
    let less = scene.on(LibraryEvent::PartsCap(50));
    assert_eq!(less, ["delete layers of 1"], "the second is of use");
    scene.deleted(1);
    let unneeded = scene.on(LibraryEvent::PartsNeeded(BTreeSet::new()));
    assert_eq!(unneeded, ["delete layers of 2"]);
}

#[test]
fn room_that_cannot_be_made_is_not_tried_for_ever() {
    let mut scene = Scene::new();
    scene.wish(1, layers(0, 1));
    scene.here(1, 100, None);
    let partial = scene.library.partial_models().next().cloned().map(Box::new);
    scene.wish(2, layers(0, 1));
    let full = || Some(PartFailure::CapReached { needed: 100, most: 10 });
    assert_eq!(scene.here(2, 1, full()), ["delete layers of 1"]);
    let left = LibraryEvent::PartDeleted { model: model(1), partial };
    assert_eq!(scene.on(left), ["take layers 0-0 of 2"]);
    let told = scene.here(2, 1, full());
    let failed = "layers 0-0 of 2 failed: the layers need 100 bytes, and 10 may be used for them";
    assert_eq!(told, [failed]);
}

#[test]
fn a_partial_model_is_found_again_and_is_no_model_of_the_list() {
    let mut scene = Scene::new();
    let (digest, path) = scene.begun_on_disk();
    let library = scene.opened_again();
    let found: Vec<_> = library.partial_models().map(|it| (it.model, it.path.clone())).collect();
    assert_eq!(found, [(digest, path.clone())]);
    assert!(library.entries().iter().all(|entry| entry.digest() != digest));
    assert!(library.model(&digest.to_string()).is_err());
    scene.library = library;
    scene.on(LibraryEvent::Started);
    // When the whole model comes, its layers go.
    let file = scene.model_file();
    let joined = scene.import(&file, "stories");
    let deletes = format!("delete layers of {}", digest.0[0]);
    let closes = "close the worker when it is idle";
    assert_eq!(joined, [closes, "models changed", &deletes, "show", "model stories"]);
    let Some(Job::DeletePart { model, folder }) = scene.jobs.pop() else { panic!("no job") };
    PartialPlace::new(folder, model).discard().unwrap();
    assert!(!path.exists());
    // And who wants a part of it has the whole.
    scene.on(LibraryEvent::PartDeleted { model, partial: None });
    let wish =
        PartWish { model, name: String::new(), part: layers(0, 1), holders: BTreeSet::new() };
    let told = scene.on(LibraryEvent::TakePart(wish));
    assert_eq!(told, [format!("layers 0-0 of {} are here", digest.0[0])]);
}

#[test]
fn layers_that_are_in_use_when_the_whole_model_comes_go_when_nobody_needs_them() {
    let mut scene = Scene::new();
    let (digest, _) = scene.begun_on_disk();
    scene.library = scene.opened_again();
    scene.on(LibraryEvent::Started);
    scene.on(LibraryEvent::PartsNeeded([digest].into()));
    let file = scene.model_file();
    let closes = "close the worker when it is idle";
    let joined = scene.import(&file, "stories");
    assert_eq!(joined, [closes, "models changed", "show", "model stories"]);
    let over = scene.on(LibraryEvent::PartsNeeded(BTreeSet::new()));
    assert_eq!(over, [format!("delete layers of {}", digest.0[0])]);
}

#[test]
fn a_move_of_the_models_waits_for_layers_on_their_way_and_leaves_those_that_are_here() {
    let mut scene = Scene::new();
    scene.wish(1, layers(0, 1));
    scene.here(1, 10, None);
    scene.wish(2, layers(0, 1));
    scene.wish(2, layers(1, 2));
    let to = scene.folder.path().join("elsewhere");
    std::fs::create_dir(&to).unwrap();
    let (answer, _waiting) = oneshot::channel();
    let ask = ModelCommand::MoveModels { to: Some(to.clone()), answer };
    let away = |layers| format!("layers {layers} of 2 failed: {}", PartFailure::FolderAway);
    assert_eq!(scene.on(LibraryEvent::Asked(ask)), [away("1-1")]);
    assert_eq!(scene.wish(2, layers(2, 3)), [away("2-2")]);
    let told = scene.here(2, 10, Some(PartFailure::Stopped));
    let stopped = format!("layers 0-0 of 2 failed: {}", PartFailure::Stopped);
    assert_eq!(told, [&stopped, "show", "bring 0 models"]);
    let Some(Job::Bring { library, to, wanted, stop, tell, answer }) = scene.jobs.pop() else {
        panic!("nothing is brought");
    };
    let brought =
        bring(library.plan_move(&scene.home, to.as_deref()), wanted, &stop, &tell, answer);
    scene.on(LibraryEvent::Brought(Box::new(brought)));
    let told = scene.on(LibraryEvent::FolderChosen(Ok(to)));
    assert_eq!(
        told,
        [
            "leave layers of 1",
            "nothing of 1 is here",
            "leave layers of 2",
            "nothing of 2 is here",
            "settle"
        ]
    );
    assert_eq!(scene.known(), [0; 0]);
}

/// All tensors of a model that was [begun](Scene::begun_on_disk) come.
fn fill(scene: &Scene, model: ModelDigest, path: &Path) -> PartialModel {
    std::fs::copy(scene.model_file(), path).unwrap();
    let mut presence = Presence::load(path).unwrap().unwrap();
    (0..presence.tensors()).for_each(|number| presence.mark(number).unwrap());
    presence.store(path).unwrap();
    PartialPlace::new(Folder::at(scene.library.library.partial_folder()), model).look().unwrap()
}

#[test]
fn a_listed_model_whose_ends_are_not_all_here_is_taken_again_and_used_when_they_are() {
    let mut scene = Scene::new();
    let (model, path) = scene.begun_on_disk();
    let bytes = std::fs::metadata(&path).unwrap().len();
    scene.library.library.list_ends(model, "amber", bytes, 0).unwrap();
    scene.library = scene.opened_again();
    scene.on(LibraryEvent::Started);
    assert!(scene.library.entries().iter().all(|entry| entry.digest() != model));
    let error = scene.library.model("amber").unwrap_err();
    assert!(matches!(error.wording, Some(Wording::EndsOnTheirWay { .. })), "{error}");
    let views = scene.library.download_views();
    let [view] = &views[..] else { panic!("one way: {views:?}") };
    assert_eq!((view.state, &*view.name), (DownloadState::Waiting, "amber"), "nobody gives it");

    let (part, holders) = (layers(0, 1), BTreeSet::new());
    let wish = PartWish { model, name: String::new(), part, holders };
    assert_eq!(scene.on(LibraryEvent::TakePart(wish)).len(), 1, "a job for another device");
    let partial = Some(fill(&scene, model, &path));
    let ended = PartEnd { model, failure: None, partial, liars: BTreeSet::new() };
    let told = scene.on(LibraryEvent::PartEnded(Box::new(ended)));
    // At once: who follows the download never finds neither of them.
    assert!(told.contains(&"models changed".to_owned()), "{told:?}");
    assert_eq!(scene.library.download_views().len(), 0);
    let entry = scene.library.model("amber").unwrap();
    assert!(entry.ends_only && scene.library.partial_models().count() == 1);
    // No cap on what others ask for counts them, and no lack of room takes them.
    scene.on(LibraryEvent::PartsCap(100));
    scene.wish(1, layers(0, 1));
    let full = Some(PartFailure::CapReached { needed: 200, most: 100 });
    let told = scene.here(1, 1, full);
    let failed = "layers 0-0 of 1 failed: the layers need 200 bytes, and 100 may be used for them";
    assert_eq!(told, [failed]);
    assert_eq!(scene.library.parts.room(), 100);

    // Removed while a worker has it open, it goes behind that.
    scene.on(LibraryEvent::PartsNeeded([model].into()));
    let told = scene.remove("amber");
    assert_eq!(
        told,
        ["close the worker when it is idle", "models changed", "show", "answer: done"]
    );
    let told = scene.on(LibraryEvent::PartsNeeded(BTreeSet::new()));
    assert_eq!(told, [format!("delete layers of {}", model.0[0])]);
    assert_eq!(scene.library.download_views().len(), 0, "it is not taken again");
}

#[test]
fn a_model_that_only_a_liar_has_is_told_apart_from_one_that_nobody_has() {
    let mut scene = Scene::new();
    let given = |scene: &Scene| PartialModels::given(&scene.library, model(1));
    assert_eq!(given(&scene), Err(ErrorCode::FetchFailed));
    let have = HaveModel { model: model(1), bytes: 9, layers: 6, name: "amber".to_owned() };
    scene.on(LibraryEvent::Have(PEER, Have { models: vec![have] }));
    assert_eq!(given(&scene), Err(ErrorCode::FetchFailed), "it is not allowed to give");
    scene.wish(1, layers(0, 1));
    let why = PartFailure::WrongBytes { device: "attic".to_owned() };
    let liars = BTreeSet::from([PEER]);
    let end = PartEnd { model: model(1), failure: Some(why), partial: None, liars };
    scene.on(LibraryEvent::PartEnded(Box::new(end)));
    assert_eq!(given(&scene), Err(ErrorCode::BadModel));
}
