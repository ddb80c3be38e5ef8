//! A call whose arguments stand between tags, read while it is written.
//!
//! Qwen3.5, Qwen3-Coder, Nemotron 3 and Seed-OSS write
//! `<function=name><parameter=key>value</parameter></function>`, GLM
//! `name<arg_key>key</arg_key><arg_value>value</arg_value>`, each inside a mark that
//! [`super::SaidParser`] has read. Values are not quoted: which of them are text, the tool's schema
//! says. They come out as JSON, text as it grows.

use serde_json::Value;

use super::call::{Name, Piece, Step};
use super::loose::{escaped, literal, quoted};
use super::{first_of, possible};

/// The tags of a form.
#[derive(Debug)]
struct Tags {
    /// Before the name.
    name: &'static str,
    /// Behind it; the first that comes counts.
    name_ends: &'static [&'static str],
    /// Whether the tag behind the name says nothing else.
    name_end_goes: bool,
    key: [&'static str; 2],
    value: &'static str,
    /// What ends a value, with the line break that belongs to the tag first.
    value_ends: &'static [&'static str],
    /// Whether a value begins on a line of its own.
    own_line: bool,
    /// What ends the call.
    end: &'static str,
    end_goes: bool,
}

const FUNCTION: Tags = Tags {
    name: "<function=",
    name_ends: &[">"],
    name_end_goes: true,
    key: ["<parameter=", ">"],
    value: "",
    value_ends: &["\n</parameter>", "</parameter>"],
    own_line: true,
    end: "</function>",
    end_goes: true,
};

const KEYS: Tags = Tags {
    name: "",
    name_ends: &["<arg_key>", "</tool_call>"],
    name_end_goes: false,
    key: ["<arg_key>", "</arg_key>"],
    value: "<arg_value>",
    value_ends: &["</arg_value>"],
    own_line: false,
    end: "</tool_call>",
    end_goes: false,
};

/// Reads one call.
#[derive(Debug)]
pub(super) struct Tagged {
    tags: &'static Tags,
    place: Place,
    tool: String,
    /// Whether an argument was told.
    any: bool,
}

#[derive(Debug)]
enum Place {
    Name,
    Key,
    /// A value that is text and was begun; `fresh` before its first letter.
    Text {
        fresh: bool,
    },
    /// A value that is told when it is complete; its end does not begin before byte `looked`.
    Whole {
        looked: usize,
    },
}

impl Tagged {
    /// `<function=…>`
    pub(super) fn functions() -> Self {
        Self::of(&FUNCTION)
    }

    /// `<arg_key>…`
    pub(super) fn keys() -> Self {
        Self::of(&KEYS)
    }

    fn of(tags: &'static Tags) -> Self {
        Self { tags, place: Place::Name, tool: String::new(), any: false }
    }

    pub(super) fn is_named(&self) -> bool {
        !matches!(self.place, Place::Name)
    }

    /// Reads on; what was understood is gone from `held`. `None`: it is no call, and `held` is as it
    /// was. `is_text` knows the values that are text, by tool and key.
    pub(super) fn read(
        &mut self,
        held: &mut String,
        names: &[String],
        is_text: impl Fn(&str, &str) -> bool,
        tell: &mut impl FnMut(Piece),
    ) -> Option<Step> {
        loop {
            let step = match self.place {
                Place::Name => self.name(held, names, tell)?,
                Place::Key => self.key(held, &is_text, tell),
                Place::Text { fresh } => self.text(held, fresh, tell),
                Place::Whole { looked } => self.whole(held, looked, tell),
            };
            if step.is_some() {
                return step;
            }
        }
    }

    /// `None` at the outside: no call; inside: go on.
    #[expect(clippy::option_option, reason = "three outcomes, each with its own `?`")]
    fn name(
        &mut self,
        held: &mut String,
        names: &[String],
        tell: &mut impl FnMut(Piece),
    ) -> Option<Option<Step>> {
        let white = held.len() - held.trim_start().len();
        let Some(rest) = held[white..].strip_prefix(self.tags.name) else {
            return self.tags.name.starts_with(&held[white..]).then_some(Some(Step::More));
        };
        let (name, before_end, end) = match Name::read(rest, self.tags.name_ends, names) {
            Name::Incomplete => return Some(Some(Step::More)),
            Name::Unknown => return None,
            Name::Known { name, at, end } => (name.to_owned(), at, end),
        };
        self.tool.clone_from(&name);
        tell(Piece::Name(name));
        let behind = if self.tags.name_end_goes { end.len() } else { 0 };
        held.drain(..white + self.tags.name.len() + before_end + behind);
        self.place = Place::Key;
        Some(None)
    }

