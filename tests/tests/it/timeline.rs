//! Who did what for a reply: figures that add up, for the window and for scripts, and no word in
//! them.

use std::process::Command;

use nook_api::views::{
    ChatRole, FinishReason, HappenedView, PartView, PipelineView, Trust, WorkView,
};
use nook_testkit::{Device, Household, NodePlan, Secrets, Signal, Told, Wish, nook};
use nook_wire::Message;

use crate::refusals::{digest, open};

const ASKING: &str = "Kitchen laptop";
const STUDY: &str = "Study PC";
const ATTIC: &str = "Attic PC";

/// Tokens of the replies: fewer than the story has, so that they end at the limit.
const TOKENS: u32 = 24;

/// What the clock of the reply and those of the devices may differ by, in ms.
const SLACK_MS: f64 = 5.0;

fn wish() -> Wish {
    let prompt = "Tell me a story about the zephyrquill of Brambleworth and her copper marbles.";
    Wish::chat(&[(ChatRole::User, prompt.to_owned())], TOKENS)
}

async fn house() -> anyhow::Result<Household> {
    let helpers = [NodePlan::new(STUDY).offering("1-2"), NodePlan::new(ATTIC).offering("3-4")];
    let [study, attic] = helpers;
    Household::sharing([NodePlan::new(ASKING), study, attic]).await
}

fn took(work: &WorkView) -> f64 {
    work.compute_ms + work.queue_ms + work.network_ms
}

/// What holds for every part of every reply.
fn check(told: &Told) {
    assert_eq!(told.finish, Some(FinishReason::Length), "{told:?}");
    assert!(told.total_ms >= told.first_token_ms && told.first_token_ms > 0.0, "{told:?}");
    let tokens = u32::try_from(told.ids.len()).unwrap_or(u32::MAX);
    for part in &told.timeline {
        let whole = took(&part.prompt) + took(&part.reply);
        assert!(whole <= told.total_ms + SLACK_MS, "{whole} of {}: {part:?}", told.total_ms);
        assert!(part.prompt.steps <= part.prompt.positions, "{part:?}");
        assert_eq!(part.reply.steps, part.reply.positions, "one position a step: {part:?}");
        assert!(1 <= part.first_token && part.first_token <= part.last_token, "{part:?}");
        assert!(part.last_token <= tokens, "{part:?}");
        assert_eq!(part.local, part.device == ASKING, "{part:?}");
        if part.local {
            assert_eq!([part.bytes_out, part.bytes_in], [0, 0], "{part:?}");
        } else {
            // A row out, a row of the same width back.
            let rows = u64::from(part.prompt.positions + part.reply.positions);
            assert!(part.bytes_out > 0 && part.bytes_out % rows == 0, "{part:?}");
            assert_eq!(part.bytes_out, part.bytes_in, "{part:?}");
        }
    }
    let json = serde_json::to_string(&told.timeline).unwrap_or_default();
    let ids: Vec<u32> = told.prompt_ids.iter().chain(&told.ids).copied().collect();
    let secrets = Secrets::new().text("the reply", &told.text).ids("the ids", &ids);
    assert_eq!(secrets.found_in(json.as_bytes()), [""; 0]);
}

