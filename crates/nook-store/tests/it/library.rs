//! The model library: Ember, imports, names, damage.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use nook_base::{Extent, ModelDigest};
use nook_store::{
    DocumentError, EMBER, FileState, Home, HomeChoice, ImportError, Library, LibraryError,
    ModelEntry, ResolveError, Stamps, Take,
};
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000;

struct House {
    folder: tempfile::TempDir,
    home: Home,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = Home::open(&HomeChoice::At(folder.path().join("home"))).expect("a home");
        Self { folder, home }
    }

    fn open(&self) -> Result<Library, LibraryError> {
        Library::open(&self.home, None, NOW, digest_of)
    }

    /// A file outside of the library.
    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, content).expect("a file");
        path
    }

    fn in_library(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.home.data().join("models"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// In place of the real digest: that of the whole file; files that say `bad` are no models.
fn digest_of(path: &Path) -> Result<ModelDigest, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    if bytes.starts_with(b"bad") {
        return Err("it says so".to_owned());
    }
    Ok(ModelDigest(*blake3::hash(&bytes).as_bytes()))
}

fn import(
    library: &mut Library,
    source: &Path,
    take: Take,
    name: Option<&str>,
) -> Result<ModelEntry, ImportError> {
    let staged = library.stager().stage(source, take, digest_of)?;
    library.adopt(staged, name, NOW)
}

#[test]
fn ember_is_there_at_the_first_start_and_restored_when_damaged() {
    let house = House::new();
    let asked = Cell::new(0);
    let counted = |path: &Path| {
        asked.set(asked.get() + 1);
        digest_of(path)
    };
    let library = Library::open(&house.home, None, NOW, counted).unwrap();
    let ember = library.resolve(EMBER).unwrap().clone();
    assert!(ember.built_in && ember.state() == FileState::Present);
    let whole = fs::read(&ember.path).unwrap();
    assert!(whole.starts_with(b"GGUF"));
    assert_eq!(whole.len() as u64, ember.bytes);

    let mut flipped = whole.clone();
    flipped[1_000_000] ^= 1;
    let longer = [whole.as_slice(), b"x"].concat();
    for damage in [&flipped[..], &whole[..5000], b"", &longer] {
        fs::write(&ember.path, damage).unwrap();
        let library = Library::open(&house.home, None, NOW + 9, counted).unwrap();
        // The file is another one, with another stamp.
        let restored = library.resolve(EMBER).unwrap();
        assert_eq!(restored.state(), FileState::Present);
        assert_eq!(&ModelEntry { stamp: ember.stamp, ..restored.clone() }, &ember);
        assert!(fs::read(&ember.path).unwrap() == whole, "restored byte for byte");
    }
    fs::remove_file(&ember.path).unwrap();
    Library::open(&house.home, None, NOW, counted).unwrap();
    assert!(ember.path.exists());
    assert_eq!(asked.get(), 1, "the digest is worked out once for each build");
}

#[cfg(unix)]
#[test]
fn a_link_in_embers_place_is_replaced_and_its_target_left_alone() {
    let house = House::new();
    let path = house.open().unwrap().resolve(EMBER).unwrap().path.clone();
    let elsewhere = house.file("elsewhere", b"precious");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    house.open().unwrap();
    assert_eq!(fs::read(&elsewhere).unwrap(), b"precious");
    assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
}

#[test]
fn a_file_that_moves_in_stays_where_it_is_until_it_is_adopted() {
    let house = House::new();
    let mut library = house.open().unwrap();
    let bad = house.file("download-1.gguf", b"bad");
    let refused = library.stager().stage(&bad, Take::Move, digest_of).unwrap_err();
    assert!(matches!(refused, ImportError::BadModel { .. }), "{refused}");
    let source = house.file("download-2.gguf", b"moved");
    drop(library.stager().stage(&source, Take::Move, digest_of).unwrap());
    assert!(bad.exists() && source.exists(), "nothing is lost that was not adopted");

    let entry = import(&mut library, &source, Take::Move, Some("qwen3-4b")).unwrap();
    assert!(!source.exists() && entry.owned, "{entry:?}");
    assert_eq!(house.in_library(), ["ember-q8_0.gguf", "qwen3-4b.gguf"]);
    let library = house.open().unwrap();
    assert_eq!(library.resolve("qwen3-4b"), Ok(&entry));
    // The same model once more is known already; its file is nobody's but the caller's.
    let again = house.file("download-3.gguf", b"moved");
    let mut library = house.open().unwrap();
    assert_eq!(import(&mut library, &again, Take::Move, Some("other")).unwrap(), entry);
    assert!(again.exists());
}

#[test]
fn a_list_that_cannot_be_saved_leaves_every_file_where_it_was() {
    let house = House::new();
    let mut library = house.open().unwrap();
    // A folder in its place is in the way of every write, whoever runs this test.
    let index = house.home.data().join("models.json");
    fs::remove_file(&index).unwrap();
    fs::create_dir_all(index.join("in the way")).unwrap();
    for (take, content) in [
        (Take::Move, "moved"),
        (Take::Copy, "copied"),
        (Take::Link, "linked"),
        (Take::InPlace, "in place"),
    ] {
        let source = house.file("download.gguf", content.as_bytes());
        let refused = import(&mut library, &source, take, Some("qwen3-4b")).unwrap_err();
        assert!(matches!(refused, ImportError::File(_)), "{take:?}: {refused}");
        assert_eq!(fs::read_to_string(&source).unwrap(), content, "{take:?}");
        assert_eq!(house.in_library(), ["ember-q8_0.gguf"], "{take:?}");
        assert_eq!(library.models().len(), 1, "{take:?}");
    }
    fs::remove_dir_all(&index).unwrap();
    let source = house.file("download.gguf", b"moved");
    let entry = import(&mut library, &source, Take::Move, Some("qwen3-4b")).unwrap();
    assert_eq!(fs::read(&entry.path).unwrap(), b"moved");
}

#[test]
fn imports_survive_a_restart_in_each_way_of_taking() {
    let house = House::new();
    let mut library = house.open().unwrap();
    let sources = [
        (house.file("Tiny Story 1.gguf", b"one"), Take::Copy, "Tiny-Story-1"),
        (house.file("two.gguf", b"two"), Take::Link, "two"),
        (house.file("three.gguf", b"three"), Take::InPlace, "three"),
    ];
    for (source, take, name) in &sources {
        let entry = import(&mut library, source, *take, None).unwrap();
        assert_eq!((entry.name.as_str(), entry.state()), (*name, FileState::Present));
        assert_eq!(entry.owned, *take != Take::InPlace);
        assert_eq!(library.get(entry.digest), Some(&entry));
    }
    let again = house.open().unwrap();
    assert_eq!(again.models(), library.models());
    assert_eq!(house.in_library(), ["Tiny-Story-1.gguf", "ember-q8_0.gguf", "two.gguf"]);

    fs::remove_file(&sources[0].0).unwrap();
    fs::remove_file(&sources[2].0).unwrap();
    let state = |name| again.resolve(name).unwrap().state();
    assert_eq!(state("tiny-story-1"), FileState::Present);
    assert_eq!(state("three"), FileState::Missing);
    fs::write(again.resolve("two").unwrap().path.clone(), b"longer").unwrap();
    assert_eq!(state("two"), FileState::Changed);
}

#[test]
fn the_same_model_is_taken_once_and_names_stay_unique() {
    let house = House::new();
    let mut library = house.open().unwrap();
    let first = import(&mut library, &house.file("a.gguf", b"one"), Take::Copy, None).unwrap();
    let same = import(&mut library, &house.file("b.gguf", b"one"), Take::Copy, None).unwrap();
    assert_eq!(first, same);
    let sub = house.folder.path().join("sub");
    fs::create_dir(&sub).unwrap();
    fs::write(sub.join("A.gguf"), b"two").unwrap();
    let second = import(&mut library, &sub.join("A.gguf"), Take::Copy, None).unwrap();
    assert_eq!(second.name, "A-2");
    let taken = import(&mut library, &house.file("c", b"three"), Take::Copy, Some("a"));
    assert_eq!(taken, Err(ImportError::NameTaken { name: "a".to_owned() }));
    let taken = import(&mut library, &house.file("c", b"three"), Take::Copy, Some("Ember"));
    assert_eq!(taken, Err(ImportError::NameTaken { name: "Ember".to_owned() }));
    library.rename(second.digest, "second").unwrap();
    assert_eq!(library.resolve("second").unwrap().digest, second.digest);
    assert_eq!(house.open().unwrap().models(), library.models());
    assert_eq!(house.in_library(), ["A-2.gguf", "a.gguf", "ember-q8_0.gguf"]);
}

#[test]
fn a_model_whose_file_is_lost_is_found_in_the_file_that_comes_next_under_its_old_name() {
    let house = House::new();
    let mut library = house.open().unwrap();
    let source = house.file("a.gguf", b"one");
    let first = import(&mut library, &source, Take::Copy, Some("mine")).unwrap();
    let other = import(&mut library, &house.file("b", b"two"), Take::Copy, Some("b")).unwrap();
    // Gone, then another file in its place, then gone where it was used in place.
    fs::remove_file(&first.path).unwrap();
    let again = import(&mut library, &source, Take::Copy, Some("b")).unwrap();
    let as_first = |entry: &ModelEntry| ModelEntry { stamp: first.stamp, ..entry.clone() };
    assert_eq!((as_first(&again), again.state()), (first.clone(), FileState::Present));
    fs::write(&first.path, b"notes").unwrap();
    let in_place = import(&mut library, &source, Take::InPlace, None).unwrap();
    let real = fs::canonicalize(&source).unwrap();
    let expected = ModelEntry { path: real.clone(), owned: false, ..first.clone() };
    assert_eq!((as_first(&in_place), in_place.state()), (expected, FileState::Present));
    assert_eq!(fs::read(&first.path).unwrap(), b"notes", "perhaps somebody's");
    fs::remove_file(&first.path).unwrap();
    let moved = house.folder.path().join("moved.gguf");
    fs::rename(&real, &moved).unwrap();
    let owned = import(&mut library, &moved, Take::Move, None).unwrap();
    assert_eq!((as_first(&owned), owned.state()), (first.clone(), FileState::Present));
    assert_eq!(fs::read(&first.path).unwrap(), b"one");
    // Nobody else's entry has changed, and all of it is kept.
    assert_eq!(library.get(other.digest), Some(&other));
    assert_eq!(house.open().unwrap().models(), library.models());
}

#[test]
fn ends_are_listed_over_restarts_give_way_to_the_whole_and_their_file_is_left_to_others() {
    let house = House::new();
    let mut library = house.open().unwrap();
    let source = house.file("a.gguf", b"one");
    let digest = digest_of(&source).unwrap();
    let listed = library.list_ends(digest, "amber", 3, NOW).unwrap();
    assert_eq!(listed.path, library.partial_file(digest));
    assert_eq!(library.list_ends(digest, "other", 3, NOW), Ok(listed.clone()), "once");
    assert!(library.list_ends(ModelDigest([9; 32]), "Amber", 3, NOW).is_err(), "a taken name");
    assert_eq!(house.open().unwrap().models(), library.models());
    assert_eq!(listed.state(), FileState::Missing);

    fs::create_dir_all(library.partial_folder()).unwrap();
    fs::write(&listed.path, b"one").unwrap();
    let whole = import(&mut library, &source, Take::Copy, Some("b")).unwrap();
    assert_eq!((whole.name.as_str(), whole.extent), ("amber", Extent::Whole));
    assert_eq!(house.in_library(), ["amber.gguf", "ember-q8_0.gguf", "partial"]);

    let other = library.list_ends(ModelDigest([9; 32]), "coal", 3, NOW).unwrap();
    fs::write(&other.path, b"two").unwrap();
    let there = house.folder.path().join("there");
    library.moved(Some(&there), &Stamps::new());
    assert_eq!(library.get(other.digest).unwrap().path, library.partial_file(other.digest));
    assert!(library.partial_file(other.digest).starts_with(&there));
    library.remove(other.digest).unwrap();
    assert!(other.path.exists(), "whoever writes it deletes it");
    assert_eq!(library.get(other.digest), None);
}

#[test]
fn what_is_no_model_leaves_no_trace() {
    let house = House::new();
    let mut library = house.open().unwrap();
    let bad = house.file("bad.gguf", b"bad");
    for take in [Take::Copy, Take::Link, Take::InPlace] {
        let refused = import(&mut library, &bad, take, None);
        assert!(matches!(refused, Err(ImportError::BadModel { .. })), "{refused:?}");
    }
    let missing = import(&mut library, &house.folder.path().join("none"), Take::Copy, None);
    assert!(matches!(missing, Err(ImportError::File(_))), "{missing:?}");
    let folder = import(&mut library, house.folder.path(), Take::Copy, None);
    assert!(matches!(folder, Err(ImportError::NotAFile { .. })), "{folder:?}");
    for name in ["../x", "a/b", "a\\b", "", ".x", "-x", "x.", "a\u{0}", "é", "NUL", "com1.x"] {
        let refused = import(&mut library, &house.file("m", b"m"), Take::Copy, Some(name));
        assert!(matches!(refused, Err(ImportError::BadName { .. })), "{name:?}");
    }
    assert_eq!(library.models().len(), 1);
    assert_eq!(house.in_library(), ["ember-q8_0.gguf"]);
}

#[test]
fn what_is_digested_is_the_copy_whatever_happens_to_the_original() {
    let house = House::new();
    let library = house.open().unwrap();
    let source = house.file("growing.gguf", b"begin");
    let staged = library.stager().stage(&source, Take::Copy, |used| {
        fs::write(&source, b"begin and end").unwrap();
        digest_of(used)
    });
    assert_eq!(staged.unwrap().digest(), digest_of(&house.file("x", b"begin")).unwrap());
}

#[test]
fn removing_deletes_only_what_the_library_owns() {
    let house = House::new();
    let mut library = house.open().unwrap();
    let kept = house.file("kept.gguf", b"kept");
    let kept_digest = import(&mut library, &kept, Take::InPlace, None).unwrap().digest;
    let own = import(&mut library, &house.file("own.gguf", b"own"), Take::Copy, None).unwrap();
    library.remove(kept_digest).unwrap();
    library.remove(own.digest).unwrap();
    assert!(kept.exists() && !own.path.exists());
    assert_eq!(library.remove(own.digest), Err(LibraryError::NoSuchModel));
    let ember = library.resolve(EMBER).unwrap().digest;
    assert_eq!(library.remove(ember), Err(LibraryError::CannotRemoveBuiltIn));
    assert_eq!(library.rename(ember, "x"), Err(ImportError::NoSuchModel));
    assert_eq!(house.open().unwrap().models().len(), 1);
}

#[test]
fn names_resolve_exactly_then_by_case_then_by_beginning_and_never_as_paths() {
    let house = House::new();
    let mut library = house.open().unwrap();
    for (name, content) in [("Qwen-1", b"1"), ("qwen-2", b"2"), ("llama", b"3")] {
        import(&mut library, &house.file("m", content), Take::Copy, Some(name)).unwrap();
    }
    let digest = library.resolve("llama").unwrap().digest.to_string();
    for (name, expected) in [
        ("Qwen-1", "Qwen-1"),
        ("QWEN-2", "qwen-2"),
        ("ll", "llama"),
        ("EMB", "ember"),
        (digest.as_str(), "llama"),
    ] {
        assert_eq!(library.resolve(name).map(|m| m.name.as_str()), Ok(expected));
    }
    assert_eq!(
        library.resolve("qwen"),
        Err(ResolveError::Ambiguous {
            name: "qwen".to_owned(),
            candidates: vec!["Qwen-1".to_owned(), "qwen-2".to_owned()],
        })
    );
    for name in ["", "../../etc/passwd", "%2e%2e", "a\u{0}b", "/", "llama.gguf", "\u{202e}"] {
        let unknown = library.resolve(name).unwrap_err();
        assert!(matches!(unknown, ResolveError::Unknown { .. }), "{name:?}");
        assert!(!unknown.to_string().contains(['\u{0}', '\u{202e}']), "{unknown}");
    }
}

#[test]
fn m5_a_list_that_points_outside_is_refused() {
    let house = House::new();
    let mut library = house.open().unwrap();
    import(&mut library, &house.file("m.gguf", b"m"), Take::Copy, None).unwrap();
    let index = house.home.data().join("models.json");
    let good = fs::read_to_string(&index).unwrap();
    for (from, to) in [
        ("m.gguf", "../m.gguf"),
        ("m.gguf", "/etc/passwd"),
        ("m.gguf", ".gguf"),
        ("\"library\"", "\"elsewhere\""),
        ("\"name\": \"m\"", "\"name\": \"../m\""),
        ("\"version\": 1", "\"version\": \"x\""),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good);
        fs::write(&index, &bad).unwrap();
        let error = house.open().unwrap_err();
        assert!(
            matches!(error, LibraryError::Document(DocumentError::Damaged { .. })),
            "{to}: {error}"
        );
        assert_eq!(fs::read_to_string(&index).unwrap(), bad);
    }
}