    fn key(
        &mut self,
        held: &mut String,
        is_text: &impl Fn(&str, &str) -> bool,
        tell: &mut impl FnMut(Piece),
    ) -> Option<Step> {
        let white = held.len() - held.trim_start().len();
        let rest = &held[white..];
        let [open, close] = self.tags.key;
        let Some(key) = rest.strip_prefix(open) else {
            let may_come = [open, self.tags.end].into_iter().any(|tag| tag.starts_with(rest));
            if may_come && rest != self.tags.end {
                return Some(Step::More);
            }
            let goes = self.tags.end_goes && rest.starts_with(self.tags.end);
            let cut = white + if goes { self.tags.end.len() } else { 0 };
            held.drain(..cut);
            tell(Piece::Arguments(if self.any { "}" } else { "{}" }.to_owned()));
            return Some(Step::Done);
        };
        let Some(end) = key.find(close) else { return Some(Step::More) };
        let behind = &key[end + close.len()..];
        let gap =
            if self.tags.value.is_empty() { 0 } else { behind.len() - behind.trim_start().len() };
        if !behind[gap..].starts_with(self.tags.value) {
            // A key without a value says nothing.
            let may_come = self.tags.value.starts_with(&behind[gap..]);
            if !may_come {
                held.drain(..white + open.len() + end + close.len());
            }
            return may_come.then_some(Step::More);
        }
        let key_text = key[..end].trim().to_owned();
        held.drain(..white + open.len() + end + close.len() + gap + self.tags.value.len());
        let before = if self.any { ", " } else { "{" };
        self.any = true;
        tell(Piece::Arguments(format!("{before}{}: ", quoted(&key_text))));
        self.place = match is_text(&self.tool, &key_text) {
            true => {
                tell(Piece::Arguments("\"".to_owned()));
                Place::Text { fresh: self.tags.own_line }
            }
            false => Place::Whole { looked: 0 },
        };
        None
    }

    fn text(
        &mut self,
        held: &mut String,
        fresh: bool,
        tell: &mut impl FnMut(Piece),
    ) -> Option<Step> {
        if held.is_empty() {
            return Some(Step::More);
        }
        if fresh && held.starts_with('\n') {
            held.remove(0);
        }
        if let Some((at, end)) = first_of(held, self.tags.value_ends) {
            tell(Piece::Arguments(escaped(&held[..at]) + "\""));
            held.drain(..at + end.len());
            self.place = Place::Key;
            return None;
        }
        let known = held.len() - possible(held, self.tags.value_ends);
        if known > 0 {
            tell(Piece::Arguments(escaped(&held[..known])));
            held.drain(..known);
        }
        self.place = Place::Text { fresh: false };
        Some(Step::More)
    }

    fn whole(
        &mut self,
        held: &mut String,
        looked: usize,
        tell: &mut impl FnMut(Piece),
    ) -> Option<Step> {
        let Some((at, end)) = first_of(&held[looked..], self.tags.value_ends) else {
            let looked = held.len() - possible(held, self.tags.value_ends);
            self.place = Place::Whole { looked };
            return Some(Step::More);
        };
        let at = looked + at;
        let value = held[..at].strip_prefix('\n').unwrap_or(&held[..at]);
        tell(Piece::Arguments(value_of(value)));
        held.drain(..at + end.len());
        self.place = Place::Key;
        None
    }
}

/// A value of which is not known that it is text: what it says as JSON, else its text.
fn value_of(text: &str) -> String {
    match serde_json::from_str::<Value>(text.trim()) {
        // A number is kept as it was written.
        Ok(_) => text.trim().to_owned(),
        Err(_) => literal(text.trim()).unwrap_or_else(|| quoted(text)),
    }
}
