//! A small run of the simulator: every promise that can be judged without optimisation holds.

use std::process::Command;

use serde_json::Value;

#[test]
fn a_small_simulation_judges_every_promise_and_finds_none_broken() {
    let output = Command::new(env!("CARGO_BIN_EXE_simulate"))
        .args(["--households", "110", "--small", "60", "--timed", "1", "--json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 7);
    for row in rows {
        for key in ["row", "value", "unit", "target"] {
            assert!(!row[key].is_null(), "{key} is missing: {row}");
        }
        assert!(row["cases"].as_u64() > Some(0), "nothing was looked at: {row}");
        let is_timed = row["unit"] == "ms";
        assert!(row["met"] == true || (is_timed && cfg!(debug_assertions)), "{row}");
    }
    assert_eq!(report["crowds"].as_array().unwrap().len(), 11);
    assert_eq!(report["broken"].as_array().unwrap().len(), 0);
}

#[test]
fn a_simulation_that_looks_at_nothing_claims_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_simulate"))
        .args(["--households", "0", "--small", "0", "--timed", "0"])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("not judged") && !told.contains("| met |"), "{told}");
}
