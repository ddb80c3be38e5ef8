//! The tokenizer data of a header, checked for agreement with itself.

use nook_base::Vocabulary;
use nook_base::vocabulary::TokenKind;

use super::{Header, Value};
use crate::error::Fault;

const MODEL: &str = "tokenizer.ggml.model";
const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const KINDS: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const SUPPRESSED: &str = "tokenizer.ggml.suppress_tokens";

impl Header {
    /// The tokenizer data; empty when the file has none. Lists by id must be as long as the list of
    /// tokens. Special ids that are no token are left out, as llama.cpp does.
    pub fn into_vocabulary(mut self) -> Result<Vocabulary, Fault> {
        self.take_vocabulary()
    }

    /// As [`Self::into_vocabulary`]; the rest of the header stays. The lists are moved out, not
    /// copied: they are the largest part of a header.
    pub(crate) fn take_vocabulary(&mut self) -> Result<Vocabulary, Fault> {
        let kinds = self.kinds()?;
        let tokens = self.take_texts(TOKENS)?;
        let merges = self.take_texts(MERGES)?;
        let scores = match self.take(SCORES) {
            Some(Value::Floats(scores)) => scores,
            Some(other) => return Err(bad(SCORES, &other, "fractions")),
            None => Vec::new(),
        };
        same_length(SCORES, scores.len(), tokens.len())?;
        same_length(KINDS, kinds.len(), tokens.len())?;
        let id = |key: &str| -> Result<Option<u32>, Fault> {
            let id = self.number(key)?;
            Ok(id.filter(|id| (*id as usize) < tokens.len()))
        };
        let mut suppressed = self.numbers(SUPPRESSED)?;
        suppressed.retain(|id| (*id as usize) < tokens.len());
        Ok(Vocabulary {
            suppressed,
            model: self.text(MODEL)?.unwrap_or_default().to_owned(),
            pre: self.text("tokenizer.ggml.pre")?.map(str::to_owned),
            bos: id("tokenizer.ggml.bos_token_id")?,
            eos: id("tokenizer.ggml.eos_token_id")?,
            eot: id("tokenizer.ggml.eot_token_id")?,
            unk: id("tokenizer.ggml.unknown_token_id")?,
            add_bos: self.truth("tokenizer.ggml.add_bos_token")?,
            add_eos: self.truth("tokenizer.ggml.add_eos_token")?,
            add_space_prefix: self.truth("tokenizer.ggml.add_space_prefix")?,
            chat_template: self.text("tokenizer.chat_template")?.map(str::to_owned),
            tokens,
            scores,
            kinds,
            merges,
        })
    }

    fn take_texts(&mut self, key: &str) -> Result<Vec<String>, Fault> {
        match self.take(key) {
            Some(Value::Texts(texts)) => Ok(texts),
            Some(other) => Err(bad(key, &other, "texts")),
            None => Ok(Vec::new()),
        }
    }

    fn kinds(&self) -> Result<Vec<TokenKind>, Fault> {
        self.wholes(KINDS)?.into_iter().map(kind).collect()
    }

    /// Ids of tokens; what can be none is left out.
    fn numbers(&self, key: &str) -> Result<Vec<u32>, Fault> {
        Ok(self.wholes(key)?.into_iter().filter_map(|id| u32::try_from(id).ok()).collect())
    }

    fn wholes(&self, key: &str) -> Result<Vec<i64>, Fault> {
        match self.value(key) {
            Some(Value::Signeds(all)) => Ok(all.iter().copied().map(i64::from).collect()),
            Some(Value::Unsigneds(all)) => Ok(all.iter().copied().map(i64::from).collect()),
            Some(other) => Err(bad(key, other, "whole numbers")),
            None => Ok(Vec::new()),
        }
    }
}

fn kind(number: i64) -> Result<TokenKind, Fault> {
    match number {
        // 0 is "undefined" in llama.cpp, which treats it as text.
        0 | 1 => Ok(TokenKind::Normal),
        2 => Ok(TokenKind::Unknown),
        3 => Ok(TokenKind::Control),
        4 => Ok(TokenKind::UserDefined),
        5 => Ok(TokenKind::Unused),
        6 => Ok(TokenKind::Byte),
        other => Err(Fault::BadValue {
            key: KINDS.to_owned(),
            got: other.to_string(),
            expected: "1 to 6".to_owned(),
        }),
    }
}

fn same_length(key: &str, got: usize, tokens: usize) -> Result<(), Fault> {
    if got == 0 || got == tokens {
        return Ok(());
    }
    Err(Fault::BadValue {
        key: key.to_owned(),
        got: format!("{got} entries"),
        expected: format!("one for each of {tokens} tokens"),
    })
}

fn bad(key: &str, got: &Value, expected: &str) -> Fault {
    Fault::BadValue { key: key.to_owned(), got: got.summary(), expected: expected.to_owned() }
}
