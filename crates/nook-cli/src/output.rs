//! The only place of this program that prints.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the output module")]

use std::io::{IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// Whether standard output stands in the middle of a line. A process has one standard output, so
/// this is as global as that is; [`problem`] ends such a line before it says what went wrong.
static IN_A_LINE: AtomicBool = AtomicBool::new(false);

/// A line for the person or the next program.
pub(crate) fn line(text: impl AsRef<str>) {
    let mut out = std::io::stdout().lock();
    // A closed pipe (`nook … | head`) is the reader's choice; there is nobody left to tell.
    let _ = writeln!(out, "{}", text.as_ref());
    IN_A_LINE.store(false, Ordering::Relaxed);
}

/// A piece of a line, at once on the screen.
pub(crate) fn piece(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
    if !text.is_empty() {
        IN_A_LINE.store(!text.ends_with('\n'), Ordering::Relaxed);
    }
}

/// One JSON value.
pub(crate) fn json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => line(text),
        Err(error) => eprintln!("error: cannot write JSON: {error}"),
    }
}

/// One JSON value on one line: for programs that read along.
pub(crate) fn json_line(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(text),
        Err(error) => eprintln!("error: cannot write JSON: {error}"),
    }
}

/// Text from a file, without anything that could steer the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_debug().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}

/// A bar of bytes on the terminal; none where standard error is no terminal.
pub(crate) fn bar() -> Option<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::no_length();
    let form = "{bar:30} {percent:>3} %  {binary_bytes} of {binary_total_bytes}  {msg}";
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    Some(bar)
}

/// What is going on, for people; not part of the result.
pub(crate) fn note(text: impl AsRef<str>) {
    eprintln!("{}", text.as_ref());
}

/// What went wrong, with its causes, on a line of its own.
pub(crate) fn problem(error: &anyhow::Error) {
    if IN_A_LINE.load(Ordering::Relaxed) {
        line("");
    }
    eprintln!("error: {error:#}");
}

/// Rows under a head, columns as wide as their widest cell.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let print = |cells: &[String]| {
        let mut text = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            let gap = width.saturating_sub(cell.chars().count()) + 2;
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', gap));
        }
        line(text.trim_end());
    };
    print(&head.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
    rows.iter().for_each(|row| print(row));
}
