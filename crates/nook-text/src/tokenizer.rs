//! Text to token ids and back, as the model's publisher does it.
//!
//! Owns a model's tokenizer, built from the [`Vocabulary`] in its file. Text is first cut at
//! special tokens (`special`), then the rest is split and merged (`model`). Control tokens come
//! from text only where the caller asks for it, and in [`Tokenizer::encode_chat`] never from what
//! a message says. References: the publishers' tokenizers through the fixtures, llama.cpp's
//! `llama-vocab.cpp` for what GGUF metadata mean.

mod bytes;
pub(crate) mod kinds;
mod merge;
mod model;
mod special;
mod split;

use nook_base::Vocabulary;
use nook_base::vocabulary::TokenKind;

use crate::rendered::RenderedPrompt;
use bytes::{byte_of_char, byte_of_token};
use kinds::Kinds;
use model::{Bpe, Spm};
use special::{Allowed, Fragment, Specials};

/// Longest text that is encoded at once, in bytes; a longer one is refused.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// Most special tokens of a vocabulary; a model with more is refused. Models that speak have some
/// ten thousand, one for each sound.
pub const SPECIALS_MAX: usize = 1 << 17;

/// Most bytes of them, where beginnings that several have count once; a model with more is refused.
/// Each takes about 50 bytes of memory while the tokenizer is built. The most known are 5,108.
pub const SPECIAL_BYTES_MAX: usize = 512 << 10;

/// What is wrong with a vocabulary. The model file is to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// `tokenizer.ggml.model` names a kind that this version cannot do.
    #[error("the model's tokenizer is of a kind this version does not know: {model:?}")]
    Model {
        /// The kind's name.
        model: String,
    },
    /// `tokenizer.ggml.pre` names a pre-tokenizer that is not in the table.
    #[error("the model's pre-tokenizer is not known: {pre:?}")]
    PreTokenizer {
        /// The pre-tokenizer's name.
        pre: String,
    },
    /// There are no tokens.
    #[error("the model has no vocabulary")]
    Empty,
    /// There are more tokens than ids.
    #[error("the vocabulary is too large: {tokens} tokens")]
    TooLarge {
        /// How many.
        tokens: usize,
    },
    /// A merge is not two tokens that make a third.
    #[error("merge {index} does not join two tokens into a third")]
    Merge {
        /// Its place in the list.
        index: u32,
    },
    /// An SPM vocabulary needs one score for each token.
    #[error("the vocabulary has {scores} scores for {tokens} tokens")]
    Scores {
        /// Scores present.
        scores: usize,
        /// Tokens present.
        tokens: usize,
    },
    /// A score is not a number.
    #[error("the score of token {index} is not a number")]
    Score {
        /// The token's id.
        index: usize,
    },
    /// A special id lies outside the vocabulary.
    #[error("the {which} token {id} lies outside the vocabulary")]
    SpecialId {
        /// `begin`, `end` or `end-of-turn`.
        which: &'static str,
        /// The id.
        id: u32,
    },
    /// The special tokens would take too much memory to look for.
    #[error(
        "the vocabulary has too many special tokens, or too long ones: {count} with {bytes} different \
         bytes, at most {SPECIALS_MAX} with {SPECIAL_BYTES_MAX}"
    )]
    TooManySpecials {
        /// How many.
        count: usize,
        /// Their bytes, without what one begins with as another one does.
        bytes: usize,
    },
}

/// Why a text cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The text is longer than [`TEXT_BYTES_MAX`].
    #[error("the text is too long: {bytes} bytes, at most {TEXT_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The vocabulary has no token for a byte of the text.
    #[error("the model has no token for byte {byte:#04x}")]
    NoToken {
        /// The byte.
        byte: u8,
    },
    /// Splitting took too many steps: the text has a run of about a million spaces.
    #[error("the text cannot be split into words")]
    Split,
    /// The text has more tokens than are wanted; not all of them were counted.
    #[error("the text has at least {least} tokens, which is too many")]
    TooMany {
        /// So many it has at least.
        least: usize,
    },
}

