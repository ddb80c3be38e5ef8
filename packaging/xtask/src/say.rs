//! What xtask tells the person: the only module that prints.
//!
//! Standard output carries headings and results in order with the output of the programs that
//! xtask runs, so each line is flushed before the next program starts.

#![allow(clippy::print_stdout, reason = "the one module through which xtask speaks")]

use std::io::Write as _;

/// A heading before a longer piece of work.
pub(crate) fn heading(text: &str) {
    line(&format!("\n=== {text}"));
}

/// A program that is about to run, as a person could type it.
pub(crate) fn command(text: &str) {
    line(&format!("$ {text}"));
}

/// One plain line.
pub(crate) fn line(text: &str) {
    println!("{text}");
    // A closed standard output is noticed by the next program's own writes; nothing to do here.
    let _ = std::io::stdout().flush();
}

/// Something that did not happen and must not be overlooked.
pub(crate) fn loud(text: &str) {
    line(&format!("!!! {text}"));
}
