//! `nook house`: a whole household on this one machine.
//!
//! Starts one node for the person who asks and one for each helper, each a process of its own with
//! its own home, port and identity. They find each other by mDNS, pair by a code through the same
//! code as everywhere else, share, and answer one prompt together. Nothing here is simulated; only
//! the layers that each helper offers are set beforehand, so that every helper has a part even of a
//! model that one device could hold alone.

mod member;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nook_api::views::{ReplyEvent, Trust};
use nook_api::{NodeCalls as _, PairTarget, Sharing};
use nook_base::{LayerRange, clock};

use crate::arguments::House;
use crate::endings::Failure;
use crate::generate::{self, Report};
use crate::house::member::Member;
use crate::{ask, output};

/// How long one step of setting up may take before the household is given up.
const STEP_LIMIT: Duration = Duration::from_secs(45);

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What the devices are called, the asking one first.
const NAMES: [&str; 9] = [
    "Kitchen laptop",
    "Study PC",
    "Attic PC",
    "Bedroom laptop",
    "Den PC",
    "Garage PC",
    "Hall laptop",
    "Porch laptop",
    "Shed PC",
];

/// What is done to a helper in the middle of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill,
    Freeze,
}

pub(crate) async fn run(house: House) -> anyhow::Result<ExitCode> {
    if cfg!(not(unix)) && house.stop_after.is_some() {
        let what = "this system cannot stop a process without ending it; --kill-after works";
        bail!(Failure::Usage { what: what.to_owned() });
    }
    let folder = tempfile::Builder::new().prefix("nook-").tempdir()?;
    let mut members = Vec::new();
    let outcome = live(&house, folder.path(), &mut members).await;
    for member in members {
        member.leave().await;
    }
    if house.keep {
        output::note(format!("the homes are in {}", folder.keep().display()));
    }
    let report = outcome?;
    for line in report.failover_lines() {
        output::note(line);
    }
    generate::finish(&house.wish, &report);
    Ok(ExitCode::SUCCESS)
}

async fn live(
    house: &House,
    folder: &std::path::Path,
    members: &mut Vec<Member>,
) -> anyhow::Result<Report> {
    let say = |text: String| {
        if !house.wish.json {
            output::note(text);
        }
    };
    members.push(Member::start(folder, NAMES[0], (None, house.backend)).await?);
    let model = generate::model_name(&members[0].client, &house.wish.model).await?;
    let layers = layers_of(&members[0], &model).await?;
    let shares = helper_shares(layers, usize::from(house.helpers))?;
    for (name, share) in NAMES[1..].iter().zip(&shares) {
        members.push(Member::start(folder, name, (Some(*share), house.backend)).await?);
    }
    say(format!("{} nodes run, each with its own home, port and identity", members.len()));
    let (asking, helpers) = members.split_first().context("the asking node was started above")?;
    for helper in helpers {
        generate::model_name(&helper.client, &house.wish.model).await?;
        let how = pair(asking, helper).await?;
        say(format!("{} found {} by {how} and paired by code", asking.name, helper.name));
    }
    wait_for_lenders(asking, helpers, &model).await?;
    for (helper, share) in helpers.iter().zip(&shares) {
        let layers = if share.len() == 1 { "layer" } else { "layers" };
        let share = share.to_string();
        let share = share
            .split_once('-')
            .filter(|(first, last)| first == last)
            .map_or(&*share, |(one, _)| one);
        say(format!("{} shares {layers} {share} of {model}", helper.name));
    }
    say(String::new());
    answer(house, asking, helpers, model).await
}

