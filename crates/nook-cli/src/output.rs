//! The only place of this program that prints.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the output module")]

use std::borrow::Cow;
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
    let text = for_reader(text.as_ref(), out.is_terminal());
    let _ = writeln!(out, "{text}");
    IN_A_LINE.store(false, Ordering::Relaxed);
}

/// A piece of a line, at once on the screen.
pub(crate) fn piece(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(for_reader(text, out.is_terminal()).as_bytes());
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
    escaped(text, char::is_control)
}

/// What is written of `text`: all of it for the next program; for a terminal, nothing that could
/// steer it. Models, other devices and files may have written it.
fn for_reader(text: &str, is_terminal: bool) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    match is_terminal && text.contains(steers) {
        true => Cow::Owned(escaped(text, steers)),
        false => Cow::Borrowed(text),
    }
}

/// `text` with each character that `steers` in Rust's way of writing it.
fn escaped(text: &str, steers: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match steers(c) {
            true => shown.extend(c.escape_debug()),
            false => shown.push(c),
        }
    }
    shown
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
    eprintln!("{}", for_reader(text.as_ref(), std::io::stderr().is_terminal()));
}

/// What went wrong, with its causes, on a line of its own.
pub(crate) fn problem(error: &anyhow::Error) {
    if IN_A_LINE.load(Ordering::Relaxed) {
        line("");
    }
    let words = format!("error: {error:#}");
    eprintln!("{}", for_reader(&words, std::io::stderr().is_terminal()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f17_what_models_and_devices_wrote_steers_no_terminal() {
        let written = "a\u{1b}]0;title\u{7}b\u{9b}2J\tc\r\nd";
        let shown = "a\\u{1b}]0;title\\u{7}b\\u{9b}2J\tc\\r\nd";
        assert_eq!(for_reader(written, true), shown);
        assert_eq!(for_reader(written, false), written, "the next program gets what was written");
    }
}