#[test]
fn a_start_killed_while_importing_leaves_nothing_behind() {
    let house = House::new();
    house.open().unwrap();
    let folder = house.home.data().join("models");
    fs::write(folder.join(".import.new-1-0"), b"half").unwrap();
    let mut library = house.open().unwrap();
    assert_eq!(house.in_library(), ["ember-q8_0.gguf"]);

    // Killed between the file and the list: the file is nobody's, and in nobody's way.
    let name = "n".repeat(96);
    fs::write(folder.join(format!("{name}.gguf")), b"orphan").unwrap();
    let entry = import(&mut library, &house.file("m", b"m"), Take::Copy, Some(&name)).unwrap();
    assert_eq!(fs::read(&entry.path).unwrap(), b"m");
    let again = house.open().unwrap();
    assert_eq!(again.resolve(&name), Ok(&entry));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_file_name_makes_a_usable_model_name(stem in "[^/\u{0}]{1,60}") {
        let house = House::new();
        let mut library = house.open().unwrap();
        let source = house.folder.path().join("files");
        fs::create_dir(&source).unwrap();
        let source = source.join(format!("{stem}.gguf"));
        if fs::write(&source, b"m").is_ok() {
            let entry = import(&mut library, &source, Take::Copy, None).unwrap();
            let again = house.open().unwrap();
            prop_assert_eq!(again.resolve(&entry.name), Ok(&entry));
        }
    }
}

