//! Hosts that trust each other hand results to each other: only the last one answers, nothing that
//! befalls the chain changes a token, and nobody brings steps in another's name without its word.

use std::future::Future;

use nook_api::views::{ChatRole, Trust};
use nook_base::{ActivationDtype, ErrorCode, LayerRange, ModelDigest, PeerId};
use nook_link::LinkEvent;
use nook_testkit::{
    Asked, Device, Household, Node, NodePlan, Secrets, Signal, Told, Wish, files_below,
};
use nook_trust::TicketClaim;
use nook_wire::{Message, Open, PrefixHash, StepHead, Ticket};

const ASKING: &str = "Kitchen laptop";
const FIRST: &str = "Study PC";
const SECOND: &str = "Attic PC";

const TOKENS: u32 = 160;

/// Part of a prompt; it stands nowhere else.
const CANARY: &str = "the zephyrquill of Brambleworth and her seventeen copper marbles";

/// When something is done.
const AFTER: usize = 10;

fn wish() -> Wish {
    Wish::text("Once upon a time", TOKENS)
}

/// Several pieces of prefill.
fn long() -> Wish {
    Wish::text(&"Once upon a time there was a purple vampire called Bonny. ".repeat(24), 40)
}

/// Two helpers that share the middle between them and know each other this well.
async fn house(trust: Option<Trust>) -> anyhow::Result<Household> {
    logging("info", trust).await
}

async fn logging(level: &'static str, trust: Option<Trust>) -> anyhow::Result<Household> {
    let plans = [
        NodePlan::new(ASKING).logging(level),
        NodePlan::new(FIRST).offering("1-2").logging(level),
        NodePlan::new(SECOND).offering("3-4").logging(level),
    ];
    let house = Household::apart(plans).await?.all_share().await?;
    if let Some(trust) = trust {
        house.pair(1, 2, trust).await?;
        until_linked(&house, true).await?;
    }
    Ok(house)
}

async fn until_linked(house: &Household, linked: bool) -> anyhow::Result<()> {
    let is_it = |view: &nook_api::views::HouseholdView, name| {
        view.devices.iter().any(|device| device.name == name && device.connected) == linked
    };
    house.node(1).until("the way to the other helper", |view| is_it(view, SECOND)).await?;
    house.node(2).until("the way to the other helper", |view| is_it(view, FIRST)).await?;
    Ok(())
}

/// Of each call whose results went on to another host: how many did, and how many came home. Known
/// when no stream runs any more.
async fn went_on(node: &Node) -> anyhow::Result<Vec<(u64, u64)>> {
    node.until("no stream is left", |view| view.sharing.streams == 0).await?;
    let log = node.log();
    let lines = log.lines().filter(|line| line.contains("went on to another host"));
    let number = |line: &str, key: &str| -> anyhow::Result<u64> {
        let after = line.split(key).nth(1).and_then(|rest| rest.split_whitespace().next());
        Ok(after.unwrap_or_default().parse()?)
    };
    lines.map(|line| Ok((number(line, "passed=")?, number(line, "home=")?))).collect()
}

/// Asks, does something to the house after some tokens, and checks that the reply does not show it.
async fn check<'a, F>(
    house: &'a mut Household,
    fault: impl FnOnce(&'a mut Household) -> F,
) -> anyhow::Result<Told>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let undisturbed = house.asking().answer(&wish().alone()).await?;
    // A first one, so that both have a worker, and the chain is seen to be one.
    house.asking().answer(&wish()).await?;
    assert!(!went_on(house.node(1)).await?.is_empty(), "results went on");
    let (reply, held) = house.asking().held_reply(&wish(), AFTER).await?;
    let told = reply.told();
    assert_eq!(told.devices(), [ASKING, FIRST, SECOND, ASKING], "{told:?}");
    fault(house).await?;
    drop(held);
    let told = reply.whole().await?;
    told.assert_says(&undisturbed);
    Ok(told)
}

