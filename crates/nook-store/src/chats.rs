//! Conversations, in SQLite.
//!
//! A conversation is a tree of messages: regenerating a reply or editing a question adds a sibling,
//! so nothing a person wrote is lost; the conversation remembers which leaf is shown. A reply is in
//! the database from its first word: [`Chats::begin_reply`], [`Chats::append`] as text comes,
//! [`Chats::finish`]. Replies that were running when the program ended are marked interrupted by
//! the next start, with the text they had; [`Chats::resume`] lets any cut reply grow again.
//!
//! One value owns the connection; the node gives it a thread of its own, since every call may touch
//! the disk. Times are arguments. Texts are [`Sensitive`]: no log shows them.

mod arrangement;
mod branching;
mod importing;
mod rewording;
mod rows;
mod schema;
mod search;
mod thinking;

use std::path::PathBuf;

use nook_base::reply_choices::TEMPERATURE_MAX;
use nook_base::{ReplyChoices, Sensitive};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::durable::FileError;
use crate::home::Home;

pub use importing::{IMPORTED_MESSAGES_MAX, ImportedMessage};
use rows::{ENTRY, MESSAGE, collect, entry, message};
pub use search::Found;
pub use thinking::KeptThought;

const FILE: &str = "chats.db";

/// Longest title, in characters; longer ones are cut.
pub const TITLE_CHARS_MAX: usize = 200;

/// Longest name of a folder, in characters; longer ones are cut.
pub const FOLDER_CHARS_MAX: usize = 60;

/// Longest message, in bytes; a longer one is refused.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Most entries in one answer of [`Chats::search`], and of those in [`Chats::list`] that nobody has
/// put anywhere; the rest is left out.
pub const LISTED_MAX: u32 = 500;

/// Longest instructions of a conversation, in bytes; longer ones are refused.
pub const INSTRUCTIONS_BYTES_MAX: usize = 64 << 10;

/// Ids of conversations and messages that are not kept are larger than this, so that an id alone
/// tells where it belongs. Far from both ends of what the numbers of JSON hold exactly.
const PASSING_AFTER: i64 = 1 << 40;

/// Which conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationId(pub i64);

/// Which message, over all conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub i64);

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// How a message ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// It is being written.
    Running,
    /// It is whole.
    Complete,
    /// It reached the length limit.
    Length,
    /// The person stopped it.
    Stopped,
    /// The program ended while it was written.
    Interrupted,
    /// It failed; the code is one of `nook_base::ErrorCode`'s names.
    Failed {
        /// Which failure.
        code: String,
    },
}

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationEntry {
    /// Which one.
    pub id: ConversationId,
    /// Its title.
    pub title: Sensitive<String>,
    /// When it began, in seconds since 1970.
    pub created: u64,
    /// When something was last added, in seconds since 1970.
    pub changed: u64,
    /// The end of the branch that is shown.
    pub leaf: Option<MessageId>,
    /// What the model is told before the first message; may be empty.
    pub instructions: Sensitive<String>,
    /// Whether its replies are computed on this device alone.
    pub only_here: bool,
    /// Whether the person keeps it before all others.
    pub pinned: bool,
    /// Whether the person has put it away; nobody who has pinned it has.
    pub archived: bool,
    /// The folder that it lies in; empty for none.
    pub folder: Sensitive<String>,
    /// How its replies are made, where that is not as the settings say.
    pub choices: ReplyChoices,
}

/// A conversation with all its branches.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// What lists show of it.
    pub entry: ConversationEntry,
    /// Every message, parents before children, siblings in the order of their making.
    pub messages: Vec<Message>,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Which one.
    pub id: MessageId,
    /// The message it follows; `None` for the first.
    pub parent: Option<MessageId>,
    /// Who speaks.
    pub role: Role,
    /// What was said.
    pub text: Sensitive<String>,
    /// What the model thought before it, where it thinks aloud.
    pub thought: Option<KeptThought>,
    /// The model that wrote it.
    pub model: Option<String>,
    /// How it ended.
    pub finish: Finish,
    /// Which devices carried which layers, as JSON; there from the moment that it is known.
    pub route: Option<String>,
    /// When it was begun, in seconds since 1970.
    pub created: u64,
}

