//! Promises of the estimates: from noisy answers to figures that predict.

use std::time::Duration;

use nook_plan::synthetic::Chance;
use nook_plan::{Figure, Line, LineFit, LinkEstimate, SpeedEstimate, Visit, Warmth};
use proptest::prelude::*;

/// `true_time` with up to 20 % noise, and every twentieth time a hiccup of ten times as long.
fn noisy(chance: &mut Chance, true_time: Duration) -> Duration {
    let percent = chance.between(85, 120);
    let hiccup = if chance.percent(5) { 10 } else { 1 };
    true_time * (percent * hiccup) as u32 / 100
}

#[test]
fn a_device_is_predicted_within_a_quarter_although_its_answers_are_noisy() {
    let mut within = 0;
    for seed in 0..200 {
        let chance = &mut Chance::new(seed);
        let truth = Line {
            fixed: Duration::from_micros(chance.between(100, 2000)),
            slope: Duration::from_micros(chance.between(50, 5000)),
        };
        let mut estimate = SpeedEstimate::default();
        for round in 0..60 {
            let layers = if round % 3 == 0 { 4 } else { 20 };
            let compute = noisy(chance, truth.at(layers));
            let layers = layers as u32;
            estimate.observe(&Visit { layers, rows: 1, compute, warmth: Warmth::Warm });
        }
        let found = estimate.speed().decode.measured().expect("sixty visits were seen");
        let ratio = found.at(20).as_secs_f64() / truth.at(20).as_secs_f64();
        within += u32::from((0.75..1.25).contains(&ratio));
    }
    // A hiccup among the last visits may still weigh; rarely.
    assert!(within >= 170, "{within} of 200");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn exact_answers_give_the_exact_line(
        fixed in 0..5_000_u64, slope in 1..5_000_u64, sizes in prop::collection::vec(1..60_u64, 8..40),
    ) {
        let truth = Line {
            fixed: Duration::from_micros(fixed),
            slope: Duration::from_micros(slope),
        };
        let mut fit = LineFit::seeded(truth);
        for units in &sizes {
            fit.observe(*units, truth.at(*units));
        }
        let found = fit.line().measured().expect("it was seeded");
        for units in [1, 10, 60] {
            let ratio = found.at(units).as_secs_f64() / truth.at(units).as_secs_f64();
            prop_assert!((0.99..1.01).contains(&ratio), "{units}: {found:?} for {truth:?}");
        }
    }

    #[test]
    fn no_sequence_of_answers_gives_a_negative_or_endless_figure(
        answers in prop::collection::vec((any::<u64>(), any::<u64>()), 1..30),
    ) {
        let mut fit = LineFit::default();
        let mut link = LinkEstimate::default();
        for (units, nanos) in answers {
            fit.observe(units, Duration::from_nanos(nanos));
            link.observe_round_trip(Duration::from_nanos(nanos));
            link.observe_transfer(units, Duration::from_nanos(nanos));
        }
        if let Figure::Measured(line) = fit.line() {
            prop_assert!(line.fixed <= nook_plan::TERM_MAX && line.slope <= nook_plan::TERM_MAX);
        }
        let bandwidth = link.link().bandwidth;
        prop_assert!(bandwidth.measured().is_none_or(|bandwidth| bandwidth.0 > 0));
    }
}
