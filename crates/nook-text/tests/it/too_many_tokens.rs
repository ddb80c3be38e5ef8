//! Promise: a text with more tokens than are wanted is given up early, is said to have no more than
//! it has, and one that fits is never given up; with every vocabulary of the fixtures.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use nook_base::Vocabulary;
use nook_base::vocabulary::TokenKind;
use nook_text::{
    ChatMessage, ChatTemplate, EncodeError, EncodeOptions, RenderOptions, Role, Tokenizer,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::fixtures::read_vocabulary;
use crate::places::large_fixture;
use crate::vocabularies::{byte_level, sentence_piece};

/// Longest tokens of a vocabulary that texts are made of: each is a text whose number of tokens the
/// bound comes closest to.
const LONGEST: usize = 24;

/// A vocabulary with its template: BOS twice, as some publishers write it, then what is said.
struct Subject {
    name: String,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    /// Texts that are its longest tokens, as far as text may become them.
    longest: Vec<String>,
}

impl Subject {
    fn new(name: &str, mut vocabulary: Vocabulary) -> Self {
        vocabulary.chat_template =
            Some("{{ bos_token }}{{ bos_token }}{{ messages[-1].content }}".to_owned());
        let tokenizer = Tokenizer::new(&vocabulary).unwrap_or_else(|e| panic!("{name}: {e}"));
        let template = ChatTemplate::for_vocabulary(&vocabulary).unwrap();
        let ids = (0..).take(tokenizer.vocabulary_len());
        let texts = ids.map(|id| tokenizer.decode_bytes(id).to_vec());
        let mut longest: Vec<String> =
            texts.filter_map(|bytes| String::from_utf8(bytes).ok()).collect();
        longest.sort_by_key(|text| std::cmp::Reverse(text.len()));
        longest.dedup();
        longest.truncate(LONGEST);
        Self { name: name.to_owned(), tokenizer, template, longest }
    }

    /// Texts that the bound comes close to, and others.
    fn texts(&self) -> impl Strategy<Value = String> + use<> {
        let longest = prop::sample::select(self.longest.clone());
        let part = prop_oneof![
            4 => (longest, 1..6_usize).prop_map(|(text, times)| text.repeat(times)),
            1 => (0..40_usize).prop_map(|count| " ".repeat(count)),
            1 => (1..8_usize).prop_map(|count| "\u{2581}".repeat(count)),
            1 => (1..8_usize).prop_map(|count| "\n".repeat(count)),
            2 => ".{0,12}",
            1 => any::<char>().prop_map(String::from),
            1 => Just("<|user|> \n\t <|end|>".to_owned()),
        ];
        prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
    }

    fn check(&self, text: &str) {
        for (add_special, parse_special) in [(true, false), (false, true)] {
            let options = EncodeOptions { add_special, parse_special };
            let all = self.tokenizer.encode(text, options);
            self.agrees(text, &all, |most| self.tokenizer.encode_within(text, options, most));
        }
        let message = ChatMessage::new(Role::user(), text);
        let options = RenderOptions { add_generation_prompt: true, now: None, tools: None };
        let prompt = self.template.render(&[message], options).unwrap();
        let all = self.tokenizer.encode_chat(&prompt);
        self.agrees(text, &all, |most| self.tokenizer.encode_chat_within(&prompt, most));
    }

    fn agrees(
        &self,
        text: &str,
        all: &Result<Vec<u32>, EncodeError>,
        within: impl Fn(usize) -> Result<Vec<u32>, EncodeError>,
    ) {
        let Ok(ids) = all else {
            // What cannot be encoded may be given up before that shows.
            let given_up = within(4).unwrap_err();
            let is_early = matches!(given_up, EncodeError::TooMany { least } if least > 4);
            assert!(is_early || Err(given_up) == *all, "{}: {text:?}: {given_up}", self.name);
            return;
        };
        for most in [0, 1, ids.len() / 2, ids.len().saturating_sub(1), ids.len(), ids.len() + 1] {
            match within(most) {
                Ok(found) => assert!(found == *ids && most >= ids.len(), "{}", self.name),
                Err(EncodeError::TooMany { least }) => assert!(
                    least > most && least <= ids.len(),
                    "{}: {text:?} has {}, not {least} or more; {most} are wanted",
                    self.name,
                    ids.len()
                ),
                Err(error) => panic!("{}: {text:?}: {error}", self.name),
            }
        }
    }

    fn check_many(&self, cases: u32) {
        for text in &self.longest {
            self.check(text);
            // With `▁` for a space the same token has more bytes.
            self.check(&text.replace(' ', "\u{2581}").repeat(3));
        }
        let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
        let checked = TestRunner::new(config).run(&self.texts(), |text| {
            self.check(&text);
            Ok(())
        });
        checked.unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }
}

/// The same vocabulary as Phi-3's publisher has: white space behind an added token is dropped.
fn stripping() -> Vocabulary {
    let mut vocabulary = sentence_piece();
    vocabulary.tokens.push("<|placeholder1|>".to_owned());
    vocabulary.kinds.push(TokenKind::UserDefined);
    vocabulary.scores.push(0.0);
    vocabulary
}

/// Plain UTF-8 with `▁` for a space, as Gemma 4 has it, whose longest token is spaces.
fn raw_utf8() -> Vocabulary {
    let bytes = (0..=255).map(|byte| format!("<0x{byte:02X}>"));
    let words = ["\u{2581}", "\u{2581}\u{2581}", "\u{2581}\u{2581}\u{2581}\u{2581}", "a"];
    let tokens: Vec<String> = bytes.chain(words.map(String::from)).collect();
    Vocabulary {
        model: "gemma4".to_owned(),
        kinds: [vec![TokenKind::Byte; 256], vec![TokenKind::Normal; words.len()]].concat(),
        tokens,
        merges: vec![format!("{0} {0}", words[0]), format!("{0} {0}", words[1])],
        ..Vocabulary::default()
    }
}

#[test]
fn a_text_is_given_up_only_where_it_has_too_many_tokens() {
    Subject::new("byte-level", byte_level()).check_many(200);
    Subject::new("sentence-piece", sentence_piece()).check_many(200);
    Subject::new("raw UTF-8", raw_utf8()).check_many(200);
    let stripping = Subject::new("stripping", stripping());
    stripping.check_many(200);
    // A thousand spaces are no token here.
    stripping.check(&format!("<|placeholder1|>{}hello", " ".repeat(1_000)));
    let no_bytes = Vocabulary {
        model: "gpt2".to_owned(),
        tokens: vec!["a".to_owned(), "aaaa".to_owned(), "<s>".to_owned()],
        bos: Some(2),
        ..Vocabulary::default()
    };
    Subject::new("hardly any", no_bytes).check_many(50);
}

#[test]
fn with_every_vocabulary_of_the_fixtures_a_text_is_given_up_only_where_it_is_too_long() {
    let test = "with_every_vocabulary_of_the_fixtures_a_text_is_given_up_only_where_it_is_too_long";
    let Some(folder) = large_fixture(test, "fixtures") else { return };
    let (mut files, mut seen) = (Vec::new(), HashSet::new());
    find(&folder, &mut files);
    for file in files {
        let vocabulary = read_vocabulary(&file);
        let known = (vocabulary.model.clone(), vocabulary.pre.clone(), vocabulary.tokens.clone());
        if !vocabulary.tokens.is_empty() && seen.insert(known) {
            Subject::new(&file.display().to_string(), vocabulary).check_many(24);
        }
    }
    assert!(seen.len() >= 13, "only {} vocabularies", seen.len());
}

/// The model files below a folder, except those that are damaged on purpose.
fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            find(&entry, files);
        } else if entry.extension().is_some_and(|it| it == "gguf")
            && entry.parent().is_some_and(|parent| !parent.ends_with("edge"))
        {
            files.push(entry);
        }
    }
}

