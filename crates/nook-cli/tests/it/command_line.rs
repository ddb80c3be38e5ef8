//! The command line as shells and scripts meet it: exit statuses, words that are no text, colours,
//! completion scripts, and what stands where when something goes wrong.
//!
//! Every test runs the real program. Those that need a node let the program start its own, in a
//! home of its own.

#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::places::skip;

/// What a terminal is told to change colours and weights.
const ESCAPE: u8 = 0x1b;

/// The program in the home `home`, with nothing of whoever runs the tests.
fn nook(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nook"));
    command.arg("--home").arg(home);
    for name in ["INGLENOOK_HOME", "INGLENOOK_LOG", "NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command.env("INGLENOOK_KEYRING", "off").env("TERM", "xterm-256color");
    command
}

/// A home whose node uses no port that somebody else may have.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let settings = "[network]\nlisten_port = 0\nloopback = true\n";
    std::fs::write(home.path().join("settings.toml"), settings).unwrap();
    home
}

fn said(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{:?}\n{out}{}", output.status, String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn check_ending(words: &[&str], status: i32, part: &str) {
    let home = home();
    let output = nook(home.path()).args(words).output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
    assert!(said.contains(part), "{words:?}: no `{part}` in {said}");
    assert!(!said.contains("panicked"), "{words:?}: {said}");
}

#[test]
fn exit_statuses_are_those_of_the_help() {
    check_ending(&["--version"], 0, env!("CARGO_PKG_VERSION"));
    check_ending(&["--help"], 0, "Exit status:");
    check_ending(&["devicez"], 2, "devices");
    check_ending(&["generate"], 2, "--prompt");
    check_ending(&["share", "on", "--until-tomorrow"], 2, "nook share pause");
    check_ending(&["worker"], 2, "worker");
    check_ending(&["devices"], 3, "nook up");
    check_ending(&["share", "on"], 3, "nook up");
    check_ending(&["generate", "--prompt", "Once", "--model", "no-such-model"], 1, "no-such-model");
    check_ending(&["debug", "gguf", "no-such-file.gguf"], 1, "no-such-file.gguf");
}

#[test]
fn settings_are_shown_and_changed_without_a_node() {
    let home = tempfile::tempdir().unwrap();
    let settings = |words: &[&str]| {
        let output = nook(home.path()).arg("settings").args(words).output().unwrap();
        let (code, out) =
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned());
        (code, out, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let streams = "distributed_inference.host.max_concurrent_streams";
    let (code, out, _) = settings(&["list"]);
    assert!(code == Some(0) && out.contains(streams) && out.contains("from 1 to 64"), "{out}");
    assert_eq!(settings(&["get", streams]).1, "4\n");

    let (code, out, err) = settings(&["init"]);
    assert!(code == Some(0) && out.contains("settings.toml"), "{out}{err}");
    let (code, _, err) = settings(&["init"]);
    assert!(code == Some(1) && err.contains("is there already"), "{err}");

    for (key, values, shown) in [
        (streams, &["3"][..], "3\n"),
        ("gate.lend", &["own"], "own\n"),
        ("port.enabled", &["off"], "false\n"),
        ("port.allowed_origins", &["http://a", "http://b"], "http://a\nhttp://b\n"),
        ("device.name", &["--json"], ""),
    ] {
        let words = [&["set", key][..], values].concat();
        let (code, _, err) = settings(&words);
        let is_typo = values[0].starts_with("--");
        assert_eq!(code == Some(0), !is_typo, "{words:?}: {err}");
        assert_eq!(settings(&["get", key]).1, shown, "{words:?}");
    }
    let (_, out, _) = settings(&["list", "--changed", "--json"]);
    let lines: Vec<serde_json::Value> = serde_json::from_str(&out).unwrap();
    let keys: Vec<_> = lines.iter().map(|line| line["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["port.enabled", "port.allowed_origins", "gate.lend", streams]);
    let text = std::fs::read_to_string(home.path().join("settings.toml")).unwrap();
    assert!(text.contains("# max_concurrent_streams = 4\nmax_concurrent_streams = 3\n"), "{text}");

    let (code, _, err) = settings(&["set", streams, "65"]);
    assert_eq!(code, Some(1), "{err}");
    for part in [streams, "`65`", "a whole number from 1 to 64", "`max_concurrent_streams = 4`"] {
        assert!(err.contains(part), "no {part} in {err}");
    }
    let (code, _, err) = settings(&["set", "host.max_concurrent_streams", "3"]);
    assert!(code == Some(1) && err.contains(&format!("did you mean `{streams}`")), "{err}");
    assert_eq!(settings(&["set", streams]).0, Some(2), "neither a value nor --default");
    assert_eq!(settings(&["set", streams, "--default"]).0, Some(0));
    assert_eq!(settings(&["get", streams]).1, "4\n");
}

#[cfg(unix)]
#[test]
fn words_that_are_no_text_are_refused_in_a_sentence() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let odd = OsStr::from_bytes(b"od\xffd");
    let end = |words: &[&OsStr]| {
        let output = Command::new(env!("CARGO_BIN_EXE_nook")).args(words).output().unwrap();
        let said = said(&output);
        assert!(!said.contains("panicked"), "{words:?}: {said}");
        assert!(!output.stderr.is_empty(), "{words:?}: {said}");
        (output.status.code(), said)
    };
    for words in [&["".as_ref(), odd][1..], &["generate".as_ref(), "--prompt".as_ref(), odd]] {
        let (code, said) = end(words);
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.starts_with("ExitStatus") && said.contains("error: "), "{words:?}: {said}");
    }
    for words in [&["worker".as_ref(), odd][..], &["worker".as_ref(), "--socket".as_ref(), odd]] {
        let (code, said) = end(words);
        assert_eq!(code, Some(1), "{words:?}: {said}");
        assert!(said.contains("usage: worker --socket NAME"), "{words:?}: {said}");
    }
    let (code, said) = end(&["debug".as_ref(), "gguf".as_ref(), odd]);
    assert_eq!(code, Some(1), "files may have any name: {said}");
}

#[test]
fn there_is_no_colour_where_there_is_no_terminal() {
    let home = home();
    for words in [&["--help"][..], &["devicez"], &["devices"], &["models"]] {
        // At this level a node that starts has something to log.
        let output = nook(home.path()).args(words).env("INGLENOOK_LOG", "debug").output().unwrap();
        let all = [output.stdout.as_slice(), &output.stderr].concat();
        assert!(!all.is_empty());
        assert!(!all.contains(&ESCAPE), "{words:?}: {}", String::from_utf8_lossy(&all));
    }
}

/// `script` gives a program a terminal, and writes down what it was told.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_gets_colours_unless_its_owner_refuses_them() {
    let home = home();
    let on_terminal = |words: &str, no_color: Option<&str>| {
        let line =
            format!("{} --home {} {words}", env!("CARGO_BIN_EXE_nook"), home.path().display());
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        script.env("TERM", "xterm-256color").env("INGLENOOK_LOG", "debug");
        script.env("INGLENOOK_KEYRING", "off").env_remove("NO_COLOR").env_remove("INGLENOOK_HOME");
        script.envs(no_color.map(|value| ("NO_COLOR", value)));
        script.stdin(Stdio::null());
        script.output().map(|output| output.stdout)
    };
    if on_terminal("--version", None).is_err() {
        skip("a_terminal_gets_colours_unless_its_owner_refuses_them", "no program `script`");
        return;
    }
    // The help of clap, and the log of a node that starts.
    for words in ["--help", "models"] {
        let coloured = on_terminal(words, None).unwrap();
        let shown = String::from_utf8_lossy(&coloured).into_owned();
        assert!(coloured.contains(&ESCAPE), "{words}: {shown}");
        let plain = on_terminal(words, Some("1")).unwrap();
        assert!(!plain.is_empty());
        let shown = String::from_utf8_lossy(&plain).into_owned();
        assert!(!plain.contains(&ESCAPE), "{words}: {shown}");
    }
}

