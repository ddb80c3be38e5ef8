//! Joins the words of a reply that come faster than a page can show them. Pure.

use nook_api::views::ReplyEvent;

/// Text that waits to be sent.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    text: String,
    tokens: u32,
    /// How long it was thought, where the text is what a model thinks.
    thought_ms: Option<u64>,
}

impl Coalescer {
    /// Takes an event; gives what is to be sent now. Text waits for [`Coalescer::flush`] or for the
    /// next event that is not text, so that the order stays.
    pub(crate) fn take(&mut self, event: ReplyEvent) -> Vec<ReplyEvent> {
        let (text, tokens, thought_ms) = match event {
            ReplyEvent::TokenDelta { text, tokens } => (text, tokens, None),
            ReplyEvent::ThoughtDelta { text, tokens, ms } => (text, tokens, Some(ms)),
            event => return self.flush().into_iter().chain([event]).collect(),
        };
        // What was thought is not what is said: where one ends, the other begins.
        let is_other = thought_ms.is_some() != self.thought_ms.is_some();
        let before = if is_other { self.flush() } else { None };
        self.text.push_str(&text);
        self.tokens = tokens;
        self.thought_ms = thought_ms;
        before.into_iter().collect()
    }

    /// The waiting text.
    pub(crate) fn flush(&mut self) -> Option<ReplyEvent> {
        self.waits().then(|| {
            let (text, tokens) = (std::mem::take(&mut self.text), self.tokens);
            match self.thought_ms {
                Some(ms) => ReplyEvent::ThoughtDelta { text, tokens, ms },
                None => ReplyEvent::TokenDelta { text, tokens },
            }
        })
    }

    /// Whether text waits.
    pub(crate) fn waits(&self) -> bool {
        !self.text.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use nook_api::NodeError;
    use nook_base::ErrorCode;

    use super::*;

    fn word(text: &str, tokens: u32) -> ReplyEvent {
        ReplyEvent::TokenDelta { text: text.to_owned(), tokens }
    }

    fn end() -> ReplyEvent {
        NodeError::from(ErrorCode::Cancelled).into()
    }

    #[test]
    fn thinking_and_words_are_never_joined() {
        let thought = |text: &str, tokens, ms| {
            let text = text.to_owned();
            ReplyEvent::ThoughtDelta { text, tokens, ms }
        };
        let mut waiting = Coalescer::default();
        assert!(waiting.take(thought("H", 1, 5)).is_empty());
        assert!(waiting.take(thought("m", 2, 9)).is_empty());
        assert_eq!(waiting.take(word("Yes", 3)), vec![thought("Hm", 2, 9)]);
        assert_eq!(waiting.take(end()), vec![word("Yes", 3), end()]);
    }

    #[test]
    fn words_are_joined_and_none_is_lost_or_doubled() {
        let mut waiting = Coalescer::default();
        assert!(waiting.take(word("Once", 1)).is_empty());
        assert!(waiting.take(word(" upon", 2)).is_empty());
        assert_eq!(waiting.flush(), Some(word("Once upon", 2)));
        assert_eq!(waiting.flush(), None);
        assert!(waiting.take(word(" a", 3)).is_empty());
        assert_eq!(waiting.take(end()), vec![word(" a", 3), end()]);
        assert!(!waiting.waits());
    }
}
