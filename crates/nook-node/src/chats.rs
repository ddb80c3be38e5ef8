//! Kept conversations: the thread that owns their database, and what doors ask of it.
//!
//! SQLite may wait for the disk, so it has a thread of its own; jobs come in order and answer for
//! themselves. `turns` says something and has it answered, `keeping` saves a reply while it grows,
//! with the `stretches` of its text that each route computed, `titles` has a model name what was
//! said, `exchange` makes files of
//! conversations and conversations of files. Temporary conversations live in a second database, in
//! memory; the id tells which one is meant.

mod exchange;
mod keeping;
mod stretches;
mod telling_apart;
mod titles;
mod turns;

use nook_api::ChatCommand;
use nook_base::tasks::Tasks;
use nook_base::{ErrorCode, clock};
use nook_store::{
    Chats, ChatsError, ConversationEntry, ConversationId, Finish, KeptThought, LISTED_MAX, Message,
    MessageId, Role,
};
pub(crate) use titles::Naming;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use nook_api::views::{
    ChatRole, ConversationView, MessageFinish, MessageView, PathView, ReplySummary, ThoughtView,
    Wording,
};
use nook_api::{Answer, Asker, GenerateRequest, NodeError, Reach, Reply};

/// Jobs that may wait for the database; a caller beyond them is told that it is busy.
const JOBS_MAX: usize = 256;

/// Temporary conversations at once; one more ends the one that was used longest ago.
const TEMPORARY_MAX: usize = 8;

type Job = Box<dyn FnOnce(&mut Books) + Send>;

/// The conversation that this command ends for good.
pub(crate) fn ended_by(command: &ChatCommand) -> Option<i64> {
    match command {
        ChatCommand::DeleteConversation { conversation, .. } => Some(*conversation),
        _ => None,
    }
}

/// What kept conversations ask of the event loop.
#[derive(Debug)]
pub(crate) enum ChatEvent {
    /// A kept conversation wants a reply.
    Generate {
        /// For whom.
        asker: Asker,
        request: Box<GenerateRequest>,
        conversation: Option<i64>,
        /// Told as soon as it has a place, be it in the queue.
        placed: oneshot::Sender<()>,
        answer: Answer<Reply>,
    },
    /// A temporary conversation made room for another.
    Ended(i64),
}

/// A handle to the conversations.
#[derive(Clone)]
pub(crate) struct ChatBook {
    jobs: mpsc::Sender<Job>,
    events: mpsc::Sender<ChatEvent>,
}

/// The conversations that are kept, and those that are not.
#[derive(Debug)]
struct Books {
    kept: Chats,
    passing: Chats,
}

impl std::fmt::Debug for ChatBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChatBook")
    }
}

impl ChatBook {
    /// Gives `kept` a thread of its own; it ends when every handle is gone. Without it nothing that
    /// is said is kept, so the node ends if it panics.
    pub(crate) fn start(
        kept: Chats,
        events: mpsc::Sender<ChatEvent>,
        tasks: &Tasks,
    ) -> std::io::Result<Self> {
        let passing = Chats::passing().map_err(std::io::Error::other)?;
        let mut books = Books { kept, passing };
        let (jobs, mut inbox) = mpsc::channel::<Job>(JOBS_MAX);
        tasks.essential().spawn_thread("chats", move || {
            while let Some(job) = inbox.blocking_recv() {
                job(&mut books);
            }
        })?;
        Ok(Self { jobs, events })
    }

