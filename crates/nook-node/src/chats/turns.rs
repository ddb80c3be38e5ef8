//! Turns: what a person says goes into the tree of its conversation, and a reply to it begins.

use nook_base::tasks::Tasks;
use nook_base::{ReplyChoices, ThinkingChoice, clock};
use nook_store::{
    Chats, ChatsError, Conversation, ConversationId, Finish, Message, MessageId, Role,
};
use tokio::sync::{mpsc, oneshot};

use super::keeping::{self, Begun};
use super::{Books, ChatBook, ChatEvent, role_view, told};
use nook_api::views::ChatRole;
use nook_api::{
    Answer, Asker, ChatMessage, GenerateRequest, NodeError, Prompt, Reach, SamplingParameters,
    StartedTurn, Turn, TurnText,
};

/// Characters of a first message that become the title of its conversation.
const TITLE_CHARS: usize = 48;

/// A turn whose messages are in the database and whose reply is not begun.
struct Prepared {
    conversation: ConversationId,
    user: MessageId,
    reply: MessageId,
    prompt: Prompt,
    reach: Reach,
    choices: ReplyChoices,
    begun: Begun,
}

impl ChatBook {
    /// Says something in a conversation. The settings say how its reply is made where nothing was
    /// chosen for the conversation.
    pub(crate) fn say(
        &self,
        turn: Turn,
        (temperature, thinking): (f32, ThinkingChoice),
        tasks: &Tasks,
        answer: Answer<StartedTurn>,
    ) {
        let (book, events) = (self.clone(), self.events.clone());
        let model = turn.model.clone();
        let spawner = tasks.clone();
        tasks.spawn_until_cancelled("turn", async move {
            let outcome = async {
                let preparing = book.run(move |books| {
                    let mut ended = Vec::new();
                    let prepared = prepare(books, turn, &mut ended);
                    Ok((prepared, ended))
                });
                let (prepared, ended) = preparing.await?;
                // Also where the turn failed: other devices hold what they computed of them.
                for ended in ended {
                    // Nobody listens when the node leaves.
                    let _ = events.send(ChatEvent::Ended(ended.0)).await;
                }
                let prepared = prepared.map_err(told)?;
                let chosen = prepared.choices;
                let temperature = Some(chosen.temperature.unwrap_or(temperature));
                let request = GenerateRequest {
                    model,
                    prompt: prepared.prompt,
                    tokens_max: None,
                    sampling: SamplingParameters { temperature, ..SamplingParameters::default() }
                        .into(),
                    stop: Vec::new(),
                    thinking: chosen.thinking.unwrap_or(thinking).into(),
                    activation_dtype: None,
                    reach: prepared.reach,
                };
                let reply_message = prepared.reply;
                let conversation = Some(prepared.conversation.0);
                let request = (Asker::Owner, Box::new(request));
                let coming = match placed(&events, request, conversation).await {
                    Ok(coming) => coming,
                    Err(error) => {
                        let code = error.code.name().to_owned();
                        let finish = Finish::Failed { code };
                        keeping::save_end(&book, reply_message, finish, None).await;
                        return Err(error);
                    }
                };
                let (book, begun) = (book.clone(), prepared.begun);
                Ok(StartedTurn {
                    conversation: prepared.conversation.0,
                    user_message: prepared.user.0,
                    reply_message: reply_message.0,
                    reply: keeping::keep(book, reply_message, begun, coming, &spawner),
                })
            };
            let _ = answer.send(outcome.await);
        });
    }
}

/// Asks for a reply; comes back as soon as it has a place, be it in the queue.
pub(super) async fn placed(
    events: &mpsc::Sender<ChatEvent>,
    (asker, request): (Asker, Box<GenerateRequest>),
    conversation: Option<i64>,
) -> Result<keeping::Coming, NodeError> {
    let (placed, has_place) = oneshot::channel();
    let (answer, coming) = oneshot::channel();
    let ask = ChatEvent::Generate { asker, request, conversation, placed, answer };
    events.send(ask).await.map_err(|_| NodeError::gone())?;
    match has_place.await {
        Ok(()) => Ok(coming),
        // Refused: the answer has said why before the place was given up.
        Err(_) => match coming.await.map_err(|_| NodeError::gone())? {
            Err(error) => Err(error),
            Ok(_) => Err(NodeError::gone()),
        },
    }
}

