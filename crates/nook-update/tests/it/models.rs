//! The list of models, from servers that attack and on a disk that somebody has changed.

use std::fs;
use std::path::PathBuf;

use nook_fetch::{Catalogue, FetchError};
use nook_update::{
    CATALOGUE_BYTES_MAX, CATALOGUE_FILE, CATALOGUE_KIND, CatalogueRefusal, MANIFEST_FILE,
    SIGNATURE_END, UpdateError,
};

use crate::file_server::{Fault, Served};
use crate::kit::{Maker, Scene};

/// Some hour of November 2026, and a day later.
const OLD: u64 = 1_795_694_400;
const NEW: u64 = OLD + 86_400;

/// A list with one model, written at that time.
fn list(written: u64) -> String {
    let day = 26 + (written - OLD) / 86_400;
    format!(
        r#"kind = "inglenook-catalogue"
format = 1
written = 2026-11-{day}T12:00:00Z
unheard_of = "a key of a later program"
[[model]]
id = "tiny-{day}"
name = "Tiny"
licence = "MIT"
repository = "somebody/tiny"
file = "tiny.gguf"
architecture = "llama"
quantisation = "Q8_0"
bytes = 1_000_000
billions = 0.1
languages = ["en"]
rank = 1
layers = 2
hidden = 64
kv_width = 64
vocabulary = 100
tied = true
stars = 5
about.en = "Small."
about.de = "Klein."
"#
    )
}

impl Scene {
    /// Serves a list of models as its maker signs it.
    fn serve_models(&self, text: &str) {
        self.serve_models_of(text.as_bytes(), &self.maker, Some(CATALOGUE_KIND));
    }

    fn serve_models_of(&self, bytes: &[u8], maker: &Maker, comment: Option<&str>) {
        let signature = Served::file(maker.sign_as(comment, bytes), "\"s\"");
        self.serve_models_file(Served::file(bytes.to_vec(), "\"c\""));
        self.server.serve(&format!("/{CATALOGUE_FILE}{SIGNATURE_END}"), signature);
    }

    fn serve_models_file(&self, served: Served) {
        self.server.serve(&format!("/{CATALOGUE_FILE}"), served);
    }

    /// What a program that was started anew comes to.
    async fn renew(&self) -> Result<Option<Catalogue>, UpdateError> {
        let updates = self.updates();
        let claim = updates.claim().unwrap();
        updates.renew_catalogue(&claim).await
    }

    fn held(&self) -> Option<u64> {
        self.updates().held_catalogue().map(|catalogue| catalogue.written())
    }

    fn held_file(&self) -> PathBuf {
        self.home.path().join("updates/models.json")
    }
}