    /// Does what is asked; `naming` says who makes titles now.
    pub(crate) fn dispatch(&self, command: ChatCommand, naming: &Naming) {
        match command {
            ChatCommand::Conversations { search, answer } => {
                self.answer(answer, move |books| books.list(search.as_deref()).map_err(told));
            }
            ChatCommand::Messages { conversation, answer } => self.answer(answer, move |books| {
                let id = ConversationId(conversation);
                let conversation = books.of(id).get(id).map_err(told)?;
                Ok(conversation.messages.into_iter().map(message_view).collect())
            }),
            ChatCommand::RenameConversation { conversation, title, answer } => {
                self.change(answer, conversation, move |chats, id| chats.rename(id, &title));
            }
            ChatCommand::EntitleConversation { conversation, answer } => {
                self.entitle(conversation, naming, answer);
            }
            ChatCommand::DeleteConversation { conversation, answer } => {
                self.change(answer, conversation, |chats, id| chats.delete(id));
            }
            ChatCommand::InstructConversation { conversation, instructions, answer } => {
                self.change(answer, conversation, move |chats, id| {
                    chats.instruct(id, &instructions)
                });
            }
            ChatCommand::ConfineConversation { conversation, reach, answer } => {
                let only_here = reach == Reach::ThisDevice;
                self.change(answer, conversation, move |chats, id| chats.confine(id, only_here));
            }
            ChatCommand::TuneConversation { conversation, choices, answer } => {
                self.change(answer, conversation, move |chats, id| chats.tune(id, choices));
            }
            ChatCommand::PinConversation { conversation, pinned, answer } => {
                self.change(answer, conversation, move |chats, id| chats.pin(id, pinned));
            }
            ChatCommand::ArchiveConversation { conversation, archived, answer } => {
                self.change(answer, conversation, move |chats, id| chats.archive(id, archived));
            }
            ChatCommand::FileConversation { conversation, folder, answer } => {
                self.change(answer, conversation, move |chats, id| {
                    chats.put_in_folder(id, &folder)
                });
            }
            ChatCommand::RenameFolder { folder, name, answer } => {
                self.answer(answer, move |books| {
                    // What is not kept lies in no folder.
                    books.kept.rename_folder(&folder, &name).map_err(told)
                })
            }
            ChatCommand::BranchConversation { message, answer } => {
                self.answer(answer, move |books| {
                    let now = clock::unix_seconds();
                    // What is not kept has one end, and is gone with it.
                    let made = books.kept.branch(MessageId(message), now).map_err(told)?;
                    Ok(made.0)
                })
            }
            ChatCommand::RewordReply { message, text, answer } => {
                self.answer(answer, move |books| books.reword(MessageId(message), &text));
            }
            ChatCommand::ExportConversation { conversation, form, answer } => {
                self.answer(answer, move |books| {
                    let id = ConversationId(conversation);
                    exchange::export(&books.of(id).get(id).map_err(told)?, form)
                })
            }
            ChatCommand::ImportConversation { file, answer } => self.answer(answer, move |books| {
                exchange::import(&mut books.kept, &file).map(|id| id.0)
            }),
        }
    }

    /// Changes a conversation, wherever it is.
    fn change(
        &self,
        answer: Answer<()>,
        conversation: i64,
        change: impl FnOnce(&mut Chats, ConversationId) -> Result<(), ChatsError> + Send + 'static,
    ) {
        let id = ConversationId(conversation);
        self.answer(answer, move |books| change(books.of(id), id).map_err(told));
    }

    fn answer<T: Send + 'static>(
        &self,
        answer: Answer<T>,
        job: impl FnOnce(&mut Books) -> Result<T, NodeError> + Send + 'static,
    ) {
        match self.jobs.try_reserve() {
            Ok(place) => place.send(Box::new(move |books| drop(answer.send(job(books))))),
            Err(TrySendError::Full(())) => {
                tracing::warn!("too much waits for the chats' database");
                let words = "Too much waits for the chats. Try again shortly.";
                // Whoever asked may have left.
                let _ = answer.send(Err(NodeError::new(ErrorCode::Busy, words)));
            }
            // The node leaves: the answer is dropped, and the caller hears that.
            Err(TrySendError::Closed(())) => {}
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Books) -> Result<T, ChatsError> + Send + 'static,
    ) -> Result<T, NodeError> {
        let (answer, wait) = oneshot::channel();
        let job: Job = Box::new(move |books| drop(answer.send(job(books).map_err(told))));
        self.jobs.send(job).await.map_err(|_| NodeError::gone())?;
        wait.await.map_err(|_| NodeError::gone())?
    }
}

impl Books {
    /// Where a conversation is.
    fn of(&mut self, id: ConversationId) -> &mut Chats {
        if id.is_passing() { &mut self.passing } else { &mut self.kept }
    }

