//! From a package to its first words: how long installing takes, and how long a person who never
//! used the program waits for an answer.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::outside;
use crate::process::Program;

/// Longest that the program may take for a few words.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// Both times of one package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) installing: Duration,
    pub(crate) first_words: Duration,
}

impl Times {
    /// For a closing line.
    pub(crate) fn say(self, package: &str) -> String {
        let [installing, words] = [self.installing, self.first_words].map(|it| it.as_secs_f64());
        format!("{package} installed in {installing:.1} s, first words {words:.1} s later")
    }
}

/// How long `act` takes.
pub(crate) fn timed(act: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begun = outside::now();
    act()?;
    Ok(since(begun))
}

/// Lets somebody whose home is the empty folder `home` ask the installed `nook` for a few words, as
/// it comes: no option names a folder. The time until it has said all four.
pub(crate) fn wait(nook: &Path, home: &Path) -> Result<Duration> {
    let begun = outside::now();
    let said = as_it_comes(nook, home)
        .args(["generate", "--alone", "--max-tokens", "4", "--prompt", "Once upon a time"])
        .within(ANSWER_LIMIT)
        .output()?;
    ensure!(!said.trim().is_empty(), "the model of {} said nothing", nook.display());
    Ok(since(begun))
}

/// `nook` of somebody whose home is `home`, with nothing adjusted.
pub(crate) fn as_it_comes(nook: &Path, home: &Path) -> Program {
    Program::new(nook, home)
        .env("HOME", home)
        .env("XDG_DATA_HOME", home.join(".local/share"))
        .env("XDG_CONFIG_HOME", home.join(".config"))
        .without("INGLENOOK_HOME")
        .env("INGLENOOK_KEYRING", "off")
}

fn since(begun: Instant) -> Duration {
    outside::now().saturating_duration_since(begun)
}
