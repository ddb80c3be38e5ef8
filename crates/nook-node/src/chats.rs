//! Kept conversations: the thread that owns the database, and turns in them.
//!
//! SQLite may wait for the disk, so it has a thread of its own; jobs come in order and answer for
//! themselves. A reply is saved while it grows, so that whatever ends the program leaves the words
//! that were shown.

use std::time::Duration;

use nook_base::tasks::Tasks;
use nook_base::{ErrorCode, Sensitive, clock};
use nook_store::{
    Chats, ChatsError, ConversationEntry, ConversationId, Finish, LISTED_MAX, Message, MessageId,
    Role,
};
use tokio::sync::{mpsc, oneshot};

use crate::house::{
    Answer, ChatMessage, GenerateRequest, HouseError, Prompt, REPLY_EVENTS_MAX, Reply, ReplyPiece,
    Sampling, StartedTurn, Turn, TurnText,
};
use crate::state::State;
use crate::views::{
    ChatRole, ConversationView, FinishReason, MessageView, ReplyEvent, ReplySummary,
};

/// Jobs that may wait for the database; a caller beyond them is told that it is busy.
const JOBS_MAX: usize = 256;

/// How often a growing reply is written to the database.
const SAVE_INTERVAL: Duration = Duration::from_millis(500);

/// Characters of a first message that become the title of its conversation.
const TITLE_CHARS: usize = 48;

type Job = Box<dyn FnOnce(&mut Chats) + Send>;

/// A handle to the conversations.
#[derive(Clone)]
pub(crate) struct ChatBook {
    jobs: mpsc::Sender<Job>,
}

impl std::fmt::Debug for ChatBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChatBook")
    }
}

impl ChatBook {
    /// Gives `chats` a thread of its own; it ends when every handle is gone.
    pub(crate) fn start(mut chats: Chats) -> std::io::Result<Self> {
        let (jobs, mut inbox) = mpsc::channel::<Job>(JOBS_MAX);
        std::thread::Builder::new().name("chats".to_owned()).spawn(move || {
            while let Some(job) = inbox.blocking_recv() {
                job(&mut chats);
            }
        })?;
        Ok(Self { jobs })
    }

    pub(crate) fn list(&self, search: Option<String>, answer: Answer<Vec<ConversationView>>) {
        self.answer(answer, move |chats| {
            let listed = chats.list(LISTED_MAX)?;
            let found = match search.as_deref().map(str::trim).filter(|words| !words.is_empty()) {
                None => None,
                Some(words) => Some(chats.search(words, LISTED_MAX)?),
            };
            let fits = |id| match &found {
                None => true,
                Some(found) => found.iter().any(|one| one.conversation == id),
            };
            let view = |entry: ConversationEntry| ConversationView {
                id: entry.id.0,
                title: entry.title.0,
                updated: entry.changed,
            };
            Ok(listed.into_iter().filter(|entry| fits(entry.id)).map(view).collect())
        });
    }

    pub(crate) fn messages(&self, conversation: i64, answer: Answer<Vec<MessageView>>) {
        self.answer(answer, move |chats| {
            let conversation = chats.get(ConversationId(conversation))?;
            Ok(conversation.messages.into_iter().map(message_view).collect())
        });
    }

    pub(crate) fn rename(&self, conversation: i64, title: String, answer: Answer<()>) {
        self.answer(answer, move |chats| chats.rename(ConversationId(conversation), &title));
    }

    pub(crate) fn delete(&self, conversation: i64, answer: Answer<()>) {
        self.answer(answer, move |chats| chats.delete(ConversationId(conversation)));
    }

    fn answer<T: Send + 'static>(
        &self,
        answer: Answer<T>,
        job: impl FnOnce(&mut Chats) -> Result<T, ChatsError> + Send + 'static,
    ) {
        let job: Job = Box::new(move |chats| drop(answer.send(job(chats).map_err(told))));
        // A refused job drops its answer, and the caller hears that nothing came.
        if self.jobs.try_send(job).is_err() {
            tracing::warn!("too much waits for the chats' database");
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Chats) -> Result<T, ChatsError> + Send + 'static,
    ) -> Result<T, HouseError> {
        let (answer, wait) = oneshot::channel();
        let job: Job = Box::new(move |chats| drop(answer.send(job(chats).map_err(told))));
        let gone = || HouseError::new(ErrorCode::Draining, "Inglenook is shutting down.");
        self.jobs.send(job).await.map_err(|_| gone())?;
        wait.await.map_err(|_| gone())?
    }
}

/// A turn whose messages are in the database and whose reply is not begun.
struct Prepared {
    conversation: ConversationId,
    user: MessageId,
    reply: MessageId,
    messages: Vec<ChatMessage>,
}

