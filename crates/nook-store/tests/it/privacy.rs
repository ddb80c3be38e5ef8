//! What was measured of how much a helper could read: numbers by digest, and nothing that says more.

use std::fs;

use nook_base::{ActivationDtype, ModelDigest, PrivacyFigures};
use nook_store::{Home, HomeChoice, KeptFigures, PRIVACY_MODELS_MAX, PrivacyFile, PrivacyList};

fn open(folder: &tempfile::TempDir) -> Home {
    Home::open(&HomeChoice::At(folder.path().to_owned())).expect("a home")
}

/// What was measured of the model `number` at a time.
fn kept(number: u16, measured_at: u64) -> KeptFigures {
    let mut digest = [0; 32];
    digest[..2].copy_from_slice(&number.to_be_bytes());
    let figures = PrivacyFigures {
        measured_at,
        tokens: 64,
        candidates: 2048,
        layers_before: 1,
        format: ActivationDtype::F16,
        nearest: 0.125,
        probe: 0.5,
        lens: 0.0,
        replay: 1.0,
        next: 0.25,
    };
    KeptFigures { model: ModelDigest(digest), figures }
}

fn list(of: &[KeptFigures]) -> PrivacyList {
    PrivacyList::of(of.to_vec())
}

#[test]
fn the_last_figures_of_each_model_are_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let file = PrivacyFile::of(&home);
    assert_eq!(file.load().unwrap(), PrivacyList::default());
    let measured = PrivacyList::default().with(kept(1, 10)).with(kept(2, 20));
    // A clock that was set back: what was measured last counts all the same.
    let again = measured.with(kept(2, 5));
    file.save(&again).unwrap();
    let found = file.load().unwrap();
    assert_eq!(found.models(), [kept(1, 10), kept(2, 5)]);
    assert_eq!(found.get(kept(2, 0).model), Some(&kept(2, 5).figures));
    assert_eq!(found.get(kept(3, 0).model), None);
    file.save(&found.without(|model| model == kept(1, 0).model)).unwrap();
    assert_eq!(file.load().unwrap().models(), [kept(2, 5)]);
}

#[test]
fn there_are_never_more_than_some_and_the_newest_stay() {
    let many = u16::try_from(PRIVACY_MODELS_MAX).unwrap() + 3;
    let mut all = PrivacyList::default();
    for number in 0..many {
        all = all.with(kept(number, number.into()));
        assert!(all.models().len() <= PRIVACY_MODELS_MAX);
    }
    let times: Vec<u64> = all.models().iter().map(|it| it.figures.measured_at).collect();
    assert_eq!((times[0], times.last()), (u64::from(many) - 1, Some(&3)));
    // A file that somebody else wrote is bounded as well, and names a model once.
    let twice: Vec<_> = (0..many).flat_map(|number| [kept(number, 1), kept(number, 2)]).collect();
    let read = list(&twice);
    assert_eq!(read.models().len(), PRIVACY_MODELS_MAX);
    assert!(read.models().iter().all(|it| it.figures.measured_at == 2));
}

#[test]
fn the_file_holds_digests_and_numbers_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    PrivacyFile::of(&home).save(&list(&[kept(1, 10)])).unwrap();
    let path = home.data().join("privacy.json");
    let compact: String = fs::read_to_string(&path).unwrap().split_whitespace().collect();
    let digest = kept(1, 0).model;
    let expected = format!(
        r#"{{"version":1,"models":[{{"model":"{digest}","measured_at":10,"tokens":64,"candidates":2048,"layers_before":1,"format":"f16","nearest":0.125,"probe":0.5,"lens":0.0,"replay":1.0,"next":0.25}}]}}"#
    );
    assert_eq!(compact, expected);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let shown = format!("{:?}", PrivacyFile::of(&home));
    assert!(!shown.contains(&*home.data().to_string_lossy()), "{shown}");
}

#[test]
fn what_cannot_be_understood_is_told_and_the_next_save_replaces_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let (file, path) = (PrivacyFile::of(&home), home.data().join("privacy.json"));
    for (text, part) in [
        ("{ \"version\": 1, \"models\": [ {", "privacy.json is damaged at line 1"),
        ("[]", "privacy.json is damaged"),
        ("{ \"version\": 2, \"models\": [] }", "written by a later version"),
        ("{ \"version\": 1, \"models\": [ { \"model\": \"xyz\" } ] }", "privacy.json is damaged"),
    ] {
        fs::write(&path, text).unwrap();
        let told = file.load().unwrap_err().to_string();
        assert!(told.contains(part), "{text}: {told}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "reading changes nothing");
    }
    file.save(&list(&[kept(1, 10)])).unwrap();
    assert_eq!(file.load().unwrap().models(), [kept(1, 10)]);
}

#[test]
fn figures_that_nobody_can_have_measured_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let file = PrivacyFile::of(&home);
    file.save(&list(&[kept(1, 10), kept(2, 20)])).unwrap();
    let path = home.data().join("privacy.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"replay\": 1.0", "\"replay\": 7.0", 1)).unwrap();
    assert_eq!(file.load().unwrap().models(), [kept(1, 10)]);
}
