//! `cargo xtask hostile`: the table of hostile input and faults, row by row.
//!
//! Runs the tests that are named after rows of `docs/hostile.md` and lists what came of each. It
//! fails when a row has no test or a test failed; on Linux, where every test is built, also when none
//! of a row's tests ran.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use quick_junit::{Report, TestCaseStatus};
use serde::{Deserialize, Serialize};

use crate::places::Places;
use crate::process::Program;
use crate::say;
use crate::stages::{build, rust, ui};
use crate::tidy::hostile::{Named, Row, TABLE, rows, rows_of, tests};
use crate::tidy::tree::Tree;

/// The profile of nextest that writes a report; see `.config/nextest.toml`.
const PROFILE: &str = "hostile";

/// What is run and how it is told.
#[derive(Debug, Args)]
pub(crate) struct HostileOptions {
    /// Only these rows, such as `T10 H9` [default: all]
    #[arg(value_name = "ROW")]
    rows: Vec<String>,
    /// Print a JSON list of rows, tests and results and nothing else; all that happens is told on
    /// standard error
    #[arg(long)]
    json: bool,
    /// Where that list is written
    #[arg(long, value_name = "FILE", hide = true)]
    into: Option<PathBuf>,
}

/// What came of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Came {
    Passed,
    Failed,
    /// This system does not build it.
    NotHere,
}

/// One line of the list.
#[derive(Debug, Serialize)]
struct Line {
    row: String,
    /// Absent where the row has none.
    test: Option<String>,
    result: Came,
    note: String,
}

/// Runs the tests and tells.
pub(crate) fn command(places: &Places, options: &HostileOptions) -> Result<()> {
    if options.json { told_as_json(places, options) } else { run_and_tell(places, options) }
}

/// The same in a process of its own, whose output is nobody's result.
fn told_as_json(places: &Places, options: &HostileOptions) -> Result<()> {
    let list = places.made("hostile")?.join("list.json");
    let _ = fs::remove_file(&list);
    let ended = Program::new(std::env::current_exe()?, &places.root)
        .args(["hostile", "--into"])
        .args([&list])
        .args(&options.rows)
        .aside()
        .ends_well()?;
    // Without a list it has said why.
    if let Ok(list) = fs::read_to_string(&list) {
        say::line(&list);
    }
    if !ended {
        // Standard error has said why; a sentence here would be behind the list.
        std::process::exit(1);
    }
    Ok(())
}

fn run_and_tell(places: &Places, options: &HostileOptions) -> Result<()> {
    let tree = Tree::read(places)?;
    let table = tree.text(TABLE).with_context(|| format!("{TABLE} is not there"))?;
    let mut wanted = rows(table);
    if !options.rows.is_empty() {
        let asked: Vec<Row> = options.rows.iter().flat_map(|name| rows_of(name)).collect();
        let unknown = options.rows.iter().find(|name| rows_of(name).is_empty());
        if let Some(name) = unknown {
            bail!("`{name}` is no row of {TABLE}: write for instance T10");
        }
        wanted.retain(|row, _| asked.contains(row));
        if wanted.is_empty() {
            bail!("{TABLE} has none of these rows");
        }
    }
    let named = tests(&tree);
    let came = run(places, wanted.keys())?;
    let lines: Vec<Line> =
        wanted.iter().flat_map(|(row, what)| lines_of(row, what, &named, &came)).collect();
    tell(&lines);
    if let Some(into) = &options.into {
        fs::write(into, serde_json::to_string_pretty(&lines)?)?;
    }
    let has = |row: &Row, came: Came| {
        let mut of = lines.iter().filter(|line| line.row == row.to_string());
        of.any(|line| line.result == came)
    };
    let not_here: Vec<String> =
        wanted.keys().filter(|row| !has(row, Came::Passed)).map(Row::to_string).collect();
    let failed = lines.iter().filter(|line| line.result == Came::Failed).count();
    let summary = format!(
        "{} rows, {} tests, {failed} failed; rows of which nothing ran: {}",
        wanted.len(),
        lines.len(),
        if not_here.is_empty() { "none".to_owned() } else { not_here.join(", ") }
    );
    if failed > 0 || (cfg!(target_os = "linux") && !not_here.is_empty()) {
        bail!("{summary}");
    }
    say::loud(&summary);
    Ok(())
}

/// Runs the tests of these rows; what came of each, by the end of its name.
fn run<'a>(
    places: &Places,
    rows: impl Iterator<Item = &'a Row> + Clone,
) -> Result<BTreeMap<String, Came>> {
    let mut came = BTreeMap::new();
    rust_tests(places, rows.clone(), &mut came)?;
    page_tests(places, rows, &mut came)?;
    Ok(came)
}

