//! What the window sends and gets besides the views of `nook-node`: plain data of this wall alone.
//!
//! `tests::the_windows_types_are_those_of_the_program` in `bindings.rs` turns these and the views into
//! `ui/src/generated`, so that page and program cannot drift apart.

use nook_base::Sensitive;
use nook_node::doctor::Finding;
use nook_node::views::{HouseView, Problem};
use nook_node::{ChatStart, PairTarget, Reach, StartedTurn, Turn, TurnText};
use serde::{Deserialize, Serialize};

/// News for the window, in order, for as long as it is open.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum WindowNews {
    /// The house changed; the first one comes at once.
    House {
        /// The house as it is now.
        house: Box<HouseView>,
    },
    /// The tray, or a notice, asked for a page.
    GoTo {
        /// The page.
        page: Page,
    },
    /// The window was minimised instead of hidden, because this desktop shows no tray icons.
    NoTray,
    /// Files were dropped on the window.
    Dropped {
        /// Where they lie.
        paths: Vec<String>,
        /// Why one more of them cannot be named here.
        refused: Option<Problem>,
    },
}

/// A page of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Page {
    /// Conversations.
    Chat,
    /// Other devices.
    Devices,
    /// Models.
    Models,
    /// Lending.
    Sharing,
    /// Who may compute on prompts.
    Privacy,
    /// The OpenAI-compatible port.
    Port,
    /// What usually goes wrong.
    Checks,
    /// The window's own settings.
    Settings,
}

/// Something to say, and where. No `Debug`: it holds what the person wrote.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct TurnAsk {
    /// The conversation; absent starts one.
    pub(crate) conversation: Option<i64>,
    /// What a conversation that starts now is to be like.
    pub(crate) start: StartAsk,
    /// What is said.
    pub(crate) what: WhatAsk,
    /// Name of the model.
    pub(crate) model: String,
    /// Where it may be computed.
    pub(crate) reach: ReachAsk,
}

/// What a new conversation is to be like.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct StartAsk {
    /// It is never written to the disk and gone when the program ends.
    pub(crate) temporary: bool,
    /// What the model is told before the first message; may be empty.
    pub(crate) instructions: String,
}

/// What a turn says.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum WhatAsk {
    /// A new message of the person.
    New {
        /// What they say.
        text: String,
        /// The message that it follows; absent makes it a beginning.
        parent: Option<i64>,
    },
    /// Another answer to a message of the person.
    Again {
        /// That message.
        message: i64,
    },
    /// The rest of a reply that was cut.
    More {
        /// That reply.
        message: i64,
    },
}

/// Where a reply may be computed.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReachAsk {
    /// On this device and those that help it.
    House,
    /// On this device only.
    ThisDevice,
}

/// Which device to pair with.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum JoinTarget {
    /// A device in the list.
    Seen {
        /// Its id there.
        id: String,
    },
    /// A typed address.
    Address {
        /// `host:port`, or `host`.
        address: String,
    },
}

/// A turn that is under way.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct TurnView {
    /// The conversation.
    pub(crate) conversation: i64,
    /// The person's message that is answered.
    pub(crate) user_message: i64,
    /// The message that the reply fills; also what stops it.
    pub(crate) reply_message: i64,
}

/// What the page of diagnostics shows.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct DiagnosticsView {
    /// What was looked at.
    pub(crate) findings: Vec<Finding>,
    /// Operating system and kind of processor.
    pub(crate) system: String,
    /// Version of what draws this window; absent where it does not say.
    pub(crate) web_view: Option<String>,
    /// Whether the window is drawn without the graphics card now.
    pub(crate) safe_graphics: bool,
    /// Whether this desktop shows tray icons.
    pub(crate) tray: bool,
    /// Where this program's log is; absent where there is none.
    pub(crate) log: Option<String>,
}

impl From<TurnAsk> for Turn {
    fn from(ask: TurnAsk) -> Self {
        let StartAsk { temporary, instructions } = ask.start;
        Self {
            conversation: ask.conversation,
            start: ChatStart { temporary, instructions: Sensitive(instructions) },
            text: match ask.what {
                WhatAsk::New { text, parent } => TurnText::New { text: Sensitive(text), parent },
                WhatAsk::Again { message } => TurnText::Again(message),
                WhatAsk::More { message } => TurnText::More(message),
            },
            model: ask.model,
            reach: ask.reach.into(),
        }
    }
}

impl From<ReachAsk> for Reach {
    fn from(ask: ReachAsk) -> Self {
        match ask {
            ReachAsk::House => Self::House,
            ReachAsk::ThisDevice => Self::ThisDevice,
        }
    }
}

impl From<JoinTarget> for PairTarget {
    fn from(target: JoinTarget) -> Self {
        match target {
            JoinTarget::Seen { id } => Self::Seen(id),
            JoinTarget::Address { address } => Self::Address(address),
        }
    }
}

impl From<&StartedTurn> for TurnView {
    fn from(turn: &StartedTurn) -> Self {
        Self {
            conversation: turn.conversation,
            user_message: turn.user_message,
            reply_message: turn.reply_message,
        }
    }
}
