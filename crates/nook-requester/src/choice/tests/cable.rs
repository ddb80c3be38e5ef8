//! Advice to put a device on a cable.

use super::*;

fn over(round_trip: Duration, bytes_per_second: u64) -> Facts {
    let round_trip = RoundTrip { mean: round_trip, deviation: Duration::ZERO };
    let link = Link {
        round_trip: Figure::Measured(round_trip),
        bandwidth: Figure::Measured(BytesPerSecond(bytes_per_second)),
    };
    Facts { links: [(peer(1), link)].into(), ..measured(20_000, 1_000) }
}

fn advice(facts: Facts) -> Option<CableGain> {
    chosen(&question(Pooling::WhenFaster, facts), PLENTY).0.by_cable
}

#[test]
fn a_cable_is_advised_where_the_way_makes_the_reply_slow() {
    let gain = advice(over(Duration::from_millis(40), 2_000_000)).expect("it would be faster");
    assert_eq!(gain.peer, peer(1));
    assert!(gain.then >= gain.now * 1.3, "{gain:?}");
    // Also where it is so slow that this device computes alone.
    let far = over(Duration::from_millis(400), 2_000_000);
    let (choice, view) = chosen(&question(Pooling::WhenFaster, far), PLENTY);
    let is_here = |segment: &Segment| segment.place == Place::Local;
    assert!(choice.segments().iter().all(is_here), "{view:?}");
    let shown = view.by_cable.expect("it would be faster");
    assert_eq!(shown.device_id, peer(1).to_string());
    assert!(shown.tokens_per_second_then > shown.tokens_per_second_now * 1.3, "{shown:?}");
}

#[test]
fn nothing_is_advised_that_would_gain_nothing_or_that_nobody_has_measured() {
    assert_eq!(advice(measured(20_000, 1_000)), None, "it is near");
    let unknown = Facts { links: [].into(), ..measured(20_000, 1_000) };
    assert_eq!(advice(unknown), None, "its way is not known");
    let slow = Facts {
        links: over(Duration::from_millis(40), 2_000_000).links,
        ..measured(1_000, 90_000)
    };
    assert_eq!(advice(slow), None, "the device itself is slow");
}