/// The chats cannot do what was asked. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatsError {
    /// The file is no database, or damaged.
    #[error("{} is damaged ({reason}). Restore it from a backup, or move it away to start with no chats", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// SQLite's words.
        reason: String,
    },
    /// A later version of the program wrote it.
    #[error("{} was written by a later version of Inglenook (format {found}, this one reads up to {known}); update this device", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The highest format known here.
        known: i64,
    },
    /// No such conversation.
    #[error("this conversation does not exist any more")]
    NoConversation,
    /// No conversation lies in a folder of that name.
    #[error("this folder does not exist any more")]
    NoFolder,
    /// No such message in that conversation.
    #[error("this message does not exist any more")]
    NoMessage,
    /// Only a running reply can be written to or ended.
    #[error("this reply has ended already")]
    NotRunning,
    /// What is still being written has no end to go on from.
    #[error("this reply is still being written; wait until it has ended, or stop it")]
    Running,
    /// Only a reply that was cut can go on.
    #[error("this message is whole; only a reply that was cut can go on")]
    NotCut,
    /// An imported conversation that is not a tree of messages, parents first.
    #[error("the imported conversation is damaged: {reason}")]
    BadImport {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A message that is too long.
    #[error("the message has {bytes} bytes, at most {MESSAGE_BYTES_MAX} are kept")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Instructions that are too long.
    #[error("the instructions have {bytes} bytes, at most {INSTRUCTIONS_BYTES_MAX} are kept")]
    InstructionsTooLong {
        /// Their length.
        bytes: usize,
    },
    /// A temperature that makes no sense.
    #[error("a temperature is from 0 to {TEMPERATURE_MAX}")]
    BadTemperature,
    /// The disk is full.
    #[error("{} could not be written: the disk is full. Free some space and try again", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// SQLite refused.
    #[error("{} could not be used: {reason}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// SQLite's words; they hold no text of messages.
        reason: String,
    },
    /// A file that the system refuses.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The conversations of one home.
#[derive(Debug)]
pub struct Chats {
    database: Connection,
    path: PathBuf,
}

impl Chats {
    /// Opens the chats of `home`; replies that were running are marked interrupted.
    pub fn open(home: &Home) -> Result<Self, ChatsError> {
        let path = home.file(FILE);
        let database = schema::open(&path)?;
        Self::started(database, path)
    }

    /// Chats that are gone when this value is, for tests.
    pub fn in_memory() -> Result<Self, ChatsError> {
        let path = PathBuf::from(":memory:");
        let database = schema::open_in_memory(&path)?;
        Self::started(database, path)
    }

    /// Conversations that are gone when this value is; their ids are those of
    /// [`ConversationId::is_passing`].
    pub fn passing() -> Result<Self, ChatsError> {
        let chats = Self::in_memory()?;
        let sql =
            "INSERT INTO sqlite_sequence (name, seq) VALUES ('conversation', ?1), ('message', ?1)";
        chats.told(chats.database.execute(sql, [PASSING_AFTER]))?;
        Ok(chats)
    }

    fn started(database: Connection, path: PathBuf) -> Result<Self, ChatsError> {
        let chats = Self { database, path };
        let interrupted = chats.told(
            chats
                .database
                .execute("UPDATE message SET finish = 'interrupted' WHERE finish = 'running'", []),
        )?;
        if interrupted > 0 {
            tracing::info!(interrupted, "replies were cut off by the last exit");
        }
        Ok(chats)
    }

