//! Where the models lie, and moving them, as front ends show it.

use serde::{Deserialize, Serialize};

use super::{Problem, Reason};

view! {
/// The folder of this device's models.
struct ModelsFolderView {
    /// Where it is, as far as text can say it.
    pub path: String,
    /// Whether it is the one in the data folder, because none was chosen.
    pub usual: bool,
    /// Whether it is there now; its disk may not be plugged in.
    pub there: bool,
    /// Models that should be there and are not, by name.
    pub missing: Vec<String>,
    /// The move that is under way.
    pub moving: Option<MoveView>,
    /// Why the last move did not happen.
    pub problem: Option<Problem>,
}
}

view! {
/// Models on their way to another folder.
struct MoveView {
    /// Where they go.
    pub to: String,
    /// What is being done.
    pub state: MoveState,
    /// Bytes that are there.
    pub done_bytes: u64,
    /// Bytes that move; 0 while that is not known.
    pub bytes: u64,
}
}

view! {
/// What a move does.
#[derive(Copy, Eq)]
enum MoveState {
    /// Waits until no download writes.
    Waiting,
    /// Brings files over.
    Moving,
    /// Removes what was copied from the old place.
    Finishing,
}
}

view! {
/// Why models do not move.
#[derive(Eq)]
#[serde(tag = "why")]
enum FolderTrouble {
    /// A move is under way.
    UnderWay,
    /// Neither the folder nor the one that it would lie in is there.
    NotThere {
        /// The folder.
        folder: String,
    },
    /// A file, or something else that is no folder.
    NotAFolder {
        /// What was named.
        folder: String,
    },
    /// The models are there.
    AlreadyThere {
        /// The folder.
        folder: String,
    },
    /// It lies among the program's own files, or in the folder that moves.
    Inside {
        /// The folder.
        folder: String,
    },
    /// Another installation keeps its models there.
    OfAnother {
        /// The folder.
        folder: String,
    },
    /// A file of the same name lies there.
    InTheWay {
        /// The file.
        file: String,
    },
    /// Not enough room on the disk.
    NoRoom {
        /// Bytes that would move.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A file changed while it was copied.
    Changed {
        /// The file.
        file: String,
    },
    /// A file or folder that the system refuses.
    Refused {
        /// Which one.
        file: String,
        /// Why.
        reason: Reason,
    },
    /// The owner stopped it.
    Stopped,
}
}
