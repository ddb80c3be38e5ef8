//! The list and the download, from servers that attack.

use std::fs;

use nook_fetch::FetchError;
use nook_update::{MANIFEST_BYTES_MAX, Refusal, UpdateError};
use semver::Version;

use crate::file_server::{Fault, Served};
use crate::kit::{Maker, Scene, sha256};

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_version_is_found_and_comes_whole() {
    let scene = Scene::new();
    scene.serve(&scene.manifest());
    let offer = scene.look("0.1.0").await.unwrap().unwrap();
    assert_eq!(offer.version, Version::new(0, 2, 0));
    assert_eq!(scene.look("0.2.0").await.unwrap(), None);
    let fetched = scene.fetch().await.unwrap();
    assert_eq!(fs::read(&fetched.path).unwrap(), scene.package);
    let seen = scene.updates().seen().unwrap();
    assert!(seen.serial == 7 && seen.checked > 0, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn u1_a_list_of_another_key_is_refused_and_nothing_is_remembered_of_it() {
    let scene = Scene::new();
    let mut manifest = scene.manifest();
    manifest.serial = 1000;
    scene.serve_signed(&manifest, &Maker::new());
    let outcome = scene.look("0.1.0").await;
    assert!(matches!(outcome, Err(UpdateError::Refused(Refusal::WrongKey))), "{outcome:?}");
    assert_eq!(scene.updates().seen().unwrap().serial, 0);
    scene.serve(&scene.manifest());
    scene.look("0.1.0").await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn u2_a_replayed_older_list_is_refused_also_after_a_restart() {
    let scene = Scene::new();
    let mut newer = scene.manifest();
    (newer.serial, newer.version) = (8, Version::new(0, 3, 0));
    scene.serve(&newer);
    scene.look("0.1.0").await.unwrap().unwrap();
    scene.serve(&scene.manifest());
    // Each look is one of a program that was started anew.
    let outcome = scene.look("0.1.0").await;
    let older = Refusal::Older { found: 7, seen: 8 };
    assert!(matches!(&outcome, Err(UpdateError::Refused(it)) if *it == older), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn u3_a_downgrade_and_a_list_for_another_platform_are_refused() {
    let scene = Scene::new();
    let mut manifest = scene.manifest();
    scene.serve(&manifest);
    let outcome = scene.look("0.3.0").await;
    let is_it = matches!(&outcome, Err(UpdateError::Refused(Refusal::Downgrade { .. })));
    assert!(is_it, "{outcome:?}");
    manifest.packages[0].platform = "windows-riscv64-nsis".to_owned();
    scene.serve(&manifest);
    let outcome = scene.look("0.1.0").await;
    let is_it = matches!(&outcome, Err(UpdateError::Refused(Refusal::NoPackage { .. })));
    assert!(is_it, "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn u5_a_server_that_stalls_holds_up_neither_list_nor_package_for_ever() {
    let scene = Scene::new();
    let list = serde_json::to_vec(&scene.manifest()).unwrap();
    scene.serve(&scene.manifest());
    scene.serve_list(Served::file(list, "\"m\"").failing(Fault::StallAfter(10)));
    let outcome = scene.look("0.1.0").await;
    let is_it = matches!(&outcome, Err(UpdateError::Fetch(FetchError::GaveUp { .. })));
    assert!(is_it, "{outcome:?}");
    // It behaves now; its package comes in two pieces, one of them behind a stall.
    let stalls = Served::file(scene.package.clone(), "\"1\"").failing(Fault::StallAfter(1000));
    scene.serve_package(stalls);
    let fetched = scene.fetch().await.unwrap();
    assert_eq!(fs::read(&fetched.path).unwrap(), scene.package);
    drop(fetched);
    // One that never brings anything.
    let other = Scene::new();
    other.serve(&other.manifest());
    let never = (0..9).fold(Served::file(other.package.clone(), "\"1\""), |served, _| {
        served.failing(Fault::StallAfter(0))
    });
    other.serve_package(never);
    let outcome = other.fetch().await;
    let is_it = matches!(&outcome, Err(UpdateError::Fetch(FetchError::GaveUp { .. })));
    assert!(is_it && other.has_no_package(), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn u5_a_list_without_end_is_refused() {
    let scene = Scene::new();
    scene.serve(&scene.manifest());
    let long = vec![b' '; MANIFEST_BYTES_MAX + 1];
    for served in [
        Served::file(long.clone(), "\"m\""),
        Served { no_length: true, ..Served::file(long, "\"m\"") },
    ] {
        scene.serve_list(served);
        let outcome = scene.look("0.1.0").await;
        let is_it = matches!(&outcome, Err(UpdateError::Fetch(FetchError::TooLarge { .. })));
        assert!(is_it, "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn u5_a_redirect_to_elsewhere_is_refused_for_list_and_package() {
    for to in ["http://192.168.1.1/x", "http://example.org/x", "file:///etc/passwd"] {
        let scene = Scene::new();
        scene.serve(&scene.manifest());
        scene.serve_package(Served::redirect(to));
        let outcome = scene.fetch().await;
        let is_it = matches!(&outcome, Err(UpdateError::Fetch(FetchError::Redirect { .. })));
        assert!(is_it && scene.has_no_package(), "{to}: {outcome:?}");
        scene.serve_list(Served::redirect(to));
        let outcome = scene.look("0.1.0").await;
        let is_it = matches!(&outcome, Err(UpdateError::Fetch(FetchError::Redirect { .. })));
        assert!(is_it, "{to}: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn u6_a_package_with_another_digest_or_length_never_gets_its_name() {
    let scene = Scene::new();
    scene.serve(&scene.manifest());
    let mut changed = scene.package.clone();
    changed[1234] ^= 1;
    let cases = [
        Served::file(changed.clone(), "\"1\""),
        Served { no_length: true, ..Served::file(changed, "\"2\"") },
        Served::file([scene.package.as_slice(), b"more"].concat(), "\"3\""),
        Served { no_length: true, ..Served::file([&scene.package[..], b"more"].concat(), "\"4\"") },
        Served::file(scene.package[1..].to_vec(), "\"5\""),
        Served { no_length: true, ..Served::file(scene.package[1..].to_vec(), "\"6\"") },
    ];
    for (at, served) in cases.into_iter().enumerate() {
        scene.serve_package(served);
        let outcome = scene.fetch().await;
        assert!(matches!(outcome, Err(UpdateError::Fetch(_))), "{at}: {outcome:?}");
        assert!(scene.has_no_package(), "{at}");
    }
    // What came of those is no part of the right one.
    scene.serve_package(Served::file(scene.package.clone(), "\"7\""));
    let fetched = scene.fetch().await.unwrap();
    assert_eq!(sha256(&fs::read(&fetched.path).unwrap()), sha256(&scene.package));
}

#[tokio::test(flavor = "multi_thread")]
async fn u6_a_cut_download_goes_on_where_it_was() {
    let scene = Scene::new();
    scene.serve(&scene.manifest());
    let cut = Served::file(scene.package.clone(), "\"1\"").failing(Fault::CutAfter(100_000));
    scene.serve_package(cut);
    let fetched = scene.fetch().await.unwrap();
    assert_eq!(fs::read(&fetched.path).unwrap(), scene.package);
    let ranges: Vec<_> = scene.server.asked().into_iter().filter_map(|it| it.range).collect();
    assert_eq!(ranges, ["bytes=100000-"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn u6_a_disk_without_room_is_said_before_the_first_byte() {
    let scene = Scene::new();
    scene.serve(&scene.manifest());
    scene.leave_free(1000);
    let outcome = scene.fetch().await;
    let is_it = matches!(&outcome, Err(UpdateError::Fetch(FetchError::NoRoom { .. })));
    assert!(is_it && scene.has_no_package(), "{outcome:?}");
}
