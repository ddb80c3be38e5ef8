//! What front ends show of the local port: its state, its keys, and what programs asked lately.

use serde::{Deserialize, Serialize};

use super::TroubleView;

view! {
/// The local OpenAI-compatible port.
struct PortView {
    /// Whether it listens.
    pub on: bool,
    /// `http://127.0.0.1:4587/v1`.
    pub base_url: String,
    /// Why it does not listen, when it should; or why some programs do not reach it.
    pub problem: Option<TroubleView>,
    /// Keys of single programs, oldest first; the main key is not among them.
    pub keys: Vec<PortKeyView>,
    /// What programs asked since the start, newest first, as far as it is remembered.
    pub requests: Vec<PortRequestView>,
}
}

impl PortView {
    /// A port that is not open and whose keys are not listed yet.
    #[must_use]
    pub fn closed(base_url: String) -> Self {
        Self { on: false, base_url, problem: None, keys: Vec::new(), requests: Vec::new() }
    }
}

view! {
/// A key that one program has. The key itself is told once and known nowhere.
struct PortKeyView {
    /// What its owner calls it.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub added: u64,
}
}

view! {
/// One answer to a program: who computed it and how fast. Nothing of what was said.
struct PortRequestView {
    /// What was asked for.
    pub kind: PortRequestKind,
    /// When it ended, in seconds since 1970.
    pub ended: u64,
    /// The name of the key that the program presented; absent for the main key.
    pub key: Option<String>,
    /// What the program calls itself: untrusted text, cleaned and cut; absent where it does not say.
    #[serde(default)]
    pub app: Option<String>,
    /// The model, by its name here, or as it was asked for; empty where that was not understood.
    pub model: String,
    /// Who computed, this device first, by name; empty where it ended before that was known.
    pub devices: Vec<String>,
    /// Tokens written; of embeddings, tokens read.
    pub tokens: u32,
    /// Tokens a second, while writing; 0 of embeddings.
    pub tokens_per_second: f64,
    /// The code of the error that ended it early, behind its status where it was refused with one; absent
    /// where it was answered.
    pub error: Option<String>,
    /// How often the same was refused.
    #[serde(default = "once")]
    pub times: u32,
}
}

fn once() -> u32 {
    1
}

view! {
/// What a program asked the port for.
#[derive(Copy, Eq, PartialOrd, Ord)]
enum PortRequestKind {
    /// A text, written by a model.
    Reply,
    /// Vectors for texts.
    Embeddings,
}
}
