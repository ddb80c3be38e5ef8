//! What xtask tells the person: the only module that prints.
//!
//! Standard output carries headings and results in order with the output of the programs that
//! xtask runs, so each line is flushed before the next program starts.

#![allow(clippy::print_stdout, reason = "the one module through which xtask speaks")]

use std::cell::Cell;
use std::io::Write as _;

/// In whose name a thread speaks. Work that runs beside other work has a name, and each of its
/// lines begins with it, since lines of both come in any order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Voice(Option<&'static str>);

thread_local! {
    static VOICE: Cell<Voice> = Cell::default();
}

impl Voice {
    /// The voice of work that runs beside other work.
    pub(crate) const fn of(name: &'static str) -> Self {
        Self(Some(name))
    }

    /// The one that this thread speaks with.
    pub(crate) fn here() -> Self {
        VOICE.get()
    }

    /// This thread speaks with it from now on.
    pub(crate) fn take(self) {
        VOICE.set(self);
    }

    /// Whether others speak meanwhile.
    pub(crate) const fn is_beside(self) -> bool {
        self.0.is_some()
    }

    /// A line as it is written.
    fn begin(self, text: &str) -> String {
        match self.0 {
            Some(name) => format!("[{name}] {text}"),
            None => text.to_owned(),
        }
    }
}

/// A heading before a longer piece of work.
pub(crate) fn heading(text: &str) {
    line("");
    line(&format!("=== {text}"));
}

/// A program that is about to run, as a person could type it.
pub(crate) fn command(text: &str) {
    line(&format!("$ {text}"));
}

/// One plain line.
pub(crate) fn line(text: &str) {
    println!("{}", Voice::here().begin(text));
    // A closed standard output is noticed by the next program's own writes; nothing to do here.
    let _ = std::io::stdout().flush();
}

/// Something that did not happen and must not be overlooked.
pub(crate) fn loud(text: &str) {
    line(&format!("!!! {text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_work_beside_other_work_name_it() {
        assert_eq!(Voice::default().begin("ok"), "ok");
        assert_eq!(Voice::of("window").begin("ok"), "[window] ok");
        let there = std::thread::spawn(|| {
            Voice::of("window").take();
            Voice::here()
        });
        assert!(there.join().unwrap().is_beside());
        assert!(!Voice::here().is_beside(), "each thread has its own");
    }
}
