//! A call in a notation that is nearly JSON, read while it is written.
//!
//! Gemma 4 writes `call:name{key:<|"|>text<|"|>,other:[1,true]}`, LFM2 `name(key='text', other=[1,
//! True])` as in Python. The reader follows strings and brackets, and hands on what they say as
//! JSON. JSON itself is such a notation too.

use super::call::{Name, Piece, Step};
use super::possible;

/// Gemma's quotation mark, at both ends of a text.
const QUOTE: &str = "<|\"|>";

/// A key that is longer is none, and the call is over.
const KEY_BYTES_MAX: usize = 4 << 10;

/// Reads one call.
#[derive(Debug)]
pub(super) struct Loose {
    /// Before the name, and the bracket behind it.
    name: [&'static str; 2],
    place: Place,
    open: Vec<Open>,
}

/// A bracket that is open, and whether something stands in it.
#[derive(Debug, Clone, Copy)]
struct Open {
    kind: Kind,
    any: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Keys and values, the keys followed by this.
    Keyed(char),
    List,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Name,
    /// Before a key, a value of a list, or the end of a bracket.
    Item,
    /// Before a value.
    Value,
    Text(Quote),
}

/// What a text began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quote {
    Gemma,
    /// With escapes as in JSON and Python.
    Usual(char),
}

/// How far one step came.
enum Went {
    On,
    /// More text is needed.
    Stuck,
    Over,
}

/// A piece of the text at hand, and what was made of it.
struct Work<'a> {
    text: &'a str,
    at: usize,
    out: String,
    is_last: bool,
}

impl Loose {
    /// `call:name{…}`
    pub(super) fn gemma() -> Self {
        Self::of(["call:", "{"])
    }

    /// `name(…)`, perhaps the first of a list.
    pub(super) fn python() -> Self {
        Self::of(["", "("])
    }

