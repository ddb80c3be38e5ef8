//! Pages of `docs/` that are made from the code: tests, because only they run where the pages lie.
//!
//! Each test makes its page afresh and compares. With `INGLENOOK_UPDATE` set, as `cargo xtask
//! goldens` does, it writes the page instead. `command_line` makes a whole page of the command
//! line's definition. `tables` fills what stands between marks in pages that people write.

mod command_line;
mod tables;

use std::path::{Path, PathBuf};

/// Set by `cargo xtask goldens`: write what came instead of comparing.
const UPDATE: &str = "INGLENOOK_UPDATE";

/// Where a page of `docs/` lies.
fn place(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page)
}

/// Fails where `page` is not `text`; writes it where goldens are rewritten.
#[track_caller]
fn hold(page: &str, text: &str) {
    let place = place(page);
    if nook_base::env::text(UPDATE).is_some() {
        std::fs::write(&place, text).unwrap();
    }
    let kept = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(kept == text, "docs/{page} is not what the code says: run `cargo xtask goldens`");
}

/// A table in Markdown.
fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut table = line(head.iter().map(|&cell| cell.to_owned()).collect());
    table += &line(vec!["---".to_owned(); head.len()]);
    rows.into_iter().for_each(|row| {
        assert_eq!(row.len(), head.len(), "{row:?}");
        table += &line(row.iter().map(|cell| cell.replace('|', "\\|")).collect());
    });
    table
}
