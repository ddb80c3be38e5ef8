//! Titles that a model makes: what it is asked, and what of its answer is one.
//!
//! A new conversation is called by its first words. Behind its first replies the window asks for
//! better: the model that answered then reads one more line behind what it has read already and
//! writes a few words, behind whatever the owner waits for. A title that somebody chose stays.

use nook_base::Sensitive;
use nook_base::tasks::Tasks;
use nook_store::{Chats, ChatsError, Conversation, ConversationId, Finish, Message, Role};

use super::telling_apart::{Apart, Thinking};
use super::turns::{placed, reach, title_of_words, told_so_far};
use super::{ChatBook, ChatEvent};
use nook_api::views::{ChatRole, FinishReason, PathView, ReplyEvent};
use nook_api::{
    Answer, Asker, ChatMessage, GenerateRequest, Prompt, Reach, Reply, SamplingParameters,
};
use tokio::sync::mpsc;

/// What the model is asked for.
const QUESTION: &str = "Give this conversation a title of at most six words, in its language. \
                        Answer with the title alone.";

/// Most tokens of the answer: six long words of any language.
const TOKENS_MAX: u32 = 32;

/// Longest title, in characters; what is longer is no title.
const TITLE_CHARS_MAX: usize = 60;

/// Most characters of a conversation that is named so: reading a long one again, where it has been
/// forgotten, is more than a title is worth.
const CONVERSATION_CHARS_MAX: usize = 12_000;

/// Replies behind which a title is still made.
const REPLIES_MAX: usize = 3;

/// What stands around a title where a model does more than it was asked for.
const AROUND: &[char] = &['"', '\'', '“', '”', '„', '«', '»', '*', '#', '_', '`', ' ', '\t'];

/// A conversation that can have a better title.
struct Untitled {
    title: Sensitive<String>,
    model: String,
    messages: Vec<ChatMessage>,
    reach: Reach,
}

/// Who makes titles now.
#[derive(Debug)]
pub(crate) struct Naming {
    /// The names of the models that may.
    pub(crate) models: Vec<String>,
    pub(crate) tasks: Tasks,
}

impl ChatBook {
    /// Has a title made by the model that answered last, if that may, and gives it to the
    /// conversation. Answers with nothing where the title stays as it is.
    pub(super) fn entitle(
        &self,
        conversation: i64,
        naming: &Naming,
        answer: Answer<Option<String>>,
    ) {
        let (book, events, models) = (self.clone(), self.events.clone(), naming.models.clone());
        naming.tasks.spawn_until_cancelled("title", async move {
            let id = ConversationId(conversation);
            let outcome = async {
                let looked = book.run(move |books| untitled(books.of(id), id)).await?;
                let may =
                    |it: &Untitled| models.iter().any(|name| name.eq_ignore_ascii_case(&it.model));
                let Some(found) = looked.filter(may) else {
                    return Ok(None);
                };
                let before = found.title.clone();
                let Some(title) = made(&events, conversation, found).await else {
                    return Ok(None);
                };
                book.run(move |books| renamed(books.of(id), id, &before, title)).await
            };
            // Whoever asked may have left.
            let _ = answer.send(outcome.await);
        });
    }
}

/// What can be asked about a conversation, if its title is still its first words.
fn untitled(chats: &Chats, id: ConversationId) -> Result<Option<Untitled>, ChatsError> {
    let kept = chats.get(id)?;
    Ok(last_reply(&kept).and_then(|reply| {
        let branch = kept.branch(reply.id);
        let first = branch.iter().find(|message| message.role == Role::User)?;
        let replies = branch.iter().filter(|message| message.role == Role::Assistant).count();
        let characters: usize = branch.iter().map(|message| message.text.chars().count()).sum();
        let is_short = replies <= REPLIES_MAX && characters <= CONVERSATION_CHARS_MAX;
        let is_unnamed = title_of_words(&first.text) == kept.entry.title.as_str();
        let model = reply.model.clone().filter(|_| is_short && is_unnamed)?;
        let mut messages = told_so_far(&kept, reply.id);
        let question = Sensitive(QUESTION.to_owned());
        messages.push(ChatMessage { role: ChatRole::User, text: question });
        // No title sends a conversation to others of which none has helped with it.
        let shared = branch.iter().any(|message| was_shared(message));
        let asked = if shared { Reach::House } else { Reach::ThisDevice };
        let (title, reach) = (kept.entry.title.clone(), reach(&kept, asked));
        Some(Untitled { title, model, messages, reach })
    }))
}

