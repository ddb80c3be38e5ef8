//! Model files that somebody touches: what a look at them says, and what is noted of them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nook_base::{FileStamp, ModelDigest};
use nook_store::{
    FileStanding, FileState, Home, HomeChoice, ImportError, Library, ModelEntry, Take,
    stamp_before_digest,
};

const NOW: u64 = 1_800_000_000;

struct Desk {
    folder: tempfile::TempDir,
    home: Home,
    library: Library,
}

impl Desk {
    /// With one model, taken so.
    fn with(take: Take) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = Home::open(&HomeChoice::At(folder.path().join("home"))).expect("a home");
        let library = open(&home);
        let source = folder.path().join("one.gguf");
        fs::write(&source, b"one").expect("a file");
        let mut desk = Self { folder, home, library };
        desk.import(&source, take);
        desk
    }

    fn import(&mut self, source: &Path, take: Take) -> ModelEntry {
        let staged = self.library.stager().stage(source, take, digest_of).expect("a model");
        self.library.adopt(staged, Some("one"), NOW).expect("it is taken")
    }

    fn model(&self) -> ModelEntry {
        self.library.resolve("one").expect("it is listed").clone()
    }

    fn file(&self) -> PathBuf {
        self.model().path
    }

    /// What a look says, now and at the next start.
    fn states(&self) -> [FileState; 2] {
        let next = open(&self.home);
        [self.model().state(), next.resolve("one").expect("it is listed").state()]
    }
}

fn open(home: &Home) -> Library {
    Library::open(home, None, NOW, digest_of).expect("a library")
}

fn digest_of(path: &Path) -> Result<ModelDigest, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    Ok(ModelDigest(*blake3::hash(&bytes).as_bytes()))
}

fn stamp(path: &Path) -> FileStamp {
    stamp_before_digest(path).expect("it is there")
}

/// Writes other bytes of the same length and sets the time of modification back.
fn rewrite(path: &Path, content: &[u8]) {
    let modified = fs::metadata(path).and_then(|found| found.modified()).expect("a time");
    fs::write(path, content).expect("it can be written");
    let file = File::options().write(true).open(path).expect("it is there");
    file.set_modified(modified).expect("it is ours");
}

const TAKES: [Take; 4] = [Take::Copy, Take::Link, Take::InPlace, Take::Move];

#[test]
fn a_file_that_nobody_touched_is_what_it_was() {
    for take in TAKES {
        let desk = Desk::with(take);
        assert_eq!(desk.states(), [FileState::Present; 2], "{take:?}");
        fs::read(desk.file()).unwrap();
        assert_eq!(desk.states(), [FileState::Present; 2], "read by others, {take:?}");
    }
}

#[cfg(unix)]
#[test]
fn m6_other_bytes_of_the_same_length_are_seen_whatever_the_time_of_modification_says() {
    for take in TAKES {
        let desk = Desk::with(take);
        rewrite(&desk.file(), b"two");
        assert_eq!(desk.states(), [FileState::Unsure; 2], "in its place, {take:?}");

        let desk = Desk::with(take);
        let (file, beside) = (desk.file(), desk.folder.path().join("two"));
        fs::copy(&file, &beside).unwrap();
        rewrite(&beside, b"two");
        fs::rename(&beside, &file).unwrap();
        assert_eq!(desk.states(), [FileState::Unsure; 2], "another file, {take:?}");

        fs::write(&file, b"longer").unwrap();
        assert_eq!(desk.states(), [FileState::Changed; 2], "{take:?}");
    }
}

#[cfg(unix)]
#[test]
fn m6_the_time_of_the_last_change_alone_makes_a_model_unsure() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::with(Take::Copy);
    fs::set_permissions(desk.file(), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(desk.states(), [FileState::Unsure; 2]);
    let desk = Desk::with(Take::Copy);
    fs::hard_link(desk.file(), desk.folder.path().join("second")).unwrap();
    assert_eq!(desk.states(), [FileState::Unsure; 2]);
    // It is whole, for all that is known: no other file takes its place.
    assert_eq!(desk.library.standing(&desk.model()), FileStanding::Whole);
}

