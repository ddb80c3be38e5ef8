//! What fixture files say: prompts with the continuations that are known.

use std::fs;
use std::path::Path;

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
