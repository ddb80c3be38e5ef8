//! Plans for every household and checks what comes out.

use std::time::Duration;

use nook_base::clock;
use nook_plan::synthetic::{Household, cheapest, verify};
use nook_plan::{
    Aim, Because, Decision, Execution, NoPlan, OffloadPolicy, Request, Situation, Split, place,
    plan,
};
use nook_tests::figures::Spread;

use crate::Arguments;
use crate::report::{Crowd, Row};

/// Sizes of households.
const DEVICES: std::ops::RangeInclusive<u64> = 2..=12;
/// How much dearer than the best a plan may be.
const RATIO_MAX: f64 = 1.05;
/// How long a plan for 12 devices and 64 layers may take.
const PLAN_TIME_MAX: Duration = Duration::from_millis(10);
/// How long one for 1,000 devices may take; no household has them, so this is a bound and no aim.
const CROWD_TIME_MAX: Duration = Duration::from_millis(250);
const CROWD: usize = 1_000;
/// What reading prompts elsewhere alone must gain to be told.
const PROMPTS_ONLY_GAIN: f64 = 1.1;
/// Timed plans are made this often, and the best counts: interference only adds.
const REPEATS: usize = 5;

/// All promises.
pub(crate) fn rows(arguments: &Arguments) -> Vec<Row> {
    let mut rows = vec![promises(arguments), wholes(arguments), best(arguments)];
    rows.extend(placements(arguments));
    rows.push(timed(arguments, "plan for 12 devices and 64 layers, slowest", 12, PLAN_TIME_MAX));
    rows.push(timed(arguments, "plan for 1,000 devices, slowest", CROWD, CROWD_TIME_MAX));
    rows
}

/// What plans look like, by the number of devices.
pub(crate) fn crowds(arguments: &Arguments) -> Vec<Crowd> {
    DEVICES.map(|devices| crowd(arguments, devices)).collect()
}

fn crowd(arguments: &Arguments, devices: u64) -> Crowd {
    let mut crowd = Crowd { devices: devices as usize, ..Crowd::default() };
    let mut gains = Vec::new();
    let mut hops = 0;
    for seed in seeds(arguments).filter(|seed| devices_of(*seed) == devices) {
        let household = household(seed);
        crowd.households += 1;
        let Ok(decision) = plan(&household.situation()) else {
            crowd.impossible += 1;
            continue;
        };
        crowd.alone_possible += u64::from(decision.alone.is_ok());
        crowd.prompts_only += u64::from(gains_by_prompts_only(&household, &decision));
        let peers = decision.plan.peers().len();
        crowd.pooled += u64::from(peers > 0);
        hops += peers;
        let is_faster =
            matches!(decision.because, Because::PoolIsFaster | Because::OwnDeviceIsFaster);
        crowd.whole += u64::from(matches!(decision.plan.execution, Execution::Offload(_)));
        if let (Ok(alone), true) = (&decision.alone, is_faster) {
            gains.push(alone.total.as_secs_f64() / decision.plan.prediction.total.as_secs_f64());
        }
    }
    crowd.gain_median = Spread::of(gains).median;
    crowd.hops_mean = hops as f64 / crowd.pooled.max(1) as f64;
    crowd
}

/// Legal, no slower than alone, the same again and in any order, a reason for everybody.
fn promises(arguments: &Arguments) -> Row {
    let mut broken = Vec::new();
    for seed in seeds(arguments) {
        let household = household(seed);
        let situation = household.situation();
        for found in verify(&situation, &plan(&situation)) {
            broken.push(format!("household {seed} ({}): {}", household.model_name, found.0));
        }
    }
    counted(
        "legal, explained, deterministic, never slower than alone",
        arguments.households,
        broken,
    )
}

/// Where everything may be computed on one device of the same person: it is taken only for a gain,
/// and never where that is not allowed. Cases are households where such a device could do it.
fn wholes(arguments: &Arguments) -> Row {
    let (mut broken, mut cases) = (Vec::new(), 0);
    for seed in seeds(arguments) {
        let mut household = household(seed);
        household.request.whole = OffloadPolicy::OnOwnDevices;
        let allowed = plan(&household.situation());
        cases += u64::from(allowed.as_ref().is_ok_and(|decision| decision.whole.is_some()));
        for found in verify(&household.situation(), &allowed) {
            broken.push(format!("household {seed}, whole allowed: {}", found.0));
        }
        household.request.whole = OffloadPolicy::Refused;
        let refused = plan(&household.situation());
        if refused.is_ok_and(|decision| decision.whole.is_some()) {
            broken.push(format!("household {seed}: a whole request though that is refused"));
        }
    }
    counted("whole requests leave for own devices, where allowed, for a gain", cases, broken)
}

