//! A conversation that goes on from within another one.

use rusqlite::{Transaction, params};

use super::{Chats, ChatsError, Conversation, ConversationId, Finish, MessageId, blame, stamp};

impl Chats {
    /// Begins a conversation with what was said up to `end`, which may not be running any more. It is
    /// told and kept to this device as the first one is; that one stays as it was.
    pub fn branch(&mut self, end: MessageId, now: u64) -> Result<ConversationId, ChatsError> {
        let sql = "SELECT conversation FROM message WHERE id = ?1";
        let of = self.database.query_row(sql, [end.0], |row| row.get(0)).map(ConversationId);
        let of = match of {
            Err(rusqlite::Error::QueryReturnedNoRows) => return Err(ChatsError::NoMessage),
            found => self.told(found)?,
        };
        let from = self.get(of)?;
        if from.branch(end).iter().any(|message| message.finish == Finish::Running) {
            return Err(ChatsError::Running);
        }
        let path = self.path.clone();
        let transaction = self.database.transaction().map_err(|error| blame(&path, &error))?;
        let made = copy(&transaction, &from, end, now).map_err(|error| blame(&path, &error))?;
        transaction.commit().map_err(|error| blame(&path, &error))?;
        Ok(made)
    }
}

/// Copies the messages of one branch; each keeps who wrote it, how it was made, and when.
fn copy(
    transaction: &Transaction<'_>,
    from: &Conversation,
    end: MessageId,
    now: u64,
) -> rusqlite::Result<ConversationId> {
    transaction.execute(
        "INSERT INTO conversation (title, created, changed, instructions, only_here, folder,
                                   thinking, temperature)
         SELECT title, ?2, ?2, instructions, only_here, folder, thinking, temperature FROM conversation WHERE id = ?1",
        params![from.entry.id.0, stamp(now)],
    )?;
    let made = transaction.last_insert_rowid();
    let mut insert = transaction.prepare(
        "INSERT INTO message
             (conversation, parent, role, text, model, finish, route, created, thought, thought_ms)
         SELECT ?2, ?3, role, text, model, finish, route, created, thought, thought_ms
         FROM message WHERE id = ?1",
    )?;
    let mut last: Option<i64> = None;
    for message in from.branch(end) {
        insert.execute(params![message.id.0, made, last])?;
        last = Some(transaction.last_insert_rowid());
    }
    transaction.execute("UPDATE conversation SET leaf = ?2 WHERE id = ?1", params![made, last])?;
    Ok(ConversationId(made))
}
