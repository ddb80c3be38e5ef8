//! Promise: no text is lost or changed on its way through ids, whatever it is and however it is
//! cut, and what was never whole is shown as U+FFFD and nothing else.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::vocabularies;
use std::sync::{Arc, LazyLock};

use nook_text::{EncodeOptions, Opening, ReplyText, StopStrings, TextStream, Tokenizer};
use proptest::prelude::*;

const PLAIN: EncodeOptions = EncodeOptions { add_special: false, parse_special: false };

static BYTE_LEVEL: LazyLock<Arc<Tokenizer>> =
    LazyLock::new(|| Arc::new(Tokenizer::new(&vocabularies::byte_level()).unwrap()));
static SENTENCE_PIECE: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::new(&vocabularies::sentence_piece()).unwrap());

fn decoded(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|id| tokenizer.decode_bytes(*id)).copied().collect()
}

fn any_text() -> impl Strategy<Value = String> {
    let words = prop_oneof![
        Just("hello".to_owned()),
        Just("  ".to_owned()),
        Just("<|end|>".to_owned()),
        Just("<think>".to_owned()),
        Just("<0x41>".to_owned()),
        Just("\u{2581}".to_owned()),
        Just("'LL 1234\r\n".to_owned()),
        ".{0,6}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(words, 0..12).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn byte_level_text_comes_back(text in any_text()) {
        let tokenizer = &*BYTE_LEVEL;
        let ids = tokenizer.encode(&text, PLAIN).unwrap();
        prop_assert_eq!(decoded(tokenizer, &ids), text.as_bytes());
    }

    #[test]
    fn sentence_piece_text_comes_back_with_its_space(text in any_text()) {
        // `▁` is how SentencePiece writes a space: the one text that it cannot keep apart.
        let text = text.replace('\u{2581}', "_");
        let tokenizer = &*SENTENCE_PIECE;
        let ids = tokenizer.encode(&text, PLAIN).unwrap();
        let back = String::from_utf8(decoded(tokenizer, &ids)).unwrap();
        // A space stands before the text and after each special token.
        let expected = text.split("<think>").map(|part| {
            if part.is_empty() { String::new() } else { format!(" {part}") }
        }).collect::<Vec<_>>().join("<think>");
        prop_assert_eq!(back, expected);
    }

    #[test]
    fn a_stream_of_any_bytes_is_what_lossy_decoding_gives(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x80..=0xC3_u8, 0xE0..=0xF4_u8], 0..40),
        text in any_text(),
    ) {
        let tokenizer = Arc::clone(&BYTE_LEVEL);
        let mut all = bytes;
        all.extend_from_slice(text.as_bytes());
        // Byte tokens begin after the seven specials.
        let mut stream = TextStream::new(Arc::clone(&tokenizer), Opening::Continues);
        let mut shown = String::new();
        for byte in &all {
            shown.push_str(&stream.push(7 + u32::from(*byte)));
        }
        shown.push_str(&stream.finish());
        prop_assert_eq!(shown, String::from_utf8_lossy(&all));
    }

    #[test]
    fn stop_strings_are_found_as_in_the_whole_text(
        text in "[ab ]{0,24}",
        stops in prop::collection::vec("[ab ]{1,4}", 0..4),
        cuts in prop::collection::vec(1..5_usize, 24),
    ) {
        let mut watch = StopStrings::new(stops.clone()).unwrap();
        let mut shown = String::new();
        let mut stopped = None;
        let mut rest = text.as_str();
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            let outcome = watch.push(piece);
            shown.push_str(&outcome.emit);
            stopped = stopped.or(outcome.stopped);
            rest = after;
        }
        shown.push_str(&watch.finish());
        // The naive way: after each character, does the text end with a stop string?
        let naive = (0..=text.len()).find_map(|end| {
            let so_far = &text[..end];
            let ending = stops.iter().filter(|stop| so_far.ends_with(stop.as_str()));
            ending.max_by_key(|stop| stop.len()).map(|stop| (end - stop.len(), stop.clone()))
        });
        match naive {
            Some((start, stop)) => {
                prop_assert_eq!(&shown, &text[..start]);
                prop_assert_eq!(stopped, Some(stop));
            }
            None => {
                prop_assert_eq!(shown, text);
                prop_assert_eq!(stopped, None);
            }
        }
    }
}

#[test]
fn a_reply_stops_inside_a_token_and_shows_nothing_of_the_stop_string() {
    let tokenizer = Arc::clone(&BYTE_LEVEL);
    let stops = StopStrings::new(vec!["llo w".to_owned()]).unwrap();
    let mut reply = ReplyText::new(Arc::clone(&tokenizer), Opening::Fresh, stops);
    let mut shown = String::new();
    let mut stopped = None;
    for id in tokenizer.encode(" hello hell hello world", PLAIN).unwrap() {
        let piece = reply.push(id);
        shown.push_str(&piece.text);
        stopped = stopped.or(piece.stopped);
    }
    shown.push_str(&reply.finish().text);
    assert_eq!(shown, "hello hell he");
    assert_eq!(stopped.as_deref(), Some("llo w"));
}

#[test]
fn a_fresh_reply_drops_one_leading_space_only() {
    let tokenizer = Arc::clone(&BYTE_LEVEL);
    let shown = |opening, text: &str| {
        let mut stream = TextStream::new(Arc::clone(&tokenizer), opening);
        let ids = tokenizer.encode(text, PLAIN).unwrap();
        ids.iter().map(|id| stream.push(*id)).collect::<String>()
    };
    assert_eq!(shown(Opening::Fresh, "  hello hello"), " hello hello");
    assert_eq!(shown(Opening::Fresh, "hello hello"), "hello hello");
    assert_eq!(shown(Opening::Continues, " hello"), " hello");
}

#[test]
fn impossible_stop_strings_are_refused() {
    assert!(StopStrings::new(vec![String::new()]).is_err());
    assert!(StopStrings::new(vec!["x".repeat(257)]).is_err());
    assert!(StopStrings::new(vec!["x".to_owned(); 81]).is_err());
    assert!(StopStrings::new(vec!["x".repeat(256); 80]).is_ok());
}

#[test]
fn debug_output_shows_no_reply_text() {
    let mut stops = StopStrings::new(vec!["canary!".to_owned()]).unwrap();
    let outcome = stops.push("a canary");
    assert!(!format!("{stops:?} {outcome:?}").contains("canary"));
}
