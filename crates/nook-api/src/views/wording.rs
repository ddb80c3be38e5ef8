//! What a refusal says, for front ends that say it in the person's language.
//!
//! A refusal carries its code, an English sentence, and one of these where the window has words of its
//! own for it. The catalogues of the window must have an entry for each kind: their type is generated
//! from this one.

use serde::{Deserialize, Serialize};

use super::{DownloadTrouble, FolderTrouble, Reason, Trouble};

view! {
/// A sentence that the window's catalogues know, and what stands in it.
#[derive(Eq)]
#[serde(tag = "kind")]
enum Wording {
    /// What the code alone says; nothing more exact is known.
    Code,
    /// The prompt is longer than the model can hold.
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: u64,
        /// Whether they were counted only until it was certain that they do not fit.
        at_least: bool,
        /// Name of the model.
        model: String,
        /// Tokens that it can hold.
        window: u32,
    },
    /// As many replies as may be are made, and as many wait.
    AllBusy {
        /// Replies that are made.
        running: u64,
        /// Replies that wait.
        waiting: u64,
    },
    /// This device has not the memory for a model, and no other ones compute the rest.
    NoRoom {
        /// The model's name.
        model: String,
        /// Bytes that the reply needs on this device alone.
        needs_bytes: u64,
        /// Bytes that are free for it.
        free_bytes: u64,
        /// Paired devices, and why each does not help.
        others: Vec<NoHelp>,
        /// Whether other devices were not to be asked.
        only_here: bool,
    },
    /// This device has only the ends of a model, and no other ones compute the rest.
    OnlyEnds {
        /// The model's name.
        model: String,
        /// Paired devices, and why each does not help.
        others: Vec<NoHelp>,
        /// Whether other devices were not to be asked.
        only_here: bool,
    },
    /// A device computed a part of the reply and is gone, and nobody else can.
    DeviceGone {
        /// Its name.
        device: String,
    },
    /// The program is being closed.
    Leaving,
    /// A part of the program has panicked without which it cannot go on.
    Stopped,
    /// Nobody answers at the address of a pairing.
    NobodyThere,
    /// The other device shows no code now.
    NoCodeShown,
    /// The code is not the one on the other screen.
    WrongCode,
    /// The connection broke in the middle of a pairing.
    PairingLost,
    /// What was typed is no address.
    NoAddress {
        /// What was typed.
        typed: String,
    },
    /// What was typed has a port, and no computer has that name.
    NameNotFound {
        /// What was typed.
        typed: String,
    },
    /// No paired device is called so.
    NoSuchDevice {
        /// What it was called.
        name: String,
    },
    /// A device has not said how it can be woken.
    MayNotWake {
        /// Its name.
        device: String,
    },
    /// A device cannot be woken from the network in which this one is.
    WakeOtherNetwork {
        /// Its name.
        device: String,
    },
    /// The system sends no packet that would wake a device.
    WakeRefused {
        /// Its name.
        device: String,
        /// Why.
        reason: Reason,
    },
    /// A device was called for long enough and did not come.
    NotWoken {
        /// Its name.
        device: String,
    },
    /// Devices of the house have different models of the name that was asked for.
    TwoModels {
        /// The first digits of one's digest.
        one: String,
        /// The first digits of another's.
        other: String,
    },
    /// A download does not go on.
    Download {
        /// What is wrong with it.
        trouble: DownloadTrouble,
    },
    /// The models do not move to another folder.
    ModelsFolder {
        /// Why.
        trouble: FolderTrouble,
    },
    /// A path that is no Unicode, which the window cannot hold.
    PathNoText {
        /// The path as it can be shown.
        path: String,
    },
    /// Only https links are opened.
    HttpsOnly,
    /// A path that does not start at the root of the disk.
    WholePath,
    /// What was typed is no pairing code.
    NotSixDigits,
    /// Both ends of a pairing are the same device, or one is a copy of the other.
    SameDevice,
    /// This device could not keep the one that it was paired with.
    NotKeptHere,
    /// The other device could not keep this one.
    NotKeptThere,
    /// The other device does not pair as Inglenook does.
    PairingOdd,
    /// No port could be opened for pairing.
    NoPairingPort,
    /// The program could not start.
    NotStarted {
        /// Why.
        reason: Reason,
    },
    /// Another program of this user holds the data folder.
    AlreadyRuns {
        /// The folder.
        folder: String,
    },
    /// There is no file where one was named.
    NoFile {
        /// What was named.
        file: String,
    },
    /// A file changed while it was checked.
    FileChanges {
        /// The file.
        file: String,
    },
    /// A file is no model that can be used.
    NoModel {
        /// The file.
        file: String,
        /// What is wrong with it, in English.
        reason: String,
    },
    /// A model of this name is here already.
    NameTaken {
        /// The name.
        name: String,
    },
    /// The file of a model is missing or damaged.
    ModelUnusable {
        /// The model's name.
        model: String,
    },
    /// What this device computes itself of a model is still on its way.
    EndsOnTheirWay {
        /// The model's name.
        model: String,
    },
    /// Nothing can be searched for with what was written.
    NoSearch,
    /// A file is no chat that was saved here.
    NoChat,
    /// It is too large for one.
    ChatTooLarge,
    /// A later version has saved it.
    ChatOfLaterVersion,
    /// The conversation was deleted meanwhile.
    ChatGone,
    /// The message was deleted meanwhile.
    MessageGone,
    /// No chat lies in the folder any more.
    FolderGone,
    /// The chats cannot be read or kept.
    ChatsUnusable {
        /// Why.
        reason: Reason,
    },
    /// The disk is full.
    DiskFull,
    /// The start at login cannot be changed.
    LoginStart {
        /// Why.
        reason: Reason,
    },
    /// No browser could be started.
    NoBrowser {
        /// Why.
        reason: Reason,
    },
    /// A file could not be saved.
    NotSaved {
        /// Why.
        reason: Reason,
    },
    /// Nothing answers at the address of the port.
    PortSilent,
    /// Another program answers there.
    PortForeign,
    /// Something is not well in the house, and so this cannot be done.
    Trouble {
        /// What. Boxed, so that errors which carry a wording stay small.
        trouble: Box<Trouble>,
    },
}
}

view! {
/// A device that does not help with a model.
#[derive(Eq)]
struct NoHelp {
    /// Its name.
    pub device: String,
    /// Why.
    pub why: WhyNoHelp,
}
}

view! {
/// Why a device does not help with a model that this one cannot hold.
#[derive(Copy, Eq)]
enum WhyNoHelp {
    /// It is not connected.
    Absent,
    /// Sharing is switched off there.
    NotSharing,
    /// Its trust level does not allow it.
    NotAllowed,
    /// It is pausing or leaving.
    Leaving,
    /// It does not have this model's file.
    OtherFile,
    /// It has no part of the model yet, and gets one by itself.
    LacksLayers,
    /// It refused a moment ago.
    Refused,
    /// It failed a moment ago.
    FailedLately,
    /// It computes the model wrongly.
    ComputesWrongly,
    /// What it lends is not enough.
    TooLittle,
}
}