#[tokio::test]
async fn results_go_from_host_to_host_and_none_of_them_comes_here() -> anyhow::Result<()> {
    let house = house(Some(Trust::Trusted)).await?;
    for wish in [wish(), long()] {
        let undisturbed = house.asking().answer(&wish.clone().alone()).await?;
        let told = house.asking().answer(&wish).await?;
        assert_eq!(told.devices(), [ASKING, FIRST, SECOND, ASKING], "{told:?}");
        assert_eq!((&told.ids, &told.text), (&undisturbed.ids, &undisturbed.text));
        assert!(told.failovers.is_empty() && told.lost.is_empty(), "{told:?}");
        let calls = went_on(house.node(1)).await?;
        let (passed, home) = calls.last().copied().expect("results went on");
        // One for each piece of the prompt and each token that was fed.
        assert!(passed >= told.ids.len() as u64 && home == 0, "{calls:?}");
    }
    // The second host answers the requester itself.
    assert_eq!(went_on(house.node(2)).await?, []);
    // A further reply goes on where the last one ended, over the same chain.
    let again = house.asking().answer(&long()).await?;
    assert!(again.resumed > 0, "{again:?}");
    let calls = went_on(house.node(1)).await?;
    assert_eq!((calls.len(), calls.iter().map(|(_, home)| home).sum::<u64>()), (3, 0), "{calls:?}");
    Ok(())
}

