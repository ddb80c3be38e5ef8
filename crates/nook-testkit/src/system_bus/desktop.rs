//! Somebody who plays a desktop that can be asked not to fall asleep.
//!
//! As the real ones do, it forgets whoever has left the bus.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use nook_base::tasks::Tasks;
use zbus::connection::Builder;
use zbus::message::Header;
use zbus::{Connection, fdo};

use super::Counted;

/// Of `org.gnome.SessionManager`: the session may not be suspended.
const SUSPEND: u32 = 4;

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Desktop {
    /// `org.gnome.SessionManager`.
    Gnome,
    /// `org.freedesktop.PowerManagement`.
    Plasma,
}

/// One that runs.
#[derive(Debug)]
pub(super) struct Played {
    holders: Holders,
    tasks: Tasks,
    bus: Connection,
}

/// Who has locks, and how many.
#[derive(Debug, Clone)]
struct Holders {
    // Guards a short map; never held across an await.
    held: Arc<Mutex<BTreeMap<String, u32>>>,
    locks: Counted,
}

struct Session(Holders);

struct Power(Holders);

impl Desktop {
    pub(super) async fn begin(self, address: &str, locks: Counted) -> anyhow::Result<Played> {
        let holders = Holders { held: Arc::default(), locks };
        let bus = Builder::address(address)?;
        let bus = match self {
            Self::Gnome => bus
                .serve_at("/org/gnome/SessionManager", Session(holders.clone()))?
                .name("org.gnome.SessionManager")?,
            Self::Plasma => bus
                .serve_at("/org/freedesktop/PowerManagement/Inhibit", Power(holders.clone()))?
                .name("org.freedesktop.PowerManagement")?,
        };
        let bus = bus.build().await?;
        let begun = Played { holders: holders.clone(), tasks: Tasks::new(), bus: bus.clone() };
        let mut owners = fdo::DBusProxy::new(&bus).await?.receive_name_owner_changed().await?;
        begun.tasks.spawn_until_cancelled("desktop", async move {
            while let Some(change) = owners.next().await {
                if let Ok(change) = change.args()
                    && change.new_owner().is_none()
                {
                    holders.forget(change.name().as_str());
                }
            }
        });
        Ok(begun)
    }
}

impl Played {
    /// Leaves the bus; its locks are void.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.tasks.cancel();
        let held = std::mem::take(&mut *self.holders.held());
        held.values().for_each(|count| self.holders.void(*count));
        Ok(self.bus.close().await?)
    }
}

impl Holders {
    fn give(&self, header: &Header<'_>) -> fdo::Result<u32> {
        let sender = header.sender().ok_or(fdo::Error::Failed("from nobody".to_owned()))?;
        *self.held().entry(sender.to_string()).or_default() += 1;
        self.locks.give();
        Ok(self.locks.now().given)
    }

    fn forget(&self, who: &str) {
        let left = self.held().remove(who);
        self.void(left.unwrap_or_default());
    }

    fn void(&self, count: u32) {
        (0..count).for_each(|_| self.locks.take_back());
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[zbus::interface(name = "org.gnome.SessionManager")]
impl Session {
    fn inhibit(
        &self,
        app_id: &str,
        _window: u32,
        _reason: &str,
        flags: u32,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<u32> {
        match (app_id, flags) {
            ("Inglenook", SUSPEND) => self.0.give(&header),
            _ => Err(fdo::Error::InvalidArgs(format!("{app_id} wants {flags}"))),
        }
    }
}

#[zbus::interface(name = "org.freedesktop.PowerManagement.Inhibit")]
impl Power {
    fn inhibit(
        &self,
        application: &str,
        _reason: &str,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<u32> {
        match application {
            "Inglenook" => self.0.give(&header),
            _ => Err(fdo::Error::InvalidArgs(format!("{application} asks"))),
        }
    }
}
