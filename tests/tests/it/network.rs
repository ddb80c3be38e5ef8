//! A helper behind a bad cable: slow, narrow, torn, or dead in one direction. The reply is the one
//! that an undisturbed household gives, and when the cable is good again the helper helps again.

use std::time::Duration;

use nook_base::LayerRange;
use nook_testkit::{Cable, Device, Household, Lender, NodePlan, Proxy, Told, Weather, Wish};

const ASKING: &str = "Kitchen laptop";
const FAR: &str = "Attic PC";

const GOOD: Cable =
    Cable { delay: Duration::ZERO, jitter: Duration::ZERO, bytes_per_second: None, is_cut: false };

const CUT: Cable = Cable { is_cut: true, ..GOOD };

/// One who asks, and a helper for the whole middle that is reached through a proxy alone.
struct Scene {
    // The helper ends before the proxy, so that nothing of it waits there.
    _far: Lender,
    proxy: Proxy,
    house: Household,
}

async fn scene() -> anyhow::Result<Scene> {
    let house = Household::apart_with_test([NodePlan::new(ASKING)]).await?;
    let proxy = Proxy::start(house.asking().listens_at().await?, 4).await?;
    let device = Device::behind(FAR, proxy.address())?;
    let layers = LayerRange::with_len(1, 4);
    let far = Lender::play(device, house.asking(), layers, 1 << 30).await?;
    Ok(Scene { _far: far, proxy, house })
}

impl Scene {
    /// A reply that begins with the helper, and changes weather after some tokens.
    async fn check(&self, wish: &Wish, after: usize, weather: Weather) -> anyhow::Result<Told> {
        let asking = self.house.asking();
        let undisturbed = asking.answer(&wish.clone().alone()).await?;
        let reply = if after == 0 {
            let mut reply = asking.reply(wish).await?;
            self.proxy.set(weather);
            reply.until_started().await?;
            reply
        } else {
            let (reply, held) = asking.held_reply(wish, after).await?;
            self.proxy.set(weather);
            drop(held);
            reply
        };
        assert!(reply.told().uses(FAR), "{:?}", reply.told());
        let told = reply.whole().await?;
        assert_eq!(told.ids, undisturbed.ids, "{told:?}");
        assert_eq!(told.text, undisturbed.text);
        Ok(told)
    }

    /// The cable is good again: the helper comes back by itself, and helps to the end.
    async fn mends(&self, wish: &Wish) -> anyhow::Result<()> {
        self.proxy.set(Weather::default());
        let is_back = "the helper is back";
        let view = |view: &nook_api::views::HouseholdView| {
            view.devices.iter().any(|it| it.name == FAR && it.connected && !it.lends.is_empty())
        };
        self.house.asking().until(is_back, view).await?;
        let told = self.check(wish, 1, Weather::default()).await?;
        assert_eq!(told.devices(), [ASKING, FAR, ASKING], "{told:?}");
        Ok(())
    }
}

fn short(tokens: u32) -> Wish {
    Wish::text("Once upon a time", tokens)
}

/// Several pieces of prefill.
fn long(tokens: u32) -> Wish {
    let text = "Once upon a time there was a purple vampire called Bonny. ".repeat(24);
    Wish::text(&text, tokens)
}

#[tokio::test]
async fn f4_a_cable_of_200_ms_that_varies_by_150_changes_nothing() -> anyhow::Result<()> {
    let scene = scene().await?;
    let (delay, jitter) = (Duration::from_millis(200), Duration::from_millis(150));
    let far = Weather::both(Cable { delay, jitter, ..GOOD });
    let told = scene.check(&short(24), 2, far).await?;
    // Slow is not dead: nobody was given up, and no link was thrown away.
    assert_eq!(told.devices(), [ASKING, FAR, ASKING], "{told:?}");
    assert!(told.lost.is_empty() && told.failovers.is_empty(), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn f4_a_cable_of_one_megabit_changes_nothing() -> anyhow::Result<()> {
    let scene = scene().await?;
    let narrow = Weather::both(Cable { bytes_per_second: Some(125_000), ..GOOD });
    let told = scene.check(&long(24), 0, narrow).await?;
    assert_eq!(told.devices(), [ASKING, FAR, ASKING], "{told:?}");
    assert!(told.lost.is_empty() && told.failovers.is_empty(), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn f4_a_cable_that_tears_at_every_twentieth_read_changes_nothing() -> anyhow::Result<()> {
    let scene = scene().await?;
    let torn = Weather { resets_per_thousand: 50, ..Weather::default() };
    let wish = short(160);
    scene.check(&wish, 10, torn).await?;
    assert!(scene.proxy.resets() > 0, "it tore");
    let asking = scene.house.asking();
    let undisturbed = asking.answer(&wish.clone().alone()).await?;
    for _ in 0..8 {
        let told = asking.answer(&wish).await?;
        assert_eq!(told.ids, undisturbed.ids, "{told:?}");
    }
    scene.mends(&short(24)).await
}

#[tokio::test]
async fn f4_a_cable_that_is_cut_in_one_direction_changes_nothing() -> anyhow::Result<()> {
    let scene = scene().await?;
    let cuts = [
        Weather { onward: CUT, ..Weather::default() },
        Weather { back: CUT, ..Weather::default() },
    ];
    for cut in cuts {
        let told = scene.check(&short(160), 10, cut).await?;
        assert!(!told.uses(FAR) && told.fell_back, "{cut:?} {told:?}");
        assert_eq!(told.lost, [FAR], "{cut:?}");
        // What the cut held back comes now, for calls that are long over.
        scene.mends(&short(24)).await?;
    }
    Ok(())
}