/// How to treat special tokens when text is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Put BOS first and EOS last as the vocabulary says.
    pub add_special: bool,
    /// Recognise control tokens that are spelt out in the text. Never set this for a user's text.
    pub parse_special: bool,
}

/// The tokenizer of one model.
#[derive(Debug)]
pub struct Tokenizer {
    model: Model,
    specials: Specials,
    kinds: Kinds,
    pieces: Pieces,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    suppressed: Box<[u32]>,
}

#[derive(Debug)]
enum Model {
    Bpe(Bpe),
    Spm(Spm),
}

impl Tokenizer {
    /// Builds the tokenizer that a model file describes. A byte-level vocabulary that names no
    /// pre-tokenizer is taken for GPT-2's.
    pub fn new(vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        check_ids(vocabulary)?;
        let kinds = Kinds::of(vocabulary);
        // First, so that of one that takes too much nothing else is built.
        let specials = Specials::new(vocabulary, &kinds)?;
        let (model, add_bos) = match vocabulary.model.as_str() {
            "llama" => (Model::Spm(Spm::new(vocabulary, &kinds)?), true),
            "gpt2" | "gemma4" => {
                let pre = match (vocabulary.model.as_str(), &vocabulary.pre) {
                    ("gemma4", _) => "gemma4",
                    (_, Some(pre)) => pre,
                    (_, None) => "gpt-2",
                };
                let recipe = split::recipe(pre)
                    .ok_or_else(|| TokenizerError::PreTokenizer { pre: pre.to_owned() })?;
                (Model::Bpe(Bpe::new(vocabulary, &kinds, &recipe)?), recipe.add_bos)
            }
            other => {
                return Err(TokenizerError::Model { model: other.to_owned() });
            }
        };
        Ok(Self {
            model,
            specials,
            pieces: Pieces::new(vocabulary, &kinds),
            kinds,
            bos: vocabulary.bos,
            eos: vocabulary.eos,
            suppressed: vocabulary.suppressed.iter().copied().collect(),
            add_bos: vocabulary.add_bos.unwrap_or(add_bos) && vocabulary.bos.is_some(),
            add_eos: vocabulary.add_eos.unwrap_or(false) && vocabulary.eos.is_some(),
        })
    }

    /// Tokens that the publisher never wants chosen, such as marks around sounds and pictures.
    #[must_use]
    pub fn suppressed(&self) -> &[u32] {
        &self.suppressed
    }

