//! A short soak: two nodes ask, three lend and are killed, frozen and drained. Nothing is wrong,
//! stuck or left over. The long one is `cargo xtask soak`.

use std::process::Command;

use serde_json::Value;

#[test]
fn f14_a_household_that_is_disturbed_leaves_nothing_behind_and_says_nothing_wrong() {
    let output = Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(["--minutes", "0.35", "--conversations", "16", "--seed", "4", "--json"])
        .env("NOOK_BIN", nook_testkit::nook().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = |name: &str| {
        let rows = report["rows"].as_array().unwrap();
        rows.iter().find(|row| row["row"] == name).unwrap_or_else(|| panic!("no row {name}"))
    };
    for name in ["turns that said something else", "turns that were stuck", "panics"] {
        assert_eq!((&row(name)["value"], &row(name)["met"]), (&0.0.into(), &true.into()), "{said}");
    }
    // It did something: others took part, and something happened to them.
    assert!(row("turns with other devices")["value"].as_f64() > Some(0.0), "{said}");
    assert!(report["endings"]["correct"].as_u64() > Some(8), "{said}");
    assert!(!report["faults"].as_object().unwrap().is_empty(), "{said}");
    // Memory is judged after two minutes only.
    let growth = report["rows"].as_array().unwrap().iter().filter(|row| row["unit"] == "%");
    assert!(growth.inspect(|row| assert!(row["met"].is_null(), "{row}")).count() > 0);
}
