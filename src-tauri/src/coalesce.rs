//! Joins the words of a reply that come faster than a page can show them. Pure.

use nook_node::views::ReplyEvent;

/// Text that waits to be sent.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    text: String,
    tokens: u32,
}

impl Coalescer {
    /// Takes an event; gives what is to be sent now. Text waits for [`Coalescer::flush`] or for the
    /// next event that is not text, so that the order stays.
    pub(crate) fn take(&mut self, event: ReplyEvent) -> Vec<ReplyEvent> {
        if let ReplyEvent::TokenDelta { text, tokens } = event {
            self.text.push_str(&text);
            self.tokens = tokens;
            return Vec::new();
        }
        self.flush().into_iter().chain([event]).collect()
    }

    /// The waiting text.
    pub(crate) fn flush(&mut self) -> Option<ReplyEvent> {
        self.waits().then(|| ReplyEvent::TokenDelta {
            text: std::mem::take(&mut self.text),
            tokens: self.tokens,
        })
    }

    /// Whether text waits.
    pub(crate) fn waits(&self) -> bool {
        !self.text.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str, tokens: u32) -> ReplyEvent {
        ReplyEvent::TokenDelta { text: text.to_owned(), tokens }
    }

    fn end() -> ReplyEvent {
        ReplyEvent::PipelineAborted {
            code: "cancelled".to_owned(),
            sentence: "Stopped.".to_owned(),
        }
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
