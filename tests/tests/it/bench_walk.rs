//! The bench of the walk still runs and still tells every figure; how good they are is not asked.

use std::process::Command;

use serde_json::Value;

/// The figures of a spread.
const SPREAD: [&str; 6] = ["n", "min", "median", "p95", "p99", "max"];

#[test]
fn a_quick_bench_tells_every_figure() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench-walk"))
        .args(["--quick", "--json"])
        .env("NOOK_BIN", nook_testkit::nook().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["cpu", "cores", "ram_gib", "system"] {
        assert!(!report["machine"][key].is_null(), "machine.{key} is missing");
    }
    for key in ["inglenook", "commit", "date", "command", "load_before", "load_after"] {
        assert!(!report["run"][key].is_null(), "run.{key} is missing");
    }
    check_rows(&report["hops"], 16, &["overhead_us", "overhead_and_queue_us", "compute_us"]);
    let speeds = ["undivided_tokens_per_second", "split_tokens_per_second"];
    check_rows(&report["splits"], 2, &speeds);
    check_rows(&report["kills"], 2, &["history_tokens", "to_next_token_ms", "reported_pause_ms"]);
    assert!(report["splits"][0]["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0));
}

#[track_caller]
fn check_rows(rows: &Value, wanted: usize, spreads: &[&str]) {
    let rows = rows.as_array().expect("a list of rows");
    assert_eq!(rows.len(), wanted);
    for row in rows {
        for spread in spreads {
            let figures = SPREAD.map(|figure| row[spread][figure].as_f64());
            assert!(figures.iter().all(Option::is_some), "{spread}: {row}");
            assert!(figures[0] > Some(0.0), "{spread} has no sample: {row}");
        }
    }
}