/// Prepares a turn, in a conversation that it begins where it names none. One that fails begins
/// none. Temporary conversations that made room are in `ended`, either way.
fn prepare(
    books: &mut Books,
    turn: Turn,
    ended: &mut Vec<ConversationId>,
) -> Result<Prepared, ChatsError> {
    let now = clock::unix_seconds();
    if let Some(id) = turn.conversation.map(ConversationId) {
        return prepare_in(books.of(id), id, turn, now);
    }
    let title = title_of(&turn.text);
    let id = match turn.start.temporary {
        true => books.create_passing(&title, now, ended)?,
        false => books.kept.create(&title, now)?,
    };
    let chats = books.of(id);
    let prepared = arrange(chats, id, &turn).and_then(|()| prepare_in(chats, id, turn, now));
    if prepared.is_err()
        && let Err(error) = chats.delete(id)
    {
        tracing::warn!(%error, "an empty conversation stays of a turn that failed");
    }
    prepared
}

/// Adds what the person says and an empty reply, or takes up the reply that goes on; collects the
/// branch that is answered.
fn prepare_in(
    chats: &mut Chats,
    conversation: ConversationId,
    turn: Turn,
    now: u64,
) -> Result<Prepared, ChatsError> {
    if let TurnText::More(reply) = turn.text {
        let kept = chats.get(conversation)?;
        let reply = MessageId(reply);
        let cut = kept.messages.iter().find(|message| message.id == reply);
        let cut = cut.ok_or(ChatsError::NoMessage)?;
        let user = cut.parent.ok_or(ChatsError::NotCut)?;
        chats.resume(reply)?;
        let messages = told_so_far(&kept, user);
        let thought = cut.thought.as_ref().map(|thought| thought.text.clone());
        let prompt = if cut.text.is_empty() && thought.is_none() {
            Prompt::Chat(messages)
        } else {
            let (thought, reply) = (thought.unwrap_or_default(), cut.text.clone());
            Prompt::Begun { messages, thought, reply }
        };
        let (reach, begun) = (reach(&kept, turn.reach), Begun::of(cut));
        let choices = kept.entry.choices;
        return Ok(Prepared { conversation, user, reply, prompt, reach, choices, begun });
    }
    let user = match &turn.text {
        TurnText::New { text, parent } => {
            chats.add(conversation, parent.map(MessageId), Role::User, text, now)?
        }
        TurnText::Again(user) | TurnText::More(user) => MessageId(*user),
    };
    let reply = chats.begin_reply(conversation, user, &turn.model, now)?;
    let kept = chats.get(conversation)?;
    let (prompt, reach) = (Prompt::Chat(told_so_far(&kept, user)), reach(&kept, turn.reach));
    let (choices, begun) = (kept.entry.choices, Begun::default());
    Ok(Prepared { conversation, user, reply, prompt, reach, choices, begun })
}

/// Sets how a conversation that a turn begins is to be answered.
fn arrange(chats: &mut Chats, id: ConversationId, turn: &Turn) -> Result<(), ChatsError> {
    if !turn.start.instructions.is_empty() {
        chats.instruct(id, &turn.start.instructions)?;
    }
    if turn.reach == Reach::ThisDevice {
        chats.confine(id, true)?;
    }
    if turn.start.choices != ReplyChoices::default() {
        chats.tune(id, turn.start.choices)?;
    }
    Ok(())
}

/// A conversation that is kept to this device stays on it.
pub(super) fn reach(kept: &Conversation, asked: Reach) -> Reach {
    if kept.entry.only_here { Reach::ThisDevice } else { asked }
}

/// What the model is to see: the instructions, and the branch up to what the person said last.
pub(super) fn told_so_far(kept: &Conversation, user: MessageId) -> Vec<ChatMessage> {
    let instructions = &kept.entry.instructions;
    let first = (!instructions.trim().is_empty())
        .then(|| ChatMessage { role: ChatRole::System, text: instructions.clone() });
    first.into_iter().chain(kept.branch(user).into_iter().filter_map(prompt_message)).collect()
}

/// A message as the model is to see it: without what it thought, as templates leave that out of
/// earlier turns; an empty reply (cut before its first word) is left out.
fn prompt_message(message: &Message) -> Option<ChatMessage> {
    if message.role == Role::Assistant && message.text.is_empty() {
        return None;
    }
    Some(ChatMessage { role: role_view(message.role), text: message.text.clone() })
}

fn title_of(text: &TurnText) -> String {
    let TurnText::New { text, .. } = text else {
        return String::new();
    };
    title_of_words(text)
}

