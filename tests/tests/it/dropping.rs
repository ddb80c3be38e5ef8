//! A chat that is deleted leaves nothing with the devices that computed for it, parts of the model
//! or all, nor does one whose devices are trusted less, or whose model goes; one that stays knows
//! which of them computed which words.
//!
//! The asking node lives in this process, because chats are the window's and have no other door;
//! the host, and the workers of both, are processes of their own.

use std::time::Duration;

use anyhow::Context as _;
use nook_api::NodeCalls as _;
use nook_api::views::{DeviceView, ReplyEvent, ReplySummary, Trust};
use nook_api::{ChatStart, NodeHandle, PairTarget, Reach, Turn, TurnText, Vitals};
use nook_node::{NodeOptions, WorkerCommand};
use nook_testkit::{Household, Node, NodePlan, Signal, nook};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";

/// Longer than a piece of prefill, so that there is something to go on with.
const QUESTION: &str = "Tell me a story about a lighthouse and a snail that climbs it, slowly. ";

/// Longest wait for what a worker gives back soon after it was asked to.
const LIMIT: Duration = Duration::from_secs(40);

/// An asking node in this process, and a host.
struct Scene {
    asking: NodeHandle,
    house: Household,
    /// What each conversation leaves here, in conversations kept.
    here: u16,
    _home: tempfile::TempDir,
}

/// A host that lends all inner layers; the two ends of the model are here.
async fn divided() -> anyhow::Result<Scene> {
    divided_with("").await
}

async fn divided_with(more: &str) -> anyhow::Result<Scene> {
    let scene = scene(more, NodePlan::new(HELPER).offering("1-4"), Trust::Trusted, 2).await?;
    let mut view = scene.asking.view();
    view.wait_for(|view| view.devices.iter().any(|device| !device.lends.is_empty())).await?;
    Ok(scene)
}

/// A host of the same person that runs requests whole; nothing of them is computed here.
async fn whole() -> anyhow::Result<Scene> {
    let lets_words_out = "whole_on_own_devices = true\n";
    let scene = scene(lets_words_out, NodePlan::new(HELPER), Trust::Own, 0).await?;
    let mut view = scene.asking.view();
    view.wait_for(|view| view.devices.iter().any(|device| device.takes_whole)).await?;
    Ok(scene)
}

async fn scene(more: &str, host: NodePlan, trust: Trust, here: u16) -> anyhow::Result<Scene> {
    let home = tempfile::Builder::new().prefix("nook-drop-").tempdir()?;
    let settings = format!(
        "[device]\nname = \"{ASKING}\"\nkeyring = \"off\"\n[network]\nlisten_port = 0\n\
         loopback = true\n[distributed_inference]\npooling = \"always\"\n{more}"
    );
    std::fs::write(home.path().join("settings.toml"), settings)?;
    let program = tokio::task::spawn_blocking(nook).await??;
    let worker = WorkerCommand { program: program.into(), arguments: vec!["worker".into()] };
    let options = NodeOptions { home: Some(home.path().to_owned()), worker };
    let asking = nook_node::start(options).await?;
    let house = Household::strangers([host]).await?;
    let host = house.node(0);
    let window = host.client().show_code().await?;
    let address = window.addresses.last().context("a code comes with an address")?.clone();
    let device = asking.join(PairTarget::Address(address), window.code.into()).await?;
    asking.set_trust(device.id, trust).await?;
    host.until("it is paired", |view| !view.devices.is_empty()).await?;
    host.trust(ASKING, trust).await?;
    host.share(true).await?;
    Ok(Scene { asking, house, here, _home: home })
}

impl Scene {
    fn host(&self) -> &Node {
        self.house.node(0)
    }

