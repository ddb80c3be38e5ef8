//! The beginning of a reply that was cut, in the marks between what was thought and what was said.

use nook_text::said::Channel;
use nook_text::{EncodeError, EncodeOptions, Thought, Tokenizer};

use super::ThoughtMarks;

/// The ids of a reply that was cut, with the marks between what was thought and what was said, and
/// how its rest is read. `open` are the marks of the thinking that the prompt has opened, `known`
/// those of the template.
pub(super) fn go_on(
    tokenizer: &Tokenizer,
    (open, known): (Option<ThoughtMarks>, Option<ThoughtMarks>),
    (thought, reply): (&str, &str),
    most: usize,
) -> Result<(Vec<u32>, Thought), EncodeError> {
    // What the model said is text, whatever it spells; the marks are ours.
    let plain = EncodeOptions { add_special: false, parse_special: false };
    let marked = EncodeOptions { parse_special: true, ..plain };
    let mut ids = Vec::new();
    let mut write = |text: &str, options| -> Result<(), EncodeError> {
        ids.extend(tokenizer.encode_within(text, options, most)?);
        Ok(())
    };
    let rest = match open.or(known) {
        Some((mark, end)) if open.is_some() || !thought.is_empty() => {
            if open.is_none() {
                write(&format!("{mark}\n"), marked)?;
            }
            write(if reply.is_empty() { thought } else { thought.trim_end() }, plain)?;
            // A reply from before thinking was kept apart holds the end of its own.
            if !reply.is_empty() && !reply.contains(end) {
                write(&format!("\n{end}\n\n"), marked)?;
            }
            if reply.is_empty() { Thought::Within { end } } else { Thought::None }
        }
        _ => Thought::None,
    };
    write(reply, plain)?;
    Ok((ids, rest))
}

/// The head of a message that is text, in a reply with channels.
pub(super) const FINAL_HEAD: &str = "<|channel|>final<|message|>";

/// The same in a reply with channels, as OpenAI's response format for gpt-oss (harmony) has them.
pub(super) fn go_on_in_channels(
    tokenizer: &Tokenizer,
    (thought, reply): (&str, &str),
    most: usize,
) -> Result<(Vec<u32>, Thought), EncodeError> {
    let plain = EncodeOptions { add_special: false, parse_special: false };
    let mut ids = Vec::new();
    if !thought.is_empty() {
        ids.extend(write_marks(tokenizer, "<|channel|>analysis<|message|>", most)?);
        ids.extend(tokenizer.encode_within(thought, plain, most)?);
    }
    if reply.is_empty() {
        let channel = if thought.is_empty() { Channel::Head } else { Channel::Thinking };
        return Ok((ids, Thought::Channels(channel)));
    }
    if !thought.is_empty() {
        ids.extend(write_marks(tokenizer, "<|end|><|start|>assistant", most)?);
    }
    ids.extend(write_marks(tokenizer, FINAL_HEAD, most)?);
    ids.extend(tokenizer.encode_within(reply, plain, most)?);
    Ok((ids, Thought::Channels(Channel::Final)))
}

/// The ids of a text that is ours, whose marks are tokens of their own.
pub(super) fn write_marks(
    tokenizer: &Tokenizer,
    marks: &str,
    most: usize,
) -> Result<Vec<u32>, EncodeError> {
    let options = EncodeOptions { add_special: false, parse_special: true };
    tokenizer.encode_within(marks, options, most)
}

#[cfg(test)]
mod tests {
    use nook_base::Vocabulary;
    use nook_base::vocabulary::TokenKind;

    use super::*;

    const MARKS: ThoughtMarks = ("<think>", "</think>");

    /// A vocabulary of bytes and these marks.
    fn bytes_and(marks: &[&str]) -> (Tokenizer, Vec<String>) {
        let marks = marks.iter().map(|&mark| (mark.to_owned(), TokenKind::Control));
        let unknown = [("<unk>".to_owned(), TokenKind::Unknown)];
        let bytes = (0..=255).map(|byte: u8| (format!("<0x{byte:02X}>"), TokenKind::Byte));
        let (tokens, kinds): (Vec<_>, Vec<_>) =
            unknown.into_iter().chain(marks).chain(bytes).unzip();
        let vocabulary = Vocabulary {
            model: "llama".to_owned(),
            scores: vec![0.0; tokens.len()],
            tokens: tokens.clone(),
            kinds,
            unk: Some(0),
            add_space_prefix: Some(false),
            ..Vocabulary::default()
        };
        (Tokenizer::new(&vocabulary).unwrap(), tokens)
    }

