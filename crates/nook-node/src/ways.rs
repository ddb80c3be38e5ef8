//! Which way each link goes: what carries it, how fast it is, and whether there is a better one.

use std::time::Duration;

use nook_api::views::{ByCableView, Condition, InterfaceKind, WayView};
use nook_base::PeerId;
use nook_find::{OwnInterfaces, Tag};
use nook_link::Link;
use nook_plan::{BytesPerSecond, Figure, RoundTrip};
use nook_requester::Event;
use nook_store::Peer;
use nook_wire::WayFigures;

use crate::state::State;

/// The way that a link goes now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WayNow {
    /// What carries it on this side.
    pub(crate) interface: InterfaceKind,
}

impl State {
    /// A link stands, or goes another way, which was measured before.
    pub(crate) fn way_taken(
        &mut self,
        link: &Link,
        found: Option<WayFigures>,
        interfaces: &OwnInterfaces,
    ) {
        let (peer, remote) = (link.peer(), link.remote());
        let interface = kind(interfaces.kind_of(link.local().ip()));
        let before = self.ways.insert(peer, WayNow { interface });
        match found {
            None => tracing::info!(?peer, %remote, over = words(interface), "connected"),
            Some(found) => {
                let over = words(interface);
                let from = before.map(|way| words(way.interface));
                let (ms, rate) = (ms(found.round_trip_us), megabytes(found.bytes_per_second));
                tracing::info!(
                    ?peer, %remote, over, from, round_trip_ms = ms, megabytes_per_second = rate,
                    "the connection goes a better way"
                );
            }
        }
        let ends = [link.local().ip().to_canonical(), remote.ip().to_canonical()];
        self.ask(Event::WayTaken(peer, ends, found.map(figures)));
    }

    /// The way to a device, for front ends.
    pub(crate) fn way_view(&self, link: &Link) -> Option<WayView> {
        let way = self.ways.get(&link.peer())?;
        let measured = self.requester.estimates().link(link.peer());
        Some(WayView {
            interface: way.interface,
            address: link.remote().to_string(),
            bytes_per_second: measured.bandwidth.measured().map(|rate| rate.0),
            by_cable: self.advice(link.peer()).filter(|_| way.interface != InterfaceKind::Cable),
        })
    }

    /// What the last reply would have gained with a device on a cable.
    fn advice(&self, peer: PeerId) -> Option<ByCableView> {
        let advice = self.requester.last_decision()?.by_cable.clone()?;
        (advice.device_id == peer.to_string()).then_some(advice)
    }

    /// Where a device that is linked over Wi-Fi could be reached over a cable.
    pub(crate) fn cable_unused(&self, peer: &Peer, link: &Link) -> Option<(String, Condition)> {
        let way = self.ways.get(&peer.id)?;
        if way.interface != InterfaceKind::Wifi {
            return None;
        }
        let interfaces = OwnInterfaces::read();
        // Where it was once says little: it may have no cable now.
        let seen = self.devices.seen().get(&Tag::of(&peer.id));
        let seen = seen.into_iter().flat_map(|seen| seen.addresses.iter().copied());
        let mut all = seen.chain([link.remote()]);
        let address = all.find(|at| interfaces.has_cable_to(*at))?.to_string();
        let device = peer.name.as_str().to_owned();
        let sentence = format!(
            "{device} is connected over Wi-Fi, although this computer has a cable to {address}. \
             Inglenook tries that way every ten minutes and takes it once it is faster. If it does \
             not: does the firewall on {device} allow Inglenook on that network?"
        );
        Some((sentence, Condition::CableUnused { device, address }))
    }
}

fn figures(found: WayFigures) -> nook_plan::Link {
    let mean = Duration::from_micros(found.round_trip_us.into());
    nook_plan::Link {
        // As with a first round trip of a reply (RFC 6298).
        round_trip: Figure::Measured(RoundTrip { mean, deviation: mean / 2 }),
        bandwidth: Figure::Measured(BytesPerSecond(found.bytes_per_second)),
    }
}

fn kind(found: nook_find::InterfaceKind) -> InterfaceKind {
    match found {
        nook_find::InterfaceKind::Cable => InterfaceKind::Cable,
        nook_find::InterfaceKind::Wifi => InterfaceKind::Wifi,
        nook_find::InterfaceKind::Other => InterfaceKind::Other,
        nook_find::InterfaceKind::Unknown => InterfaceKind::Unknown,
    }
}

/// For the log.
fn words(kind: InterfaceKind) -> &'static str {
    match kind {
        InterfaceKind::Cable => "cable",
        InterfaceKind::Wifi => "Wi-Fi",
        InterfaceKind::Other => "another interface",
        InterfaceKind::Unknown => "an unknown interface",
    }
}

fn ms(us: u32) -> f64 {
    f64::from(us) / 1e3
}

fn megabytes(bytes: u64) -> u64 {
    bytes / 1_000_000
}
