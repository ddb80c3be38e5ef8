//! Files with known answers that lie beside the checkout, where they do.
#![allow(clippy::print_stderr, reason = "a test that does not run says so where everybody looks")]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nook_api::views::ChatRole;
use serde::Deserialize;

use crate::asking::role;

/// One prompt with its known continuation.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    /// The text to continue.
    pub prompt: String,
    /// Its token ids.
    pub prompt_ids: Vec<u32>,
    /// The token ids that follow.
    pub ids: Vec<u32>,
}

/// A file of the folder `shared` beside the checkout; `None`, loudly, where it is not there.
#[must_use]
pub fn fixture(test: &str, path: &str) -> Option<PathBuf> {
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(path);
    if file.exists() {
        return Some(file);
    }
    skip(test, "no fixtures");
    None
}

/// Says that a test, or a part of it, does not run here.
pub fn skip(test: &str, because: &str) {
    say(&format!("SKIPPED ({because}): {test}"));
}

/// Says that the devices of a test, which were to be machines of their own, are all on this one.
pub(crate) fn on_loopback(because: &str) {
    // The harness names the thread of a test after it.
    let thread = std::thread::current();
    say(&format!("ON LOOPBACK ({because}): {}", thread.name().unwrap_or("a test")));
}

fn say(line: &str) {
    // Past the test harness, which keeps what a passing test prints to itself.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes());
}

/// The conversations of the built-in model's reference file.
pub fn chat_cases(file: &Path) -> anyhow::Result<Vec<Vec<(ChatRole, String)>>> {
    #[derive(Deserialize)]
    struct Reference {
        cases: Vec<Conversation>,
    }
    #[derive(Deserialize)]
    struct Conversation {
        messages: Vec<Message>,
    }
    #[derive(Deserialize)]
    struct Message {
        role: String,
        content: String,
    }
    let reference: Reference = read(file)?;
    let conversation = |case: Conversation| {
        case.messages.into_iter().map(|said| (role(&said.role), said.content)).collect()
    };
    Ok(reference.cases.into_iter().map(conversation).collect())
}

/// The known continuations of a story model: those of `greedy-*.json`, and the long one of
/// `upstream-expected.json`.
pub fn story_cases(greedy: &Path, upstream: &Path) -> anyhow::Result<Vec<Case>> {
    #[derive(Deserialize)]
    struct Greedy {
        cases: Vec<Case>,
    }
    #[derive(Deserialize)]
    struct Upstream {
        prompt_ids: Vec<u32>,
        ids_reproduced: Vec<u32>,
    }
    let mut cases = read::<Greedy>(greedy)?.cases;
    let upstream: Upstream = read(upstream)?;
    let (prompt_ids, ids) = (upstream.prompt_ids, upstream.ids_reproduced);
    cases.push(Case { prompt: String::new(), prompt_ids, ids });
    Ok(cases)
}

fn read<T: serde::de::DeserializeOwned>(file: &Path) -> anyhow::Result<T> {
    let text = fs::read_to_string(file)?;
    serde_json::from_str(&text).with_context(|| format!("{} is not as expected", file.display()))
}
