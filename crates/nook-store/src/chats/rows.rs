//! What a row of the tables is as a value.

use nook_base::{ReplyChoices, Sensitive, ThinkingChoice};
use rusqlite::{Connection, Row};

use super::{
    ConversationEntry, ConversationId, Finish, KeptThought, Message, MessageId, Role, unstamp,
};

/// What [`entry`] reads, in order.
pub(super) const ENTRY: &str = "SELECT id, title, created, changed, leaf, instructions, only_here, pinned, archived, folder, thinking, temperature FROM conversation";

/// What [`message`] reads, in order.
pub(super) const MESSAGE: &str = "SELECT id, parent, role, text, model, finish, route, created, thought, thought_ms FROM message";

pub(super) fn entry(row: &Row<'_>) -> rusqlite::Result<ConversationEntry> {
    Ok(ConversationEntry {
        id: ConversationId(row.get(0)?),
        title: Sensitive(row.get(1)?),
        created: unstamp(row.get(2)?),
        changed: unstamp(row.get(3)?),
        leaf: row.get::<_, Option<i64>>(4)?.map(MessageId),
        instructions: Sensitive(row.get(5)?),
        only_here: row.get(6)?,
        pinned: row.get(7)?,
        archived: row.get(8)?,
        folder: Sensitive(row.get(9)?),
        choices: ReplyChoices {
            // A word of a later version is as if nothing had been chosen.
            thinking: row
                .get::<_, Option<String>>(10)?
                .and_then(|word| ThinkingChoice::of_word(&word)),
            temperature: row.get(11)?,
        },
    })
}

pub(super) fn message(row: &Row<'_>) -> rusqlite::Result<Message> {
    let role: String = row.get(2)?;
    Ok(Message {
        id: MessageId(row.get(0)?),
        parent: row.get::<_, Option<i64>>(1)?.map(MessageId),
        role: match role.as_str() {
            "system" => Role::System,
            "user" => Role::User,
            _ => Role::Assistant, // The schema allows no fourth.
        },
        text: Sensitive(row.get(3)?),
        model: row.get(4)?,
        finish: Finish::of(&row.get::<_, String>(5)?),
        route: row.get(6)?,
        created: unstamp(row.get(7)?),
        thought: thought(row)?,
    })
}

pub(super) fn collect<T>(
    database: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    database.prepare_cached(sql)?.query_map(values, read)?.collect()
}

/// What was thought; a reply that holds nothing of it has none.
fn thought(row: &Row<'_>) -> rusqlite::Result<Option<KeptThought>> {
    let text: String = row.get(8)?;
    let milliseconds = unstamp(row.get(9)?);
    Ok((!text.is_empty()).then_some(KeptThought { text: Sensitive(text), milliseconds }))
}
