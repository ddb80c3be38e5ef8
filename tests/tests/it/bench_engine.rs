//! The bench of the engine still runs and still tells every row; how good they are is not asked.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Starts the bench with files under `folder`, one tiny model and `arguments`.
fn bench(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-engine"))
        .arg("--tiny")
        .arg("--models")
        .arg(folder.join("models"))
        .args(arguments)
        .output()
        .expect("Cargo built the bench for this test")
}

#[track_caller]
fn told(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("one JSON object on standard output")
}

#[test]
fn every_row_of_the_target_table_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let report = told(&bench(folder.path(), &["--json"]));
    for key in ["cpu", "cores", "ram_gib", "system"] {
        assert!(!report["machine"][key].is_null(), "machine.{key} is missing");
    }
    for key in ["inglenook", "commit", "rustc", "date", "command", "load_before", "load_after"] {
        assert!(!report["run"][key].is_null(), "run.{key} is missing");
    }
    let rows = report["rows"].as_array().unwrap();
    let row = |row: &Value| (row["part"].as_str().unwrap().to_owned(), row["threads"].as_u64());
    let expected = [
        ("decode", 1),
        ("prefill", 1),
        ("decode", 2),
        ("prefill", 2),
        ("streams", 2),
        ("depth", 2),
        ("memory", 2),
        ("load", 2),
        ("busy", 2),
    ];
    let expected: Vec<_> =
        expected.into_iter().map(|(part, threads)| (part.to_owned(), Some(threads))).collect();
    assert_eq!(rows.iter().map(row).collect::<Vec<_>>(), expected);
    for row in rows {
        let told = row["ours"]["median"].as_f64() > Some(0.0) || row["note"].is_string();
        assert!(told, "neither a figure nor a reason: {row}");
    }
    assert!(rows[0]["ours"]["median"].as_f64() > Some(0.0), "{}", rows[0]);
    assert_eq!(rows[0]["note"], "no llama-bench was given");
}

#[test]
fn one_row_can_be_asked_for_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let kept = format!("--keep={}", folder.path().join("kept").display());
    let output = bench(folder.path(), &["--only", "load", "--threads", "1", &kept]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(table.contains("| load to first token | tiny | 1 |"), "{table}");
    assert!(!table.contains("| decode"), "{table}");
    let files = std::fs::read_dir(folder.path().join("kept")).unwrap();
    let mut texts: Vec<String> =
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    texts.sort();
    assert_eq!(texts.len(), 2);
    assert!(texts[0].starts_with("# The engine, measured"), "{}", texts[0]);
    assert!(texts[1].starts_with('{'), "{}", texts[1]);
    for text in texts {
        let here = folder.path().to_str().unwrap();
        assert!(!text.contains(here), "a folder of this machine is kept: {text}");
    }
}

#[test]
fn a_missing_llama_bench_is_told_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("llama-bench");
    let output = bench(folder.path(), &["--llama-bench", missing.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("llama-bench") && said.contains("packaging/README.md"), "{said}");
    assert!(!folder.path().join("models").exists());
}

#[cfg(unix)]
#[test]
fn llama_cpp_is_measured_beside_and_compared_with() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    // Far faster than anything here, and faster still with weights as they are in the file.
    let script = r#"#!/bin/sh
case "$*" in
  --help) echo "  --repack <0|1>"; exit ;;
  *"--repack 1"*) speed=1e9 ;;
  *) speed=2e9 ;;
esac
echo "[{\"build_commit\":\"abc\",\"build_number\":1,\"n_prompt\":32,\"n_gen\":0,\"avg_ts\":$speed},
 {\"build_commit\":\"abc\",\"build_number\":1,\"n_prompt\":0,\"n_gen\":4,\"avg_ts\":$speed}]"
"#;
    let program = folder.path().join("llama-bench");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    let arguments = ["--json", "--only", "decode,prefill", "--threads", "1", "--rounds", "3"];
    let report =
        told(&bench(folder.path(), &[&arguments[..], &["--llama-bench", program]].concat()));
    assert_eq!(report["llama_cpp"], "abc (build 1)");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["verdict"], "missed", "{row}");
        assert_eq!(row["ratio"]["n"], 3, "{row}");
        assert_eq!(row["against"][0]["figures"]["median"], 1e9, "{row}");
        assert_eq!(row["against"][1]["figures"]["median"], 2e9, "{row}");
    }
    // Decoding is judged by llama.cpp as it comes, prefill by its faster way.
    let share = |row: &Value, of: f64| {
        let expected = row["ours"]["median"].as_f64().unwrap() / of;
        let ratio = row["ratio"]["median"].as_f64().unwrap();
        assert!((ratio / expected - 1.0).abs() < 1e-9, "{ratio} is not {expected}");
    };
    share(&rows[0], 1e9);
    share(&rows[1], 2e9);
    assert!(!report["run"]["command"].as_str().unwrap().contains(program));
}
