//! Whether the rows of a reply travel in fewer bits than usual.
//!
//! Rounding to eight bits changes what a model says now and then, so it has to be worth it: fewer
//! bits are chosen where every figure was measured and the whole reply is predicted to become
//! shorter by [`NARROW_GAIN_MIN_PERCENT`]. That is where the way to some device is slow and nothing
//! else is; fast links, slow processors and ways that nobody has measured keep the usual format.
//! Pure, like all of the planner; the owner may name a format instead, and then nobody asks here.

use std::time::Duration;

use nook_base::PeerId;

use crate::decide::{Decision, Execution, NoPlan, plan};
use crate::facts::{ModelCosts, Situation};
use crate::predict::{Basis, Prediction, predict};
use crate::route::{Place, Route};

/// How much shorter a reply must become, in percent of its whole time. Eight bits save 15/32 of
/// f16's bytes, so this asks that carrying f16 takes about 43 % of the reply: nearly as long as
/// computing, waiting and round trips together.
pub const NARROW_GAIN_MIN_PERCENT: u32 = 20;

/// Rows in fewer bits, as they could travel.
#[derive(Debug, Clone, Copy)]
pub struct NarrowRows {
    /// Bytes of one row; those of the usual format are in [`ModelCosts::row_bytes`].
    pub row_bytes: u64,
}

/// How rows travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// In the usual format.
    Wide,
    /// In fewer bits, and why.
    Narrow(Narrowed),
}

/// What fewer bits gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Narrowed {
    /// How much shorter the reply becomes, in percent.
    pub saved_percent: u32,
    /// The device at the end of the slowest way.
    pub slowest: PeerId,
}

/// As [`plan`], with the rows that go with the plan: a route that pays only with fewer bits is
/// found too.
pub fn plan_with_rows(
    situation: &Situation<'_>,
    narrow: &NarrowRows,
) -> (Result<Decision, NoPlan>, Rows) {
    let usual = plan(situation);
    let Ok(before) = &usual else {
        return (usual, Rows::Wide);
    };
    let costs = narrow.costs(situation);
    let after = plan(&Situation { model: &costs, ..*situation });
    if let Ok(after) = after
        && let Execution::Route(route) = &after.plan.execution
        && let Some(narrowed) =
            narrow.worth_it(situation, route, &before.plan.prediction, &after.plan.prediction)
    {
        return (Ok(after), Rows::Narrow(narrowed));
    }
    (usual, Rows::Wide)
}

/// How rows travel on a route that is settled.
#[must_use]
pub fn rows_on(route: &Route, situation: &Situation<'_>, narrow: &NarrowRows) -> Rows {
    let costs = narrow.costs(situation);
    let before = predict(situation, route);
    let after = predict(&Situation { model: &costs, ..*situation }, route);
    match (before, after) {
        (Ok(before), Ok(after)) => {
            narrow.worth_it(situation, route, &before, &after).map_or(Rows::Wide, Rows::Narrow)
        }
        _ => Rows::Wide,
    }
}

impl NarrowRows {
    fn costs(&self, situation: &Situation<'_>) -> ModelCosts {
        ModelCosts { row_bytes: self.row_bytes, ..situation.model.clone() }
    }

    /// `before` is what is predicted with the usual rows, `after` what with these on `route`.
    fn worth_it(
        &self,
        situation: &Situation<'_>,
        route: &Route,
        before: &Prediction,
        after: &Prediction,
    ) -> Option<Narrowed> {
        // A price with an assumption in it is not comparable with one without.
        if [before.basis, after.basis] != [Basis::Measured; 2] {
            return None;
        }
        let peers = || {
            route.segments().iter().filter_map(|segment| match segment.place {
                Place::Local => None,
                Place::Peer(peer) => Some(peer),
            })
        };
        let bandwidth = |peer: PeerId| {
            let device = situation.others.iter().find(|other| other.place == Place::Peer(peer))?;
            device.link.bandwidth.measured()
        };
        let slowest = peers().min_by_key(|peer| bandwidth(*peer))?;
        let saved_percent = saved_percent(before.total, after.total);
        (saved_percent >= NARROW_GAIN_MIN_PERCENT).then_some(Narrowed { saved_percent, slowest })
    }
}

/// How much less `after` is, in whole percent of `before`.
fn saved_percent(before: Duration, after: Duration) -> u32 {
    let saved = before.saturating_sub(after).as_nanos() * 100 / before.as_nanos().max(1);
    u32::try_from(saved).unwrap_or(100)
}