    /// The ids of `text`.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Result<Vec<u32>, EncodeError> {
        self.encode_within(text, options, usize::MAX)
    }

    /// The ids of `text` where at most `most` are wanted: a text with more is given up as soon as
    /// that is certain, mostly before any of it is encoded ([`EncodeError::TooMany`]).
    pub fn encode_within(
        &self,
        text: &str,
        options: EncodeOptions,
        most: usize,
    ) -> Result<Vec<u32>, EncodeError> {
        let allowed = if options.parse_special { Allowed::All } else { Allowed::Added };
        let fragments = self.cut(text, allowed)?;
        let is_there = |end: Option<&Fragment<'_>>, special: Option<u32>| {
            special.is_some_and(|special| end == Some(&Fragment::Token(special)))
        };
        let mut ids = Vec::new();
        if options.add_special && self.add_bos && !is_there(fragments.first(), self.bos) {
            ids.extend(self.bos);
        }
        self.encode_fragments(&fragments, most, &mut ids)?;
        if options.add_special && self.add_eos && !is_there(fragments.last(), self.eos) {
            ids.extend(self.eos);
        }
        within(most, &ids).map(|()| ids)
    }

    /// The ids after which a model fills the gap between two texts: `before` and `behind` with the
    /// marks of fill-in-the-middle training (Bavarian et al. 2022, arXiv:2207.14255, the order
    /// prefix, suffix, middle), and BOS first where the vocabulary wants it. `None` where the
    /// vocabulary has no such marks. What the texts spell out stays text.
    ///
    /// At most `most` ids are wanted, as in [`Self::encode_within`].
    pub fn encode_gap(
        &self,
        (before, behind): (&str, &str),
        most: usize,
    ) -> Result<Option<Vec<u32>>, EncodeError> {
        let Some([first, second, fill]) = self.kinds.gap_marks() else { return Ok(None) };
        let mut ids: Vec<u32> = self.bos.filter(|_| self.add_bos).into_iter().collect();
        for (mark, text) in [(first, before), (second, behind)] {
            ids.push(mark);
            self.encode_fragments(&self.cut(text, Allowed::Added)?, most, &mut ids)?;
        }
        ids.push(fill);
        within(most, &ids).map(|()| Some(ids))
    }

    /// The ids of a rendered chat: control tokens that the template wrote are recognised, those
    /// that a message spells out are text, and BOS stands once at the front if the template or the
    /// vocabulary wants it.
    pub fn encode_chat(&self, prompt: &RenderedPrompt) -> Result<Vec<u32>, EncodeError> {
        self.encode_chat_within(prompt, usize::MAX)
    }

    /// The same where at most `most` ids are wanted, as in [`Self::encode_within`].
    pub fn encode_chat_within(
        &self,
        prompt: &RenderedPrompt,
        most: usize,
    ) -> Result<Vec<u32>, EncodeError> {
        let mut fragments = self.cut(prompt.text(), Allowed::Guarded(prompt.guards()))?;
        let mut ids = Vec::new();
        if let Some(bos) = self.bos {
            let is_bos = |fragment: &&Fragment<'_>| **fragment == Fragment::Token(bos);
            let written = fragments.iter().take_while(is_bos).count();
            if written > 0 {
                fragments.drain(1..written);
            } else if self.add_bos {
                ids.push(bos);
            }
        }
        self.encode_fragments(&fragments, most, &mut ids)?;
        Ok(ids)
    }

    /// The bytes that a token adds to a text: nothing for control and unknown tokens and for an id
    /// outside the vocabulary. May be part of a character: see [`crate::TextStream`].
    #[must_use]
    pub fn decode_bytes(&self, id: u32) -> &[u8] {
        match self.kinds.get(id) {
            TokenKind::Control | TokenKind::Unknown => &[],
            _ => self.pieces.get(id),
        }
    }

    /// Like [`Self::decode_bytes`], with control tokens spelt out (`<|im_end|>`).
    #[must_use]
    pub fn decode_bytes_with_control(&self, id: u32) -> &[u8] {
        self.pieces.get(id)
    }

    /// Number of ids.
    #[must_use]
    pub fn vocabulary_len(&self) -> usize {
        self.pieces.ends.len()
    }

    /// Begin-of-sequence id.
    #[must_use]
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// End-of-sequence id.
    #[must_use]
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether generation stops after this token: end of sequence, end of turn, or a token that
    /// ends turns by its name, such as `<|im_end|>` (except gpt-oss's `<|end|>`, which separates
    /// messages).
    #[must_use]
    pub fn is_end_of_turn(&self, id: u32) -> bool {
        self.kinds.ends_turn(id)
    }

    /// The ids at which generation stops, ascending: see [`Self::is_end_of_turn`].
    pub(crate) fn enders(&self) -> Vec<u32> {
        (0..).take(self.vocabulary_len()).filter(|id| self.kinds.ends_turn(*id)).collect()
    }

    /// What a token is for.
    pub(crate) fn kind(&self, id: u32) -> TokenKind {
        self.kinds.get(id)
    }

    /// The control tokens that are spelt like one of `spellings`, ascending.
    #[must_use]
    pub fn control_tokens(&self, spellings: &[&str]) -> Vec<u32> {
        let is_one = |id: &u32| {
            self.kinds.get(*id) == TokenKind::Control
                && spellings.iter().any(|spelling| spelling.as_bytes() == self.pieces.get(*id))
        };
        (0..).take(self.vocabulary_len()).filter(is_one).collect()
    }

    fn cut<'t>(
        &self,
        text: &'t str,
        allowed: Allowed<'_>,
    ) -> Result<Vec<Fragment<'t>>, EncodeError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(EncodeError::TooLong { bytes: text.len() });
        }
        Ok(self.specials.cut(text, allowed))
    }

    /// Appends the ids of a text that was cut, up to `most` with those before them.
    fn encode_fragments(
        &self,
        fragments: &[Fragment<'_>],
        most: usize,
        ids: &mut Vec<u32>,
    ) -> Result<(), EncodeError> {
        let least = ids.len() + fragments.iter().map(|it| self.least(*it)).sum::<usize>();
        if least > most {
            return Err(EncodeError::TooMany { least });
        }
        let mut after_special = true;
        for fragment in fragments {
            match (*fragment, &self.model) {
                (Fragment::Token(id), _) => ids.push(id),
                (Fragment::Text(text), Model::Bpe(bpe)) => bpe.encode(text, most, ids)?,
                (Fragment::Text(text), Model::Spm(spm)) => spm.encode(text, after_special, ids)?,
            }
            after_special = matches!(fragment, Fragment::Token(_));
        }
        within(most, ids)
    }

    /// So many ids a fragment has at least.
    fn least(&self, fragment: Fragment<'_>) -> usize {
        match (fragment, &self.model) {
            (Fragment::Token(_), _) => 1,
            (Fragment::Text(text), Model::Bpe(bpe)) => bpe.least(text),
            (Fragment::Text(text), Model::Spm(spm)) => spm.least(text),
        }
    }
}

