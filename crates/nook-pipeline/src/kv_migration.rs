//! KV-cache migration: what a device that leaves in order has computed goes to whoever takes its
//! layers.
//!
//! A host that drains offers its KV cache of this conversation ([`Event::KvCacheOffered`]). It is
//! asked for the cache before it is left if the transfer is predicted to take less time than
//! computing again from the replay log, and always if that log is no longer complete:
//!
//! ```text
//! old host:  KvCacheOffered, Draining ── RequestKvCache ──> last answers, KvCacheReceived, Close
//! new host:  WantOffers ──> Offers ──> Open ──> Opened ── SendKvCache ──> KvCacheImported
//! ```
//!
//! The new host goes on at the same position with the same numbers: nothing is computed twice. The
//! node holds the bytes. This module knows only whose they are and how far they reach. Steps that
//! were sent before the host said that it leaves are not part of it; the new host gets them. The
//! migration may fail: the old host goes, the new one refuses, it takes too long, or several
//! devices share the layers. Then the layers are replayed from position 0, as without a migration.
//! No device is blamed.
//!
//! [`Event::KvCacheOffered`]: crate::Event::KvCacheOffered

use std::time::{Duration, Instant};

use nook_base::{ErrorCode, PeerId, PrefixHash};
use nook_plan::Place;

use crate::fault::{Fault, FaultKind};
use crate::measure::StepSums;
use crate::message::{Action, CloseReason, KvMigration, Report};
use crate::pipeline::Pipeline;
use crate::stage::{Migration, Phase, Stage};

/// Longest wait for what a leaving host remembers, and again for the new host to have taken it. The
/// old one frees its memory within two seconds whatever happens; beyond this limit everything is
/// computed again.
pub const KV_MIGRATION_LIMIT: Duration = Duration::from_secs(2);

impl Pipeline {
    /// A host that leaves would give what it remembers, and the node expects that to take so long.
    pub(crate) fn on_kv_cache_offered(&mut self, index: usize, takes: Duration) {
        self.stages[index].caches_take = Some(takes);
    }

    /// The host at `index` leaves: it is asked for what it remembers where that is worth it.
    pub(crate) fn request_kv_cache(&mut self, index: usize, now: Instant) {
        let stage = &self.stages[index];
        let is_possible =
            stage.is_main() && stage.done > 0 && self.stop_due.is_none() && !self.has_side(index);
        let (Some(transfer), Place::Peer(from)) = (stage.caches_take, stage.place()) else {
            return;
        };
        let Phase::Open(attempt) = stage.phase else { return };
        // A host that says goodbye twice is asked once: what came twice would be forgotten once too
        // often.
        if !is_possible || stage.caches_due.is_some() {
            return;
        }
        let replay = self.replay_takes(index);
        let is_cheaper = replay.is_none_or(|replay| transfer < replay);
        let news = KvMigration::Chosen { transfer, replay, is_cheaper };
        self.report(Report::KvMigration { from, layers: self.stages[index].layers(), news });
        if is_cheaper {
            self.stages[index].caches_due = Some(now + KV_MIGRATION_LIMIT);
            self.actions.push(Action::RequestKvCache { attempt });
        }
    }

    /// How long another device would compute what the stage at `index` has, told from the stage's
    /// own steps; `None` where the activations are not all here, so that everything before it would
    /// have to be computed again too.
    fn replay_takes(&self, index: usize) -> Option<Duration> {
        if !self.is_replayable(index) {
            return None;
        }
        let stage = &self.stages[index];
        let each = |sums: StepSums| {
            let us = sums.compute_us + sums.queue_us + sums.wire_us;
            us.checked_div(sums.positions)
        };
        // A replay is prefill; a device that was only seen decoding is no slower at that.
        let us = each(stage.measure.prefill).or_else(|| each(stage.measure.decode))?;
        Some(Duration::from_micros(us.saturating_mul(stage.done.into())))
    }

    /// The node has what the host at `index` remembers, and all that the host has answered before:
    /// its layers go to somebody who gets it.
    pub(crate) fn on_kv_cache_received(
        &mut self,
        index: usize,
        (position, mark): (u32, PrefixHash),
        now: Instant,
    ) {
        let stage = &self.stages[index];
        let (Some(from), Place::Peer(peer)) = (stage.attempt(), stage.place()) else { return };
        let is_wanted = stage.caches_due.is_some() && self.stop_due.is_none();
        if !is_wanted || position == 0 || position != stage.done || mark != self.marks.at(position)
        {
            self.actions.push(Action::DiscardKvCache { from });
            return self.on_fault(index, Fault::leaving(), now);
        }
        self.first_cause.get_or_insert(ErrorCode::Draining);
        self.note_takeover(index, peer, now);
        self.exclude(index, peer, &Fault::leaving());
        self.stages[index].caches_due = None;
        self.close(index, CloseReason::Superseded);
        let stage = &mut self.stages[index];
        stage.fault = Some(ErrorCode::Draining);
        stage.migration =
            Some(Migration { from, peer, layers: stage.layers(), position, due: None });
        self.seek(index, now);
    }