#[cfg(unix)]
#[test]
fn a_file_in_a_folder_whose_name_is_no_text_stays_listed_where_it_is() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let house = House::new();
    let folder = house.folder.path().join(OsStr::from_bytes(b"mod\xe8les"));
    fs::create_dir(&folder).unwrap();
    let file = fs::canonicalize(&folder).unwrap().join("odd.gguf");
    fs::write(&file, b"odd").unwrap();
    let mut library = house.open().unwrap();
    let staged = library.stager().stage(&file, Take::InPlace, digest_of).unwrap();
    library.adopt(staged, None, NOW).unwrap();
    drop(library);
    let library = house.open().unwrap();
    let model = library.resolve("odd").unwrap();
    assert_eq!((&model.path, model.state()), (&file, FileState::Present));
}

#[test]
fn partial_models_are_no_models_of_the_list_and_only_interrupted_writes_are_swept_from_them() {
    let house = House::new();
    let partial = house.open().expect("a library").partial_folder();
    fs::create_dir(&partial).expect("a folder");
    let names = ["3c3c.gguf", "3c3c.gguf.present", ".3c3c.gguf.present.new-7-1"];
    for name in names {
        fs::write(partial.join(name), b"of some layers").expect("a file");
    }
    let library = house.open().expect("a library");
    assert_eq!(library.models().len(), 1, "the built-in one");
    let there = |name: &&&str| partial.join(name).exists();
    assert_eq!(names.iter().filter(there).collect::<Vec<_>>(), [&names[0], &names[1]]);
}
