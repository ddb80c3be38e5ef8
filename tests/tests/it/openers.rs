//! The cap on streams holds for a host as a whole: over all its models, each of which has a worker
//! of its own, over all devices, and whoever comes at the same moment.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use nook_api::Vitals;
use nook_api::views::Trust;
use nook_base::tasks::Tasks;
use nook_base::{ActivationDtype, ErrorCode, LayerRange, ModelDigest};
use nook_link::Link;
use nook_mux::Call;
use nook_testkit::{Device, Household, Node, NodePlan};
use nook_wire::{Message, Open};
use tokio::sync::{Barrier, mpsc};

const HELPER: &str = "Study PC";

/// As many as a host shows its code to within an hour.
const DEVICES: [&str; 5] = ["Kitchen laptop", "Attic PC", "Garden PC", "Cellar PC", "Hall PC"];

/// Calls that each opens at once: a link takes 64.
const CALLS: usize = 60;

/// So that there were more than a thousand in all.
const ROUNDS: usize = 4;

const STREAMS: usize = 3;

/// Between two tries of a device that is told that all streams are taken.
const PAUSE: Duration = Duration::from_millis(200);

/// How long it tries: less than the three minutes after which a worker ends a call by itself.
const PATIENCE: Duration = Duration::from_secs(120);

fn open(session: u64, model: ModelDigest) -> Open {
    Open {
        session,
        model,
        layers: LayerRange::with_len(1, 4),
        dtype: ActivationDtype::F32,
        positions_max: 64,
        resume: None,
    }
}

/// Asks for layers; the call, or the code of the refusal.
async fn ask(link: &Link, open: Open) -> anyhow::Result<Result<Call<Message>, ErrorCode>> {
    let mut call = link.mux().open_call().await?;
    call.send(Message::Open(open)).await?;
    match call.recv().await? {
        Message::Opened { .. } => Ok(Ok(call)),
        Message::Error(error) => Ok(Err(error.code)),
        other => anyhow::bail!("an OPEN was answered by {other:?}"),
    }
}

/// A node that lends so many streams.
async fn lending() -> anyhow::Result<Household> {
    let plan = NodePlan::new(HELPER)
        .offering("1-4")
        .with("distributed_inference.host.serve_shards", "true")
        .with("distributed_inference.host.max_concurrent_streams", STREAMS.to_string());
    Household::strangers([plan]).await
}

/// Devices of these names that `node` trusts, linked to it.
async fn linked(node: &Node, names: &[&'static str], tasks: &Tasks) -> anyhow::Result<Vec<Link>> {
    let mut links = Vec::new();
    for name in names {
        let mut device = Device::start(name)?;
        let peer = device.pair_with(node, Trust::Trusted).await?;
        links.push(device.until_linked(peer).await?);
        // Every stream that begins or ends is an advert to everybody.
        tasks.spawn_until_cancelled("reader", async move {
            while device.any_event().await.is_some() {}
        });
    }
    Ok(links)
}

/// Opens all calls at once, in turn for one and the other model; those that were accepted.
async fn all_at_once(
    links: &[Link],
    models: [ModelDigest; 2],
    tasks: &Tasks,
) -> anyhow::Result<Vec<Call<Message>>> {
    let count = links.len() * CALLS;
    let start = Arc::new(Barrier::new(count));
    let (tell, mut told) = mpsc::channel(count);
    for number in 0..count {
        let link = links[number % links.len()].clone();
        let (start, tell) = (Arc::clone(&start), tell.clone());
        let open = open(number as u64, models[number / links.len() % models.len()]);
        tasks.spawn("opener", async move {
            start.wait().await;
            let _ = tell.send(ask(&link, open).await).await;
        });
    }
    drop(tell);
    let mut accepted = Vec::new();
    while let Some(asked) = told.recv().await {
        match asked? {
            Err(code) => assert_eq!(code, ErrorCode::Busy),
            Ok(call) => accepted.push(call),
        }
    }
    Ok(accepted)
}

#[tokio::test(flavor = "multi_thread")]
async fn t10_the_cap_on_streams_is_exact_over_all_workers_of_a_host() -> anyhow::Result<()> {
    let house = lending().await?;
    let node = house.node(0);
    // A second model is a second worker.
    let (file, first) = node.built_in().await?;
    let mut bytes = fs::read(file)?;
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    let twin = house.folder().join("twin.gguf");
    fs::write(&twin, bytes)?;
    node.import(&twin, Some("twin")).await?;
    let others = node.view().await?.models.into_iter().map(|model| model.digest.parse());
    let others = others.collect::<Result<Vec<ModelDigest>, _>>()?;
    let second = others.into_iter().find(|model| *model != first).expect("it was imported");
    let tasks = Tasks::new();
    let links = linked(node, &DEVICES, &tasks).await?;
    for round in 0..ROUNDS {
        // One stream of either model is held, so that both workers share what is left.
        let models = if round % 2 == 0 { [first, second] } else { [second, first] };
        let mut accepted = Vec::new();
        for (number, model) in (1_000..).zip(models) {
            accepted.push(ask(&links[0], open(number, model)).await?.expect("a free stream"));
        }
        accepted.extend(all_at_once(&links, models, &tasks).await?);
        assert_eq!(accepted.len(), STREAMS, "{round}");
        let vitals = node.vitals().await?;
        assert_eq!(usize::from(vitals.streams), STREAMS, "{vitals:?}");
        let guests = |vitals: &Vitals| -> Vec<u16> {
            vitals.workers.iter().map(|worker| worker.guest_sessions).collect()
        };
        assert_eq!(guests(&vitals).iter().sum::<u16>() as usize, STREAMS, "{vitals:?}");
        assert!(guests(&vitals).iter().filter(|count| **count > 0).count() == 2, "{vitals:?}");
        drop(accepted);
        node.until_vitals("all streams have ended", |vitals| {
            vitals.streams == 0 && vitals.workers.iter().all(|it| it.sessions == 0)
        })
        .await?;
    }
    tasks.cancel();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_streams_on_which_nothing_is_asked_give_way_to_a_device_that_has_none()
-> anyhow::Result<()> {
    let house = lending().await?;
    let node = house.node(0);
    let (_, model) = node.built_in().await?;
    let tasks = Tasks::new();
    let links = linked(node, &DEVICES[..2], &tasks).await?;
    let mut held = Vec::new();
    for number in 0..STREAMS as u64 {
        held.push(ask(&links[0], open(number, model)).await?.expect("a free stream"));
    }
    let mut numbers = 1_000..;
    let waits = async {
        loop {
            let number = numbers.next().unwrap_or_default();
            match ask(&links[1], open(number, model)).await? {
                Ok(call) => return anyhow::Ok(call),
                Err(code) => assert_eq!(code, ErrorCode::Busy),
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _let_in = tokio::time::timeout(PATIENCE, waits).await??;
    // The first one was told so, and can take along what is remembered; the others stay.
    assert!(matches!(held[0].recv().await?, Message::Draining { .. }));
    assert_eq!(usize::from(node.vitals().await?.streams), STREAMS);
    tasks.cancel();
    Ok(())
}