fn of<'a>(told: &'a Told, device: &str) -> Vec<&'a PartView> {
    told.timeline.iter().filter(|part| part.device == device).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_device_is_told_with_its_layers_tokens_times_and_bytes() -> anyhow::Result<()> {
    let house = house().await?;
    let told = house.asking().answer(&wish()).await?;
    check(&told);
    let parts: Vec<_> =
        told.timeline.iter().map(|part| (part.device.as_str(), part.layers)).collect();
    let route: Vec<_> = told.route.iter().map(|leg| (leg.device.as_str(), leg.layers)).collect();
    assert_eq!(parts, route, "one part for each leg, in order");
    let prompt = u32::try_from(told.prompt_ids.len())?;
    for part in &told.timeline {
        assert_eq!((part.first_token, part.last_token), (1, TOKENS), "{part:?}");
        // The last token is chosen and not computed on.
        assert_eq!((part.prompt.positions, part.reply.positions), (prompt, TOKENS - 1), "{part:?}");
        assert!(part.prompt.compute_ms > 0.0 && part.reply.compute_ms > 0.0, "{part:?}");
    }
    // Decode goes through the devices one after the other: together they fit into the reply.
    let decode: f64 = told.timeline.iter().map(|part| took(&part.reply)).sum();
    assert!(decode <= told.total_ms - told.first_token_ms + SLACK_MS, "{decode} {told:?}");
    for device in [STUDY, ATTIC] {
        assert!(of(&told, device)[0].reply.network_ms > 0.0, "the way takes some time");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_loss_both_are_told_each_with_its_tokens() -> anyhow::Result<()> {
    let mut house = house().await?;
    let mut reply = house.asking().reply(&wish()).await?;
    reply.until(8).await?;
    house.node_mut(1).signal(Signal::Kill);
    let told = reply.whole().await?;
    check(&told);
    let [lost] = of(&told, STUDY)[..] else { panic!("{:?}", told.timeline) };
    assert_eq!((lost.first_token, lost.layers), (1, Some([1, 2])));
    assert!((8..=TOKENS).contains(&lost.last_token), "{lost:?}");
    let relief = of(&told, ASKING).into_iter().find(|part| part.layers == Some([1, 2]));
    let relief = relief.expect("this device has the layers now");
    assert!(relief.first_token >= 8 && relief.last_token == TOKENS, "{relief:?}");
    assert!(relief.first_token <= lost.last_token + 1, "{lost:?} {relief:?}");
    // All that was said before is computed again.
    let again = u32::try_from(told.prompt_ids.len())? + relief.first_token - 1;
    assert!(relief.prompt.positions + relief.reply.positions >= again, "{relief:?}");
    let [stayed] = of(&told, ATTIC)[..] else { panic!("{:?}", told.timeline) };
    assert_eq!((stayed.first_token, stayed.last_token), (1, TOKENS));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_somebody_else_asks_meanwhile_is_told_during_the_reply_and_behind_it()
-> anyhow::Result<()> {
    let house = house().await?;
    let (asking, study) = (house.asking(), house.node(1));
    // Its worker is there from now on.
    asking.answer(&wish()).await?;
    let mut neighbour = Device::start("Neighbour")?;
    let peer = neighbour.pair_with(study, Trust::Trusted).await?;
    let link = neighbour.until_linked(peer).await?;
    let (mut reply, held) = asking.held_reply(&wish(), 5).await?;
    let mut call = link.mux().open_call().await?;
    call.send(Message::Open(open(digest(study).await?, 1, 2))).await?;
    assert!(matches!(call.recv().await?, Message::Opened { .. }));
    assert_eq!(reply.until_shared().await?.shared, [STUDY]);
    drop(held);
    let told = reply.whole().await?;
    check(&told);
    assert_eq!(told.shared, [STUDY]);
    let shared = HappenedView::Shared { device: STUDY.to_owned() };
    let is_told = |view: &PipelineView| view.past.iter().any(|it| it.happened.contains(&shared));
    asking.until_pipeline("the list of past replies tells it", is_told).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_tells_it_to_people_and_to_scripts() -> anyhow::Result<()> {
    let house = house().await?;
    let generate = |more: &'static str| {
        let mut command = Command::new(nook()?);
        command.arg("--home").arg(house.asking().home());
        command.args(["generate", "--prompt", "Once upon a time", "--max-tokens", "6", more]);
        let said = command.output()?;
        anyhow::ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        anyhow::Ok(String::from_utf8(said.stdout)?)
    };
    let report: serde_json::Value = serde_json::from_str(&generate("--json")?)?;
    let parts: Vec<PartView> = serde_json::from_value(report["timeline"].clone())?;
    assert!(parts.iter().any(|part| part.device == STUDY && part.bytes_out > 0), "{parts:?}");
    assert!(report["total_ms"].as_f64() > report["first_token_ms"].as_f64(), "{report}");
    let table = generate("--timeline")?;
    for word in ["DEVICE", "BYTES", STUDY, ATTIC, "1-6"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    Ok(())
}
