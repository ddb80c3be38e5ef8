//! The bench of the pipeline still runs and still tells every row; how good they are is not asked.

use std::process::Command;

use serde_json::Value;

#[test]
fn a_quick_bench_tells_every_row() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench-pipeline"))
        .args(["--quick", "--json"])
        .env("NOOK_BIN", nook_testkit::nook().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = rows.as_array().expect("a list of rows");
    assert_eq!(rows.len(), 20);
    for row in rows {
        assert!(row["row"].is_string() && row["unit"].is_string(), "{row}");
        assert!(row["value"].as_f64().is_some_and(|value| value > 0.0), "{row}");
        assert_eq!(row["target"].is_null(), row["met"].is_null(), "{row}");
    }
    let with_target = rows.iter().filter(|row| row["met"].is_boolean());
    assert_eq!(with_target.count(), 2);
}
