//! The finder against a network in memory, honest and hostile.

use std::net::IpAddr;
use std::time::Duration;

use nook_base::PeerId;
use nook_base::tasks::Tasks;
use nook_find::{
    Advertisement, Air, Announcement, Finder, FinderConfig, Health, Heard, Household, Interfaces,
    Neighbourhood, SIGHTINGS_MAX, Sighting, Tag,
};
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(60);

/// How often a standing subscription is renewed.
const CENSUS: Duration = Duration::from_secs(40);

fn peer(number: u32) -> PeerId {
    let mut id = [0; 32];
    id[..4].copy_from_slice(&number.to_be_bytes());
    PeerId(id)
}

fn home() -> Neighbourhood {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    Neighbourhood::with(Household::ManyMachines, [(ip("192.168.1.1"), 24), (ip("127.0.0.1"), 8)])
}

fn start(air: &Air, number: u32, tasks: &Tasks) -> (Finder, mpsc::Receiver<Sighting>) {
    let config = FinderConfig {
        me: peer(number),
        advertise: Some(advertisement(4000)),
        interfaces: Interfaces::All,
        household: Household::ManyMachines,
    };
    // A finder's own addresses are .1; that of number n is .n to all others.
    let ip: IpAddr = format!("192.168.1.{number}").parse().expect("an address");
    Finder::start_with(air.discovery([ip]), home(), config, tasks)
}

fn advertisement(port: u16) -> Advertisement {
    Advertisement { port, protocol: 1, pairing_port: None, name: None }
}

fn forged(number: u32, addresses: &[&str]) -> Heard {
    let label = Tag::of(&peer(number)).to_string().to_ascii_lowercase();
    Heard::Announced(Announcement {
        addresses: addresses.iter().map(|a| a.parse().expect("an address")).collect(),
        txt: vec![("v".to_owned(), b"1".to_vec()), ("id".to_owned(), label.clone().into_bytes())],
        label,
    })
}

async fn next(sightings: &mut mpsc::Receiver<Sighting>) -> Sighting {
    tokio::time::timeout(PATIENCE, sightings.recv())
        .await
        .expect("a sighting comes in time")
        .expect("the finder runs")
}

fn tag_of(sighting: &Sighting) -> Tag {
    match sighting {
        Sighting::Seen { tag, .. } | Sighting::Gone { tag } => *tag,
    }
}

#[tokio::test]
async fn devices_see_each_other_but_not_themselves_and_goodbye_is_at_once() {
    let (air, tasks, desk_tasks) = (Air::new(), Tasks::new(), Tasks::new());
    let (_laptop, mut sightings) = start(&air, 1, &tasks);
    let (_desk, _desk_sightings) = start(&air, 2, &desk_tasks);
    let seen = next(&mut sightings).await;
    assert_eq!(tag_of(&seen), Tag::of(&peer(2)));
    assert!(desk_tasks.shut_down(PATIENCE).await);
    assert_eq!(next(&mut sightings).await, Sighting::Gone { tag: Tag::of(&peer(2)) });
    assert!(tasks.shut_down(PATIENCE).await);
    assert_eq!(sightings.recv().await, None, "its own advert was never reported");
}

#[tokio::test]
async fn d1_a_flood_of_ten_thousand_strangers_leaves_the_paired_devices() {
    let (air, tasks) = (Air::new(), Tasks::new());
    let (finder, mut sightings) = start(&air, 1, &tasks);
    finder.set_paired(&[peer(2), peer(3)]);
    for number in [2, 3] {
        air.say(&forged(number, &["192.168.1.9:4000"]));
    }
    let mut present = std::collections::BTreeSet::new();
    while present.len() < 2 {
        present.insert(tag_of(&next(&mut sightings).await));
    }
    for number in 100..10_100 {
        air.say(&forged(number, &["192.168.1.9:4000"]));
        // The overflow of the subscription is part of the flood; the finder must come back.
        if number % 500 == 0 {
            tokio::task::yield_now().await;
        }
    }
    // A device that appears after the flood is seen: the browse was renewed.
    let last = Tag::of(&peer(20_000));
    let mut told = 0;
    loop {
        air.say(&forged(20_000, &["192.168.1.9:4000"]));
        let sighting = next(&mut sightings).await;
        told += 1;
        match sighting {
            Sighting::Seen { tag, .. } => present.insert(tag),
            Sighting::Gone { tag } => present.remove(&tag),
        };
        assert!(present.len() <= SIGHTINGS_MAX + 1, "after {told} sightings");
        if present.contains(&last) {
            break;
        }
    }
    assert!(present.contains(&Tag::of(&peer(2))) && present.contains(&Tag::of(&peer(3))));
    assert!(tasks.shut_down(PATIENCE).await);
}