    /// Says something, and waits for the whole reply; which conversation it was, and its numbers.
    async fn say(&self, turn: Turn) -> anyhow::Result<(i64, ReplySummary)> {
        let mut started = self.asking.say(turn).await?;
        while let Some(piece) = started.reply.events.recv().await {
            match piece.event {
                ReplyEvent::Done { summary } => return Ok((started.conversation, summary)),
                ReplyEvent::PipelineAborted { sentence, .. } => anyhow::bail!(sentence),
                _ => {}
            }
        }
        anyhow::bail!("the reply has no end")
    }

    async fn begin(&self, about: &str, temporary: bool) -> anyhow::Result<i64> {
        self.begin_by("ember", about, temporary).await
    }

    async fn begin_by(&self, model: &str, about: &str, temporary: bool) -> anyhow::Result<i64> {
        let start = ChatStart { temporary, ..ChatStart::default() };
        let turn = turn(None, start, TurnText::New { text: asks(about), parent: None });
        let turn = Turn { model: model.to_owned(), ..turn };
        let (conversation, summary) = self.say(turn).await?;
        let legs = &summary.route.legs;
        assert!(legs.iter().any(|leg| leg.device == HELPER), "{summary:?}");
        assert_eq!(legs.iter().any(|leg| leg.local), self.here > 0, "{summary:?}");
        Ok(conversation)
    }

    /// Sets how far the host is trusted here.
    async fn trust_host(&self, trust: Trust) -> anyhow::Result<()> {
        let id = self.host().view().await?.me.id;
        Ok(self.asking.set_trust(id, trust).await?)
    }

    /// Waits until the host may be asked, as one that lends layers or as one that runs everything.
    async fn until_asked(&self) -> anyhow::Result<()> {
        let (mut view, is_whole) = (self.asking.view(), self.here == 0);
        let may = |device: &DeviceView| match is_whole {
            true => device.takes_whole,
            false => device.connected && !device.lends.is_empty(),
        };
        let asked = view.wait_for(|view| view.devices.iter().any(may));
        tokio::time::timeout(LIMIT, asked).await.context("the host may be asked")??;
        Ok(())
    }

    async fn until_linked(&self, is_linked: bool) -> anyhow::Result<()> {
        let mut view = self.asking.view();
        let linked =
            view.wait_for(|view| view.devices.iter().any(|device| device.connected == is_linked));
        tokio::time::timeout(LIMIT, linked).await.context("the link")??;
        Ok(())
    }