    /// Begins an empty conversation.
    pub fn create(&mut self, title: &str, now: u64) -> Result<ConversationId, ChatsError> {
        self.told(self.database.execute(
            "INSERT INTO conversation (title, created, changed) VALUES (?1, ?2, ?2)",
            params![cut_title(title), stamp(now)],
        ))?;
        Ok(ConversationId(self.database.last_insert_rowid()))
    }

    /// The conversations: pinned ones first, then those in folders, then the last changed, archived ones
    /// at the end. Of those that are neither pinned nor in a folder, at most `limit` and
    /// [`LISTED_MAX`]: what somebody put somewhere is to be found there.
    pub fn list(&self, limit: u32) -> Result<Vec<ConversationEntry>, ChatsError> {
        let sql = format!(
            "{ENTRY} WHERE pinned OR folder <> '' OR id IN
                 (SELECT id FROM conversation WHERE NOT pinned AND folder = ''
                  ORDER BY archived, changed DESC, id DESC LIMIT ?1)
             ORDER BY pinned DESC, archived, folder = '', changed DESC, id DESC"
        );
        self.told(collect(&self.database, &sql, [limit.min(LISTED_MAX)], entry))
    }

    /// What lists show of a conversation.
    pub fn entry(&self, id: ConversationId) -> Result<ConversationEntry, ChatsError> {
        let sql = format!("{ENTRY} WHERE id = ?1");
        let found = self.database.query_row(&sql, [id.0], entry).optional();
        self.told(found)?.ok_or(ChatsError::NoConversation)
    }

    /// A conversation with all its messages.
    pub fn get(&self, id: ConversationId) -> Result<Conversation, ChatsError> {
        let entry = self.entry(id)?;
        let sql = format!("{MESSAGE} WHERE conversation = ?1 ORDER BY id");
        let messages = self.told(collect(&self.database, &sql, [id.0], message))?;
        Ok(Conversation { entry, messages })
    }

    /// Gives a conversation another title.
    pub fn rename(&mut self, id: ConversationId, title: &str) -> Result<(), ChatsError> {
        let sql = "UPDATE conversation SET title = ?2 WHERE id = ?1";
        let changed = self.database.execute(sql, params![id.0, cut_title(title)]);
        one(self.told(changed)?, ChatsError::NoConversation)
    }

    /// Deletes a conversation for good: its text is overwritten in the file.
    pub fn delete(&mut self, id: ConversationId) -> Result<(), ChatsError> {
        let changed = self.database.execute("DELETE FROM conversation WHERE id = ?1", [id.0]);
        one(self.told(changed)?, ChatsError::NoConversation)?;
        // The write-ahead log holds the deleted text until it is folded into the file.
        let folded = self.database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        self.told(folded)
    }

    /// Adds a whole message after `parent` (`None`: a new beginning) and shows it.
    pub fn add(
        &mut self,
        conversation: ConversationId,
        parent: Option<MessageId>,
        role: Role,
        text: &str,
        now: u64,
    ) -> Result<MessageId, ChatsError> {
        let new = New { role, text, model: None, finish: &Finish::Complete };
        self.insert(conversation, parent, &new, now)
    }

    /// Begins a reply of `model` after `parent`, and shows it. A second one after the same parent
    /// is a sibling of the first.
    pub fn begin_reply(
        &mut self,
        conversation: ConversationId,
        parent: MessageId,
        model: &str,
        now: u64,
    ) -> Result<MessageId, ChatsError> {
        let new =
            New { role: Role::Assistant, text: "", model: Some(model), finish: &Finish::Running };
        self.insert(conversation, Some(parent), &new, now)
    }

    /// Adds text to a running reply.
    pub fn append(&mut self, reply: MessageId, text: &str) -> Result<(), ChatsError> {
        let longest = i64::try_from(MESSAGE_BYTES_MAX.saturating_sub(text.len())).unwrap_or(0);
        let sql = "UPDATE message SET text = text || ?2
                   WHERE id = ?1 AND finish = 'running' AND octet_length(text) <= ?3";
        let changed = self.told(self.database.execute(sql, params![reply.0, text, longest]))?;
        if changed == 0 && self.is_running(reply)? {
            let bytes = MESSAGE_BYTES_MAX.saturating_add(text.len());
            return Err(ChatsError::TooLong { bytes });
        }
        one(changed, ChatsError::NotRunning)
    }

