//! What a model says, told apart: text, thinking, calls of tools.
//!
//! Owns the reading side of the forms that `tools` writes. [`SaidParser`] takes decoded text as it
//! comes, streamed or not, and hands on what is certain: text that cannot be the beginning of a
//! mark at once, the arguments of a call while they grow. What looks like a call and is none is
//! text again; nothing is lost. White space before the first word decides nothing.

mod call;
mod harmony;
mod loose;
mod tagged;

use nook_base::Sensitive;

use crate::tools::{BARE_CALL, FUNCTION_CALL, ToolForm};
use call::{CallReader, Step};
pub use harmony::Channel;
use harmony::Harmony;

/// Calls that one reply may make; what comes behind them is dropped.
pub const CALLS_MAX: usize = 128;

/// How to read a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyForm {
    /// How calls are written; `None` where no tool was offered.
    pub calls: Option<ToolForm>,
    /// Names of the tools that may be called; a call of another is text.
    pub names: Vec<String>,
    /// Parameters whose values are text, each behind its tool: some forms quote none.
    pub texts: Vec<(String, String)>,
    /// Calls that are wanted; later ones are dropped.
    pub calls_max: usize,
    /// Whether the model thinks aloud.
    pub thought: Thought,
}

/// Whether a reply holds thinking between marks (`<think>` … `</think>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thought {
    /// Never.
    None,
    /// It may begin with some.
    Perhaps,
    /// The prompt ended with the mark that opens it.
    Open {
        /// The mark that ends it.
        end: &'static str,
    },
    /// The prompt ended in its middle: the reply goes on with it, white space and all.
    Within {
        /// As in `Open`.
        end: &'static str,
    },
    /// Thinking, text and calls stand in messages of their own, as gpt-oss writes them.
    Channels(Channel),
}

/// A piece of what was said.
#[derive(Clone, PartialEq, Eq)]
pub enum Said {
    /// Text for the reader.
    Text(String),
    /// Thinking aloud, without its marks.
    Thought(String),
    /// A call begins.
    Call {
        /// Its place among the reply's calls, from 0.
        index: usize,
        /// The tool.
        name: String,
    },
    /// The arguments of a call go on: JSON text, to be put together.
    Arguments {
        /// Whose.
        index: usize,
        /// More text.
        text: String,
    },
}

/// Marks of thinking, each with its end.
pub const THOUGHT_MARKS: [(&str, &str); 4] = [
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    // Gemma 4 has a channel for it.
    ("<|channel>thought", "<channel|>"),
    ("<seed:think>", "</seed:think>"),
];

/// Control tokens that begin or end such a mark.
const THOUGHT_TOKENS: &[&str] = &[
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<|channel>",
    "<channel|>",
    "<seed:think>",
    "</seed:think>",
];

impl ReplyForm {
    /// A reply that is text and nothing else.
    #[must_use]
    pub const fn plain() -> Self {
        Self {
            calls: None,
            names: Vec::new(),
            texts: Vec::new(),
            calls_max: CALLS_MAX,
            thought: Thought::None,
        }
    }

    /// Control tokens that must be spelt out for a reader of such replies.
    #[must_use]
    pub fn spelt(&self) -> Vec<&'static str> {
        let of_calls = self.calls.map_or(&[][..], ToolForm::spelt);
        let of_thought = match self.thought {
            Thought::None => &[][..],
            Thought::Channels(_) => ToolForm::Harmony.spelt(),
            Thought::Perhaps | Thought::Open { .. } | Thought::Within { .. } => THOUGHT_TOKENS,
        };
        [of_calls, of_thought].concat()
    }
}

/// Where in a reply the reader is.
#[derive(Debug)]
enum Place {
    /// Only white space so far: thinking may begin.
    Beginning,
    /// Inside thinking that ends with this mark; `fresh` until its first word.
    Thinking { end: &'static str, fresh: bool },
    /// White space before the first word of the text.
    Gap,
    /// In the text; `first` until its first word was handed on.
    Text { first: bool },
    /// In a call; boxed, because the others are small.
    Call(Box<CallReader>),
    /// Behind a call.
    Between,
}

/// Reads one reply.
#[derive(Debug)]
pub struct SaidParser {
    form: ReplyForm,
    /// Reads everything, where the reply has channels.
    harmony: Option<Harmony>,
    place: Place,
    /// Text that is not decided yet.
    held: Sensitive<String>,
    calls: usize,
    /// The reply was cut: what may be the beginning of a mark was to be one.
    cut: bool,
}

impl SaidParser {
    /// A reader at the beginning of a reply.
    #[must_use]
    pub fn new(form: ReplyForm) -> Self {
        let mut harmony = None;
        let place = match form.thought {
            Thought::Channels(channel) => {
                let most = form.calls_max.min(CALLS_MAX);
                harmony = Some(Harmony::new(channel, form.names.clone(), most));
                Place::Between
            }
            Thought::None if form.calls.is_some() => Place::Gap,
            Thought::None => Place::Text { first: true },
            Thought::Perhaps => Place::Beginning,
            Thought::Open { end } => Place::Thinking { end, fresh: true },
            Thought::Within { end } => Place::Thinking { end, fresh: false },
        };
        Self { form, harmony, place, held: String::new().into(), calls: 0, cut: false }
    }

