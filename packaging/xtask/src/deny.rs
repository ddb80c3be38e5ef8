//! Licences, bans, sources and advisories of all dependencies, by cargo-deny.
//!
//! Advisories need a database that is fetched from the internet. Where it cannot be had, they are
//! checked against the copy that was fetched last, and the note says of which day that is; where
//! there is no copy either, that one check is skipped aloud.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use crate::places::Places;
use crate::process::Program;
use crate::setup::tools;
use crate::{outside, say};

/// How long the advisory database may take; it is a few megabytes.
const DATABASE_LIMIT: Duration = Duration::from_secs(60);

/// Where cargo-deny keeps its databases below Cargo's home, a folder for each address: its own choice
/// as long as `deny.toml` has no `db-path`.
const DATABASES: &str = "advisory-dbs";

/// Runs every check that can run; the note says which were skipped.
pub(crate) fn check(places: &Places) -> Result<String> {
    let tool = tools::tool(places, &tools::DENY)?;
    // Duplicates only warn, and the toolkit brings dozens; their count is in the closing lines.
    let deny = || Program::new(&tool, &places.root).args(["--log-level", "error", "--workspace"]);
    deny().args(["check", "--show-stats", "bans", "licenses", "sources"]).run()?;
    let is_fetched = deny().args(["fetch", "db"]).within(DATABASE_LIMIT).succeeds();
    let copy = || cargo_home().and_then(|home| day_of_copy(&home.join(DATABASES)));
    let advisories = Advisories::of(is_fetched, copy);
    if advisories != Advisories::Fetched {
        say::loud(&advisories.note());
    }
    if advisories != Advisories::None {
        deny().args(["check", "--disable-fetch", "advisories"]).run()?;
    }
    Ok(advisories.note())
}

/// What advisories are checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Advisories {
    /// The database as it is now.
    Fetched,
    /// What was fetched last, of this day.
    Copy(String),
    /// Nothing: they are not checked.
    None,
}

impl Advisories {
    fn of(is_fetched: bool, copy: impl FnOnce() -> Option<String>) -> Self {
        match is_fetched {
            true => Self::Fetched,
            false => copy().map_or(Self::None, Self::Copy),
        }
    }

    /// One line for the person, and for the list of stages.
    fn note(&self) -> String {
        match self {
            Self::Fetched => "with advisories".to_owned(),
            Self::Copy(day) => format!(
                "with advisories of {day}: the database cannot be fetched from here, that is the last copy"
            ),
            Self::None => {
                "advisories SKIPPED: the advisory database cannot be fetched from here, and no \
                           earlier copy of it is here"
                    .to_owned()
            }
        }
    }
}

/// The day of the newest advisory in the newest of the copies below `folder`, as `2026-11-27`. When
/// a copy was fetched says less: an attempt that failed may count there too.
fn day_of_copy(folder: &Path) -> Option<String> {
    let copies = std::fs::read_dir(folder).ok()?.flatten();
    copies.filter_map(|copy| day_of_head(&copy.path())).max()
}

/// The day of the newest commit of the repository in `folder` itself, not in one around it; `None`
/// where there is none, also because a fetch was ended in the middle.
fn day_of_head(folder: &Path) -> Option<String> {
    // Neither `rev-list` nor a format that is named asks how this person likes their log.
    let said = Program::new("git", folder)
        .args(["--git-dir".as_ref(), folder.join(".git").as_os_str()])
        .args(["rev-list", "--max-count=1", "--format=%cs", "HEAD"])
        .output_quietly()?;
    // Behind a line with the name of the commit.
    said.lines().nth(1).map(str::to_owned)
}

/// Cargo's own folder for this user.
fn cargo_home() -> Option<PathBuf> {
    let named = outside::variable("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A git that knows nobody's configuration, and the day at which it commits.
    fn git(folder: &Path, day: &str) -> Program {
        let nobody = if cfg!(windows) { "NUL" } else { "/dev/null" };
        let date = format!("{day}T12:00:00Z");
        let names = ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"];
        let addresses = ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"];
        let dates = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"];
        let mut git = Program::new("git", folder)
            .env("GIT_CONFIG_GLOBAL", nobody)
            .env("GIT_CONFIG_SYSTEM", nobody)
            .without("GIT_DIR")
            .without("GIT_INDEX_FILE")
            .without("GIT_WORK_TREE");
        for (names, value) in [(names, "nobody"), (addresses, "nobody@localhost"), (dates, &date)] {
            for name in names {
                git = git.env(name, value);
            }
        }
        git
    }

    /// A repository in `folder` with one commit of `day`; without a day, with none.
    fn repository(folder: &Path, day: Option<&str>) {
        std::fs::create_dir_all(folder).unwrap();
        let make = |words: &[&str]| {
            let made = git(folder, day.unwrap_or_default()).args(words).succeeds();
            assert!(made, "git {words:?}");
        };
        make(&["init", "--quiet"]);
        if day.is_some() {
            make(&["commit", "--quiet", "--allow-empty", "--message", "an advisory"]);
        }
    }

    #[test]
    fn the_day_of_a_copy_is_that_of_its_newest_advisory() {
        let home = tempfile::tempdir().unwrap();
        // A home that lies in somebody's repository is no copy.
        repository(home.path(), Some("2026-11-26"));
        let folder = home.path().join(DATABASES);
        assert_eq!(day_of_copy(&folder), None, "there is no folder");
        std::fs::create_dir_all(folder.join("no-repository")).unwrap();
        repository(&folder.join("advisory-db-broken-off"), None);
        std::fs::write(folder.join("db.lock"), "").unwrap();
        assert_eq!(day_of_copy(&folder), None);
        repository(&folder.join("advisory-db-1"), Some("2026-03-04"));
        repository(&folder.join("advisory-db-2"), Some("2025-12-31"));
        assert_eq!(day_of_copy(&folder).as_deref(), Some("2026-03-04"));
    }

    #[test]
    fn without_the_internet_the_copy_counts_with_its_day_and_without_a_copy_that_is_said() {
        let copy = || Some("2026-03-04".to_owned());
        let fetched = Advisories::of(true, || unreachable!("nobody looks for a copy"));
        assert_eq!(fetched.note(), "with advisories");
        let old = Advisories::of(false, copy).note();
        assert!(old.starts_with("with advisories of 2026-03-04: "), "{old}");
        let none = Advisories::of(false, || None);
        assert_eq!(none, Advisories::None);
        assert!(none.note().starts_with("advisories SKIPPED: "), "{}", none.note());
        assert!(none.note().contains("no earlier copy"), "{}", none.note());
        assert!(!none.note().contains('\n') && !old.contains('\n'));
    }
}
