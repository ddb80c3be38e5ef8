//! What was promised and what was found.

use std::collections::BTreeMap;
use std::time::Duration;

use nook_testkit::Footprint;
use nook_tests::report::{line, loud};
use serde::Serialize;

use crate::census::{Census, Taken};
use crate::speed::Speeds;
use crate::talk::{Ending, Kind};

/// Growth of memory that is no leak, in percent.
const GROWTH_MAX: f64 = 5.0;

/// Shortest disturbance after which growth of memory says anything: before, caches still fill.
const GROWTH_SPAN_MIN: Duration = Duration::from_secs(120);

/// Broken promises that are told one by one; the rest is counted.
const BROKEN_TOLD_MAX: usize = 20;

/// Slow replies that are told one by one; the rest is counted, and in the JSON.
const SLOW_TOLD_MAX: usize = 20;

/// One promise and whether it holds.
#[derive(Debug, Serialize)]
struct Row {
    row: String,
    value: f64,
    unit: &'static str,
    target: String,
    /// `None`: told, not judged.
    met: Option<bool>,
}

/// How the household lived, which says what can be judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    /// How long it was disturbed.
    pub(crate) span: Duration,
    /// Whether nodes keep layers and conversations for longer than a census waits.
    pub(crate) keeps: bool,
    /// Whether each slow reply must have been foretold: only where no device hung for a moment.
    pub(crate) foretells: bool,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    rows: Vec<Row>,
    /// How turns ended; those that were cut by their code.
    endings: BTreeMap<String, u32>,
    /// What was done to the nodes.
    faults: BTreeMap<&'static str, u32>,
    broken: Vec<String>,
    /// How fast replies of several devices were.
    speeds: Speeds,
    /// Before, half-way and after.
    censuses: Vec<Census>,
    seconds: f64,
}

impl Report {
    /// Judges what was found.
    pub(crate) fn of(
        early: &[Ending],
        endings: &[Ending],
        faults: BTreeMap<&'static str, u32>,
        censuses: Vec<Census>,
        panics: Vec<String>,
        life: Life,
    ) -> Self {
        let all = || early.iter().chain(endings);
        let mut broken: Vec<String> =
            all().filter(|ending| ending.is_bad()).map(ToString::to_string).collect();
        // Undisturbed, nothing has a reason to be cut.
        let cut_early = early.iter().filter(|ending| matches!(ending.kind, Kind::Cut(_)));
        broken.extend(cut_early.map(|ending| format!("undisturbed, {ending}")));
        let nodes = censuses.iter().flat_map(|census| &census.nodes);
        let unrest: Vec<_> = nodes.flat_map(|node| node.unrest.clone()).collect();
        let counted = |test: fn(&Kind) -> bool| all().filter(|one| test(&one.kind)).count();
        let mut rows = vec![
            Row::none("turns that said something else", counted(|it| matches!(it, Kind::Wrong(_)))),
            Row::none("turns that were stuck", counted(|it| matches!(it, Kind::Stuck(_)))),
            Row::none("streams, tasks, files left over", unrest.len()),
            Row::none("panics", panics.len()),
        ];
        broken.extend(unrest);
        broken.extend(panics);
        // What is kept on purpose still grows.
        rows.extend(memory(&censuses, life.span >= GROWTH_SPAN_MIN && !life.keeps));
        let grown = rows.iter().filter(|row| row.unit == "%" && row.met == Some(false));
        broken.extend(grown.map(|row| format!("{} grew by {:.1} %", row.row, row.value)));
        let told = |row: &str, value: usize| Row::told(row, value);
        rows.extend([
            told("turns", all().count()),
            told("tokens", all().map(|one| one.tokens).sum()),
            told("turns with other devices", all().filter(|one| one.pooled).count()),
            told(
                "turns that went on with the turn before",
                all().filter(|one| one.resumed).count(),
            ),
            told("hand-overs", all().map(|one| one.failovers).sum()),
            told("devices lost", all().map(|one| one.lost).sum()),
        ]);
        let mut kinds = BTreeMap::new();
        for ending in all() {
            *kinds.entry(kind(&ending.kind)).or_default() += 1;
        }
        let is_shared = |one: &Ending| all().any(|other| one.shares_with(other));
        let measured = all().filter_map(|one| Some((one.speed.as_ref()?, is_shared(one))));
        let speeds = Speeds::of(measured);
        if speeds.compared > 0 {
            rows.extend(of_speeds(&speeds, life.foretells));
        }
        let seconds = life.span.as_secs_f64();
        Self { rows, endings: kinds, faults, broken, speeds, censuses, seconds }
    }

    /// Whether nothing that was judged is broken.
    pub(crate) fn is_good(&self) -> bool {
        self.broken.is_empty() && self.rows.iter().all(|row| row.met != Some(false))
    }

