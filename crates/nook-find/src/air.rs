//! A network in memory: every [`AirDiscovery`] of one [`Air`] hears all the others.
//!
//! It behaves like mDNS in what matters to the finder: announcements repeat on every browse, a
//! device hears itself, goodbyes arrive at once, and a subscription whose reader is too slow is
//! closed. Announcements can also be made up with [`Air::say`], which is how a hostile network is
//! played.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::discovery::{Advertisement, Announcement, Discovery, FindError, Heard};
use crate::tag::Tag;
use crate::txt;

/// Messages that a listener may leave unread; a further one closes its subscription, as the mDNS
/// layer does.
const UNREAD_MAX: usize = 1000;

/// A network in memory. Clones are the same network.
#[derive(Debug, Clone, Default)]
pub struct Air {
    /// Guards who is announced and who listens; held only for the length of one call.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    announced: BTreeMap<String, Announcement>,
    listeners: Vec<mpsc::Sender<Heard>>,
}

/// One device's ear and mouth in an [`Air`].
#[derive(Debug)]
pub struct AirDiscovery {
    air: Air,
    addresses: Vec<IpAddr>,
    label: Option<String>,
}

impl Air {
    /// An empty network.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A device of this network that is reached under `addresses`.
    #[must_use]
    pub fn discovery(&self, addresses: impl Into<Vec<IpAddr>>) -> AirDiscovery {
        AirDiscovery { air: self.clone(), addresses: addresses.into(), label: None }
    }

    /// Lets everybody hear `heard`, whoever it claims to be from.
    pub fn say(&self, heard: &Heard) {
        self.with(|state| match heard {
            Heard::Announced(announcement) => state.announce(announcement.clone()),
            Heard::Withdrawn { label } => state.withdraw(label),
            Heard::Trouble { .. } => state.tell(heard),
        });
    }

    /// Closes every subscription, as an overflow in the mDNS layer does.
    pub fn close_subscriptions(&self) {
        self.with(|state| state.listeners.clear());
    }

    /// How many are listening.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.with(|state| {
            state.listeners.retain(|listener| !listener.is_closed());
            state.listeners.len()
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        // A poisoned lock is harmless here: no call leaves the maps half changed.
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn announce(&mut self, announcement: Announcement) {
        self.tell(&Heard::Announced(announcement.clone()));
        self.announced.insert(announcement.label.clone(), announcement);
    }

    fn withdraw(&mut self, label: &str) {
        if self.announced.remove(label).is_some() {
            self.tell(&Heard::Withdrawn { label: label.to_owned() });
        }
    }

    fn tell(&mut self, heard: &Heard) {
        self.listeners.retain(|listener| listener.try_send(heard.clone()).is_ok());
    }
}

impl Discovery for AirDiscovery {
    fn advertise(&mut self, tag: Tag, advertisement: &Advertisement) -> Result<(), FindError> {
        let label = tag.label();
        self.label = Some(label.clone());
        let announcement = Announcement {
            label,
            addresses: self
                .addresses
                .iter()
                .map(|ip| SocketAddr::new(*ip, advertisement.port))
                .collect(),
            txt: txt::properties(tag, advertisement)
                .into_iter()
                .map(|(key, value)| (key, value.into_bytes()))
                .collect(),
        };
        self.air.with(|state| state.announce(announcement));
        Ok(())
    }

    fn withdraw(&mut self) {
        if let Some(label) = self.label.take() {
            self.air.with(|state| state.withdraw(&label));
        }
    }

    fn browse(&mut self) -> Result<mpsc::Receiver<Heard>, FindError> {
        let (sender, receiver) = mpsc::channel(UNREAD_MAX);
        self.air.with(|state| {
            for announcement in state.announced.values().take(UNREAD_MAX) {
                // The channel is new and as large as what is sent, so it cannot be full.
                let _ = sender.try_send(Heard::Announced(announcement.clone()));
            }
            state.listeners.push(sender);
        });
        Ok(receiver)
    }

    fn leave(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.withdraw();
        Box::pin(std::future::ready(()))
    }
}

impl Drop for AirDiscovery {
    fn drop(&mut self) {
        self.withdraw();
    }
}
