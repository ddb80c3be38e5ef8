//! The bench of the pipeline still runs and still tells every row; how good they are is not asked.

use std::process::Command;

use serde_json::Value;

/// How the rows of a quick bench begin that have a target, in the order of the budget's table.
const BUDGET: [&str; 9] = [
    "two one-thread workers on loopback, decode, against one",
    "overhead per hop, loopback",
    "construction to first byte, layers already held",
    "pipelined prefill of 96 tokens over two one-core workers, against one",
    "four streams through one host, aggregate against one stream",
    "Ember, helper killed mid-reply",
    "Ember, helper frozen mid-reply",
    "pause from the tray to device memory free",
    "first token of a cold prompt of 1,000 tokens against the second turn",
];

#[test]
fn a_quick_bench_tells_every_row() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bench-pipeline"))
        .args(["--quick", "--json", "--models"])
        .arg(folder.path())
        .env("NOOK_BIN", nook_testkit::nook().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = rows.as_array().expect("a list of rows");
    assert_eq!(rows.len(), 60, "{rows:#?}");
    for row in rows {
        assert!(row["row"].is_string() && row["unit"].is_string(), "{row}");
        let is_difference = row["row"].as_str().is_some_and(|name| name.contains("on top of"));
        // What comes on top of something else is less than nothing where the machine was busier
        // during the other.
        let is_told = |value: f64| is_difference || value >= 0.0;
        assert!(row["value"].as_f64().is_some_and(is_told), "{row}");
        assert_eq!(row["target"].is_null(), row["met"].is_null(), "{row}");
    }
    let with_target: Vec<&str> = rows
        .iter()
        .filter(|row| row["met"].is_boolean())
        .filter_map(|row| row["row"].as_str())
        .collect();
    assert_eq!(with_target.len(), BUDGET.len(), "{with_target:#?}");
    for (row, beginning) in with_target.into_iter().zip(BUDGET) {
        assert!(row.starts_with(beginning), "{row:?} is not about {beginning:?}");
    }
}
