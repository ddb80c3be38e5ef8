//! Small made-up vocabularies, so that tests need no fixtures.
#![allow(unreachable_pub, reason = "all of it is for the other modules")]

use nook_base::Vocabulary;
use nook_base::vocabulary::TokenKind;

pub const BEGIN: u32 = 0;
pub const END: u32 = 1;
pub const SYSTEM: u32 = 2;
pub const USER: u32 = 3;
pub const ASSISTANT: u32 = 4;
/// An added token shaped like a marker, and one that is not.
pub const TOOL: u32 = 5;
pub const THINK: u32 = 6;

pub const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>\
{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

const SPECIALS: &[(&str, TokenKind)] = &[
    ("<|bos|>", TokenKind::Control),
    ("<|end|>", TokenKind::Control),
    ("<|system|>", TokenKind::Control),
    ("<|user|>", TokenKind::Control),
    ("<|assistant|>", TokenKind::Control),
    ("<|tool|>", TokenKind::UserDefined),
    ("<think>", TokenKind::UserDefined),
];

/// Byte-level BPE over all 256 bytes with a few merges.
pub fn byte_level() -> Vocabulary {
    let mut vocabulary = specials("gpt2");
    let mut next = 0x100;
    for byte in 0_u8..=255 {
        // The GPT-2 alphabet, written down a second time on purpose.
        let printable = matches!(byte, 33..=126 | 161..=172 | 174..=255);
        let c = if printable {
            char::from(byte)
        } else {
            next += 1;
            char::from_u32(next - 1).unwrap()
        };
        add(&mut vocabulary, &c.to_string(), TokenKind::Normal);
    }
    for merge in ["h e", "l l", "he ll", "hell o", "Ġ hello", "Ġ Ġ", "< |", "e n", "en d", "Ã ©"]
    {
        vocabulary.merges.push(merge.to_owned());
        add(&mut vocabulary, &merge.replace(' ', ""), TokenKind::Normal);
    }
    vocabulary
}

/// SentencePiece BPE with byte fallback.
pub fn sentence_piece() -> Vocabulary {
    let mut vocabulary = specials("llama");
    add(&mut vocabulary, "<unk>", TokenKind::Unknown);
    for byte in 0..=255 {
        add(&mut vocabulary, &format!("<0x{byte:02X}>"), TokenKind::Byte);
    }
    let pieces = [
        "▁", "h", "e", "l", "o", "w", "r", "d", "<", "|", ">", "n", "s", "/", "he", "ll", "hell",
        "hello", "▁hello", "▁▁", "lo", "wo", "▁w", "end", "en", "<|", "|>", "é",
    ];
    for piece in pieces {
        add(&mut vocabulary, piece, TokenKind::Normal);
    }
    let count = vocabulary.tokens.len();
    vocabulary.scores = (0..count).map(|id| -(id as f32) / 7.0).collect();
    vocabulary.unk = Some(SPECIALS.len() as u32);
    vocabulary
}

fn specials(model: &str) -> Vocabulary {
    let mut vocabulary = Vocabulary {
        model: model.to_owned(),
        bos: Some(BEGIN),
        eos: Some(END),
        add_bos: Some(true),
        chat_template: Some(TEMPLATE.to_owned()),
        ..Vocabulary::default()
    };
    for (text, kind) in SPECIALS {
        add(&mut vocabulary, text, *kind);
    }
    vocabulary
}

fn add(vocabulary: &mut Vocabulary, text: &str, kind: TokenKind) {
    vocabulary.tokens.push(text.to_owned());
    vocabulary.kinds.push(kind);
}
