//! What is done from time to time: asking the workers, telling them their limits, looking at the
//! machine and counting what was lent.

use std::time::{Duration, Instant};

use nook_base::limits::ADVERT_INTERVAL;
use nook_shard::WorkerLimits;
use nook_store::Settings;

use super::Host;
use super::offers::lending_cap;
use crate::events::{HostEffect, HostTask, OwnSpeed, Surroundings};
use crate::residency::Surveyed;
use nook_api::Sharing;

impl<C> Host<C> {
    /// A second has passed.
    pub(super) fn tick(&mut self, own_speed: OwnSpeed, context: &Surroundings<'_>) {
        let now = context.now;
        let is_old = |at: Instant| now.saturating_duration_since(at) >= ADVERT_INTERVAL;
        if self.advertised_at.is_none_or(is_old) {
            self.advertise(context);
        }
        self.look_at_machine(own_speed, context);
        self.weigh_and_apply(context);
        self.survey(now);
        self.tell_fetching(context);
        if self.ledger.is_due(now, self.streams()) {
            self.close_ledger(context);
        }
        if let Some(list) = self.audit.to_save(now) {
            self.run(HostTask::SaveAudit(list));
        }
    }

    /// Asks the workers, unless that is under way.
    pub(super) fn survey(&mut self, now: Instant) {
        if self.residency.begin_survey(now) {
            self.run(HostTask::Survey);
        }
    }

    /// Takes in what the workers said; whoever may use this device is told what has changed.
    pub(super) fn surveyed(&mut self, surveyed: Surveyed, context: &Surroundings<'_>) {
        let before = self.advert(context);
        self.residency.take(surveyed, context.now);
        self.look_at_leases(context);
        self.limit_workers(context);
        if self.advert(context) != before {
            self.advertise(context);
        }
    }

    /// Tells the workers what they may take, unless they know.
    pub(super) fn limit_workers(&mut self, context: &Surroundings<'_>) {
        let limits = worker_limits(context.settings, context.memory_total);
        let cap = lending_cap(context);
        let told = (limits, self.residency.shares(cap));
        if self.residency.told.as_ref() != Some(&told) {
            self.residency.told = Some(told.clone());
            self.push(HostEffect::LimitWorkers(told.0, told.1));
        }
    }

    /// Looks at the machine when it is time and something depends on it. What was seen when nothing
    /// did any more may be hours old when something does again.
    fn look_at_machine(&mut self, own_speed: OwnSpeed, context: &Surroundings<'_>) {
        let pause = &context.settings.host.pause;
        let matters = self.sharing == Sharing::On
            && (pause.on_battery
                || pause.in_full_screen
                || pause.when_busy_percent.is_some()
                || pause.quiet_hours.is_some()
                || own_speed == OwnSpeed::Unknown);
        let matters = matters || self.residency.watches_cards;
        if !matters {
            self.pause.looks_no_more();
        } else if self.pause.begin_look(context.now) {
            self.run(HostTask::LookAtMachine);
        }
    }

    /// The node leaves: what is not written down is.
    pub(super) fn close_books(&mut self, context: &Surroundings<'_>) {
        self.close_ledger(context);
        if let Some(list) = self.audit.to_save_last(context.now) {
            self.run(HostTask::SaveAudit(list));
        }
    }

    /// Takes over what guests were answered up to now.
    pub(super) fn close_ledger(&mut self, context: &Surroundings<'_>) {
        if let Some(days) = self.ledger.take(context.now, context.today, self.usage.take()) {
            self.run(HostTask::SaveLedger(days));
        }
    }
}

/// What the owner allows each worker.
pub fn worker_limits(settings: &Settings, memory_total: Option<u64>) -> WorkerLimits {
    let host = &settings.host;
    // The node lends a stream before a worker hears of it, exactly and over all workers. A worker
    // takes one more, so that this device measuring itself never costs a guest its place.
    let lent = u16::try_from(host.max_concurrent_streams).unwrap_or(u16::MAX);
    WorkerLimits {
        streams_max: lent.saturating_add(1),
        memory_bytes_max: host.shard_bytes(memory_total),
        gpu_bytes_max: host.gpu_bytes(),
        idle: host.shard_eviction_idle.max(Duration::from_secs(1)),
        backend: settings.inference.backend.in_force(),
        falls_back: false,
    }
}
