//! How a conversation is to be answered and listed: its instructions, where and how its replies are
//! made, whether it stands before the others or is put away, and the folder that it lies in.
//!
//! A folder is a name that conversations have in common: there is none without any.

use nook_base::{ReplyChoices, ThinkingChoice};
use rusqlite::params;

use super::{Chats, ChatsError, ConversationId, FOLDER_CHARS_MAX, INSTRUCTIONS_BYTES_MAX, one};

impl Chats {
    /// Sets what the model is told before the first message; empty for nothing.
    pub fn instruct(&mut self, id: ConversationId, instructions: &str) -> Result<(), ChatsError> {
        if instructions.len() > INSTRUCTIONS_BYTES_MAX {
            return Err(ChatsError::InstructionsTooLong { bytes: instructions.len() });
        }
        let sql = "UPDATE conversation SET instructions = ?2 WHERE id = ?1";
        let changed = self.database.execute(sql, params![id.0, instructions]);
        one(self.told(changed)?, ChatsError::NoConversation)
    }

    /// Keeps the replies of a conversation on this device, or lets others help again.
    pub fn confine(&mut self, id: ConversationId, only_here: bool) -> Result<(), ChatsError> {
        let sql = "UPDATE conversation SET only_here = ?2 WHERE id = ?1";
        let changed = self.database.execute(sql, params![id.0, only_here]);
        one(self.told(changed)?, ChatsError::NoConversation)
    }

    /// Sets how the replies of a conversation are made, where that is not as the settings say.
    pub fn tune(&mut self, id: ConversationId, choices: ReplyChoices) -> Result<(), ChatsError> {
        if !choices.is_sound() {
            return Err(ChatsError::BadTemperature);
        }
        let ReplyChoices { thinking, temperature } = choices;
        let sql = "UPDATE conversation SET thinking = ?2, temperature = ?3 WHERE id = ?1";
        let values = params![id.0, thinking.map(ThinkingChoice::word), temperature];
        let changed = self.database.execute(sql, values);
        one(self.told(changed)?, ChatsError::NoConversation)
    }

    /// Puts a conversation before all others in the list, or back among them; one that was put away
    /// comes back.
    pub fn pin(&mut self, id: ConversationId, pinned: bool) -> Result<(), ChatsError> {
        let sql =
            "UPDATE conversation SET pinned = ?2, archived = archived AND NOT ?2 WHERE id = ?1";
        let changed = self.database.execute(sql, params![id.0, pinned]);
        one(self.told(changed)?, ChatsError::NoConversation)
    }

    /// Puts a conversation away, behind all others and pinned no more, or back among them. What is
    /// said in it next brings it back, too.
    pub fn archive(&mut self, id: ConversationId, archived: bool) -> Result<(), ChatsError> {
        let sql = "UPDATE conversation SET archived = ?2, pinned = pinned AND NOT ?2 WHERE id = ?1";
        let changed = self.database.execute(sql, params![id.0, archived]);
        one(self.told(changed)?, ChatsError::NoConversation)
    }

    /// Puts a conversation into a folder, which is made with it; `""` takes it out of the one it is in.
    pub fn put_in_folder(&mut self, id: ConversationId, folder: &str) -> Result<(), ChatsError> {
        let sql = "UPDATE conversation SET folder = ?2 WHERE id = ?1";
        let changed = self.database.execute(sql, params![id.0, folder_name(folder)]);
        one(self.told(changed)?, ChatsError::NoConversation)
    }

    /// Gives a folder another name. Where there is one of that name the two become one; `""` takes all
    /// conversations out.
    pub fn rename_folder(&mut self, folder: &str, name: &str) -> Result<(), ChatsError> {
        let folder = folder_name(folder);
        if folder.is_empty() {
            return Err(ChatsError::NoFolder);
        }
        let sql = "UPDATE conversation SET folder = ?2 WHERE folder = ?1";
        let changed = self.database.execute(sql, params![folder, folder_name(name)]);
        match self.told(changed)? {
            0 => Err(ChatsError::NoFolder),
            _ => Ok(()),
        }
    }
}

/// The name of a folder as it is kept: one line, without space around or doubled, and not too long.
fn folder_name(typed: &str) -> String {
    let words = typed.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(FOLDER_CHARS_MAX) {
        Some((end, _)) => words[..end].trim_end().to_owned(),
        None => words,
    }
}
