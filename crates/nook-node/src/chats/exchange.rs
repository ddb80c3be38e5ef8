//! Conversations as files: JSON to be read again, Markdown for people.
//!
//! The JSON is a format of its own with a name and a version; what does not carry both is refused.
//! Messages refer to their parents by position, so a file says nothing of ids here.

use std::fmt::Write as _;

use nook_base::{ErrorCode, Sensitive, clock};
use nook_store::{
    Chats, Conversation, ConversationId, Finish, ImportedMessage, KeptThought, MessageId, Role,
};
use serde::{Deserialize, Serialize};

use super::{finish_view, role_view, thought_view, told};
use nook_api::NodeError;
use nook_api::views::{ChatRole, ExportAsk, MessageFinish, ThoughtView, Wording};

/// What every file says of itself.
const FORMAT: &str = "inglenook-chat";
/// The version written here, and the highest that is read.
const VERSION: u32 = 1;
/// Longest file that is read, in bytes; a longer one is refused.
const FILE_BYTES_MAX: usize = 32 << 20;

#[derive(Serialize, Deserialize)]
struct ChatFile {
    format: String,
    version: u32,
    title: String,
    #[serde(default)]
    instructions: String,
    messages: Vec<FileMessage>,
}

#[derive(Serialize, Deserialize)]
struct FileMessage {
    /// Position of the message that it follows, from 0.
    parent: Option<usize>,
    role: ChatRole,
    text: String,
    /// What the model thought before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thought: Option<ThoughtView>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default = "complete")]
    finish: MessageFinish,
    #[serde(default)]
    created: u64,
}

fn complete() -> MessageFinish {
    MessageFinish::Complete
}

/// A conversation as the text of a file.
pub(super) fn export(conversation: &Conversation, form: ExportAsk) -> Result<String, NodeError> {
    match form {
        ExportAsk::Json => json(conversation),
        ExportAsk::Markdown { you, thought, leaf } => {
            Ok(markdown(conversation, (&you, &thought), MessageId(leaf)))
        }
    }
}

fn json(conversation: &Conversation) -> Result<String, NodeError> {
    let position =
        |id: MessageId| conversation.messages.iter().position(|message| message.id == id);
    let message = |message: &nook_store::Message| FileMessage {
        parent: message.parent.and_then(position),
        role: role_view(message.role),
        text: message.text.0.clone(),
        thought: message.thought.as_ref().map(thought_view),
        model: message.model.clone(),
        finish: finish_view(&message.finish),
        created: message.created,
    };
    let file = ChatFile {
        format: FORMAT.to_owned(),
        version: VERSION,
        title: conversation.entry.title.0.clone(),
        instructions: conversation.entry.instructions.0.clone(),
        messages: conversation.messages.iter().map(message).collect(),
    };
    serde_json::to_string_pretty(&file).map_err(|error| {
        NodeError::new(ErrorCode::BadRequest, format!("It cannot be written as JSON: {error}."))
    })
}

/// `you` and `thought` stand over what the person said, and over what the model thought.
fn markdown(conversation: &Conversation, (you, thought): (&str, &str), leaf: MessageId) -> String {
    let mut text = format!("# {}\n", conversation.entry.title.as_str());
    quote(&mut text, conversation.entry.instructions.trim());
    for message in conversation.branch(leaf) {
        let speaker = match message.role {
            Role::User => you,
            _ => message.model.as_deref().unwrap_or("Inglenook"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n## {speaker}");
        if let Some(thoughts) = &message.thought {
            quote(&mut text, &format!("**{thought}**\n\n{}", thoughts.text.trim()));
        }
        let _ = write!(text, "\n{}\n", message.text.trim_end());
    }
    text
}

/// Writes lines as a quotation; nothing where there are none.
fn quote(text: &mut String, quoted: &str) {
    for line in quoted.lines() {
        text.push_str(if line.is_empty() { "\n>" } else { "\n> " });
        text.push_str(line);
    }
    if !quoted.is_empty() {
        text.push('\n');
    }
}

/// Takes in a file that [`export`] wrote.
pub(super) fn import(chats: &mut Chats, file: &str) -> Result<ConversationId, NodeError> {
    let bad = |sentence: String| NodeError::new(ErrorCode::BadRequest, sentence);
    if file.len() > FILE_BYTES_MAX {
        return Err(bad("This file is too large to be a chat of Inglenook.".to_owned())
            .worded(Wording::ChatTooLarge));
    }
    // serde_json's message names a place and a kind, and may quote a word of the file: not shown.
    let read: ChatFile = serde_json::from_str(file).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        bad(format!("This is no chat that Inglenook saved as JSON (line {line}, column {column})."))
            .worded(Wording::NoChat)
    })?;
    if read.format != FORMAT {
        return Err(
            bad("This is no chat that Inglenook saved as JSON.".to_owned()).worded(Wording::NoChat)
        );
    }
    if read.version > VERSION {
        return Err(bad(
            "A later version of Inglenook saved this chat; update this device.".to_owned()
        )
        .worded(Wording::ChatOfLaterVersion));
    }
    let messages: Vec<ImportedMessage> = read.messages.into_iter().map(imported).collect();
    chats.import(&read.title, &read.instructions, &messages, clock::unix_seconds()).map_err(told)
}

