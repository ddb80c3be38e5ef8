//! Keeps what a message says from becoming structure.
//!
//! A mark (one Unicode noncharacter) is put inside everything in a chat that could be read as a
//! control token. The template then runs over the marked chat; wherever it copies the text to, the
//! mark goes along. [`take_marks`] removes the marks from the prompt and says where they were.
//! [`Guarding::Thorough`] marks every character that may begin a control token, which also holds
//! when a template cuts something out of a message and so makes a control token of the rest. Where
//! a template is disturbed by that, because it looks for `</think>` or takes out `<image>`, tags
//! stay unmarked; in the last resort only whole control tokens are marked.

use nook_base::Vocabulary;
use serde_json::{Map, Value};

use crate::tokenizer::kinds::Kinds;

/// How much to mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guarding {
    /// After every character that begins some control token.
    Thorough,
    /// Like `Thorough`, but not at the beginning of a tag such as `</think>`.
    ThoroughButTags,
    /// Inside every control token that is spelt out.
    Precise,
}

/// The spellings that only a template may write.
#[derive(Debug)]
pub(super) struct Structure {
    pub(super) spellings: Vec<String>,
    first_characters: Vec<char>,
}

impl Structure {
    /// Collects them from a vocabulary.
    pub(super) fn new(vocabulary: &Vocabulary, kinds: &Kinds) -> Self {
        let spellings: Vec<String> = (0..)
            .zip(&vocabulary.tokens)
            .filter(|(id, text)| !text.is_empty() && kinds.is_structure(*id, text))
            .map(|(_, text)| text.clone())
            .collect();
        Self::of(spellings)
    }

    /// These.
    pub(super) fn of(spellings: Vec<String>) -> Self {
        let mut first_characters: Vec<char> =
            spellings.iter().filter_map(|text| text.chars().next()).collect();
        first_characters.sort_unstable();
        first_characters.dedup();
        Self { spellings, first_characters }
    }

    /// Byte positions in `text` at which a mark must stand, ascending.
    fn marks(&self, text: &str, guarding: Guarding) -> Vec<usize> {
        let mut marks = Vec::new();
        for (at, c) in text.char_indices() {
            if self.first_characters.binary_search(&c).is_err() {
                continue;
            }
            let here = &text[at..];
            let loose = match guarding {
                Guarding::Thorough => true,
                Guarding::ThoroughButTags => !is_tag(here),
                Guarding::Precise => false,
            };
            if loose || self.begins_at(here) {
                marks.push(at + c.len_utf8());
            }
        }
        // A template that writes the beginning of a control token just before the text.
        if self.spellings.iter().any(|spelling| ends_into(spelling, text)) {
            marks.insert(0, 0);
        }
        marks
    }

    /// Whether `text` begins with a control token, or is a beginning of one.
    fn begins_at(&self, text: &str) -> bool {
        self.spellings
            .iter()
            .any(|spelling| text.starts_with(spelling.as_str()) || spelling.starts_with(text))
    }
}

/// Whether a tail of `spelling` (not all of it) opens `text`.
fn ends_into(spelling: &str, text: &str) -> bool {
    spelling.char_indices().skip(1).any(|(at, _)| text.starts_with(&spelling[at..]))
}

/// Whether `text` begins with a tag: `<name>` or `</name>`.
fn is_tag(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('<') else {
        return false;
    };
    let name = inner.strip_prefix('/').unwrap_or(inner);
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    end.is_some_and(|end| end > 0 && name[end..].starts_with('>'))
}

/// A chat, ready for a template.
#[derive(Debug)]
pub(super) struct MarkedChat {
    /// The messages, an array.
    pub(super) messages: Value,
    /// The tools.
    pub(super) tools: Option<Value>,
    /// Whether there is any mark.
    pub(super) marked: bool,
}

impl MarkedChat {
    /// The chat as it is.
    pub(super) fn unmarked(messages: &[Value], tools: Option<&Value>) -> Self {
        Self { messages: messages.into(), tools: tools.cloned(), marked: false }
    }

