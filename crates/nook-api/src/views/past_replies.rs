//! The last replies, and what happened to them: who computed what, who was lost, who took over.

use serde::{Deserialize, Serialize};

use super::{FailoverView, ReplySpeedView, RouteView};

view! {
/// One of the last replies of this device. It holds nothing of what was asked or said.
struct PastReplyView {
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// The model's name.
    pub model: String,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Who was to compute what when it began.
    pub route: RouteView,
    /// What happened, in order; beyond a limit the first of it stays.
    pub happened: Vec<HappenedView>,
    /// How it ended.
    pub end: ReplyEndView,
}
}

view! {
/// What can happen to a reply.
#[serde(tag = "kind")]
enum HappenedView {
    /// A device was lost, or is not to be believed.
    Lost {
        /// Its name.
        device: String,
    },
    /// The reply waits for a device.
    Awaited {
        /// Its name.
        device: String,
    },
    /// A helper had other replies to make too.
    Shared {
        /// Its name.
        device: String,
    },
    /// Others took over.
    TookOver {
        /// The hand-over.
        failover: FailoverView,
        /// Who computes what from then on.
        route: RouteView,
    },
    /// This device computes the missing layers itself from then on.
    TookOverHere {
        /// Who computes what from then on.
        route: RouteView,
    },
}
}

view! {
/// How a reply ended.
#[serde(tag = "kind")]
enum ReplyEndView {
    /// It goes on.
    UnderWay,
    /// It is complete.
    Done {
        /// Tokens of the reply.
        tokens: u32,
        /// How fast it was.
        speed: ReplySpeedView,
    },
    /// It ended early.
    Aborted {
        /// Stable code, see `nook_base::ErrorCode`.
        code: String,
    },
    /// Whoever asked wanted no more of it.
    Stopped,
}
}
