//! The pairing window of this device, and pairing with a device that shows a code.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use nook_api::views::{DeviceView, PairedByCodeView, PairingView, Wording};
use nook_api::{Answer, NodeError, PairTarget, sentence};
use nook_base::{ErrorCode, PeerId, Sensitive};
use nook_link::pairing::PairingEvent;
use nook_trust::pairing::PairingCode;

use super::shown::bad;
use super::{DeviceEffect, Devices, Join, Seen, Surroundings};

/// Longest wait for a name typed as an address to be resolved.
const RESOLVE_LIMIT: Duration = Duration::from_secs(5);

/// The open pairing window of this device.
#[derive(Debug)]
pub(crate) struct Window {
    /// Counts the windows of this start.
    pub(crate) number: u64,
    /// The digits, without spaces: how they are spaced is each front end's choice.
    pub(crate) code: Sensitive<String>,
    /// The port that it listens at.
    pub(crate) port: u16,
    /// Wrong codes that it still takes.
    pub(crate) tries_left: u8,
    /// Seconds since 1970.
    pub(crate) expires: u64,
}

impl Devices {
    /// The port of the pairing window, while one is open.
    pub(crate) fn pairing_port(&self) -> Option<u16> {
        self.window.as_ref().map(|window| window.port)
    }

    pub(crate) fn pairing_view(&self, around: &Surroundings<'_>) -> Option<PairingView> {
        let window = self.window.as_ref()?;
        let port = window.port;
        let mut addresses: Vec<_> =
            own_addresses().into_iter().map(|ip| SocketAddr::new(ip, port).to_string()).collect();
        if around.settings.network.loopback || addresses.is_empty() {
            addresses.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port).to_string());
        }
        Some(PairingView {
            code: window.code.0.clone(),
            addresses,
            expires: window.expires,
            tries_left: window.tries_left,
        })
    }

    /// Who typed the code of the last window that ended well.
    pub(crate) const fn paired_by_code(&self) -> Option<&PairedByCodeView> {
        self.paired_by_code.as_ref()
    }

    pub(super) fn window_opened(
        &mut self,
        window: Window,
        answer: Answer<PairingView>,
        around: &Surroundings<'_>,
    ) {
        self.window = Some(window);
        self.push(DeviceEffect::Announce);
        let view = self.pairing_view(around).ok_or_else(|| ErrorCode::RateLimited.into());
        self.push(DeviceEffect::AnswerCode(answer, view));
    }

    pub(super) fn close_window(&mut self) {
        self.window = None;
        self.push(DeviceEffect::CloseWindow);
        self.push(DeviceEffect::Announce);
    }

    /// Something happened at a pairing window.
    pub(super) fn on_window(&mut self, number: u64, event: &PairingEvent) {
        let Some(window) = self.window.as_mut().filter(|window| window.number == number) else {
            return;
        };
        match event {
            PairingEvent::WrongCode { tries_left } => window.tries_left = *tries_left,
            last => {
                if let PairingEvent::Paired { peer, .. } = last {
                    let before = self.paired_by_code.take().map_or(0, |paired| paired.times);
                    let device = peer.id.to_string();
                    self.paired_by_code =
                        Some(PairedByCodeView { device, times: before.saturating_add(1) });
                }
                tracing::info!(outcome = window_outcome(last), "the pairing window is closed");
                self.close_window();
            }
        }
    }

    /// Pairs with a device that shows a code; the answer comes when both sides have stored it.
    pub(super) fn join(
        &mut self,
        target: PairTarget,
        code: &Sensitive<String>,
        answer: Answer<DeviceView>,
    ) {
        match PairingCode::parse(code) {
            Ok(code) => {
                let addresses = self.pairing_addresses(&target);
                let join = Join { target, code, addresses, answer };
                self.push(DeviceEffect::Join(Box::new(join)));
            }
            Err(error) => {
                let refused = bad(sentence(&error.to_string())).worded(Wording::NotSixDigits);
                self.push(DeviceEffect::AnswerJoin(answer, refused));
            }
        }
    }

    /// Addresses of the pairing window of a device that was seen.
    fn pairing_addresses(&self, target: &PairTarget) -> Option<Vec<SocketAddr>> {
        let with_port = |seen: &Seen| {
            let port = seen.pairing_port?;
            Some(seen.addresses.iter().map(|at| SocketAddr::new(at.ip(), port)).collect())
        };
        match target {
            PairTarget::Seen(id) => {
                let (_, seen) = self.seen.iter().find(|(tag, _)| {
                    tag.to_string() == *id
                        || id.parse::<PeerId>().is_ok_and(|peer| tag.matches(&peer))
                })?;
                with_port(seen)
            }
            PairTarget::Address(text) => {
                let ip: IpAddr = text.trim().parse().ok()?;
                let at_ip = |seen: &&Seen| seen.addresses.iter().any(|at| at.ip() == ip);
                with_port(self.seen.values().find(at_ip)?)
            }
        }
    }
}

/// Resolves a typed address. The port is that of the pairing window, shown beside the code.
pub(crate) async fn resolve(target: &PairTarget) -> Result<Vec<SocketAddr>, NodeError> {
    let PairTarget::Address(text) = target else {
        return Err(NodeError::new(
            ErrorCode::NotFound,
            "That device does not show a code now. Show one there, or type its address.",
        )
        .worded(Wording::NoCodeShown));
    };
    let text = text.trim();
    let typed = text.to_owned();
    let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    if !has_port {
        return Err(bad(format!(
            "{text:?} is not an address with a port, as shown beside the code: 192.168.1.20:40123."
        ))
        .worded(Wording::NoAddress { typed }));
    }
    let found = tokio::time::timeout(RESOLVE_LIMIT, tokio::net::lookup_host(text)).await;
    match found.map(|found| found.map(Iterator::collect::<Vec<_>>)) {
        Ok(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
        _ => Err(bad(format!(
            "No computer was found under {text:?}. Type its address in numbers, as shown beside \
             the code: 192.168.1.20:40123."
        ))
        .worded(Wording::NameNotFound { typed })),
    }
}

fn window_outcome(event: &PairingEvent) -> &'static str {
    match event {
        PairingEvent::WrongCode { .. } => "wrong code",
        PairingEvent::Paired { .. } => "paired",
        PairingEvent::NotStored => "not stored",
        PairingEvent::Burnt => "three wrong codes",
        PairingEvent::Expired => "time over",
        PairingEvent::Cancelled => "cancelled",
    }
}

/// Addresses of this machine that another one of the household could reach, IPv4 first.
fn own_addresses() -> Vec<IpAddr> {
    let mut addresses = nook_find::own_addresses();
    addresses.sort();
    addresses
}
