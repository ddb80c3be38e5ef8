//! Discovery by multicast DNS, through the crate `mdns-sd`.
//!
//! Owns the daemon thread of that crate. Each browse has a small task that carries events from the
//! daemon's channel to the finder's; it ends when either side is gone. What is known to go wrong
//! there is handled here: a resolved service is announced in several pieces (all are passed on),
//! the daemon silently closes a subscription that is read too slowly (the channel to the finder
//! closes too, and the finder browses anew), and a record that returns to an earlier content is not
//! noticed by caches that still hold that content (each advert carries a revision, so that no two
//! are alike). The daemon's cache has no cap, and keeps for ever what belongs to no instance: nodes
//! let it run in a process of its own, see [`crate::process`].

use std::fmt;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::pin::Pin;
use std::time::Duration;

use mdns_sd::{
    DaemonEvent, IfKind, ResolvedService, ScopedIp, ServiceDaemon, ServiceEvent, ServiceInfo,
};
use nook_base::clock;
use nook_base::tasks::Tasks;
use tokio::sync::mpsc;

use crate::discovery::{Advertisement, Announcement, Discovery, FindError, Heard};
use crate::tag::Tag;
use crate::txt;

/// The DNS-SD service type of Inglenook.
pub const SERVICE_TYPE: &str = "_inglenook._tcp.local.";

/// Events between the daemon and the finder; when full, the carrying task waits, and the daemon
/// closes the subscription in the end.
const EVENTS_MAX: usize = 256;

/// Most addresses taken over from one announcement; the finder keeps fewer.
const RAW_ADDRESSES_MAX: usize = 32;

/// How long leaving waits for the goodbye to be on the network.
const GOODBYE_LIMIT: Duration = Duration::from_millis(500);

/// TXT key of the revision; nobody reads it.
const KEY_REVISION: &str = "n";

/// On which network interfaces devices are looked for and told of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interfaces {
    /// All of them, loopback too.
    All,
    /// Loopback only: a household on one machine that is nobody else's business.
    Loopback,
}

/// Discovery by multicast DNS.
pub struct MdnsDiscovery {
    daemon: ServiceDaemon,
    interfaces: Interfaces,
    tasks: Tasks,
    advertised: Option<Tag>,
    /// Goes up with each advert; starts at the wall clock, so that a restart does not repeat one.
    revision: u64,
}

impl MdnsDiscovery {
    /// Starts the daemon thread. Its sockets are opened later by that thread: a machine that
    /// forbids multicast is noticed by silence, see [`crate::Health`].
    pub fn start(interfaces: Interfaces, tasks: &Tasks) -> Result<Self, FindError> {
        let daemon = start_daemon(interfaces)?;
        let (tasks, revision) = (tasks.clone(), clock::unix_seconds());
        Ok(Self { daemon, interfaces, tasks, advertised: None, revision })
    }

    /// The daemon itself, to be asked what it holds.
    pub(crate) fn daemon(&self) -> ServiceDaemon {
        self.daemon.clone()
    }
}

impl fmt::Debug for MdnsDiscovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MdnsDiscovery")
            .field("interfaces", &self.interfaces)
            .field("advertised", &self.advertised)
            .finish_non_exhaustive()
    }
}

impl Discovery for MdnsDiscovery {
    fn advertise(&mut self, tag: Tag, advertisement: &Advertisement) -> Result<(), FindError> {
        let refused =
            |error: mdns_sd::Error| FindError::CannotAdvertise { reason: error.to_string() };
        self.advertised = Some(tag);
        let label = tag.label();
        let mut properties = txt::properties(tag, advertisement);
        self.revision = self.revision.wrapping_add(1);
        properties.push((KEY_REVISION.to_owned(), self.revision.to_string()));
        // The host name is the tag too: the machine's own name stays private, and several nodes on
        // one machine do not contend for it.
        let info = ServiceInfo::new(
            SERVICE_TYPE,
            &label,
            &format!("{label}.local."),
            (),
            advertisement.port,
            properties.as_slice(),
        )
        .map_err(refused)?
        .enable_addr_auto();
        self.daemon.register(info).map_err(refused)
    }

    fn withdraw(&mut self) {
        if let Some(tag) = self.advertised.take() {
            let fullname = format!("{}.{SERVICE_TYPE}", tag.label());
            if let Err(error) = self.daemon.unregister(&fullname) {
                tracing::debug!(%error, "the goodbye could not be sent");
            }
        }
    }

