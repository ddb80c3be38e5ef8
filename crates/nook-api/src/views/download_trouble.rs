//! Why a download does not go on, for front ends that say it in the person's language.
//!
//! What servers and libraries said stays in their own words: a `reason` that is a text is English.

use serde::{Deserialize, Serialize};

use super::Reason;

view! {
/// What is wrong with a download.
#[derive(Eq)]
#[serde(tag = "why")]
enum DownloadTrouble {
    /// It tries again by itself.
    Retrying {
        /// What ended the last try.
        last: Reason,
    },
    /// No try brought anything new.
    GaveUp {
        /// The server.
        host: String,
        /// How many tries.
        tries: u32,
        /// What ended the last one.
        last: Reason,
    },
    /// Another process writes the same file.
    Busy {
        /// Which file.
        file: String,
    },
    /// The server has no such file.
    NotThere {
        /// The server.
        host: String,
    },
    /// The server did not answer a search.
    NoAnswer {
        /// The server.
        host: String,
        /// What went wrong.
        reason: Reason,
    },
    /// The server has no such repository, or shows it only to those it knows.
    NoRepository {
        /// The server.
        host: String,
    },
    /// What the server answered to a search is no list of models.
    NoList {
        /// The server.
        host: String,
    },
    /// The files of a model in several do not become one.
    NotJoined {
        /// Why.
        reason: String,
    },
    /// The server gives the file only to those it knows.
    NotForAll {
        /// The server.
        host: String,
    },
    /// The server answered with something that is no file.
    Unexpected {
        /// The server.
        host: String,
        /// Status of its answer.
        status: u16,
    },
    /// The server sent the download to where nothing is fetched from.
    Redirected {
        /// The server.
        host: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server cannot prove who it is.
    Untrusted {
        /// The server.
        host: String,
        /// What is wrong with its certificate.
        reason: Reason,
    },
    /// No secure connection can be made on this system.
    NoCertificates {
        /// Why.
        reason: String,
    },
    /// Larger than anything that is fetched.
    TooLarge {
        /// Length of the file.
        bytes: u64,
    },
    /// More came than the server had promised; it was deleted.
    TooLong {
        /// The server.
        host: String,
        /// What it had promised.
        bytes: u64,
    },
    /// The server has another file than the one that is meant.
    NotTheOne {
        /// The server.
        host: String,
    },
    /// The bytes are not those of a model file.
    NotGguf {
        /// The server.
        host: String,
    },
    /// The digest of what came is not the publisher's; it was deleted.
    Damaged,
    /// What came is no model that can be used here.
    NoModel {
        /// What is wrong with it.
        reason: String,
        /// Whether it was deleted, because nothing vouched for it.
        deleted: bool,
    },
    /// What a device of the house sent is not the model that was asked for; it was deleted.
    WrongCopy {
        /// The device; absent where it came in several parts.
        device: Option<String>,
    },
    /// No device of the house that has the model is here now; the copy goes on when one is back.
    NobodyHasIt,
    /// Not enough room on the disk.
    NoRoom {
        /// Bytes still to come.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// The disk became full on the way.
    DiskFull,
    /// The system refuses to write.
    NotWritten {
        /// Which file.
        file: String,
        /// The system's words.
        reason: Reason,
    },
    /// A task of this program was lost.
    Interrupted,
    /// Anything else.
    Ended {
        /// What it was.
        reason: Reason,
    },
}
}