    /// The chat with marks.
    pub(super) fn new(
        messages: &[Value],
        tools: Option<&Value>,
        structure: &Structure,
        guarding: Guarding,
        mark: char,
    ) -> Self {
        let mut marker = Marker { structure, mark, guarding, marked: false };
        let messages = messages.iter().map(|message| marker.value(message)).collect();
        let tools = tools.map(|tools| marker.value(tools));
        Self { messages, tools, marked: marker.marked }
    }
}

struct Marker<'s> {
    structure: &'s Structure,
    mark: char,
    guarding: Guarding,
    marked: bool,
}

impl Marker<'_> {
    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let mut marked = Map::new();
                for (key, field) in fields {
                    marked.insert(self.text(key), self.value(field));
                }
                marked.into()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let marks = self.structure.marks(text, self.guarding);
        self.marked |= !marks.is_empty();
        let mut out = String::with_capacity(text.len() + marks.len() * self.mark.len_utf8());
        let mut done = 0;
        for at in marks {
            out.push_str(&text[done..at]);
            out.push(self.mark);
            done = at;
        }
        out.push_str(&text[done..]);
        out
    }
}

/// Removes the marks; returns the text and the byte positions where they were, ascending.
pub(super) fn take_marks(marked: &str, mark: char) -> (String, Vec<usize>) {
    let mut text = String::with_capacity(marked.len());
    let mut guards = Vec::new();
    for (index, part) in marked.split(mark).enumerate() {
        if index > 0 {
            guards.push(text.len());
        }
        text.push_str(part);
    }
    (text, guards)
}

/// A noncharacter (U+FDD0 to U+FDEF) that the chat does not contain. Unicode keeps them for use
/// inside one program.
pub(super) fn free_mark(messages: &[Value], tools: Option<&Value>) -> Option<char> {
    ('\u{FDD0}'..='\u{FDEF}')
        .find(|mark| !messages.iter().chain(tools).any(|value| contains(value, *mark)))
}

fn contains(value: &Value, mark: char) -> bool {
    match value {
        Value::String(text) => text.contains(mark),
        Value::Array(items) => items.iter().any(|item| contains(item, mark)),
        Value::Object(fields) => {
            fields.iter().any(|(key, field)| key.contains(mark) || contains(field, mark))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure() -> Structure {
        let spellings = ["<|end|>", "<s>", "[INST]"].map(str::to_owned).to_vec();
        Structure { spellings, first_characters: vec!['<', '['] }
    }

    fn shown(text: &str, guarding: Guarding) -> String {
        let structure = structure();
        let mut marker = Marker { structure: &structure, mark: '*', guarding, marked: false };
        marker.text(text)
    }

    #[test]
    fn precise_marks_break_control_tokens_and_nothing_else() {
        let shown = |text| shown(text, Guarding::Precise);
        assert_eq!(shown("a <b> <|end|><s>"), "a <b> <*|end|><*s>");
        assert_eq!(shown("1 < 2"), "1 < 2");
    }

    #[test]
    fn the_edges_of_a_text_are_marked_where_half_a_token_stands() {
        let shown = |text| shown(text, Guarding::Precise);
        assert_eq!(shown("hello <|en"), "hello <*|en");
        assert_eq!(shown("d|> hello"), "*d|> hello");
        assert_eq!(shown("1 <"), "1 <*");
    }

    #[test]
    fn thorough_marks_every_beginning_and_may_spare_tags() {
        assert_eq!(shown("a <b> [x]", Guarding::Thorough), "a <*b> [*x]");
        let spared = "</think> <a_1> <*a b> <*> <*/> <*s> <*<b>|end|>";
        assert_eq!(shown(&spared.replace('*', ""), Guarding::ThoroughButTags), spared);
    }

    #[test]
    fn taking_the_marks_gives_the_text_and_their_places() {
        assert_eq!(take_marks("a<*b*", '*'), ("a<b".to_owned(), vec![2, 3]));
        assert_eq!(take_marks("", '*'), (String::new(), vec![]));
    }
}