    fn of(name: [&'static str; 2]) -> Self {
        Self { name, place: Place::Name, open: Vec::new() }
    }

    pub(super) fn is_named(&self) -> bool {
        !matches!(self.place, Place::Name)
    }

    /// Reads on; what was understood is gone from `held`. `None`: it is no call, and `held` is as it
    /// was.
    pub(super) fn read(
        &mut self,
        held: &mut String,
        names: &[String],
        over: bool,
        tell: &mut impl FnMut(Piece),
    ) -> Option<Step> {
        if matches!(self.place, Place::Name)
            && let Some(step) = self.name(held, names, tell)?
        {
            return Some(step);
        }
        let mut work = Work { text: held, at: 0, out: String::new(), is_last: over };
        let went = loop {
            match self.go_on(&mut work) {
                Went::On => {}
                went => break went,
            }
        };
        let (at, out) = (work.at, work.out);
        held.drain(..at);
        if !out.is_empty() {
            tell(Piece::Arguments(out));
        }
        Some(if matches!(went, Went::Over) { Step::Done } else { Step::More })
    }

    /// `None` at the outside: no call; inside: go on.
    #[expect(clippy::option_option, reason = "three outcomes, each with its own `?`")]
    fn name(
        &mut self,
        held: &mut String,
        names: &[String],
        tell: &mut impl FnMut(Piece),
    ) -> Option<Option<Step>> {
        let [before, bracket] = self.name;
        let trimmed = held.trim_start();
        let trimmed =
            if before.is_empty() { trimmed.trim_start_matches(['[', ' ']) } else { trimmed };
        let Some(rest) = trimmed.strip_prefix(before) else {
            return before.starts_with(trimmed).then_some(Some(Step::More));
        };
        let (name, at) = match Name::read(rest, &[bracket], names) {
            Name::Incomplete => return Some(Some(Step::More)),
            Name::Unknown => return None,
            Name::Known { name, at, .. } => (name.to_owned(), at),
        };
        tell(Piece::Name(name));
        tell(Piece::Arguments("{".to_owned()));
        let gone = held.len() - rest.len() + at + bracket.len();
        held.drain(..gone);
        let separator = if bracket == "(" { '=' } else { ':' };
        self.open.push(Open { kind: Kind::Keyed(separator), any: false });
        self.place = Place::Item;
        Some(None)
    }

    fn go_on(&mut self, work: &mut Work<'_>) -> Went {
        match self.place {
            Place::Name => Went::Over,
            Place::Item => self.item(work),
            Place::Value => self.value(work),
            Place::Text(quote) => self.text(quote, work),
        }
    }

    fn item(&mut self, work: &mut Work<'_>) -> Went {
        let white = |c: char| c.is_whitespace() || c == ',';
        work.skip(white);
        let Some(open) = self.open.last().copied() else { return Went::Over };
        let Some(first) = work.rest().chars().next() else { return Went::Stuck };
        if matches!(first, '}' | ']' | ')') {
            work.at += 1;
            work.out.push(if open.kind == Kind::List { ']' } else { '}' });
            self.open.pop();
            return if self.open.is_empty() { Went::Over } else { Went::On };
        }
        let Kind::Keyed(separator) = open.kind else {
            self.comma(work);
            self.place = Place::Value;
            return Went::On;
        };
        let rest = work.rest();
        // A key in quotation marks may hold a separator.
        let quote = [QUOTE, "\"", "'"].into_iter().find(|quote| rest.starts_with(quote));
        let behind = match quote {
            Some(quote) => rest[quote.len()..].find(quote).map(|at| at + 2 * quote.len()),
            None => Some(0),
        };
        let end = behind.and_then(|behind| Some(behind + rest[behind..].find(separator)?));
        let Some(end) = end else {
            return if rest.len() > KEY_BYTES_MAX { Went::Over } else { Went::Stuck };
        };
        let key = rest[..end].trim();
        let inside = quote.and_then(|quote| key.strip_prefix(quote)?.strip_suffix(quote));
        let key = inside.unwrap_or(key);
        self.comma(work);
        work.out.push_str(&quoted(key));
        work.out.push_str(": ");
        work.at += end + separator.len_utf8();
        self.place = Place::Value;
        Went::On
    }

    fn value(&mut self, work: &mut Work<'_>) -> Went {
        work.skip(char::is_whitespace);
        let rest = work.rest();
        let Some(first) = rest.chars().next() else { return Went::Stuck };
        if QUOTE.starts_with(rest) && rest != QUOTE && !work.is_last {
            return Went::Stuck;
        }
        let (length, quote) = match first {
            '<' if rest.starts_with(QUOTE) => (QUOTE.len(), Quote::Gemma),
            '"' | '\'' => (1, Quote::Usual(first)),
            '{' => return self.open(Kind::Keyed(':'), work),
            '[' | '(' => return self.open(Kind::List, work),
            _ => return self.plain(work),
        };
        work.at += length;
        work.out.push('"');
        self.place = Place::Text(quote);
        Went::On
    }

    fn open(&mut self, kind: Kind, work: &mut Work<'_>) -> Went {
        work.at += 1;
        work.out.push(if kind == Kind::List { '[' } else { '{' });
        self.open.push(Open { kind, any: false });
        self.place = Place::Item;
        Went::On
    }

    /// A number, a word, or a text that nobody quoted.
    fn plain(&mut self, work: &mut Work<'_>) -> Went {
        let rest = work.rest();
        let Some(end) = rest.find([',', '}', ']', ')']) else { return Went::Stuck };
        let value = rest[..end].trim();
        work.out.push_str(&literal(value).unwrap_or_else(|| quoted(value)));
        work.at += end;
        self.place = Place::Item;
        Went::On
    }

    fn text(&mut self, quote: Quote, work: &mut Work<'_>) -> Went {
        let rest = work.rest();
        let Quote::Usual(mark) = quote else {
            let end = rest.find(QUOTE);
            let known = end.unwrap_or_else(|| rest.len() - possible(rest, &[QUOTE]));
            work.out.push_str(&escaped(&rest[..known]));
            work.at += known;
            if end.is_none() {
                return Went::Stuck;
            }
            work.at += QUOTE.len();
            return self.text_ends(work);
        };
        let mut letters = rest.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            let behind = at + letter.len_utf8();
            match letter {
                '\\' => {
                    let Some((next_at, next)) = letters.next() else { return work.stop_at(at) };
                    work.out.push_str(&unescaped(next));
                    work.at += next_at + next.len_utf8();
                    return Went::On;
                }
                // LFM2's own template writes quotation marks inside a text as they are.
                _ if letter == mark => match rest[behind..].trim_start().chars().next() {
                    None if !work.is_last => return work.stop_at(at),
                    None | Some(',' | ')' | ']' | '}' | ':') => {
                        work.at += behind;
                        return self.text_ends(work);
                    }
                    Some(_) => work.out.push_str(&escaped(&rest[at..behind])),
                },
                _ => work.out.push_str(&escaped(&rest[at..behind])),
            }
            if letters.peek().is_none() {
                return work.stop_at(behind);
            }
        }
        Went::Stuck
    }

    fn text_ends(&mut self, work: &mut Work<'_>) -> Went {
        work.out.push('"');
        self.place = Place::Item;
        Went::On
    }

    fn comma(&mut self, work: &mut Work<'_>) {
        if let Some(open) = self.open.last_mut() {
            if open.any {
                work.out.push_str(", ");
            }
            open.any = true;
        }
    }
}

impl<'a> Work<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self, what: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(what).len();
    }

    /// What stands before byte `more` of the rest was taken; the rest waits.
    fn stop_at(&mut self, more: usize) -> Went {
        self.at += more;
        Went::Stuck
    }
}

/// A text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The inside of such a string.
pub(super) fn escaped(text: &str) -> String {
    let quoted = quoted(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// A number or a word of JSON or Python, as JSON.
pub(super) fn literal(text: &str) -> Option<String> {
    match text {
        "True" => Some("true".to_owned()),
        "False" => Some("false".to_owned()),
        "None" => Some("null".to_owned()),
        _ => serde_json::from_str::<serde_json::Value>(text).ok().map(|_| text.to_owned()),
    }
}

/// What a letter behind a backslash stands for, inside a JSON string.
fn unescaped(letter: char) -> String {
    match letter {
        'n' | 't' | 'r' | 'b' | 'f' | 'u' | '\\' | '"' => format!("\\{letter}"),
        other => escaped(&other.to_string()),
    }
}
