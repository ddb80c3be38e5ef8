//! Why layers did not come.

use std::path::PathBuf;

use nook_base::ErrorCode;
use nook_fetch::FetchError;

/// Layers that are not here. What came stays unless it was forgotten, and is not taken again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartFailure {
    /// The disk is full, or would be.
    #[error("the disk has not enough room for the layers")]
    DiskFull,
    /// The system refuses to write or to read.
    #[error("{} cannot be used: {reason}", file.display())]
    Disk {
        /// Which file.
        file: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The partial models of this device may not take so much, and none of the others can go.
    #[error("the layers need {needed} bytes, and {most} may be used for them")]
    CapReached {
        /// Bytes that the model would come to.
        needed: u64,
        /// Bytes that it may come to.
        most: u64,
    },
    /// No device that gives the model is here.
    #[error("no device that gives this model is here")]
    NoHolder,
    /// Devices that give the model are here, and brought nothing.
    #[error("the devices that have this model brought nothing: {last}")]
    GaveUp {
        /// What was wrong last.
        last: String,
    },
    /// The last device that was here sent something else.
    #[error(
        "what {device} sent is not the model that was asked for; nothing more is taken from it"
    )]
    WrongBytes {
        /// The device, for people.
        device: String,
    },
    /// This version cannot use the model.
    #[error("the model cannot be used here: {reason}")]
    Unusable {
        /// Why.
        reason: String,
    },
    /// The model has no such layers.
    #[error("the model has {layers} layers, and others were asked for")]
    NoSuchLayers {
        /// Layers that it has.
        layers: u32,
    },
    /// The folder of the models is moving, or its disk is away.
    #[error("the folder of the models cannot be written now")]
    FolderAway,
    /// More is asked for at once than is done.
    #[error("too many layers are asked for at once")]
    TooMany,
    /// Somebody asked for the end.
    #[error("taking the layers was stopped")]
    Stopped,
    /// Another process of this user writes the same file.
    #[error("another process takes layers of the same model")]
    Busy,
    /// A task of this program was lost.
    #[error("taking the layers was interrupted inside this program")]
    Lost,
}

impl PartFailure {
    /// What another device is told that asked for the layers. The words stay here: they may name
    /// files and other devices.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::DiskFull => ErrorCode::DiskFull,
            Self::CapReached { .. } => ErrorCode::FetchLimit,
            // Who asked gave what it has; its own file is the one to look at.
            Self::WrongBytes { .. } | Self::Unusable { .. } => ErrorCode::BadModel,
            Self::NoSuchLayers { .. } => ErrorCode::BadRequest,
            Self::TooMany => ErrorCode::Busy,
            Self::Disk { .. }
            | Self::NoHolder
            | Self::GaveUp { .. }
            | Self::FolderAway
            | Self::Stopped
            | Self::Busy
            | Self::Lost => ErrorCode::FetchFailed,
        }
    }
}

impl From<FetchError> for PartFailure {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Stopped => Self::Stopped,
            FetchError::Busy { .. } => Self::Busy,
            FetchError::Nobody => Self::NoHolder,
            FetchError::GaveUp { last, .. } => Self::GaveUp { last },
            FetchError::WrongBytes { device } => Self::WrongBytes { device },
            FetchError::NoRoom { .. } | FetchError::Disk { full: true, .. } => Self::DiskFull,
            FetchError::Disk { file, reason, .. } => Self::Disk { file, reason },
            FetchError::OverCap { needed, most } => Self::CapReached { needed, most },
            FetchError::Lost => Self::Lost,
            other => Self::Unusable { reason: other.to_string() },
        }
    }
}