/// Whether another device has computed some of a reply.
fn was_shared(message: &Message) -> bool {
    let route = message.route.as_deref().unwrap_or_default();
    // A summary has all the fields of a path, so this reads both.
    let path = serde_json::from_str::<PathView>(route);
    path.is_ok_and(|path| {
        !path.failovers.is_empty() || path.route.legs.iter().any(|leg| !leg.local)
    })
}

/// The newest reply, where it has come to its end.
fn last_reply(kept: &Conversation) -> Option<&Message> {
    let reply = kept.messages.iter().rev().find(|message| message.role == Role::Assistant)?;
    let is_whole = matches!(reply.finish, Finish::Complete | Finish::Length);
    Some(reply).filter(|reply| is_whole && !reply.text.trim().is_empty())
}

/// Asks the model; nothing where it has no title to give.
async fn made(
    events: &mpsc::Sender<ChatEvent>,
    conversation: i64,
    found: Untitled,
) -> Option<String> {
    let sampling = SamplingParameters { temperature: Some(0.0), ..SamplingParameters::default() };
    let request = GenerateRequest {
        model: found.model,
        prompt: Prompt::Chat(found.messages),
        tokens_max: Some(TOKENS_MAX),
        sampling: sampling.into(),
        stop: Vec::new(),
        thinking: nook_api::Thinking::Off,
        activation_dtype: None,
        reach: found.reach,
    };
    // Behind what the owner waits for.
    let asked = placed(events, (Asker::Program, Box::new(request)), Some(conversation)).await;
    let coming = asked.ok()?;
    let reply = coming.await.ok()?.ok()?;
    let (text, is_whole) = said(reply).await?;
    tidy(&text, is_whole)
}

/// What a reply says, without what was thought, and whether it came to its own end.
async fn said(mut reply: Reply) -> Option<(String, bool)> {
    let mut apart = Apart::new(reply.form.clone(), Thinking::after(0));
    let mut text = String::new();
    while let Some(piece) = reply.events.recv().await {
        for piece in apart.told(piece) {
            match piece.event {
                ReplyEvent::TokenDelta { text: more, .. } => text.push_str(&more),
                ReplyEvent::Done { summary } => {
                    return Some((text, summary.finish_reason == FinishReason::Stop));
                }
                ReplyEvent::PipelineAborted { .. } => return None,
                _ => {}
            }
        }
    }
    None
}

/// The title in an answer: its first line, or of one that was cut its first sentence, without what
/// stands around it. Nothing where that is none.
fn tidy(answer: &str, is_whole: bool) -> Option<String> {
    let line = answer.lines().find(|line| line.chars().any(char::is_alphanumeric))?;
    let has_more = answer.trim_end().lines().count() > 1;
    let line = match is_whole || has_more {
        true => line,
        false => line.split_inclusive(['.', '!', '?']).next().filter(|it| *it != line)?,
    };
    let named = line.trim_matches(AROUND);
    let named = ["Title:", "Titel:"].iter().find_map(|mark| named.strip_prefix(mark));
    let title = named.unwrap_or(line).trim_matches(AROUND).trim_end_matches(['.', ':']);
    let begins = |letter: char| letter.is_alphanumeric() || "¿¡(".contains(letter);
    let title = title.trim_start_matches(|letter| !begins(letter));
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_one = title.chars().count() <= TITLE_CHARS_MAX
        && title.chars().filter(|letter| letter.is_alphanumeric()).count() >= 2
        && !title.chars().any(|letter| letter.is_control() || "<>|{}".contains(letter));
    is_one.then_some(title)
}

