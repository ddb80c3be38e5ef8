//! A reply that the person changed.

use rusqlite::OptionalExtension as _;

use super::{Chats, ChatsError, ConversationId, Finish, MessageId, New, Role};

impl Chats {
    /// Adds `text` in the place of a reply, which stays beside it, and shows it. No model is named as
    /// its author.
    pub fn reword(
        &mut self,
        reply: MessageId,
        text: &str,
        now: u64,
    ) -> Result<MessageId, ChatsError> {
        let sql = "SELECT conversation, parent, finish FROM message
                   WHERE id = ?1 AND role = 'assistant'";
        let read = |row: &rusqlite::Row<'_>| {
            let parent = row.get::<_, Option<i64>>(1)?.map(MessageId);
            Ok((ConversationId(row.get(0)?), parent, row.get::<_, String>(2)?))
        };
        let found = self.told(self.database.query_row(sql, [reply.0], read).optional())?;
        let (conversation, parent, finish) = found.ok_or(ChatsError::NoMessage)?;
        if Finish::of(&finish) == Finish::Running {
            return Err(ChatsError::Running);
        }
        let new = New { role: Role::Assistant, text, model: None, finish: &Finish::Complete };
        self.insert(conversation, parent, &new, now)
    }
}
