//! The bench of fresh installations still runs and tells every figure; how good they are is not
//! asked.

use std::process::Command;

use serde_json::Value;

#[test]
fn a_quick_bench_sets_up_a_household_and_tells_every_figure() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench-home"))
        .args(["--quick", "--json"])
        .env("NOOK_BIN", nook_testkit::nook().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [household] = &report.as_array().expect("a list of households")[..] else {
        panic!("{report}")
    };
    assert_eq!(household["commands"], 3, "{household}");
    for figure in ["first_layers_s", "measured_s", "copied_mb", "alone_tokens_per_s"] {
        assert!(household[figure].as_f64().is_some_and(|it| it > 0.0), "{figure}: {household}");
    }
    for reply in household["replies"].as_array().expect("a list of replies") {
        for figure in ["predicted_tokens_per_s", "tokens_per_s", "first_token_ms"] {
            assert!(reply[figure].as_f64().is_some_and(|it| it > 0.0), "{figure}: {reply}");
        }
    }
}
