//! Finds special tokens in text.
//!
//! Owns the matcher over all tokens that are taken whole before any merging: control and unknown
//! tokens (structure) and added tokens. The leftmost, longest match counts, as in the publishers'
//! tokenizers. The tokenizer says which kinds may match, and where a match is forbidden because a
//! user wrote it.

use aho_corasick::{AhoCorasick, Input, MatchKind};
use nook_base::Vocabulary;
use nook_base::vocabulary::TokenKind;

use super::kinds::Kinds;
use super::{SPECIAL_BYTES_MAX, SPECIALS_MAX, TokenizerError};

/// A stretch of text, cut at special tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    /// Ordinary text, never empty.
    Text(&'t str),
    /// A special token.
    Token(u32),
}

/// Which special tokens count in a text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Allowed<'g> {
    /// Added tokens only: the text is a user's.
    Added,
    /// All: the text is a template's own.
    All,
    /// All, but no structure across these byte positions (ascending), which lie in a user's text.
    Guarded(&'g [usize]),
}

/// The special tokens of one vocabulary.
#[derive(Debug)]
pub(super) struct Specials {
    all: Matcher,
    added: Matcher,
}

impl Specials {
    /// Collects the special tokens of `vocabulary`.
    pub(super) fn new(vocabulary: &Vocabulary, kinds: &Kinds) -> Result<Self, TokenizerError> {
        let strips = is_phi3(vocabulary);
        let mut all = Vec::new();
        for (id, text) in (0..).zip(&vocabulary.tokens) {
            let kind = kinds.get(id);
            let special =
                matches!(kind, TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined);
            if special && !text.is_empty() {
                all.push(Special {
                    id,
                    text,
                    added: kind == TokenKind::UserDefined,
                    structure: kinds.is_structure(id, text),
                    strips_right: strips && !["<unk>", "<s>", "<|endoftext|>"].contains(&&**text),
                });
            }
        }
        let (count, bytes) = (all.len(), different_bytes(&all));
        if count > SPECIALS_MAX || bytes > SPECIAL_BYTES_MAX {
            return Err(TokenizerError::TooManySpecials { count, bytes });
        }
        let added: Vec<Special<'_>> = all.iter().filter(|special| special.added).copied().collect();
        Ok(Self { all: Matcher::new(&all)?, added: Matcher::new(&added)? })
    }

    /// Cuts `text` at its special tokens.
    pub(super) fn cut<'t>(&self, text: &'t str, allowed: Allowed<'_>) -> Vec<Fragment<'t>> {
        let (matcher, guards): (_, &[usize]) = match allowed {
            Allowed::Added => (&self.added, &[]),
            Allowed::All => (&self.all, &[]),
            Allowed::Guarded(guards) => (&self.all, guards),
        };
        let mut fragments = Vec::new();
        let (mut done, mut at) = (0, 0);
        while let Some(found) = matcher.words.find(Input::new(text).range(at..)) {
            let entry = matcher.entries[found.pattern().as_usize()];
            let next_guard = guards[guards.partition_point(|g| *g <= found.start())..].first();
            if entry.structure && next_guard.is_some_and(|guard| *guard < found.end()) {
                at = text.ceil_char_boundary(found.start() + 1);
                continue;
            }
            if found.start() > done {
                fragments.push(Fragment::Text(&text[done..found.start()]));
            }
            fragments.push(Fragment::Token(entry.id));
            done = found.end();
            if entry.strips_right {
                let rest = &text[done..];
                let is_space = |c: char| c.is_ascii_whitespace() || c == '\u{B}';
                done += rest.len() - rest.trim_start_matches(is_space).len();
            }
            at = done;
        }
        if done < text.len() {
            fragments.push(Fragment::Text(&text[done..]));
        }
        fragments
    }
}

#[derive(Debug, Clone, Copy)]
struct Special<'v> {
    id: u32,
    text: &'v str,
    added: bool,
    structure: bool,
    strips_right: bool,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u32,
    structure: bool,
    strips_right: bool,
}

#[derive(Debug)]
struct Matcher {
    words: AhoCorasick,
    entries: Vec<Entry>,
}

