//! The real Secret Service, where this machine has one to start: gnome-keyring on a private session
//! bus with a home of its own.
//!
//! The tests start this very test program again inside `dbus-run-session`; the inner run is one
//! scene, picked by a variable, and does what a start of the product does.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::places::skip;
use nook_base::env;
use nook_store::{
    Home, HomeChoice, IdentityError, KEYRING_VARIABLE, KeyringChoice, KeyringTrouble, Where,
    WhyFile, load_or_mint,
};

/// The inner run, as the test harness knows it.
const INNER: &str = "keyring::scenes";
const SCENE: &str = "INGLENOOK_TEST_SCENE";
const FOLDER: &str = "INGLENOOK_TEST_FOLDER";

const UNLOCKED: &str = "printf %s test | gnome-keyring-daemon --unlock --components=secrets --daemonize >/dev/null 2>&1";
/// The daemon is started by the bus on demand and nobody unlocks it.
const LOCKED: &str = "true";

/// Runs `scene` of [`scenes`] in a session whose keyring is set up by `setup`.
fn play(folder: &Path, setup: &str, scene: &str) -> bool {
    for program in ["dbus-run-session", "gnome-keyring-daemon"] {
        if Command::new(program).arg("--version").output().is_err() {
            skip(&format!("keyring, {scene}"), &format!("no {program}"));
            return false;
        }
    }
    for part in ["run", "data/keyrings"] {
        std::fs::create_dir_all(folder.join(part)).expect("folders");
    }
    let myself = std::env::current_exe().expect("this program has a path");
    let script = format!("{setup}; exec \"$0\" --exact {INNER} --nocapture");
    let output = Command::new("dbus-run-session")
        .args(["--", "bash", "-c", &script])
        .arg(myself)
        .env(SCENE, scene)
        .env(FOLDER, folder)
        .env("HOME", folder)
        .env("XDG_RUNTIME_DIR", folder.join("run"))
        .env("XDG_DATA_HOME", folder.join("data"))
        .env_remove("DISPLAY")
        .env_remove(KEYRING_VARIABLE)
        .output()
        .expect("dbus-run-session starts");
    check(&output, scene);
    true
}

/// The inner run was the one test, and it passed.
#[track_caller]
fn check(output: &Output, scene: &str) {
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{scene}: {told}{errors}");
}

/// The inner run. Without a scene it is an empty test.
#[test]
fn scenes() {
    let (Some(scene), Some(folder)) = (env::text(SCENE), env::raw(FOLDER)) else {
        return;
    };
    let place = PathBuf::from(folder).join("home");
    let home = Home::open(&HomeChoice::At(place.clone())).unwrap();
    let outcome = load_or_mint(&home, KeyringChoice::System);
    let secret_file = home.data().join("identity.key");
    match scene.as_str() {
        "first" => {
            let (key, found) = outcome.unwrap();
            assert_eq!(found, Where::Keyring);
            assert!(!secret_file.exists());
            std::fs::write(place.join("expected"), key.peer_id().to_string()).unwrap();
        }
        "again" => {
            let (key, found) = outcome.unwrap();
            assert_eq!(found, Where::Keyring);
            let expected = std::fs::read_to_string(place.join("expected")).unwrap();
            assert_eq!(key.peer_id().to_string(), expected);
        }
        "locked later" => {
            let error = outcome.unwrap_err();
            assert!(
                matches!(&error, IdentityError::KeyringUnavailable { trouble, .. }
                    if matches!(trouble, KeyringTrouble::Locked | KeyringTrouble::Silent)),
                "{error:?}"
            );
            assert!(!secret_file.exists(), "no second identity");
        }
        "locked at first" => {
            let (_, found) = outcome.unwrap();
            assert!(
                matches!(&found, Where::File { why: WhyFile::KeyringFailed(_), .. }),
                "{found:?}"
            );
            assert!(secret_file.exists());
        }
        "switched off" => {
            let (_, found) = outcome.unwrap();
            let why = WhyFile::SwitchedOff;
            assert_eq!(found, Where::File { path: secret_file, why });
        }
        other => panic!("no scene is called {other}"),
    }
}

#[test]
fn p14_a_real_keyring_keeps_the_key_over_restarts_and_a_locked_one_never_makes_a_second() {
    let folder = tempfile::tempdir().unwrap();
    if play(folder.path(), UNLOCKED, "first") {
        play(folder.path(), UNLOCKED, "again");
        play(folder.path(), LOCKED, "locked later");
        // Nothing to unlock yet either: such a keyring answers "no such secret", which is no proof.
        std::fs::remove_dir_all(folder.path().join("data/keyrings")).unwrap();
        play(folder.path(), LOCKED, "locked later");
    }
}

#[test]
fn p14_a_locked_keyring_at_the_first_start_leads_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    play(folder.path(), LOCKED, "locked at first");
}

#[test]
fn without_a_session_bus_the_key_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let myself = std::env::current_exe().unwrap();
    let output = Command::new(myself)
        .args(["--exact", INNER, "--nocapture"])
        .env(SCENE, "locked at first")
        .env(FOLDER, folder.path())
        .env("HOME", folder.path())
        .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove(KEYRING_VARIABLE)
        .output()
        .unwrap();
    // Elsewhere the keyring needs no session bus.
    if cfg!(target_os = "linux") {
        check(&output, "no session bus");
    }
}

#[test]
fn the_environment_switches_the_keyring_off() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", INNER, "--nocapture"])
        .env(SCENE, "switched off")
        .env(FOLDER, folder.path())
        .env(KEYRING_VARIABLE, "off")
        .output()
        .unwrap();
    check(&output, "switched off");
}
