//! The cap on lending is one for all models that a device lends, each of which has a worker of its
//! own.

use anyhow::Context as _;
use nook_api::views::Trust;
use nook_base::{ActivationDtype, ErrorCode, LayerRange, ModelDigest, PeerId};
use nook_link::LinkEvent;
use nook_testkit::{Asked, Device, Household, NodePlan};
use nook_wire::{Advert, Message, Open};

const CAP: &str = "distributed_inference.host.max_lent_memory_mb";
const IDLE: &str = "distributed_inference.host.shard_eviction_idle_seconds";

/// Room for half of the built-in model's layers with one long conversation, in MB.
const HALF: &str = "4";

async fn advert(device: &mut Device, holds: impl Fn(&Advert) -> bool) -> anyhow::Result<Advert> {
    loop {
        if let LinkEvent::Control { message: Message::Advert(advert), .. } =
            device.next_event().await?
            && holds(&advert)
        {
            return Ok(advert);
        }
    }
}

async fn open(device: &Device, peer: PeerId, model: ModelDigest) -> anyhow::Result<Asked> {
    let open = Open {
        session: 1,
        model,
        layers: LayerRange::with_len(0, 3),
        dtype: ActivationDtype::F32,
        positions_max: 512,
        resume: None,
    };
    device.ask_for(peer, open).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_model_has_lent_is_not_there_for_another() -> anyhow::Result<()> {
    let plan = NodePlan::new("Study PC").offering("0-2").with(CAP, HALF).with(IDLE, "3");
    let house = Household::strangers([plan]).await?;
    let host = house.asking();
    let twin = house.folder().join("twin.gguf");
    std::fs::write(&twin, host.renamed_built_in().await?)?;
    host.import(&twin, Some("twin")).await?;
    let view = host.until("both are there", |view| view.models.len() == 2).await?;
    let digest = |name: &str| -> anyhow::Result<ModelDigest> {
        let model = view.models.iter().find(|model| model.name == name);
        Ok(model.context("it is listed")?.digest.parse()?)
    };
    let (ember, twin) = (digest("ember")?, digest("twin")?);
    let mut device = Device::start("Visitor")?;
    let peer = device.pair_with(host, Trust::Trusted).await?;
    host.share(true).await?;
    let all = advert(&mut device, |advert| advert.shards.len() == 2).await?.memory_free_bytes;

    let first = open(&device, peer, ember).await?;
    assert_eq!(first.refused(), None);
    advert(&mut device, |advert| advert.memory_free_bytes < all / 2).await?;
    let second = open(&device, peer, twin).await?;
    assert_eq!(second.refused(), Some(ErrorCode::OutOfMemory));
    // What is not used any more is freed, and then the other one's.
    drop(first);
    advert(&mut device, |advert| advert.memory_free_bytes == all).await?;
    let third = open(&device, peer, twin).await?;
    assert_eq!(third.refused(), None);
    Ok(())
}
