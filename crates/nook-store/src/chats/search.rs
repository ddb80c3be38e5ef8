//! Full-text search over all conversations.

use nook_base::Sensitive;
use rusqlite::params;

use super::{Chats, ChatsError, ConversationId, LISTED_MAX, MessageId, collect};

/// Most words of a query that are looked for; further ones are ignored.
const WORDS_MAX: usize = 16;

/// A message that holds the words looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// In which conversation.
    pub conversation: ConversationId,
    /// The conversation's title.
    pub title: Sensitive<String>,
    /// Which message.
    pub message: MessageId,
    /// The text around the first word found, one line, with `…` where it was cut.
    pub excerpt: Sensitive<String>,
}

impl Chats {
    /// Messages that hold every word of `query`, best first; the last word may be the beginning of
    /// one. At most `limit` of them and [`LISTED_MAX`].
    pub fn search(&self, query: &str, limit: u32) -> Result<Vec<Found>, ChatsError> {
        let Some(query) = as_fts(query) else {
            return Ok(Vec::new());
        };
        let sql = "SELECT conversation.id, conversation.title, message.id,
                          snippet(message_text, 0, '', '', '…', 16)
                   FROM message_text
                   JOIN message ON message.id = message_text.rowid
                   JOIN conversation ON conversation.id = message.conversation
                   WHERE message_text MATCH ?1
                   ORDER BY rank, message.id DESC LIMIT ?2";
        let values = params![query, limit.min(LISTED_MAX)];
        self.told(collect(&self.database, sql, values, |row| {
            let excerpt: String = row.get(3)?;
            let words: Vec<&str> = excerpt.split_whitespace().collect();
            Ok(Found {
                conversation: ConversationId(row.get(0)?),
                title: Sensitive(row.get(1)?),
                message: MessageId(row.get(2)?),
                excerpt: Sensitive(words.join(" ")),
            })
        }))
    }
}

/// The words of `query` as quoted FTS5 strings, so that nothing in them is an operator. `None`
/// where there is nothing to look for.
fn as_fts(query: &str) -> Option<String> {
    let words: Vec<String> = query
        .split(|c: char| c.is_whitespace() || c.is_control())
        // FTS5 takes a string without letters for a match of nothing; leave such words out.
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .take(WORDS_MAX)
        .map(|word| format!("\"{}\"", word.replace('"', "\"\"")))
        .collect();
    if words.is_empty() {
        return None;
    }
    Some(format!("{}*", words.join(" ")))
}
