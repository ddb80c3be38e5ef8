//! Looks at everything that usually goes wrong, for `nook doctor` and the problem page.

use nook_api::doctor::{Finding, Verdict};
use nook_find::Health;
use nook_trust::Purpose;

use crate::present::find_trouble;
use crate::state::State;
use nook_api::views::{Condition, TroubleView};

/// With less room even chats and settings may not be saved.
const DISK_FULL_BYTES: u64 = 500_000_000;

/// With less room most models of the catalogue cannot be downloaded.
const DISK_LOW_BYTES: u64 = 5_000_000_000;

impl State {
    /// Looks at everything that usually goes wrong, but for GPUs.
    pub(crate) fn examine(&self) -> Vec<Finding> {
        let mut findings = vec![
            self.examine_identity(),
            self.examine_links(),
            self.examine_discovery(),
            self.examine_port(),
        ];
        for peer in self.devices.peers().list() {
            findings.push(self.examine_peer(peer));
            findings.extend(self.examine_way(peer));
        }
        findings.push(self.examine_models());
        findings.extend(self.examine_disk());
        findings.push(self.examine_computing());
        let other = self.workers.problems().borrow().clone();
        let other = other.into_iter().chain(self.problems.values().flatten().cloned());
        let other = other.chain(self.record_troubles());
        findings.extend(other.map(|other| trouble("trouble", other)));
        findings
    }

    fn examine_identity(&self) -> Finding {
        let (name, short_id, key) =
            (self.me.name.clone(), self.me.id.short(), self.key_place.clone());
        let sentence = format!("{name} ({short_id}), key kept in {}", key.words());
        let condition = Condition::Identity { name, short_id, key };
        finding(Verdict::Well, "identity", sentence, condition)
    }

    fn examine_links(&self) -> Finding {
        let (port, connected) = (self.listen_port, count(self.links.all().len()));
        let sentence = format!("listening on port {port}, {connected} connected");
        finding(Verdict::Well, "links", sentence, Condition::Listening { port, connected })
    }

    /// Being found and being reachable are two things; this is the first.
    fn examine_discovery(&self) -> Finding {
        let subject = "discovery";
        let Some(finder) = &self.finder else {
            let sentence = "devices cannot be looked for on this machine; typed addresses work";
            return finding(Verdict::Problem, subject, sentence, Condition::DiscoveryAbsent);
        };
        let health = finder.health().borrow().clone();
        match find_trouble(&health) {
            Some(found) => trouble(subject, found),
            None if health == Health::Working => {
                let seen = count(self.devices.seen().len());
                let sentence = format!("multicast works, {seen} devices seen");
                finding(Verdict::Well, subject, sentence, Condition::DiscoveryWorks { seen })
            }
            None => finding(
                Verdict::Note,
                subject,
                "this device has not heard its own advert yet; look again in ten seconds",
                Condition::DiscoveryUncertain,
            ),
        }
    }

    fn examine_port(&self) -> Finding {
        let subject = "port";
        match (&self.port.problem, self.port.on) {
            (Some(problem), _) => trouble(subject, problem.clone()),
            (None, true) => {
                let base_url = self.port.base_url.clone();
                let condition = Condition::PortOpen { base_url: base_url.clone() };
                finding(Verdict::Well, subject, base_url, condition)
            }
            (None, false) => finding(Verdict::Note, subject, "not open", Condition::PortClosed),
        }
    }

    fn examine_peer(&self, peer: &nook_store::Peer) -> Finding {
        let device = peer.name.as_str().to_owned();
        let subject = "device";
        let Some(link) = self.links.link(peer.id) else {
            let sentence = format!(
                "{device} does not answer. If it is on: is it on the same network, and does its \
                 firewall allow Inglenook?"
            );
            return finding(Verdict::Note, subject, sentence, Condition::DeviceAway { device });
        };
        let round_trip_ms = link.rtt().map(|rtt| rtt.as_secs_f64() * 1e3);
        let rtt =
            round_trip_ms.map_or_else(|| "not measured yet".to_owned(), |ms| format!("{ms:.1} ms"));
        let may = |purpose| self.devices.gate().check(peer.id, purpose).is_ok();
        let (may_compute, may_use) = (may(Purpose::Borrow), may(Purpose::Lend));
        let borrow =
            if may_compute { "may compute for this device" } else { "may not compute for it" };
        let lend =
            if may_use { "may use what is shared here" } else { "may not use what is shared" };
        let sentence = format!("{device}: round trip {rtt}; it {borrow} and {lend}");
        let condition = Condition::DeviceConnected { device, round_trip_ms, may_compute, may_use };
        finding(Verdict::Well, subject, sentence, condition)
    }

    /// A device that is linked over Wi-Fi beside a cable.
    fn examine_way(&self, peer: &nook_store::Peer) -> Option<Finding> {
        let link = self.links.link(peer.id)?;
        let (sentence, condition) = self.cable_unused(peer, &link)?;
        Some(finding(Verdict::Note, "device", sentence, condition))
    }

    /// Chats are written to the same disk as models.
    fn examine_disk(&self) -> Option<Finding> {
        let free_bytes = self.library.disk_free()?;
        Some(disk_room(free_bytes))
    }

    fn examine_models(&self) -> Finding {
        let count = count(self.library.entries().len());
        let (verdict, sentence) = match count {
            0 => (Verdict::Problem, "none; import one with `nook models import FILE`".to_owned()),
            some => (Verdict::Well, format!("{some} here")),
        };
        finding(verdict, "models", sentence, Condition::Models { count })
    }
}

fn disk_room(free_bytes: u64) -> Finding {
    let free = format!("{:.1} GB are free", free_bytes as f64 / 1e9);
    let (verdict, sentence) = match free_bytes {
        0..DISK_FULL_BYTES => (
            Verdict::Problem,
            format!("{free}: chats may not be kept. Remove models or other files"),
        ),
        DISK_FULL_BYTES..DISK_LOW_BYTES => {
            (Verdict::Note, format!("{free}, too little for most models"))
        }
        _ => (Verdict::Well, free),
    };
    finding(verdict, "disk", sentence, Condition::DiskRoom { free_bytes })
}

pub(crate) fn finding(
    verdict: Verdict,
    subject: &str,
    sentence: impl Into<String>,
    condition: Condition,
) -> Finding {
    let (subject, sentence) = (subject.to_owned(), sentence.into());
    Finding { verdict, subject, sentence, condition: Some(condition) }
}

fn trouble(subject: &str, TroubleView { sentence, trouble }: TroubleView) -> Finding {
    let condition = trouble.map(|trouble| Condition::Trouble { trouble });
    Finding { verdict: Verdict::Problem, subject: subject.to_owned(), sentence, condition }
}

fn count(things: usize) -> u32 {
    u32::try_from(things).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_nearly_full_is_told_before_it_is_full() {
        for (free, verdict, said) in [
            (120_000_000_000, Verdict::Well, "120.0 GB are free"),
            (DISK_LOW_BYTES, Verdict::Well, "5.0 GB are free"),
            (DISK_LOW_BYTES - 1, Verdict::Note, "too little for most models"),
            (DISK_FULL_BYTES - 1, Verdict::Problem, "Remove models"),
            (0, Verdict::Problem, "0.0 GB are free"),
        ] {
            let found = disk_room(free);
            assert_eq!(found.verdict, verdict, "{free}");
            assert!(found.sentence.contains(said), "{}", found.sentence);
            assert_eq!(found.condition, Some(Condition::DiskRoom { free_bytes: free }));
        }
    }
}
