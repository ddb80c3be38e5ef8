//! Promise: `nook privacy measure` says what a helper could read, for programs and for people, and
//! leaves nothing of what it measured anywhere.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::places::fixture;

const STORIES: &str = "stories260K/stories260K-f32.gguf";

/// Runs `nook privacy measure` in `home` with everything logged.
fn measure(home: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nook"));
    command.arg("--home").arg(home).args(["privacy", "measure"]).args(words);
    for name in ["INGLENOOK_HOME", "NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command.env("INGLENOOK_KEYRING", "off").env("INGLENOOK_LOG", "trace").output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_built_in_model_is_measured_by_its_name_and_told_to_programs() {
    let home = tempfile::tempdir().unwrap();
    let settings = "[network]\nlisten_port = 0\nloopback = true\n";
    std::fs::write(home.path().join("settings.toml"), settings).unwrap();
    let words = ["ember", "--json", "--tokens", "6", "--candidates", "64", "--layers", "1"];
    let output = measure(home.path(), &words);
    assert!(output.status.success(), "{}", stderr(&output));
    let view: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(view["version"], 1);
    assert_eq!((&view["tokens"], &view["candidates"]), (&6.into(), &64.into()));
    let cuts = view["cuts"].as_array().unwrap();
    let before: Vec<u64> = cuts.iter().map(|cut| cut["layers_before"].as_u64().unwrap()).collect();
    assert_eq!(before, [0, 1, 6]);
    for cut in cuts {
        for of in cut["formats"].as_array().unwrap() {
            assert_eq!(of["replay"], 1.0, "{cut}");
        }
    }
    assert_eq!(view["controls"]["positive"]["passed"], true);
    assert_eq!(view["controls"]["negative"]["passed"], true);
    assert_eq!(view["highest"]["recovered"], 1.0);
    let meaning = view["meaning"].as_str().unwrap();
    assert!(meaning.contains("can read at least 100 of 100 pieces of words"), "{meaning}");
}

#[test]
fn people_are_told_and_nothing_of_it_is_logged_or_kept() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture(STORIES);
    let words = [model.to_str().unwrap(), "--tokens", "6", "--candidates", "64"];
    let output = measure(home.path(), &words);
    let (said, logged) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert!(output.status.success(), "{logged}");
    assert!(said.contains("REPLAY") && said.contains("Controls: "), "{said}");
    assert!(said.trim_end().ends_with("Other methods may read more."), "{said}");
    assert!(logged.contains("replay matching: 100 %"), "{logged}");
    // What is logged: how far it is, and what the program says of itself at that level. No numbers
    // of activations, which would be many in a row, and no text.
    for line in logged.lines() {
        let fractions = line.split(|c: char| !c.is_ascii_digit() && c != '.');
        let fractions = fractions.filter(|word| word.len() > 4 && word.contains('.')).count();
        assert!(fractions < 6 && !line.contains("little boat"), "{line}");
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_measured_is_told_with_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture(STORIES);
    let model = model.to_str().unwrap();
    for (words, part) in [
        (&["nowhere.gguf"][..], "there is no file nowhere.gguf"),
        (&[model, "--layers", "9"], "can be cut before the layers 0, 1, 2, 3, 4, 5"),
        (&[concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], "GGUF"),
    ] {
        let output = measure(home.path(), words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("error: ") && said.contains(part), "{words:?}: {said}");
    }
}