    /// Takes more text.
    pub fn push(&mut self, text: &str) -> Vec<Said> {
        if let Some(harmony) = &mut self.harmony {
            return harmony.push(text, false, false);
        }
        self.held.0.push_str(text);
        let mut said = Vec::new();
        while self.go_on(&mut said, false) {}
        said
    }

    /// The reply is over: what was held back is decided.
    pub fn finish(&mut self) -> Vec<Said> {
        if let Some(harmony) = &mut self.harmony {
            return harmony.push("", true, self.cut);
        }
        let mut said = Vec::new();
        while self.go_on(&mut said, true) {}
        said
    }

    /// The reply was cut by its limit: what was held back is decided, and what may be half a mark,
    /// or a call that has no name yet, is nobody's text.
    pub fn cut(&mut self) -> Vec<Said> {
        self.cut = true;
        self.finish()
    }

    /// Whether the reply has called a tool.
    #[must_use]
    pub fn has_called(&self) -> bool {
        self.calls > 0 || self.harmony.as_ref().is_some_and(Harmony::has_called)
    }

    /// Decides something; `false` when more text is needed.
    fn go_on(&mut self, said: &mut Vec<Said>, over: bool) -> bool {
        match std::mem::replace(&mut self.place, Place::Between) {
            Place::Beginning => self.begin(over),
            Place::Thinking { end, fresh } => self.think(end, fresh, said, over),
            Place::Gap => self.cross_gap(over),
            Place::Text { first } => self.text(first, said, over),
            Place::Call(reader) => self.call(reader, said, over),
            Place::Between => self.between(over),
        }
    }

    fn begin(&mut self, over: bool) -> bool {
        let word = self.held.trim_start();
        for (mark, end) in THOUGHT_MARKS {
            if let Some(rest) = word.strip_prefix(mark) {
                self.held = rest.to_owned().into();
                self.place = Place::Thinking { end, fresh: true };
                return true;
            }
        }
        if !over && THOUGHT_MARKS.iter().any(|(mark, _)| mark.starts_with(word)) {
            self.place = Place::Beginning;
            return false;
        }
        if self.cut && THOUGHT_MARKS.iter().any(|(mark, _)| mark.starts_with(word)) {
            self.held.0.clear();
        }
        // White space that no thinking follows belongs to the text.
        self.place = match self.form.calls {
            Some(_) => Place::Gap,
            None => Place::Text { first: true },
        };
        true
    }

    fn think(&mut self, end: &'static str, fresh: bool, said: &mut Vec<Said>, over: bool) -> bool {
        if let Some(at) = self.held.find(end) {
            let rest = self.held.0.split_off(at + end.len());
            self.held.0.truncate(at);
            let thought = std::mem::replace(&mut self.held.0, rest);
            push_thought(said, &thought, fresh);
            self.place = Place::Gap;
            return true;
        }
        let kept = if over && !self.cut { 0 } else { possible(&self.held, &[end]) };
        let rest = self.held.0.split_off(self.held.len() - kept);
        let thought = std::mem::replace(&mut self.held.0, rest);
        self.forget_if_cut();
        let still_fresh = fresh && thought.trim_start().is_empty();
        push_thought(said, &thought, fresh);
        self.place = Place::Thinking { end, fresh: still_fresh };
        false
    }

    /// Drops white space before the text: behind thinking, and before what may be a call.
    fn cross_gap(&mut self, over: bool) -> bool {
        let is_white = self.held.trim_start().is_empty();
        if is_white && !over {
            self.place = Place::Gap;
            return false;
        }
        // Where nothing was thought, the white space is the model's own.
        if self.form.thought != Thought::None || is_white {
            self.held = self.held.trim_start().to_owned().into();
        }
        self.place = Place::Text { first: true };
        true
    }

    fn text(&mut self, first: bool, said: &mut Vec<Said>, over: bool) -> bool {
        let Some(form) = self.form.calls else {
            let text = std::mem::take(&mut self.held.0);
            push_text(said, text);
            self.place = Place::Text { first: false };
            return false;
        };
        let marks = form.marks(first);
        let found = marks
            .iter()
            .filter_map(|mark| Some((find_mark(&self.held, mark, first)?, *mark)))
            .min_by_key(|(at, _)| *at);
        if let Some((at, mark)) = found {
            let rest = self.held.0.split_off(at + mark.len());
            self.held.0.truncate(at);
            let before = std::mem::replace(&mut self.held.0, rest);
            push_text(said, before.trim_end().to_owned());
            // Some marks are the call's own beginning, which the reader wants to see.
            let is_begun = mark == BARE_CALL || mark == FUNCTION_CALL;
            let (gone, begun) = if is_begun { ("", mark) } else { (mark, "") };
            self.held.0.insert_str(0, begun);
            let spare = before[before.trim_end().len()..].to_owned() + gone;
            self.place = Place::Call(Box::new(CallReader::new(form, spare)));
            return true;
        }
        let kept = if over && !self.cut { 0 } else { tail(&self.held, marks, first) };
        let rest = self.held.0.split_off(self.held.len() - kept);
        let text = std::mem::replace(&mut self.held.0, rest);
        self.forget_if_cut();
        let first = first && text.trim_start().is_empty();
        push_text(said, text);
        self.place = Place::Text { first };
        false
    }