#[track_caller]
fn check_refused(
    outcome: &Result<Option<Catalogue>, UpdateError>,
    expected: impl Fn(&CatalogueRefusal) -> bool,
) {
    let is_it = matches!(outcome, Err(UpdateError::Catalogue(refusal)) if expected(refusal));
    assert!(is_it, "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_list_is_taken_and_stays_for_later_starts() {
    let scene = Scene::new();
    assert_eq!((scene.renew().await.unwrap(), scene.held()), (None, None), "there is none");
    scene.serve_models(&list(OLD));
    let taken = scene.renew().await.unwrap().unwrap();
    assert!(taken.written() == OLD && !taken.is_built_in());
    assert!(taken.get("tiny-26").is_some());
    assert_eq!(scene.held(), Some(OLD));
    scene.serve_models(&list(NEW));
    assert_eq!(scene.renew().await.unwrap().map(|it| it.written()), Some(NEW));
    assert_eq!((scene.held(), scene.updates().seen().unwrap().models), (Some(NEW), NEW));
    // The same once more changes nothing.
    let before = fs::metadata(scene.held_file()).unwrap().modified().unwrap();
    scene.renew().await.unwrap().unwrap();
    assert_eq!(fs::metadata(scene.held_file()).unwrap().modified().unwrap(), before);
    // A look for new versions leaves it alone.
    scene.serve(&scene.manifest());
    scene.look("0.1.0").await.unwrap().unwrap();
    assert_eq!(scene.updates().seen().unwrap().models, NEW);
}

#[tokio::test(flavor = "multi_thread")]
async fn u8_a_list_of_another_key_changed_or_signed_as_another_file_is_refused() {
    let scene = Scene::new();
    scene.serve_models(&list(OLD));
    scene.renew().await.unwrap().unwrap();
    let newer = list(NEW);
    scene.serve_models_of(newer.as_bytes(), &Maker::new(), Some(CATALOGUE_KIND));
    check_refused(&scene.renew().await, |it| *it == CatalogueRefusal::WrongKey);
    scene.serve_models(&newer);
    scene.serve_models_file(Served::file(newer.replace("Small", "Smell").into_bytes(), "\"x\""));
    check_refused(&scene.renew().await, |it| *it == CatalogueRefusal::Changed);
    for comment in [None, Some("inglenook-update 0.2.0 7"), Some("inglenook-sums 0.2.0 7")] {
        scene.serve_models_of(newer.as_bytes(), &scene.maker, comment);
        check_refused(&scene.renew().await, |it| *it == CatalogueRefusal::OtherKind);
    }
    assert_eq!((scene.held(), scene.updates().seen().unwrap().models), (Some(OLD), OLD));
}

#[tokio::test(flavor = "multi_thread")]
async fn u8_the_list_of_versions_is_no_list_of_models() {
    let scene = Scene::new();
    scene.serve(&scene.manifest());
    let bytes = serde_json::to_vec(&scene.manifest()).unwrap();
    scene.serve_models_of(&bytes, &scene.maker, Some("inglenook-update 0.2.0 7"));
    check_refused(&scene.renew().await, |it| *it == CatalogueRefusal::OtherKind);
    // Not even if somebody had signed it as one.
    scene.serve_models_of(&bytes, &scene.maker, Some(CATALOGUE_KIND));
    check_refused(&scene.renew().await, |it| matches!(it, CatalogueRefusal::Malformed { .. }));
    // Nor is a list of models one of versions.
    let models = list(OLD).into_bytes();
    let signature = scene.maker.sign_as(Some(CATALOGUE_KIND), &models);
    scene.serve_list(Served::file(models, "\"m\""));
    let at = format!("/{MANIFEST_FILE}{SIGNATURE_END}");
    scene.server.serve(&at, Served::file(signature, "\"s\""));
    let outcome = scene.look("0.1.0").await;
    assert!(matches!(outcome, Err(UpdateError::Refused(_))), "{outcome:?}");
    assert_eq!(scene.held(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn u9_a_list_that_is_older_than_one_that_was_seen_is_refused_whatever_lies_on_the_disk() {
    let scene = Scene::new();
    scene.serve_models(&list(OLD));
    scene.renew().await.unwrap().unwrap();
    let old = fs::read(scene.held_file()).unwrap();
    scene.serve_models(&list(NEW));
    scene.renew().await.unwrap().unwrap();
    scene.serve_models(&list(OLD));
    let older = CatalogueRefusal::Older { seconds: NEW - OLD };
    check_refused(&scene.renew().await, |it| *it == older);
    assert_eq!(scene.held(), Some(NEW));
    // Somebody removes the newer one, or puts the older one back.
    fs::remove_file(scene.held_file()).unwrap();
    check_refused(&scene.renew().await, |it| *it == older);
    fs::write(scene.held_file(), old).unwrap();
    assert_eq!(scene.held(), None);
    scene.serve_models(&list(NEW));
    scene.renew().await.unwrap().unwrap();
    assert_eq!(scene.held(), Some(NEW));
}

#[tokio::test(flavor = "multi_thread")]
async fn u10_a_file_that_was_changed_on_the_disk_is_not_believed() {
    let scene = Scene::new();
    scene.serve_models(&list(OLD));
    scene.renew().await.unwrap().unwrap();
    let good = fs::read_to_string(scene.held_file()).unwrap();
    let evil = good.replace("somebody/tiny", "nobody/trojan");
    assert_ne!(evil, good);
    let long = format!("{{\"version\":1,\"list\":\"{}", "x".repeat(4 << 20));
    let later = good.replacen("\"version\": 1", "\"version\": 2", 1);
    assert_ne!(later, good);
    for odd in [evil.as_str(), "", "{}", "null", &good[..good.len() / 2], &long, &later] {
        fs::write(scene.held_file(), odd).unwrap();
        assert_eq!(scene.held(), None, "{:.60}", odd);
    }
    // The next look mends it, though it brings nothing newer.
    scene.renew().await.unwrap().unwrap();
    assert_eq!(fs::read_to_string(scene.held_file()).unwrap(), good);
    assert_eq!(scene.held(), Some(OLD));
    // A program that knows another key believes nothing of it.
    let other = Scene::new();
    other.serve_models(&list(OLD));
    other.renew().await.unwrap().unwrap();
    fs::write(scene.held_file(), fs::read(other.held_file()).unwrap()).unwrap();
    assert_eq!(scene.held(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn u11_a_list_that_is_cut_stalls_or_has_no_end_leaves_the_one_before() {
    let scene = Scene::new();
    scene.serve_models(&list(OLD));
    scene.renew().await.unwrap().unwrap();
    let newer = list(NEW).into_bytes();
    scene.serve_models(&list(NEW));
    let long = vec![b' '; CATALOGUE_BYTES_MAX + 1];
    let short = newer[..newer.len() / 2].to_vec();
    let cases = [
        Served::file(newer.clone(), "\"1\"").failing(Fault::CutAfter(100)),
        Served::file(newer.clone(), "\"2\"").failing(Fault::StallAfter(100)),
        Served::file(long.clone(), "\"3\""),
        Served { no_length: true, ..Served::file(long, "\"4\"") },
        Served { no_length: true, ..Served::file(short, "\"5\"") },
        Served::redirect("http://192.168.1.1/x"),
        Served::redirect("file:///etc/passwd"),
    ];
    for (at, served) in cases.into_iter().enumerate() {
        scene.serve_models_file(served);
        let outcome = scene.renew().await;
        let is_it = match &outcome {
            Err(UpdateError::Catalogue(refusal)) => *refusal == CatalogueRefusal::Changed,
            Err(UpdateError::Fetch(FetchError::TooLarge { .. })) => (2..=3).contains(&at),
            Err(UpdateError::Fetch(FetchError::Redirect { .. })) => at >= 5,
            Err(UpdateError::Fetch(FetchError::GaveUp { .. })) => at <= 1,
            _ => false,
        };
        assert!(is_it, "{at}: {outcome:?}");
        assert_eq!(scene.held(), Some(OLD), "{at}");
    }
    // Its signature is missing, or has no end.
    scene.serve_models(&list(NEW));
    let at = format!("/{CATALOGUE_FILE}{SIGNATURE_END}");
    scene.server.serve(&at, Served::file(vec![b'x'; 5000], "\"s\""));
    let outcome = scene.renew().await;
    let is_it = matches!(outcome, Err(UpdateError::Fetch(FetchError::TooLarge { .. })));
    assert!(is_it, "{outcome:?}");
    assert_eq!(scene.held(), Some(OLD));
    scene.serve_models(&list(NEW));
    scene.renew().await.unwrap().unwrap();
    assert_eq!(scene.held(), Some(NEW));
}

#[tokio::test(flavor = "multi_thread")]
async fn u11_a_signed_list_that_cannot_be_used_leaves_the_one_before() {
    let scene = Scene::new();
    scene.serve_models(&list(OLD));
    scene.renew().await.unwrap().unwrap();
    let newer = list(NEW);
    let empty = newer.split_once("[[model]]").unwrap().0;
    for odd in [
        String::new(),
        "kind = ".to_owned(),
        newer.replace("format = 1", "format = 2"),
        newer.replace("inglenook-catalogue", "inglenook-recipes"),
        newer.replace("T12:00:00Z", ""),
        newer.replace("rank = 1", "rank = -1"),
        empty.to_owned(),
    ] {
        scene.serve_models(&odd);
        let outcome = scene.renew().await;
        check_refused(&outcome, |it| matches!(it, CatalogueRefusal::Malformed { .. }));
        assert_eq!((scene.held(), scene.updates().seen().unwrap().models), (Some(OLD), OLD));
    }
}
