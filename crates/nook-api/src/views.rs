//! What front ends show: plain data, made from the house's own state in one place.
//!
//! Everything here is serialisable because it crosses a process wall (window, port, command line);
//! nothing inside the house is. With the feature `bindings` the TypeScript types of the window are
//! generated from these, so that the two cannot drift apart.

use serde::{Deserialize, Serialize};

/// Derives what every view has.
macro_rules! view {
    ($(#[$meta:meta])* $kind:ident $name:ident $body:tt) => {
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
        #[serde(rename_all = "snake_case")]
        $(#[$meta])*
        pub $kind $name $body
    };
}

// Behind the macro, so that they have it.
mod audit;
mod condition;
mod conversations;
mod devices;
mod download_trouble;
mod facts;
mod key_place;
mod models;
mod models_folder;
mod pairing;
mod past_replies;
mod plans;
mod port;
mod privacy;
mod reason;
mod settings;
mod timeline;
mod trouble;
mod updates;
mod wording;

pub use audit::{AuditAsked, AuditEntryView, AuditOutcome, AuditWhy};
pub use condition::{Condition, GpuHoldsView, GpuUseView, GpuView};
pub use conversations::{
    ChatRole, ConversationView, ExportAsk, MessageFinish, MessageView, PathView, StretchView,
    ThoughtView,
};
pub use devices::{
    DeviceView, Help, InterfaceKind, LendView, TheirTerms, UnusedReason, WayView, WhyLeftOut,
};
pub use download_trouble::DownloadTrouble;
pub use facts::{DeviceKind, FactsView, PowerView};
pub use key_place::KeyPlace;
pub use models::{
    CapabilitiesView, CatalogueEditionView, CatalogueView, CopyExtent, DownloadAsk, DownloadState,
    DownloadView, FitKind, FitView, FoundView, HubModelView, HubView, InHouseView, ModelView,
    RepositoryView,
};
pub use models_folder::{FolderTrouble, ModelsFolderView, MoveState, MoveView};
pub use pairing::{PairedByCodeView, PairingView};
pub use past_replies::{HappenedView, PastReplyView, ReplyEndView};
pub use plans::{GainView, LeftOutView, MeasuredView, PredictedView, PredictionView};
pub use port::{PortKeyView, PortRequestKind, PortRequestView, PortView};
pub use privacy::{KeptPrivacyView, PrivacyOfModelView};
pub use reason::{Reason, SystemReason};
pub use settings::{SettingAsk, SettingData, SettingsView};
pub use timeline::{PartView, WorkView};
pub use trouble::{DeviceTrouble, ToUpdate, Trouble, TroubleView, WrongResult};
pub use updates::{NewerView, UpdateTrouble, UpdateWay, UpdatesView};
pub use wording::{NoHelp, WhyNoHelp, Wording};

view! {
/// The whole house as a window sees it.
struct HouseholdView {
    /// This device.
    pub me: MeView,
    /// Lending.
    pub sharing: SharingView,
    /// Paired devices first, then those merely seen, each group by name.
    pub devices: Vec<DeviceView>,
    /// Models on this device, built-in first, then by name.
    pub models: Vec<ModelView>,
    /// The name of the model that answers where nobody has chosen one: the newest that was added,
    /// else the built-in one; absent while there is none.
    #[serde(default)]
    pub default_model: Option<String>,
    /// Models that could be here, smallest first.
    pub catalogue: Vec<CatalogueView>,
    /// Which list they are.
    #[serde(default)]
    pub catalogue_edition: CatalogueEditionView,
    /// Models on their way, oldest first.
    pub downloads: Vec<DownloadView>,
    /// Where the models lie.
    pub models_folder: ModelsFolderView,
    /// Models that other devices of the house give and that are not here, by name.
    #[serde(default)]
    pub in_house: Vec<InHouseView>,
    /// The open pairing window of this device, if any.
    pub pairing: Option<PairingView>,
    /// The device that paired last by a code shown here since the node started, also one that was paired
    /// before.
    #[serde(default)]
    pub paired_by_code: Option<PairedByCodeView>,
    /// The local OpenAI-compatible port.
    pub port: PortView,
    /// Problems, worst first; empty when all is well.
    pub problems: Vec<TroubleView>,
    /// What the owner has chosen, as far as the window shows it.
    pub settings: SettingsView,
    /// New versions of the program.
    #[serde(default)]
    pub updates: UpdatesView,
}
}

view! {
/// This device.
struct MeView {
    /// Full id, base32 in groups.
    pub id: String,
    /// First eight characters of the id.
    pub short_id: String,
    /// The name other devices see.
    pub name: String,
    /// Version of the program.
    pub app_version: String,
    /// Port on which paired devices reach this one.
    pub listen_port: u16,
    /// Where the identity's secret key is kept, in English.
    pub key_kept_in: String,
    /// The same for doors that speak other languages.
    #[serde(default)]
    pub key_place: Option<KeyPlace>,
    /// All memory of this device, in bytes; absent where the system does not say.
    pub memory_bytes: Option<u64>,
    /// Room on the disk of the models, in bytes, rounded; absent where the system does not say.
    pub disk_free_bytes: Option<u64>,
    /// What it is and how it is.
    #[serde(default)]
    pub facts: FactsView,
}
}

view! {
/// Lending, as the tray and the switch show it.
struct SharingView {
    /// What the owner chose.
    pub on: bool,
    /// What is going on; selects the tray icon.
    pub state: SharingState,
    /// Whether replies of this device are made now.
    #[serde(default)]
    pub answering: bool,
    /// Streams of other devices that run here now.
    pub streams: u16,
    /// Most such streams.
    pub streams_max: u16,
    /// Why nothing is lent though it is switched on; absent while it is lent.
    #[serde(default)]
    pub paused: Option<PauseView>,
    /// Devices that are helped now, by name.
    #[serde(default)]
    pub guests: Vec<GuestView>,
    /// What was computed for others in the last seven days, oldest first; days without anything are
    /// left out.
    #[serde(default)]
    pub lent_days: Vec<LentDayView>,
    /// Its graphics cards that may compute, as far as anybody has looked for them.
    #[serde(default)]
    pub gpus: Vec<GpuView>,
    /// One line for the tray: `Sharing · 2 devices · idle`.
    pub status_line: String,
}
}

view! {
/// A device that is helped now.
struct GuestView {
    /// Its full id.
    pub device_id: String,
    /// Its name.
    pub device: String,
    /// Its streams.
    pub streams: u16,
}
}

view! {
/// What was computed for others on one day.
#[derive(Copy)]
struct LentDayView {
    /// Days since 1970-01-01 by the local calendar.
    pub day: u32,
    /// Tokens of their prompts and replies that went through layers of this device; one that came
    /// twice counts twice.
    pub tokens: u64,
}
}

view! {
/// Sharing is held back.
struct PauseView {
    /// Why.
    pub reason: PauseReason,
    /// The same in words that continue "Sharing is …".
    pub sentence: String,
    /// Seconds since 1970 when it ends by itself; absent where that is not known beforehand.
    pub until: Option<u64>,
}
}

view! {
/// What holds sharing back.
#[derive(Copy, Eq)]
enum PauseReason {
    /// The owner, for a while.
    Owner,
    /// This computer is about to sleep, or sleeps.
    Sleep,
    /// The hours in which the owner wants quiet.
    QuietHours,
    /// A battery is drained.
    Battery,
    /// Another program fills the screen.
    FullScreen,
    /// Other programs need the processor.
    Busy,
}
}

view! {
/// The five states of the tray icon.
#[derive(Copy, Eq)]
enum SharingState {
    /// Not sharing, nothing running.
    Idle,
    /// Sharing, nothing running for others.
    Sharing,
    /// Computing for this device or another.
    Busy,
    /// Sharing is on but held back.
    Paused,
    /// Something needs the owner.
    Problem,
}
}

view! {
/// How far the owner of this device trusts another one.
#[derive(Copy, Eq, PartialOrd, Ord)]
enum Trust {
    /// Never talks to this device.
    Blocked,
    /// Seen, not paired.
    Unknown,
    /// Paired; takes part in nothing yet.
    Guest,
    /// May compute on prompts and use shared layers.
    Trusted,
    /// Another device of the same owner.
    Own,
}
}

view! {
/// Who computes what, in order. The first leg has the embedding, the last the head.
struct RouteView {
    /// The legs.
    pub legs: Vec<LegView>,
}
}

view! {
/// One stretch of a route.
struct LegView {
    /// Full id of the device.
    pub device_id: String,
    /// Its name.
    pub device: String,
    /// Whether it is this device.
    pub local: bool,
    /// First and last layer, inclusive; absent when the leg holds no layer.
    pub layers: Option<[u32; 2]>,
    /// Whether token ids become numbers here.
    pub embedding: bool,
    /// Whether numbers become words here.
    pub head: bool,
}
}

view! {
/// A hand-over inside a reply.
struct FailoverView {
    /// Name of the device that was lost.
    pub from: String,
    /// Name of the device that took over.
    pub to: String,
    /// How long the reply stood still.
    pub pause_ms: f64,
    /// Tokens that had been shown before it.
    pub after_tokens: u32,
}
}

view! {
/// Why a reply ended.
#[derive(Copy, Eq)]
enum FinishReason {
    /// The model ended its turn, or a stop string came.
    Stop,
    /// The limit of tokens, or the model's window, was reached.
    Length,
}
}

view! {
/// How a finished reply went.
struct ReplySummary {
    /// The model's name.
    pub model: String,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the reply, the end token not counted.
    pub completion_tokens: u32,
    /// Who computed what at the end of the reply.
    pub route: RouteView,
    /// Reply tokens per second after the first.
    pub tokens_per_second: f64,
    /// From asking to the first token.
    pub first_token_ms: f64,
    /// Tokens of the prompt that were not computed, because an earlier reply had left them with the
    /// devices of this route.
    #[serde(default)]
    pub resumed_tokens: u32,
    /// Positions that the last part of the model computed for this reply, those computed twice
    /// counted twice.
    #[serde(default)]
    pub computed_tokens: u32,
    /// Hand-overs, in order.
    pub failovers: Vec<FailoverView>,
    /// From asking to the last token, in milliseconds.
    #[serde(default)]
    pub total_ms: f64,
    /// Who did what; those that were lost on the way come first.
    #[serde(default)]
    pub timeline: Vec<PartView>,
    /// What was predicted before it began; absent where nothing was, because it was to stay here.
    #[serde(default)]
    pub predicted: Option<PredictedView>,
    /// Names of helpers that had other replies to make meanwhile: this one took turns with them,
    /// and is slower for it than was predicted where they came later.
    #[serde(default)]
    pub shared: Vec<String>,
}
}

view! {
/// What happens while a reply is made, in order. Exactly one of `done` and `aborted` ends it.
#[serde(tag = "kind")]
enum ReplyEvent {
    /// The prompt is being read; nothing was said yet.
    Started {
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Who computes what.
        route: RouteView,
        /// What that was predicted to take; absent where nothing was, because it was to stay here.
        #[serde(default)]
        predicted: Option<PredictionView>,
    },
    /// More text. Never splits a character.
    TokenDelta {
        /// The text.
        text: String,
        /// Reply tokens so far.
        tokens: u32,
    },
    /// More of what the model thinks before it answers. Only replies of kept conversations tell it
    /// apart.
    ThoughtDelta {
        /// The text.
        text: String,
        /// Reply tokens so far, those of the thinking among them.
        tokens: u32,
        /// How long it has thought, in milliseconds.
        ms: u64,
    },
    /// A device became slow, has other replies to make too, was lost, or is well again.
    ShardStatus {
        /// Name of the device.
        device: String,
        /// How it is.
        status: ShardState,
    },
    /// Another device took over; the reply goes on.
    ShardFailover {
        /// The hand-over.
        failover: FailoverView,
        /// Who computes what from now on.
        route: RouteView,
    },
    /// This device computes the missing layers itself from now on.
    FallbackToLocal {
        /// Who computes what from now on.
        route: RouteView,
    },
    /// The reply is complete.
    Done {
        /// How it went.
        summary: ReplySummary,
    },
    /// The reply ended early; what was shown stays.
    PipelineAborted {
        /// Stable code, see `nook_base::ErrorCode`.
        code: String,
        /// What to tell the person.
        sentence: String,
        /// The same for doors that speak other languages; absent where only the sentence says it.
        #[serde(default)]
        wording: Option<Wording>,
    },
}
}

view! {
/// How a device that takes part in a reply is.
#[derive(Copy, Eq)]
enum ShardState {
    /// Answers.
    Online,
    /// Late.
    Degraded,
    /// Has other replies to make too: this one takes turns with them.
    Shared,
    /// Gone, or not to be believed.
    Lost,
    /// Gone, and nobody can go on without it: the reply waits until it is back.
    Awaited,
}
}

view! {
/// Something a person asked for that did not work.
struct Problem {
    /// Stable code, see `nook_base::ErrorCode`.
    pub code: String,
    /// What to tell the person in English, with what to do.
    pub sentence: String,
    /// The same for doors that speak other languages; absent where only the sentence says it.
    #[serde(default)]
    pub wording: Option<Wording>,
}
}

view! {
/// How replies of this device are divided, and what that is decided by.
struct PipelineView {
    /// When other devices are used.
    pub pooling: PoolingView,
    /// What was decided for the last reply; absent before the first.
    pub last: Option<DecisionView>,
    /// What was measured so far, this device first.
    pub measured: Vec<MeasuredView>,
    /// Which layers were asked of other devices, for the model that was used last; absent while
    /// they are best where they are.
    pub placement: Option<PlacementView>,
    /// The last replies since the node started, the newest first.
    #[serde(default)]
    pub past: Vec<PastReplyView>,
    /// What each device brings to the usual reply, as far as that is known.
    #[serde(default)]
    pub gains: Vec<GainView>,
}
}

view! {
/// Which device should hold which layers of a model, and what it answered.
struct PlacementView {
    /// The model's name.
    pub model: String,
    /// What it is good for, in one sentence.
    pub because: String,
    /// In layer order, this device among them.
    pub shares: Vec<ShareView>,
}
}

view! {
/// One device's part of a placement.
struct ShareView {
    /// Its full id.
    pub device_id: String,
    /// Its name.
    pub device: String,
    /// First layer.
    pub first_layer: u32,
    /// Last layer.
    pub last_layer: u32,
    /// How it stands there; absent for this device, and for one that held them already or takes no
    /// wishes.
    pub answer: Option<String>,
}
}

view! {
/// When other devices are used.
#[derive(Copy, Eq)]
enum PoolingView {
    /// When the reply is predicted to be faster with them, or this device cannot make it alone.
    WhenFaster,
    /// Whenever they offer the layers.
    Always,
}
}

view! {
/// Where a reply was computed and why.
struct DecisionView {
    /// The model's name.
    pub model: String,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// The choice in one sentence.
    pub because: String,
    /// Who was to compute what.
    pub route: RouteView,
    /// What of the model stays on this device on that route: its shape, in plain English.
    #[serde(default)]
    pub topology: String,
    /// What this device alone was predicted to take; absent when it cannot make the reply alone.
    pub alone: Option<PredictionView>,
    /// Why this device cannot make the reply alone; absent when it can.
    pub alone_impossible: Option<String>,
    /// The best route with others, chosen or not; absent when nobody could help.
    pub pooled: Option<PooledView>,
    /// The best device of the same person for the whole reply, chosen or not; absent where that is
    /// switched off, or none could.
    #[serde(default)]
    pub whole: Option<PooledView>,
    /// Paired devices without a part in the route.
    pub left_out: Vec<LeftOutView>,
    /// What a device on a cable would have gained; absent where that is little, or not known.
    #[serde(default)]
    pub by_cable: Option<ByCableView>,
    /// What was measured; absent until the reply has ended well.
    pub went: Option<ReplySpeedView>,
}
}

view! {
/// A device whose way is slow, and what a cable would gain.
struct ByCableView {
    /// Its id.
    pub device_id: String,
    /// Its name.
    pub device: String,
    /// Reply tokens per second, as predicted for the ways as they are.
    pub tokens_per_second_now: f64,
    /// The same with that device on a cable.
    pub tokens_per_second_then: f64,
}
}

view! {
/// How fast a reply was.
#[derive(Copy)]
struct ReplySpeedView {
    /// From asking to the first token, in milliseconds.
    pub first_token_ms: f64,
    /// Reply tokens per second after the first.
    pub tokens_per_second: f64,
}
}

view! {
/// A route with other devices and what it was predicted to take.
struct PooledView {
    /// Who would compute what.
    pub route: RouteView,
    /// What it would take.
    pub prediction: PredictionView,
}
}
