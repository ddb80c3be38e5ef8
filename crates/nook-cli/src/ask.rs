//! The short commands: pairing, devices, sharing, doctor, key.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use nook_api::doctor::Verdict;
use nook_api::views::{
    DeviceKind, DeviceView, FactsView, GuestView, HouseholdView, InterfaceKind, LendView,
    PairingView, PowerView, SharingView, Trust,
};
use nook_api::{NodeCalls as _, PairTarget, PauseFor, Sharing};
use nook_base::limits::PAIRING_CODE_DIGITS;
use nook_control::Client;

use crate::arguments::{
    Devices, DevicesAction, Doctor, DoctorSubject, Pair, Share, Switch, TrustChoice,
};
use crate::connection::Connection;
use crate::endings::Failure;
use crate::{asked, helping, output, pipeline, waking};

/// How often the end of a pairing window is looked for.
const LOOK: Duration = Duration::from_millis(300);

/// How long a device that shows a code is looked for before that is reported.
const SEEN_LIMIT: Duration = Duration::from_secs(6);

pub(crate) async fn pair(home: Option<PathBuf>, pair: Pair) -> anyhow::Result<ExitCode> {
    let connection = Connection::running(home).await?;
    let client = &connection.client;
    let device = match &pair.code {
        Some(code) => join(client, code, pair.with.as_deref()).await?,
        None => show_code(client, pair.json).await?,
    };
    if !pair.json {
        output::line(format!("Paired with {} ({}).", device.name, device.short_id));
    }
    let asked = if pair.json { None } else { helping::ask_terminal(&device.name)? };
    match (pair.trust, asked) {
        (Some(trust), _) => helping::trust(client, &device.id, trust).await?,
        (None, Some(help)) => client.answer_help(device.id.clone(), help).await?,
        (None, None) => {}
    }
    let now = view(client).await?;
    let device = paired(&now, &device.id)?;
    if pair.json {
        output::json_line(device);
    } else {
        helping::lines(device).into_iter().for_each(output::line);
    }
    Ok(ExitCode::SUCCESS)
}

/// Said wherever trust is chosen (`product.md`, promise 3).
pub(crate) const HONEST_SENTENCE: &str = "The owner of a helping device who wants to can read everything you \
                               and the model write, word for word.";

async fn join(client: &Client, code: &str, with: Option<&str>) -> anyhow::Result<DeviceView> {
    // Said before anybody is looked for: a slip of the finger is no absent device.
    if code.chars().filter(char::is_ascii_digit).count() != PAIRING_CODE_DIGITS {
        bail!("a pairing code has six digits; type the one that the other device shows now");
    }
    let target = match with {
        Some(with) if with.contains(':') => PairTarget::Address(with.to_owned()),
        with => PairTarget::Seen(showing_a_code(client, with).await?),
    };
    Ok(client.join(target, code.to_owned().into()).await?)
}

