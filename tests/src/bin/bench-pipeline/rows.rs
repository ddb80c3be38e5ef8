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
}

impl Row {
    /// A figure without a target.
    pub(crate) fn plain(row: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { row: row.into(), value, unit, target: None, met: None }
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
}

/// A table in Markdown, which reads well in a terminal too.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut lines = vec!["| what | value | target | |".to_owned()];
    lines.push("| --- | --- | --- | --- |".to_owned());
    for Row { row, value, unit, target, met } in rows {
        let target = target.map_or_else(|| "-".to_owned(), |target| format!("≥ {target}"));
        let met = match met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        lines.push(format!("| {row} | {value:.2} {unit} | {target} | {met} |"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_whether_its_target_was_met() {
        let rows = [
            Row::at_least("four against one", 2.5, "x", 2.5),
            Row::at_least("four against one", 2.49, "x", 2.5),
            Row::plain("one", 10.0, "tokens/s"),
        ];
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| four against one | 2.50 x | ≥ 2.5 | met |",
                "| four against one | 2.49 x | ≥ 2.5 | MISSED |",
                "| one | 10.00 tokens/s | - |  |",
            ]
        );
    }
}