    /// Waits until so many conversations are kept on the host, and on this device; the host's
    /// bytes.
    async fn until_kept(&self, count: u16) -> anyhow::Result<u64> {
        let is_so = |vitals: &Vitals| !vitals.workers.is_empty() && kept(vitals) == count;
        let vitals = self.host().until_vitals(&format!("{count} are kept"), is_so).await?;
        let here = async {
            while kept(&self.asking.vitals().await?) != self.here * count {
                tokio::task::yield_now().await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(LIMIT, here).await.context("what is kept here")??;
        Ok(vitals.workers.iter().map(|worker| worker.parked_bytes).sum())
    }
}

fn kept(vitals: &Vitals) -> u16 {
    vitals.workers.iter().map(|worker| worker.parked).sum()
}

fn asks(about: &str) -> nook_base::Sensitive<String> {
    nook_base::Sensitive(format!("{about} {}", QUESTION.repeat(6)))
}

fn turn(conversation: Option<i64>, start: ChatStart, text: TurnText) -> Turn {
    Turn { conversation, start, text, model: "ember".to_owned(), reach: Reach::House }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_chat_is_dropped_by_its_hosts_at_once_and_the_others_go_on() -> anyhow::Result<()>
{
    check_deleting(divided().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_chat_is_dropped_by_the_device_that_ran_it_whole() -> anyhow::Result<()> {
    check_deleting(whole().await?).await
}

async fn check_deleting(scene: Scene) -> anyhow::Result<()> {
    let stays = scene.begin("Stay.", false).await?;
    let one = scene.until_kept(1).await?;
    assert!(one > 0);
    let gone = scene.begin("Go away.", false).await?;
    assert!(scene.until_kept(2).await? > one);
    scene.asking.delete_conversation(gone).await?;
    assert_eq!(scene.until_kept(1).await?, one, "its memory is free, and only its");
    // A temporary chat that is closed is deleted.
    let passing = scene.begin("Nobody keeps this.", true).await?;
    assert!(scene.until_kept(2).await? > one);
    scene.asking.delete_conversation(passing).await?;
    assert_eq!(scene.until_kept(1).await?, one);
    // The chat that stayed goes on where it was.
    let messages = scene.asking.messages(stays).await?;
    let last = messages.last().context("it has messages")?;
    let text = TurnText::New { text: asks("And then?"), parent: Some(last.id) };
    let (_, summary) = scene.say(turn(Some(stays), ChatStart::default(), text)).await?;
    assert!(summary.resumed_tokens > 64, "{summary:?}");
    scene.asking.delete_conversation(stays).await?;
    assert_eq!(scene.until_kept(0).await?, 0);
    scene.asking.shut_down().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_trusted_less_keeps_nothing_of_what_it_computed() -> anyhow::Result<()> {
    check_demotion(divided().await?, &[Trust::Guest, Trust::Blocked]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_not_the_same_persons_any_more_keeps_nothing_of_what_it_ran_whole()
-> anyhow::Result<()> {
    check_demotion(whole().await?, &[Trust::Trusted, Trust::Guest, Trust::Blocked]).await
}

/// Trusts the host less, and at the end not at all; what it keeps goes at once, and what is kept of
/// it here. Nobody waits for the time after which it would go anyway, which is longer than this
/// test may take.
async fn check_demotion(scene: Scene, levels: &[Trust]) -> anyhow::Result<()> {
    let before = if scene.here == 0 { Trust::Own } else { Trust::Trusted };
    for level in levels {
        scene.begin("Stay.", false).await?;
        assert!(scene.until_kept(1).await? > 0);
        scene.trust_host(*level).await?;
        assert_eq!(scene.until_kept(0).await?, 0, "{level:?}");
        scene.trust_host(before).await?;
        scene.until_asked().await?;
    }
    scene.begin("Stay.", false).await?;
    scene.until_kept(1).await?;
    let id = scene.host().view().await?.me.id;
    scene.asking.forget(id).await?;
    assert_eq!(scene.until_kept(0).await?, 0, "it is not paired any more");
    scene.asking.shut_down().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_drops_by_itself_what_it_keeps_for_a_device_that_its_owner_trusts_less()
-> anyhow::Result<()> {
    let scene = divided().await?;
    for level in [Trust::Guest, Trust::Blocked] {
        scene.begin("Stay.", false).await?;
        scene.host().until_vitals("one is kept", |vitals| kept(vitals) == 1).await?;
        scene.host().trust(ASKING, level).await?;
        scene.host().until_vitals("nothing is kept", |vitals| kept(vitals) == 0).await?;
        scene.host().trust(ASKING, Trust::Trusted).await?;
        scene.until_asked().await?;
    }
    scene.asking.shut_down().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_while_a_host_is_away_is_dropped_when_it_is_back() -> anyhow::Result<()> {
    let mut scene = divided().await?;
    let chat = scene.begin("Go away.", false).await?;
    scene.until_kept(1).await?;
    // It keeps what it has, and hears nothing; a reply finds that out soon, and is made here.
    scene.house.node_mut(0).signal(Signal::Stop);
    let text = TurnText::New { text: asks("Go away too."), parent: None };
    let (second, _) = scene.say(turn(None, ChatStart::default(), text)).await?;
    scene.until_linked(false).await?;
    for chat in [chat, second] {
        scene.asking.delete_conversation(chat).await?;
    }
    scene.house.node_mut(0).signal(Signal::Continue);
    scene.until_linked(true).await?;
    assert_eq!(scene.until_kept(0).await?, 0);
    scene.asking.shut_down().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_left_is_dropped_with_it() -> anyhow::Result<()> {
    let scene = divided().await?;
    let (file, _) = scene.host().built_in().await?;
    let mut bytes = std::fs::read(file)?;
    *bytes.last_mut().context("a model has bytes")? ^= 1;
    let twin = scene.house.folder().join("twin.gguf");
    std::fs::write(&twin, bytes)?;
    scene.host().import(&twin, Some("twin")).await?;
    let mut view = scene.asking.view();
    scene.asking.import_model(twin, Some("twin".to_owned())).await?;
    let lends = |device: &DeviceView| device.lends.iter().any(|lend| lend.model == "twin");
    view.wait_for(|view| view.devices.iter().any(lends)).await?;
    scene.begin("Stay.", false).await?;
    let one = scene.until_kept(1).await?;
    scene.begin_by("twin", "Go away.", false).await?;
    assert!(scene.until_kept(2).await? > one);
    scene.asking.remove_model("twin".to_owned()).await?;
    assert_eq!(scene.until_kept(1).await?, one);
    scene.asking.shut_down().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_is_deleted_while_it_is_answered_leaves_nothing_either() -> anyhow::Result<()> {
    check_deleting_early(divided().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_is_deleted_while_it_runs_whole_elsewhere_leaves_nothing_there()
-> anyhow::Result<()> {
    check_deleting_early(whole().await?).await
}

async fn check_deleting_early(scene: Scene) -> anyhow::Result<()> {
    let text = TurnText::New { text: asks("Go away."), parent: None };
    let mut started = scene.asking.say(turn(None, ChatStart::default(), text)).await?;
    let mut is_deleted = false;
    while let Some(piece) = started.reply.events.recv().await {
        if !is_deleted && matches!(piece.event, ReplyEvent::TokenDelta { .. }) {
            scene.asking.delete_conversation(started.conversation).await?;
            is_deleted = true;
        }
    }
    assert!(is_deleted);
    let is_over = |vitals: &Vitals| {
        vitals.streams == 0 && vitals.workers.iter().all(|worker| worker.sessions == 0)
    };
    scene.host().until_vitals("the stream is over", is_over).await?;
    assert_eq!(scene.until_kept(0).await?, 0);
    scene.asking.shut_down().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_reply_knows_which_devices_computed_which_of_its_words() -> anyhow::Result<()> {
    // A reply that is drawn by chance may be over before its fifth token.
    let mut scene = divided_with("[chat]\ntemperature = 0.0\n").await?;
    // Starts the worker, which is slow from then on, so that it is lost far from the end.
    scene.begin("Stay.", false).await?;
    let mut slow = Some(scene.house.node_mut(0).throttle_workers(16));
    let text = TurnText::New { text: asks("Stay too."), parent: None };
    let mut started = scene.asking.say(turn(None, ChatStart::default(), text)).await?;
    while let Some(piece) = started.reply.events.recv().await {
        match piece.event {
            ReplyEvent::TokenDelta { tokens, .. } if tokens >= 5 && slow.take().is_some() => {
                scene.house.node_mut(0).signal(Signal::Kill);
            }
            ReplyEvent::PipelineAborted { sentence, .. } => anyhow::bail!(sentence),
            _ => {}
        }
    }
    let messages = scene.asking.messages(started.conversation).await?;
    let reply = messages.last().context("there is a reply")?;
    let summary = reply.summary.as_ref().context("it is whole")?;
    let [with, without] = &reply.stretches[..] else { anyhow::bail!("{:?}", reply.stretches) };
    assert_eq!((with.at, with.after_tokens), (0, 0));
    assert!(with.route.legs.iter().any(|leg| leg.device == HELPER), "{with:?}");
    assert!(without.route.legs.iter().all(|leg| leg.local), "{without:?}");
    assert_eq!(without.after_tokens, summary.failovers[0].after_tokens);
    let units = reply.text.encode_utf16().count() as u64;
    assert!((5..units).contains(&u64::from(without.at)), "{} of {units}", without.at);
    scene.asking.shut_down().await;
    Ok(())
}
