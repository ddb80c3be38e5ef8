//! Moving the models to another folder: nothing is lost, whenever it is killed, and what cannot be
//! is refused.

#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::places::skip;
use nook_base::{ModelDigest, env};
use nook_store::{
    FileState, Home, HomeChoice, HomeError, ImportError, Library, ModelsMove, MoveError,
    SettingValue, SettingsFile, Take, recover_move,
};

const NOW: u64 = 1_800_000_000;

/// Longer than one piece of a copy, so that a copy can be killed in its middle.
const LONG_BYTES: usize = 2_500_000;

const CHILD_HOME: &str = "INGLENOOK_TEST_MOVING_HOME";
const CHILD_FOLDERS: &str = "INGLENOOK_TEST_MOVING_FOLDERS";
const ROUNDS: u32 = 12;
const LOCK_TRIES_MAX: u32 = 1_000_000;

/// An installation with two models and a download.
struct Desk {
    home: Home,
    settings: SettingsFile,
    library: Library,
}

impl Desk {
    /// A start of the program.
    fn open(at: &Path) -> Self {
        let home = open_home(at);
        let settings = SettingsFile::load(&home).expect("settings");
        let chosen = settings.settings().models.folder.clone();
        recover_move(&home, chosen.as_deref());
        let library = Library::open(&home, chosen.as_deref(), NOW, digest_of).expect("a library");
        Self { home, settings, library }
    }

    fn filled(at: &Path) -> Self {
        let mut desk = Self::open(at);
        for (name, byte, bytes) in [("long", 7_u8, LONG_BYTES), ("short", 9, 10)] {
            let source = at.join(format!("{name}.gguf"));
            fs::write(&source, vec![byte; bytes]).unwrap();
            let staged = desk.library.stager().stage(&source, Take::Move, digest_of).unwrap();
            desk.library.adopt(staged, Some(name), NOW).unwrap();
        }
        let downloads = desk.library.downloads_folder();
        fs::create_dir_all(&downloads).unwrap();
        for (name, content) in DOWNLOAD {
            fs::write(downloads.join(name), content).unwrap();
        }
        desk
    }

    fn prepare(&self, to: Option<&Path>) -> Result<ModelsMove, MoveError> {
        self.library.plan_move(&self.home, to).prepare(|_| Ok(1 << 40))
    }

    /// What the program does once all files are brought over.
    fn choose(&mut self, prepared: &ModelsMove) {
        let value = prepared.setting().map_or(SettingValue::Unset, SettingValue::from);
        self.settings.change(&[("models.folder", value)]).unwrap();
        let chosen = self.settings.settings().models.folder.clone();
        self.library.moved(chosen.as_deref(), &prepared.stamps());
    }

    fn move_to(&mut self, to: Option<&Path>) -> Result<(), MoveError> {
        let prepared = self.prepare(to)?;
        prepared.run(&|| false, &mut |_| {})?;
        self.choose(&prepared);
        prepared.settle();
        Ok(())
    }

    /// All is whole, in the folder that counts, and nowhere else.
    #[track_caller]
    fn check(&self, folders: &[&Path]) {
        for model in self.library.models() {
            // What a crash has moved is read again.
            let is_there = matches!(model.state(), FileState::Present | FileState::Unsure);
            assert!(is_there, "{}", model.path.display());
        }
        let long = self.library.resolve("long").unwrap();
        assert!(long.path.starts_with(self.library.folder()), "{}", long.path.display());
        let usual = self.home.data().join("models");
        let mut expected: BTreeMap<String, Vec<u8>> =
            [("long.gguf".to_owned(), vec![7; LONG_BYTES]), ("short.gguf".to_owned(), vec![9; 10])]
                .into();
        for (name, content) in DOWNLOAD {
            expected.insert(format!("downloads/{name}"), content.to_vec());
        }
        for folder in folders.iter().copied().chain([usual.as_path()]) {
            let mut found = files_in(folder);
            found.remove("ember-q8_0.gguf");
            let is_marked = found.remove(".inglenook-models").is_some();
            let is_here = folder == self.library.folder();
            assert_eq!(is_marked, is_here && folder != usual, "{}", folder.display());
            let names: Vec<_> = found.keys().cloned().collect();
            let wanted = if is_here { expected.clone() } else { BTreeMap::new() };
            assert!(found == wanted, "{}: {names:?}", folder.display());
        }
        assert!(!self.home.data().join("models-move.json").exists());
    }
}