#[cfg(unix)]
#[test]
fn m6_what_came_of_reading_a_file_again_is_noted() {
    let mut desk = Desk::with(Take::Copy);
    let (file, digest) = (desk.file(), desk.model().digest);
    rewrite(&file, b"one");
    desk.library.confirm(digest, Some(stamp(&file))).unwrap();
    assert_eq!(desk.states(), [FileState::Present; 2]);

    rewrite(&file, b"two");
    desk.library.refuse(digest, stamp(&file));
    // The next start reads it again.
    assert_eq!(desk.states(), [FileState::Changed, FileState::Unsure]);
    assert_eq!(desk.library.standing(&desk.model()), FileStanding::Lost);
    // And so does whoever puts it right.
    rewrite(&file, b"one");
    assert_eq!(desk.states(), [FileState::Unsure; 2]);
}

#[cfg(unix)]
#[test]
fn a_file_that_is_imported_where_it_is_listed_need_not_be_read_once_more() {
    let mut desk = Desk::with(Take::InPlace);
    let file = desk.file();
    rewrite(&file, b"one");
    let again = desk.import(&file, Take::InPlace);
    assert_eq!(again, desk.model());
    assert_eq!(desk.states(), [FileState::Present; 2]);
}

#[test]
fn a_list_of_an_earlier_version_has_all_files_read_once() {
    let desk = Desk::with(Take::Copy);
    let index = desk.home.data().join("models.json");
    let mut list: serde_json::Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    list["models"][0].as_object_mut().unwrap().remove("stamp").expect("it was noted");
    fs::write(&index, list.to_string()).unwrap();
    let mut library = open(&desk.home);
    let model = library.resolve("one").unwrap().clone();
    assert_eq!(model.state(), FileState::Unsure);
    library.confirm(model.digest, Some(stamp(&model.path))).unwrap();
    assert_eq!(desk.states()[1], FileState::Present);
}

#[test]
fn m1_a_file_that_changes_while_it_is_digested_is_not_taken() {
    let desk = Desk::with(Take::Copy);
    let source = desk.folder.path().join("other.gguf");
    fs::write(&source, b"other").unwrap();
    let staged = desk.library.stager().stage(&source, Take::InPlace, |path| {
        let digest = digest_of(path);
        rewrite(path, b"OTHER");
        digest
    });
    assert!(matches!(staged, Err(ImportError::SourceChanged { .. })), "{staged:?}");
}

#[test]
fn m5_a_file_that_grows_while_it_is_read_is_not_taken() {
    for take in TAKES {
        let desk = Desk::with(Take::Copy);
        let source = desk.folder.path().join("other.gguf");
        fs::write(&source, b"other").unwrap();
        let staged = desk.library.stager().stage(&source, take, |path| {
            let digest = digest_of(path);
            fs::write(path, b"other, and more").unwrap();
            digest
        });
        assert!(matches!(staged, Err(ImportError::SourceChanged { .. })), "{take:?}: {staged:?}");
        assert_eq!(desk.library.models().len(), 2, "{take:?}");
    }
}

#[test]
fn a_file_that_only_a_move_gave_another_stamp_need_not_be_read_again() {
    let mut desk = Desk::with(Take::Copy);
    let target = desk.folder.path().join("chosen");
    for to in [Some(target.as_path()), None] {
        // Taken back once all is there, then not.
        for is_chosen in [false, true] {
            let plan = desk.library.plan_move(&desk.home, to);
            let moving = plan.prepare(|_| Ok(1 << 40)).unwrap();
            moving.run(&|| false, &mut |_| {}).unwrap();
            if is_chosen {
                desk.library.moved(to, &moving.stamps());
                moving.settle();
                let next = Library::open(&desk.home, to, NOW, digest_of).unwrap();
                assert_eq!(next.resolve("one").unwrap().state(), FileState::Present, "{to:?}");
            } else {
                moving.undo();
                desk.library.stayed(&moving.stamps());
            }
            assert_eq!(desk.model().state(), FileState::Present, "{to:?}, {is_chosen}");
        }
    }
}

#[cfg(unix)]
#[test]
fn m6_what_somebody_touched_before_a_move_is_not_known_better_behind_it() {
    let mut desk = Desk::with(Take::Copy);
    rewrite(&desk.file(), b"two");
    let target = desk.folder.path().join("chosen");
    let plan = desk.library.plan_move(&desk.home, Some(&target));
    let moving = plan.prepare(|_| Ok(1 << 40)).unwrap();
    moving.run(&|| false, &mut |_| {}).unwrap();
    desk.library.moved(Some(&target), &moving.stamps());
    assert_eq!(desk.model().state(), FileState::Unsure);
}