    /// Where a message is.
    fn of_message(&mut self, id: MessageId) -> &mut Chats {
        if id.is_passing() { &mut self.passing } else { &mut self.kept }
    }

    /// Puts words of the owner beside a reply; gives the message that has them.
    fn reword(&mut self, id: MessageId, text: &str) -> Result<i64, NodeError> {
        if text.trim().is_empty() {
            let words = "A reply needs words. Delete the chat to be rid of it.";
            return Err(NodeError::new(ErrorCode::BadRequest, words));
        }
        let reworded = self.of_message(id).reword(id, text, clock::unix_seconds());
        Ok(reworded.map_err(told)?.0)
    }

    /// Kept conversations, newest first; with words to look for, those that hold all of them in one
    /// message, or in the title and the name of the folder.
    fn list(&self, search: Option<&str>) -> Result<Vec<ConversationView>, ChatsError> {
        let listed = self.kept.list(LISTED_MAX)?;
        let words = search.map(str::trim).filter(|words| !words.is_empty());
        let Some(words) = words else {
            return Ok(listed.into_iter().map(|entry| conversation_view(entry, None)).collect());
        };
        let mut found: Vec<ConversationView> = Vec::new();
        for hit in self.kept.search(words, LISTED_MAX)? {
            // Best hit first, so the first excerpt of a conversation is the one to show.
            if found.iter().all(|one| one.id != hit.conversation.0) {
                let entry = self.kept.entry(hit.conversation)?;
                found.push(conversation_view(entry, Some(hit.excerpt.0)));
            }
        }
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        for entry in listed {
            let names = [&entry.title, &entry.folder].map(|name| name.to_lowercase());
            let fits = words.iter().all(|word| names.iter().any(|name| name.contains(word)));
            if fits && found.iter().all(|one| one.id != entry.id.0) {
                found.push(conversation_view(entry, None));
            }
        }
        found.sort_by_key(|one| std::cmp::Reverse((one.updated, one.id)));
        Ok(found)
    }

    /// Begins a temporary conversation; the one used longest ago makes room, and is in `ended` then,
    /// also where that fails behind it.
    fn create_passing(
        &mut self,
        title: &str,
        now: u64,
        ended: &mut Vec<ConversationId>,
    ) -> Result<ConversationId, ChatsError> {
        let all = self.passing.list(LISTED_MAX)?;
        for old in all.iter().skip(TEMPORARY_MAX.saturating_sub(1)) {
            self.passing.delete(old.id)?;
            ended.push(old.id);
        }
        self.passing.create(title, now)
    }
}