    /// Notes who computes a running reply, as JSON.
    pub fn note_route(&mut self, reply: MessageId, route: &str) -> Result<(), ChatsError> {
        let sql = "UPDATE message SET route = ?2 WHERE id = ?1 AND finish = 'running'";
        one(self.told(self.database.execute(sql, params![reply.0, route]))?, ChatsError::NotRunning)
    }

    /// Lets a reply that was cut go on with its text; until it ends again, searching does not find
    /// it.
    pub fn resume(&mut self, reply: MessageId) -> Result<(), ChatsError> {
        let sql = "UPDATE message SET finish = 'running'
                   WHERE id = ?1 AND role = 'assistant' AND finish NOT IN ('running', 'complete')";
        one(self.told(self.database.execute(sql, [reply.0]))?, ChatsError::NotCut)
    }

    /// Ends a running reply; `route` is JSON, absent leaves what was noted. From here on it is
    /// found by searching.
    pub fn finish(
        &mut self,
        reply: MessageId,
        finish: &Finish,
        route: Option<&str>,
        now: u64,
    ) -> Result<(), ChatsError> {
        let sql = "UPDATE message SET finish = ?2, route = coalesce(?3, route)
                   WHERE id = ?1 AND finish = 'running'";
        let path = self.path.clone();
        let change = |transaction: &Transaction<'_>| -> rusqlite::Result<usize> {
            let changed = transaction.execute(sql, params![reply.0, finish.name(), route])?;
            transaction.execute(
                "UPDATE conversation SET changed = max(changed, ?2)
                 WHERE id = (SELECT conversation FROM message WHERE id = ?1)",
                params![reply.0, stamp(now)],
            )?;
            Ok(changed)
        };
        let transaction = self.database.transaction().map_err(|e| blame(&path, &e))?;
        let changed = change(&transaction).map_err(|error| blame(&path, &error))?;
        one(changed, ChatsError::NotRunning)?;
        transaction.commit().map_err(|error| blame(&path, &error))
    }

    /// Picks the branch that is shown: the one that ends in `leaf`.
    pub fn show(
        &mut self,
        conversation: ConversationId,
        leaf: MessageId,
    ) -> Result<(), ChatsError> {
        let sql = "UPDATE conversation SET leaf = ?2 WHERE id = ?1 AND EXISTS
                   (SELECT 1 FROM message WHERE id = ?2 AND conversation = ?1)";
        let changed = self.database.execute(sql, params![conversation.0, leaf.0]);
        one(self.told(changed)?, ChatsError::NoMessage)
    }

    fn insert(
        &mut self,
        conversation: ConversationId,
        parent: Option<MessageId>,
        new: &New<'_>,
        now: u64,
    ) -> Result<MessageId, ChatsError> {
        if new.text.len() > MESSAGE_BYTES_MAX {
            return Err(ChatsError::TooLong { bytes: new.text.len() });
        }
        let path = self.path.clone();
        let told = |error: rusqlite::Error| blame(&path, &error);
        let transaction = self.database.transaction().map_err(told)?;
        let known = |sql, of: &[i64]| {
            transaction.query_row(sql, rusqlite::params_from_iter(of), |row| row.get(0))
        };
        let has_conversation: bool =
            known("SELECT EXISTS (SELECT 1 FROM conversation WHERE id = ?1)", &[conversation.0])
                .map_err(told)?;
        if !has_conversation {
            return Err(ChatsError::NoConversation);
        }
        if let Some(parent) = parent {
            let sql = "SELECT EXISTS (SELECT 1 FROM message WHERE id = ?1 AND conversation = ?2)";
            let has_parent: bool = known(sql, &[parent.0, conversation.0]).map_err(told)?;
            if !has_parent {
                return Err(ChatsError::NoMessage);
            }
        }
        transaction
            .execute(
                "INSERT INTO message (conversation, parent, role, text, model, finish, created)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    conversation.0,
                    parent.map(|parent| parent.0),
                    new.role.name(),
                    new.text,
                    new.model,
                    new.finish.name(),
                    stamp(now)
                ],
            )
            .map_err(told)?;
        let id = transaction.last_insert_rowid();
        transaction
            .execute(
                // Where somebody talks, nothing is put away.
                "UPDATE conversation SET leaf = ?2, changed = max(changed, ?3), archived = 0
                 WHERE id = ?1",
                params![conversation.0, id, stamp(now)],
            )
            .map_err(told)?;
        transaction.commit().map_err(told)?;
        Ok(MessageId(id))
    }

    fn is_running(&self, reply: MessageId) -> Result<bool, ChatsError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM message WHERE id = ?1 AND finish = 'running')";
        self.told(self.database.query_row(sql, [reply.0], |row| row.get(0)))
    }

    fn told<T>(&self, outcome: rusqlite::Result<T>) -> Result<T, ChatsError> {
        outcome.map_err(|error| blame(&self.path, &error))
    }
}

