//! Readers of fixtures: JSON, and the tokenizer part of a GGUF file.
//!
//! The reader is for test files only: it knows no limits and panics on anything odd. The product
//! reads GGUF in `nook-model`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashMap;
use std::path::Path;

use nook_base::Vocabulary;
use nook_base::vocabulary::TokenKind;
use serde_json::Value;

pub(crate) fn read_json(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

pub(crate) fn read_vocabulary(path: &Path) -> Vocabulary {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = Reader { bytes: &bytes, at: 0 };
    assert_eq!(reader.take(4), b"GGUF");
    reader.number(4);
    reader.number(8);
    let mut fields = HashMap::new();
    for _ in 0..reader.number(8) {
        let key = reader.text();
        let kind = reader.number(4);
        fields.insert(key, reader.value(kind));
    }
    vocabulary(&fields)
}

fn vocabulary(fields: &HashMap<String, Field>) -> Vocabulary {
    let text = |key: &str| match fields.get(key)? {
        Field::Text(text) => Some(text.clone()),
        _ => None,
    };
    let number = |key: &str| match fields.get(key)? {
        Field::Number(number) => Some(*number),
        _ => None,
    };
    let list = |key: &str| match fields.get(key) {
        Some(Field::List(items)) => items.as_slice(),
        _ => &[],
    };
    let texts = |key: &str| list(key).iter().map(Field::as_text).collect();
    Vocabulary {
        model: text("tokenizer.ggml.model").unwrap_or_default(),
        pre: text("tokenizer.ggml.pre"),
        tokens: texts("tokenizer.ggml.tokens"),
        scores: list("tokenizer.ggml.scores").iter().map(|s| s.as_number() as f32).collect(),
        kinds: list("tokenizer.ggml.token_type").iter().map(Field::as_kind).collect(),
        merges: texts("tokenizer.ggml.merges"),
        bos: number("tokenizer.ggml.bos_token_id").map(|id| id as u32),
        eos: number("tokenizer.ggml.eos_token_id").map(|id| id as u32),
        eot: number("tokenizer.ggml.eot_token_id").map(|id| id as u32),
        unk: number("tokenizer.ggml.unknown_token_id").map(|id| id as u32),
        add_bos: number("tokenizer.ggml.add_bos_token").map(|yes| yes != 0.0),
        add_eos: number("tokenizer.ggml.add_eos_token").map(|yes| yes != 0.0),
        add_space_prefix: number("tokenizer.ggml.add_space_prefix").map(|yes| yes != 0.0),
        chat_template: text("tokenizer.chat_template"),
        suppressed: Vec::new(),
    }
}

enum Field {
    Number(f64),
    Text(String),
    List(Vec<Self>),
}

impl Field {
    fn as_text(&self) -> String {
        let Self::Text(text) = self else { panic!("not a text") };
        text.clone()
    }

    fn as_number(&self) -> f64 {
        let Self::Number(number) = self else { panic!("not a number") };
        *number
    }

    fn as_kind(&self) -> TokenKind {
        match self.as_number() as u32 {
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => TokenKind::Normal,
        }
    }
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> &'b [u8] {
        self.at += count;
        &self.bytes[self.at - count..self.at]
    }

    fn number(&mut self, width: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(self.take(width));
        u64::from_le_bytes(bytes)
    }

    fn text(&mut self) -> String {
        let count = self.number(8) as usize;
        String::from_utf8(self.take(count).to_vec()).unwrap()
    }

    fn value(&mut self, kind: u64) -> Field {
        match kind {
            0 | 7 => Field::Number(self.number(1) as f64),
            1 => Field::Number(f64::from(self.number(1) as i8)),
            2 => Field::Number(self.number(2) as f64),
            3 => Field::Number(f64::from(self.number(2) as i16)),
            4 => Field::Number(self.number(4) as f64),
            5 => Field::Number(f64::from(self.number(4) as i32)),
            6 => Field::Number(f64::from(f32::from_bits(self.number(4) as u32))),
            8 => Field::Text(self.text()),
            9 => {
                let kind = self.number(4);
                let count = self.number(8);
                Field::List((0..count).map(|_| self.value(kind)).collect())
            }
            10 => Field::Number(self.number(8) as f64),
            11 => Field::Number(self.number(8) as i64 as f64),
            12 => Field::Number(f64::from_bits(self.number(8))),
            other => panic!("unknown kind of value {other}"),
        }
    }
}
