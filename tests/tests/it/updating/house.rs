//! One download for the house: what one computer has of a release, the others take from it.

use bytes::Bytes;
use nook_link::{Link, LinkEvent};
use nook_mux::Call;
use nook_testkit::{Device, Told};
use nook_wire::{Message, Piece, ReleaseDocument, Releases, WantRelease, chunks_of};

use super::*;

/// Where nobody answers: a computer without the internet.
const NOBODY: &str = "http://127.0.0.1:9/inglenook-versions.json";

/// Three computers with the package of the old version; only the first reaches the server.
async fn three(scene: &Scene) -> anyhow::Result<Household> {
    let mut plans = vec![scene.plan_that_asks()];
    for name in ["Study PC", "Attic PC"] {
        let prefix = scene.folder.path().join(name);
        scene.install(&prefix)?;
        plans.push(scene.plan_of(name, &prefix, NOBODY));
    }
    let house = Household::strangers(plans).await?;
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        house.pair(one, other, Trust::Trusted).await?;
    }
    Ok(house)
}

fn is_told(view: &HouseholdView) -> bool {
    view.updates.newer.is_some()
}

/// Whether the package can be had from this device.
fn is_there(name: &str) -> impl Fn(&HouseholdView) -> bool {
    move |view| {
        view.updates.newer.as_ref().is_some_and(|newer| newer.device.as_deref() == Some(name))
    }
}

fn is_new(view: &HouseholdView) -> bool {
    view.me.app_version == NEWER
}

#[tokio::test(flavor = "multi_thread")]
async fn a_house_of_three_updates_over_one_download_and_a_reply_is_not_cut() -> anyhow::Result<()> {
    let scene = Scene::new()?;
    scene.offer(&scene.newer()?)?;
    let house = three(&scene).await?;
    let [laptop, study, attic] = house.nodes() else { anyhow::bail!("three of them") };
    // All of them hear of it, and two reach no server.
    for node in [laptop, study, attic] {
        let view = node.until("the newer version is shown", is_told).await?;
        assert_eq!(view.updates.newer.context("it is")?.device, None, "nobody has it yet");
    }
    let asking = Wish::text("Once upon a time", 120).alone();
    let alone: Told = attic.answer(&asking).await?;

    laptop.client().install_update().await?;
    until_back(laptop, is_new).await?;
    assert_eq!(downloads(&scene), 1);
    // What the first one has loaded stays there for the others.
    study.until("the laptop has the package", is_there("Kitchen laptop")).await?;
    study.client().install_update().await?;
    until_back(study, is_new).await?;

    let mut reply = attic.reply(&asking).await?;
    reply.until(2).await?;
    let has_both = |view: &HouseholdView| are_there(view) && is_told(view);
    attic.until("both are back", has_both).await?;
    attic.client().install_update().await?;
    let told = reply.whole().await?;
    told.assert_says(&alone);
    until_back(attic, is_new).await?;
    assert_eq!(downloads(&scene), 1, "once for the house");
    for node in [laptop, study, attic] {
        let view = node.until("all are connected again", are_there).await?;
        assert!(is_new(&view) && view.updates.newer.is_none(), "{:?}", view.updates);
    }
    Ok(())
}

/// Whether the two others are connected.
fn are_there(view: &HouseholdView) -> bool {
    view.devices.iter().filter(|it| it.connected).count() == 2
}

/// A paired device that says that it has this of a release.
struct Giver {
    device: Device,
    link: Link,
    /// The call on which something was asked for last.
    call: Option<Call<Message>>,
}

impl Giver {
    async fn of(node: &Node) -> anyhow::Result<Self> {
        let mut device = Device::start("Attic PC")?;
        let peer = device.pair_with(node, Trust::Trusted).await?;
        let link = device.until_linked(peer).await?;
        Ok(Self { device, link, call: None })
    }

    async fn says(&self, release: &Release, serial: u64) -> anyhow::Result<()> {
        let digest = data_encoding::HEXLOWER.decode(release.sha256.as_bytes())?;
        let releases = Releases {
            serial,
            list_bytes: u32::try_from(release.list.len())?,
            signature_bytes: u32::try_from(release.signature.len())?,
            packages: vec![digest.as_slice().try_into()?],
        };
        Ok(self.link.mux().send(Message::Releases(releases)).await?)
    }