fn imported(message: FileMessage) -> ImportedMessage {
    ImportedMessage {
        parent: message.parent,
        role: match message.role {
            ChatRole::System => Role::System,
            ChatRole::User => Role::User,
            ChatRole::Assistant => Role::Assistant,
        },
        text: Sensitive(message.text),
        thought: message.thought.map(|ThoughtView { text, ms }| KeptThought {
            text: Sensitive(text),
            milliseconds: ms,
        }),
        model: message.model,
        finish: match message.finish {
            MessageFinish::Running | MessageFinish::Interrupted => Finish::Interrupted,
            MessageFinish::Complete => Finish::Complete,
            MessageFinish::Length => Finish::Length,
            MessageFinish::Stopped => Finish::Stopped,
            MessageFinish::Failed => Finish::Failed { code: "imported".to_owned() },
        },
        created: message.created,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk(chats: &mut Chats) -> ConversationId {
        let talk = chats.create("Stars", 7).unwrap();
        chats.instruct(talk, "Be kind.\nBe brief.").unwrap();
        let asked = chats.add(talk, None, Role::User, "Why do stars shine?", 7).unwrap();
        for (text, finish) in [("They burn", Finish::Stopped), ("Fusion.", Finish::Complete)] {
            let reply = chats.begin_reply(talk, asked, "ember", 8).unwrap();
            chats.think(reply, "Is it fire?\n\nPerhaps.", 1200).unwrap();
            chats.append(reply, text).unwrap();
            chats.finish(reply, &finish, None, 9).unwrap();
        }
        talk
    }

    #[test]
    fn what_was_exported_comes_back_whole() {
        let mut chats = Chats::in_memory().unwrap();
        let id = talk(&mut chats);
        let before = chats.get(id).unwrap();
        let file = export(&before, ExportAsk::Json).unwrap();
        let copy = import(&mut chats, &file).unwrap();
        assert_ne!(copy, id);
        let after = chats.get(copy).unwrap();
        assert_eq!(after.entry.title, before.entry.title);
        assert_eq!(after.entry.instructions, before.entry.instructions);
        assert_eq!(export(&after, ExportAsk::Json).unwrap(), file);
    }

    #[test]
    fn markdown_holds_the_branch_that_was_asked_for() {
        let mut chats = Chats::in_memory().unwrap();
        let id = talk(&mut chats);
        let kept = chats.get(id).unwrap();
        let leaf = kept.messages[1].id.0;
        let (you, thought) = ("You".to_owned(), "Thought".to_owned());
        let text = export(&kept, ExportAsk::Markdown { you, thought, leaf }).unwrap();
        let expected = "# Stars\n\n> Be kind.\n> Be brief.\n\n## You\n\nWhy do stars shine?\n\n\
                        ## ember\n\n> **Thought**\n>\n> Is it fire?\n>\n> Perhaps.\n\nThey burn\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn other_files_are_refused_in_words_and_nothing_is_added() {
        let mut chats = Chats::in_memory().unwrap();
        let own = r#"{"format":"inglenook-chat","version":1,"title":"x","messages":"#;
        let backwards = format!(r#"{own}[{{"parent":3,"role":"user","text":"canary"}}]}}"#);
        let later = own.replace("\"version\":1", "\"version\":2") + "[]}";
        for file in [
            "",
            "canary",
            "[]",
            r#"{"title":"canary"}"#,
            r#"{"format":"other","version":1,"title":"x","messages":[]}"#,
            &later,
            &backwards,
        ] {
            let refused = import(&mut chats, file).unwrap_err();
            assert!(!refused.sentence.contains("canary"), "{refused}");
        }
        assert!(chats.list(9).unwrap().is_empty());
        import(&mut chats, &format!("{own}[]}}")).unwrap();
    }
}
