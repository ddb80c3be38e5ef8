//! What the window gets besides the types of `nook-api`: plain data of this program alone.
//!
//! `tests::the_windows_types_are_those_of_the_program` in `bindings.rs` turns these and those of
//! `nook-api` into `ui/src/generated`, so that page and program cannot drift apart.

use nook_api::doctor::Finding;
use nook_api::views::{HouseholdView, Problem};
use serde::{Deserialize, Serialize};

/// News for the window, in order, for as long as it is open.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum WindowNews {
    /// The house changed; the first one comes at once.
    House {
        /// The house as it is now.
        house: Box<HouseholdView>,
    },
    /// The tray, or a notice, asked for a page.
    GoTo {
        /// The page.
        page: Page,
    },
    /// Somebody has a question: the window shows a new chat.
    Ask,
    /// Whether the keys that do that are to be had; the first one comes at once.
    AskKeys {
        /// What became of them.
        state: AskKeys,
    },
    /// The window was minimised instead of hidden, because this desktop shows no tray icons.
    NoTray,
    /// The node has ended because of a fault. Nothing comes after this.
    Stopped {
        /// Where this program's log is, which says why; absent where there is none.
        log: Option<String>,
    },
    /// What was asked for in the tray's menu was not done.
    NotDone {
        /// Why.
        problem: Problem,
    },
    /// Files were dropped on the window.
    Dropped {
        /// Where they lie.
        paths: Vec<String>,
        /// Why one more of them cannot be named here.
        refused: Option<Problem>,
    },
}

/// What became of the keys that bring the window up for a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum AskKeys {
    /// None were chosen.
    #[default]
    Off,
    /// They do.
    Held,
    /// The system does not give them: another program has them.
    Taken,
    /// This system gives programs no keys of their own.
    Impossible,
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