fn conversation_view(entry: ConversationEntry, excerpt: Option<String>) -> ConversationView {
    ConversationView {
        id: entry.id.0,
        title: entry.title.0,
        updated: entry.changed,
        instructions: entry.instructions.0,
        only_here: entry.only_here,
        pinned: entry.pinned,
        archived: entry.archived,
        folder: entry.folder.0,
        choices: entry.choices,
        excerpt,
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
    let cut_code = match &message.finish {
        Finish::Failed { code } => Some(code.clone()),
        _ => None,
    };
    // What a cut reply keeps is a part of what a whole one does.
    let route = message.route.as_deref();
    let summary = route.and_then(|json| serde_json::from_str::<ReplySummary>(json).ok());
    let path = match &summary {
        Some(_) => None,
        None => route.and_then(|json| serde_json::from_str::<PathView>(json).ok()),
    };
    MessageView {
        id: message.id.0,
        parent: message.parent.map(|parent| parent.0),
        role: role_view(message.role),
        text: message.text.0,
        thought: message.thought.as_ref().map(thought_view),
        created: message.created,
        finish: finish_view(&message.finish),
        reworded: message.role == Role::Assistant && message.model.is_none(),
        summary,
        path,
        stretches: route.map(stretches::read).unwrap_or_default(),
        cut_because,
        cut_code,
    }
}

fn thought_view(thought: &KeptThought) -> ThoughtView {
    ThoughtView { text: thought.text.0.clone(), ms: thought.milliseconds }
}

fn role_view(role: Role) -> ChatRole {
    match role {
        Role::System => ChatRole::System,
        Role::User => ChatRole::User,
        Role::Assistant => ChatRole::Assistant,
    }
}

fn finish_view(finish: &Finish) -> MessageFinish {
    match finish {
        Finish::Running => MessageFinish::Running,
        Finish::Complete => MessageFinish::Complete,
        Finish::Length => MessageFinish::Length,
        Finish::Stopped => MessageFinish::Stopped,
        Finish::Interrupted => MessageFinish::Interrupted,
        Finish::Failed { .. } => MessageFinish::Failed,
    }
}

fn told(error: ChatsError) -> NodeError {
    let code = match &error {
        ChatsError::NoConversation | ChatsError::NoMessage | ChatsError::NoFolder => {
            ErrorCode::NotFound
        }
        ChatsError::TooLong { .. } => ErrorCode::TooLong,
        ChatsError::Running => ErrorCode::Busy,
        _ => ErrorCode::BadRequest,
    };
    let wording = match &error {
        ChatsError::NoConversation => Some(Wording::ChatGone),
        ChatsError::NoMessage => Some(Wording::MessageGone),
        ChatsError::NoFolder => Some(Wording::FolderGone),
        ChatsError::DiskFull { .. } => Some(Wording::DiskFull),
        ChatsError::BadImport { .. } => Some(Wording::NoChat),
        ChatsError::Damaged { reason, .. } | ChatsError::Database { reason, .. } => {
            Some(Wording::ChatsUnusable { reason: reason.clone().into() })
        }
        _ => None,
    };
    NodeError { wording, ..NodeError::new(code, nook_api::sentence(&error.to_string())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn books() -> Books {
        Books { kept: Chats::in_memory().unwrap(), passing: Chats::passing().unwrap() }
    }

    #[test]
    fn searching_finds_messages_and_titles_and_says_where() {
        let mut books = books();
        let zoo = books.kept.create("A day at the zoo", 5).unwrap();
        books.kept.add(zoo, None, Role::User, "The zebra slept", 5).unwrap();
        let other = books.kept.create("Soup", 6).unwrap();
        books.kept.add(other, None, Role::User, "Is a zebra in the soup?", 6).unwrap();
        let found = |books: &Books, words| -> Vec<(i64, bool)> {
            let found = books.list(Some(words)).unwrap();
            found.iter().map(|one| (one.id, one.excerpt.is_some())).collect()
        };
        assert_eq!(found(&books, "zebra"), [(other.0, true), (zoo.0, true)]);
        assert_eq!(found(&books, "zoo day"), [(zoo.0, false)]);
        assert_eq!(found(&books, "zebra soup"), [(other.0, true)]);
        assert_eq!(found(&books, "nothing"), []);
        books.kept.put_in_folder(zoo, "Holidays").unwrap();
        assert_eq!(found(&books, "holi zoo"), [(zoo.0, false)]);
        assert_eq!(books.list(Some("  ")).unwrap().len(), 2);
    }

    #[tokio::test]
    async fn beyond_the_jobs_that_may_wait_the_answer_is_busy() {
        // Nobody takes a job.
        let (jobs, _waiting) = mpsc::channel(1);
        let book = ChatBook { jobs, events: mpsc::channel(1).0 };
        let naming = Naming { models: Vec::new(), tasks: Tasks::new() };
        let list = || {
            let (answer, answered) = oneshot::channel();
            book.dispatch(ChatCommand::Conversations { search: None, answer }, &naming);
            answered
        };
        let mut first = list();
        let refused = list().await.unwrap().unwrap_err();
        assert_eq!(refused.code, ErrorCode::Busy);
        assert!(first.try_recv().is_err(), "it waits");
    }

    #[test]
    fn temporary_conversations_are_few_and_never_listed() {
        let mut books = books();
        let mut ended = Vec::new();
        let first = books.create_passing("0", 0, &mut ended).unwrap();
        for number in 1..=TEMPORARY_MAX as u64 {
            books.create_passing("x", number, &mut ended).unwrap();
        }
        assert_eq!(ended, [first]);
        assert_eq!(books.passing.list(99).unwrap().len(), TEMPORARY_MAX);
        assert_eq!(books.of(first).get(first), Err(ChatsError::NoConversation));
        assert!(books.list(None).unwrap().is_empty());
    }
}