fn within(most: usize, ids: &[u32]) -> Result<(), EncodeError> {
    let least = ids.len();
    if least > most { Err(EncodeError::TooMany { least }) } else { Ok(()) }
}

fn check_ids(vocabulary: &Vocabulary) -> Result<(), TokenizerError> {
    let tokens = vocabulary.tokens.len();
    if tokens == 0 {
        return Err(TokenizerError::Empty);
    }
    if u32::try_from(tokens).is_err() {
        return Err(TokenizerError::TooLarge { tokens });
    }
    let specials =
        [("begin", vocabulary.bos), ("end", vocabulary.eos), ("end-of-turn", vocabulary.eot)];
    for (which, id) in specials {
        if let Some(id) = id.filter(|id| *id as usize >= tokens) {
            return Err(TokenizerError::SpecialId { which, id });
        }
    }
    Ok(())
}

/// The bytes of every token, in one allocation.
#[derive(Debug)]
struct Pieces {
    bytes: Vec<u8>,
    /// By id: where its bytes end.
    ends: Vec<usize>,
}

impl Pieces {
    fn new(vocabulary: &Vocabulary, kinds: &Kinds) -> Self {
        let byte_level = vocabulary.model == "gpt2";
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(vocabulary.tokens.len());
        for (id, text) in (0..).zip(&vocabulary.tokens) {
            match kinds.get(id) {
                TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined => {
                    bytes.extend_from_slice(text.as_bytes());
                }
                TokenKind::Byte => match byte_of_token(text) {
                    Some(byte) => bytes.push(byte),
                    None => bytes.extend_from_slice(text.as_bytes()),
                },
                TokenKind::Normal | TokenKind::Unused if byte_level => {
                    for c in text.chars() {
                        match byte_of_char(c) {
                            Some(byte) => bytes.push(byte),
                            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                        }
                    }
                }
                TokenKind::Normal | TokenKind::Unused => {
                    bytes.extend_from_slice(text.replace('▁', " ").as_bytes());
                }
            }
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else {
            return &[];
        };
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..end]
    }
}
