//! The content of a message while it grows, with the events that tell of it.

use nook_text::Said;
use serde_json::{Value, json};

use super::shape::Block;
use crate::answer::new_id;

/// What the model did so far; the last block may be open.
#[derive(Default)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    open: bool,
    /// Arguments of the open call, as far as they have come.
    arguments: String,
}

impl Blocks {
    /// Everything, once the last block is closed.
    pub(super) fn content(self) -> Vec<Block> {
        self.blocks
    }

    /// Adds what was said.
    pub(super) fn take(&mut self, pieces: Vec<Said>, events: &mut Vec<Value>) {
        for piece in pieces {
            match piece {
                Said::Text(text) => self.say(text, events),
                Said::Thought(thought) => self.think(thought, events),
                Said::Call { name, .. } => {
                    let (id, input) = (new_id("toolu_"), json!({}));
                    self.begin(Block::ToolUse { id, name, input }, events);
                }
                Said::Arguments { text, .. } => {
                    let delta = json!({"type": "input_json_delta", "partial_json": text});
                    self.arguments.push_str(&text);
                    self.tell(delta, events);
                }
            }
        }
    }

    /// Ends the open block.
    pub(super) fn close(&mut self, events: &mut Vec<Value>) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        if let Some(Block::ToolUse { input, .. }) = self.blocks.last_mut() {
            // What the limit cut is no JSON; the reason for the end says that it was cut.
            let arguments = std::mem::take(&mut self.arguments);
            *input = serde_json::from_str(&arguments).unwrap_or_else(|_| json!({}));
        }
        events.push(json!({"type": "content_block_stop", "index": self.index()}));
    }

    fn say(&mut self, text: String, events: &mut Vec<Value>) {
        if !(self.open && matches!(self.blocks.last(), Some(Block::Text { .. }))) {
            self.begin(Block::Text { text: String::new() }, events);
        }
        if let Some(Block::Text { text: said }) = self.blocks.last_mut() {
            said.push_str(&text);
        }
        self.tell(json!({"type": "text_delta", "text": text}), events);
    }

    fn think(&mut self, thought: String, events: &mut Vec<Value>) {
        if !(self.open && matches!(self.blocks.last(), Some(Block::Thinking { .. }))) {
            let (thinking, signature) = (String::new(), "");
            self.begin(Block::Thinking { thinking, signature }, events);
        }
        if let Some(Block::Thinking { thinking, .. }) = self.blocks.last_mut() {
            thinking.push_str(&thought);
        }
        self.tell(json!({"type": "thinking_delta", "thinking": thought}), events);
    }

    fn begin(&mut self, block: Block, events: &mut Vec<Value>) {
        self.close(events);
        let index = self.blocks.len();
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        self.blocks.push(block);
        self.open = true;
    }

    fn tell(&self, delta: Value, events: &mut Vec<Value>) {
        events.push(json!({"type": "content_block_delta", "index": self.index(), "delta": delta}));
    }

    fn index(&self) -> usize {
        self.blocks.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_text_and_calls_are_blocks_of_their_own() {
        let (mut blocks, mut events) = (Blocks::default(), Vec::new());
        let call = |name: &str| Said::Call { index: 0, name: name.to_owned() };
        let arguments = |text: &str| Said::Arguments { index: 0, text: text.to_owned() };
        let said = [
            vec![Said::Thought("Hm".to_owned()), Said::Thought(".".to_owned())],
            vec![Said::Text("I ".to_owned())],
            vec![Said::Text("go.".to_owned()), call("go"), arguments("{\"way\":")],
            vec![arguments("\"up\"}"), call("rest"), arguments("{\"cu")],
        ];
        for pieces in said {
            blocks.take(pieces, &mut events);
        }
        blocks.close(&mut events);
        let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let (start, delta, stop) =
            ("content_block_start", "content_block_delta", "content_block_stop");
        let two = [start, delta, delta, stop];
        let expected = [&two[..], &two, &two, &[start, delta, stop]].concat();
        assert_eq!(kinds, expected);
        let indices: Vec<_> = events.iter().map(|event| event["index"].as_u64().unwrap()).collect();
        assert!(indices.is_sorted() && indices.last() == Some(&3), "{indices:?}");
        let mut content = json!(blocks.content());
        for call in [2, 3] {
            let id = content[call]["id"].take();
            assert!(id.as_str().unwrap().starts_with("toolu_"));
        }
        let expected = json!([
            {"type": "thinking", "thinking": "Hm.", "signature": ""},
            {"type": "text", "text": "I go."},
            {"type": "tool_use", "id": null, "name": "go", "input": {"way": "up"}},
            // The limit cut it.
            {"type": "tool_use", "id": null, "name": "rest", "input": {}},
        ]);
        assert_eq!(content, expected);
    }
}