impl Conversation {
    /// The messages of the branch that ends in `leaf`, the first one first.
    #[must_use]
    pub fn branch(&self, leaf: MessageId) -> Vec<&Message> {
        let mut branch = Vec::new();
        let mut wanted = Some(leaf);
        // Parents are older than their children, so one walk backwards meets them in order.
        for message in self.messages.iter().rev() {
            if wanted == Some(message.id) {
                branch.push(message);
                wanted = message.parent;
            }
        }
        branch.reverse();
        branch
    }
}

impl ConversationId {
    /// Whether it is one of [`Chats::passing`].
    #[must_use]
    pub fn is_passing(self) -> bool {
        self.0 > PASSING_AFTER
    }
}

impl MessageId {
    /// Whether it is one of [`Chats::passing`].
    #[must_use]
    pub fn is_passing(self) -> bool {
        self.0 > PASSING_AFTER
    }
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl Finish {
    fn name(&self) -> String {
        match self {
            Self::Running => "running".to_owned(),
            Self::Complete => "complete".to_owned(),
            Self::Length => "length".to_owned(),
            Self::Stopped => "stopped".to_owned(),
            Self::Interrupted => "interrupted".to_owned(),
            Self::Failed { code } => format!("failed:{code}"),
        }
    }

    fn of(name: &str) -> Self {
        match name {
            "running" => Self::Running,
            "complete" => Self::Complete,
            "length" => Self::Length,
            "stopped" => Self::Stopped,
            "interrupted" => Self::Interrupted,
            other => {
                Self::Failed { code: other.strip_prefix("failed:").unwrap_or(other).to_owned() }
            }
        }
    }
}

/// A message before it has an id.
struct New<'a> {
    role: Role,
    text: &'a str,
    model: Option<&'a str>,
    finish: &'a Finish,
}

fn one(changed: usize, otherwise: ChatsError) -> Result<(), ChatsError> {
    if changed == 0 { Err(otherwise) } else { Ok(()) }
}

fn blame(path: &std::path::Path, error: &rusqlite::Error) -> ChatsError {
    let path = path.to_owned();
    let reason = error.to_string();
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
            ChatsError::Damaged { path, reason }
        }
        Some(rusqlite::ErrorCode::DiskFull) => ChatsError::DiskFull { path },
        _ => ChatsError::Database { path, reason },
    }
}

fn cut_title(title: &str) -> String {
    title.chars().filter(|c| !c.is_control()).take(TITLE_CHARS_MAX).collect()
}

/// SQLite has signed numbers only; no clock goes beyond them.
fn stamp(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn unstamp(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0)
}