/// The one device that shows a code now, or the named one.
async fn showing_a_code(client: &Client, name: Option<&str>) -> anyhow::Result<String> {
    let deadline = tokio::time::Instant::now() + SEEN_LIMIT;
    loop {
        let view = view(client).await?;
        let fits = |device: &&DeviceView| {
            device.pairing
                && name.is_none_or(|name| {
                    device.name.eq_ignore_ascii_case(name)
                        || device.short_id == name
                        || device.id == name
                })
        };
        let found: Vec<_> = view.devices.iter().filter(fits).collect();
        match found.as_slice() {
            [one] => return Ok(one.id.clone()),
            [] if tokio::time::Instant::now() >= deadline => bail!(
                "no device here shows a code. Open Add a computer there (or run `nook pair`), or give \
                 its address: nook pair CODE --with HOST:PORT"
            ),
            [] => tokio::time::sleep(LOOK).await,
            several => bail!(
                "several devices show a code: choose one with --with ({})",
                several.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

/// Shows a code and waits until a device has used it, or the window is over.
async fn show_code(client: &Client, json: bool) -> anyhow::Result<DeviceView> {
    let before = view(client).await?;
    let window = client.show_code().await?;
    if json {
        let PairingView { code, addresses, .. } = &window;
        output::json_line(&serde_json::json!({ "code": code, "addresses": addresses }));
    } else {
        output::line(format!("Type this code on the other device:  {}", spaced(&window.code)));
        let addresses = window.addresses.join(" or ");
        output::line(format!("If it does not find this one, address: {addresses}"));
    }
    loop {
        tokio::time::sleep(LOOK).await;
        let now = view(client).await?;
        let known = |id: &str| before.devices.iter().any(|device| device.paired && device.id == id);
        if let Some(device) = now.devices.iter().find(|device| device.paired && !known(&device.id))
        {
            return Ok(device.clone());
        }
        if now.pairing.is_none() {
            bail!("the code is used up: three wrong tries, two minutes over, or cancelled");
        }
    }
}

fn spaced(code: &str) -> String {
    match code.split_at_checked(3) {
        Some((first, second)) => format!("{first} {second}"),
        None => code.to_owned(),
    }
}

pub(crate) async fn devices(home: Option<PathBuf>, devices: Devices) -> anyhow::Result<ExitCode> {
    let connection = Connection::running(home).await?;
    match devices.action {
        Some(DevicesAction::Trust { device, level }) => {
            let id = paired(&view(&connection.client).await?, &device)?.id.clone();
            let (device, trust) = (id.clone(), level.into());
            connection.client.set_trust(device, trust).await?;
            if devices.json {
                output::json(paired(&view(&connection.client).await?, &id)?);
            } else {
                output::line(HONEST_SENTENCE);
            }
        }
        Some(DevicesAction::Allow { device, answer }) => {
            let id = paired(&view(&connection.client).await?, &device)?.id.clone();
            connection.client.answer_help(id.clone(), answer.into()).await?;
            let now = view(&connection.client).await?;
            let device = paired(&now, &id)?;
            if devices.json {
                output::json(device);
            } else {
                helping::lines(device).into_iter().for_each(output::line);
            }
        }
        Some(DevicesAction::Safety { device }) => {
            show_safety_number(&view(&connection.client).await?, &device, devices.json)?;
        }
        Some(DevicesAction::Wake { device }) => {
            let view = view(&connection.client).await?;
            waking::wake(&connection.client, paired(&view, &device)?, devices.json).await?;
        }
        Some(DevicesAction::Log { clear }) => {
            asked::log(&connection.client, clear, devices.json).await?;
        }
        Some(DevicesAction::Forget { device }) => {
            let view = view(&connection.client).await?;
            let DeviceView { id, name, .. } = paired(&view, &device)?;
            connection.client.forget(id.clone()).await?;
            if devices.json {
                output::json(&serde_json::json!({ "device": name, "id": id, "paired": false }));
            } else {
                output::line(format!("{name} is not paired with this device any more."));
            }
        }
        None => {
            let view = view(&connection.client).await?;
            if devices.json {
                output::json(&view.devices);
            } else {
                list_devices(&view);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list_devices(view: &HouseholdView) {
    let own = facts_words(&view.me.facts);
    let own = if own.is_empty() { own } else { format!(": {own}") };
    output::line(format!("This device: {} ({}){own}", view.me.name, view.me.short_id));
    if view.devices.is_empty() {
        output::line(
            "No other device in sight. Start Inglenook on another computer of this network.",
        );
        return;
    }
    let row = |device: &DeviceView| {
        let lends: Vec<_> = device.lends.iter().map(lend_words).collect();
        vec![
            device.name.clone(),
            device.short_id.clone(),
            facts_words(&device.facts),
            if device.paired { trust_word(device.trust) } else { "not paired" }.to_owned(),
            link_words(device),
            lends.join(", "),
            device.unused_because.clone().unwrap_or_default(),
        ]
    };
    output::table(
        &["NAME", "ID", "COMPUTER", "TRUST", "LINK", "LENDS", "NOTE"],
        &view.devices.iter().map(row).collect::<Vec<_>>(),
    );
}

/// `laptop, battery 64 %, 61 °C`; what is not told is left out.
fn facts_words(facts: &FactsView) -> String {
    let kind = facts.kind.map(|kind| match kind {
        DeviceKind::Laptop => "laptop",
        DeviceKind::Desktop => "desktop",
        DeviceKind::Tower => "tower",
        DeviceKind::Mini => "mini",
        DeviceKind::Server => "server",
    });
    let power = facts.power.map(|power| match power {
        PowerView::Mains => "mains".to_owned(),
        PowerView::Charging { percent } => format!("charging {percent} %"),
        PowerView::Battery { percent } => format!("battery {percent} %"),
    });
    let warm = facts.temperature.map(|degrees| format!("{degrees} °C"));
    [kind.map(str::to_owned), power, warm].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// `cable 0.4 ms 110 MB/s`; what was not measured is left out.
fn link_words(device: &DeviceView) -> String {
    if !device.connected {
        return "-".to_owned();
    }
    let over = device.way.as_ref().map_or("connected", |way| match way.interface {
        InterfaceKind::Cable => "cable",
        InterfaceKind::Wifi => "Wi-Fi",
        InterfaceKind::Other | InterfaceKind::Unknown => "connected",
    });
    let trip = device.rtt_ms.map(|ms| format!("{ms:.1} ms"));
    let rate = device.way.as_ref().and_then(|way| way.bytes_per_second);
    let rate = rate.map(|bytes| format!("{:.0} MB/s", bytes as f64 / 1e6));
    let words = [Some(over.to_owned()), trip, rate];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// `ember 1-4`, and those of the layers that are in memory there: `ember 1-4 (1-2 in memory)`.
fn lend_words(lend: &LendView) -> String {
    let LendView { model, first_layer, last_layer, held } = lend;
    match held {
        Some([first, last]) => {
            format!("{model} {first_layer}-{last_layer} ({first}-{last} in memory)")
        }
        None => format!("{model} {first_layer}-{last_layer}"),
    }
}

/// Said beside every safety number.
const COMPARE_SENTENCE: &str = "Read it out to each other: if both screens show these same digits, \
                                nobody stands between the two devices.";

/// The paired device that is meant, as the node understands it: by id, short id, name, or a unique
/// beginning of its name.
fn paired<'a>(view: &'a HouseholdView, device: &str) -> anyhow::Result<&'a DeviceView> {
    let lower = device.trim().to_lowercase();
    let all = || view.devices.iter().filter(|one| one.paired);
    let is_id =
        |one: &&DeviceView| [&one.id, &one.short_id].map(|id| id.to_lowercase()).contains(&lower);
    let named: Vec<_> = all().filter(|one| one.name.to_lowercase() == lower).collect();
    let begins =
        |one: &&DeviceView| !lower.is_empty() && one.name.to_lowercase().starts_with(&lower);
    let begins: Vec<_> = all().filter(begins).collect();
    match (all().find(is_id), named.as_slice(), begins.as_slice()) {
        (Some(one), ..) | (None, &[one], _) | (None, [], &[one]) => Ok(one),
        (None, [], []) => {
            bail!("no device \"{device}\" is paired with this one: nook devices lists them")
        }
        _ => bail!("several paired devices are called \"{device}\": give the id of one"),
    }
}

fn show_safety_number(view: &HouseholdView, device: &str, json: bool) -> anyhow::Result<()> {
    let one = paired(view, device)?;
    let Some(number) = &one.safety_number else {
        bail!("the node did not say the safety number; is it of an earlier version?");
    };
    if json {
        output::json(&serde_json::json!({ "device": one.name, "safety_number": number }));
    } else {
        output::line(format!("{} and {}:  {number}", view.me.name, one.name));
        output::line(COMPARE_SENTENCE);
    }
    Ok(())
}

fn trust_word(trust: Trust) -> &'static str {
    match trust {
        Trust::Blocked => "blocked",
        Trust::Unknown => "unknown",
        Trust::Guest => "guest",
        Trust::Trusted => "trusted",
        Trust::Own => "own",
    }
}

pub(crate) async fn share(home: Option<PathBuf>, share: Share) -> anyhow::Result<ExitCode> {
    if share.until_tomorrow && share.choice != Some(Switch::Pause) {
        let what = "--until-tomorrow belongs to `nook share pause`".to_owned();
        bail!(Failure::Usage { what });
    }
    let connection = Connection::running(home).await?;
    if let Some(choice) = share.choice {
        let client = &connection.client;
        match choice {
            Switch::On => client.set_sharing(Sharing::On).await?,
            Switch::Off => client.set_sharing(Sharing::Off).await?,
            Switch::Pause if share.until_tomorrow => {
                client.pause_sharing(PauseFor::UntilTomorrow).await?;
            }
            Switch::Pause => client.pause_sharing(PauseFor::Hour).await?,
            Switch::Resume => client.resume_sharing().await?,
            Switch::FreeMemory => client.free_memory().await?,
        }
    }
    let sharing = view(&connection.client).await?.sharing;
    if share.json {
        output::json(&sharing);
    } else {
        share_lines(&sharing).into_iter().for_each(output::line);
    }
    Ok(ExitCode::SUCCESS)
}

/// How sharing stands: the line of the tray, who is helped, and what was lent this week.
fn share_lines(sharing: &SharingView) -> Vec<String> {
    let guest = |guest: &GuestView| match guest.streams {
        1 => guest.device.clone(),
        more => format!("{} ({more} replies)", guest.device),
    };
    let guests: Vec<_> = sharing.guests.iter().map(guest).collect();
    let tokens = sharing.lent_days.iter().map(|day| day.tokens).fold(0, u64::saturating_add);
    let mut lines = vec![sharing.status_line.clone()];
    if !guests.is_empty() {
        lines.push(format!("Helping now: {}", guests.join(", ")));
    }
    if sharing.on || tokens > 0 {
        lines.push(format!("Computed for others in the last seven days: {tokens} tokens"));
    }
    lines
}

pub(crate) async fn doctor(home: Option<PathBuf>, doctor: Doctor) -> anyhow::Result<ExitCode> {
    match doctor.subject {
        Some(DoctorSubject::Pipeline) => pipeline::show(home, doctor.json).await,
        None => examine(home, doctor).await,
    }
}

async fn examine(home: Option<PathBuf>, doctor: Doctor) -> anyhow::Result<ExitCode> {
    let connection = Connection::open(home).await?;
    let answer = connection.client.doctor().await;
    let own = connection.is_own();
    connection.close().await;
    let findings = answer?;
    if doctor.json {
        output::json(&findings);
    } else {
        for finding in &findings {
            let mark = match finding.verdict {
                Verdict::Well => "ok     ",
                Verdict::Note => "note   ",
                Verdict::Problem => "PROBLEM",
            };
            output::line(format!("{mark}  {}: {}", finding.subject, finding.sentence));
        }
        if own {
            output::note("No node was running, so one was started to look; links were not tried.");
        }
    }
    let bad = findings.iter().any(|finding| finding.verdict == Verdict::Problem);
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

pub(crate) async fn view(client: &Client) -> anyhow::Result<HouseholdView> {
    Ok(client.view().await?)
}

impl From<TrustChoice> for Trust {
    fn from(choice: TrustChoice) -> Self {
        match choice {
            TrustChoice::Blocked => Self::Blocked,
            TrustChoice::Guest => Self::Guest,
            TrustChoice::Trusted => Self::Trusted,
            TrustChoice::Own => Self::Own,
        }
    }
}

#[cfg(test)]
mod tests {
    use nook_api::views::{LentDayView, SharingState};

    use super::*;

    #[test]
    fn sharing_says_who_is_helped_and_what_was_lent() {
        let guest = |device: &str, streams| GuestView {
            device_id: device.to_owned(),
            device: device.to_owned(),
            streams,
        };
        let mut sharing = SharingView {
            on: true,
            state: SharingState::Busy,
            answering: false,
            streams: 3,
            streams_max: 4,
            paused: None,
            guests: vec![guest("Attic PC", 1), guest("Kitchen laptop", 2)],
            lent_days: [(1, 40), (2, 2)].map(|(day, tokens)| LentDayView { day, tokens }).to_vec(),
            gpus: Vec::new(),
            status_line: "Sharing".to_owned(),
        };
        let helping = "Helping now: Attic PC, Kitchen laptop (2 replies)";
        let lent = "Computed for others in the last seven days: 42 tokens";
        assert_eq!(share_lines(&sharing), ["Sharing", helping, lent]);
        (sharing.on, sharing.guests, sharing.lent_days) = (false, Vec::new(), Vec::new());
        assert_eq!(share_lines(&sharing), ["Sharing"]);
    }

    #[test]
    fn layers_in_memory_stand_beside_those_on_offer() {
        let mut lend =
            LendView { model: "ember".to_owned(), first_layer: 1, last_layer: 4, held: None };
        assert_eq!(lend_words(&lend), "ember 1-4");
        lend.held = Some([1, 2]);
        assert_eq!(lend_words(&lend), "ember 1-4 (1-2 in memory)");
    }
}
