//! What was found, as tables or JSON. The only module that prints.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a simulator prints what it found")]

use serde::Serialize;

/// One promise and whether it holds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) row: &'static str,
    /// Households that were looked at.
    pub(crate) cases: u64,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) target: String,
    /// `None`: not judged, for want of cases or of optimisation.
    pub(crate) met: Option<bool>,
    /// The households that broke it, with what they broke.
    pub(crate) broken: Vec<String>,
}

/// What plans look like in households of one size.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Crowd {
    pub(crate) devices: usize,
    pub(crate) households: u64,
    pub(crate) alone_possible: u64,
    /// Of those: it would gain a tenth if others read the prompt alone, which is not built.
    pub(crate) prompts_only: u64,
    pub(crate) pooled: u64,
    /// Of those pooled: everything on one device of the same person.
    pub(crate) whole: u64,
    pub(crate) impossible: u64,
    /// Of those pooled although alone is possible: how many times faster, in the middle case.
    pub(crate) gain_median: f64,
    pub(crate) hops_mean: f64,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    pub(crate) crowds: Vec<Crowd>,
    pub(crate) broken: Vec<String>,
}

/// Broken promises that are told one by one; the rest is counted.
const BROKEN_TOLD_MAX: usize = 10;

impl Report {
    /// With the broken promises of all rows in one list.
    pub(crate) fn gathered(mut self) -> Self {
        self.broken = self.rows.iter().flat_map(|row| row.broken.iter().cloned()).collect();
        self
    }

    /// Whether nothing that was judged is broken.
    pub(crate) fn is_good(&self) -> bool {
        self.rows.iter().all(|row| row.met != Some(false))
    }

    /// Tells everything.
    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            match serde_json::to_string_pretty(self) {
                Ok(text) => println!("{text}"),
                Err(error) => eprintln!("simulate: cannot write JSON: {error}"),
            }
            return;
        }
        println!(
            "| devices | households | alone possible | prompts alone would gain | pooled | of these whole | nothing possible | gain, median | hops |"
        );
        println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
        for crowd in &self.crowds {
            println!(
                "| {} | {} | {} | {} | {} | {} | {} | {:.2}× | {:.1} |",
                crowd.devices,
                crowd.households,
                crowd.alone_possible,
                crowd.prompts_only,
                crowd.pooled,
                crowd.whole,
                crowd.impossible,
                crowd.gain_median,
                crowd.hops_mean
            );
        }
        println!("\n| promise | cases | found | target | |\n| --- | --- | --- | --- | --- |");
        for row in &self.rows {
            let verdict = match row.met {
                Some(true) => "met",
                Some(false) => "BROKEN",
                None => "not judged",
            };
            let Row { row, cases, value, unit, target, .. } = row;
            println!("| {row} | {cases} | {value:.4} {unit} | {target} | {verdict} |");
        }
        for broken in self.broken.iter().take(BROKEN_TOLD_MAX) {
            eprintln!("simulate: {broken}");
        }
        if self.broken.len() > BROKEN_TOLD_MAX {
            eprintln!("simulate: and {} more", self.broken.len() - BROKEN_TOLD_MAX);
        }
    }
}
