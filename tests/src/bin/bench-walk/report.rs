//! The figures of one run, as tables and as JSON.

use std::fmt::Write as _;
use std::path::Path;

use nook_tests::figures::Spread;
use nook_tests::machine::{self, Machine, Run, load};
use nook_tests::report;
use nook_tests::walk::hop::{HopRow, PathKind};
use nook_tests::walk::kill::KillRow;
use nook_tests::walk::split::SplitRow;
use serde::Serialize;

use crate::Arguments;
pub(crate) use nook_tests::report::{line, loud};

/// What the product aims at; see the design. First aims are those of its first step.
const AIMS: &[(&str, &str, &str)] = &[
    ("overhead per hop, p95", "2 ms", "0.5 ms"),
    ("split / undivided", "0.85", "0.97 (1B shape, one-thread workers)"),
    ("SIGKILL to next token, p95", "3 s", "300 ms and the replay's computing (1B shape)"),
];

/// Everything that one run found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    bench: &'static str,
    machine: Machine,
    run: Run,
    pub(crate) hops: Vec<HopRow>,
    pub(crate) splits: Vec<SplitRow>,
    pub(crate) kills: Vec<KillRow>,
}

impl Report {
    /// Nothing measured yet.
    pub(crate) fn begin(arguments: &Arguments) -> Self {
        Self {
            bench: "walk",
            machine: Machine::this(arguments.machine.clone()),
            run: Run::begins(
                machine::command("walk", &[("--save", "FOLDER")]),
                arguments.quick,
                arguments.note.clone(),
            ),
            hops: Vec::new(),
            splits: Vec::new(),
            kills: Vec::new(),
        }
    }

    /// Nothing follows.
    pub(crate) fn finish(&mut self) {
        self.run.load_after = load();
    }

    /// Writes `walk-<date>.md` and `walk-<date>.json`.
    pub(crate) fn save(&self, folder: &Path) -> anyhow::Result<()> {
        report::save(folder, "walk", &self.run, ("The walk, measured", &self.tables()), self)
    }

    /// Tables in Markdown, which reads well in a terminal too.
    pub(crate) fn tables(&self) -> String {
        let mut text = report::head(&self.machine, &self.run, &[]);
        for part in [self.hop_table(), self.split_table(), self.kill_table()] {
            if !part.is_empty() {
                let _ = write!(text, "\n\n{part}");
            }
        }
        text.push_str("\n\n| aim | first | final |\n| --- | --- | --- |");
        for (what, first, last) in AIMS {
            let _ = write!(text, "\n| {what} | {first} | {last} |");
        }
        text
    }

    fn hop_table(&self) -> String {
        let mut text = "## Overhead per hop on loopback, computing excluded (µs)\n\n\
            One decode step: what the requester sees, less the computing (and the waiting for the \
            computing thread, unless the line says *and wake-up*) that the host reports.\n\n\
            | path | width | dtype | n | best | median | p95 | p99 | computing, median |\n\
            | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
            .to_owned();
        for row in &self.hops {
            let mut told = |suffix: &str, spread: Spread| {
                let path = format!("{}{suffix}", in_words(row.path));
                let (hidden, dtype, n) = (row.hidden, row.dtype, spread.n);
                let computing = row.taken.compute_us.median;
                let Spread { min, median, p95, p99, .. } = spread;
                let _ = write!(
                    text,
                    "\n| {path} | {hidden} | {dtype} | {n} | {min:.0} | {median:.0} | {p95:.0} | \
                     {p99:.0} | {computing:.0} |"
                );
            };
            told("", row.taken.overhead_us);
            if matches!(row.path, PathKind::Whole | PathKind::Worker) {
                told(", and wake-up", row.taken.overhead_and_queue_us);
            }
        }
        if self.hops.is_empty() { String::new() } else { text }
    }

    fn split_table(&self) -> String {
        let mut text = "## Split against undivided, decode tokens per second\n\n\
            Arms in turn on the same nodes; ratio: median over the rounds.\n\n\
            | what | rounds × tokens | undivided, median (best) | split, median (best) | ratio | \
            ratio of the best |\n| --- | --- | --- | --- | --- | --- |"
            .to_owned();
        for row in &self.splits {
            let speed = |spread: Spread| format!("{:.1} ({:.1})", spread.median, spread.max);
            let _ = write!(
                text,
                "\n| {} | {} × {} | {} | {} | {:.3} | {:.3} |",
                row.what,
                row.rounds,
                row.tokens,
                speed(row.undivided_tokens_per_second),
                speed(row.split_tokens_per_second),
                row.ratio,
                row.ratio_of_best
            );
        }
        if self.splits.is_empty() { String::new() } else { text }
    }

    fn kill_table(&self) -> String {
        let mut text = "## SIGKILL of the helper in use to the next token (ms)\n\n\
            Median / p95 / max. Whoever takes over holds the layers, except in the round told apart.\
            \n\n| what | rounds | history | to the next token | reported pause | cold round |\n\
            | --- | --- | --- | --- | --- | --- |"
            .to_owned();
        for row in &self.kills {
            let told = |spread: Spread| match spread.n {
                0 => "none".to_owned(),
                _ => format!("{:.1} / {:.1} / {:.1}", spread.median, spread.p95, spread.max),
            };
            let _ = write!(
                text,
                "\n| {} | {} | {:.0} | {} | {} | {:.1} |",
                row.what,
                row.rounds,
                row.history_tokens.median,
                told(row.to_next_token_ms),
                told(row.reported_pause_ms),
                row.cold_to_next_token_ms
            );
        }
        if self.kills.is_empty() { String::new() } else { text }
    }
}

fn in_words(path: PathKind) -> &'static str {
    match path {
        PathKind::Whole => "whole: link, node, worker",
        PathKind::Worker => "worker socket alone",
        PathKind::Link => "link alone (TLS, WebSocket, mux)",
        PathKind::Tcp => "plain TCP, two threads",
    }
}
