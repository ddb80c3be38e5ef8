//! Starts this very program again: once with what its graphics need, or anew when it cannot go on.
//!
//! On Linux the new program takes the place of this process, which keeps its number for whoever
//! watches it. Elsewhere a window system does not outlive such a change, so a second process starts
//! and this one ends.

use std::ffi::OsString;
use std::io;
use std::process::Command;

use crate::graphics::SAFE_WORD;

/// Words that were meant for one start only.
const ONE_START_WORDS: &[&str] = &["--hidden", "--toggle-share"];

/// Starts the program anew as it was started. On Linux it returns only when that is not possible.
pub(crate) fn as_it_was() -> io::Result<()> {
    start(lasting(std::env::args_os().skip(1)), &[])
}

/// Starts the program anew without the graphics card. Returns only when that is not possible.
pub(crate) fn safely() -> io::Result<()> {
    let words = lasting(std::env::args_os().skip(1)).filter(|word| word != SAFE_WORD);
    start(words.chain([SAFE_WORD.into()]), crate::graphics::SAFE_VARIABLES)
}

/// Starts the program with these words, and these environment variables set to 1. On Linux it
/// returns only when that is not possible.
pub(crate) fn start(
    words: impl Iterator<Item = OsString>,
    variables: &[&'static str],
) -> io::Result<()> {
    let mut program = Command::new(std::env::current_exe()?);
    program.args(words).envs(variables.iter().map(|variable| (variable, "1")));
    replace(program)
}

#[cfg(target_os = "linux")]
fn replace(mut program: Command) -> io::Result<()> {
    use std::os::unix::process::CommandExt as _;

    Err(program.exec())
}

#[cfg(not(target_os = "linux"))]
fn replace(mut program: Command) -> io::Result<()> {
    program.spawn().map(drop)
}

/// The words of a start that hold for the next one too.
fn lasting(words: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    words.filter(|word| !ONE_START_WORDS.iter().any(|known| word == known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_anew_neither_hides_nor_switches_sharing_and_keeps_the_rest() {
        let words = ["--hidden", "--toggle-share", SAFE_WORD, "--keep-page=9"];
        let lasting: Vec<_> = lasting(words.into_iter().map(OsString::from)).collect();
        assert_eq!(lasting, [SAFE_WORD, "--keep-page=9"]);
    }
}
