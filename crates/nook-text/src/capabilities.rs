//! What a model can besides answering, as its vocabulary and template show.

use nook_base::Vocabulary;

use crate::template::{source_for, thought_marks};
use crate::tokenizer::kinds::Kinds;
use crate::tools::{ToolForm, ToolStyle};

/// What a model can. That it calls tools is no question: it is told how in words where its template
/// has no form for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// It may think before it answers, apart from its answer.
    pub thinks: bool,
    /// It has marks for a text with a gap and was trained to fill it.
    pub fills_gaps: bool,
}

impl Capabilities {
    /// Of a model with this vocabulary and the template in it, or the one that it gets by default.
    #[must_use]
    pub fn of(vocabulary: &Vocabulary) -> Self {
        let source = source_for(vocabulary);
        let thinks = thought_marks(source, vocabulary).is_some()
            || ToolStyle::of(source).form == ToolForm::Harmony;
        Self { thinks, fills_gaps: Kinds::of(vocabulary).gap_marks().is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_from_template_and_vocabulary() {
        let of = |template: Option<&str>, tokens: &[&str]| {
            let capabilities = Capabilities::of(&Vocabulary {
                tokens: tokens.iter().map(|&token| token.to_owned()).collect(),
                chat_template: template.map(str::to_owned),
                ..Vocabulary::default()
            });
            (capabilities.thinks, capabilities.fills_gaps)
        };
        assert_eq!(of(None, &["a", "b"]), (false, false));
        assert_eq!(of(Some("{{ messages }}"), &["a"]), (false, false));
        assert_eq!(of(Some("{{ x.split('</think>') }}"), &["a"]), (true, false));
        assert_eq!(of(Some("tools <|channel|>commentary to=functions.x"), &["a"]), (true, false));
        assert_eq!(of(None, &["<think>", "</think>"]), (true, false));
        let gap = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"];
        assert_eq!(of(None, &gap), (false, true));
        assert_eq!(of(None, &gap[..2]), (false, false), "one mark is missing");
    }
}
