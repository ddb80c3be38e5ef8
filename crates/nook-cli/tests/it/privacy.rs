//! Promise: `nook privacy measure` says what a helper could read, for programs and for people, keeps
//! the figures of a listed model and nothing else, and takes no more memory than it may.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::places::fixture;

const STORIES: &str = "stories260K/stories260K-f32.gguf";

/// The program in `home` with everything logged.
fn nook(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nook"));
    command.arg("--home").arg(home).args(words);
    for name in ["INGLENOOK_HOME", "NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command.env("INGLENOOK_KEYRING", "off").env("INGLENOOK_LOG", "trace");
    command
}

/// Runs `nook privacy measure` in `home`.
fn measure(home: &Path, words: &[&str]) -> Output {
    nook(home, &["privacy", "measure"]).args(words).output().unwrap()
}

/// What `nook WORDS --json` says in `home`.
fn json(home: &Path, words: &[&str]) -> Value {
    let output = nook(home, words).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A home whose node looks for nobody.
fn quiet_home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let settings = "[network]\nlisten_port = 0\nloopback = true\n";
    std::fs::write(home.path().join("settings.toml"), settings).unwrap();
    home
}

/// The last line that is no log: what a person is told went wrong.
fn problem(said: &str) -> &str {
    said.lines().rfind(|line| line.starts_with("error: ")).unwrap_or_default()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_built_in_model_is_measured_by_its_name_and_told_to_programs() {
    let home = quiet_home();
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
    is_kept(home.path(), &view);
}

/// What was measured is shown again, with the digest of its file, and nothing more is kept of it.
fn is_kept(home: &Path, view: &Value) {
    let kept = json(home, &["privacy"]);
    assert_eq!(kept["problem"], Value::Null);
    let [of] = kept["models"].as_array().unwrap().as_slice() else { panic!("{kept}") };
    let ember = json(home, &["models"]);
    let ember = ember.as_array().unwrap().iter().find(|it| it["name"] == "ember");
    assert_eq!(of["digest"], ember.unwrap()["digest"]);
    assert_eq!((&of["model"], &of["digest"]), (&"ember".into(), &view["model"]["digest"]));
    let figures = &of["figures"];
    for name in ["measured_at", "tokens", "candidates"] {
        assert_eq!(figures[name], view[name], "{name}");
    }
    for name in ["layers_before", "format"] {
        assert_eq!(figures[name], view["highest"][name], "{name}");
    }
    let cut = &view["cuts"][1];
    assert_eq!(cut["layers_before"], figures["layers_before"]);
    let mut formats = cut["formats"].as_array().unwrap().iter();
    let place = formats.find(|it| it["format"] == figures["format"]).unwrap();
    for name in ["nearest", "probe", "lens", "replay", "next"] {
        assert_eq!(figures[name], place[name], "{name}");
    }
    let file = home.join("privacy.json");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let text = std::fs::read_to_string(&file).unwrap();
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphabetic()).collect();
    assert!(!words.contains(&"ember") && !text.contains(&*home.to_string_lossy()), "{text}");
    let shown = nook(home, &["privacy", "show", "EMBER"]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("ember  20") && shown.contains("100 %"), "{shown}");
    assert!(
        shown.contains("can read everything you and the model write, word for word"),
        "{shown}"
    );
}

/// `nook models WORDS` does what it says.
fn models(home: &Path, words: &[&str]) {
    let done = nook(home, &["models"]).args(words).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", stderr(&done));
}

#[test]
fn figures_of_another_file_and_of_a_model_that_is_gone_do_not_count() {
    let home = quiet_home();
    let own = home.path().join("own.gguf");
    std::fs::copy(fixture(STORIES), &own).unwrap();
    models(home.path(), &["import", own.to_str().unwrap(), "--name", "tales"]);
    let words = ["tales", "--tokens", "4", "--candidates", "64", "--layers", "1"];
    let output = measure(home.path(), &words);
    assert!(output.status.success(), "{}", stderr(&output));
    let kept = || json(home.path(), &["privacy", "show"])["models"].as_array().unwrap().len();
    assert_eq!(kept(), 1);
    // Somebody writes to the file: whose figures these are is not known any more.
    let mut bytes = std::fs::read(&own).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&own, &bytes).unwrap();
    assert_eq!(kept(), 0);
    bytes[last] ^= 1;
    std::fs::write(&own, &bytes).unwrap();
    let file = || std::fs::read_to_string(home.path().join("privacy.json")).unwrap();
    assert!(file().contains("replay"), "it is kept as long as the model is listed");
    models(home.path(), &["remove", "tales"]);
    assert!(!file().contains("replay"), "{}", file());
}

#[test]
fn a_list_that_cannot_be_read_is_said_to_be_lost_and_is_made_anew() {
    let home = quiet_home();
    std::fs::write(home.path().join("privacy.json"), "{ \"version\": 1, \"mo").unwrap();
    let shown = nook(home.path(), &["privacy"]).output().unwrap();
    let said = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success() && said.contains("Earlier figures are lost: "), "{said}");
    assert!(said.contains("privacy.json is damaged at line 1"), "{said}");
    assert!(said.contains("No model was measured here yet."), "{said}");
    let words = ["ember", "--tokens", "4", "--candidates", "64", "--layers", "1"];
    assert!(measure(home.path(), &words).status.success());
    let kept = json(home.path(), &["privacy"]);
    assert_eq!((&kept["problem"], kept["models"].as_array().unwrap().len()), (&Value::Null, 1));
}

#[cfg(target_os = "linux")]
#[test]
fn what_this_process_may_not_have_is_refused_before_anything_is_loaded() {
    let home = tempfile::tempdir().unwrap();
    let nook = nook(home.path(), &["privacy", "measure", fixture(STORIES).to_str().unwrap()]);
    // Soft limits that somebody set: nothing is left for the model, nothing for the measurement.
    for (mebibytes, part) in [
        (64, "the weights of this model take 0.1 GiB, and 0.0 GiB are free for them here"),
        (
            120,
            "0.1 GiB beside its weights, and at most 0.0 GiB can be used here; no number of tokens",
        ),
    ] {
        let limited = format!("ulimit -S -d {}; exec \"$0\" \"$@\"", mebibytes * 1024);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(limited).arg(nook.get_program()).args(nook.get_args());
        for (name, value) in nook.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let output = shell.output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{mebibytes}: {said}");
        assert!(problem(&said).contains(part), "{mebibytes}: {said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_measurement_that_gets_no_more_memory_ends_in_one_sentence() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture(STORIES);
    // Far too little, and too little for what is read or for replay: 14 MiB were enough.
    for mebibytes in [1_u64, 2, 6, 10] {
        let mut nook = nook(home.path(), &["privacy", "measure"]);
        nook.arg(&model).args(["--tokens", "64", "--candidates", "64", "--threads", "2"]);
        nook.env("RUST_BACKTRACE", "1").env("INGLENOOK_TEST_MEMORY", (mebibytes << 20).to_string());
        let output = nook.output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{mebibytes}: {said}");
        let errors: Vec<&str> = said.lines().filter(|line| line.contains("error")).collect();
        assert_eq!(
            errors,
            [format!("error: {}", nook_privacy::OUT_OF_MEMORY)],
            "{mebibytes}: {said}"
        );
        assert!(!said.contains("panicked") && !said.contains("memory allocation"), "{said}");
    }
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
