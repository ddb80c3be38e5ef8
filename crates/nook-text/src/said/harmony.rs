//! A reply of gpt-oss: messages on channels, told apart.
//!
//! The model writes `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`.
//! What stands on `analysis` is thinking; on `final`, and on `commentary` to nobody, it is text; a
//! message to `functions.name` calls that tool. Reference: OpenAI's "harmony response format".

use nook_base::Sensitive;

use super::{Said, first_of, possible};

const MESSAGE: &str = "<|message|>";
const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";

/// What ends a message. A next one may begin without it.
const ENDS: [&str; 5] = ["<|end|>", "<|call|>", "<|return|>", START, CHANNEL];

/// Before the name of a tool, in the head of a message.
const TO_FUNCTION: &str = "to=functions.";

/// A head that is longer is none.
const HEAD_BYTES_MAX: usize = 1 << 10;

/// Where the prompt leaves off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Before the head of a message.
    Head,
    /// In the middle of thinking.
    Thinking,
    /// In the text.
    Final,
}

/// Reads one reply.
#[derive(Debug)]
pub(super) struct Harmony {
    names: Vec<String>,
    calls_max: usize,
    calls: usize,
    place: Place,
    held: Sensitive<String>,
    /// Whether text, and thinking, were told of an earlier message.
    told: [bool; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Head,
    Body { kind: Kind, fresh: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thought,
    Call {
        index: usize,
    },
    /// Nobody's: a call too many, or a message of somebody else.
    Nothing,
}

impl Harmony {
    pub(super) fn new(channel: Channel, names: Vec<String>, calls_max: usize) -> Self {
        let place = match channel {
            Channel::Head => Place::Head,
            Channel::Thinking => Place::Body { kind: Kind::Thought, fresh: false },
            Channel::Final => Place::Body { kind: Kind::Text, fresh: false },
        };
        let told = [channel == Channel::Final, channel == Channel::Thinking];
        Self { names, calls_max, calls: 0, place, held: String::new().into(), told }
    }

    pub(super) fn has_called(&self) -> bool {
        self.calls > 0
    }

    /// Takes more text; with `over` there is no more, and what was held back is decided, unless the
    /// reply was `cut`: then it was to be a mark.
    pub(super) fn push(&mut self, text: &str, over: bool, cut: bool) -> Vec<Said> {
        self.held.0.push_str(text);
        let mut said = Vec::new();
        while match self.place {
            Place::Head => self.head(over, &mut said),
            Place::Body { kind, fresh } => self.body(kind, fresh, over, cut, &mut said),
        } {}
        said
    }

    fn head(&mut self, over: bool, said: &mut Vec<Said>) -> bool {
        let begun = self.held.trim_start();
        let is_head = [START, CHANNEL, "to=", "<|constrain|>", MESSAGE]
            .iter()
            .any(|mark| begun.starts_with(mark) || mark.starts_with(begun));
        let end = self.held.find(MESSAGE);
        if !is_head || end.unwrap_or(self.held.len()) > HEAD_BYTES_MAX {
            // A model that was made to keep a form has none.
            self.place = Place::Body { kind: Kind::Text, fresh: true };
            return true;
        }
        let Some(at) = end else {
            if over {
                self.held.0.clear();
            }
            return false;
        };
        let kind = self.kind_of(at, said);
        self.held.0.drain(..at + MESSAGE.len());
        self.place = Place::Body { kind, fresh: true };
        true
    }

    /// What the message is whose head ends before byte `at`.
    fn kind_of(&mut self, at: usize, said: &mut Vec<Said>) -> Kind {
        let head = &self.held[..at];
        let by = head.split(START).nth(1).map(|rest| rest.split(['<', ' ']).next());
        if by.flatten().is_some_and(|role| role != "assistant") {
            return Kind::Nothing;
        }
        let name = head
            .split(TO_FUNCTION)
            .nth(1)
            .map(|rest| rest.split(['<', ' ']).next().unwrap_or_default().to_owned());
        let channel = head.split(CHANNEL).nth(1).map_or("", str::trim_start);
        let is_thought = channel.starts_with("analysis");
        match name {
            Some(name) if self.names.contains(&name) => {
                if self.calls >= self.calls_max {
                    return Kind::Nothing;
                }
                let index = self.calls;
                self.calls += 1;
                said.push(Said::Call { index, name });
                Kind::Call { index }
            }
            _ if is_thought => Kind::Thought,
            _ => Kind::Text,
        }
    }

    fn body(
        &mut self,
        kind: Kind,
        fresh: bool,
        over: bool,
        cut: bool,
        said: &mut Vec<Said>,
    ) -> bool {
        let end = first_of(&self.held, &ENDS);
        let kept = if over && !cut { 0 } else { possible(&self.held, &ENDS) };
        let at = end.map_or(self.held.len() - kept, |(at, _)| at);
        let rest = self.held.0.split_off(at);
        let text = std::mem::replace(&mut self.held.0, rest);
        let still_fresh = fresh && text.is_empty();
        self.tell(kind, text, fresh, said);
        let Some((_, end)) = end else {
            if over {
                self.held.0.clear();
            }
            self.place = Place::Body { kind, fresh: still_fresh };
            return false;
        };
        // A next head begins with these; the others say nothing more.
        if end != START && end != CHANNEL {
            self.held.0.drain(..end.len());
        }
        self.place = Place::Head;
        true
    }

    fn tell(&mut self, kind: Kind, text: String, fresh: bool, said: &mut Vec<Said>) {
        if text.is_empty() {
            return;
        }
        // Two messages in a row are two paragraphs.
        let apart =
            |told: &mut bool| if fresh && std::mem::replace(told, true) { "\n\n" } else { "" };
        let [text_told, thought_told] = &mut self.told;
        match kind {
            Kind::Text => said.push(Said::Text(format!("{}{text}", apart(text_told)))),
            Kind::Thought => said.push(Said::Thought(format!("{}{text}", apart(thought_told)))),
            Kind::Call { index } => said.push(Said::Arguments { index, text }),
            Kind::Nothing => {}
        }
    }
}
