//! `nook devices log`: what other devices asked of this one.

use nook_api::NodeCalls as _;
use nook_api::views::{AuditAsked, AuditEntryView, AuditOutcome, AuditWhy};
use nook_base::clock;
use nook_control::Client;

use crate::output;

/// Prints the list, or has it forgotten.
pub(crate) async fn log(client: &Client, clear: bool, json: bool) -> anyhow::Result<()> {
    if clear {
        client.clear_audit().await?;
    }
    let entries = client.audit().await?;
    if json {
        output::json(&entries);
        return Ok(());
    }
    if entries.is_empty() {
        output::line("No other device has asked anything of this one.");
        return Ok(());
    }
    let now = clock::unix_seconds();
    let rows: Vec<_> = entries.iter().map(|entry| row(entry, now)).collect();
    output::table(&["WHEN", "WHO", "ASKED FOR", "WHAT CAME OF IT"], &rows);
    Ok(())
}

fn row(entry: &AuditEntryView, now: u64) -> Vec<String> {
    vec![ago(now.saturating_sub(entry.last)), who(entry), asked(entry), outcome(entry)]
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s ago"),
        120..=7_199 => format!("{} min ago", seconds / 60),
        7_200..=172_799 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

fn who(entry: &AuditEntryView) -> String {
    match (&entry.device_id, &entry.device, &entry.from) {
        (Some(id), name, _) => {
            let short: String = id.chars().filter(|c| *c != '-').take(8).collect();
            format!("{} ({short})", name.as_deref().unwrap_or_default())
        }
        (None, Some(claims), from) => {
            let from = from.as_deref().unwrap_or("many addresses");
            format!("{from}, which says to be {claims}")
        }
        (None, None, Some(from)) => from.clone(),
        (None, None, None) => "many addresses".to_owned(),
    }
}

fn asked(entry: &AuditEntryView) -> String {
    let model = entry.model.as_deref().unwrap_or("a model");
    let layers = match entry.layers {
        Some([first, last]) if first == last => format!("layer {first} of {model}"),
        Some([first, last]) => format!("layers {first}-{last} of {model}"),
        None => model.to_owned(),
    };
    match entry.asked {
        AuditAsked::Compute => format!("compute {layers}"),
        AuditAsked::Whole => format!("a whole reply by {model}"),
        AuditAsked::Hold => format!("hold {layers} in memory"),
        AuditAsked::Copy => format!("a copy of {model}"),
        AuditAsked::Relay => format!("bring another device's steps for {layers}"),
        AuditAsked::Release => "a new version of Inglenook".to_owned(),
        AuditAsked::Connect => "a connection".to_owned(),
    }
}

fn outcome(entry: &AuditEntryView) -> String {
    let given = given(entry);
    match entry.outcome {
        AuditOutcome::UnderWay => format!("under way: {given}"),
        AuditOutcome::Served => given,
        AuditOutcome::Cut { why } => format!("{given}, then ended from here: {}", reason(why)),
        AuditOutcome::Refused { why } if entry.times > 1 => {
            format!("refused {} times: {}", entry.times, reason(why))
        }
        AuditOutcome::Refused { why } => format!("refused: {}", reason(why)),
        AuditOutcome::Unknown => format!("{given}, until the program ended"),
    }
}

/// `41 tokens in 1.5 s`; what is nothing is left out.
fn given(entry: &AuditEntryView) -> String {
    let tokens = (entry.tokens > 0).then(|| format!("{} tokens", entry.tokens));
    let bytes = (entry.bytes > 0).then(|| format!("{:.1} MB", entry.bytes as f64 / 1e6));
    let amounts: Vec<_> = tokens.into_iter().chain(bytes).collect();
    let amounts = if amounts.is_empty() { "nothing".to_owned() } else { amounts.join(", ") };
    let seconds = entry.milliseconds as f64 / 1e3;
    match entry.asked {
        AuditAsked::Relay => "taken".to_owned(),
        AuditAsked::Hold => format!("{amounts} for {seconds:.1} s"),
        _ => format!("{amounts} in {seconds:.1} s"),
    }
}

fn reason(why: AuditWhy) -> &'static str {
    match why {
        AuditWhy::NotPaired => "no paired device",
        AuditWhy::Blocked => "a blocked device",
        AuditWhy::TooLittleTrust => "not trusted that far",
        AuditWhy::SwitchedOff => "switched off here",
        AuditWhy::Paused => "sharing paused",
        AuditWhy::Busy => "as many at once as are allowed",
        AuditWhy::NoRoom => "no memory or disk space for it",
        AuditWhy::NotLent => "not lent or given here",
        AuditWhy::TooOften => "asked too often",
        AuditWhy::BadRequest => "not asked as agreed, or too late",
        AuditWhy::Leaving => "this computer was needed, or its program ended",
        AuditWhy::Failed => "something failed here",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> AuditEntryView {
        AuditEntryView {
            number: 1,
            first: 1_000,
            last: 1_060,
            device_id: Some("ABCD-EFGH-IJKL".to_owned()),
            device: Some("Study PC".to_owned()),
            from: None,
            asked: AuditAsked::Compute,
            model: Some("ember".to_owned()),
            layers: Some([1, 4]),
            outcome: AuditOutcome::Served,
            times: 1,
            tokens: 41,
            bytes: 0,
            milliseconds: 1_540,
        }
    }

    #[test]
    fn an_entry_says_when_who_what_kind_and_how_much() {
        let served = [
            "60 s ago",
            "Study PC (ABCDEFGH)",
            "compute layers 1-4 of ember",
            "41 tokens in 1.5 s",
        ];
        assert_eq!(row(&entry(), 1_120), served);
        let why = AuditWhy::Leaving;
        let mut cut = AuditEntryView { outcome: AuditOutcome::Cut { why }, ..entry() };
        let words = "41 tokens in 1.5 s, then ended from here: this computer was needed, or its program ended";
        assert_eq!(outcome(&cut), words);
        (cut.asked, cut.tokens, cut.bytes) = (AuditAsked::Copy, 0, 2_500_000);
        (cut.layers, cut.outcome) = (None, AuditOutcome::UnderWay);
        assert_eq!(
            (asked(&cut), outcome(&cut)),
            ("a copy of ember".to_owned(), "under way: 2.5 MB in 1.5 s".to_owned())
        );
    }

    #[test]
    fn a_stranger_is_an_address_and_a_claim_is_told_as_one() {
        let why = AuditWhy::NotPaired;
        let mut knock = AuditEntryView {
            device_id: None,
            device: None,
            from: Some("192.168.1.9".to_owned()),
            asked: AuditAsked::Connect,
            model: None,
            layers: None,
            outcome: AuditOutcome::Refused { why },
            times: 300,
            ..entry()
        };
        let words =
            ["2 h ago", "192.168.1.9", "a connection", "refused 300 times: no paired device"];
        assert_eq!(row(&knock, 1_060 + 7_200), words);
        (knock.device, knock.from) = (Some("Old PC".to_owned()), None);
        assert_eq!(who(&knock), "many addresses, which says to be Old PC");
    }
}
