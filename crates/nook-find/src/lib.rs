//! Finding the other devices of the house: sightings in, advert out.
//!
//! [`Finder`] owns one background task. It browses through a [`Discovery`] (mDNS in the product,
//! [`Air`] in tests; in nodes that runs in a process of its own), keeps what it heard in a bounded table, and reports each change once as a
//! [`Sighting`]. The caller says what this device wants to be seen as with [`Finder::advertise`].
//!
//! One that is known and sleeps is called with [`wake()`].
//!
//! Everything heard is a *hint*: anybody on the network can say anything. A sighting is good for
//! one thing only, to know where to dial; who answers there is decided by the pinned key of the
//! link.
//!
//! # What an advert shows
//!
//! Service `_inglenook._tcp.local.`, the instance and the host are named by the [`Tag`], the port
//! is the SRV record's. TXT: `v` (protocol), `id` (the tag again), `pair` (port of an open pairing
//! window) and `name` (only a name that the user gave). The tag is the first ten bytes of the
//! device id: long enough that two devices of a house never share one by chance, too short to be
//! the id. It does not rotate: a paired device must be recognisable without a key exchange, and a
//! watcher on the same network can tell a machine by its hardware address anyway. Rotating it with
//! a secret of the pairing can follow without a change of format.

mod air;
mod discovery;
mod finder;
mod mdns;
mod neighbourhood;
mod own_advert;
mod process;
mod table;
mod tag;
mod txt;
mod waking;

pub use air::{Air, AirDiscovery};
pub use discovery::{Advertisement, Announcement, Discovery, FindError, Heard};
pub use finder::{Finder, FinderConfig, Health};
pub use mdns::{Interfaces, MdnsDiscovery, SERVICE_TYPE};
pub use neighbourhood::{Household, Neighbourhood, own_addresses};
pub use process::{DISCOVERY_FLAG, DiscoveryCommand, ProcessDiscovery, discovery_main};
pub use table::{ADDRESSES_MAX, SIGHTING_LIFE, SIGHTINGS_MAX, Sighting};
pub use tag::{ParseTagError, Tag};
pub use txt::{Hint, TXT_BYTES_MAX, TxtError};
pub use waking::{InterfaceKind, OwnInterfaces, WakeError, wake};