/// What a conversation that begins with this is called at first.
pub(super) fn title_of_words(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let line = attached(line).unwrap_or(line);
    let mut title: String = line.chars().take(TITLE_CHARS).collect();
    if line.chars().count() > TITLE_CHARS {
        title.push('…');
    }
    title
}

/// The name of the file that this line begins, as the window puts files into messages.
fn attached(line: &str) -> Option<&str> {
    let (_, name) = line.strip_prefix("```")?.split_once(" title=\"")?;
    name.strip_suffix('"').filter(|name| !name.is_empty())
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prepared({:?})", self.conversation)
    }
}

#[cfg(test)]
mod tests {
    use nook_base::Sensitive;
    use nook_store::{INSTRUCTIONS_BYTES_MAX, MESSAGE_BYTES_MAX};

    use super::*;
    use crate::chats::TEMPORARY_MAX;
    use crate::chats::tests::books;
    use nook_api::ChatStart;

    fn new(text: &str, parent: Option<i64>) -> TurnText {
        TurnText::New { text: Sensitive(text.to_owned()), parent }
    }

    fn turn(conversation: Option<i64>, text: TurnText) -> Turn {
        Turn {
            conversation,
            start: ChatStart::default(),
            text,
            model: "ember".to_owned(),
            reach: Reach::House,
        }
    }

    fn said(prompt: &Prompt) -> Vec<&str> {
        match prompt {
            Prompt::Chat(messages) | Prompt::Begun { messages, .. } => {
                messages.iter().map(|message| message.text.as_str()).collect()
            }
            Prompt::Text(_) | Prompt::Gap { .. } | Prompt::Tokens(_) | Prompt::Dialog(_) => {
                Vec::new()
            }
        }
    }

    fn prepare(books: &mut Books, turn: Turn) -> Result<Prepared, ChatsError> {
        super::prepare(books, turn, &mut Vec::new())
    }

    #[test]
    fn a_turn_that_fails_begins_no_conversation() {
        let mut books = books();
        let long = "x".repeat(MESSAGE_BYTES_MAX + 1);
        let instructions = Sensitive("x".repeat(INSTRUCTIONS_BYTES_MAX + 1));
        for temporary in [false, true] {
            let start = ChatStart { temporary, ..ChatStart::default() };
            let begin = Turn { start, ..turn(None, new(&long, None)) };
            let failed = prepare(&mut books, begin).unwrap_err();
            assert!(matches!(failed, ChatsError::TooLong { .. }), "{failed}");
            let start =
                ChatStart { temporary, instructions: instructions.clone(), ..ChatStart::default() };
            let begin = Turn { start, ..turn(None, new("Hello", None)) };
            let failed = prepare(&mut books, begin).unwrap_err();
            assert!(matches!(failed, ChatsError::InstructionsTooLong { .. }), "{failed}");
            assert!(books.kept.list(9).unwrap().is_empty());
            assert!(books.passing.list(9).unwrap().is_empty());
        }
        // One that was there before stays.
        let first = prepare(&mut books, turn(None, new("Hello", None))).unwrap().conversation;
        prepare(&mut books, turn(Some(first.0), new(&long, None))).unwrap_err();
        assert_eq!(books.kept.get(first).unwrap().messages.len(), 2);
    }

    #[tokio::test]
    async fn a_temporary_chat_that_made_room_has_ended_also_where_the_turn_fails() {
        let (events, mut told) = mpsc::channel(1);
        let tasks = Tasks::new();
        let book = ChatBook::start(Chats::in_memory().unwrap(), events, &tasks).unwrap();
        let fill = |books: &mut Books| {
            let begin = |number| books.create_passing("x", number, &mut Vec::new());
            (0..TEMPORARY_MAX as u64).map(begin).collect::<Result<Vec<_>, _>>()
        };
        let oldest = book.run(fill).await.unwrap()[0];
        let start = ChatStart { temporary: true, ..ChatStart::default() };
        let text = new(&"x".repeat(MESSAGE_BYTES_MAX + 1), None);
        let (answer, answered) = oneshot::channel();
        book.say(Turn { start, ..turn(None, text) }, (0.0, ThinkingChoice::Usual), &tasks, answer);
        let Err(error) = answered.await.unwrap() else { panic!("it is too long") };
        assert_eq!(error.code, nook_base::ErrorCode::TooLong);
        let event = told.try_recv();
        assert!(matches!(event, Ok(ChatEvent::Ended(id)) if id == oldest.0), "{event:?}");
    }

