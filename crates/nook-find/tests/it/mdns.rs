//! Two finders on this machine find each other by real multicast DNS.

use std::time::Duration;

use nook_base::PeerId;
use nook_base::tasks::Tasks;
use nook_find::{
    Advertisement, Finder, FinderConfig, Health, Household, Interfaces, Sighting, Tag,
};
use tokio::sync::mpsc;

/// Long enough for a loaded machine; a working one needs half a second.
const PATIENCE: Duration = Duration::from_secs(90);

const SHUT_DOWN_LIMIT: Duration = Duration::from_secs(60);

struct Node {
    peer: PeerId,
    finder: Finder,
    sightings: mpsc::Receiver<Sighting>,
    tasks: Tasks,
}

/// A node whose id no other test run on this network has.
fn node(port: u16, interfaces: Interfaces) -> Node {
    let mut id = [0; 32];
    let unique = std::process::id().to_be_bytes();
    id[..4].copy_from_slice(&unique);
    id[4..6].copy_from_slice(&port.to_be_bytes());
    let peer = PeerId(id);
    let tasks = Tasks::new();
    let config = FinderConfig {
        me: peer,
        advertise: Some(advertisement(port)),
        interfaces,
        household: Household::OneMachine,
    };
    let (finder, sightings) = Finder::start(config, &tasks).expect("mDNS starts");
    Node { peer, finder, sightings, tasks }
}

fn advertisement(port: u16) -> Advertisement {
    Advertisement { port, protocol: 1, pairing_port: None, name: None }
}

impl Node {
    /// The next sighting of `other` for which `wanted` holds; sightings of strangers are passed by.
    async fn sees(&mut self, other: PeerId, wanted: impl Fn(&Sighting) -> bool) -> Sighting {
        let tag = Tag::of(&other);
        let search = async {
            loop {
                let sighting = self.sightings.recv().await.expect("the finder runs");
                let about = match &sighting {
                    Sighting::Seen { tag, .. } | Sighting::Gone { tag } => *tag,
                };
                if about == tag && wanted(&sighting) {
                    return sighting;
                }
            }
        };
        tokio::time::timeout(PATIENCE, search)
            .await
            .expect("the other device is seen as wanted in time")
    }
}

fn is_seen(sighting: &Sighting) -> bool {
    matches!(sighting, Sighting::Seen { .. })
}

async fn find_each_other_and_part(interfaces: Interfaces, ports: [u16; 2]) {
    let [mut desk, mut laptop] = ports.map(|port| node(port, interfaces));
    desk.sees(laptop.peer, is_seen).await;
    let seen = laptop.sees(desk.peer, is_seen).await;
    let Sighting::Seen { addresses, protocol, name, pairing_port, .. } = seen else {
        panic!("seen");
    };
    assert!(addresses.iter().all(|address| address.port() == ports[0]));
    assert_eq!((protocol, name, pairing_port), (1, None, None));

    // A pairing window opens, then closes; the name is given meanwhile.
    desk.finder.advertise(Advertisement {
        pairing_port: Some(40_404),
        name: Some("Dad's \u{202e}PC".to_owned()),
        ..advertisement(ports[0])
    });
    let open = |s: &Sighting| {
        matches!(s, Sighting::Seen { pairing_port: Some(40_404), name: Some(name), .. }
            if name == "Dad's PC")
    };
    laptop.sees(desk.peer, open).await;
    desk.finder.advertise(advertisement(ports[0]));
    let closed = |s: &Sighting| matches!(s, Sighting::Seen { pairing_port: None, name: None, .. });
    laptop.sees(desk.peer, closed).await;

    // The main port moves (it was taken by another program): the old one is not dialled any more.
    desk.finder.advertise(advertisement(ports[0] + 1));
    let moved = |s: &Sighting| {
        matches!(s, Sighting::Seen { addresses, .. }
            if addresses.iter().all(|a| a.port() == ports[0] + 1))
    };
    laptop.sees(desk.peer, moved).await;

    let mut health = desk.finder.health();
    tokio::time::timeout(PATIENCE, health.wait_for(|health| *health == Health::Working))
        .await
        .expect("its own advert is heard")
        .expect("the finder runs");

    // Leaving says goodbye at once: far sooner than the two minutes of silence.
    assert!(desk.tasks.shut_down(SHUT_DOWN_LIMIT).await);
    laptop.sees(desk.peer, |s| matches!(s, Sighting::Gone { .. })).await;
    assert!(laptop.tasks.shut_down(SHUT_DOWN_LIMIT).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_find_each_other_on_loopback_alone() {
    find_each_other_and_part(Interfaces::Loopback, [40_100, 40_110]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_find_each_other_on_all_interfaces() {
    find_each_other_and_part(Interfaces::All, [40_200, 40_210]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withdrawing_says_goodbye_and_looking_goes_on() {
    let mut desk = node(40_300, Interfaces::Loopback);
    let mut laptop = node(40_310, Interfaces::Loopback);
    laptop.sees(desk.peer, is_seen).await;
    desk.finder.withdraw();
    laptop.sees(desk.peer, |s| matches!(s, Sighting::Gone { .. })).await;
    laptop.finder.advertise(advertisement(40_311));
    let moved = |s: &Sighting| matches!(s, Sighting::Seen { addresses, .. } if addresses.iter().all(|a| a.port() == 40_311));
    desk.sees(laptop.peer, moved).await;
    desk.finder.advertise(advertisement(40_301));
    laptop.sees(desk.peer, is_seen).await;
    for node in [desk, laptop] {
        assert!(node.tasks.shut_down(SHUT_DOWN_LIMIT).await);
    }
}
