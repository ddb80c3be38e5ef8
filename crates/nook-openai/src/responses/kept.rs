//! Answers that a later request may name, each for the key that it was made for.
//!
//! In memory only, and few: the oldest are forgotten first, all of them with the process. Nothing
//! of them is shown to anybody; a request that names one goes on from it.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use nook_text::{PastCall, Role, Turn};

use super::shape::OutputItem;

/// Answers that are kept for one key.
const ANSWERS_MAX: usize = 64;

/// Bytes of text that are kept for one key.
const BYTES_MAX: usize = 8 << 20;

/// An answer, with the conversation that led to it.
#[derive(Clone)]
pub(super) struct KeptAnswer {
    pub(super) id: String,
    /// Without instructions, which count for one answer each.
    pub(super) turns: Vec<Turn>,
    pub(super) output: Vec<OutputItem>,
}

/// The answers of all keys. Clones are the same store.
#[derive(Clone, Default)]
pub(crate) struct KeptAnswers(Arc<Mutex<HashMap<Option<String>, VecDeque<KeptAnswer>>>>);

impl KeptAnswers {
    /// Keeps an answer, and forgets older ones where it is too much.
    pub(super) fn keep(&self, key: Option<&str>, answer: KeptAnswer) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.entry(key.map(str::to_owned)).or_default();
        kept.push_back(answer);
        while kept.len() > ANSWERS_MAX || kept.iter().map(bytes).sum::<usize>() > BYTES_MAX {
            kept.pop_front();
        }
    }

    /// The conversation that ends with the answer of this id.
    pub(super) fn conversation(&self, key: Option<&str>, id: &str) -> Option<Vec<Turn>> {
        self.find(key, |answer| (answer.id == id).then(|| answer.conversation()))
    }

    /// The item of this id.
    pub(super) fn item(&self, key: Option<&str>, id: &str) -> Option<OutputItem> {
        self.find(key, |answer| answer.output.iter().find(|item| item.id() == id).cloned())
    }

    fn find<T>(&self, key: Option<&str>, of: impl Fn(&KeptAnswer) -> Option<T>) -> Option<T> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&key.map(str::to_owned))?.iter().rev().find_map(of)
    }
}

impl KeptAnswer {
    fn conversation(&self) -> Vec<Turn> {
        let mut turns = self.turns.clone();
        for item in &self.output {
            add_item(&mut turns, item, self.turns.len());
        }
        turns
    }
}

/// Adds what the model did; calls and text of one reply make one turn. Turns before `from` are of
/// others. Templates leave out what was thought in earlier turns.
pub(super) fn add_item(turns: &mut Vec<Turn>, item: &OutputItem, from: usize) {
    let text = match item {
        OutputItem::Reasoning { .. } => return,
        OutputItem::Message { content, .. } => {
            content.iter().map(|part| part.text.as_str()).collect::<String>()
        }
        OutputItem::FunctionCall { .. } => String::new(),
    };
    let goes_on =
        turns.len() > from && turns.last().is_some_and(|last| last.role == Role::assistant());
    if !goes_on {
        turns.push(Turn::new(Role::assistant(), ""));
    }
    let Some(turn) = turns.last_mut() else { return };
    turn.text.0.push_str(&text);
    if let OutputItem::FunctionCall { call_id, name, arguments, .. } = item {
        let (id, name) = (call_id.clone(), name.clone());
        turn.calls.push(PastCall { id, name, arguments: arguments.clone().into() });
    }
}

/// About so much memory an answer takes.
fn bytes(answer: &KeptAnswer) -> usize {
    let turn = |turn: &Turn| {
        let calls: usize = turn.calls.iter().map(|call| call.arguments.len()).sum();
        turn.text.len() + calls
    };
    let item = |item: &OutputItem| match item {
        OutputItem::Reasoning { content, .. } => content.iter().map(|it| it.text.len()).sum(),
        OutputItem::Message { content, .. } => content.iter().map(|it| it.text.len()).sum(),
        OutputItem::FunctionCall { arguments, .. } => arguments.len(),
    };
    answer.turns.iter().map(turn).sum::<usize>() + answer.output.iter().map(item).sum::<usize>()
}

impl fmt::Debug for KeptAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What was said stays out of logs (invariant I-3).
        f.write_str("KeptAnswers")
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::OutputText;
    use super::*;

    fn answer(number: usize, bytes: usize) -> KeptAnswer {
        let text = "x".repeat(bytes);
        let content = vec![OutputText {
            kind: "output_text",
            text: "Yes.".to_owned(),
            annotations: Vec::new(),
            logprobs: Vec::new(),
        }];
        let (status, role) = ("completed", "assistant");
        let said = OutputItem::Message { id: format!("msg_{number}"), status, role, content };
        let called = OutputItem::FunctionCall {
            id: format!("fc_{number}"),
            call_id: "c".to_owned(),
            name: "go".to_owned(),
            namespace: None,
            arguments: "{}".to_owned(),
            status,
        };
        let turns = vec![Turn::new(Role::user(), text)];
        KeptAnswer { id: format!("resp_{number}"), turns, output: vec![said, called] }
    }

    #[test]
    fn each_key_has_its_own_answers_and_the_oldest_go_first() {
        let kept = KeptAnswers::default();
        (0..ANSWERS_MAX + 2).for_each(|number| kept.keep(None, answer(number, 4)));
        kept.keep(Some("Zed"), answer(1000, 4));
        for (key, id, is_there) in [
            (None, "resp_1", false),
            (None, "resp_2", true),
            (None, "resp_1000", false),
            (Some("Zed"), "resp_1000", true),
            (Some("Zed"), "resp_2", false),
            (Some("other"), "resp_2", false),
        ] {
            assert_eq!(kept.conversation(key, id).is_some(), is_there, "{key:?} {id}");
        }
        let turns = kept.conversation(None, "resp_2").unwrap();
        assert_eq!(turns.len(), 2, "text and calls of one reply are one turn");
        assert_eq!((turns[1].text.as_str(), turns[1].calls[0].name.as_str()), ("Yes.", "go"));
        assert!(kept.item(None, "fc_2").is_some() && kept.item(Some("Zed"), "fc_2").is_none());
        // A long one takes the place of many, and one that is too long is not kept.
        kept.keep(None, answer(200, BYTES_MAX - 100));
        assert!(kept.conversation(None, "resp_2").is_none());
        assert!(kept.conversation(None, "resp_200").is_some());
        kept.keep(None, answer(201, BYTES_MAX + 1));
        assert!(kept.conversation(None, "resp_201").is_none());
        assert!(kept.conversation(Some("Zed"), "resp_1000").is_some());
    }
}