#[tokio::test]
async fn d5_a_closed_subscription_is_renewed_long_before_the_next_census() {
    let (air, tasks) = (Air::new(), Tasks::new());
    let (_finder, mut sightings) = start(&air, 1, &tasks);
    air.say(&forged(2, &["192.168.1.9:4000"]));
    assert_eq!(tag_of(&next(&mut sightings).await), Tag::of(&peer(2)));
    air.close_subscriptions();
    air.say(&forged(3, &["192.168.1.9:4000"]));
    let renewed = tokio::time::timeout(CENSUS / 2, next(&mut sightings)).await;
    assert_eq!(renewed.map(|s| tag_of(&s)), Ok(Tag::of(&peer(3))));
    assert!(tasks.shut_down(PATIENCE).await);
}

#[tokio::test]
async fn d3_addresses_that_lead_nowhere_good_are_left_out() {
    let (air, tasks) = (Air::new(), Tasks::new());
    let (_finder, mut sightings) = start(&air, 1, &tasks);
    air.say(&forged(2, &["127.0.0.1:4000", "8.8.8.8:4000", "192.168.1.1:4000", "192.168.1.9:22"]));
    air.say(&forged(3, &["8.8.8.8:4000", "192.168.1.9:4000", "10.0.0.1:4000"]));
    let Sighting::Seen { tag, addresses, .. } = next(&mut sightings).await else {
        panic!("seen");
    };
    assert_eq!(tag, Tag::of(&peer(3)), "a device with no good address is not shown");
    assert_eq!(addresses, ["192.168.1.9:4000".parse().unwrap()]);
    assert!(tasks.shut_down(PATIENCE).await);
}

#[tokio::test]
async fn d4_malformed_adverts_are_dropped_and_the_rest_goes_on() {
    let (air, tasks) = (Air::new(), Tasks::new());
    let (_finder, mut sightings) = start(&air, 1, &tasks);
    let Heard::Announced(good) = forged(2, &["192.168.1.9:4000"]) else {
        panic!("an announcement");
    };
    for txt in [
        Vec::new(),
        vec![("v".to_owned(), vec![0xff; 9000])],
        vec![("id".to_owned(), good.label.clone().into_bytes())],
    ] {
        air.say(&Heard::Announced(Announcement { txt, ..good.clone() }));
    }
    air.say(&Heard::Withdrawn { label: "no tag at all".to_owned() });
    air.say(&forged(3, &["192.168.1.9:4000"]));
    assert_eq!(tag_of(&next(&mut sightings).await), Tag::of(&peer(3)));
    assert!(tasks.shut_down(PATIENCE).await);
}

#[tokio::test]
async fn d8_a_copy_of_this_device_elsewhere_is_named() {
    let (air, tasks) = (Air::new(), Tasks::new());
    let (finder, _sightings) = start(&air, 1, &tasks);
    let mut health = finder.health();
    let working = health.wait_for(|health| *health == Health::Working);
    assert!(tokio::time::timeout(PATIENCE, working).await.is_ok());
    air.say(&forged(1, &["192.168.1.77:4000"]));
    let twin = health.wait_for(|health| *health == Health::TwinSeen);
    assert!(tokio::time::timeout(PATIENCE, twin).await.is_ok());
    assert!(tasks.shut_down(PATIENCE).await);
}

#[tokio::test]
async fn a_network_that_swallows_multicast_is_named() {
    let (air, tasks) = (Air::new(), Tasks::new());
    let config = FinderConfig {
        me: peer(1),
        advertise: Some(advertisement(4000)),
        interfaces: Interfaces::All,
        household: Household::ManyMachines,
    };
    let deaf = air.discovery([]);
    let (finder, _sightings) = Finder::start_with(deaf, home(), config, &tasks);
    air.say(&Heard::Trouble { reason: "no route".to_owned() });
    let mut health = finder.health();
    let unheard = health.wait_for(|health| matches!(health, Health::OwnAdvertUnheard { .. }));
    assert!(tokio::time::timeout(PATIENCE, unheard).await.is_ok());
    assert!(tasks.shut_down(PATIENCE).await);
}
