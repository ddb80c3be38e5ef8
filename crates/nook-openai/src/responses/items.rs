//! The output of a response while it grows, with the events that tell of it.

use nook_text::Said;
use serde_json::{Value, json};

use super::offered::Namespaces;
use super::shape::{OutputItem, OutputText, ReasoningText};
use crate::answer::{new_call_id, new_id};

/// What the model did so far; the last item may be open.
#[derive(Default)]
pub(super) struct Items {
    items: Vec<OutputItem>,
    open: bool,
    spaces: Namespaces,
}

/// What an item holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
    FunctionCall,
}

impl Items {
    /// Nothing yet; calls of these tools name their namespaces.
    pub(super) fn new(spaces: Namespaces) -> Self {
        Self { spaces, ..Self::default() }
    }

    /// Everything so far.
    pub(super) fn output(&self) -> Vec<OutputItem> {
        self.items.clone()
    }

    /// Adds what was said.
    pub(super) fn take(&mut self, pieces: Vec<Said>, events: &mut Vec<Value>) {
        for piece in pieces {
            match piece {
                Said::Text(text) => self.add(Kind::Message, &text, events),
                Said::Thought(text) => self.add(Kind::Reasoning, &text, events),
                Said::Call { name, .. } => {
                    let (namespace, name) = self.spaces.of(name);
                    self.begin(call(namespace, name), events);
                }
                Said::Arguments { text, .. } => self.add(Kind::FunctionCall, &text, events),
            }
        }
    }

    /// Ends the open item.
    pub(super) fn close(&mut self, status: &'static str, events: &mut Vec<Value>) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let index = self.items.len().saturating_sub(1);
        let Some(item) = self.items.last_mut() else { return };
        item.set_status(status);
        let mut at = json!({"item_id": item.id(), "output_index": index});
        match item {
            OutputItem::FunctionCall { name, arguments, .. } => {
                at["type"] = "response.function_call_arguments.done".into();
                at["name"] = name.as_str().into();
                at["arguments"] = arguments.as_str().into();
                events.push(at);
            }
            OutputItem::Message { content, .. } => {
                at["content_index"] = 0.into();
                for part in content {
                    let mut done = at.clone();
                    done["type"] = "response.output_text.done".into();
                    done["text"] = part.text.as_str().into();
                    done["logprobs"] = json!([]);
                    events.push(done);
                    events.push(part_event("response.content_part.done", &at, json!(part)));
                }
            }
            OutputItem::Reasoning { content, .. } => {
                at["content_index"] = 0.into();
                for part in content {
                    let mut done = at.clone();
                    done["type"] = "response.reasoning_text.done".into();
                    done["text"] = part.text.as_str().into();
                    events.push(done);
                    events.push(part_event("response.content_part.done", &at, json!(part)));
                }
            }
        }
        let kind = "response.output_item.done";
        events.push(json!({"type": kind, "output_index": index, "item": item}));
    }

    fn begin(&mut self, item: OutputItem, events: &mut Vec<Value>) {
        self.close("completed", events);
        let index = self.items.len();
        let kind = "response.output_item.added";
        events.push(json!({"type": kind, "output_index": index, "item": item}));
        self.items.push(item);
        self.open = true;
    }

    fn add(&mut self, kind: Kind, text: &str, events: &mut Vec<Value>) {
        if !self.open || self.items.last().map(kind_of) != Some(kind) {
            match kind {
                Kind::Message => self.begin(message(), events),
                Kind::Reasoning => self.begin(reasoning(), events),
                // Arguments come behind the beginning of their call.
                Kind::FunctionCall => return,
            }
        }
        let index = self.items.len().saturating_sub(1);
        let Some(item) = self.items.last_mut() else { return };
        let mut at = json!({"item_id": item.id(), "output_index": index});
        match item {
            OutputItem::FunctionCall { arguments, .. } => {
                arguments.push_str(text);
                at["type"] = "response.function_call_arguments.delta".into();
            }
            OutputItem::Message { content, .. } => {
                at["content_index"] = 0.into();
                if content.is_empty() {
                    content.push(output_text());
                    events.push(part_event("response.content_part.added", &at, json!(content[0])));
                }
                content[0].text.push_str(text);
                at["logprobs"] = json!([]);
                at["type"] = "response.output_text.delta".into();
            }
            OutputItem::Reasoning { content, .. } => {
                at["content_index"] = 0.into();
                if content.is_empty() {
                    content.push(ReasoningText { kind: "reasoning_text", text: String::new() });
                    events.push(part_event("response.content_part.added", &at, json!(content[0])));
                }
                content[0].text.push_str(text);
                at["type"] = "response.reasoning_text.delta".into();
            }
        }
        at["delta"] = text.into();
        events.push(at);
    }
}

fn part_event(kind: &str, at: &Value, part: Value) -> Value {
    let mut event = at.clone();
    event["type"] = kind.into();
    event["part"] = part;
    event
}

fn kind_of(item: &OutputItem) -> Kind {
    match item {
        OutputItem::Reasoning { .. } => Kind::Reasoning,
        OutputItem::Message { .. } => Kind::Message,
        OutputItem::FunctionCall { .. } => Kind::FunctionCall,
    }
}

fn message() -> OutputItem {
    let (status, role) = ("in_progress", "assistant");
    OutputItem::Message { id: new_id("msg_"), status, role, content: Vec::new() }
}

fn reasoning() -> OutputItem {
    OutputItem::Reasoning {
        id: new_id("rs_"),
        summary: Vec::new(),
        content: Vec::new(),
        status: "in_progress",
    }
}

fn call(namespace: Option<String>, name: String) -> OutputItem {
    OutputItem::FunctionCall {
        id: new_id("fc_"),
        call_id: new_call_id(),
        name,
        namespace,
        arguments: String::new(),
        status: "in_progress",
    }
}

fn output_text() -> OutputText {
    OutputText {
        kind: "output_text",
        text: String::new(),
        annotations: Vec::new(),
        logprobs: Vec::new(),
    }
}
