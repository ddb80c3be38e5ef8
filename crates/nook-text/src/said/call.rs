//! One call of a tool, read while it is written.
//!
//! Models write `{"name": …, "arguments": {…}}`; the newer Mistral ones `name[ARGS]{…}`; others have
//! notations of their own ([`super::tagged`], [`super::loose`]), and are understood where they write
//! JSON instead, as they do where a call is forced. The
//! reader finds the name first, then hands the arguments on as they grow. It forgives what models
//! get wrong: another order of keys, `parameters` for `arguments`, arguments as a string with JSON
//! inside, none at all, and a call whose last brace is missing.

use nook_base::Sensitive;
use serde_json::{Map, Value};

use super::loose::Loose;
use super::tagged::Tagged;
use super::{ReplyForm, Said, first_of, possible};
use crate::tools::ToolForm;

/// A call whose name has not come after so many bytes is none.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What stands behind the name in the newer Mistral form.
const MISTRAL_ARGUMENTS: &str = "[ARGS]";

/// What stands between name and arguments where the model names its calls.
const MISTRAL_ID: &str = "[CALL_ID]";

/// A piece of a call.
#[derive(Debug)]
pub(super) enum Piece {
    Name(String),
    Arguments(String),
}

/// What the reader needs next.
#[derive(Debug)]
pub(super) enum Step {
    /// More text.
    More,
    /// Nothing: the call is complete, as far as the reply has it.
    Done,
    /// It is no call; this much of the reply is text.
    NoCall { text: String },
}

/// A name that has not come after so many bytes does not come.
const NAME_BYTES_MAX: usize = 1 << 10;

/// The name of a tool, in the notations that are no JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Name<'a> {
    /// Its end has not come.
    Incomplete,
    /// No tool that was offered is called so.
    Unknown,
    Known {
        name: &'a str,
        /// Where its end begins.
        at: usize,
        end: &'static str,
    },
}

impl<'a> Name<'a> {
    /// Reads a name up to the first of `ends`.
    pub(super) fn read(text: &'a str, ends: &[&'static str], names: &[String]) -> Self {
        let Some((at, end)) = first_of(text, ends) else {
            let begun = text[..text.len() - possible(text, ends)].trim();
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            let may_come = text.len() <= NAME_BYTES_MAX && begun.chars().all(plain);
            return if may_come { Self::Incomplete } else { Self::Unknown };
        };
        let name = text[..at].trim();
        match names.iter().any(|known| known == name) {
            true => Self::Known { name, at, end },
            false => Self::Unknown,
        }
    }
}

/// Reads one call.
#[derive(Debug)]
pub(super) struct CallReader {
    form: ToolForm,
    /// White space and mark before the call, should it turn out to be text.
    before: Sensitive<String>,
    scan: Scan,
    state: State,
}

/// A notation that is no JSON.
#[derive(Debug)]
enum Notation {
    Tagged(Tagged),
    Loose(Loose),
}

#[derive(Debug)]
enum State {
    /// Whether it is JSON is not known yet.
    Open,
    /// It is none.
    Other(Notation),
    /// The name is not known yet.
    Head,
    /// Arguments grow; `sent` bytes of the text are handed on, `depth` is that of their end.
    Arguments { sent: usize, depth: usize },
    /// Everything was handed on; the call's own brace, which closes below `depth`, is open.
    Rest { depth: usize },
}

/// Follows braces and strings of a JSON text.
#[derive(Debug, Default)]
struct Scan {
    read: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

/// What the beginning of a call says.
enum Head {
    Incomplete,
    NoCall,
    /// The arguments are an object that begins at this byte.
    Open {
        name: String,
        at: usize,
    },
    /// The call is all there; its object ends before this byte.
    Whole {
        name: String,
        arguments: String,
        end: usize,
    },
}

impl Piece {
    pub(super) fn into_said(self, index: usize) -> Said {
        match self {
            Self::Name(name) => Said::Call { index, name },
            Self::Arguments(text) => Said::Arguments { index, text },
        }
    }
}

impl CallReader {
    pub(super) fn new(form: ToolForm, before: String) -> Self {
        Self { form, before: before.into(), scan: Scan::default(), state: State::begin(form) }
    }

    /// Whether a mark stood before it, which nothing but a call follows.
    pub(super) fn has_mark(&self) -> bool {
        !self.before.trim().is_empty()
    }