/// Gives the conversation its title, unless somebody was quicker.
fn renamed(
    chats: &mut Chats,
    id: ConversationId,
    before: &str,
    title: String,
) -> Result<Option<String>, ChatsError> {
    if chats.entry(id)?.title.as_str() != before {
        return Ok(None);
    }
    chats.rename(id, &title)?;
    Ok(Some(title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chats::stretches::tests::route;
    use crate::chats::tests::books;

    #[test]
    fn a_title_is_a_line_without_what_stands_around_it() {
        for (answer, title) in [
            ("Why leaves change colour", "Why leaves change colour"),
            ("\n\"Why Leaves Change Colour.\"\n\nI chose this because", "Why Leaves Change Colour"),
            ("**Title:** Soup  with what is left", "Soup with what is left"),
            ("Titel: „Warum Blätter bunt werden“", "Warum Blätter bunt werden"),
            ("# 葉の色", "葉の色"),
            ("- ¿Por qué caen las hojas?", "¿Por qué caen las hojas?"),
        ] {
            assert_eq!(tidy(answer, true).as_deref(), Some(title), "{answer}");
        }
        for no_title in
            ["", "...\n", "?", "<think>Hm", "{\"title\": \"x y\"}", &"a word ".repeat(20)]
        {
            assert_eq!(tidy(no_title, true), None, "{no_title}");
        }
    }

    #[test]
    fn others_help_with_a_title_only_where_they_have_helped_with_a_reply() {
        let mut books = books();
        let chats = &mut books.kept;
        for (is_local, confined, expected) in [
            (true, false, Reach::ThisDevice),
            (false, false, Reach::House),
            (false, true, Reach::ThisDevice),
        ] {
            let id = chats.create("Why?", 1).unwrap();
            chats.confine(id, confined).unwrap();
            let ask = chats.add(id, None, Role::User, "Why?", 1).unwrap();
            let reply = chats.begin_reply(id, ask, "qwen", 2).unwrap();
            chats.append(reply, "Because").unwrap();
            let mut route = route("Study PC");
            route.legs.iter_mut().for_each(|leg| leg.local = is_local);
            let path = PathView { route, failovers: Vec::new(), completion_tokens: 1 };
            let path = serde_json::to_string(&path).unwrap();
            chats.finish(reply, &Finish::Complete, Some(&path), 3).unwrap();
            let found = untitled(chats, id).unwrap().unwrap();
            assert_eq!(found.reach, expected, "{is_local} {confined}");
        }
    }

    #[test]
    fn of_an_answer_that_was_cut_only_a_whole_line_or_sentence_counts() {
        assert_eq!(
            tidy("Leaves in autumn\nThis title", false).as_deref(),
            Some("Leaves in autumn")
        );
        assert_eq!(tidy("Leaves fall. They are", false).as_deref(), Some("Leaves fall"));
        assert_eq!(tidy("Leaves that fall in", false), None);
    }

    #[test]
    fn only_a_kept_answer_under_its_first_words_is_named() {
        let mut books = books();
        let chats = &mut books.kept;
        let id = chats.create("Why are leaves red?", 1).unwrap();
        let ask = chats.add(id, None, Role::User, "Why are leaves red?", 1).unwrap();
        let reply = chats.begin_reply(id, ask, "qwen", 2).unwrap();
        chats.append(reply, "Because of").unwrap();
        assert!(untitled(chats, id).unwrap().is_none(), "it is still written");
        chats.finish(reply, &Finish::Complete, None, 3).unwrap();
        let found = untitled(chats, id).unwrap().unwrap();
        assert_eq!(found.model, "qwen");
        let said: Vec<_> = found.messages.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(said, ["Why are leaves red?", "Because of", QUESTION]);
        assert_eq!(found.reach, Reach::ThisDevice, "nobody has helped with it");

        let title = || "Red leaves".to_owned();
        let given = renamed(chats, id, "Why are leaves red?", title()).unwrap();
        assert_eq!(given.as_deref(), Some("Red leaves"));
        assert!(untitled(chats, id).unwrap().is_none(), "it has a name");
        assert_eq!(renamed(chats, id, "Why are leaves red?", title()).unwrap(), None);
    }
}