#[test]
fn each_shell_gets_a_script_that_knows_every_command() {
    let home = home();
    let help = nook(home.path()).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let commands = help.split_once("Commands:\n").unwrap().1.split("\n\n").next().unwrap();
    let commands: Vec<&str> = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert!(commands.len() > 10, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = nook(home.path()).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        for command in &commands {
            assert!(script.contains(command), "{shell} lacks {command}");
        }
        assert!(script.contains("until-tomorrow"), "{shell} lacks an option");
    }
}

/// The real bash, in which the script is sourced and asked as a press of the tab key asks it.
#[cfg(unix)]
#[test]
fn bash_completes_commands_options_and_choices() {
    if Command::new("bash").arg("--version").output().is_err() {
        skip("bash_completes_commands_options_and_choices", "no program `bash`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = nook(folder.path()).args(["completions", "bash"]).output().unwrap();
    let script = folder.path().join("nook.bash");
    std::fs::write(&script, output.stdout).unwrap();
    let ask = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
               _nook nook \"${!#}\" \"${@:$#-1:1}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let check = |words: &[&str], expected: &[&str]| {
        let output = Command::new("bash")
            .args(["--norc", "-c", ask, "bash"])
            .arg(&script)
            .args(words)
            .output()
            .unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let mut told: Vec<&str> = told.lines().collect();
        told.sort_unstable();
        assert_eq!(told, expected, "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    check(&["nook", "de"], &["debug", "devices"]);
    check(&["nook", "share", "o"], &["off", "on"]);
    check(&["nook", "generate", "--max"], &["--max-tokens"]);
    check(&["nook", "devices", "trust", "attic", "tr"], &["trusted"]);
}

/// The prompt stands on the screen when the node refuses it: what it says begins a new line.
#[test]
fn a_household_tells_what_went_wrong_on_a_line_of_its_own() {
    let prompt = "All the rooms of the house. ".repeat(2000);
    let home = home();
    let output =
        nook(home.path()).args(["house", "--helpers", "1", "--prompt", &prompt]).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    // The prompt is long; what follows it is what counts.
    let after = out.strip_prefix(&*prompt).unwrap();
    assert_eq!(after, "\n");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.lines().any(|line| line.starts_with("error: ")), "{error}");
}

/// Help names these variables; a library reads them, so what counts is what it does with them.
#[test]
fn downloads_go_through_the_proxy_that_the_environment_names() {
    let names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    for name in names {
        let home = home();
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut command = nook(home.path());
        for other in names.iter().chain(&["NO_PROXY", "no_proxy", "REQUEST_METHOD"]) {
            command.env_remove(other);
        }
        command.env(name, format!("http://{}", proxy.local_addr().unwrap()));
        command.args(["models", "pull", "https://models.invalid/m.gguf"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // It asks as soon as its node has started; a program that never asks is ended by nobody but
        // whoever runs the tests.
        let (stream, _) = proxy.accept().unwrap();
        let mut asked = String::new();
        BufReader::new(stream).read_line(&mut asked).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(asked.starts_with("CONNECT models.invalid:443 "), "{name}: {asked}");
    }
}
