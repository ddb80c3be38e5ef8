//! When other ways are tried, and when a link moves.

use nook_base::clock;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A way from an interface of this device, which all have the number 9.
fn candidate(interface: u8, remote: u8) -> Candidate {
    let address = SocketAddr::from(([10, 0, interface, remote], 4588));
    let local = SocketAddr::from(([10, 0, interface, 9], 0));
    Candidate { address, way: Way::between(local, address) }
}

fn ways(order: DialOrder) -> (Ways, Instant) {
    let now = clock::now();
    let mut ways = Ways::new(order, now);
    assert_eq!(ways.due(), None, "no link");
    ways.linked(1, candidate(0, 1).way, now);
    (ways, now)
}

fn measured(rounds_us: &[u64], megabytes_per_second: u64) -> Measured {
    Measured {
        rounds: rounds_us.iter().map(|us| Duration::from_micros(*us)).collect(),
        bytes_per_second: megabytes_per_second * 1_000_000,
    }
}

const WIFI: [u64; 3] = [4_000, 3_500, 6_000];
const CABLE: [u64; 3] = [400, 500, 450];

#[test]
fn the_cable_beats_the_wifi_and_not_the_other_way_round() {
    let (wifi, cable) = (measured(&WIFI, 20), measured(&CABLE, 110));
    let clearly = |measured: &Measured| [(measured.clone(), Needed::Clearly)];
    assert_eq!(judge(&wifi, &clearly(&cable), false), Verdict::Move(0));
    assert_eq!(judge(&wifi, &clearly(&cable), true), Verdict::Move(0));
    assert_eq!(judge(&cable, &clearly(&wifi), false), Verdict::Stay);
    assert_eq!(judge(&cable, &clearly(&cable), false), Verdict::Stay);
    assert_eq!(judge(&cable, &[], false), Verdict::Stay);
    assert_eq!(judge(&measured(&[], 1), &clearly(&cable), false), Verdict::Stay);
}

#[test]
fn the_best_of_several_is_taken() {
    let others =
        [(measured(&CABLE, 11), Needed::Clearly), (measured(&CABLE, 110), Needed::Clearly)];
    assert_eq!(judge(&measured(&WIFI, 5), &others, false), Verdict::Move(1));
}

#[test]
fn a_way_that_is_better_in_some_rounds_only_is_not_better() {
    let present = measured(&[4_000, 400, 4_000], 110);
    let other = [(measured(&CABLE, 110), Needed::Clearly)];
    assert_eq!(judge(&present, &other, false), Verdict::Stay);
}

#[test]
fn a_small_gain_is_no_gain() {
    // Three times better, and nobody would notice.
    let other = [(measured(&[50, 50, 50], 900), Needed::Clearly)];
    assert_eq!(judge(&measured(&[150, 150, 150], 900), &other, false), Verdict::Stay);
}

#[test]
fn more_is_needed_while_the_link_is_busy_and_where_it_is_likely_the_same_cable() {
    let (present, other) = (measured(&[3_000; 3], 100), measured(&[2_000; 3], 100));
    let with = |needed| [(other.clone(), needed)];
    assert_eq!(judge(&present, &with(Needed::Clearly), false), Verdict::Move(0));
    assert_eq!(judge(&present, &with(Needed::Clearly), true), Verdict::Later);
    assert_eq!(judge(&present, &with(Needed::Far), false), Verdict::Stay);
}

#[test]
fn bandwidth_counts_as_much_as_a_prompt_needs() {
    let other = [(measured(&[1_000; 3], 100), Needed::Clearly)];
    assert_eq!(judge(&measured(&[1_000; 3], 10), &other, false), Verdict::Move(0));
}

#[test]
fn ways_are_tried_a_moment_after_the_link_stands_and_few_at_a_time() {
    let (mut ways, now) = ways(DialOrder::First);
    let all: Vec<Candidate> = (0..5).map(|interface| candidate(interface, 1)).collect();
    assert_eq!(ways.begin(&all, now), []);
    let due = ways.due().expect("a link stands");
    assert_eq!(due, now + FIRST_AFTER);
    // The first is the present one.
    assert_eq!(ways.begin(&all, due), all[1..3]);
    assert_eq!((ways.due(), ways.begin(&all, due)), (None, vec![]), "one at a time");
    let tried: Vec<SocketAddr> = all[1..3].iter().map(|it| it.address).collect();
    ways.over(1, (&tried, &[]), Ending::Stayed, due + SECOND);
    let due = ways.due().expect("the others");
    assert_eq!(due, now + FIRST_AFTER + GAP);
    assert_eq!(ways.begin(&all, due), all[3..5]);
    let tried: Vec<SocketAddr> = all[3..5].iter().map(|it| it.address).collect();
    ways.over(1, (&tried, &[]), Ending::Stayed, due + SECOND);
    let due = ways.due().expect("a link stands");
    assert_eq!(ways.begin(&all, due), [], "all were tried");
    assert!(ways.due().expect("a link stands") >= now + AGAIN / 2);
}

#[test]
fn a_device_that_is_at_its_only_address_is_left_in_peace() {
    let (mut ways, now) = ways(DialOrder::First);
    assert_eq!(ways.begin(&[candidate(0, 1)], now + FIRST_AFTER), []);
    assert_eq!(ways.due(), Some(now + FIRST_AFTER + AGAIN));
}

