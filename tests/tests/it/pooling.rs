//! Alone or pooled: a reply goes through other devices when that is faster, or always, as set, and
//! the owner is told why.

use std::process::Command;

use anyhow::Context as _;
use nook_api::views::{ChatRole, DecisionView, MeasuredView, PipelineView, PoolingView};
use nook_testkit::{Household, Node, NodePlan, Wish, nook};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";
const SETTING: &str = "distributed_inference.pooling";

/// Replies in which a device that has become slow learns so.
const SLOW_REPLIES_MAX: usize = 12;

/// Long enough for one whole chunk of prefill.
const PROMPT: &str = "Once upon a time there was a lighthouse keeper who lived by the sea.";

async fn household(pooling: &str) -> anyhow::Result<Household> {
    Household::sharing([
        NodePlan::new(ASKING).with(SETTING, format!("{pooling:?}")),
        NodePlan::new(HELPER).offering("1-4"),
    ])
    .await
}

fn last(view: &PipelineView) -> DecisionView {
    view.last.clone().expect("a reply was decided on")
}

fn why(decision: &DecisionView) -> Option<&str> {
    decision.left_out.iter().find(|out| out.device == HELPER).map(|out| out.why.as_str())
}

/// The last reply has ended and its speed is known.
fn has_gone(view: &PipelineView) -> bool {
    view.last.as_ref().is_some_and(|decision| decision.went.is_some())
}

fn is_measured(of: &MeasuredView) -> bool {
    let figures = [of.decode_us_per_layer, of.prefill_us_per_layer_token];
    figures.iter().all(Option::is_some)
}

/// Every figure that a plan needs of the helper and of this device.
fn all_is_measured(view: &PipelineView) -> bool {
    let of = |name: &str| view.measured.iter().find(|of| of.device == name);
    of(HELPER).is_some_and(|of| {
        let way = of.round_trip_ms.is_some() && of.bandwidth_bytes_per_second.is_some();
        is_measured(of) && way
    }) && of(ASKING).is_some_and(|of| is_measured(of) && of.ends_us.is_some())
}