/// Asks the prompt, and hurts a helper in the middle if that was wished.
async fn answer(
    house: &House,
    asking: &Member,
    helpers: &[Member],
    model: String,
) -> anyhow::Result<Report> {
    let victim = helpers.first().context("there is at least one helper")?;
    let mut fault = match (house.kill_after, house.stop_after) {
        (Some(tokens), _) => Some((Fault::Kill, tokens)),
        (None, Some(tokens)) => Some((Fault::Freeze, tokens)),
        (None, None) => None,
    };
    if !house.wish.json {
        output::piece(&house.wish.prompt);
    }
    let wish = generate::wish(&house.wish, model, false);
    generate::stream(&asking.client, wish, |event, tokens| {
        if let ReplyEvent::TokenDelta { text, .. } = event
            && !house.wish.json
        {
            output::piece(text);
        }
        if let Some((kind, after)) = fault
            && tokens >= after
        {
            fault = None;
            match kind {
                Fault::Kill => victim.kill(),
                Fault::Freeze => victim.freeze(),
            }
        }
    })
    .await
}

/// The layers that each helper offers: an even share of what lies between the two ends that stay
/// with the asking device.
fn helper_shares(layers: u32, helpers: usize) -> anyhow::Result<Vec<LayerRange>> {
    let Ok(middle) = LayerRange::new(1, layers.saturating_sub(1)) else {
        bail!("this model has {layers} layers: too few to share");
    };
    let shares = nook_node::even_split(middle, helpers);
    if shares.len() < helpers || shares.iter().any(|share| share.is_empty()) {
        bail!(
            "this model has {} layers between its two ends: too few for {helpers} helpers",
            middle.len()
        );
    }
    Ok(shares)
}

async fn layers_of(member: &Member, model: &str) -> anyhow::Result<u32> {
    let view = ask::view(&member.client).await?;
    let found = view.models.iter().find(|known| known.name == model);
    Ok(found.with_context(|| format!("there is no model called {model}"))?.layers)
}

/// Pairs two nodes as their owners would, and lets each trust the other. Says how they met.
async fn pair(asking: &Member, helper: &Member) -> anyhow::Result<&'static str> {
    let window = helper.client.show_code().await?;
    let seen = seen_pairing(asking, helper).await?;
    let (target, how) = match seen {
        Some(id) => (PairTarget::Seen(id), "mDNS"),
        None => {
            let address = window.addresses.first().context("a code comes with an address")?;
            (PairTarget::Address(address.clone()), "a typed address")
        }
    };
    let device = asking.client.join(target, window.code.into()).await?;
    asking.client.set_trust(device.id, Trust::Trusted).await?;
    let me = ask::view(&asking.client).await?.me.id;
    helper.client.set_trust(me, Trust::Trusted).await?;
    helper.client.set_sharing(Sharing::On).await?;
    Ok(how)
}

/// The helper as the asking node sees it by mDNS; `None` when multicast does not work here.
///
/// Another household on this network may use the same names, so the port must be the helper's too.
async fn seen_pairing(asking: &Member, helper: &Member) -> anyhow::Result<Option<String>> {
    let port = format!(":{}", ask::view(&helper.client).await?.me.listen_port);
    let end = clock::now() + STEP_LIMIT / 3;
    while clock::now() < end {
        let view = ask::view(&asking.client).await?;
        let device = view.devices.iter().find(|device| {
            device.pairing
                && device.name == helper.name
                && device.addresses.iter().any(|address| address.ends_with(&port))
        });
        if let Some(device) = device {
            return Ok(Some(device.id.clone()));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(None)
}

/// Waits until every helper is connected and offers its layers.
async fn wait_for_lenders(asking: &Member, helpers: &[Member], model: &str) -> anyhow::Result<()> {
    let end = clock::now() + STEP_LIMIT;
    loop {
        let view = ask::view(&asking.client).await?;
        let lends = |helper: &Member| {
            view.devices.iter().any(|device| {
                device.name == helper.name
                    && device.connected
                    && device.lends.iter().any(|lend| lend.model == model)
            })
        };
        let missing: Vec<_> =
            helpers.iter().filter(|helper| !lends(helper)).map(|helper| helper.name).collect();
        if missing.is_empty() {
            return Ok(());
        }
        if clock::now() >= end {
            bail!("no offer came from {} within {} s", missing.join(", "), STEP_LIMIT.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
}