    #[test]
    fn a_title_is_the_first_line_cut_to_length() {
        let title = title_of(&new("\n  Why is the sky blue?\nReally?", None));
        assert_eq!(title, "Why is the sky blue?");
        let file = "```markdown title=\"Homework.md\"\n# Sums\n```";
        assert_eq!(title_of(&new(file, None)), "Homework.md");
        assert_eq!(title_of(&new("```rust\nfn main() {}\n```", None)), "```rust");
        assert!(title_of(&new(&"x".repeat(80), None)).ends_with('…'));
    }

    #[test]
    fn answering_again_makes_a_sibling_and_the_prompt_ends_with_the_question() {
        let mut books = books();
        let first = prepare(&mut books, turn(None, new("Hello", None))).unwrap();
        books.kept.append(first.reply, "Hi").unwrap();
        let again = turn(Some(first.conversation.0), TurnText::Again(first.user.0));
        let second = prepare(&mut books, again).unwrap();
        assert_eq!(second.user, first.user);
        assert_ne!(second.reply, first.reply);
        assert_eq!(said(&second.prompt), ["Hello"]);
        let kept = books.kept.get(first.conversation).unwrap();
        let parents: Vec<_> = kept.messages.iter().map(|message| message.parent).collect();
        assert_eq!(parents, [None, Some(first.user), Some(first.user)]);
    }

    #[test]
    fn the_first_message_edited_begins_beside_the_old_one() {
        let mut books = books();
        let first = prepare(&mut books, turn(None, new("Hello", None))).unwrap();
        books.kept.append(first.reply, "Hi").unwrap();
        let edited = turn(Some(first.conversation.0), new("Good day", None));
        let second = prepare(&mut books, edited).unwrap();
        assert_eq!(said(&second.prompt), ["Good day"]);
        let kept = books.kept.get(first.conversation).unwrap();
        let beginnings = kept.messages.iter().filter(|message| message.parent.is_none()).count();
        assert_eq!(beginnings, 2);
    }

    #[test]
    fn a_cut_reply_goes_on_behind_its_own_words() {
        let mut books = books();
        let first = prepare(&mut books, turn(None, new("Tell me", None))).unwrap();
        let id = Some(first.conversation.0);
        books.kept.append(first.reply, "Once upon").unwrap();
        let more = || turn(id, TurnText::More(first.reply.0));
        assert_eq!(prepare(&mut books, more()).unwrap_err(), ChatsError::NotCut);
        books.kept.finish(first.reply, &Finish::Length, None, 1).unwrap();
        let second = prepare(&mut books, more()).unwrap();
        assert_eq!((second.user, second.reply), (first.user, first.reply));
        assert_eq!(said(&second.prompt), ["Tell me"]);
        let Prompt::Begun { reply, .. } = &second.prompt else { panic!("it does not go on") };
        assert_eq!(reply.as_str(), "Once upon");
        let question = turn(id, TurnText::More(first.user.0));
        assert_eq!(prepare(&mut books, question).unwrap_err(), ChatsError::NotCut);
    }

    #[test]
    fn a_chat_kept_to_this_device_stays_on_it_whatever_is_asked_later() {
        let mut books = books();
        let begin = Turn { reach: Reach::ThisDevice, ..turn(None, new("Hello", None)) };
        let first = prepare(&mut books, begin).unwrap();
        let again = turn(Some(first.conversation.0), TurnText::Again(first.user.0));
        assert_eq!(prepare(&mut books, again).unwrap().reach, Reach::ThisDevice);
        books.kept.confine(first.conversation, false).unwrap();
        let again = turn(Some(first.conversation.0), TurnText::Again(first.user.0));
        assert_eq!(prepare(&mut books, again).unwrap().reach, Reach::House);
    }

    #[test]
    fn instructions_come_first_and_temporary_chats_touch_no_file() {
        let mut books = books();
        let instructions = Sensitive("Be brief.".to_owned());
        let start = ChatStart { temporary: true, instructions, ..ChatStart::default() };
        let begin = Turn { start, ..turn(None, new("Hello", None)) };
        let first = prepare(&mut books, begin).unwrap();
        assert_eq!(said(&first.prompt), ["Be brief.", "Hello"]);
        assert!(first.conversation.is_passing());
        assert!(books.kept.list(9).unwrap().is_empty());
        let more = turn(Some(first.conversation.0), new("And?", Some(first.user.0)));
        let second = prepare(&mut books, more).unwrap();
        assert_eq!(said(&second.prompt), ["Be brief.", "Hello", "And?"]);
    }
}
