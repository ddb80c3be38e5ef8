//! Commands for programs: `nook pair --json`, `nook devices --json`, `nook down`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::Context as _;
use nook_testkit::{Household, NodePlan, nook};
use serde_json::Value;

fn command(home: &Path, words: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(nook()?);
    command.arg("--home").arg(home).args(words).env_remove("INGLENOOK_HOME");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// The one JSON value that a command prints.
fn told(output: &Output) -> anyhow::Result<Value> {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    anyhow::ensure!(output.status.success(), "{why}");
    serde_json::from_str(&said).context(said)
}

/// Pairs the nodes at both homes by what the commands print, and does the rest on the second one.
fn pair_trust_and_forget(showing: &Path, typing: &Path) -> anyhow::Result<()> {
    let mut shows = command(showing, &["pair", "--json"])?.spawn()?;
    let mut lines = BufReader::new(shows.stdout.take().context("it prints")?).lines();
    let mut next = || -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&lines.next().context("another line")??)?)
    };
    let window = next()?;
    let code = window["code"].as_str().context("a code")?;
    let at = window["addresses"][0].as_str().context("an address")?;

    let slip = command(typing, &["pair", "12"])?.output()?;
    assert!(String::from_utf8_lossy(&slip.stderr).contains("six digits"), "{slip:?}");

    let words = ["pair", code, "--with", at, "--trust", "trusted", "--json"];
    let paired = told(&command(typing, &words)?.output()?)?;
    assert_eq!((&paired["name"], &paired["trust"]), (&"Study PC".into(), &"trusted".into()));
    let other = next()?;
    assert_eq!((&other["name"], &other["trust"]), (&"Kitchen laptop".into(), &"guest".into()));
    assert!(shows.wait()?.success());

    let lower =
        told(&command(typing, &["devices", "--json", "trust", "study", "guest"])?.output()?)?;
    assert_eq!((&lower["id"], &lower["trust"]), (&paired["id"], &"guest".into()));
    let gone = told(&command(typing, &["devices", "--json", "forget", "study"])?.output()?)?;
    assert_eq!((&gone["id"], &gone["paired"]), (&paired["id"], &false.into()));
    let again = command(typing, &["devices", "--json", "forget", "study"])?.output()?;
    assert_eq!((again.status.code(), again.stdout.len()), (Some(1), 0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_pair_trust_and_forget_by_what_is_printed() -> anyhow::Result<()> {
    let plans = [NodePlan::new("Study PC"), NodePlan::new("Kitchen laptop")];
    let house = Household::strangers(plans).await?;
    let homes: Vec<PathBuf> = [0, 1].map(|index| house.node(index).home().to_owned()).into();
    tokio::task::spawn_blocking(move || pair_trust_and_forget(&homes[0], &homes[1])).await?
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_told_to_leave_has_gone_when_the_command_returns() -> anyhow::Result<()> {
    let mut house = Household::strangers([NodePlan::new("Study PC")]).await?;
    let home = house.node(0).home().to_owned();
    let down = || command(&home, &["down"])?.output().context("`nook down` starts");
    let said = down()?;
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(!house.node(0).client().is_running().await);
    house.node_mut(0).until_it_ended().await?;
    let again = down()?;
    assert_eq!(again.status.code(), Some(3), "no node runs: {again:?}");
    Ok(())
}