    /// Hands the stage at `index` what lies here for it, once its host takes it.
    pub(crate) fn send_kv_cache(&mut self, index: usize, now: Instant) {
        let stage = &mut self.stages[index];
        let (Phase::Open(attempt), Some(migration)) = (stage.phase, &mut stage.migration) else {
            return;
        };
        if migration.due.is_none() {
            migration.due = Some(now + KV_MIGRATION_LIMIT);
            self.actions.push(Action::SendKvCache { attempt, from: migration.from });
        }
    }

    /// The host at `index` has taken what was given and remembers `position` positions; 0 where it
    /// knows nothing of hand-overs.
    pub(crate) fn on_kv_cache_imported(&mut self, index: usize, position: u32, now: Instant) {
        let stage = &mut self.stages[index];
        let Some(migration) = stage.migration.as_ref().filter(|migration| migration.due.is_some())
        else {
            self.measure.late_frames += 1;
            return;
        };
        if migration.position != position {
            return self.replay_instead(index, now);
        }
        let (from, layers, news) =
            (migration.peer, migration.layers, KvMigration::Moved { position });
        stage.from = position;
        (stage.sent, stage.done) = (position, position);
        stage.ends = vec![position];
        self.drop_migration(index);
        self.draw_after_migration(index, position);
        self.measure.handovers += 1;
        self.report(Report::KvMigration { from, layers, news });
    }

    /// Whether `fault` says that the host at `index` cannot take what it was given: nobody's fault,
    /// and it computes everything itself.
    pub(crate) fn is_migration_refused(&self, index: usize, fault: &Fault) -> bool {
        self.stages[index].migration_due().is_some() && fault.kind == FaultKind::Reported
    }

    /// The stage at `index` gets nothing: it begins at position 0 of its log, on a new call where
    /// the old one may have taken a part.
    pub(crate) fn replay_instead(&mut self, index: usize, now: Instant) {
        let Some(migration) = &self.stages[index].migration else { return };
        let (from, layers, news) = (migration.peer, migration.layers, KvMigration::GivenUp);
        self.report(Report::KvMigration { from, layers, news });
        self.drop_migration(index);
        if self.stages[index].attempt().is_some() {
            self.close(index, CloseReason::Superseded);
            self.open(index, now);
        }
        self.rewind(index, now);
    }

    /// `fault`, or a goodbye where a host that leaves was only waited for with what it remembers:
    /// that it does not give it is no failure.
    pub(crate) fn excused(&self, index: usize, fault: Fault) -> Fault {
        let is_excused = matches!(fault.kind, FaultKind::Reported | FaultKind::Broken);
        match self.stages[index].caches_due {
            Some(_) if is_excused => Fault::leaving(),
            _ => fault,
        }
    }

    /// The host at `index`, which was asked for what it remembers, is left without it.
    pub(crate) fn note_no_kv_cache(&mut self, index: usize, from: PeerId) {
        if self.stages[index].caches_due.take().is_some() {
            let (layers, news) = (self.stages[index].layers(), KvMigration::GivenUp);
            self.report(Report::KvMigration { from, layers, news });
        }
    }

    /// Ends the waiting for hand-overs whose time is up.
    pub(crate) fn drop_late_migrations(&mut self, now: Instant) {
        let is_past = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        while let Some(index) = self.stages.iter().position(|stage| is_past(stage.migration_due()))
        {
            self.replay_instead(index, now);
        }
        while let Some(index) = self.stages.iter().position(|stage| is_past(stage.caches_due)) {
            self.on_fault(index, Fault::leaving(), now);
        }
    }

    /// Forgets what was to be given to the stage at `index`.
    pub(crate) fn drop_migration(&mut self, index: usize) {
        if let Some(migration) = self.stages[index].migration.take() {
            self.actions.push(Action::DiscardKvCache { from: migration.from });
        }
    }
}

impl Stage {
    /// When to stop waiting for the host to have taken what it was given.
    pub(crate) fn migration_due(&self) -> Option<Instant> {
        self.migration.as_ref().and_then(|migration| migration.due)
    }

    /// A new call begins at this stage: what was given to an earlier one is given again.
    pub(crate) fn keep_migration(&mut self) {
        if let Some(migration) = &mut self.migration {
            migration.due = None;
        }
    }
}
