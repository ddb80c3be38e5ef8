//! Tries every route. Certain, and slow: `devices ^ layers` of them.

use nook_base::{LayerRange, ModelPart};

use crate::{Basis, Place, Prediction, Route, Segment, Situation, predict};

/// Most routes that are tried; a larger household gets no answer.
pub const WALKS_MAX: u64 = 1 << 20;

/// The cheapest route with at least one hop and what it costs, by trying every device for every
/// layer. With `measured_only`, routes whose price rests on an assumption about another device do
/// not count.
///
/// Outer `None`: too many routes to try. Inner `None`: no route is possible.
#[must_use]
pub fn cheapest(
    situation: &Situation<'_>,
    measured_only: bool,
) -> Option<Option<(Route, Prediction)>> {
    let mut places: Vec<Place> = situation.others.iter().map(|other| other.place).collect();
    places.sort_unstable();
    places.push(Place::Local);
    let layers = situation.model.layers as usize;
    let walks = (places.len() as u64).checked_pow(situation.model.layers)?;
    if walks > WALKS_MAX {
        return None;
    }
    let here_is_assumed = predict(situation, &Route::alone(situation.model.layers).ok()?)
        .is_ok_and(|alone| alone.basis == Basis::Assumed);
    let mut best: Option<(Route, Prediction)> = None;
    let mut digits = vec![0_usize; layers];
    for _ in 0..walks {
        if let Some(route) = route(&digits, &places)
            && let Ok(prediction) = predict(situation, &route)
        {
            let counts = !measured_only || here_is_assumed || prediction.basis == Basis::Measured;
            if counts && best.as_ref().is_none_or(|(_, best)| prediction.total < best.total) {
                best = Some((route, prediction));
            }
        }
        for digit in &mut digits {
            *digit += 1;
            if *digit < places.len() {
                break;
            }
            *digit = 0;
        }
    }
    Some(best)
}

/// The route in which `places[digits[layer]]` computes that layer; `None` when nobody else does
/// any.
fn route(digits: &[usize], places: &[Place]) -> Option<Route> {
    let mut segments = vec![(Place::Local, LayerRange::all(0))];
    for (layer, digit) in (0_u32..).zip(digits) {
        let place = places[*digit];
        match segments.last_mut() {
            Some((last, range)) if *last == place => {
                *range = LayerRange::with_len(range.start(), range.len() + 1);
            }
            _ => segments.push((place, LayerRange::with_len(layer, 1))),
        }
    }
    if segments.last().is_some_and(|(place, _)| *place != Place::Local) {
        segments.push((Place::Local, LayerRange::with_len(digits.len() as u32, 0)));
    }
    if segments.len() == 1 {
        return None;
    }
    let last = segments.len() - 1;
    let segments = segments.into_iter().enumerate().map(|(at, (place, layers))| Segment {
        part: ModelPart { layers, embedding: at == 0, head: at == last },
        place,
    });
    Route::new(digits.len() as u32, segments.collect()).ok()
}
