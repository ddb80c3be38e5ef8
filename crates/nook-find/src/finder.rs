//! The finder: one task between a [`Discovery`] and the node.
//!
//! The task owns the discovery and the table. It reads what is heard, applies the TXT rules and the
//! address policy, and hands changes to the node through a bounded channel; when the node is slow,
//! changes wait in the table, merged per device. The handle [`Finder`] only leaves wishes (what to
//! advertise, who is paired), which the task takes up; nothing in it waits. Cancelling the tasks
//! says goodbye.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nook_base::tasks::Tasks;
use nook_base::{PeerId, clock};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::discovery::{Advertisement, Announcement, Discovery, FindError, Heard};
use crate::mdns::{Interfaces, MdnsDiscovery};
use crate::neighbourhood::{Household, Neighbourhood};
use crate::own_advert::{OwnAdvert, Standing};
use crate::process::{DiscoveryCommand, ProcessDiscovery};
use crate::table::{Sighting, Table};
use crate::tag::Tag;
use crate::txt;

/// Sightings that the node may leave unread; further ones wait in the table, the newest per device.
const SIGHTINGS_UNREAD_MAX: usize = 64;

/// "Reached" notes that may wait; a further one is lost, the next comes soon.
const REACHED_UNREAD_MAX: usize = 64;

/// How often expiry, own addresses and failed wishes are looked at.
const TICK: Duration = Duration::from_secs(1);

/// Ticks between two readings of this machine's interfaces.
const INTERFACES_EVERY_TICKS: u32 = 5;

/// A subscription that closed is renewed after this.
const REBROWSE_DELAY: Duration = Duration::from_secs(1);

/// A standing subscription is renewed this often. The network layer then repeats everybody it still
/// knows, which is what keeps quiet devices from running out of their 120 s here.
const CENSUS_INTERVAL: Duration = Duration::from_secs(40);

/// The same after this machine came into another network, for [`NEWS_LAST`]: the others there hear
/// of it at their own pace, and so does the network layer.
const NEWS_INTERVAL: Duration = Duration::from_secs(4);

/// How long after that it is looked more often.
const NEWS_LAST: Duration = Duration::from_secs(30);

/// Least time between two adverts: mDNS allows a record on the network once a second, and a change
/// that comes sooner would be swallowed. The newest wish is advertised when the time is over.
const ADVERTISE_INTERVAL: Duration = Duration::from_millis(1200);

/// Who this device is, and how it looks for others.
#[derive(Debug, Clone)]
pub struct FinderConfig {
    /// This device.
    pub me: PeerId,
    /// What it is seen as from the start; `None` looks without being seen.
    pub advertise: Option<Advertisement>,
    /// On which interfaces.
    pub interfaces: Interfaces,
    /// Whether other nodes live on this very machine.
    pub household: Household,
}

/// How well discovery works, for `nook doctor` and the devices page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Nothing can be said yet, or this device advertises nothing.
    Unknown,
    /// Multicast works: this device hears its own advert.
    Working,
    /// Sent, but this device's own advert never came back: a firewall, a missing permission or a
    /// network that forbids multicast. Known and typed addresses still work.
    OwnAdvertUnheard {
        /// The last problem that the network layer reported, if any.
        last_trouble: Option<String>,
    },
    /// Another machine advertises this very device: a copied data folder or disk, or somebody who
    /// only says so. Forgotten when nothing more is heard of it.
    TwinSeen,
    /// The network layer refuses to advertise or browse; it is asked again every second.
    Refused {
        /// Why.
        reason: String,
    },
}

/// The handle of a running finder. Dropping it does not end the task; cancelling the tasks does.
#[derive(Debug, Clone)]
pub struct Finder {
    wanted: watch::Sender<Option<Advertisement>>,
    paired: watch::Sender<HashSet<Tag>>,
    reached: mpsc::Sender<Tag>,
    health: watch::Receiver<Health>,
}

impl Finder {
    /// Starts looking by mDNS, in a process of its own.
    ///
    /// The receiver gets each change of each device; it closes when `tasks` is cancelled. A process
    /// that does not start is told of by [`Finder::health`], and tried again.
    #[must_use]
    pub fn start_apart(
        config: FinderConfig,
        command: DiscoveryCommand,
        tasks: &Tasks,
    ) -> (Self, mpsc::Receiver<Sighting>) {
        let discovery = ProcessDiscovery::new(command, config.interfaces, tasks);
        Self::launch(Box::new(discovery), None, config, tasks)
    }

    /// Starts looking by mDNS, in a thread of this process.
    ///
    /// The receiver gets each change of each device; it closes when `tasks` is cancelled.
    pub fn start(
        config: FinderConfig,
        tasks: &Tasks,
    ) -> Result<(Self, mpsc::Receiver<Sighting>), FindError> {
        let discovery = MdnsDiscovery::start(config.interfaces, tasks)?;
        Ok(Self::launch(Box::new(discovery), None, config, tasks))
    }

