//! The two models that turn plain text into ids: byte-level BPE and SentencePiece BPE.
//!
//! Owns the lookup tables of one vocabulary. [`super::Tokenizer`] hands over stretches of text in
//! which no special token is left; nothing here can produce a control token, because control
//! tokens are in no table.
//!
//! The `tokenizers` crate is not used: it reads `tokenizer.json`, which a GGUF file does not have,
//! and its BPE cannot express the equal scores of SentencePiece. One merge loop serves both here.

use std::cell::LazyCell;

use foldhash::{HashMap, HashMapExt, HashSet};
use nook_base::Vocabulary;
use nook_base::vocabulary::TokenKind;

use super::bytes::{byte_of_token, char_of_byte};
use super::kinds::Kinds;
use super::merge::{Join, Symbol, merge};
use super::split::{Recipe, Splitter};
use super::{EncodeError, TokenizerError, within};

/// Token texts that ordinary text may become, and their ids. Equal texts: the lowest id counts.
type Ids = HashMap<Box<str>, u32>;

fn ids_of_text(vocabulary: &Vocabulary, kinds: &Kinds) -> Ids {
    let mut ids = Ids::with_capacity(vocabulary.tokens.len());
    for (id, text) in (0..).zip(&vocabulary.tokens) {
        let is_text =
            matches!(kinds.get(id), TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused);
        if is_text && !text.is_empty() {
            ids.entry(text.as_str().into()).or_insert(id);
        }
    }
    ids
}

fn ids_of_bytes(vocabulary: &Vocabulary, kinds: &Kinds) -> [Option<u32>; 256] {
    let mut ids = [None; 256];
    for (id, text) in (0..).zip(&vocabulary.tokens) {
        if kinds.get(id) == TokenKind::Byte
            && let Some(byte) = byte_of_token(text)
        {
            ids[usize::from(byte)].get_or_insert(id);
        }
    }
    ids
}

/// Bytes of the longest token that text may become, as `bytes` counts those of a token.
fn longest(ids: &Ids, bytes: impl Fn(&str) -> usize) -> usize {
    ids.keys().map(|text| bytes(text)).max().unwrap_or_default()
}

/// So many bytes a text has once its spaces are `▁`.
fn escaped_len(text: &str) -> usize {
    text.len() + text.bytes().filter(|byte| *byte == b' ').count() * ('▁'.len_utf8() - 1)
}

/// Bytes of the longest character. One that has no token of its own may become one unknown token.
const CHARACTER_BYTES_MAX: usize = 4;

/// How a BPE vocabulary spells text that has no token of its own.
#[derive(Debug)]
enum Alphabet {
    /// Byte-level: one character for each byte; by byte, the id of that character.
    Bytes([Option<u32>; 256]),
    /// Plain UTF-8 with `▁` for a space; by byte, the id of `<0xAB>` (Gemma 4).
    Utf8([Option<u32>; 256]),
}

/// Byte-level BPE (`gpt2`), and Gemma 4's relative of it.
#[derive(Debug)]
pub(super) struct Bpe {
    splitter: Splitter,
    alphabet: Alphabet,
    whole_words: bool,
    ids: Ids,
    merges: Merges,
    /// Most bytes of a text, in the spelling of the alphabet, that one id stands for.
    bytes_max: usize,
}