    /// Reads from `held`, which it leaves alone until the call is over and then cuts.
    pub(super) fn read(
        &mut self,
        held: &mut String,
        reply: &ReplyForm,
        over: bool,
        tell: &mut impl FnMut(Piece),
    ) -> Step {
        let names = &reply.names;
        if matches!(self.state, State::Open) {
            // A list of calls in JSON begins with a bracket, and so does one in Python's notation.
            let first = held.trim_start_matches(|c: char| c == '[' || c.is_whitespace());
            match (first.chars().next(), Notation::of(self.form)) {
                (None, _) if over => return self.no_call(held),
                (None, _) => return Step::More,
                (Some('{'), _) | (_, None) => self.state = State::Head,
                (Some(_), Some(notation)) => self.state = State::Other(notation),
            }
        }
        if let State::Other(notation) = &mut self.state {
            let step = notation.read(held, reply, over, tell);
            let is_named = notation.is_named();
            return match step {
                Some(Step::More) if over && is_named => {
                    held.clear();
                    Step::Done
                }
                Some(Step::More) if over => self.no_call(held),
                Some(step) => step,
                None => self.no_call(held),
            };
        }
        if matches!(self.state, State::Head) {
            match head(held, self.form) {
                Head::Incomplete if !over && held.len() <= HEAD_BYTES_MAX => return Step::More,
                Head::Open { name, at } if names.contains(&name) => {
                    tell(Piece::Name(name));
                    self.scan.advance_to(held, at);
                    self.state = State::Arguments { sent: at, depth: self.scan.depth };
                }
                Head::Whole { name, arguments, end } if names.contains(&name) => {
                    tell(Piece::Name(name));
                    tell(Piece::Arguments(arguments));
                    held.drain(..end);
                    return Step::Done;
                }
                _ => return self.no_call(held),
            }
        }
        self.go_through(held, over, tell)
    }

    fn go_through(&mut self, held: &mut String, over: bool, tell: &mut impl FnMut(Piece)) -> Step {
        while let Some(byte) = self.scan.next(held) {
            let here = self.scan.read;
            let closing = byte == b'}' && !self.scan.in_string;
            // No JSON has this outside a string: the model forgot its braces.
            let broken = byte == b'<' && !self.scan.in_string;
            let end = if broken { here - 1 } else { here };
            if let State::Arguments { sent, depth } = self.state
                && (broken || (closing && self.scan.depth == depth))
            {
                tell(Piece::Arguments(held[sent..end].trim_end().to_owned()));
                self.state = State::Rest { depth };
                if broken || self.form == ToolForm::MistralNamed {
                    held.drain(..end);
                    return Step::Done;
                }
                continue;
            }
            if let State::Rest { depth } = self.state
                && (broken || (closing && self.scan.depth < depth))
            {
                held.drain(..end);
                return Step::Done;
            }
        }
        if let State::Arguments { sent, depth } = self.state {
            // White space behind a value is the call's only when more of the call follows.
            let known = if self.scan.in_string { held.len() } else { held.trim_end().len() };
            if known > sent {
                tell(Piece::Arguments(held[sent..known].to_owned()));
            }
            self.state = State::Arguments { sent: known.max(sent), depth };
        }
        if over {
            held.clear();
            return Step::Done;
        }
        Step::More
    }

    fn no_call(&mut self, held: &mut String) -> Step {
        let mut text = std::mem::take(&mut self.before.0);
        // What made it look like a call goes along, or it would be found again.
        let first = held.chars().next().map_or(0, char::len_utf8);
        let rest = held.split_off(first);
        text.push_str(&std::mem::replace(held, rest));
        Step::NoCall { text }
    }
}

impl State {
    fn begin(form: ToolForm) -> Self {
        if Notation::of(form).is_some() { Self::Open } else { Self::Head }
    }
}

impl Notation {
    fn of(form: ToolForm) -> Option<Self> {
        match form {
            ToolForm::Functions => Some(Self::Tagged(Tagged::functions())),
            ToolForm::Keys => Some(Self::Tagged(Tagged::keys())),
            ToolForm::Gemma => Some(Self::Loose(Loose::gemma())),
            ToolForm::Python => Some(Self::Loose(Loose::python())),
            ToolForm::Hermes
            | ToolForm::Llama
            | ToolForm::Mistral
            | ToolForm::MistralNamed
            | ToolForm::Harmony => None,
        }
    }

    /// Whether its name was told.
    fn is_named(&self) -> bool {
        match self {
            Self::Tagged(tagged) => tagged.is_named(),
            Self::Loose(loose) => loose.is_named(),
        }
    }

