//! What is told: one figure a row, with what it should be.

use serde::Serialize;

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) row: String,
    /// How much.
    pub(crate) value: f64,
    /// Of what.
    pub(crate) unit: &'static str,
    /// What it should reach; `None` for a figure that only explains.
    pub(crate) target: Option<f64>,
    /// Whether it does.
    pub(crate) met: Option<bool>,
    /// Which side of the target is the good one; the row says it in words.
    #[serde(skip)]
    side: Side,
}

/// Where a figure should lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

impl Row {
    /// A figure without a target.
    pub(crate) fn plain(row: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { row: row.into(), value, unit, target: None, met: None, side: Side::Above }
    }

    /// A figure that should be at least `target`.
    pub(crate) fn at_least(
        row: impl Into<String>,
        value: f64,
        unit: &'static str,
        target: f64,
    ) -> Self {
        let met = Some(value >= target);
        Self { target: Some(target), met, ..Self::plain(row, value, unit) }
    }

    /// A figure that should be at most `target`.
    pub(crate) fn at_most(
        row: impl Into<String>,
        value: f64,
        unit: &'static str,
        target: f64,
    ) -> Self {
        let met = Some(value <= target);
        Self { target: Some(target), met, side: Side::Below, ..Self::plain(row, value, unit) }
    }
}

/// A table in Markdown, which reads well in a terminal too.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut lines = vec!["| what | value | target | |".to_owned()];
    lines.push("| --- | --- | --- | --- |".to_owned());
    for Row { row, value, unit, target, met, side } in rows {
        let sign = match side {
            Side::Above => "≥",
            Side::Below => "≤",
        };
        let target = target.map_or_else(|| "-".to_owned(), |target| format!("{sign} {target}"));
        let met = match met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        lines.push(format!("| {row} | {} {unit} | {target} | {met} |", readable(*value)));
    }
    lines.join("\n")
}

/// Two places, or as many as a small figure needs.
fn readable(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.1 { format!("{value:.5}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_row_says_whether_its_target_was_met() {
        let rows = [
            Row::at_least("four against one", 2.5, "x", 2.5),
            Row::at_least("four against one", 2.49, "x", 2.5),
            Row::at_most("overhead", 0.5, "ms", 0.5),
            Row::at_most("overhead", 0.51, "ms", 0.5),
            Row::plain("one", 10.0, "tokens/s"),
            Row::plain("apart", 0.000_52, "of the spread"),
        ];
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| four against one | 2.50 x | ≥ 2.5 | met |",
                "| four against one | 2.49 x | ≥ 2.5 | MISSED |",
                "| overhead | 0.50 ms | ≤ 0.5 | met |",
                "| overhead | 0.51 ms | ≤ 0.5 | MISSED |",
                "| one | 10.00 tokens/s | - |  |",
                "| apart | 0.00052 of the spread | - |  |",
            ]
        );
        let json = serde_json::to_value(&rows[0]).unwrap();
        // In whatever order: a feature of serde_json that other crates may switch on decides that.
        let keys: BTreeSet<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["met", "row", "target", "unit", "value"].into());
    }
}