#[tokio::test]
async fn hosts_that_do_not_know_or_trust_each_other_are_a_star() -> anyhow::Result<()> {
    for trust in [None, Some(Trust::Guest)] {
        let house = house(trust).await?;
        let undisturbed = house.asking().answer(&wish().alone()).await?;
        let told = house.asking().answer(&wish()).await?;
        assert_eq!(told.devices(), [ASKING, FIRST, SECOND, ASKING], "{told:?}");
        assert_eq!(told.ids, undisturbed.ids);
        assert!(told.failovers.is_empty(), "{told:?}");
        assert_eq!(went_on(house.node(1)).await?, [], "{trust:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_first_host_of_a_chain_killed_changes_nothing() -> anyhow::Result<()> {
    let mut house = house(Some(Trust::Trusted)).await?;
    let told = check(&mut house, async |house| {
        house.node_mut(1).signal(Signal::Kill);
        Ok(())
    })
    .await?;
    assert!(!told.uses(FIRST) && told.uses(SECOND), "{told:?}");
    assert_eq!(told.lost, [FIRST], "{told:?}");
    Ok(())
}

#[tokio::test]
async fn the_last_host_of_a_chain_killed_changes_nothing() -> anyhow::Result<()> {
    let mut house = house(Some(Trust::Trusted)).await?;
    let told = check(&mut house, async |house| {
        house.node_mut(2).signal(Signal::Kill);
        Ok(())
    })
    .await?;
    assert!(told.uses(FIRST) && !told.uses(SECOND), "{told:?}");
    assert_eq!(told.lost, [SECOND], "{told:?}");
    Ok(())
}

#[tokio::test]
async fn only_the_way_between_the_hosts_cut_changes_nothing_and_both_go_on() -> anyhow::Result<()> {
    // Blocked, the link ends; trusted less, it stays and nothing more goes over it.
    for level in [Trust::Blocked, Trust::Guest] {
        let mut house = house(Some(Trust::Trusted)).await?;
        let told = check(&mut house, async |house| {
            house.node(1).trust(SECOND, level).await?;
            if level == Trust::Blocked {
                until_linked(house, false).await?;
            }
            Ok(())
        })
        .await?;
        assert_eq!(told.devices(), [ASKING, FIRST, SECOND, ASKING], "{told:?}");
        assert!(told.lost.is_empty() && told.failovers.is_empty(), "nobody's fault: {told:?}");
        let calls = went_on(house.node(1)).await?;
        assert_eq!(calls.len(), 2, "and a star from then on: {calls:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_frozen_worker_in_a_chain_changes_nothing() -> anyhow::Result<()> {
    for frozen in [1, 2] {
        let mut house = house(Some(Trust::Trusted)).await?;
        let told = check(&mut house, async |house| {
            assert_eq!(house.node_mut(frozen).signal_workers(Signal::Stop), 1);
            Ok(())
        })
        .await?;
        house.node_mut(frozen).signal_workers(Signal::Continue);
        let name = house.node(frozen).name();
        assert!(!told.uses(name), "{told:?}");
    }
    Ok(())
}

#[tokio::test]
async fn hosts_that_hand_results_on_log_and_keep_nothing_of_a_reply_even_at_trace()
-> anyhow::Result<()> {
    let mut house = logging("trace", Some(Trust::Trusted)).await?;
    let wish = Wish::chat(&[(ChatRole::User, format!("Tell me a story about {CANARY}."))], 40);
    let told = house.asking().answer(&wish).await?;
    assert!(!went_on(house.node(1)).await?.is_empty(), "results went on");
    // A path on which something goes wrong.
    let (reply, held) = house.asking().held_reply(&wish, AFTER).await?;
    house.node_mut(2).signal_workers(Signal::Kill);
    drop(held);
    assert_eq!(reply.whole().await?.ids, told.ids);
    let whole: Vec<u32> = told.prompt_ids.iter().chain(&told.ids).copied().collect();
    let secrets = Secrets::new()
        .text("the prompt", CANARY)
        .text("the reply", &told.text)
        .ids("the ids", &whole);
    let files = files_below(house.folder())?;
    let logs = files.iter().filter(|(path, _)| path.to_string_lossy().contains(".log"));
    assert_eq!(logs.count(), 3);
    for (path, content) in &files {
        assert_eq!(secrets.found_in(content), [""; 0], "in {}", path.display());
    }
    // The same search finds what talks.
    assert_ne!(secrets.found_in(format!("TRACE {whole:?} {CANARY}").as_bytes()), [""; 0]);
    Ok(())
}

/// A node that lends, a device that is trusted there, and one that is only paired.
struct Scene {
    house: Household,
    requester: Device,
    carrier: Device,
    host: PeerId,
    model: ModelDigest,
}

async fn scene() -> anyhow::Result<Scene> {
    let plan = NodePlan::new(FIRST)
        .offering("1-4")
        .with("distributed_inference.host.serve_shards", "true");
    let house = Household::apart_with_test([plan]).await?;
    let mut requester = Device::start("Requester")?;
    let host = requester.pair_with(house.asking(), Trust::Trusted).await?;
    let mut carrier = Device::start("Carrier")?;
    carrier.pair_with(house.asking(), Trust::Guest).await?;
    let model = house.asking().built_in().await?.1;
    Ok(Scene { house, requester, carrier, host, model })
}

impl Scene {
    fn open(&self, session: u64) -> Open {
        Open {
            session,
            model: self.model,
            layers: LayerRange::with_len(1, 2),
            dtype: ActivationDtype::F32,
            positions_max: 64,
            resume: None,
        }
    }

    fn claim(&self, open: &Open) -> TicketClaim {
        TicketClaim {
            carrier: self.carrier.id(),
            host: self.host,
            session: open.session,
            model: open.model,
            layers: open.layers,
            dtype: open.dtype,
            positions_max: open.positions_max,
        }
    }

    async fn shown(&self, ticket: Ticket) -> anyhow::Result<Option<ErrorCode>> {
        Ok(self.carrier.relay(self.host, ticket).await?.refused())
    }
}

fn opened(asked: Asked) -> nook_mux::Call<Message> {
    match asked {
        Asked::Open(call) => call,
        Asked::Refused(code) => panic!("refused as {code}"),
    }
}

#[tokio::test]
async fn t6_t7_tickets_that_are_forged_bent_stolen_used_or_over_are_refused() -> anyhow::Result<()>
{
    let scene = scene().await?;
    let (denied, gone) = (Some(ErrorCode::TrustDenied), Some(ErrorCode::NotFound));
    let open = scene.open(40);
    let claim = scene.claim(&open);
    let ticket = scene.requester.issue(claim);
    assert_eq!(scene.shown(ticket.clone()).await?, gone, "no such call yet");

    // Who is only paired cannot ask for layers itself, whatever ticket it holds.
    let own = scene.carrier.ask_for(scene.host, scene.open(1)).await?;
    assert_eq!(own.refused(), denied);

    let mut call = opened(scene.requester.ask_for(scene.host, open.clone()).await?);
    let mut forged = ticket.clone();
    forged.signature[1][3] ^= 4;
    assert_eq!(scene.shown(forged).await?, denied, "forged");
    let mut bent = ticket.clone();
    bent.claim.layers = LayerRange::with_len(1, 3);
    assert_eq!(scene.shown(bent).await?, denied, "bent");
    assert_eq!(scene.shown(scene.carrier.issue(claim)).await?, denied, "signed by the carrier");
    let other = TicketClaim { carrier: PeerId([3; 32]), ..claim };
    assert_eq!(scene.shown(scene.requester.issue(other)).await?, denied, "another's");
    let elsewhere = TicketClaim { host: PeerId([3; 32]), ..claim };
    assert_eq!(scene.shown(scene.requester.issue(elsewhere)).await?, denied, "for another host");
    let layers = LayerRange::with_len(1, 3);
    let wider = scene.requester.issue(TicketClaim { layers, ..claim });
    assert_eq!(scene.shown(wider).await?, Some(ErrorCode::BadRequest), "for other layers");

    // The right one joins, once; what the carrier brings is answered to the requester.
    let mut relay = opened(scene.carrier.relay(scene.host, ticket.clone()).await?);
    assert_eq!(scene.shown(ticket.clone()).await?, gone, "replayed");
    let hidden = 64;
    relay.send_tensor(Message::Step(step(hidden)), vec![0x3e; 4 * hidden as usize].into()).await?;
    match call.recv().await? {
        Message::Result(head) => assert_eq!((head.step, head.count), (0, 1)),
        // The width is the model's own affair; that it was looked at shows that it came through.
        Message::Error(error) => assert_ne!(error.code, ErrorCode::TrustDenied, "{error:?}"),
        other => panic!("{other:?}"),
    }
    call.close(None);
    scene.house.asking().until("it is over", |view| view.sharing.streams == 0).await?;
    assert_eq!(scene.shown(ticket).await?, gone, "over");
    Ok(())
}

fn step(hidden: u32) -> StepHead {
    StepHead {
        step: 0,
        position: 0,
        count: 1,
        hidden,
        dtype: ActivationDtype::F32,
        history_before: PrefixHash::default(),
        history_after: PrefixHash([1; 16]),
        bulk: false,
    }
}

#[tokio::test]
async fn a_revoked_requester_and_an_unpaired_carrier_get_nothing() -> anyhow::Result<()> {
    let mut scene = scene().await?;
    let open = scene.open(50);
    let ticket = scene.requester.issue(scene.claim(&open));
    let mut call = opened(scene.requester.ask_for(scene.host, open).await?);
    let mut relay = opened(scene.carrier.relay(scene.host, ticket.clone()).await?);
    // Trusted less in the middle of it, the requester's call ends, and the relay with it.
    scene.house.asking().trust("Requester", Trust::Guest).await?;
    assert!(call.recv().await.is_err(), "the requester's call is over");
    assert!(relay.recv().await.is_err(), "so is the relay");
    assert_eq!(scene.shown(ticket).await?, Some(ErrorCode::TrustDenied));

    scene.house.asking().trust("Carrier", Trust::Blocked).await?;
    // A blocked device has no link to show anything on.
    while let event = scene.carrier.next_event().await?
        && !matches!(event, LinkEvent::Down { .. } | LinkEvent::RefusedByPeer { .. })
    {}
    assert!(scene.carrier.link(scene.host).is_none());
    Ok(())
}