#[test]
fn nothing_of_a_text_that_is_certainly_too_long_is_encoded() {
    // Without a token for `b`, encoding fails at the first one.
    let vocabulary = Vocabulary {
        model: "gpt2".to_owned(),
        tokens: vec!["a".to_owned(), "aaaa".to_owned()],
        ..Vocabulary::default()
    };
    let tokenizer = Tokenizer::new(&vocabulary).unwrap();
    let options = EncodeOptions { add_special: false, parse_special: false };
    let text = format!("b{}", "a".repeat(39));
    let no_token = Err(EncodeError::NoToken { byte: b'b' });
    assert_eq!(tokenizer.encode_within(&text, options, 10), no_token);
    let too_many = Err(EncodeError::TooMany { least: 10 });
    assert_eq!(tokenizer.encode_within(&text, options, 9), too_many);
    // Where the longest token leaves it open, no word behind the last that fits is encoded.
    let text = format!("{}{}", "a\n".repeat(8), "b".repeat(8));
    let mut words = vocabulary;
    words.tokens.push("Ċ".to_owned());
    let tokenizer = Tokenizer::new(&words).unwrap();
    assert_eq!(tokenizer.encode_within(&text, options, 20), no_token);
    let too_many = Err(EncodeError::TooMany { least: 9 });
    assert_eq!(tokenizer.encode_within(&text, options, 8), too_many);
}
