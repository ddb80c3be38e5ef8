//! Every row of the table of hostile input has a test that is named after it, and every such name
//! has its row.
//!
//! The table is `docs/hostile.md`. A Rust test names its rows at the beginning (`t6_t8_frames_…`), a
//! test of the window's pages too (`R4: shows …`). Rows of [`LETTERS`] only: other prefixes
//! (`i9_…`, an invariant) mean something else.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::Finding;
use crate::tidy::tree::Tree;

const RULE: &str = "hostile";

/// The table.
pub(crate) const TABLE: &str = "docs/hostile.md";

/// First letters of rows: pairing, transport, discovery, port (HTTP), models, faults, requests,
/// updates.
const LETTERS: [char; 8] = ['P', 'T', 'D', 'H', 'M', 'F', 'R', 'U'];

/// A row's name: `T10`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    letter: char,
    number: u32,
}

/// A test that is named after rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named {
    /// Its file, from the top of the repository.
    pub(crate) path: String,
    /// The function of a Rust test; the title of one of the pages.
    pub(crate) name: String,
    line: usize,
}

impl Row {
    /// `T10` or `t10`.
    fn parse(word: &str) -> Option<Self> {
        let mut letters = word.chars();
        let letter = letters.next()?.to_ascii_uppercase();
        let number = letters.as_str();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let is_row = is_number && LETTERS.contains(&letter);
        is_row.then(|| number.parse().ok()).flatten().map(|number| Self { letter, number })
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.letter, self.number)
    }
}

/// The rows of the table, with what happens.
pub(crate) fn rows(table: &str) -> BTreeMap<Row, String> {
    let of = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        Some((Row::parse(cells.next()?)?, cells.next()?.to_owned()))
    };
    table.lines().filter_map(of).collect()
}

/// The tests that are named after rows.
pub(crate) fn tests(tree: &Tree) -> BTreeMap<Row, Vec<Named>> {
    let mut tests: BTreeMap<Row, Vec<Named>> = BTreeMap::new();
    for file in &tree.files {
        let is_rust = file.path.ends_with(".rs") && !file.path.starts_with("packaging/");
        let is_page_test = file.path.ends_with(".test.ts") || file.path.ends_with(".spec.ts");
        let mut is_marked = false;
        for (at, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            let name = match line {
                _ if is_rust => {
                    is_marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                    function(line).filter(|_| std::mem::take(&mut is_marked))
                }
                _ if is_page_test => title(line),
                _ => None,
            };
            let Some(name) = name else { continue };
            for row in rows_of(name) {
                let named = Named { path: file.path.clone(), name: name.to_owned(), line: at + 1 };
                tests.entry(row).or_default().push(named);
            }
        }
    }
    tests
}

/// Rows that a name begins with: `t6_t8_frames` has two.
pub(crate) fn rows_of(name: &str) -> BTreeSet<Row> {
    match name.split_once(": ") {
        Some((rows, _)) => rows.split(' ').map_while(Row::parse).collect(),
        None => name.split('_').map_while(Row::parse).collect(),
    }
}

fn function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

/// The title of a test of the pages, where one stands on this line.
fn title(line: &str) -> Option<&str> {
    let is_test = ["it", "test", "])("].iter().any(|begin| line.starts_with(begin));
    let (_, rest) = line.split_once("('").filter(|_| is_test)?;
    rest.split('\'').next()
}

/// Rows without a test, and tests without a row.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(table) = tree.text(TABLE) else { return Vec::new() };
    let (rows, tests) = (rows(table), tests(tree));
    let missing = rows.keys().filter(|row| !tests.contains_key(*row)).map(|row| {
        let begin = row.to_string().to_ascii_lowercase();
        Finding::new(RULE, TABLE, 0, format!("row {row} has no test: name one `{begin}_…`"))
    });
    let unknown = tests.iter().filter(|(row, _)| !rows.contains_key(*row));
    let unknown = unknown.flat_map(|(row, named)| {
        named.iter().map(move |test| {
            let sentence = format!("the test says row {row}, which `{TABLE}` does not have");
            Finding::new(RULE, &test.path, test.line, sentence)
        })
    });
    missing.chain(unknown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(Finding::to_string).collect()
    }

    const ROWS: &str = "| row | what happens |\n| --- | --- |\n| T6 | Replays | refused |\n";

    #[test]
    fn a_row_needs_a_test_and_a_test_a_row() {
        let missing = found(&[(TABLE, ROWS)]);
        assert_eq!(missing, ["docs/hostile.md:0: row T6 has no test: name one `t6_…` [hostile]"]);
        let rust = "#[test]\nfn t6_t8_frames() {}\nfn t9_helper() {}\n";
        let unknown = found(&[(TABLE, ROWS), ("crates/a/tests/it.rs", rust)]);
        assert_eq!(unknown.len(), 1, "{unknown:?}");
        assert!(unknown[0].contains("it.rs:2: the test says row T8"), "{unknown:?}");
    }

    #[test]
    fn tests_of_the_pages_name_rows_in_their_titles() {
        let pages = "it('T6: goes on', () => {});\n  ])('T6: each %s', () => {});\n";
        assert_eq!(found(&[(TABLE, ROWS), ("ui/src/a.test.ts", pages)]), [""; 0]);
        assert_eq!(tests(&Tree::of(&[("ui/src/a.test.ts", pages)])).values().flatten().count(), 2);
    }

    #[test]
    fn a_name_is_read_as_far_as_it_names_rows() {
        let words =
            |name: &str| rows_of(name).iter().map(Row::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(words("t6_t8_frames_of_f1"), "T6 T8");
        assert_eq!(words("h4_and_t1_slow"), "H4");
        assert_eq!(words("i9_is_an_invariant"), "");
        assert_eq!(words("R4: goes on: always"), "R4");
    }
}