    /// Starts looking through `discovery`, from the given `neighbourhood` for good; with
    /// [`crate::Air`] this is a household without a network.
    pub fn start_with(
        discovery: impl Discovery,
        neighbourhood: Neighbourhood,
        config: FinderConfig,
        tasks: &Tasks,
    ) -> (Self, mpsc::Receiver<Sighting>) {
        Self::launch(Box::new(discovery), Some(neighbourhood), config, tasks)
    }

    fn launch(
        discovery: Box<dyn Discovery>,
        given: Option<Neighbourhood>,
        config: FinderConfig,
        tasks: &Tasks,
    ) -> (Self, mpsc::Receiver<Sighting>) {
        let (wanted, wanted_inbox) = watch::channel(config.advertise);
        let (paired, paired_inbox) = watch::channel(HashSet::new());
        let (reached, reached_inbox) = mpsc::channel(REACHED_UNREAD_MAX);
        let (health_outbox, health) = watch::channel(Health::Unknown);
        let (sightings, receiver) = mpsc::channel(SIGHTINGS_UNREAD_MAX);
        let looking = Looking {
            wanted: wanted_inbox,
            paired: paired_inbox,
            reached: reached_inbox,
            health: health_outbox,
            me: Tag::of(&config.me),
            discovery,
            reread: given.is_none().then_some(config.household),
            neighbourhood: given
                .unwrap_or_else(|| Neighbourhood::of_this_machine(config.household)),
            table: Table::default(),
            advertised: None,
            advertised_last: None,
            own: OwnAdvert::default(),
            last_trouble: None,
            moved_at: None,
        };
        tasks.spawn("finder", looking.run(sightings, tasks.token().clone()));
        let finder = Self { wanted, paired, reached, health };
        (finder, receiver)
    }

    /// Makes `advertisement` what others see, replacing the earlier one.
    pub fn advertise(&self, advertisement: Advertisement) {
        self.wanted.send_replace(Some(advertisement));
    }

    /// Says goodbye; looking goes on.
    pub fn withdraw(&self) {
        self.wanted.send_replace(None);
    }

    /// Says which devices are paired: they keep their place when the table is full.
    pub fn set_paired<'a>(&self, peers: impl IntoIterator<Item = &'a PeerId>) {
        self.paired.send_replace(peers.into_iter().map(Tag::of).collect());
    }

    /// Says that a link to `peer` stands, so that it stays seen while multicast is quiet.
    pub fn reached(&self, peer: &PeerId) {
        // A full queue loses the note: the next one comes with the next ping.
        let _ = self.reached.try_send(Tag::of(peer));
    }

    /// How well discovery works now; the receiver also tells of changes.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }
}

/// The state of the task.
struct Looking {
    // The inboxes and outboxes this task communicates over.
    wanted: watch::Receiver<Option<Advertisement>>,
    paired: watch::Receiver<HashSet<Tag>>,
    reached: mpsc::Receiver<Tag>,
    health: watch::Sender<Health>,

    me: Tag,
    discovery: Box<dyn Discovery>,
    neighbourhood: Neighbourhood,
    /// For whom the interfaces are read again from time to time; `None` when they were given.
    reread: Option<Household>,
    table: Table,
    /// What the discovery was last told, if it took it.
    advertised: Option<Advertisement>,
    advertised_last: Option<Instant>,
    own: OwnAdvert,
    last_trouble: Option<String>,
    /// When the addresses of this machine last changed.
    moved_at: Option<Instant>,
}

impl Looking {
    async fn run(mut self, sightings: mpsc::Sender<Sighting>, token: CancellationToken) {
        let mut ticker = tokio::time::interval(TICK);
        ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut ticks = 0_u32;
        let mut browse: Option<mpsc::Receiver<Heard>> = None;
        let mut browse_at = clock::now();
        self.table.set_paired(self.paired.borrow_and_update().clone());

        loop {
            if clock::now() >= browse_at {
                browse = self.browse();
                let wait = browse.as_ref().map_or(REBROWSE_DELAY, |_| self.census());
                browse_at = clock::now() + wait;
            }
            browse_at = browse_at.min(clock::now() + self.census());
            tokio::select! {
                biased;
                () = token.cancelled() => break,
                // A wish whose handle is gone stays as it is; the tick goes on.
                Ok(()) = self.wanted.changed() => self.follow_wish(),
                Ok(()) = self.paired.changed() => {
                    let paired = self.paired.borrow_and_update().clone();
                    self.table.set_paired(paired);
                }
                Some(tag) = self.reached.recv() => self.table.reached(clock::now(), tag),
                permit = sightings.reserve(), if self.table.has_changes() => match permit {
                    Ok(permit) => {
                        if let Some(sighting) = self.table.next_change() {
                            permit.send(sighting);
                        }
                    }
                    // Nobody reads any more.
                    Err(_) => break,
                },
                heard = next(&mut browse) => match heard {
                    Some(heard) => self.hear(heard),
                    None => {
                        tracing::debug!("the mDNS subscription closed, it is renewed");
                        browse = None;
                        browse_at = clock::now() + REBROWSE_DELAY;
                    }
                },
                _ = ticker.tick() => {
                    ticks = ticks.wrapping_add(1);
                    self.tick(ticks);
                }
            }
        }
        self.discovery.leave().await;
    }

