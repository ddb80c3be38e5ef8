//! What each token of a vocabulary is for, with the corrections that published files need.
//!
//! Owns the lists of token names that end a turn or mark structure although a file types them as
//! ordinary text. The tokenizer takes token kinds from here, never from the file directly, and the
//! chat template asks here for the texts that a user must not be able to speak.

use std::collections::{HashMap, HashSet};

use nook_base::Vocabulary;
use nook_base::vocabulary::TokenKind;

use super::bytes::byte_of_token;

/// Tokens that end a turn, by name, because many files declare only the end of a *document*
/// (Phi-3.5 then runs on and invents the user's turn). The list is llama.cpp's plus those
/// of DeepSeek Coder, Llama 4, OpenChat, Command R, and GLM, which says `<|observation|>` behind a
/// call and would go on with a result of its own making.
const TURN_ENDERS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|EOT|>",
    "<|eot|>",
    "<|end_of_turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<|observation|>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
];

/// Fill-in-the-middle marks of Qwen and CodeGemma, of StarCoder and Granite, and of DeepSeek: what
/// stands before the gap, what stands behind it, and where the model begins to fill it. Some files
/// type them as ordinary added tokens.
const GAP_MARKS: [[&str; 3]; 3] = [
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
];

/// The uses of a vocabulary's tokens, corrected.
#[derive(Debug)]
pub(crate) struct Kinds {
    /// By token id.
    kinds: Vec<TokenKind>,
    /// Ids that end a turn, ascending.
    enders: Vec<u32>,
    /// See [`GAP_MARKS`]; absent unless the vocabulary has all three of a kind.
    gap_marks: Option<[u32; 3]>,
}

impl Kinds {
    /// Reads the kinds of `vocabulary` and applies the corrections.
    pub(crate) fn of(vocabulary: &Vocabulary) -> Self {
        let count = vocabulary.tokens.len();
        let mut kinds = vocabulary.kinds.clone();
        kinds.resize(count, TokenKind::Normal);
        if vocabulary.kinds.is_empty() {
            assume_kinds(vocabulary, &mut kinds);
        }
        // Some files type the ids that they declare as ordinary tokens.
        let declared = [vocabulary.bos, vocabulary.eos, vocabulary.eot];
        for id in declared.into_iter().flatten() {
            if let Some(kind) = kinds.get_mut(id as usize) {
                *kind = TokenKind::Control;
            }
        }
        let ids = ids_of_names(vocabulary);
        let is_gemma4 = ids.contains_key("<|tool_response>");
        let mut enders: Vec<u32> = [vocabulary.eos, vocabulary.eot].into_iter().flatten().collect();
        for name in TURN_ENDERS {
            let Some(&id) = ids.get(name) else { continue };
            let Some(kind) = kinds.get_mut(id as usize) else {
                continue;
            };
            // Qwen and Gemma 4 know `</s>` as an HTML tag that merges make.
            if *name == "</s>" && (is_gemma4 || *kind == TokenKind::Normal) {
                *kind = TokenKind::Normal;
                continue;
            }
            // A `</s>` that the file calls an added token is Gemma 2's HTML tag or Phi-3's
            // leftover: a user must not speak it, and a model that says it has not ended.
            let ends = *name != "</s>" || *kind == TokenKind::Control;
            *kind = TokenKind::Control;
            if ends {
                enders.push(id);
            }
        }
        for name in GAP_MARKS.iter().flatten() {
            if let Some(kind) = ids.get(name).and_then(|id| kinds.get_mut(*id as usize)) {
                *kind = TokenKind::Control;
            }
        }
        enders.retain(|id| (*id as usize) < count);
        if let Some(separator) = message_separator(&ids) {
            enders.retain(|id| *id != separator || vocabulary.eos == Some(separator));
        }
        enders.sort_unstable();
        enders.dedup();
        let gap_marks = GAP_MARKS.iter().find_map(|[before, behind, fill]| {
            Some([*ids.get(before)?, *ids.get(behind)?, *ids.get(fill)?])
        });
        Self { kinds, enders, gap_marks }
    }

    /// The kind of a token; `Unused` for an id outside the vocabulary.
    pub(crate) fn get(&self, id: u32) -> TokenKind {
        self.kinds.get(id as usize).copied().unwrap_or(TokenKind::Unused)
    }

    /// The marks of a text with a gap: before it, behind it, and where it is filled.
    pub(crate) fn gap_marks(&self) -> Option<[u32; 3]> {
        self.gap_marks
    }

    /// Whether generation stops after this token.
    pub(crate) fn ends_turn(&self, id: u32) -> bool {
        self.enders.binary_search(&id).is_ok()
    }

    /// Whether only a template may write this token, never the text of a message: control and
    /// unknown tokens, and added tokens shaped like a marker (`<|User|>`, `<｜User｜>`), which
    /// publishers often forget to type as control.
    pub(crate) fn is_structure(&self, id: u32, text: &str) -> bool {
        match self.get(id) {
            TokenKind::Control | TokenKind::Unknown => true,
            TokenKind::UserDefined => text.starts_with('<') && text.contains(['|', '｜']),
            TokenKind::Normal | TokenKind::Unused | TokenKind::Byte => false,
        }
    }
}

