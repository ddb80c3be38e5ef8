//! What the owner of a node types at a terminal, run for real: the commands of `nook`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use serde_json::Value;

use crate::program::nook;

/// `nook WORDS` for the node at `home`, not started yet. Nobody sits at that terminal, so nothing
/// is asked there.
pub fn command(home: &Path, words: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(nook()?);
    command.arg("--home").arg(home).args(words).env_remove("INGLENOOK_HOME");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Runs `nook WORDS` for the node at `home`; what it printed. Fails where the command did, with
/// what it said.
pub async fn run(home: &Path, words: &[&str]) -> anyhow::Result<String> {
    let mut command = command(home, words)?;
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    anyhow::ensure!(
        output.status.success(),
        "nook {}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Pairs the nodes at both homes: `nook pair` on the one, `nook pair CODE --with ADDRESS` on the
/// other. Nobody answers the question that follows. What the second command said, and how the first
/// one lists the other device; blocks.
pub fn pair(showing: &Path, typing: &Path) -> anyhow::Result<(String, Value)> {
    pair_and(showing, typing, &[])
}

/// The same, with more words behind both commands, such as `--trust trusted`.
pub fn pair_and(showing: &Path, typing: &Path, more: &[&str]) -> anyhow::Result<(String, Value)> {
    let mut shows = command(showing, &[&["pair", "--json"], more].concat())?.spawn()?;
    let mut lines = BufReader::new(shows.stdout.take().context("it prints")?).lines();
    let window: Value = serde_json::from_str(&lines.next().context("the code")??)?;
    let code = window["code"].as_str().context("a code")?;
    let at = window["addresses"][0].as_str().context("an address")?;
    let typed = command(typing, &[&["pair", code, "--with", at], more].concat())?.output()?;
    let said = String::from_utf8(typed.stdout)?;
    anyhow::ensure!(typed.status.success(), "{said}{}", String::from_utf8_lossy(&typed.stderr));
    let other: Value = serde_json::from_str(&lines.next().context("the device")??)?;
    anyhow::ensure!(shows.wait()?.success());
    Ok((said, other))
}