impl State {
    /// Says something in a kept conversation.
    pub(crate) fn say(&mut self, turn: Turn, answer: Answer<StartedTurn>) {
        if let Err(error) = self.model(&turn.model) {
            let _ = answer.send(Err(error));
            return;
        }
        let (book, tasks) = (self.chats.clone(), self.tasks.clone());
        let house = self.inside.clone();
        let (model, reach) = (turn.model.clone(), turn.reach);
        let temperature = Some(self.settings.settings().chat.temperature);
        self.tasks.spawn_until_cancelled("turn", async move {
            let outcome = async {
                let prepared = book.run(move |chats| prepare(chats, turn)).await?;
                let request = GenerateRequest {
                    model,
                    prompt: Prompt::Chat(prepared.messages),
                    tokens_max: None,
                    sampling: Sampling { temperature, ..Sampling::default() },
                    stop: Vec::new(),
                    activation_dtype: None,
                    reach,
                };
                let (begun, wait) = oneshot::channel();
                let ask =
                    crate::state::Inside::Generate { request: Box::new(request), answer: begun };
                let gone = || HouseError::new(ErrorCode::Draining, "Inglenook is shutting down.");
                house.send(ask).await.map_err(|_| gone())?;
                let reply_message = prepared.reply;
                match wait.await.map_err(|_| gone())? {
                    Ok(reply) => {
                        let reply = keep(book.clone(), reply_message, reply, &tasks);
                        Ok(StartedTurn {
                            conversation: prepared.conversation.0,
                            user_message: prepared.user.0,
                            reply_message: reply_message.0,
                            reply,
                        })
                    }
                    Err(error) => {
                        let code = error.code.name().to_owned();
                        save_end(&book, reply_message, Finish::Failed { code }, None).await;
                        Err(error)
                    }
                }
            };
            let _ = answer.send(outcome.await);
        });
    }
}

/// Adds the person's message and an empty reply, and collects the branch that is answered.
fn prepare(chats: &mut Chats, turn: Turn) -> Result<Prepared, ChatsError> {
    let now = clock::unix_seconds();
    let conversation = match turn.conversation {
        Some(id) => ConversationId(id),
        None => chats.create(&title_of(&turn.text), now)?,
    };
    let parent = turn.parent.map(MessageId);
    let user = match &turn.text {
        TurnText::New(text) => {
            let parent = match parent {
                Some(parent) => Some(parent),
                None => chats.get(conversation)?.entry.leaf,
            };
            chats.add(conversation, parent, Role::User, text, now)?
        }
        TurnText::Again => parent.ok_or(ChatsError::NoMessage)?,
    };
    let reply = chats.begin_reply(conversation, user, &turn.model, now)?;
    let kept = chats.get(conversation)?;
    let messages = kept.branch(user).into_iter().filter_map(prompt_message).collect();
    Ok(Prepared { conversation, user, reply, messages })
}

/// A message as the model is to see it; an empty reply (cut before its first word) is left out.
fn prompt_message(message: &Message) -> Option<ChatMessage> {
    let role = match message.role {
        Role::System => ChatRole::System,
        Role::User => ChatRole::User,
        Role::Assistant if message.text.is_empty() => return None,
        Role::Assistant => ChatRole::Assistant,
    };
    Some(ChatMessage { role, text: message.text.clone() })
}

fn title_of(text: &TurnText) -> String {
    let TurnText::New(text) = text else {
        return String::new();
    };
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let mut title: String = line.chars().take(TITLE_CHARS).collect();
    if line.chars().count() > TITLE_CHARS {
        title.push('…');
    }
    title
}

/// Passes a reply on while saving it. The door that stops listening stops the reply.
fn keep(book: ChatBook, message: MessageId, mut reply: Reply, tasks: &Tasks) -> Reply {
    let (out, events) = mpsc::channel(REPLY_EVENTS_MAX);
    let (model, prompt_ids) = (reply.model.clone(), Sensitive(reply.prompt_ids.0.clone()));
    tasks.spawn("kept-reply", async move {
        let end = pass_on(&book, message, &mut reply, &out).await;
        // Saved before the door hears of the end, so that what it reads back is whole.
        let (finish, summary) = match &end {
            Some(ReplyPiece { event: ReplyEvent::Done { summary }, .. }) => {
                let finish = match summary.finish_reason {
                    FinishReason::Stop => Finish::Complete,
                    FinishReason::Length => Finish::Length,
                };
                (finish, serde_json::to_string(summary).ok())
            }
            Some(ReplyPiece { event: ReplyEvent::PipelineAborted { code, .. }, .. }) => {
                (Finish::Failed { code: code.clone() }, None)
            }
            _ => (Finish::Stopped, None),
        };
        save_end(&book, message, finish, summary).await;
        if let Some(end) = end {
            // A door that has left needs no end.
            let _ = out.send(end).await;
        }
    });
    Reply { model, prompt_ids, events }
}

