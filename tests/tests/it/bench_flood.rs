//! The bench of floods runs, attacks, and says what it measured.

use anyhow::Context as _;
use nook_testkit::{CpuShare, nook, skip};
use serde_json::Value;

#[test]
fn a_quick_flood_is_survived_and_measured() -> anyhow::Result<()> {
    let test = "a_quick_flood_is_survived_and_measured";
    if !cfg!(target_os = "linux") {
        skip(test, "network namespaces are Linux's");
        return Ok(());
    }
    if let Err(why) = CpuShare::of(0.1) {
        skip(test, &format!("{why:#}"));
        return Ok(());
    }
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_bench-flood"))
        .args(["--quick", "--json"])
        .env("NOOK_BIN", nook()?)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("no network namespaces") {
        skip(test, "no network namespaces");
        return Ok(());
    }
    anyhow::ensure!(output.status.success(), "{said}");
    let phases: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    assert_eq!(phases.len(), 6, "{phases:#?}");
    for phase in &phases {
        let title = phase["title"].as_str().context("each has a title")?;
        assert!(phase["replies"].as_u64() > Some(0), "{title}: {phase:#}");
        assert!(phase["node_kib"].as_u64() > Some(0), "{title}: {phase:#}");
        assert_eq!(phase["refused"], 0, "{title}: the window of the owner is refused nothing");
        let done = phase["done"].as_str().context("each says what was done")?;
        for kind in ["connections", "announcements", "requests"] {
            let is_meant = title == kind || title == "all at once";
            assert_eq!(done.contains(kind), is_meant, "{title}: {done}");
        }
    }
    Ok(())
}