    fn browse(&mut self) -> Result<mpsc::Receiver<Heard>, FindError> {
        let refused = |error: mdns_sd::Error| FindError::CannotBrowse { reason: error.to_string() };
        let (sender, receiver) = mpsc::channel(EVENTS_MAX);
        let events = self.daemon.browse(SERVICE_TYPE).map_err(refused)?;
        let notes = self.daemon.monitor().map_err(refused)?;
        self.tasks.spawn_until_cancelled("mdns events", carry(events, notes, sender));
        Ok(receiver)
    }

    fn leave(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.withdraw();
        let ended = self.daemon.shutdown();
        Box::pin(async move {
            if let Ok(ended) = ended {
                // Past the limit the goodbye is lost, and the others notice by silence.
                let _ = tokio::time::timeout(GOODBYE_LIMIT, ended.recv_async()).await;
            }
        })
    }
}

impl Drop for MdnsDiscovery {
    fn drop(&mut self) {
        // The thread lives until it is told; a second telling is refused and harmless.
        let _ = self.daemon.shutdown();
    }
}

fn start_daemon(interfaces: Interfaces) -> Result<ServiceDaemon, FindError> {
    let failed = |error: mdns_sd::Error| FindError::CannotStart { reason: error.to_string() };
    let daemon = ServiceDaemon::new().map_err(failed)?;
    if interfaces == Interfaces::Loopback {
        daemon.disable_interface(IfKind::All).map_err(failed)?;
        daemon.enable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6]).map_err(failed)?;
    }
    Ok(daemon)
}

/// Carries what the daemon heard to the finder until either side is gone.
async fn carry(
    events: mdns_sd::Receiver<ServiceEvent>,
    notes: mdns_sd::Receiver<DaemonEvent>,
    finder: mpsc::Sender<Heard>,
) {
    loop {
        let heard = tokio::select! {
            biased;
            () = finder.closed() => return,
            event = events.recv_async() => match event {
                Ok(ServiceEvent::SearchStopped(_)) | Err(_) => return,
                Ok(event) => heard(event),
            },
            note = notes.recv_async() => match note {
                Ok(DaemonEvent::Error(error)) => Some(Heard::Trouble { reason: error.to_string() }),
                Ok(_) => None,
                Err(_) => return,
            },
        };
        if let Some(heard) = heard
            && finder.send(heard).await.is_err()
        {
            return;
        }
    }
}

fn heard(event: ServiceEvent) -> Option<Heard> {
    match event {
        ServiceEvent::ServiceResolved(service) => Some(Heard::Announced(announcement(&service)?)),
        ServiceEvent::ServiceRemoved(_, fullname) => {
            Some(Heard::Withdrawn { label: label(&fullname)? })
        }
        _ => None,
    }
}

fn announcement(service: &ResolvedService) -> Option<Announcement> {
    Some(Announcement {
        label: label(&service.fullname)?,
        addresses: service
            .addresses
            .iter()
            .take(RAW_ADDRESSES_MAX)
            .map(|ip| with_port(ip, service.port))
            .collect(),
        txt: service
            .txt_properties
            .iter()
            .map(|property| {
                let value = property.val().unwrap_or_default().to_vec();
                (property.key().to_owned(), value)
            })
            .collect(),
    })
}

/// `abc._inglenook._tcp.local.` -> `abc`; names compare without case.
fn label(fullname: &str) -> Option<String> {
    let lower = fullname.to_ascii_lowercase();
    let label = lower.strip_suffix(SERVICE_TYPE)?.strip_suffix('.')?;
    Some(label.to_owned())
}

fn with_port(ip: &ScopedIp, port: u16) -> SocketAddr {
    match ip {
        ScopedIp::V4(v4) => SocketAddr::V4(SocketAddrV4::new(*v4.addr(), port)),
        ScopedIp::V6(v6) => {
            let scope = if v6.addr().is_unicast_link_local() { v6.scope_id().index } else { 0 };
            SocketAddr::V6(SocketAddrV6::new(*v6.addr(), port, 0, scope))
        }
        // A kind of address that does not exist yet; the policy drops the unspecified one.
        _ => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
    }
}
