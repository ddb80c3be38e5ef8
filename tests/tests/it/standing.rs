//! What holds while nothing is asked: sharing that is off is inert (I-9), a node that restarts is
//! the same node, and one home has one node.

use std::process::Command;

use nook_api::views::Trust;
use nook_base::{ActivationDtype, ErrorCode, LayerRange};
use nook_testkit::{Device, Household, NodePlan, Signal, Wish, nook};
use nook_wire::{Advert, Message, Open};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";

#[tokio::test(flavor = "multi_thread")]
async fn i9_sharing_that_is_off_is_inert() -> anyhow::Result<()> {
    let house =
        Household::strangers([NodePlan::new(ASKING), NodePlan::new(HELPER).offering("1-4")])
            .await?;
    house.pair(0, 1, Trust::Trusted).await?;
    let (asking, helper) = (house.asking(), house.node(1));
    asking.until("the link stands", |view| view.devices.iter().any(|it| it.connected)).await?;

    // A device of the test's own hears every advert, and asks although none says so.
    let mut device = Device::start("Visitor")?;
    let peer = device.pair_with(helper, Trust::Trusted).await?;
    let open = Open {
        session: 1,
        model: helper.view().await?.models[0].digest.parse()?,
        layers: LayerRange::with_len(1, 4),
        dtype: ActivationDtype::F16,
        positions_max: 16,
        resume: None,
    };
    let refused = device.ask_for(peer, open.clone()).await?.refused();
    assert_eq!(refused, Some(ErrorCode::SwitchedOff));
    let advert = next_advert(&mut device).await?;
    assert!(!advert.sharing && advert.shards.is_empty(), "{advert:?}");
    assert!(asking.view().await?.devices.iter().all(|device| device.lends.is_empty()));
    assert_eq!(helper.workers(), [0; 0], "no worker for others");
    let told = asking.answer(&Wish::text("Once", 4)).await?;
    assert!(!told.uses(HELPER), "{told:?}");

    // Switched on and off again, it is inert again; whoever asks is told why.
    helper.share(true).await?;
    asking.until("an offer", |view| view.devices.iter().any(|it| !it.lends.is_empty())).await?;
    helper.share(false).await?;
    asking.until("no offer", |view| view.devices.iter().all(|it| it.lends.is_empty())).await?;
    let refused = device.ask_for(peer, open).await?.refused();
    assert_eq!(refused, Some(ErrorCode::SwitchedOff));
    assert_eq!(helper.workers(), [0; 0], "offers alone start no worker");
    Ok(())
}

async fn next_advert(device: &mut Device) -> anyhow::Result<Advert> {
    loop {
        if let nook_link::LinkEvent::Control { message: Message::Advert(advert), .. } =
            device.next_event().await?
        {
            return Ok(advert);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_restarts_is_the_same_node_and_comes_back_by_itself() -> anyhow::Result<()> {
    let mut house =
        Household::sharing([NodePlan::new(ASKING), NodePlan::new(HELPER).offering("1-4")]).await?;
    let wish = Wish::text("Once upon a time", 24);
    let before = house.asking().answer(&wish).await?;
    for power_cut in [true, false] {
        for node in [1, 0] {
            let me = house.node(node).view().await?.me.id;
            if power_cut {
                house.node_mut(node).signal(Signal::Kill);
                house.node_mut(node).until_it_ended().await?;
            } else {
                house.node_mut(node).leave().await?;
            }
            house.node_mut(node).start_again().await?;
            assert_eq!(house.node(node).view().await?.me.id, me, "the same identity");
            let view = house.until_all_lend("ember").await?;
            let helper = view.devices.iter().find(|device| device.name == HELPER);
            assert_eq!(helper.map(|helper| helper.trust), Some(Trust::Trusted));
        }
        let after = house.asking().answer(&wish).await?;
        assert_eq!(after.ids, before.ids);
        assert!(after.uses(HELPER), "{after:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f11_a_second_node_on_the_same_home_is_refused_and_the_first_goes_on() -> anyhow::Result<()>
{
    let house = Household::strangers([NodePlan::new(ASKING)]).await?;
    let node = house.asking();
    let second = Command::new(nook()?)
        .arg("--home")
        .arg(node.home())
        .args(["up", "--no-port"])
        .env("INGLENOOK_KEYRING", "off")
        .output()?;
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("already runs"), "{said}");
    let told = node.answer(&Wish::text("Once", 4)).await?;
    assert_eq!(told.ids.len(), 4);
    Ok(())
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn f16_a_worker_knows_no_token_of_other_programs_and_leaves_no_dump() -> anyhow::Result<()> {
    const TOKEN: &str = "HF_TOKEN=chestnut-lantern";
    let with_token = ["env", TOKEN].map(Into::into).to_vec();
    let house = Household::strangers([NodePlan::new(ASKING).behind(with_token)]).await?;
    let node = house.asking();
    node.answer(&Wish::text("Once upon a time", 4)).await?;
    let told = |pid: u32, file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    assert!(told(node.pid(), "environ")?.contains(TOKEN), "its node has it");
    let workers = node.workers();
    assert!(!workers.is_empty());
    for worker in &workers {
        // Nobody but root reads this of a process that leaves no dump.
        if let Ok(environment) = told(*worker, "environ") {
            assert!(!environment.contains("chestnut"), "{environment}");
        }
        let status = told(*worker, "status")?;
        assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
    }
    for pid in [vec![node.pid()], workers].concat() {
        let limits = told(pid, "limits")?;
        let dump = limits.lines().find(|line| line.starts_with("Max core file size"));
        let soft = dump.and_then(|line| line.split_whitespace().nth(4));
        assert_eq!(soft, Some("1"), "{limits}");
    }
    Ok(())
}