/// The ids of the names above that the vocabulary has. The first of equal ones counts.
fn ids_of_names(vocabulary: &Vocabulary) -> HashMap<&'static str, u32> {
    let names: HashSet<&'static str> =
        TURN_ENDERS.iter().chain(GAP_MARKS.iter().flatten()).copied().collect();
    let mut ids = HashMap::new();
    for (id, text) in (0..).zip(&vocabulary.tokens) {
        if let Some(name) = names.get(text.as_str()) {
            ids.entry(*name).or_insert(id);
        }
    }
    ids
}

/// In gpt-oss (harmony) and Solar `<|end|>` only separates messages of one reply.
fn message_separator(ids: &HashMap<&str, u32>) -> Option<u32> {
    let harmony = ids.contains_key("<|return|>") && ids.contains_key("<|call|>");
    let solar = ids.contains_key("<|calls|>") && ids.contains_key("<|flush|>");
    (harmony || solar).then(|| ids.get("<|end|>").copied())?
}

/// Kinds for a file that states none: `<0xAB>` are bytes, the declared unknown token is unknown.
fn assume_kinds(vocabulary: &Vocabulary, kinds: &mut [TokenKind]) {
    if vocabulary.model == "llama" {
        for (kind, text) in kinds.iter_mut().zip(&vocabulary.tokens) {
            if byte_of_token(text).is_some() {
                *kind = TokenKind::Byte;
            }
        }
    }
    if let Some(kind) = vocabulary.unk.and_then(|id| kinds.get_mut(id as usize))
        && *kind == TokenKind::Normal
    {
        *kind = TokenKind::Unknown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tokens: &[(&str, TokenKind)], eos: Option<u32>, enders: &[u32], structure: &[u32]) {
        let vocabulary = Vocabulary {
            tokens: tokens.iter().map(|(text, _)| (*text).to_owned()).collect(),
            kinds: tokens.iter().map(|(_, kind)| *kind).collect(),
            eos,
            ..Vocabulary::default()
        };
        let kinds = Kinds::of(&vocabulary);
        let ids = 0..tokens.len() as u32;
        let ends: Vec<u32> = ids.clone().filter(|id| kinds.ends_turn(*id)).collect();
        assert_eq!(ends, enders, "enders of {tokens:?}");
        let is_structure = |id: &u32| kinds.is_structure(*id, tokens[*id as usize].0);
        assert_eq!(ids.filter(is_structure).collect::<Vec<_>>(), structure, "{tokens:?}");
    }

    #[test]
    fn turn_enders_are_found_by_name() {
        use TokenKind::{Control, Normal, UserDefined};
        let chat_ml = [("a", Normal), ("<|endoftext|>", Control), ("<|im_end|>", UserDefined)];
        check(&chat_ml, Some(1), &[1, 2], &[1, 2]);
        // Harmony separates messages with `<|end|>`; elsewhere that ends the turn.
        let harmony = [("<|end|>", Control), ("<|return|>", Control), ("<|call|>", Control)];
        check(&harmony, Some(1), &[1, 2], &[0, 1, 2]);
        check(&[("<|end|>", Control), ("<|endoftext|>", Control)], Some(1), &[0, 1], &[0, 1]);
        check(&[("<eos>", Control), ("<|observation|>", Control)], Some(0), &[0, 1], &[0, 1]);
    }

    #[test]
    fn an_html_tag_that_looks_like_an_end_is_none() {
        use TokenKind::{Control, Normal, UserDefined};
        // Qwen, Gemma 2, Llama 2.
        check(&[("</s>", Normal), ("<|im_end|>", Control)], Some(1), &[1], &[1]);
        check(&[("</s>", UserDefined), ("<eos>", Control)], Some(1), &[1], &[0, 1]);
        check(&[("</s>", Control)], None, &[0], &[0]);
        // A declared end counts whatever its kind.
        check(&[("</s>", Normal)], Some(0), &[0], &[0]);
    }

    #[test]
    fn added_tokens_shaped_like_markers_are_structure() {
        use TokenKind::{Normal, Unknown, UserDefined};
        let tokens = [
            ("<｜User｜>", UserDefined),
            ("<think>", UserDefined),
            ("<|x|>", Normal),
            ("?", Unknown),
        ];
        check(&tokens, None, &[], &[0, 3]);
    }

    #[test]
    fn the_marks_of_a_gap_are_three_of_one_kind_or_none() {
        let marks = |tokens: &[&str]| {
            let tokens = tokens.iter().map(|text| (*text).to_owned()).collect();
            Kinds::of(&Vocabulary { tokens, ..Vocabulary::default() }).gap_marks()
        };
        assert_eq!(marks(&["a", "<fim_middle>", "<fim_prefix>", "<fim_suffix>"]), Some([2, 3, 1]));
        assert_eq!(marks(&["<｜fim▁end｜>", "<｜fim▁begin｜>", "<｜fim▁hole｜>"]), Some([1, 2, 0]));
        assert_eq!(marks(&["<fim_middle>", "<fim_prefix>", "<|fim_suffix|>"]), None);
    }
}