#[test]
fn the_same_address_is_another_way_once_it_leaves_by_another_interface() {
    let (mut ways, now) = ways(DialOrder::First);
    let cabled = Candidate {
        way: Way { local: at("10.0.0.7:0").ip(), ..candidate(0, 1).way },
        ..candidate(0, 1)
    };
    assert_eq!(ways.begin(&[cabled], now + FIRST_AFTER), [cabled]);
}

#[test]
fn news_lead_to_a_trial_but_not_at_the_pace_at_which_anybody_can_announce() {
    let (mut ways, now) = ways(DialOrder::First);
    assert_eq!(ways.begin(&[], now + FIRST_AFTER), []);
    let later = now + 60 * SECOND;
    ways.news(later);
    assert_eq!(ways.due(), Some(later + NEWS_AFTER));
    let other = [candidate(1, 1)];
    assert_eq!(ways.begin(&other, later + NEWS_AFTER), other);
    ways.over(1, (&[other[0].address], &[]), Ending::Stayed, later + 2 * SECOND);
    ways.news(later + 2 * SECOND);
    assert_eq!(ways.due(), Some(later + NEWS_AFTER + GAP));
}

#[test]
fn nobody_at_an_address_costs_more_each_time_and_another_network_forgives_it() {
    let (mut ways, mut now) = ways(DialOrder::First);
    let other = [candidate(1, 1)];
    let mut waits = Vec::new();
    for _ in 0..8 {
        now = ways.due().expect("a link stands").max(now);
        while ways.begin(&other, now).is_empty() {
            now = ways.due().expect("a link stands").max(now + MS);
        }
        waits.push(now);
        ways.over(1, (&[], &[other[0].address]), Ending::Stayed, now);
    }
    let waits: Vec<Duration> = waits.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]), "{waits:?}");
    assert_eq!((waits[0], waits[6]), (ABSENT_FIRST, AGAIN));
    ways.network(now + GAP);
    assert_eq!(ways.begin(&other, now + GAP + NEWS_AFTER), other);
}

#[test]
fn the_second_side_tries_only_where_it_sees_nothing_of_the_first() {
    let (mut second, now) = ways(DialOrder::Second);
    let due = second.due().expect("a link stands");
    assert_eq!(due, now + FIRST_AFTER + SECOND_LATER);
    let mut seen = Ways::new(DialOrder::Second, now);
    seen.linked(1, candidate(0, 1).way, now);
    seen.knocked(now + FIRST_AFTER);
    assert!(seen.due().expect("a link stands") >= now + AGAIN / 2);
    assert_eq!(second.begin(&[candidate(1, 1)], due), [candidate(1, 1)]);
    let (mut first, now) = ways(DialOrder::First);
    first.knocked(now);
    assert_eq!(first.due(), Some(now + FIRST_AFTER));
}

#[test]
fn after_a_move_the_old_way_is_held_unless_the_link_ends() {
    let (mut ways, now) = ways(DialOrder::First);
    let both = [candidate(0, 1), candidate(1, 1)];
    let begun = now + FIRST_AFTER;
    assert_eq!(ways.begin(&both, begun), [both[1]]);
    assert!(!ways.may_move(7), "another link");
    assert!(ways.may_move(1));
    assert!(!ways.may_move(1), "once");
    assert!(ways.moved(1, both[1].way, begun));
    assert!(!ways.moved(2, both[0].way, begun));
    let soon = begun + HELD_FOR - SECOND;
    ways.news(begun + GAP);
    assert_eq!(ways.begin(&both, soon), []);
    ways.news(begun + HELD_FOR);
    assert_eq!(ways.begin(&both, begun + HELD_FOR + NEWS_AFTER), [both[0]]);
    ways.ended();
    ways.linked(2, both[0].way, begun + HELD_FOR);
    assert_eq!(ways.begin(&both, begun + HELD_FOR + FIRST_AFTER), [both[1]]);
}

#[test]
fn of_two_offers_that_cross_neither_is_taken_and_a_mere_trial_gives_way() {
    let both = [candidate(0, 1), candidate(1, 1)];
    let (mut ways, now) = ways(DialOrder::First);
    ways.begin(&both, now + FIRST_AFTER);
    assert!(ways.may_move(1));
    assert!(!ways.may_follow());
    ways.over(1, (&[both[1].address], &[]), Ending::Undecided, now + FIRST_AFTER);
    assert!(ways.may_follow());
    ways.not_moved(1, now + FIRST_AFTER);
    let due = ways.due().expect("nothing is under way");
    assert!(due >= now + FIRST_AFTER + SOON / 2, "not at once");
    ways.news(due);
    let tried = ways.begin(&both, due + AGAIN);
    assert_eq!(tried, [both[1]]);
    assert!(ways.may_follow(), "a trial that has offered nothing gives way");
    assert!(!ways.may_move(1));
}

#[test]
fn a_device_that_knows_no_trials_and_one_on_this_machine_are_not_tried() {
    let (mut ways, now) = ways(DialOrder::First);
    let other = [candidate(1, 1)];
    ways.begin(&other, now + FIRST_AFTER);
    ways.over(1, (&[other[0].address], &[]), Ending::Deaf, now + FIRST_AFTER);
    assert_eq!(ways.due(), None);
    ways.news(now);
    ways.network(now);
    assert_eq!(ways.due(), None);
    ways.ended();
    ways.linked(2, candidate(0, 1).way, now);
    assert!(ways.due().is_some(), "it may be a newer one now");
    let here = at("127.0.0.1:4588");
    ways.linked(3, Way::between(here, here), now);
    assert_eq!(ways.due(), None);
}
