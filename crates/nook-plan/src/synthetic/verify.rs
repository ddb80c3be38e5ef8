//! What must be true of every decision, checked without any code of the planner's search.

use std::collections::BTreeMap;

use nook_base::LayerRange;

use crate::{
    Because, Decision, Device, Execution, NoPlan, OffloadPolicy, Owner, POOLING_GAIN_MIN_PERCENT,
    Place, Prediction, Situation, Standing, Width, plan,
};

/// A promise that a decision breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken(pub String);

/// Every broken promise of the decision for `situation`, other than its price.
#[must_use]
pub fn verify(situation: &Situation<'_>, decision: &Result<Decision, NoPlan>) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            broken.push(Broken(what.to_owned()));
        }
    };
    let left_out = match decision {
        Ok(decision) => &decision.left_out,
        Err(error) => &error.left_out,
    };
    let used = decision.as_ref().map(|decision| decision.plan.peers()).unwrap_or_default();
    let accounted = used.len() + left_out.len() == situation.others.len();
    must(accounted, "every device is used or has a reason");
    must(left_out.iter().all(|left| !used.contains(&left.peer)), "no device is used and left out");
    must(plan(situation) == *decision, "the same situation gives the same decision");
    let reversed: Vec<Device> = situation.others.iter().rev().cloned().collect();
    let turned = Situation { others: &reversed, ..*situation };
    must(plan(&turned) == *decision, "the order of devices does not matter");
    if let Ok(decision) = decision {
        if let Ok(alone) = &decision.alone {
            let chosen = decision.plan.prediction.total;
            must(chosen <= alone.total, "never slower than alone by prediction");
        } else {
            must(decision.because == Because::AloneIsImpossible, "says that alone is impossible");
        }
        broken.extend(verify_walk(situation, decision));
    }
    broken
}

/// Words leave this device for one of the same person's, which can do everything, and for a gain.
fn verify_whole(
    situation: &Situation<'_>,
    decision: &Decision,
    device: Option<&Device>,
) -> Vec<Broken> {
    let Situation { model, .. } = *situation;
    let is_mine = device.is_some_and(|device| device.owner == Owner::Me);
    let is_free =
        device.is_some_and(|device| device.standing == Standing::Ready && device.streams_free > 0);
    let computes_all = device.is_some_and(|device| {
        let mut layers = LayerRange::all(model.layers).iter();
        layers.all(|layer| device.computes.iter().any(|range| range.contains_layer(layer)))
    });
    let gain = 100 + u128::from(POOLING_GAIN_MIN_PERCENT);
    let whole = decision.plan.prediction.total.as_nanos();
    let beats = |other: &Prediction| whole * gain < other.total.as_nanos() * 100;
    let alone = decision.alone.as_ref().ok();
    let pooled = decision.pooled.as_ref().map(|pool| &pool.prediction);
    let promises = [
        (is_mine, "a whole request goes to ones own device"),
        (is_free, "a whole request goes where there is a stream for it"),
        (computes_all, "a whole request goes where all layers are computed"),
        (alone.is_none_or(beats), "a whole request leaves only when that beats this device"),
        (pooled.is_none_or(beats), "a whole request leaves only when that beats the pool"),
    ];
    let broken = promises.iter().filter(|(holds, _)| !holds);
    broken.map(|(_, what)| Broken((*what).to_owned())).collect()
}

fn verify_walk(situation: &Situation<'_>, decision: &Decision) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            broken.push(Broken(what.to_owned()));
        }
    };
    let Situation { model, request, here, others } = *situation;
    let route = match &decision.plan.execution {
        Execution::Route(route) => route,
        Execution::Offload(whole) => {
            must(request.whole == OffloadPolicy::OnOwnDevices, "a whole request was allowed");
            let device = others.iter().find(|other| other.place == Place::Peer(whole.peer()));
            broken.extend(verify_whole(situation, decision, device));
            return broken;
        }
    };
    let segments = route.segments();
    must(segments.first().is_some_and(|s| s.place == Place::Local), "the start is here");
    must(segments.last().is_some_and(|s| s.place == Place::Local), "the end is here");
    let mut cursor = 0;
    let mut needs: BTreeMap<Place, u64> = BTreeMap::new();
    let mut calls: BTreeMap<Place, u64> = BTreeMap::new();
    let positions = u64::from(request.positions - decision.plan.prediction.resumed);
    for segment in segments {
        let layers = segment.part.layers;
        must(layers.is_empty() || layers.start() == cursor, "no gap and no overlap");
        cursor = cursor.max(layers.end());
        must(model.may_cut(layers.start()), "cut where the family allows it");
        let device = others.iter().chain([here]).find(|device| device.place == segment.place);
        let Some(device) = device else {
            must(false, "only devices that are there");
            continue;
        };
        must(
            segment.place == Place::Local || device.standing == Standing::Ready,
            "only devices that may be asked",
        );
        *needs.entry(segment.place).or_default() += layers
            .iter()
            .map(|layer| {
                let one = LayerRange::with_len(layer, 1);
                let has = |ranges: &[LayerRange]| ranges.iter().any(|range| range.contains(one));
                must(has(&device.computes), "only layers that the device computes");
                let weights = if has(&device.held) { 0 } else { model.layer_bytes };
                weights + model.kv_bytes * positions
            })
            .sum::<u64>();
        *calls.entry(segment.place).or_default() += 1;
    }
    must(cursor == model.layers, "all layers are computed");
    for device in others.iter().chain([here]) {
        let needs = needs.get(&device.place).copied().unwrap_or(0);
        must(needs <= device.memory_free, "memory suffices");
        let calls = calls.get(&device.place).copied().unwrap_or(0);
        let has_streams = device.place == Place::Local || calls <= u64::from(device.streams_free);
        must(has_streams, "streams suffice");
    }
    must(route.hops() <= request.hops_max, "no more hops than allowed");
    if route.hops() > 0 {
        let len = |at: usize| segments.get(at).map_or(0, |segment| segment.part.layers.len());
        let (prefix, suffix) = (len(0), len(segments.len() - 1));
        let wide = prefix >= request.ends.prefix && suffix >= request.ends.suffix;
        must(wide, "the ends are as wide as asked");
        let exact = prefix == request.ends.prefix && suffix == request.ends.suffix;
        must(exact || request.ends.width != Width::Fixed, "fixed ends are kept");
    }
    broken
}
