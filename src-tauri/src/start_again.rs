//! Starts this very program again: once with what its graphics need, or anew when it cannot go on.
//!
//! On Linux the new program takes the place of this process, which keeps its number for whoever
//! watches it. Elsewhere a window system does not outlive such a change, so a second process starts
//! and this one ends.

use std::ffi::OsString;
use std::io;
use std::process::Command;

use nook_update::RunningProgram;

use crate::graphics::SAFE_WORD;

/// Starts the program in the tray, without a window.
const HIDDEN_WORD: &str = "--hidden";

/// Words that were meant for one start only.
const ONE_START_WORDS: &[&str] = &[HIDDEN_WORD, "--ask", "--toggle-share"];

/// Starts the program anew as it was started. On Linux it returns only when that is not possible.
pub(crate) fn as_it_was(own: &RunningProgram) -> io::Result<()> {
    start(own, lasting(own), &[])
}

/// Starts the program anew without the graphics card. Returns only when that is not possible.
pub(crate) fn safely(own: &RunningProgram) -> io::Result<()> {
    let words = lasting(own).filter(|word| word != SAFE_WORD);
    start(own, words.chain([SAFE_WORD.into()]), crate::graphics::SAFE_VARIABLES)
}

/// How somebody else would start the program anew: without a window, which nobody may be there to
/// see.
pub(crate) fn in_the_tray(own: &RunningProgram) -> nook_api::Again {
    let words = lasting(own).chain([HIDDEN_WORD.into()]).collect();
    nook_api::Again { program: own.file().to_owned(), words }
}

/// Puts a version in place that lies ready, and becomes it. Returns only when nothing could be
/// started.
#[cfg(target_os = "linux")]
pub(crate) fn as_new_version(own: &RunningProgram, is_hidden: bool) -> io::Result<()> {
    let hidden = is_hidden.then(|| HIDDEN_WORD.into());
    let words: Vec<_> = lasting(own).chain(hidden).collect();
    let own = own.clone().with_words(words);
    Err(own.start_anew(|trouble| tracing::error!("{trouble}")))
}

/// On other systems no node of this program is ever asked to.
#[cfg(not(target_os = "linux"))]
pub(crate) fn as_new_version(own: &RunningProgram, _is_hidden: bool) -> io::Result<()> {
    as_it_was(own)
}

/// Puts the version before back and becomes it. Returns only when nothing could be started.
#[cfg(target_os = "linux")]
pub(crate) fn as_version_before(own: &RunningProgram, is_hidden: bool) -> io::Result<()> {
    match own.gives_up() {
        Ok(Some(version)) => tracing::warn!("{version} is back"),
        Ok(None) => {}
        Err(error) => tracing::error!(%error, "the version before could not be put back"),
    }
    let hidden = is_hidden.then(|| HIDDEN_WORD.into());
    let words: Vec<_> = lasting(own).chain(hidden).collect();
    as_what_lies_there(&own.clone().with_words(words))
}

/// On other systems no version is ever on trial.
#[cfg(not(target_os = "linux"))]
pub(crate) fn as_version_before(own: &RunningProgram, _is_hidden: bool) -> io::Result<()> {
    as_it_was(own)
}

/// Becomes the program that lies there now, with the same words. Returns only when that is not
/// possible.
#[cfg(target_os = "linux")]
pub(crate) fn as_what_lies_there(own: &RunningProgram) -> io::Result<()> {
    Err(own.become_what_lies_there())
}

/// On other systems no version is ever on trial.
#[cfg(not(target_os = "linux"))]
pub(crate) fn as_what_lies_there(own: &RunningProgram) -> io::Result<()> {
    as_it_was(own)
}

/// Starts the program with these words, and these environment variables set to 1. On Linux it
/// returns only when that is not possible.
pub(crate) fn start(
    own: &RunningProgram,
    words: impl Iterator<Item = OsString>,
    variables: &[&'static str],
) -> io::Result<()> {
    let mut program = Command::new(own.file());
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
fn lasting(own: &RunningProgram) -> impl Iterator<Item = OsString> {
    let words = own.words().iter().cloned();
    words.filter(|word| !ONE_START_WORDS.iter().any(|known| word == known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_anew_neither_hides_nor_switches_sharing_and_keeps_the_rest() {
        let words = ["--hidden", "--ask", "--toggle-share", SAFE_WORD, "--keep-page=9"];
        let own = RunningProgram::this().unwrap().with_words(words.map(OsString::from));
        let lasting: Vec<_> = lasting(&own).collect();
        assert_eq!(lasting, [SAFE_WORD, "--keep-page=9"]);
        // Somebody who starts it unasked opens no window.
        assert_eq!(in_the_tray(&own).words, [SAFE_WORD, "--keep-page=9", "--hidden"]);
    }
}