impl Bpe {
    /// Builds the tables of a vocabulary whose pre-tokenizer is `recipe`.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        kinds: &Kinds,
        recipe: &Recipe,
    ) -> Result<Self, TokenizerError> {
        let ids = ids_of_text(vocabulary, kinds);
        let merges = read_merges(vocabulary, &ids)?;
        let alphabet = if recipe.raw_utf8 {
            Alphabet::Utf8(ids_of_bytes(vocabulary, kinds))
        } else {
            let mut table = [None; 256];
            for (byte, slot) in (0..=255).zip(&mut table) {
                *slot = ids.get(char_of_byte(byte).encode_utf8(&mut [0; 4]) as &str).copied();
            }
            Alphabet::Bytes(table)
        };
        let bytes_max = match alphabet {
            // One character of a token is one byte of the text.
            Alphabet::Bytes(_) => longest(&ids, |text| text.chars().count()).max(1),
            Alphabet::Utf8(_) => longest(&ids, str::len).max(CHARACTER_BYTES_MAX),
        };
        let (splitter, whole_words) = (Splitter::new(recipe), recipe.whole_words);
        Ok(Self { splitter, alphabet, whole_words, ids, merges, bytes_max })
    }

    /// So many ids `text` has at least: each of its bytes belongs to one, and to the longest token
    /// belong only so many.
    pub(super) fn least(&self, text: &str) -> usize {
        let bytes = match self.alphabet {
            Alphabet::Bytes(_) => text.len(),
            Alphabet::Utf8(_) => escaped_len(text),
        };
        bytes.div_ceil(self.bytes_max)
    }

    /// Appends the ids of `text`; stops once there are more than `most` with those before them.
    pub(super) fn encode(
        &self,
        text: &str,
        most: usize,
        ids: &mut Vec<u32>,
    ) -> Result<(), EncodeError> {
        let escaped;
        let text = match self.alphabet {
            Alphabet::Bytes(_) => text,
            Alphabet::Utf8(_) => {
                escaped = text.replace(' ', "▁");
                &escaped
            }
        };
        let mut symbols = Vec::new();
        self.splitter.split(text, &mut |word| {
            within(most, ids)?;
            self.encode_word(word, &mut symbols, ids)
        })
    }

    fn encode_word(
        &self,
        word: &str,
        symbols: &mut Vec<Symbol>,
        ids: &mut Vec<u32>,
    ) -> Result<(), EncodeError> {
        if let Some(id) = self.whole_word(word) {
            ids.push(id);
            return Ok(());
        }
        symbols.clear();
        match &self.alphabet {
            Alphabet::Bytes(table) => {
                symbols.extend(word.bytes().enumerate().map(|(start, byte)| Symbol {
                    start,
                    end: start + 1,
                    id: table[usize::from(byte)],
                }));
            }
            Alphabet::Utf8(_) => symbols.extend(characters(word, &self.ids)),
        }
        merge(symbols, |left, right| {
            let (rank, id) = *self.merges.get(&(left.id?, right.id?))?;
            Some(Join { rank, id })
        });
        for symbol in symbols.iter() {
            match (symbol.id, &self.alphabet) {
                (Some(id), _) => ids.push(id),
                (None, Alphabet::Bytes(_)) => {
                    return Err(EncodeError::NoToken { byte: word.as_bytes()[symbol.start] });
                }
                (None, Alphabet::Utf8(bytes)) => {
                    spell(&word.as_bytes()[symbol.start..symbol.end], bytes, None, ids)?;
                }
            }
        }
        Ok(())
    }

    /// The token that is this whole word, where the vocabulary prefers it to its merges.
    fn whole_word(&self, word: &str) -> Option<u32> {
        match self.alphabet {
            Alphabet::Bytes(_) if self.whole_words => {
                let mapped: String = word.bytes().map(char_of_byte).collect();
                self.ids.get(mapped.as_str()).copied()
            }
            // Gemma 4 has tokens for runs of newlines that its merges do not reach
            // (llama.cpp, pull request 21343).
            Alphabet::Utf8(_) if word.bytes().all(|byte| byte == b'\n') => {
                self.ids.get(word).copied()
            }
            Alphabet::Bytes(_) | Alphabet::Utf8(_) => None,
        }
    }
}

/// Two tokens that join, to the rank of that merge and the token they make.
type Merges = HashMap<(u32, u32), (u32, u32)>;

fn read_merges(vocabulary: &Vocabulary, ids: &Ids) -> Result<Merges, TokenizerError> {
    let known =
        LazyCell::new(|| vocabulary.tokens.iter().map(String::as_str).collect::<HashSet<_>>());
    let mut merges = Merges::with_capacity(vocabulary.merges.len());
    let mut joined = String::new();
    for (rank, line) in (0..).zip(&vocabulary.merges) {
        let broken = || TokenizerError::Merge { index: rank };
        // A part is never empty, so the space that separates is not the first character.
        let space = line.char_indices().skip(1).find(|(_, c)| *c == ' ').ok_or_else(broken)?.0;
        let (left, right) = (&line[..space], &line[space + 1..]);
        joined.clear();
        joined.extend([left, right]);
        let texts = [left, right, joined.as_str()];
        match texts.map(|text| ids.get(text).copied()) {
            [Some(left), Some(right), Some(whole)] => {
                merges.entry((left, right)).or_insert((rank, whole));
            }
            // A merge that spells a control token is left out: text must not become one.
            _ if texts.iter().all(|text| known.contains(text)) => {}
            _ => return Err(broken()),
        }
    }
    Ok(merges)
}