    fn census(&self) -> Duration {
        let is_new = self.moved_at.is_some_and(|at| elapsed(at) < NEWS_LAST);
        if is_new { NEWS_INTERVAL } else { CENSUS_INTERVAL }
    }

    fn browse(&mut self) -> Option<mpsc::Receiver<Heard>> {
        match self.discovery.browse() {
            Ok(browse) => {
                if matches!(*self.health.borrow(), Health::Refused { .. }) {
                    self.health.send_replace(Health::Unknown);
                }
                Some(browse)
            }
            Err(error) => {
                self.note_refusal(&error);
                None
            }
        }
    }

    fn tick(&mut self, ticks: u32) {
        self.table.expire(clock::now());
        if let Some(household) = self.reread
            && ticks.is_multiple_of(INTERFACES_EVERY_TICKS)
        {
            let now = Neighbourhood::of_this_machine(household);
            if now != self.neighbourhood {
                self.neighbourhood = now;
                self.moved_at = Some(clock::now());
            }
        }
        self.follow_wish();
        self.judge();
    }

    /// Advertises what is wanted, unless that is done; a refusal is repeated at the next tick.
    fn follow_wish(&mut self) {
        let wanted = self.wanted.borrow_and_update().clone();
        if wanted == self.advertised {
            return;
        }
        match &wanted {
            None => self.discovery.withdraw(),
            Some(advertisement) => {
                if self.advertised_last.is_some_and(|last| elapsed(last) < ADVERTISE_INTERVAL) {
                    return; // The tick comes back to it.
                }
                if let Err(error) = self.discovery.advertise(self.me, advertisement) {
                    self.note_refusal(&error);
                    return;
                }
                self.advertised_last = Some(clock::now());
                self.own.sent(clock::now());
            }
        }
        if wanted.is_none() {
            self.own.withdrawn();
        }
        self.advertised = wanted;
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Announced(announcement) => self.hear_announcement(&announcement),
            Heard::Withdrawn { label } => {
                if let Ok(tag) = label.parse() {
                    self.table.remove(tag);
                }
            }
            Heard::Trouble { reason } => {
                tracing::debug!(reason, "mDNS trouble");
                self.last_trouble = Some(reason);
            }
        }
    }

    fn hear_announcement(&mut self, announcement: &Announcement) {
        let renamed = announcement
            .label
            .strip_prefix(&self.me.label())
            .is_some_and(|rest| rest.starts_with(" ("));
        if renamed {
            // mDNS renames the later of two devices that claim one name: a copy of this one.
            self.hear_own(announcement);
            return;
        }
        let hint = match txt::read(&announcement.label, &announcement.txt) {
            Ok(hint) => hint,
            Err(error) => {
                tracing::debug!(%error, "an advert was dropped");
                return;
            }
        };
        if hint.tag == self.me {
            self.hear_own(announcement);
            return;
        }
        let near: Vec<_> = announcement
            .addresses
            .iter()
            .filter(|address| self.neighbourhood.admits(address))
            .copied()
            .collect();
        self.table.hear(clock::now(), hint, &near);
    }

    fn hear_own(&mut self, announcement: &Announcement) {
        let mine = |address: &std::net::SocketAddr| self.neighbourhood.owns(address.ip());
        if announcement.addresses.is_empty() {
            return;
        }
        if announcement.addresses.iter().any(mine) {
            self.own.heard();
        } else {
            self.own.heard_of_another(clock::now());
        }
        self.judge();
    }

    fn judge(&self) {
        let standing = self.own.standing(clock::now());
        let verdict = match standing {
            Standing::Twin => Health::TwinSeen,
            Standing::Heard => Health::Working,
            Standing::Unheard => {
                Health::OwnAdvertUnheard { last_trouble: self.last_trouble.clone() }
            }
            // What else was known stays, but for what was heard too long ago.
            Standing::Unknown if *self.health.borrow() == Health::TwinSeen => Health::Unknown,
            Standing::Unknown => return,
        };
        self.report(verdict);
    }

    fn note_refusal(&self, error: &FindError) {
        tracing::debug!(%error, "discovery was refused");
        self.report(Health::Refused { reason: error.to_string() });
    }

    fn report(&self, verdict: Health) {
        self.health.send_if_modified(|health| {
            let changed = *health != verdict;
            *health = verdict;
            changed
        });
    }
}

fn elapsed(since: Instant) -> Duration {
    clock::now().saturating_duration_since(since)
}

async fn next(browse: &mut Option<mpsc::Receiver<Heard>>) -> Option<Heard> {
    match browse {
        Some(browse) => browse.recv().await,
        // The tick renews the subscription.
        None => std::future::pending().await,
    }
}