fn rust_tests<'a>(
    places: &Places,
    rows: impl Iterator<Item = &'a Row>,
    came: &mut BTreeMap<String, Came>,
) -> Result<()> {
    ui::ensure_pages(places)?;
    let built = build::build(places)?;
    let names: Vec<String> = rows.map(|row| row.to_string().to_ascii_lowercase()).collect();
    let which = format!("test(/(^|::)([a-z][0-9]+_)*({})_/)", names.join("|"));
    // Its store lies in the workspace, wherever Cargo builds.
    let report = places.root.join("target/nextest").join(PROFILE).join("junit.xml");
    let _ = fs::remove_file(&report);
    let mut tests = rust::nextest(places)?
        .args(build::EVERYTHING)
        .args(build::features(places)?)
        .args(["--profile", PROFILE, "-E", &which]);
    for (variable, name) in [("NOOK_BIN", "nook"), ("INGLENOOK_BIN", "inglenook")] {
        if let Some(path) = built.program(name) {
            tests = tests.env(variable, path);
        }
    }
    // What failed stands in the report.
    let ended = tests.test();
    let Ok(text) = fs::read_to_string(&report) else {
        ended?;
        bail!("the tests left no report in {}", report.display());
    };
    for suite in Report::deserialize_from_str(&text)?.test_suites {
        for case in suite.test_cases {
            let passed = matches!(case.status, TestCaseStatus::Success { .. });
            let name = case.name.as_str();
            let name = name.rsplit("::").next().unwrap_or(name).to_owned();
            note(came, name, if passed { Came::Passed } else { Came::Failed });
        }
    }
    Ok(())
}

/// What Vitest writes, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageReport {
    test_results: Vec<PageFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageFile {
    assertion_results: Vec<PageTest>,
}

#[derive(Deserialize)]
struct PageTest {
    title: String,
    status: String,
}

fn page_tests<'a>(
    places: &Places,
    rows: impl Iterator<Item = &'a Row>,
    came: &mut BTreeMap<String, Came>,
) -> Result<()> {
    let names: Vec<String> = rows.map(Row::to_string).collect();
    let which = format!("(^|\\s)({}): ", names.join("|"));
    let report = places.made("hostile")?.join("pages.json");
    let _ = fs::remove_file(&report);
    let out = format!("--outputFile={}", report.display());
    let ended = Program::new("npx", &places.ui())
        .args(["vitest", "run", "-t", &which, "--reporter=json", &out])
        .test();
    let Ok(text) = fs::read_to_string(&report) else {
        ended?;
        bail!("the tests of the pages left no report in {}", report.display());
    };
    let report: PageReport = serde_json::from_str(&text)?;
    for test in report.test_results.into_iter().flat_map(|file| file.assertion_results) {
        let came_of = match test.status.as_str() {
            "passed" => Came::Passed,
            "failed" => Came::Failed,
            _ => continue,
        };
        note(came, test.title, came_of);
    }
    Ok(())
}

/// Of two tests of one name, the one that failed counts.
fn note(came: &mut BTreeMap<String, Came>, name: String, of: Came) {
    let known = came.entry(name).or_insert(of);
    if of == Came::Failed {
        *known = of;
    }
}

/// The lines of one row.
fn lines_of(
    row: &Row,
    what: &str,
    named: &BTreeMap<Row, Vec<Named>>,
    came: &BTreeMap<String, Came>,
) -> Vec<Line> {
    let Some(tests) = named.get(row) else {
        let note = format!("no test is named after it: {what}");
        return vec![Line { row: row.to_string(), test: None, result: Came::Failed, note }];
    };
    let line = |test: &Named| {
        let result = came_of(came, &test.name);
        let note = match result {
            Came::NotHere => format!("{}: not built on {}", test.path, std::env::consts::OS),
            Came::Passed | Came::Failed => test.path.clone(),
        };
        Line { row: row.to_string(), test: Some(test.name.clone()), result, note }
    };
    tests.iter().map(line).collect()
}

/// The title of a test that is run for several cases has `%s` in it.
fn came_of(came: &BTreeMap<String, Came>, name: &str) -> Came {
    let (begin, end) = name.split_once("%s").unwrap_or((name, ""));
    let is_it = |told: &str| match name.contains("%s") {
        true => told.starts_with(begin) && told.ends_with(end),
        false => told == name,
    };
    let of: Vec<Came> =
        came.iter().filter(|(told, _)| is_it(told)).map(|(_, came)| *came).collect();
    match of.as_slice() {
        [] => Came::NotHere,
        of if of.contains(&Came::Failed) => Came::Failed,
        _ => Came::Passed,
    }
}

fn tell(lines: &[Line]) {
    for line in lines {
        let result = match line.result {
            Came::Passed => "passed",
            Came::Failed => "FAILED",
            Came::NotHere => "not here",
        };
        let test = line.test.as_deref().unwrap_or("-");
        say::line(&format!("{:<4} {result:<8} {test} ({})", line.row, line.note));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_failed_fails_its_test_and_one_that_did_not_run_is_not_here() {
        let mut came = BTreeMap::new();
        note(&mut came, "R4: shows lists, and what stands around".to_owned(), Came::Passed);
        note(&mut came, "t6_replays".to_owned(), Came::Passed);
        let title = "R4: shows %s, and what stands around";
        assert_eq!(came_of(&came, title), Came::Passed);
        note(&mut came, "R4: shows tables, and what stands around".to_owned(), Came::Failed);
        assert_eq!(came_of(&came, title), Came::Failed);
        assert_eq!(came_of(&came, "t6_replays"), Came::Passed);
        note(&mut came, "t6_replays".to_owned(), Came::Failed);
        assert_eq!(came_of(&came, "t6_replays"), Came::Failed);
        assert_eq!(came_of(&came, "t6_replays_on_windows"), Came::NotHere);
    }

    #[test]
    fn a_row_without_a_test_is_a_failure() {
        let row = rows_of("t6_x").into_iter().next().unwrap();
        let lines = lines_of(&row, "Replays", &BTreeMap::new(), &BTreeMap::new());
        assert_eq!((lines.len(), lines[0].result), (1, Came::Failed));
    }
}
