//! What one installation keeps: identity, settings, paired devices, the port's key, chats, models.
//!
//! Everything begins with a [`Home`], which holds the data folder exclusively. Each kind of data
//! has one owner value (`SettingsFile`, `Peers`, `PortKeys`, `Chats`, `Library`, `Downloads`,
//! `MeasuredFile`, `LentDaysFile`, `AuditFile`, `PrivacyFile`) that reads at start and writes through at once: a change counts
//! when it is on the disk, and a failed write leaves the old state in force, in memory and in the
//! file. A file that cannot be understood is an error with its place and what to do; it is never
//! taken for an empty one and never overwritten.
//!
//! Calls may wait for the disk: keep them off the runtime's threads. Nothing here reads the clock,
//! and no secret or text of a chat is in any `Debug` output.

mod audit;
mod chats;
mod downloads;
mod durable;
mod elsewhere;
mod home;
mod identity;
mod json;
mod keyring;
mod lent_days;
mod library;
mod measured;
mod peers;
mod port_key;
mod port_keys;
mod privacy;
mod settings;
#[cfg(feature = "testing")]
pub mod testing;

pub use audit::{
    AUDIT_ENTRIES_MAX, AUDIT_STRANGERS_MAX, AuditAmounts, AuditAsked, AuditEntry, AuditFile,
    AuditList, AuditOutcome, AuditSubject, AuditWho, AuditWhy,
};
pub use chats::{
    Chats, ChatsError, Conversation, ConversationEntry, ConversationId, FOLDER_CHARS_MAX, Finish,
    Found, IMPORTED_MESSAGES_MAX, INSTRUCTIONS_BYTES_MAX, ImportedMessage, KeptThought, LISTED_MAX,
    MESSAGE_BYTES_MAX, Message, MessageId, Role, TITLE_CHARS_MAX,
};
pub use downloads::{DOWNLOADS_MAX, DownloadEntry, DownloadWish, Downloads, DownloadsError};
pub use durable::{Deed, FileError};
pub use elsewhere::{Elsewhere, FOUND_MAX, FoundFile, Keeper};
pub use home::{HOME_VARIABLE, Home, HomeChoice, HomeError, SOCKET_PATH_BYTES_MAX};
pub use identity::{
    IdentityError, KEYRING_VARIABLE, KeyringChoice, Where, WhyFile, load_or_mint, public_id,
};
pub use json::DocumentError;
pub use keyring::KeyringTrouble;
pub use lent_days::{LENT_DAYS_MAX, LentDay, LentDays, LentDaysFile};
pub use library::{
    EMBER, FileStanding, FileState, ImportError, Library, LibraryError, MODEL_NAME_BYTES_MAX,
    MODELS_MAX, MOVE_RESERVE_BYTES, ModelEntry, ModelsMove, MoveError, MovePlan, ResolveError,
    Staged, Stager, Stamps, Take, partial_file_name, recover_move, stamp_before_digest,
};
pub use measured::{
    BACKEND_LIFE_SECONDS, CONDUCT_LIFE_SECONDS, GAIN_LIFE_SECONDS, GainRange, MEASURED_MAX,
    Measured, MeasuredBackend, MeasuredConduct, MeasuredFile, MeasuredGain, MeasuredHelp,
    MeasuredSpeed, MeasuredWay, SPEED_LIFE_SECONDS,
};
pub use peers::{HelpAnswer, PEER_ADDRESSES_MAX, PEERS_MAX, Peer, Peers, PeersError};
pub use port_key::{PortKey, PortKeyError};
pub use port_keys::{
    NamedPortKey, PORT_KEY_NAME_CHARS_MAX, PORT_KEYS_MAX, PortKeyHolder, PortKeys, PortKeysError,
};
pub use privacy::{KeptFigures, PRIVACY_MODELS_MAX, PrivacyFile, PrivacyList};
pub use settings::{
    ActivationChoice, Acts, AskKeys, ChatSettings, DeviceSettings, GlanceError, HostNames,
    HostSettings, InferenceSettings, Language, Megabytes, ModelNames, ModelsSettings,
    NetworkSettings, NewVersions, NoQuietHours, PauseSettings, Pooling, PortSettings, QuietHours,
    SETTINGS, Setting, SettingValue, Settings, SettingsError, SettingsFile, Side, SplitChoice,
    Takes, UpdateSettings, WindowSettings, document as settings_document, setting,
    template as settings_template, typescript as settings_typescript, usual_shard_bytes,
};