/// What `nook doctor pipeline` prints for the owner of `node`.
fn doctor(node: &Node, json: bool) -> anyhow::Result<String> {
    let mut command = Command::new(nook()?);
    command.arg("--home").arg(node.home()).args(["doctor", "pipeline"]);
    let said = command.args(json.then_some("--json")).output()?;
    anyhow::ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    Ok(String::from_utf8(said.stdout)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_stays_here_until_the_helper_is_known_to_be_faster_and_the_doctor_says_why()
-> anyhow::Result<()> {
    let house = household("when_faster").await?;
    let asking = house.asking();
    assert_eq!(asking.pipeline().await?.last, None, "no reply yet");

    // Nobody has measured the helper, and this device suffices.
    let first = asking.answer(&Wish::text(PROMPT, 24)).await?;
    assert_eq!(first.devices(), [ASKING], "{first:?}");
    let view = asking.until_pipeline("how it went", has_gone).await?;
    assert_eq!(view.pooling, PoolingView::WhenFaster);
    let reason = why(&last(&view)).expect("a reason").to_owned();
    assert!(reason.contains("has not been measured"), "{reason}");
    let said = doctor(asking, false)?;
    assert!(said.contains(HELPER) && said.contains(&reason), "{said}");
    let told: PipelineView = serde_json::from_str(&doctor(asking, true)?)?;
    assert_eq!(told.last, view.last);

    // While nobody asks anything, both are measured, and what follows is a comparison.
    asking.until_pipeline("both devices are measured", all_is_measured).await?;
    let second = asking.answer(&Wish::text(PROMPT, 24)).await?;
    assert_eq!(second.ids, first.ids);
    let is_new = |now: &PipelineView| has_gone(now) && now.last != view.last;
    let decision = last(&asking.until_pipeline("how it went", is_new).await?);
    let alone = decision.alone.expect("this device can do it alone");
    let pooled = decision.pooled.clone().expect("the helper could do it too").prediction;
    assert!(alone.measured && pooled.measured, "{decision:?}");
    // Which of the two is faster is the machine's own affair; that the faster one is taken is not.
    let is_worth_it = pooled.total_ms * 1.02 < alone.total_ms;
    assert_eq!(second.uses(HELPER), is_worth_it, "{decision:?}");
    assert_eq!(why(&decision).is_none(), is_worth_it, "{decision:?}");
    let way = if is_worth_it { pooled } else { alone };
    assert_eq!(second.expected, Some(way), "whoever waits was told so at once: {second:?}");
    let said = doctor(asking, false)?;
    for word in ["alone:", "pooled:", "went:"] {
        assert!(said.contains(word), "{said}");
    }

    // The window says the same beside the device.
    let reason = why(&decision).unwrap_or_default();
    asking
        .until("the window gives the reason", |view| {
            let device = view.devices.iter().find(|device| device.name == HELPER);
            let shown = device.and_then(|device| device.unused_because.as_deref());
            shown.map_or(is_worth_it, |shown| !is_worth_it && shown.ends_with(reason))
        })
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_computer_divides_by_itself_once_both_are_measured_and_goes_on_so()
-> anyhow::Result<()> {
    let mut house = household("when_faster").await?;
    // Mostly prompt, of which a device that is stopped again and again computes every piece more
    // slowly; each begins otherwise, so that nothing of an earlier one is left.
    let prompt = |number: usize| format!("{number}. {}", PROMPT.repeat(24));
    let wish = |number| Wish::chat(&[(ChatRole::User, prompt(number))], 8);
    let alone = house.asking().answer(&wish(0)).await?;
    assert_eq!(alone.devices(), [ASKING], "nobody has measured the helper: {alone:?}");
    // As a laptop is beside a gaming PC.
    let slow = house.node_mut(0).throttle_workers(8);
    let asking = house.asking();
    asking.until_pipeline("both devices are measured", all_is_measured).await?;
    let mut number = 1;
    let mut pooled = asking.answer(&wish(number)).await?;
    while !pooled.uses(HELPER) && number < SLOW_REPLIES_MAX {
        // How slow it has become is learnt from its replies.
        number += 1;
        pooled = asking.answer(&wish(number)).await?;
    }
    let decision = last(&asking.until_pipeline("how it went", has_gone).await?);
    assert!(pooled.uses(HELPER), "{decision:#?}");

    let messages = [
        (ChatRole::User, prompt(number)),
        (ChatRole::Assistant, pooled.text.clone()),
        (ChatRole::User, "And then?".to_owned()),
    ];
    let second = asking.answer(&Wish::chat(&messages, 8)).await?;
    assert!(second.uses(HELPER) && second.resumed > 0, "{second:?}");
    drop(slow);
    for (told, wish) in [(pooled, wish(number)), (second, Wish::chat(&messages, 8))] {
        assert_eq!(told.ids, asking.answer(&wish.alone()).await?.ids);
    }
    Ok(())
}

/// Positions that the last plan of `node` over both devices counted on them to remember.
fn counted_on(node: &Node) -> anyhow::Result<u32> {
    let log = node.log();
    let plans = log.lines().filter(|line| line.contains("a reply was planned"));
    let told = plans.filter_map(|line| line.split_once("remembered=")).next_back();
    let (_, told) = told.with_context(|| format!("no plan over both: {log}"))?;
    let number: String = told.chars().take_while(char::is_ascii_digit).collect();
    Ok(number.parse()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_helper_may_have_forgotten_is_not_counted_on_before_a_reply() -> anyhow::Result<()> {
    let plans = [
        NodePlan::new(ASKING).with(SETTING, "\"when_faster\"").logging("debug"),
        NodePlan::new(HELPER).offering("1-4"),
    ];
    let mut house = Household::sharing(plans).await?;
    house.asking().answer(&Wish::text(PROMPT, 4)).await?;
    house.asking().until_pipeline("both devices are measured", all_is_measured).await?;
    house.asking().edit_settings(SETTING, "always")?;
    let is_set = |view: &PipelineView| view.pooling == PoolingView::Always;
    house.asking().until_pipeline("the setting is read", is_set).await?;
    let mut messages = vec![(ChatRole::User, PROMPT.repeat(24))];
    let mut counted = Vec::new();
    for turn in 0..3 {
        if turn == 2 {
            house.node_mut(1).leave().await?;
            house.node_mut(1).start_again().await?;
            house.until_all_lend("ember").await?;
        }
        let told = house.asking().answer(&Wish::chat(&messages, 8)).await?;
        assert!(told.uses(HELPER), "{told:?}");
        if turn > 0 {
            counted.push((counted_on(house.asking())?, told.resumed));
        }
        messages.push((ChatRole::Assistant, told.text));
        messages.push((ChatRole::User, "And then?".to_owned()));
    }
    let [(second, gone_on), third] = counted[..] else { panic!("{counted:?}") };
    assert!(second > 256 && second == gone_on, "it remembers: {counted:?}");
    assert_eq!(third, (0, 0), "it may have forgotten, and has: {counted:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn always_means_that_helpers_are_used_whatever_it_costs() -> anyhow::Result<()> {
    let house = household("when_faster").await?;
    let asking = house.asking();
    let here = asking.answer(&Wish::text(PROMPT, 16)).await?;
    assert!(!here.uses(HELPER), "{here:?}");

    // The setting counts from the next reply on, without a restart.
    asking.edit_settings(SETTING, "always")?;
    let is_set = |view: &PipelineView| view.pooling == PoolingView::Always;
    asking.until_pipeline("the setting is read", is_set).await?;
    let pooled = asking.answer(&Wish::text(PROMPT, 16)).await?;
    assert_eq!(pooled.devices(), [ASKING, HELPER, ASKING], "{pooled:?}");
    assert_eq!(pooled.ids, here.ids);
    let is_set =
        |view: &PipelineView| view.last.as_ref().is_some_and(|last| last.because.contains(SETTING));
    let decision = last(&asking.until_pipeline("what was decided", is_set).await?);
    assert_eq!(why(&decision), None, "a device in use needs no reason: {decision:?}");
    // The reply itself has measured the helper.
    asking
        .until_pipeline("the helper is measured", |view| {
            view.measured.iter().any(|of| of.device == HELPER && of.decode_us_per_layer.is_some())
        })
        .await?;

    // What is to stay on this computer stays, whatever the setting.
    let kept = asking.answer(&Wish::text(PROMPT, 16).alone()).await?;
    assert_eq!(kept.devices(), [ASKING]);
    let stays = |view: &PipelineView| {
        view.last.as_ref().is_some_and(|last| last.because.contains("stay on this computer"))
    };
    asking.until_pipeline("what was decided", stays).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_cannot_be_asked_is_named_with_its_own_reason() -> anyhow::Result<()> {
    let house = household("when_faster").await?;
    let asking = house.asking();
    house.node(1).share(false).await?;
    asking.until("no offer", |view| view.devices.iter().all(|it| it.lends.is_empty())).await?;
    asking.answer(&Wish::text(PROMPT, 4)).await?;
    let off = last(&asking.until_pipeline("how it went", has_gone).await?);
    assert_eq!(why(&off), Some("Sharing is switched off there."));
    Ok(())
}
