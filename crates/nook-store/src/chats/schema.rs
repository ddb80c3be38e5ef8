//! The tables of the chats, and how an older file becomes a newer one.

use std::path::Path;

use rusqlite::Connection;

use super::{ChatsError, blame};
use crate::durable::{self, Deed, FileError, Readers};

/// The format written here. Each step of [`STEPS`] leads to the next one.
const VERSION: i64 = 3;

/// What the n-th step does to a file of format n.
const STEPS: [&str; 3] = [
    "
    CREATE TABLE conversation (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        created INTEGER NOT NULL,
        changed INTEGER NOT NULL,
        leaf INTEGER REFERENCES message (id) ON DELETE SET NULL
    ) STRICT;
    CREATE INDEX conversation_changed ON conversation (changed);

    CREATE TABLE message (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
        parent INTEGER REFERENCES message (id) ON DELETE CASCADE,
        role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
        text TEXT NOT NULL,
        model TEXT,
        finish TEXT NOT NULL,
        route TEXT,
        created INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX message_conversation ON message (conversation, id);
    CREATE INDEX message_parent ON message (parent);
    CREATE INDEX message_running ON message (finish) WHERE finish = 'running';

    -- The search index. A running reply enters it when it ends: it would be indexed anew with every
    -- word otherwise.
    CREATE VIRTUAL TABLE message_text USING fts5 (
        text, content = 'message', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
    );
    INSERT INTO message_text (message_text, rank) VALUES ('secure-delete', 1);
    CREATE TRIGGER message_added AFTER INSERT ON message WHEN new.finish <> 'running' BEGIN
        INSERT INTO message_text (rowid, text) VALUES (new.id, new.text);
    END;
    CREATE TRIGGER message_ended AFTER UPDATE OF finish ON message
    WHEN old.finish = 'running' AND new.finish <> 'running' BEGIN
        INSERT INTO message_text (rowid, text) VALUES (new.id, new.text);
    END;
    CREATE TRIGGER message_deleted AFTER DELETE ON message WHEN old.finish <> 'running' BEGIN
        INSERT INTO message_text (message_text, rowid, text) VALUES ('delete', old.id, old.text);
    END;
",
    // What each conversation tells the model, where it may be computed, and replies that go on.
    "
    ALTER TABLE conversation ADD COLUMN instructions TEXT NOT NULL DEFAULT '';
    ALTER TABLE conversation ADD COLUMN only_here INTEGER NOT NULL DEFAULT 0;
    CREATE TRIGGER message_resumed AFTER UPDATE OF finish ON message
    WHEN old.finish <> 'running' AND new.finish = 'running' BEGIN
        INSERT INTO message_text (message_text, rowid, text) VALUES ('delete', old.id, old.text);
    END;
",
    // What models think aloud before they answer, and for how long.
    "
    ALTER TABLE message ADD COLUMN thought TEXT NOT NULL DEFAULT '';
    ALTER TABLE message ADD COLUMN thought_ms INTEGER NOT NULL DEFAULT 0;
",
];

/// Columns that came later and that a program without them leaves alone: table, name, and what it is.
/// No step makes them, so that the file keeps its format and an update that goes back opens it again.
const ADDED: [(&str, &str, &str); 5] = [
    ("conversation", "pinned", "INTEGER NOT NULL DEFAULT 0"),
    ("conversation", "archived", "INTEGER NOT NULL DEFAULT 0"),
    ("conversation", "folder", "TEXT NOT NULL DEFAULT ''"),
    ("conversation", "thinking", "TEXT"),
    ("conversation", "temperature", "REAL"),
];

/// Opens the file at `path`, made where it is missing, brought to [`VERSION`].
pub(super) fn open(path: &Path) -> Result<Connection, ChatsError> {
    match durable::create(path, Readers::Owner) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            durable::make_private(path)?;
        }
        Err(error) => return Err(FileError::new(path, Deed::Write, &error).into()),
    }
    let database = Connection::open(path).map_err(|error| blame(path, &error))?;
    prepare(database, path)
}

pub(super) fn open_in_memory(path: &Path) -> Result<Connection, ChatsError> {
    let database = Connection::open_in_memory().map_err(|error| blame(path, &error))?;
    prepare(database, path)
}

fn prepare(mut database: Connection, path: &Path) -> Result<Connection, ChatsError> {
    set_up(&database).map_err(|error| blame(path, &error))?;
    let found: i64 = database
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|error| blame(path, &error))?;
    let Some(steps) = usize::try_from(found).ok().and_then(|found| STEPS.get(found..)) else {
        return Err(ChatsError::Newer { path: path.to_owned(), found, known: VERSION });
    };
    if !steps.is_empty() {
        climb(&mut database, steps).map_err(|error| blame(path, &error))?;
    }
    widen(&database).map_err(|error| blame(path, &error))?;
    Ok(database)
}

fn set_up(database: &Connection) -> rusqlite::Result<()> {
    // Written on every commit and flushed at checkpoints: a killed program loses nothing, a power
    // cut at most the last moments, and neither damages the file.
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.pragma_update(None, "synchronous", "NORMAL")?;
    database.pragma_update(None, "foreign_keys", true)?;
    database.pragma_update(None, "secure_delete", true)?;
    database.pragma_update(None, "trusted_schema", false)
}

/// Adds what is missing of [`ADDED`].
fn widen(database: &Connection) -> rusqlite::Result<()> {
    for (table, column, what) in ADDED {
        let sql = "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2)";
        let is_there: bool = database.query_row(sql, [table, column], |row| row.get(0))?;
        if !is_there {
            database.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {what}"))?;
        }
    }
    Ok(())
}

fn climb(database: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let transaction = database.transaction()?;
    for step in steps {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}
