//! The window's pages: install, lint, types, tests, build.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::places::Places;
use crate::process::npm;
use crate::stages::{Outcome, Round};
use crate::{outside, say};

/// The scripts of `ui/package.json` that this stage runs, in order.
const SCRIPTS: [&str; 4] = ["lint", "check", "test", "build"];

/// All looks of all pages, sheets and walks by keys take some minutes, on a busy machine twenty;
/// a run that takes longer than this hangs.
const PAGES_LIMIT: Duration = Duration::from_secs(40 * 60);

/// The stage.
pub(crate) fn stage(round: &Round) -> Result<Outcome> {
    let places = &round.places;
    if !is_there(places) {
        return Ok(Outcome::NotThere { missing: "ui/package.json".to_owned() });
    }
    let package = std::fs::read_to_string(places.ui().join("package.json"))?;
    let missing = missing_scripts(&package)?;
    if !missing.is_empty() {
        bail!("ui/package.json lacks scripts: {}", missing.join(", "));
    }
    install(&places.ui())?;
    for script in SCRIPTS {
        npm(&places.ui()).args(["run", script]).test()?;
    }
    Ok(Outcome::passed())
}

/// The pages in a real browser, against a household that they make up.
pub(crate) fn pages(round: &Round) -> Result<Outcome> {
    let ui = round.places.ui();
    if !ui.join("playwright.config.ts").exists() {
        return Ok(Outcome::NotThere { missing: "ui/playwright.config.ts".to_owned() });
    }
    let Some(browser) = outside::find_browser() else {
        let because = "no Chromium: install chromium or Google Chrome, or name one in CHROMIUM";
        return Ok(Outcome::Skipped { because: because.to_owned() });
    };
    install(&ui)?;
    let pictures = round.places.made("pages")?;
    npm(&ui)
        .args(["run", "pages"])
        .env("CHROMIUM", &browser)
        .env("PICTURES", &pictures)
        .env("PAGES_PORT", free_port()?.to_string())
        .within(PAGES_LIMIT)
        .test()?;
    Ok(Outcome::Passed { note: format!("pictures in {}", pictures.display()) })
}

/// A port that nobody uses now: two runs on one machine must not meet.
fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Whether the pages are in the tree.
pub(crate) fn is_there(places: &Places) -> bool {
    places.ui().join("package.json").exists()
}

/// Builds the pages.
pub(crate) fn build_pages(places: &Places) -> Result<()> {
    install(&places.ui())?;
    npm(&places.ui()).args(["run", "build"]).run()
}

/// Builds the pages if there are none: the tray app does not compile without them.
pub(crate) fn ensure_pages(places: &Places) -> Result<()> {
    if !is_there(places) || places.ui().join("dist/index.html").exists() {
        return Ok(());
    }
    say::line("The pages are not built yet; the tray app does not compile without them.");
    build_pages(places)
}

/// `npm ci` in `folder`, unless the very same lock file is installed already.
pub(crate) fn install(folder: &Path) -> Result<()> {
    let lock = std::fs::read(folder.join("package-lock.json")).with_context(|| {
        format!("{} needs its package-lock.json to install what was tested", folder.display())
    })?;
    let mut hasher = DefaultHasher::new();
    lock.hash(&mut hasher);
    let wanted = format!("{:016x}", hasher.finish());
    let mark = folder.join("node_modules/.inglenook-installed");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    npm(folder).args(["ci", "--no-audit", "--no-fund"]).run()?;
    std::fs::write(&mark, wanted)?;
    Ok(())
}

fn missing_scripts(package: &str) -> Result<Vec<&'static str>> {
    let package: serde_json::Value =
        serde_json::from_str(package).context("ui/package.json is no JSON")?;
    let is_missing = |script: &&str| package["scripts"][*script].as_str().is_none();
    Ok(SCRIPTS.into_iter().filter(is_missing).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_script_is_named() {
        let package = r#"{"scripts": {"lint": "a", "test": "b", "build": "c"}}"#;
        assert_eq!(missing_scripts(package).unwrap(), ["check"]);
    }
}
