//! What a model file says about its text: tokens, merges, special ids, chat template.
//!
//! `nook-model` reads it from GGUF metadata, `nook-text` builds a tokenizer from it; neither knows
//! the other.

/// How a token of the vocabulary is used (`tokenizer.ggml.token_type`, numbers as in GGUF).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// 1: ordinary text.
    Normal,
    /// 2: stands for what cannot be read.
    Unknown,
    /// 3: structure (begin, end, role): never made from user text.
    Control,
    /// 4: added by the publisher, matched as a whole.
    UserDefined,
    /// 5: not used.
    Unused,
    /// 6: one raw byte.
    Byte,
}

/// The tokenizer data of one model file, as it stands there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vocabulary {
    /// `tokenizer.ggml.model`: `llama` (SPM), `gpt2` (byte-level BPE), ...
    pub model: String,
    /// `tokenizer.ggml.pre`: which pre-tokenizer a byte-level BPE uses.
    pub pre: Option<String>,
    /// Token texts, by id.
    pub tokens: Vec<String>,
    /// Scores by id (SPM); empty when absent.
    pub scores: Vec<f32>,
    /// Kinds by id; empty when absent.
    pub kinds: Vec<TokenKind>,
    /// Merges, best first, each `left right` (BPE); empty when absent.
    pub merges: Vec<String>,
    /// Begin-of-sequence id.
    pub bos: Option<u32>,
    /// End-of-sequence id.
    pub eos: Option<u32>,
    /// End-of-turn id.
    pub eot: Option<u32>,
    /// Id for unknown text.
    pub unk: Option<u32>,
    /// Whether encoding puts BOS first (`None`: the model's kind decides).
    pub add_bos: Option<bool>,
    /// Whether encoding puts EOS last.
    pub add_eos: Option<bool>,
    /// Whether SPM puts a space before the text (`None`: yes).
    pub add_space_prefix: Option<bool>,
    /// Tokens that are never to be chosen (`tokenizer.ggml.suppress_tokens`); no list of all.
    pub suppressed: Vec<u32>,
    /// The publisher's Jinja chat template.
    pub chat_template: Option<String>,
}