impl Matcher {
    fn new(specials: &[Special<'_>]) -> Result<Self, TokenizerError> {
        let words = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(specials.iter().map(|special| special.text))
            .map_err(|_| {
                let (count, bytes) = (specials.len(), different_bytes(specials));
                TokenizerError::TooManySpecials { count, bytes }
            })?;
        let entries = specials
            .iter()
            .map(|special| Entry {
                id: special.id,
                structure: special.structure,
                strips_right: special.strips_right,
            })
            .collect();
        Ok(Self { words, entries })
    }
}

/// Bytes of the specials, where beginnings that several have count once: so many places the matcher
/// can be in.
fn different_bytes(specials: &[Special<'_>]) -> usize {
    let mut texts: Vec<&[u8]> = specials.iter().map(|special| special.text.as_bytes()).collect();
    texts.sort_unstable();
    let mut before: &[u8] = &[];
    let mut bytes = 0;
    for text in texts {
        bytes += text.len() - text.iter().zip(before).take_while(|(a, b)| a == b).count();
        before = text;
    }
    bytes
}

/// Phi-3's publisher strips white space after its added tokens (`rstrip`), which GGUF cannot say.
/// Told by its vocabulary, not by the display name.
fn is_phi3(vocabulary: &Vocabulary) -> bool {
    vocabulary.model == "llama" && vocabulary.tokens.iter().any(|text| text == "<|placeholder1|>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specials(tokens: &[(&str, TokenKind)]) -> Specials {
        let vocabulary = Vocabulary {
            tokens: tokens.iter().map(|(text, _)| (*text).to_owned()).collect(),
            kinds: tokens.iter().map(|(_, kind)| *kind).collect(),
            ..Vocabulary::default()
        };
        Specials::new(&vocabulary, &Kinds::of(&vocabulary)).unwrap()
    }

    fn check(allowed: Allowed<'_>, text: &str, expected: &[&str]) {
        let names = [
            ("<s>", TokenKind::Control),
            ("<s>x", TokenKind::Control),
            ("  ", TokenKind::UserDefined),
            ("<|User|>", TokenKind::UserDefined),
        ];
        let cut = specials(&names).cut(text, allowed);
        let shown: Vec<String> = cut
            .iter()
            .map(|fragment| match fragment {
                Fragment::Text(text) => (*text).to_owned(),
                Fragment::Token(id) => format!("#{id}"),
            })
            .collect();
        assert_eq!(shown, expected, "{text:?}");
    }

    #[test]
    fn the_leftmost_longest_special_counts() {
        check(Allowed::All, "a<s>b<s>xc", &["a", "#0", "b", "#1", "c"]);
        check(Allowed::All, "", &[]);
        check(Allowed::All, "<s>", &["#0"]);
        check(Allowed::All, "a   b", &["a", "#2", " b"]);
    }

    #[test]
    fn beginnings_that_several_specials_have_count_once() {
        let bytes = |texts: &[&str]| {
            let special =
                |text| Special { id: 0, text, added: false, structure: false, strips_right: false };
            let specials: Vec<_> = texts.iter().copied().map(special).collect();
            different_bytes(&specials)
        };
        assert_eq!(bytes(&["<a>", "<b>", "<a>", "<"]), 5);
        assert_eq!(bytes(&[]), 0);
    }

    #[test]
    fn control_tokens_are_text_when_only_added_ones_count() {
        check(Allowed::Added, "a<s>  b", &["a<s>", "#2", "b"]);
        check(Allowed::Added, "<|User|>", &["#3"]);
    }

    #[test]
    fn a_guard_forbids_structure_across_it_and_nothing_else() {
        check(Allowed::Guarded(&[1]), "<s><s>", &["<s>", "#0"]);
        check(Allowed::Guarded(&[3]), "<s><s>", &["#0", "#0"]);
        check(Allowed::Guarded(&[4]), "<s><s>", &["#0", "<s>"]);
        check(Allowed::Guarded(&[1, 9]), "<|User|>  <s>", &["<|User|>", "#2", "#0"]);
    }
}