    /// What such ids say: marks in brackets where they are tokens of their own.
    fn spell(ids: &[u32], tokens: &[String]) -> String {
        let mut text = String::new();
        for &id in ids {
            match tokens[id as usize].strip_prefix("<0x") {
                Some(byte) => {
                    let byte = u8::from_str_radix(byte.trim_end_matches('>'), 16).unwrap();
                    text.push(if byte == b'\n' { '/' } else { char::from(byte) });
                }
                None => text.push_str(&format!("[{}]", tokens[id as usize])),
            }
        }
        text.replace('\u{2581}', " ")
    }

    /// What the model is told of a reply that was cut.
    fn told(open: bool, known: bool, thought: &str, reply: &str) -> (String, Thought) {
        let (tokenizer, tokens) = bytes_and(&[MARKS.0, MARKS.1]);
        let marks = (open.then_some(MARKS), known.then_some(MARKS));
        let (ids, rest) = go_on(&tokenizer, marks, (thought, reply), usize::MAX).unwrap();
        (spell(&ids, &tokens), rest)
    }

    #[test]
    fn a_cut_reply_goes_on_behind_what_it_thought_and_said() {
        let within = Thought::Within { end: MARKS.1 };
        for (open, known, thought, reply, expected, rest) in [
            (false, false, "", "Yes", "Yes", Thought::None),
            (false, true, "", "Yes", "Yes", Thought::None),
            // The prompt has opened the thinking; there was none, and it was closed.
            (true, true, "", "Yes", "/[</think>]//Yes", Thought::None),
            (true, true, "Hm.\n", "Yes", "Hm./[</think>]//Yes", Thought::None),
            (false, true, "Hm.", "Yes", "[<think>]/Hm./[</think>]//Yes", Thought::None),
            // Cut in its middle: it goes on thinking.
            (true, true, "Hm,", "", "Hm,", within),
            (false, true, "Hm,", "", "[<think>]/Hm,", within),
            // What was said is text, whatever it spells.
            (false, true, "a<think>b", "", "[<think>]/a<think>b", within),
            // From before thinking was kept apart.
            (true, true, "", "Hm.</think>Yes", "Hm.</think>Yes", Thought::None),
        ] {
            let told = told(open, known, thought, reply);
            assert_eq!(told, (expected.to_owned(), rest), "{thought:?} {reply:?}");
        }
    }

    #[test]
    fn a_cut_reply_goes_on_in_the_channel_that_it_was_in() {
        let marks = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>"];
        let (tokenizer, tokens) = bytes_and(&marks);
        let thinks = "[<|channel|>]analysis[<|message|>]";
        let says = "[<|channel|>]final[<|message|>]";
        let between = "[<|end|>][<|start|>]assistant";
        for (thought, reply, expected, channel) in [
            ("", "", String::new(), Channel::Head),
            ("Hm,", "", format!("{thinks}Hm,"), Channel::Thinking),
            ("", "Yes", format!("{says}Yes"), Channel::Final),
            ("Hm.", "Yes", format!("{thinks}Hm.{between}{says}Yes"), Channel::Final),
            // What was said is text, whatever it spells; the marks around it are ours.
            ("Hm.", "<|end|>", format!("{thinks}Hm.{between}{says}<|end|>"), Channel::Final),
        ] {
            let begun = go_on_in_channels(&tokenizer, (thought, reply), usize::MAX);
            let (ids, rest) = begun.unwrap();
            let told = (spell(&ids, &tokens), rest);
            assert_eq!(told, (expected, Thought::Channels(channel)), "{thought:?} {reply:?}");
        }
        let head = write_marks(&tokenizer, FINAL_HEAD, usize::MAX).unwrap();
        assert_eq!(spell(&head, &tokens), says, "behind which a reply with a form begins");
        let long = go_on_in_channels(&tokenizer, ("", &"x".repeat(50)), 20);
        assert!(matches!(long, Err(EncodeError::TooMany { .. })), "{long:?}");
    }
}