/// Passes events on until the last one, which is returned, or until nobody listens.
async fn pass_on(
    book: &ChatBook,
    message: MessageId,
    reply: &mut Reply,
    out: &mpsc::Sender<ReplyPiece>,
) -> Option<ReplyPiece> {
    let mut unsaved = String::new();
    let mut save = tokio::time::interval(SAVE_INTERVAL);
    let end = loop {
        tokio::select! {
            biased;
            () = out.closed() => break None,
            _ = save.tick(), if !unsaved.is_empty() => {
                save_text(book, message, std::mem::take(&mut unsaved)).await;
            }
            piece = reply.events.recv() => match piece {
                None => break None,
                Some(piece) => match &piece.event {
                    ReplyEvent::Done { .. } | ReplyEvent::PipelineAborted { .. } => {
                        break Some(piece);
                    }
                    event => {
                        if let ReplyEvent::TokenDelta { text, .. } = event {
                            unsaved.push_str(text);
                        }
                        if out.send(piece).await.is_err() {
                            break None;
                        }
                    }
                },
            },
        }
    };
    save_text(book, message, unsaved).await;
    end
}

async fn save_text(book: &ChatBook, message: MessageId, text: String) {
    if text.is_empty() {
        return;
    }
    if let Err(error) = book.run(move |chats| chats.append(message, &text)).await {
        tracing::error!(%error, "a part of a reply could not be saved");
    }
}

async fn save_end(book: &ChatBook, message: MessageId, finish: Finish, summary: Option<String>) {
    let now = clock::unix_seconds();
    let job = move |chats: &mut Chats| chats.finish(message, &finish, summary.as_deref(), now);
    if let Err(error) = book.run(job).await {
        tracing::error!(%error, "the end of a reply could not be saved");
    }
}

fn message_view(message: Message) -> MessageView {
    let cut_because = match &message.finish {
        Finish::Running | Finish::Complete | Finish::Length => None,
        Finish::Stopped => Some("Stopped.".to_owned()),
        Finish::Interrupted => Some("Inglenook was closed while this was written.".to_owned()),
        Finish::Failed { code } => {
            let known = ErrorCode::ALL.into_iter().find(|known| known.name() == code);
            Some(known.map_or("It failed.", ErrorCode::sentence).to_owned())
        }
    };
    MessageView {
        id: message.id.0,
        parent: message.parent.map(|parent| parent.0),
        role: match message.role {
            Role::System => ChatRole::System,
            Role::User => ChatRole::User,
            Role::Assistant => ChatRole::Assistant,
        },
        text: message.text.0,
        created: message.created,
        summary: message.route.and_then(|json| serde_json::from_str::<ReplySummary>(&json).ok()),
        cut_because,
    }
}

fn told(error: ChatsError) -> HouseError {
    let code = match error {
        ChatsError::NoConversation | ChatsError::NoMessage => ErrorCode::NotFound,
        ChatsError::TooLong { .. } => ErrorCode::TooLong,
        _ => ErrorCode::BadRequest,
    };
    HouseError::new(code, error.to_string())
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prepared({:?})", self.conversation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_cut_to_length() {
        let text = |text: &str| TurnText::New(Sensitive(text.to_owned()));
        assert_eq!(title_of(&text("\n  Why is the sky blue?\nReally?")), "Why is the sky blue?");
        assert!(title_of(&text(&"x".repeat(80))).ends_with('…'));
    }

    #[test]
    fn answering_again_makes_a_sibling_and_the_prompt_ends_with_the_question() {
        let mut chats = Chats::in_memory().unwrap();
        let turn = |conversation, parent, text| Turn {
            conversation,
            parent,
            text,
            model: "ember".to_owned(),
            reach: crate::house::Reach::House,
        };
        let new = TurnText::New(Sensitive("Hello".to_owned()));
        let first = prepare(&mut chats, turn(None, None, new)).unwrap();
        chats.append(first.reply, "Hi").unwrap();
        let again = turn(Some(first.conversation.0), Some(first.user.0), TurnText::Again);
        let second = prepare(&mut chats, again).unwrap();
        assert_eq!(second.user, first.user);
        assert_ne!(second.reply, first.reply);
        let said: Vec<_> = second.messages.iter().map(|m| m.text.0.as_str()).collect();
        assert_eq!(said, ["Hello"]);
        let kept = chats.get(first.conversation).unwrap();
        let parents: Vec<_> = kept.messages.iter().map(|message| message.parent).collect();
        assert_eq!(parents, [None, Some(first.user), Some(first.user)]);
    }
}