/// A process that another test starts holds a copy of the lock for a moment, between fork and exec.
fn open_home(at: &Path) -> Home {
    for _ in 0..LOCK_TRIES_MAX {
        match Home::open(&HomeChoice::At(at.to_owned())) {
            Err(HomeError::AlreadyRunning { .. }) => std::thread::yield_now(),
            opened => return opened.expect("a home"),
        }
    }
    panic!("the home at {} stays locked", at.display());
}

const DOWNLOAD: [(&str, &[u8]); 3] =
    [("a-1.json", b"{}"), ("a-1.lock", b""), ("a-1.partial", b"GGUF so far")];

fn digest_of(path: &Path) -> Result<ModelDigest, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    Ok(ModelDigest(*blake3::hash(&bytes).as_bytes()))
}

fn files_in(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for (below, prefix) in [(folder.to_owned(), ""), (folder.join("downloads"), "downloads/")] {
        for entry in fs::read_dir(below).into_iter().flatten().flatten() {
            if entry.path().is_file() {
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                found.insert(name, fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

/// A folder beside `beside`, and one on another disk where this machine has one.
fn targets(beside: &Path) -> Vec<(PathBuf, Option<tempfile::TempDir>)> {
    let mut targets = vec![(beside.join("chosen"), None)];
    match other_disk(beside) {
        Some(folder) => targets.push((folder.path().join("chosen"), Some(folder))),
        None => skip("moves from disk to disk", "no second disk"),
    }
    targets
}

#[cfg(unix)]
fn other_disk(beside: &Path) -> Option<tempfile::TempDir> {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir_in("/dev/shm").ok()?;
    let disk = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
    (disk(folder.path()) != disk(beside)).then_some(folder)
}

#[cfg(not(unix))]
fn other_disk(_: &Path) -> Option<tempfile::TempDir> {
    None
}

#[test]
fn models_and_downloads_move_there_and_back_and_are_found_after_a_restart() {
    let root = tempfile::tempdir().unwrap();
    for (number, (target, _disk)) in targets(root.path()).into_iter().enumerate() {
        let at = root.path().join(format!("home-{number}"));
        let mut desk = Desk::filled(&at);
        desk.check(&[&target]);
        desk.move_to(Some(&target)).unwrap();
        desk.check(&[&target]);
        drop(desk);
        let mut desk = Desk::open(&at);
        assert_eq!(desk.library.folder(), target);
        desk.check(&[&target]);
        // Ember stays where it is.
        assert!(desk.library.resolve("ember").unwrap().path.starts_with(&at));
        // A name for the usual folder is the usual folder.
        let usual = desk.home.data().join("models");
        desk.move_to(Some(&usual)).unwrap();
        assert!(desk.library.is_usual());
        desk.check(&[&target]);
        assert!(!fs::read_to_string(desk.settings.path()).unwrap().contains("chosen"));
    }
}

#[test]
fn a_move_that_is_killed_at_any_step_leaves_everything_in_the_old_folder() {
    let root = tempfile::tempdir().unwrap();
    for (number, (target, _disk)) in targets(root.path()).into_iter().enumerate() {
        let at = root.path().join(format!("home-{number}"));
        drop(Desk::filled(&at));
        let mut killed = 0;
        for step in 0.. {
            let desk = Desk::open(&at);
            desk.check(&[&target]);
            let prepared = desk.prepare(Some(&target)).unwrap();
            let told = Cell::new(0);
            // Whoever panics here runs no line of the move any more: as dead as a killed process.
            let dead = catch_unwind(AssertUnwindSafe(|| {
                prepared.run(&|| false, &mut |_| {
                    assert!(told.get() < step, "killed here, on purpose");
                    told.set(told.get() + 1);
                })
            }));
            let through = dead.is_ok();
            drop(desk);
            // Also when all was brought over: the setting decides.
            Desk::open(&at).check(&[&target]);
            if through {
                break;
            }
            killed += 1;
        }
        assert!(killed > 5, "{killed} steps");
    }
}

#[test]
fn a_move_that_is_killed_before_its_first_file_or_while_it_is_taken_back_leaves_everything() {
    let root = tempfile::tempdir().unwrap();
    for (number, (target, _disk)) in targets(root.path()).into_iter().enumerate() {
        let at = root.path().join(format!("home-{number}"));
        let desk = Desk::filled(&at);
        // Written down, and the folder not marked yet.
        let prepared = desk.prepare(Some(&target)).unwrap();
        fs::remove_file(target.join(".inglenook-models")).unwrap();
        drop((desk, prepared));
        let desk = Desk::open(&at);
        desk.check(&[&target]);
        assert!(!target.exists());
        // Brought over, and the first file of it taken back.
        let prepared = desk.prepare(Some(&target)).unwrap();
        prepared.run(&|| false, &mut |_| {}).unwrap();
        let (old, new) = (at.join("models/long.gguf"), target.join("long.gguf"));
        if prepared.renames() {
            fs::rename(new, fs::canonicalize(&at).unwrap().join("models/long.gguf")).unwrap();
        } else {
            assert!(old.exists());
            fs::remove_file(new).unwrap();
        }
        drop((desk, prepared));
        Desk::open(&at).check(&[&target]);
        assert!(!target.exists());
    }
}

#[test]
fn what_a_disk_that_is_pulled_while_files_are_copied_to_it_holds_is_cleaned_up_when_it_is_back() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = other_disk(root.path()) else {
        skip("what_a_disk_that_is_pulled_while_files_are_copied", "no second disk");
        return;
    };
    let unplugged = disk.path().with_extension("unplugged");
    let at = root.path().join("home");
    // A folder that is made for the move, and the disk's own.
    for target in [disk.path().join("chosen"), disk.path().to_owned()] {
        let mut desk = Desk::filled(&at);
        let prepared = desk.prepare(Some(&target)).unwrap();
        let looks = Cell::new(0);
        let pull = || {
            looks.set(looks.get() + 1);
            if looks.get() == 4 {
                fs::rename(disk.path(), &unplugged).unwrap();
            }
            looks.get() >= 4
        };
        prepared.run(&pull, &mut |_| {}).unwrap_err();
        drop(prepared);
        fs::rename(&unplugged, disk.path()).unwrap();
        fs::write(disk.path().join(".mine.new-year"), b"mine").unwrap();
        desk.move_to(Some(&target)).unwrap();
        fs::remove_file(disk.path().join(".mine.new-year")).unwrap();
        desk.check(&[&target]);
        desk.move_to(None).unwrap();
        drop(desk);
        fs::remove_dir_all(&at).unwrap();
    }
}

#[test]
fn a_move_that_is_killed_after_the_setting_was_changed_is_finished() {
    let root = tempfile::tempdir().unwrap();
    for (number, (target, _disk)) in targets(root.path()).into_iter().enumerate() {
        let at = root.path().join(format!("home-{number}"));
        let mut desk = Desk::filled(&at);
        let prepared = desk.prepare(Some(&target)).unwrap();
        prepared.run(&|| false, &mut |_| {}).unwrap();
        desk.choose(&prepared);
        // Killed after the first of the originals was removed, where there are some.
        let _ = fs::remove_file(desk.home.data().join("models/long.gguf"));
        drop((desk, prepared));
        let desk = Desk::open(&at);
        assert_eq!(desk.library.folder(), target);
        desk.check(&[&target]);
    }
}

#[test]
fn an_owner_who_stops_a_move_has_everything_where_it_was() {
    let root = tempfile::tempdir().unwrap();
    for (number, (target, _disk)) in targets(root.path()).into_iter().enumerate() {
        let desk = Desk::filled(&root.path().join(format!("home-{number}")));
        let prepared = desk.prepare(Some(&target)).unwrap();
        let (looks, last) = (Cell::new(0), Cell::new(0));
        let stop = || looks.replace(looks.get() + 1) >= 4;
        let outcome = prepared.run(&stop, &mut |bytes| {
            assert!(bytes >= last.replace(bytes), "goes forward");
        });
        assert_eq!(outcome, Err(MoveError::Stopped));
        assert!(last.get() > 0 && last.get() <= prepared.bytes());
        desk.check(&[&target]);
        assert!(!target.exists(), "the folder that was made for it is gone");
    }
}

#[test]
fn what_cannot_be_the_new_folder_is_refused_by_its_reason_and_nothing_changes() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().join("home");
    let mut desk = Desk::filled(&at);
    let file = root.path().join("file");
    fs::write(&file, b"x").unwrap();
    let full = root.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("short.gguf"), b"mine").unwrap();
    let refuse = |desk: &Desk, to: &Path| desk.prepare(Some(to)).unwrap_err();
    let data = desk.home.data().to_owned();
    for (to, expected) in [
        (PathBuf::from("models"), MoveError::NotWhole { folder: "models".into() }),
        (file.clone(), MoveError::NotAFolder { folder: file.clone() }),
        (root.path().join("no/such"), MoveError::NotThere { folder: root.path().join("no/such") }),
        (data.join("models"), MoveError::AlreadyThere { folder: data.join("models") }),
        (data.clone(), MoveError::Inside { folder: data.clone() }),
        (data.join("models/inner"), MoveError::Inside { folder: data.join("models/inner") }),
        (full.clone(), MoveError::InTheWay { file: full.join("short.gguf") }),
    ] {
        assert_eq!(refuse(&desk, &to), expected);
        desk.check(&[]);
    }
    assert_eq!(fs::read(full.join("short.gguf")).unwrap(), b"mine");

    let second = Desk::filled(&root.path().join("second"));
    let shared = root.path().join("shared");
    desk.move_to(Some(&shared)).unwrap();
    assert_eq!(refuse(&second, &shared), MoveError::OfAnother { folder: shared.clone() });
    second.check(&[]);
    desk.check(&[&shared]);
}

#[test]
fn a_disk_without_room_is_refused_before_the_first_byte() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = other_disk(root.path()) else {
        skip("a_disk_without_room_is_refused_before_the_first_byte", "no second disk");
        return;
    };
    let desk = Desk::filled(&root.path().join("home"));
    let target = disk.path().join("chosen");
    let room = nook_store::MOVE_RESERVE_BYTES + 1000;
    let refused = desk.library.plan_move(&desk.home, Some(&target)).prepare(|_| Ok(room));
    let needed = LONG_BYTES as u64 + 10 + 13;
    assert_eq!(refused.unwrap_err(), MoveError::NoRoom { needed, free: room });
    assert!(!target.exists());
    desk.check(&[&target]);
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_or_named_is_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let desk = Desk::filled(&root.path().join("home"));
    let odd = root.path().join(OsStr::from_bytes(b"caf\xe9"));
    assert_eq!(desk.prepare(Some(&odd)).unwrap_err(), MoveError::NotText { folder: odd });
    let locked = root.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o500)).unwrap();
    let refused = desk.prepare(Some(&locked));
    // Whoever may do everything (root) is not refused.
    match refused {
        Err(MoveError::File(error)) => {
            assert_eq!(error.kind, std::io::ErrorKind::PermissionDenied);
            desk.check(&[&locked]);
        }
        Ok(prepared) => prepared.undo(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_folder_whose_disk_is_away_is_not_made_and_is_known_again_when_it_is_back() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().join("home");
    let disk = root.path().join("disk");
    let target = disk.join("chosen");
    fs::create_dir(&disk).unwrap();
    let mut desk = Desk::filled(&at);
    desk.move_to(Some(&target)).unwrap();
    drop(desk);
    let unplugged = root.path().join("unplugged");
    fs::rename(&disk, &unplugged).unwrap();
    let copy = root.path().join("copy.gguf");
    fs::write(&copy, [9; 10]).unwrap();
    let away = || {
        let mut desk = Desk::open(&at);
        assert!(!desk.library.is_there());
        let state = |name: &str| desk.library.resolve(name).unwrap().state();
        assert_eq!((state("long"), state("ember")), (FileState::Missing, FileState::Present));
        // Nor is a model taken for lost because another file of it comes along.
        let staged = desk.library.stager().stage(&copy, Take::InPlace, digest_of).unwrap();
        let refused = desk.library.adopt(staged, None, NOW);
        assert_eq!(refused, Err(ImportError::Away { folder: target.clone() }));
    };
    away();
    assert!(!disk.exists(), "nothing is made in its place");
    // The empty folder on which the disk appears is not the disk.
    fs::create_dir_all(&target).unwrap();
    away();
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    fs::remove_dir_all(&disk).unwrap();
    fs::rename(&unplugged, &disk).unwrap();
    let desk = Desk::open(&at);
    assert!(desk.library.is_there());
    desk.check(&[&target]);
}

#[test]
fn a_folder_that_was_named_by_hand_or_lost_its_mark_is_marked_when_it_is_chosen() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().join("home");
    let target = root.path().join("by-hand");
    fs::create_dir(&target).unwrap();
    let name_by_hand = || {
        let mut desk = Desk::open(&at);
        let named = SettingValue::from(target.to_str().unwrap());
        desk.settings.change(&[("models.folder", named)]).unwrap();
    };
    name_by_hand();
    let mut desk = Desk::open(&at);
    assert!(!desk.library.is_there(), "it may be the place of a disk");
    desk.move_to(Some(&target)).unwrap();
    assert!(desk.library.is_there());
    drop(desk);
    let mut desk = Desk::open(&at);
    assert!(desk.library.is_there());
    let again = MoveError::AlreadyThere { folder: target.clone() };
    assert_eq!(desk.move_to(Some(&target)).unwrap_err(), again);
    drop(desk);
    // Its own files prove it too.
    Desk::filled(&at).check(&[&target]);
    let mark = target.join(".inglenook-models");
    fs::remove_file(&mark).unwrap();
    let desk = Desk::open(&at);
    assert!(mark.exists());
    desk.check(&[&target]);
    drop(desk);
    // An empty one where models should be is that of a disk which is away.
    let aside = root.path().join("aside");
    fs::rename(&target, &aside).unwrap();
    fs::create_dir(&target).unwrap();
    let desk = Desk::open(&at);
    let away = MoveError::NotThere { folder: target.clone() };
    assert_eq!(desk.prepare(Some(&target)).unwrap_err(), away);
    assert!(!mark.exists());
}

