//! Conversations that come from a file: a whole tree at once, or nothing of it.

use nook_base::Sensitive;
use rusqlite::params;

use super::{
    Chats, ChatsError, ConversationId, Finish, INSTRUCTIONS_BYTES_MAX, KeptThought,
    MESSAGE_BYTES_MAX, Role, blame, cut_title, stamp,
};

/// Most messages of an imported conversation; one with more is refused.
pub const IMPORTED_MESSAGES_MAX: usize = 20_000;

/// A message before it has an id.
#[derive(Debug)]
pub struct ImportedMessage {
    /// Which of the messages before it in the list it follows; absent for a beginning.
    pub parent: Option<usize>,
    /// Who speaks.
    pub role: Role,
    /// What was said.
    pub text: Sensitive<String>,
    /// What the model thought before it.
    pub thought: Option<KeptThought>,
    /// The model that wrote it.
    pub model: Option<String>,
    /// How it ended; what was running in the file has been interrupted.
    pub finish: Finish,
    /// When it was begun, in seconds since 1970.
    pub created: u64,
}

impl Chats {
    /// Adds a conversation with all its messages, parents before children. The last one is shown.
    pub fn import(
        &mut self,
        title: &str,
        instructions: &str,
        messages: &[ImportedMessage],
        now: u64,
    ) -> Result<ConversationId, ChatsError> {
        check(instructions, messages)?;
        let path = self.path.clone();
        let transaction = self.database.transaction().map_err(|error| blame(&path, &error))?;
        let write = || -> rusqlite::Result<i64> {
            transaction.execute(
                "INSERT INTO conversation (title, created, changed, instructions)
                 VALUES (?1, ?2, ?2, ?3)",
                params![cut_title(title), stamp(now), instructions],
            )?;
            let conversation = transaction.last_insert_rowid();
            let mut ids: Vec<i64> = Vec::with_capacity(messages.len());
            let mut insert = transaction.prepare(
                "INSERT INTO message
                     (conversation, parent, role, text, model, finish, created, thought, thought_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?;
            for message in messages {
                let finish = match &message.finish {
                    Finish::Running => Finish::Interrupted.name(),
                    ended => ended.name(),
                };
                let thought = message.thought.as_ref();
                insert.execute(params![
                    conversation,
                    message.parent.and_then(|at| ids.get(at)),
                    message.role.name(),
                    message.text.as_str(),
                    message.model,
                    finish,
                    stamp(message.created),
                    thought.map_or("", |thought| thought.text.as_str()),
                    stamp(thought.map_or(0, |thought| thought.milliseconds)),
                ])?;
                ids.push(transaction.last_insert_rowid());
            }
            transaction.execute(
                "UPDATE conversation SET leaf = ?2 WHERE id = ?1",
                params![conversation, ids.last()],
            )?;
            Ok(conversation)
        };
        let conversation = write().map_err(|error| blame(&path, &error))?;
        transaction.commit().map_err(|error| blame(&path, &error))?;
        Ok(ConversationId(conversation))
    }
}

fn check(instructions: &str, messages: &[ImportedMessage]) -> Result<(), ChatsError> {
    let bad = |reason| Err(ChatsError::BadImport { reason });
    if messages.len() > IMPORTED_MESSAGES_MAX {
        return bad("it has more than 20,000 messages");
    }
    if instructions.len() > INSTRUCTIONS_BYTES_MAX {
        return bad("its instructions are too long");
    }
    for (at, message) in messages.iter().enumerate() {
        if message.parent.is_some_and(|parent| parent >= at) {
            return bad("a message comes before the one that it follows");
        }
        let thought = message.thought.as_ref().map_or(0, |thought| thought.text.len());
        let bytes = message.text.len().max(thought);
        if bytes > MESSAGE_BYTES_MAX {
            return Err(ChatsError::TooLong { bytes });
        }
    }
    Ok(())
}
