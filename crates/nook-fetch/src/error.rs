//! Why a file did not come. Each sentence names the thing and says what to do.

use std::path::PathBuf;

/// A download that ended without its file. What was loaded stays unless it says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Somebody asked for the end.
    #[error("the download was stopped; what was loaded is kept")]
    Stopped,
    /// Another program, or another copy of this one, writes the same file.
    #[error("{file} is being downloaded by another process already; wait for it, or end that one")]
    Busy {
        /// Which file.
        file: String,
    },
    /// The server has no such file.
    #[error("{host} has no such file (status {status}); check the address, it may have moved")]
    NotThere {
        /// The server.
        host: String,
        /// What it answered.
        status: u16,
    },
    /// The server wants to know who asks.
    #[error(
        "{host} does not give this file to everybody (status {status}): download it there with your account, then import the file"
    )]
    Refused {
        /// The server.
        host: String,
        /// What it answered.
        status: u16,
    },
    /// The server answered with something that is no file.
    #[error("{host} answered with status {status}; try again later, or with another address")]
    Unexpected {
        /// The server.
        host: String,
        /// What it answered.
        status: u16,
    },
    /// No try brought anything new.
    #[error(
        "{host}: {tries} tries brought nothing new, the last ended so: {last}. What was loaded is kept; resume when the network is well"
    )]
    GaveUp {
        /// The server.
        host: String,
        /// How many.
        tries: u32,
        /// What ended the last one.
        last: String,
    },
    /// A redirect to where nothing is fetched from.
    #[error("{host} sent the download elsewhere: {why}")]
    Redirect {
        /// The server.
        host: String,
        /// What is wrong with it.
        why: String,
    },
    /// Larger than anything that is fetched.
    #[error("the file has at least {bytes} bytes; at most {most} are downloaded")]
    TooLarge {
        /// What the server says, or what had come when its file was given up.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// The bytes are not those of a model file.
    #[error(
        "what {host} sent is no GGUF file; a network that wants a log-in in the browser first answers like this"
    )]
    NotGguf {
        /// The server.
        host: String,
    },
    /// The server has another file than the catalogue pins, or than a server says that comes before
    /// it.
    #[error(
        "{host} has another file under this name than the one that is meant ({found} instead of {expected}); nothing was taken from there"
    )]
    NotTheOne {
        /// The server.
        host: String,
        /// What it should be.
        expected: String,
        /// What the server names.
        found: String,
    },
    /// The whole file is not what it should be. It is deleted.
    #[error(
        "the file that came is damaged: its SHA-256 is {found}, the publisher's is {expected}. It was deleted; download it again"
    )]
    Digest {
        /// The publisher's digest, hexadecimal.
        expected: String,
        /// That of the bytes, hexadecimal.
        found: String,
    },
    /// The server sent more than it had said. What came is deleted.
    #[error("{host} sent more than the {bytes} bytes that it had promised; what came was deleted")]
    TooLong {
        /// The server.
        host: String,
        /// The promise.
        bytes: u64,
    },
    /// Not enough room, seen before the start or on the way.
    #[error(
        "the disk has not enough room: the download needs {needed} bytes more and leaves {} free, {free} are free now. Delete a model or other files, then resume",
        crate::DISK_RESERVE_BYTES
    )]
    NoRoom {
        /// Bytes still to come; of a file of unknown length, those until the next look.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// The disk became full, or the system refuses to write.
    #[error("{} cannot be written: {reason}. What was loaded is kept{}", file.display(), if *full { "; free some disk space, then resume" } else { "; check that the folder can be written, then resume" })]
    Disk {
        /// Which file.
        file: PathBuf,
        /// The system's words.
        reason: String,
        /// Whether the disk is full.
        full: bool,
    },
    /// The server is not who it says.
    #[error(
        "{host} cannot prove who it is: {reason}. Check this computer's clock, and whether the network wants a log-in in the browser first"
    )]
    Untrusted {
        /// The server.
        host: String,
        /// What is wrong with its certificate.
        reason: String,
    },
    /// The client for secure connections could not be made.
    #[error(
        "secure connections cannot be made on this system: {reason}. Install the system's certificates (package ca-certificates)"
    )]
    Certificates {
        /// Why.
        reason: String,
    },
    /// Several servers were asked, and none gave the file.
    #[error("{} servers were asked and none gave the file. {}", errors.len(), listed(errors))]
    Nowhere {
        /// What each of them came to, in order.
        errors: Vec<Self>,
    },
    /// A copy from the house that nobody can go on with now.
    #[error(
        "no device of the house that has this model is here now; what was copied is kept, and the copy goes on when one is back"
    )]
    Nobody,
    /// More than the caller lets it take.
    #[error("{needed} bytes more are needed, and {most} may be used for this")]
    OverCap {
        /// Bytes still to come.
        needed: u64,
        /// Bytes that may come.
        most: u64,
    },
    /// A device sent something else than what was asked for, and no other one is left.
    #[error(
        "what {device} sent is not what was asked for, and no other device that has it is here"
    )]
    WrongBytes {
        /// The device, for people.
        device: String,
    },
    /// The hub has no such repository, or shows it to nobody without an account.
    #[error(
        "{host} shows no such repository (status {status}); check how it is written, or look at it there with your account"
    )]
    NoRepository {
        /// The server.
        host: String,
        /// What it answered.
        status: u16,
    },
    /// The answer to a search is none.
    #[error(
        "what {host} answered is no list of models; try again later, or look there in a browser"
    )]
    Strange {
        /// The server.
        host: String,
    },
    /// The files of a model in several do not make one.
    #[error(
        "the files of this model cannot be joined: {reason}. Delete the download, and take the model from somebody else"
    )]
    Pieces {
        /// Why.
        reason: String,
    },
    /// A task of this program was lost.
    #[error("the download was interrupted inside this program; resume it")]
    Lost,
}

impl FetchError {
    /// Whether another server may do better.
    pub(crate) fn is_of_the_server(&self) -> bool {
        match self {
            Self::NotThere { .. }
            | Self::Refused { .. }
            | Self::Unexpected { .. }
            | Self::GaveUp { .. }
            | Self::Redirect { .. }
            | Self::TooLarge { .. }
            | Self::NotGguf { .. }
            | Self::NotTheOne { .. }
            | Self::Digest { .. }
            | Self::TooLong { .. }
            | Self::NoRepository { .. }
            | Self::Strange { .. }
            | Self::Untrusted { .. } => true,
            Self::Stopped
            | Self::Busy { .. }
            | Self::NoRoom { .. }
            | Self::Disk { .. }
            | Self::Certificates { .. }
            | Self::Nowhere { .. }
            | Self::Nobody
            | Self::OverCap { .. }
            | Self::WrongBytes { .. }
            | Self::Pieces { .. }
            | Self::Lost => false,
        }
    }

    /// What the system says of `file`.
    #[must_use]
    pub fn disk(file: &std::path::Path, error: &std::io::Error) -> Self {
        let full = matches!(
            error.kind(),
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
        );
        Self::Disk { file: file.to_owned(), reason: error.to_string(), full }
    }
}

fn listed(errors: &[FetchError]) -> String {
    let sentences: Vec<String> = errors.iter().map(ToString::to_string).collect();
    sentences.join("; ")
}