#[test]
fn the_usual_folder_named_by_hand_is_the_usual_folder() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().join("home");
    let mut desk = Desk::filled(&at);
    let usual = desk.home.data().join("models");
    let named = SettingValue::from(usual.to_str().unwrap());
    desk.settings.change(&[("models.folder", named)]).unwrap();
    let target = root.path().join("chosen");
    // Killed on its way elsewhere, it is taken back.
    let prepared = desk.prepare(Some(&target)).unwrap();
    prepared.run(&|| false, &mut |_| {}).unwrap();
    drop((desk, prepared));
    let desk = Desk::open(&at);
    assert!(desk.library.is_usual() && desk.library.is_there());
    desk.check(&[&target]);
}

#[test]
fn what_only_looks_like_an_interrupted_write_stays_in_a_chosen_folder() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().join("home");
    let target = root.path().join("chosen");
    let mut desk = Desk::filled(&at);
    desk.move_to(Some(&target)).unwrap();
    drop(desk);
    let mine = target.join(".letter.new-draft");
    fs::write(&mine, b"mine").unwrap();
    fs::write(target.join(".import.new-1-1"), b"half").unwrap();
    let desk = Desk::open(&at);
    assert!(!target.join(".import.new-1-1").exists());
    // Nor does a move away from it, or back to it, that is stopped.
    desk.prepare(None).unwrap().undo();
    drop(desk);
    let mut desk = Desk::open(&at);
    desk.move_to(None).unwrap();
    desk.prepare(Some(&target)).unwrap().undo();
    assert_eq!(fs::read(&mine).unwrap(), b"mine");
}

