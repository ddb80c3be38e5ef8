//! The figures of one run, as tables and as JSON.

use std::fmt::Write as _;
use std::path::Path;

use nook_tests::figures::Spread;
use nook_tests::machine::{self, Machine, Run, load};
use nook_tests::report;
pub(crate) use nook_tests::report::{line, loud};
use serde::Serialize;

use crate::Arguments;
use crate::llama::LlamaBench;
use crate::rows::{Part, Row};

/// Options whose values are folders of this machine.
const HIDDEN: &[(&str, &str)] =
    &[("--llama-bench", "PATH"), ("--models", "FOLDER"), ("--keep", "FOLDER")];

/// How fast memory is read.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Bandwidth {
    pub(crate) threads: usize,
    pub(crate) bytes_per_second: f64,
}

/// Everything that one run found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    bench: &'static str,
    machine: Machine,
    run: Run,
    /// The build that was compared with; `None` when there was none.
    llama_cpp: Option<String>,
    pub(crate) bandwidth: Vec<Bandwidth>,
    pub(crate) rows: Vec<Row>,
}

impl Report {
    /// Nothing measured yet.
    pub(crate) fn begin(arguments: &Arguments) -> Self {
        let command = machine::command("engine", HIDDEN);
        let quick = arguments.quick || arguments.tiny;
        Self {
            bench: "engine",
            machine: Machine::this(arguments.machine.clone()),
            run: Run::begins(command, quick, arguments.note.clone()),
            llama_cpp: None,
            bandwidth: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Nothing follows.
    pub(crate) fn finish(&mut self, llama: Option<&LlamaBench>) {
        self.run.load_after = load();
        self.llama_cpp = llama.and_then(LlamaBench::version).map(str::to_owned);
    }

    /// Writes `engine-<date>.md` and `engine-<date>.json`.
    pub(crate) fn save(&self, folder: &Path) -> anyhow::Result<()> {
        report::save(folder, "engine", &self.run, ("The engine, measured", &self.tables()), self)
    }

    /// A table in Markdown, which reads well in a terminal too.
    pub(crate) fn tables(&self) -> String {
        let mut text = self.head();
        text.push_str(
            "\n\nMedian (least to most) of the rounds; ratios are those of samples of one round.\n\n\
             | what | file | threads | ours | against | ratio | target | | of plain reading | note |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        );
        for row in &self.rows {
            let _ = write!(text, "\n{}", in_cells(row));
        }
        text
    }

    fn head(&self) -> String {
        let llama = self.llama_cpp.as_deref().unwrap_or("none was given");
        let mut more = vec![format!("- llama.cpp: {llama}")];
        for Bandwidth { threads, bytes_per_second } in &self.bandwidth {
            let gigabytes = bytes_per_second / 1e9;
            more.push(format!("- memory, plainly read by {threads} threads: {gigabytes:.1} GB/s"));
        }
        report::head(&self.machine, &self.run, &more)
    }
}

fn in_cells(row: &Row) -> String {
    let nothing = || "-".to_owned();
    let against = row.against.iter().map(|a| format!("{} {}", a.what, in_words(&a.figures)));
    let against: Vec<String> = against.collect();
    let cells = [
        what(row.part).to_owned(),
        row.file.to_owned(),
        if row.threads == 0 { nothing() } else { row.threads.to_string() },
        row.ours.map_or_else(nothing, |ours| format!("{} {}", in_words(&ours), row.unit)),
        if against.is_empty() { nothing() } else { against.join("; ") },
        row.ratio.map_or_else(nothing, |ratio| in_words(&ratio)),
        row.target.to_string(),
        row.verdict.to_string(),
        row.of_bandwidth.map_or_else(nothing, |share| format!("{:.0} %", share * 100.0)),
        row.note.clone().unwrap_or_default().replace(['|', '\n'], "/"),
    ];
    format!("| {} |", cells.join(" | "))
}

fn what(part: Part) -> &'static str {
    match part {
        Part::Decode => "decode",
        Part::Prefill => "prefill",
        Part::Streams => "streams together",
        Part::Depth => "decode at many positions",
        Part::Memory => "memory in use",
        Part::Load => "load to first token",
        Part::Busy => "decode, busy machine",
    }
}

fn in_words(spread: &Spread) -> String {
    let Spread { n, min, median, max, .. } = *spread;
    match n {
        1 => number(median),
        _ => format!("{} ({} to {})", number(median), number(min), number(max)),
    }
}

/// Three digits or so.
fn number(value: f64) -> String {
    match value.abs() {
        hundreds if hundreds >= 99.95 => format!("{value:.0}"),
        tens if tens >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_everything_in_one_line() {
        let others: [(_, &[f64]); 2] =
            [("llama.cpp", &[100.0, 110.0]), ("without repacking", &[150.0, 150.0])];
        let row = Row::compared(Part::Prefill, "shape", 2, &[300.0, 315.0], &others);
        assert_eq!(
            in_cells(&row),
            "| prefill | shape | 2 | 300 (300 to 315) tokens/s | llama.cpp 100 (100 to 110); without \
             repacking 150 (150 to 150) | 2.00 (2.00 to 2.10) | ≥ 1.20 | met | - |  |"
        );
    }

    #[test]
    fn a_row_without_figures_says_why() {
        let row = Row::open(Part::Decode, "shape", 0, "a | b\nc".to_owned());
        let expected = "| decode | shape | - | - | - | - | ≥ 1.25 | open | - | a / b/c |";
        assert_eq!(in_cells(&row), expected);
    }

    #[test]
    fn a_ratio_below_its_target_is_shown_as_missed() {
        let mut row = Row::compared(Part::Decode, "shape", 1, &[9.5], &[("llama.cpp", &[10.0])]);
        row.of_bandwidth = Some(0.314);
        assert_eq!(
            in_cells(&row),
            "| decode | shape | 1 | 9.50 tokens/s | llama.cpp 10.0 | 0.95 | ≥ 1.25 | MISSED | 31 % |  |"
        );
    }

    #[test]
    fn numbers_keep_three_digits_or_so() {
        let numbers = [0.954, 9.99, 9.999, 38.26, 99.96, 209.5].map(number);
        assert_eq!(numbers, ["0.95", "9.99", "10.0", "38.3", "100", "210"]);
    }
}
