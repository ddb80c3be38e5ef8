//! How a network is asked who is there, and told that we are.
//!
//! [`Discovery`] is the seam between the finder and a network. It hands over what was heard as it
//! was heard; limits, sanitising and the address policy are the finder's, so that they hold for
//! every implementation and are tested without a network.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::tag::Tag;

/// What this device wants to be seen as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advertisement {
    /// The main port that paired devices dial.
    pub port: u16,
    /// Protocol version spoken there.
    pub protocol: u16,
    /// The temporary port of a pairing window, only while one is open.
    pub pairing_port: Option<u16>,
    /// The name that the user gave this device; `None` when none was given, so that no user or host
    /// name is ever shown by default.
    pub name: Option<String>,
}

/// Another device's advert, as it came from the network: nothing in it is checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The instance's name without the service type.
    pub label: String,
    /// Where it says it can be dialled, with the port of its SRV record. What is known so far: a
    /// later announcement may have more, or others.
    pub addresses: Vec<SocketAddr>,
    /// Its TXT record.
    pub txt: Vec<(String, Vec<u8>)>,
}

/// One thing heard on the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Heard {
    /// An advert, new or repeated.
    Announced(Announcement),
    /// A goodbye, or an advert that ran out.
    Withdrawn {
        /// The instance's name without the service type.
        label: String,
    },
    /// The network layer had a problem on some interface. It goes on trying by itself.
    Trouble {
        /// The cause, for `nook doctor`.
        reason: String,
    },
}

/// A network that can be browsed and advertised on.
pub trait Discovery: Send + 'static {
    /// Makes `advertisement` the one that is seen under `tag`, replacing any earlier one.
    fn advertise(&mut self, tag: Tag, advertisement: &Advertisement) -> Result<(), FindError>;

    /// Says goodbye. Nothing happens when nothing is advertised.
    fn withdraw(&mut self);

    /// Starts listening, replacing an earlier browse; what is there already is announced again.
    ///
    /// The channel closes when the network layer gave the subscription up; the finder then browses
    /// anew.
    fn browse(&mut self) -> Result<mpsc::Receiver<Heard>, FindError>;

    /// Says goodbye and ends. The future is done when the goodbye is out.
    fn leave(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Discovery does not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum FindError {
    /// The mDNS layer could not be started.
    #[error("looking for other devices cannot start on this network: {reason}")]
    CannotStart {
        /// The cause.
        reason: String,
    },
    /// The browse was refused.
    #[error("looking for other devices failed: {reason}")]
    CannotBrowse {
        /// The cause.
        reason: String,
    },
    /// The advert was refused.
    #[error("this device cannot be announced to others: {reason}")]
    CannotAdvertise {
        /// The cause.
        reason: String,
    },
}
