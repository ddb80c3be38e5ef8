//! What `nook doctor` and the problem page say.

use serde::{Deserialize, Serialize};

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Finding {
    /// How it stands.
    pub verdict: Verdict,
    /// What was looked at.
    pub subject: String,
    /// What was found and, where it is not well, what to do.
    pub sentence: String,
}

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Well,
    /// Worth knowing.
    Note,
    /// Needs the owner.
    Problem,
}

use nook_find::Health;
use nook_trust::Purpose;

use crate::present::find_problem;
use crate::state::State;

impl State {
    /// Looks at everything that usually goes wrong.
    pub(crate) fn examine(&self) -> Vec<Finding> {
        let mut findings = vec![
            finding(
                Verdict::Well,
                "identity",
                format!(
                    "{} ({}), key kept in {}",
                    self.me.name,
                    self.me.id.short(),
                    self.key_kept_in
                ),
            ),
            finding(
                Verdict::Well,
                "links",
                format!(
                    "listening on port {}, {} connected",
                    self.listen_port,
                    self.links.all().len()
                ),
            ),
            self.examine_discovery(),
            self.examine_port(),
        ];
        findings.extend(self.peers.list().iter().map(|peer| self.examine_peer(peer)));
        findings.push(finding(
            if self.catalogue.is_empty() { Verdict::Problem } else { Verdict::Well },
            "models",
            match self.catalogue.len() {
                0 => "none; import one with `nook models import FILE`".to_owned(),
                some => format!("{some} here"),
            },
        ));
        let other = self.workers.problems().borrow().clone();
        let other = other.into_iter().chain(self.problems.values().cloned());
        let other = other.chain(self.record_sentences(nook_base::clock::now()));
        findings.extend(other.map(|sentence| finding(Verdict::Problem, "trouble", sentence)));
        findings
    }

    /// Being found and being reachable are two things; this is the first.
    fn examine_discovery(&self) -> Finding {
        let Some(finder) = &self.finder else {
            let sentence = "devices cannot be looked for on this machine; typed addresses work";
            return finding(Verdict::Problem, "discovery", sentence.to_owned());
        };
        let health = finder.health().borrow().clone();
        match find_problem(&health) {
            Some(problem) => finding(Verdict::Problem, "discovery", problem),
            None if health == Health::Working => finding(
                Verdict::Well,
                "discovery",
                format!("multicast works, {} devices seen", self.seen.len()),
            ),
            None => finding(
                Verdict::Note,
                "discovery",
                "this device has not heard its own advert yet; look again in ten seconds"
                    .to_owned(),
            ),
        }
    }

    fn examine_port(&self) -> Finding {
        match (&self.port.problem, self.port.on) {
            (Some(problem), _) => finding(Verdict::Problem, "port", problem.clone()),
            (None, true) => finding(Verdict::Well, "port", self.port.base_url.clone()),
            (None, false) => finding(Verdict::Note, "port", "not open".to_owned()),
        }
    }

    fn examine_peer(&self, peer: &nook_store::Peer) -> Finding {
        let name = peer.name.as_str();
        let subject = "device";
        let Some(link) = self.links.link(peer.id) else {
            return finding(
                Verdict::Note,
                subject,
                format!(
                    "{name} does not answer. If it is on: is it on the same network, and does its \
                     firewall allow Inglenook?"
                ),
            );
        };
        let rtt = link.rtt().map_or_else(
            || "not measured yet".to_owned(),
            |rtt| format!("{:.1} ms", rtt.as_secs_f64() * 1e3),
        );
        let may = |purpose, yes: &str, no: &str| {
            if self.gate.admit(peer.id, purpose).is_ok() { yes.to_owned() } else { no.to_owned() }
        };
        let borrow = may(Purpose::Borrow, "may compute for this device", "may not compute for it");
        let lend = may(Purpose::Lend, "may use what is shared here", "may not use what is shared");
        finding(Verdict::Well, subject, format!("{name}: round trip {rtt}; it {borrow} and {lend}"))
    }
}

fn finding(verdict: Verdict, subject: &str, sentence: String) -> Finding {
    Finding { verdict, subject: subject.to_owned(), sentence }
}
