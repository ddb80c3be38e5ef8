//! Model files from the network: what may be fetched, and fetching it whole.
//!
//! [`Catalogue`] is the short list that ships with the program. A [`Source`] is one file of a
//! server: an entry of the catalogue, `hf:owner/repository/file.gguf`, or an https address. A
//! [`Fetcher`] loads a source into a [`Folder`]: the bytes go into a `.partial` file beside a small
//! note of what the server said of the file, so a download that was stopped, cut off or killed goes
//! on where it was while the server still has the same file. What is whole is checked against the
//! digest that the catalogue pins or the server names, and only then has its name. One [`Slot`] is
//! one file's place in the folder, held by a lock of the operating system: two writers never meet.
//! A model in several files comes piece by piece and is joined into one, as its caller [says](Join).
//! A model that another device of the house has comes the same way, from whoever [brings](Bringer)
//! its bytes. A helper that needs only some layers takes only their [ranges](Fetcher::take_ranges)
//! into a [`SparseFile`]. A file that is no model, of which length and digest are known before, comes
//! as a [`FileOrder`].
//!
//! The node owns the downloads and decides which run; what a file *is* (whether it is a model that
//! this program understands) is `nook-model`'s knowledge. Nothing here writes outside of the
//! folder, and no name that came from a server or a person becomes a path: see [`FileKey`].

mod answer;
mod catalogue;
mod client;
mod copying;
mod error;
mod fetching;
mod files;
mod folder;
mod held;
mod house_source;
mod hub_search;
mod limits;
mod part;
mod piece_names;
mod pieces;
mod progress;
mod ranges;
mod redirects;
mod room;
mod run;
mod seam;
mod seats;
mod source;
mod sparse;
mod waiting;

pub use catalogue::{About, Catalogue, CatalogueEntry, CatalogueError, Costs};
pub use copying::{Bringer, CopyOrder, CopyWish, Halt};
pub use error::FetchError;
pub use fetching::{Fetched, Fetcher, Order, Pin};
pub use files::{Address, AddressError, FileOrder};
pub use folder::{FileKey, Folder, Slot};
pub use house_source::{HouseSource, HouseSourceError};
pub use hub_search::{
    FILES_MAX, Found, HubModel, REPOSITORIES_MAX, Repository, Search, SearchError, WORDS_MAX,
};
pub use limits::{
    DISK_RESERVE_BYTES, FILE_BYTES_MAX, HUBS_MAX, Limits, Pace, REDIRECTS_MAX, SYNC_EVERY_BYTES,
    URL_BYTES_MAX,
};
pub use piece_names::{PIECES_MAX, PieceName};
pub use progress::{Phase, Progress, Pulse};
pub use ranges::{
    Ask, Conditions, DocumentOrder, FileRange, RangeCheck, RangeRecord, RangeSource, RangesOrder,
};
pub use room::{Room, SystemRoom};
pub use seam::{Join, Joining, PieceData};
pub use seats::{Seat, Seats};
pub use source::{Hub, HubError, HubPlace, Hubs, PlaceError, Source, SourceError};
pub use sparse::SparseFile;