#[test]
fn a_folder_that_never_comes_back_can_be_left_and_gone_back_to() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().join("home");
    let (disk, unplugged) = (root.path().join("disk"), root.path().join("unplugged"));
    fs::create_dir(&disk).unwrap();
    let mut desk = Desk::filled(&at);
    desk.move_to(Some(&disk)).unwrap();
    fs::rename(&disk, &unplugged).unwrap();
    let elsewhere = root.path().join("elsewhere");
    desk.move_to(Some(&elsewhere)).unwrap();
    assert!(desk.library.is_there());
    assert_eq!(desk.library.resolve("long").unwrap().state(), FileState::Missing);
    fs::rename(&unplugged, &disk).unwrap();
    desk.move_to(Some(&disk)).unwrap();
    drop(desk);
    Desk::open(&at).check(&[&disk, &elsewhere]);
}

/// The child. Without a home it is an empty test.
#[test]
fn mover() {
    let (Some(at), Some(folders)) = (env::raw(CHILD_HOME), env::raw(CHILD_FOLDERS)) else {
        return;
    };
    let mut desk = Desk::open(Path::new(&at));
    println!("ready");
    loop {
        for folder in std::env::split_paths(&folders) {
            if desk.library.folder() != folder {
                desk.move_to(Some(&folder)).unwrap();
            }
        }
    }
}

#[test]
fn a_process_that_is_killed_while_it_moves_models_loses_none() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().join("home");
    drop(Desk::filled(&at));
    let targets = targets(root.path());
    let folders: Vec<&Path> = targets.iter().map(|(folder, _)| folder.as_path()).collect();
    let usual = fs::canonicalize(&at).unwrap().join("models");
    let all = std::env::join_paths(folders.iter().copied().chain([usual.as_path()])).unwrap();
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "moving::mover", "--nocapture"])
            .env(CHILD_HOME, &at)
            .env(CHILD_FOLDERS, &all)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with("ready\n") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "round {round}: it did not begin");
        }
        // A moment that differs from round to round; which one it is does not matter.
        for _ in 0..round * 997 {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        Desk::open(&at).check(&folders);
    }
}