/// Against trying every walk, where that is possible.
fn best(arguments: &Arguments) -> Row {
    let (mut broken, mut worst, mut cases) = (Vec::new(), 1.0_f64, 0);
    for seed in arguments.seed..arguments.seed + arguments.small {
        let mut household =
            Household::small(seed, 2 + (seed % 4) as usize, 5 + (seed / 4 % 2) as u32);
        // A whole request elsewhere is no walk over segments.
        household.request.whole = OffloadPolicy::Refused;
        let situation = household.situation();
        let decision = plan(&situation);
        let alone_is_possible = decision.as_ref().is_ok_and(|decision| decision.alone.is_ok());
        let Some(mut tried) = cheapest(&situation, true) else { continue };
        if tried.is_none() && !alone_is_possible {
            tried = cheapest(&situation, false).flatten();
        }
        let found = pooled_total(&decision);
        match (tried, found) {
            (None, None) => {}
            (Some((_, best)), Some(found)) => {
                cases += 1;
                let ratio = found.as_secs_f64() / best.total.as_secs_f64();
                worst = worst.max(ratio);
                if !(1.0 / RATIO_MAX..=RATIO_MAX).contains(&ratio) {
                    broken.push(format!("small household {seed}: {ratio:.3} of the best"));
                }
            }
            (tried, found) => {
                let (tried, found) = (tried.is_some(), found.is_some());
                broken.push(format!("small household {seed}: possible {tried}, found {found}"));
            }
        }
    }
    Row {
        row: "dearest plan against the best of all walks",
        cases,
        value: worst,
        unit: "×",
        target: format!("≤ {RATIO_MAX}"),
        met: (cases > 0).then_some(broken.is_empty()),
        broken,
    }
}

fn pooled_total(decision: &Result<Decision, NoPlan>) -> Option<Duration> {
    let pooled = decision.as_ref().ok()?.pooled.as_ref()?;
    Some(pooled.prediction.total)
}

/// Placements are legal by construction of their route; they must be found, and not be worse than
/// what they claim to improve on.
fn placements(arguments: &Arguments) -> Vec<Row> {
    let (mut missing, mut worse) = (Vec::new(), Vec::new());
    let (mut plans, mut compared) = (0, 0);
    for seed in seeds(arguments) {
        let household = household(seed);
        let situation = household.situation();
        let planned = place(&situation, Aim::OneReply, Split::Planned);
        let has_route = plan(&situation)
            .is_ok_and(|decision| matches!(decision.plan.execution, Execution::Route(_)));
        plans += u64::from(has_route);
        if has_route && planned.is_err() {
            missing.push(format!("household {seed}: a plan, and no placement"));
        }
        let Ok(planned) = planned else { continue };
        for split in [Split::Uniform, Split::CapacityWeighted] {
            let Ok(other) = place(&situation, Aim::OneReply, split) else { continue };
            compared += 1;
            if planned.prediction.total > other.prediction.total {
                worse.push(format!("household {seed}: the planned split loses to {split:?}"));
            }
        }
        let busy = place(&situation, Aim::ManyReplies, Split::Planned);
        if busy.is_ok_and(|busy| busy.busiest > planned.busiest) {
            worse.push(format!("household {seed}: many replies are served worse than one"));
        }
    }
    vec![
        counted("a placement wherever there is a plan", plans, missing),
        counted("the planned placement loses to no other split", compared, worse),
    ]
}

/// Whether this household should have others read the prompt alone: what they remember of it comes
/// back over the link, and this device makes the tokens by itself. That is not built; told is how
/// often it would gain by [`PROMPTS_ONLY_GAIN`] on what was chosen, and nothing is taken for
/// loading layers here.
fn gains_by_prompts_only(household: &Household, decision: &Decision) -> bool {
    let Ok(alone) = decision.alone else { return false };
    let situation = household.situation();
    let request = Request { reply: 1, whole: OffloadPolicy::Refused, ..*situation.request };
    let to_read = plan(&Situation { request: &request, ..situation });
    let Ok(Decision { pooled: Some(to_read), .. }) = to_read else { return false };
    let Execution::Route(route) = &to_read.execution else { return false };
    let back = household.others.iter().filter_map(|device| {
        let of_it = route.segments().iter().filter(|it| it.place == device.place);
        let layers: u32 = of_it.map(|it| it.part.layers.len()).sum();
        let bytes = household.model.kv_bytes * u64::from(layers) * u64::from(request.prompt);
        Some(device.link.bandwidth.measured()?.time_for(bytes))
    });
    let back: Duration = back.sum();
    let tokens = alone.token * situation.request.reply.saturating_sub(1);
    let total = to_read.prediction.first_token + back + tokens;
    decision.plan.prediction.total.as_secs_f64() / total.as_secs_f64() >= PROMPTS_ONLY_GAIN
}

fn timed(arguments: &Arguments, row: &'static str, devices: usize, limit: Duration) -> Row {
    let slowest = (arguments.seed..arguments.seed + arguments.timed)
        .map(|seed| {
            let household = Household::of_64_layers(seed, devices);
            let situation = household.situation();
            let times = (0..REPEATS).map(|_| {
                let begin = clock::now();
                let decision = plan(&situation);
                let took = begin.elapsed();
                std::hint::black_box(decision.is_ok());
                took
            });
            times.min().unwrap_or_default()
        })
        .max()
        .unwrap_or_default();
    let is_judged = arguments.timed > 0 && !cfg!(debug_assertions);
    Row {
        row,
        cases: arguments.timed,
        value: slowest.as_secs_f64() * 1000.0,
        unit: "ms",
        target: format!("< {}", limit.as_millis()),
        met: is_judged.then_some(slowest < limit),
        broken: Vec::new(),
    }
}

fn counted(row: &'static str, cases: u64, broken: Vec<String>) -> Row {
    Row {
        row,
        cases,
        value: broken.len() as f64,
        unit: "broken",
        target: "0".to_owned(),
        met: (cases > 0).then_some(broken.is_empty()),
        broken,
    }
}

fn seeds(arguments: &Arguments) -> std::ops::Range<u64> {
    arguments.seed..arguments.seed + arguments.households
}

fn devices_of(seed: u64) -> u64 {
    DEVICES.start() + seed % (DEVICES.end() - DEVICES.start() + 1)
}

fn household(seed: u64) -> Household {
    Household::draw(seed, devices_of(seed) as usize)
}