    /// What is asked for next, on the last call or another one.
    async fn asked(&mut self) -> anyhow::Result<WantRelease> {
        loop {
            if let Some(mut call) = self.call.take()
                && let Ok(Message::WantRelease(want)) = call.recv().await
            {
                self.call = Some(call);
                return Ok(want);
            }
            // Everything else that the node wants of a device is not to be had here.
            if let LinkEvent::IncomingCall { call, .. } = self.device.next_event().await? {
                self.call = Some(call);
            }
        }
    }

    /// Gives `bytes`, whatever is asked for next; what that was.
    async fn gives(&mut self, bytes: &[u8]) -> anyhow::Result<ReleaseDocument> {
        let want = self.asked().await?;
        let call = self.call.as_mut().context("it was asked on a call")?;
        let from = usize::try_from(want.from)?;
        for piece in bytes.get(from..).unwrap_or_default().chunks(1 << 18) {
            let at = piece.as_ptr().addr() - bytes.as_ptr().addr();
            let head = Piece { from: at as u64, bytes: u32::try_from(piece.len())? };
            call.send(Message::Piece(head)).await?;
            for chunk in chunks_of(Bytes::copy_from_slice(piece)) {
                call.send(Message::Chunk(chunk)).await?;
            }
        }
        Ok(want.document)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn u12_a_list_that_a_device_gives_is_taken_only_where_it_is_signed() -> anyhow::Result<()> {
    let scene = Scene::new()?;
    let plan = scene.plan_of("Kitchen laptop", &scene.prefix(), NOBODY);
    let house = Household::strangers([plan]).await?;
    let node = house.asking();
    let mut giver = Giver::of(node).await?;
    let right = scene.release(b"#!/bin/sh\n", &scene.maker)?;
    let forged = scene.release(b"#!/bin/sh\n", &KeyPair::generate_unencrypted_keypair()?)?;
    giver.says(&forged, 9).await?;
    assert_eq!(giver.gives(&forged.list).await?, ReleaseDocument::List);
    assert_eq!(giver.gives(&forged.signature).await?, ReleaseDocument::Signature);
    let kept = node.home().join("updates/versions.json");
    // It is not asked for again; the right one, of which less was promised, is.
    giver.says(&forged, 9).await?;
    giver.says(&right, 8).await?;
    assert_eq!(giver.gives(&right.list).await?, ReleaseDocument::List);
    assert!(!kept.exists() && !is_told(&node.view().await?), "nothing came of the forged one");
    assert_eq!(giver.gives(&right.signature).await?, ReleaseDocument::Signature);
    node.until("the newer version is shown", is_there("Attic PC")).await?;
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(kept)?)?;
    assert_eq!(kept["list"].as_str().map(str::as_bytes), Some(&*right.list));
    assert_eq!(kept["signature"].as_str().map(str::as_bytes), Some(&*right.signature));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn u12_a_package_that_a_device_gives_is_taken_only_where_the_list_names_it()
-> anyhow::Result<()> {
    let scene = Scene::new()?;
    let plan = scene.plan_of("Kitchen laptop", &scene.prefix(), NOBODY);
    let house = Household::strangers([plan]).await?;
    let node = house.asking();
    let mut giver = Giver::of(node).await?;
    let right = scene.release(&scene.newer()?, &scene.maker)?;
    let sha256 = right.sha256.clone();
    let refused = node.client().bring_update(sha256.clone()).await;
    assert!(refused.is_err(), "nobody has it");
    giver.says(&right, 2).await?;
    giver.gives(&right.list).await?;
    giver.gives(&right.signature).await?;
    node.until("the newer version is shown", is_there("Attic PC")).await?;
    let refused = node.client().bring_update("07".repeat(32)).await;
    assert!(refused.is_err(), "no list names it");

    let mut wrong = right.package.clone();
    wrong[1000] ^= 1;
    let (refused, asked) =
        tokio::join!(node.client().bring_update(sha256.clone()), giver.gives(&wrong));
    assert!(matches!(asked?, ReleaseDocument::Package(_)));
    assert!(refused.is_err(), "its digest is another one");
    let downloads = node.home().join("updates/downloads");
    let held = |kind: &str| -> anyhow::Result<bool> {
        let mut entries = fs::read_dir(&downloads)?.collect::<Result<Vec<_>, _>>()?.into_iter();
        Ok(entries.any(|it| it.path().extension().is_some_and(|end| end == kind)))
    };
    assert!(!held("gguf")? && !held("partial")?, "nothing of it stays");
    let (brought, asked) =
        tokio::join!(node.client().bring_update(sha256), giver.gives(&right.package));
    brought?;
    asked?;
    assert!(held("gguf")?, "whoever installs finds it");
    Ok(())
}
