//! What a model thought aloud before it answered: kept beside the reply, not in it.
//!
//! It is shown on demand and never told to the model again. Searching does not look at it: what
//! people look for is what was said.

use nook_base::Sensitive;
use rusqlite::params;

use super::{Chats, ChatsError, MESSAGE_BYTES_MAX, MessageId, one, stamp};

/// What was thought before a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptThought {
    /// In the model's words.
    pub text: Sensitive<String>,
    /// How long it took.
    pub milliseconds: u64,
}

impl Chats {
    /// Adds to what is thought before a running reply; it has taken `milliseconds` so far.
    pub fn think(
        &mut self,
        reply: MessageId,
        text: &str,
        milliseconds: u64,
    ) -> Result<(), ChatsError> {
        let longest = i64::try_from(MESSAGE_BYTES_MAX.saturating_sub(text.len())).unwrap_or(0);
        let sql = "UPDATE message SET thought = thought || ?2, thought_ms = ?3
                   WHERE id = ?1 AND finish = 'running' AND octet_length(thought) <= ?4";
        let values = params![reply.0, text, stamp(milliseconds), longest];
        let changed = self.told(self.database.execute(sql, values))?;
        if changed == 0 && self.is_running(reply)? {
            let bytes = MESSAGE_BYTES_MAX.saturating_add(text.len());
            return Err(ChatsError::TooLong { bytes });
        }
        one(changed, ChatsError::NotRunning)
    }
}
