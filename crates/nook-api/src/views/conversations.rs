//! Kept conversations as front ends show them.

use nook_base::ReplyChoices;
use serde::{Deserialize, Serialize};

use super::{FailoverView, ReplySummary, RouteView};

view! {
/// Who said a message.
#[derive(Copy, Eq)]
enum ChatRole {
    /// Instructions that hold for the whole chat.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}
}

view! {
/// A conversation in the list.
struct ConversationView {
    /// Its number.
    pub id: i64,
    /// Its title.
    pub title: String,
    /// Seconds since 1970 when something was last said.
    pub updated: u64,
    /// What the model is told before the first message; empty for nothing.
    pub instructions: String,
    /// Whether its replies are computed on this device alone.
    pub only_here: bool,
    /// Whether it stands before all others in the list.
    pub pinned: bool,
    /// Whether the person has put it away.
    pub archived: bool,
    /// The folder that it lies in; empty for none.
    #[serde(default)]
    pub folder: String,
    /// How its replies are made, where that is not as the settings say.
    #[serde(default)]
    pub choices: ReplyChoices,
    /// Text around the words that were looked for; absent where the title holds them, or nothing
    /// was looked for.
    pub excerpt: Option<String>,
}
}

view! {
/// One message of a conversation. Messages form a tree: siblings share a parent.
struct MessageView {
    /// Its number.
    pub id: i64,
    /// The message it follows.
    pub parent: Option<i64>,
    /// Who said it.
    pub role: ChatRole,
    /// What was said.
    pub text: String,
    /// What the model thought before it; absent where it did not.
    #[serde(default)]
    pub thought: Option<ThoughtView>,
    /// Seconds since 1970.
    pub created: u64,
    /// How it ended.
    pub finish: MessageFinish,
    /// Whether a reply names no model as its author: the person changed it, or the file that it came
    /// with names none.
    #[serde(default)]
    pub reworded: bool,
    /// How it was made; absent for messages of people and for cut replies.
    pub summary: Option<ReplySummary>,
    /// Who computed a reply that has no summary; absent when it was cut before that was known.
    pub path: Option<PathView>,
    /// Who computed which words of a reply, in order; empty where that was not written down. Words before
    /// the first of them are from before it was.
    #[serde(default)]
    pub stretches: Vec<StretchView>,
    /// Why it was cut, in plain English; absent when it was not.
    pub cut_because: Option<String>,
    /// The code of that, where an error cut it; see `nook_base::ErrorCode`.
    #[serde(default)]
    pub cut_code: Option<String>,
}
}

view! {
/// What a model thought before it answered.
struct ThoughtView {
    /// In its words.
    pub text: String,
    /// How long it took, in milliseconds.
    pub ms: u64,
}
}

view! {
/// How a message ended.
#[derive(Copy, Eq)]
enum MessageFinish {
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
    /// It failed.
    Failed,
}
}

view! {
/// Who computed a reply so far.
struct PathView {
    /// Who computed what at last.
    pub route: RouteView,
    /// Hand-overs, in order.
    pub failovers: Vec<FailoverView>,
    /// Tokens of the reply; 0 where the program ended before it could count.
    pub completion_tokens: u32,
}
}

view! {
/// A stretch of a reply's text and who computed it. It ends where the next one begins.
struct StretchView {
    /// Where it begins in the text, in UTF-16 code units, as JavaScript counts them. While a reply is
    /// written, it may lie behind what is saved of the text.
    pub at: u32,
    /// Tokens of the reply before it.
    pub after_tokens: u32,
    /// Who computed what meanwhile.
    pub route: RouteView,
}
}

view! {
/// How a conversation is written into a file.
#[serde(tag = "kind")]
enum ExportAsk {
    /// Everything, to be imported again.
    Json,
    /// One branch of it, for people.
    Markdown {
        /// Heading over what the person said.
        you: String,
        /// Stands over what the model thought.
        thought: String,
        /// Last message of the branch.
        leaf: i64,
    },
}
}
