//! A rendered chat: what a chat template yields and the tokenizer takes.

/// A rendered chat. It reads as its text; the tokenizer also needs its guards.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RenderedPrompt {
    pub(crate) text: String,
    pub(crate) guards: Vec<usize>,
    pub(crate) folded_system: bool,
}

impl RenderedPrompt {
    /// The prompt.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the template refused a system message and it was put before the user's first words.
    #[must_use]
    pub fn folded_system(&self) -> bool {
        self.folded_system
    }

    /// Whether its guards are places in its text.
    pub(crate) fn is_sound(&self) -> bool {
        self.guards.is_sorted() && self.guards.iter().all(|at| self.text.is_char_boundary(*at))
    }

    /// Byte positions, ascending, across which no control token may be read.
    pub(crate) fn guards(&self) -> &[usize] {
        &self.guards
    }
}

impl std::ops::Deref for RenderedPrompt {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Debug for RenderedPrompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A prompt stays out of logs (invariant I-3).
        f.debug_struct("RenderedPrompt").field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}