    /// As [`CallReader::read`]; `None` where it is no call.
    fn read(
        &mut self,
        held: &mut String,
        reply: &ReplyForm,
        over: bool,
        tell: &mut impl FnMut(Piece),
    ) -> Option<Step> {
        let is_text = |tool: &str, key: &str| {
            reply.texts.iter().any(|(its, parameter)| its == tool && parameter == key)
        };
        match self {
            Self::Tagged(tagged) => tagged.read(held, &reply.names, is_text, tell),
            Self::Loose(loose) => loose.read(held, &reply.names, over, tell),
        }
    }
}

impl Scan {
    /// Takes the next byte of `text` into account.
    fn next(&mut self, text: &str) -> Option<u8> {
        let byte = *text.as_bytes().get(self.read)?;
        self.read += 1;
        if self.in_string {
            match (self.escaped, byte) {
                (true, _) => self.escaped = false,
                (false, b'\\') => self.escaped = true,
                (false, b'"') => self.in_string = false,
                _ => {}
            }
            return Some(byte);
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        Some(byte)
    }

    /// Takes everything before byte `at` into account.
    fn advance_to(&mut self, text: &str, at: usize) {
        while self.read < at && self.next(text).is_some() {}
    }
}

fn head(held: &str, form: ToolForm) -> Head {
    match form {
        ToolForm::MistralNamed => named_head(held),
        _ => object_head(held),
    }
}

/// `name[ARGS]{…}` or `name{…}`.
fn named_head(held: &str) -> Head {
    let Some(brace) = held.find('{') else {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.[] \n".contains(c);
        return if held.chars().all(plain) { Head::Incomplete } else { Head::NoCall };
    };
    let before = &held[..brace];
    let name = before.split(MISTRAL_ARGUMENTS).next().unwrap_or_default();
    let name = name.split(MISTRAL_ID).next().unwrap_or_default().trim();
    Head::Open { name: name.to_owned(), at: brace }
}

/// `{"name": …, "arguments": …}` in any order.
fn object_head(held: &str) -> Head {
    let white = |at: usize| at + (held[at..].len() - held[at..].trim_start().len());
    let mut at = white(0);
    // The older Mistral form is a list of calls.
    if held[at..].starts_with('[') {
        at = white(at + 1);
    }
    if at == held.len() {
        return Head::Incomplete;
    }
    if !held[at..].starts_with('{') {
        return Head::NoCall;
    }
    at = white(at + 1);
    let mut found = Map::new();
    loop {
        if held[at..].starts_with('}') {
            return whole(found, at + 1);
        }
        let key = match value_at(held, at) {
            Next::Value(Value::String(key), end) => {
                at = white(end);
                key
            }
            Next::Value(..) | Next::Broken => return Head::NoCall,
            Next::Incomplete => return Head::Incomplete,
        };
        match held[at..].strip_prefix(':') {
            Some(_) => at = white(at + 1),
            None if at == held.len() => return Head::Incomplete,
            None => return Head::NoCall,
        }
        let name = found.get("name").and_then(Value::as_str);
        if let (Some(name), true, true) = (name, is_arguments(&key), held[at..].starts_with('{')) {
            return Head::Open { name: name.to_owned(), at };
        }
        match value_at(held, at) {
            Next::Value(value, end) => {
                found.insert(key, value);
                at = white(end);
            }
            Next::Incomplete => return Head::Incomplete,
            Next::Broken => return Head::NoCall,
        }
        match held.as_bytes().get(at) {
            Some(b',') => at = white(at + 1),
            Some(b'}') => {}
            Some(_) => return Head::NoCall,
            None => return Head::Incomplete,
        }
    }
}

fn is_arguments(key: &str) -> bool {
    matches!(key, "arguments" | "parameters")
}

/// A call that is all there.
fn whole(mut found: Map<String, Value>, end: usize) -> Head {
    // Some models write OpenAI's own nesting.
    if let Some(Value::Object(inner)) = found.remove("function") {
        found = inner;
    }
    let Some(Value::String(name)) = found.get("name") else { return Head::NoCall };
    let arguments = found.get("arguments").or_else(|| found.get("parameters"));
    let arguments = match arguments {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) if text.trim_start().starts_with('{') => text.clone(),
        Some(Value::String(text)) if text.trim().is_empty() => "{}".to_owned(),
        Some(other) => other.to_string(),
    };
    Head::Whole { name: name.clone(), arguments, end }
}

enum Next {
    Value(Value, usize),
    Incomplete,
    Broken,
}

/// The JSON value at byte `at`, and where it ends.
fn value_at(held: &str, at: usize) -> Next {
    let mut values = serde_json::Deserializer::from_str(&held[at..]).into_iter::<Value>();
    match values.next() {
        // A number at the very end may go on.
        Some(Ok(Value::Number(_))) if at + values.byte_offset() == held.len() => Next::Incomplete,
        Some(Ok(value)) => Next::Value(value, at + values.byte_offset()),
        Some(Err(error)) if error.is_eof() => Next::Incomplete,
        Some(Err(_)) => Next::Broken,
        None => Next::Incomplete,
    }
}