    /// Nothing comes that would make a mark of what is held.
    fn forget_if_cut(&mut self) {
        if self.cut {
            self.held.0.clear();
        }
    }

    fn call(&mut self, mut reader: Box<CallReader>, said: &mut Vec<Said>, over: bool) -> bool {
        let wanted = self.calls < self.form.calls_max.min(CALLS_MAX);
        let (index, has_mark) = (self.calls, reader.has_mark());
        let step = reader.read(&mut self.held.0, &self.form, over, &mut |piece| {
            if wanted {
                said.push(piece.into_said(index));
            }
        });
        match step {
            Step::More => {
                self.place = Place::Call(reader);
                false
            }
            Step::Done => {
                self.calls += 1;
                self.place = Place::Between;
                true
            }
            Step::NoCall { text } => {
                // A bare brace may have begun anything; behind a mark, or a call, comes a call.
                match self.cut && (has_mark || self.calls > 0) {
                    true => self.forget_if_cut(),
                    false => push_text(said, text),
                }
                self.place = Place::Text { first: false };
                true
            }
        }
    }

    /// Behind a call: what closes it, and another one where the form has them in a row.
    fn between(&mut self, over: bool) -> bool {
        let Some(form) = self.form.calls else { return false };
        // As often as they come: a reply in pieces is asked for them again at each piece.
        let mut rest = self.held.trim_start();
        while let Some(behind) = form.closing().iter().find_map(|mark| rest.strip_prefix(mark)) {
            rest = behind.trim_start();
        }
        let open =
            rest.is_empty() || form.closing().iter().any(|closing| closing.starts_with(rest));
        let next = form.next_call(rest);
        self.held = rest.to_owned().into();
        if open && (!over || self.cut) {
            self.forget_if_cut();
            self.place = Place::Between;
            return false;
        }
        self.place = match next {
            true => Place::Call(Box::new(CallReader::new(form, String::new()))),
            false => Place::Text { first: false },
        };
        !(open && over && self.held.is_empty())
    }
}

impl std::fmt::Debug for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Reply text stays out of logs (invariant I-3).
        let (kind, bytes) = match self {
            Self::Text(text) => ("Text", text.len()),
            Self::Thought(text) => ("Thought", text.len()),
            Self::Call { name, .. } => ("Call", name.len()),
            Self::Arguments { text, .. } => ("Arguments", text.len()),
        };
        f.debug_struct(kind).field("bytes", &bytes).finish()
    }
}

fn push_text(said: &mut Vec<Said>, text: String) {
    if !text.is_empty() {
        said.push(Said::Text(text));
    }
}

fn push_thought(said: &mut Vec<Said>, thought: &str, fresh: bool) {
    let thought = if fresh { thought.trim_start() } else { thought };
    if !thought.is_empty() {
        said.push(Said::Thought(thought.to_owned()));
    }
}

/// Where `mark` stands; one that is a bare brace only at the very beginning.
fn find_mark(text: &str, mark: &str, first: bool) -> Option<usize> {
    if mark != BARE_CALL {
        return text.find(mark);
    }
    let white = text.len() - text.trim_start().len();
    (first && text[white..].starts_with(mark)).then_some(white)
}

/// Length of the tail that may still be the beginning of a mark, with the white space before it.
fn tail(text: &str, marks: &[&str], first: bool) -> usize {
    let kept = possible(text, marks);
    let shown = &text[..text.len() - kept];
    if first && shown.trim_start().is_empty() {
        return text.len();
    }
    text.len() - shown.trim_end().len()
}

/// Length of the longest tail of `text` that is the beginning of one of `marks`.
fn possible(text: &str, marks: &[&str]) -> usize {
    let tail_of = |mark: &&str| {
        let longest = mark.len().saturating_sub(1).min(text.len());
        (1..=longest).rev().find(|n| text.as_bytes().ends_with(&mark.as_bytes()[..*n]))
    };
    marks.iter().filter_map(tail_of).max().unwrap_or(0)
}

/// The first of `marks` in `text`, and where it begins.
fn first_of(text: &str, marks: &[&'static str]) -> Option<(usize, &'static str)> {
    marks.iter().filter_map(|mark| Some((text.find(mark)?, *mark))).min()
}