/// SentencePiece BPE (`llama`): the pair whose joined text has the best score joins first.
#[derive(Debug)]
pub(super) struct Spm {
    ids: Ids,
    /// By id: smaller is better.
    ranks: Vec<u32>,
    bytes: [Option<u32>; 256],
    unknown: Option<u32>,
    /// Whether a space is put before text.
    pub(super) space_prefix: bool,
    /// Most bytes of a text, with `▁` for its spaces, that one id stands for.
    bytes_max: usize,
}

impl Spm {
    /// Builds the tables of a vocabulary.
    pub(super) fn new(vocabulary: &Vocabulary, kinds: &Kinds) -> Result<Self, TokenizerError> {
        if vocabulary.scores.len() != vocabulary.tokens.len() {
            return Err(TokenizerError::Scores {
                scores: vocabulary.scores.len(),
                tokens: vocabulary.tokens.len(),
            });
        }
        if let Some(index) = vocabulary.scores.iter().position(|score| score.is_nan()) {
            return Err(TokenizerError::Score { index });
        }
        let ids = ids_of_text(vocabulary, kinds);
        Ok(Self {
            bytes_max: longest(&ids, str::len).max(CHARACTER_BYTES_MAX),
            ids,
            ranks: vocabulary.scores.iter().map(|score| rank_of_score(*score)).collect(),
            bytes: ids_of_bytes(vocabulary, kinds),
            unknown: vocabulary.unk.filter(|id| (*id as usize) < vocabulary.tokens.len()),
            space_prefix: vocabulary.add_space_prefix.unwrap_or(true),
        })
    }

    /// So many ids `text` has at least; see [`Bpe::least`].
    pub(super) fn least(&self, text: &str) -> usize {
        escaped_len(text).div_ceil(self.bytes_max)
    }

    /// Appends the ids of `text`; `at_start` where a special token or nothing stands before it.
    pub(super) fn encode(
        &self,
        text: &str,
        at_start: bool,
        ids: &mut Vec<u32>,
    ) -> Result<(), EncodeError> {
        let prefix = if self.space_prefix && at_start { "▁" } else { "" };
        let text = format!("{prefix}{}", text.replace(' ', "▁"));
        let mut symbols: Vec<Symbol> = characters(&text, &self.ids).collect();
        merge(&mut symbols, |left, right| {
            let id = *self.ids.get(&text[left.start..right.end])?;
            Some(Join { rank: self.ranks[id as usize], id })
        });
        for symbol in symbols {
            match symbol.id {
                Some(id) => ids.push(id),
                None => {
                    let spelt = &text.as_bytes()[symbol.start..symbol.end];
                    spell(spelt, &self.bytes, self.unknown, ids)?;
                }
            }
        }
        Ok(())
    }
}

/// One symbol for each character of `text`.
fn characters<'t>(text: &'t str, ids: &'t Ids) -> impl Iterator<Item = Symbol> + 't {
    text.char_indices().map(|(start, c)| {
        let end = start + c.len_utf8();
        Symbol { start, end, id: ids.get(&text[start..end]).copied() }
    })
}

/// Appends one byte token for each byte, or once the unknown token where the vocabulary has none.
fn spell(
    text: &[u8],
    bytes: &[Option<u32>; 256],
    unknown: Option<u32>,
    ids: &mut Vec<u32>,
) -> Result<(), EncodeError> {
    for &byte in text {
        match (bytes[usize::from(byte)], unknown) {
            (Some(id), _) => ids.push(id),
            (None, Some(id)) => {
                ids.push(id);
                return Ok(());
            }
            (None, None) => return Err(EncodeError::NoToken { byte }),
        }
    }
    Ok(())
}

/// Maps scores to ranks so that a higher score is a smaller rank (IEEE 754 order of bits).
fn rank_of_score(score: f32) -> u32 {
    // `+ 0.0` makes both zeros one.
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 1 { bits } else { 0x7FFF_FFFF - bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_better_score_is_a_smaller_rank() {
        let scores = [f32::INFINITY, 3.5, 1.0, 0.0, -0.25, -1.0, -1000.0, f32::NEG_INFINITY];
        let ranks: Vec<u32> = scores.iter().map(|score| rank_of_score(*score)).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
        assert_eq!(rank_of_score(-0.0), rank_of_score(0.0));
    }
}
