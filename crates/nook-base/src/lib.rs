//! The nouns of Inglenook, shared by every other crate.
//!
//! Nothing here does I/O. The two sanctioned doors to the outside world that every crate needs live
//! here so that lints can forbid all others: [`clock`] (time), [`mod@env`] (environment). With the
//! feature `tasks`, the module `tasks` holds the only place that spawns background tasks.

pub mod activation;
pub mod backend;
pub mod calendar;
pub mod clock;
pub mod code;
pub mod device_bytes;
pub mod env;
pub mod extent;
pub mod file_stamp;
pub mod form_factor;
pub mod id;
pub mod layers;
pub mod limits;
pub mod logit_rows;
pub mod paths;
pub mod prefix_hash;
pub mod privacy;
pub mod reply_choices;
pub mod sensitive;
#[cfg(feature = "tasks")]
pub mod tasks;
pub mod ticket;
pub mod vocabulary;
pub mod wake;

/// Version of the program: that of the workspace, or the one for which a release is built
/// (`cargo xtask release` sets `INGLENOOK_VERSION` while it builds).
pub const VERSION: &str = match option_env!("INGLENOOK_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

pub use activation::{Activation, ActivationDtype, ActivationError};
pub use backend::{Backend, UnknownBackend};
pub use code::ErrorCode;
pub use device_bytes::DeviceBytes;
pub use extent::Extent;
pub use file_stamp::{FileStamp, FileTime, NotedFile};
pub use form_factor::FormFactor;
pub use id::{ModelDigest, PeerId};
pub use layers::{LayerRange, ModelPart};
pub use logit_rows::LogitRows;
pub use prefix_hash::PrefixHash;
pub use privacy::PrivacyFigures;
pub use reply_choices::{ReplyChoices, ThinkingChoice};
pub use sensitive::Sensitive;
pub use ticket::{Ticket, TicketClaim};
pub use vocabulary::Vocabulary;
pub use wake::{MacAddress, NoWakeAddress, WakeAddress};
