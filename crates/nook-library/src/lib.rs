//! The models of this device: which are here, which are on their way, and where they lie.
//!
//! [`ModelLibrary`] is a state machine: [`ModelLibrary::on`] turns a [`LibraryEvent`] into
//! [`LibraryEffect`]s. It spawns no task and sends nothing; of the disk it reads and writes only
//! the short lists of `nook-store`, whose result decides what happens next. [`Runner`] carries out
//! the [`Job`]s: each runs in a task of its own and reports its end as an event.
//!
//! - `listing`: models join and leave the list.
//! - `fetching`, `endings`, `household_copies`: downloads, from servers or from other devices.
//! - `ends`: models of which this device keeps only what it computes itself.
//! - `parts`: layers of models that this device lacks, taken from other devices.
//! - `folder`, `folder_looks`: the folder of the models moves, or its disk is away.
//! - `catalogue`: which list of models is in use.
//! - `shown`, `household_shown`: what front ends are shown.

mod copies;
mod downloads;
mod elsewhere;
mod error;
mod events;
mod fits;
mod folder;
mod joining;
mod judging;
mod kept_ends;
mod machine;
mod on_disk;
mod part_failure;
mod part_job;
mod partial;
mod parts;
mod parts_here;
mod pieces;
mod reading;
mod rereading;
mod runner;
mod searching;
mod taking;
mod taking_parts;
mod troubles;

pub use copies::{Giver, Holder, Holders};
pub use downloads::RUNNING_MAX;
pub use error::OpenError;
pub use events::{Answered, Job, LibraryEffect, LibraryEvent, Surroundings, Transfer};
pub use fits::Fits;
pub use folder::{Brought, FolderSeen, MoveProgress, NotBrought};
pub use judging::Checked;
pub use kept_ends::{ENDS_IN_LAYERS, KeptEnds, layer_bytes_of};
pub use machine::ModelLibrary;
pub use on_disk::DownloadsLook;
pub use part_failure::PartFailure;
pub use part_job::{PartEnd, PartJob};
pub use partial::{PARTS_BYTES_MAX, PartialModel};
pub use parts::{PARTS_ASKED_MAX, PARTS_OF_ONE_MAX, PARTS_RUNNING_MAX, PartNotice, PartWish};
pub use pieces::{PieceCall, next_piece};
pub use rereading::{Reread, RereadJob};
pub use runner::Runner;
