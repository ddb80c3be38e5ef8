//! What an owner sees of what other devices asked of this one: who, when, how much, and no word.

use std::fs;

use nook_api::NodeCalls as _;
use nook_api::views::{AuditAsked, AuditEntryView, AuditOutcome, AuditWhy, ChatRole, Trust};
use nook_base::{ErrorCode, clock};
use nook_testkit::{Device, Household, Node, NodePlan, Secrets, Wish};

use crate::refusals::{alone_and_sharing, digest, open};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";
const STRANGER: &str = "Stranger's PC";

/// Part of a prompt; it stands nowhere else.
const CANARY: &str = "the zephyrquill of Brambleworth and her seventeen copper marbles";

/// How often the list is looked at.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// Longest wait for an entry, on a machine that has much else to do.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// Waits until the list looks as wanted.
async fn until(
    node: &Node,
    what: &str,
    holds: impl Fn(&[AuditEntryView]) -> bool,
) -> anyhow::Result<Vec<AuditEntryView>> {
    let end = clock::now() + LIMIT;
    loop {
        let entries = node.client().audit().await?;
        if holds(&entries) {
            return Ok(entries);
        }
        anyhow::ensure!(clock::now() < end, "{what}: {entries:#?}");
        tokio::time::sleep(LOOK).await;
    }
}

fn computed(entries: &[AuditEntryView]) -> u64 {
    let served = entries.iter().filter(|entry| {
        entry.asked == AuditAsked::Compute && entry.outcome == AuditOutcome::Served
    });
    served.map(|entry| entry.tokens).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_sees_who_asked_what_kind_of_thing_and_how_much_and_no_word_of_it()
-> anyhow::Result<()> {
    let plans = [NodePlan::new(ASKING), NodePlan::new(HELPER).offering("1-4")];
    let mut house = Household::sharing(plans).await?;
    let said = (ChatRole::User, format!("Tell me a story about {CANARY}."));
    let told = house.asking().answer(&Wish::chat(&[said], 40)).await?;
    assert!(told.uses(HELPER) && told.ids.len() > 20, "{told:?}");
    // What the asking device leaves open waits for the next reply; without it the call is over.
    house.node_mut(0).leave().await?;
    let least = (told.prompt_ids.len() + told.ids.len() - 1) as u64 - u64::from(told.resumed);
    let over = |entries: &[AuditEntryView]| {
        computed(entries) >= least && entries.iter().all(|it| it.asked != AuditAsked::Connect)
    };
    let entries = until(house.node(1), "the reply", over).await?;
    let served = entries.iter().find(|it| it.tokens > 0).expect("it was served");
    assert_eq!(served.device.as_deref(), Some(ASKING));
    assert_eq!((served.model.as_deref(), served.layers), (Some("ember"), Some([1, 4])));
    assert!(served.first <= served.last && served.milliseconds > 0, "{served:?}");

    let whole: Vec<u32> = told.prompt_ids.iter().chain(&told.ids).copied().collect();
    let secrets =
        Secrets::new().text("the prompt", CANARY).text("the reply", &told.text).ids("ids", &whole);
    assert_eq!(secrets.found_in(&serde_json::to_vec(&entries)?), [""; 0], "in the list");
    house.node_mut(1).leave().await?;
    let file = house.node(1).home().join("audit.json");
    let written = fs::read(&file)?;
    assert_eq!(secrets.found_in(&written), [""; 0], "in the file");
    let talking = [written.as_slice(), told.text.as_bytes()].concat();
    assert!(!secrets.found_in(&talking).is_empty(), "the search finds what it looks for");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    }

    house.node_mut(1).start_again().await?;
    let helper = house.node(1);
    assert!(computed(&until(helper, "a restart", |it| computed(it) >= least).await?) >= least);
    helper.client().forget(ASKING.to_owned()).await?;
    let kept = helper.client().audit().await?;
    assert!(computed(&kept) >= least && kept.iter().any(|it| it.device.as_deref() == Some(ASKING)));
    helper.client().clear_audit().await?;
    assert_eq!(helper.client().audit().await?, []);
    house.node_mut(1).leave().await?;
    let left = String::from_utf8(fs::read(&file)?)?;
    assert!(!left.contains(ASKING), "{left}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_say_why_and_one_that_comes_again_and_again_is_one_entry() -> anyhow::Result<()> {
    const TIMES: u64 = 20;
    let house = Household::strangers([alone_and_sharing()]).await?;
    let node = house.asking();
    let model = digest(node).await?;
    let mut guest = Device::start(STRANGER)?;
    let peer = guest.pair_with(node, Trust::Guest).await?;
    for _ in 0..TIMES {
        let refused = guest.ask_for(peer, open(model, 1, 2)).await?.refused();
        assert_eq!(refused, Some(ErrorCode::TrustDenied));
    }
    node.trust(STRANGER, Trust::Trusted).await?;
    let refused = guest.ask_for(peer, open(model, 900, 3)).await?.refused();
    assert_eq!(refused, Some(ErrorCode::ShardUnavailable));
    node.share(false).await?;
    let refused = guest.ask_for(peer, open(model, 1, 2)).await?.refused();
    assert_eq!(refused, Some(ErrorCode::SwitchedOff));
    let refusal = |entry: &AuditEntryView| match entry.outcome {
        AuditOutcome::Refused { why } => Some((why, entry.times)),
        _ => None,
    };
    let entries = until(node, "three refusals", |all| all.len() >= 3).await?;
    let mut seen: Vec<_> = entries.iter().map(refusal).collect();
    seen.reverse();
    let expected = [
        Some((AuditWhy::TooLittleTrust, TIMES)),
        Some((AuditWhy::NotLent, 1)),
        Some((AuditWhy::SwitchedOff, 1)),
    ];
    assert_eq!(seen, expected, "{entries:#?}");
    assert!(entries.iter().all(|it| it.device.as_deref() == Some(STRANGER)), "{entries:#?}");

    // A device that was never paired proves nothing: it is an address, and a number.
    let mut nobody = Device::start("Nobody's PC")?;
    nobody.pretend_paired_with(node).await?;
    nobody.next_event().await?;
    let knocked = |all: &[AuditEntryView]| all.iter().any(|it| it.asked == AuditAsked::Connect);
    let entries = until(node, "a connection", knocked).await?;
    let knock = entries.iter().find(|it| it.asked == AuditAsked::Connect).expect("it is there");
    assert_eq!(knock.outcome, AuditOutcome::Refused { why: AuditWhy::NotPaired });
    assert_eq!((&knock.device_id, &knock.device), (&None, &None));
    assert_eq!(knock.from.as_deref(), Some("127.0.0.1"));
    Ok(())
}