    /// Tells everything.
    pub(crate) fn print(&self, as_json: bool, took: Duration) -> anyhow::Result<()> {
        for broken in self.broken.iter().take(BROKEN_TOLD_MAX) {
            loud(&format!("BROKEN: {broken}"));
        }
        if self.broken.len() > BROKEN_TOLD_MAX {
            loud(&format!("and {} more", self.broken.len() - BROKEN_TOLD_MAX));
        }
        if as_json {
            line(&serde_json::to_string_pretty(self)?);
            return Ok(());
        }
        line("| what | found | target | |\n| --- | --- | --- | --- |");
        for Row { row, value, unit, target, met } in &self.rows {
            let verdict = match met {
                Some(true) => "met",
                Some(false) => "BROKEN",
                None => "not judged",
            };
            line(&format!("| {row} | {value:.1} {unit} | {target} | {verdict} |"));
        }
        let list = |counts: Vec<String>| counts.join(", ");
        line(&format!("\nendings: {}", list(pairs(&self.endings))));
        line(&format!("faults: {}", list(pairs(&self.faults))));
        if self.speeds.compared > 0 {
            line(&format!("slow and foretold: {}", list(pairs(&self.speeds.foretold))));
            let unforeseen = &self.speeds.unforeseen;
            for one in unforeseen.iter().take(SLOW_TOLD_MAX) {
                line(&format!("slow and not foretold: {one}"));
            }
            if unforeseen.len() > SLOW_TOLD_MAX {
                line(&format!("and {} more", unforeseen.len() - SLOW_TOLD_MAX));
            }
        }
        line(&format!("disturbed for {:.0} s of {:.0}", self.seconds, took.as_secs_f64()));
        Ok(())
    }
}

impl Row {
    fn none(row: &str, found: usize) -> Self {
        let target = "0".to_owned();
        Self { row: row.to_owned(), value: found as f64, unit: "", target, met: Some(found == 0) }
    }

    fn told(row: &str, found: usize) -> Self {
        let (row, value, target) = (row.to_owned(), found as f64, "-".to_owned());
        Self { row, value, unit: "", target, met: None }
    }

    fn growth(name: &str, pairs: [&Footprint; 2], is_judged: bool) -> Self {
        let [before, after] = pairs.map(|taken| taken.resident_kib as f64);
        let value = (after / before.max(1.0) - 1.0) * 100.0;
        let (row, target) = (format!("{name}: memory"), format!("< {GROWTH_MAX} %"));
        let met = is_judged.then_some(value < GROWTH_MAX);
        Self { row, value, unit: "%", target, met }
    }
}

/// What is told of the speed of replies of several devices.
fn of_speeds(speeds: &Speeds, foretells: bool) -> [Row; 7] {
    let unforeseen = if foretells { Row::none } else { Row::told };
    let median = |row: &str, part: Option<f64>| {
        let value = part.unwrap_or_default() * 100.0;
        Row { value, unit: "%", ..Row::told(row, 0) }
    };
    [
        Row::told("replies of several devices, compared with alone", speeds.compared),
        median("their median speed, of alone", speeds.whole),
        median("the same after the first token", speeds.decode),
        Row::told("slower than 0.9 of alone", speeds.slow),
        Row::told("of those, foretold", speeds.slow - speeds.unforeseen.len()),
        Row::told("of those, not foretold, with a helper that had two askers", speeds.shared),
        unforeseen("of those, not foretold otherwise", speeds.unforeseen.len() - speeds.shared),
    ]
}

/// How the memory of every process that lived through the second half has grown in it. The first
/// half fills what is kept for reuse: caches, buffers as large as the largest batch, the
/// allocator's own.
fn memory(censuses: &[Census], is_judged: bool) -> Vec<Row> {
    let [.., half_way, end] = censuses else { return Vec::new() };
    let mut rows = Vec::new();
    for (before, after) in half_way.nodes.iter().zip(&end.nodes) {
        let processes = |taken: &'_ Taken| [&[taken.process][..], &taken.workers].concat();
        let (before_all, after_all) = (processes(before), processes(after));
        for (at, then) in before_all.iter().enumerate() {
            let what = if at == 0 { "the node" } else { "its worker" };
            let name = format!("{}, {what}", before.name);
            if let Some(now) = after_all.iter().find(|now| now.pid == then.pid) {
                rows.push(Row::growth(&name, [then, now], is_judged));
            }
        }
    }
    rows
}

fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Correct => "correct".to_owned(),
        Kind::Cut(code) => format!("cut ({code})"),
        Kind::Stopped => "stopped by its asker".to_owned(),
        Kind::Wrong(_) => "wrong".to_owned(),
        Kind::Stuck(_) => "stuck".to_owned(),
    }
}

fn pairs(counts: &BTreeMap<impl std::fmt::Display, u32>) -> Vec<String> {
    counts.iter().map(|(name, count)| format!("{count} {name}")).collect()
}
