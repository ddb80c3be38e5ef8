//! Sharing as the owner switches it and as the pause allows it: the terms begin and end here.

use std::collections::BTreeSet;
use std::sync::Arc;

use nook_base::ModelDigest;
use nook_machine::Conditions;
use nook_store::{HostSettings, Settings};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::task::TaskTracker;

use super::Host;
use crate::events::{Guests, HostEffect, HostTask, Surroundings};
use crate::terms::{NamedCalls, Served, Terms};
use nook_api::Sharing;
use nook_resources::catalogue::Entry;

impl<C> Host<C> {
    /// Makes lending what the settings say. Whatever ran under the old terms finishes its step and
    /// ends; where nothing is lent now, the memory it took is freed then.
    pub(super) fn apply(&mut self, context: &Surroundings<'_>) {
        if let Some(terms) = self.terms.take() {
            terms.until.cancel();
            let streams_max = self.streams_max;
            self.run(HostTask::Drain { terms: Box::new(terms), streams_max });
            self.run(HostTask::ForgetKept(None));
        }
        self.end_leases(context);
        self.guests.clear();
        let settings = context.settings;
        let on = settings.inference.enabled && settings.host.serve_shards;
        self.sharing = if on { Sharing::On } else { Sharing::Off };
        self.run(HostTask::WatchSleep(self.sharing));
        let streams_max = u16::try_from(settings.host.max_concurrent_streams).unwrap_or(u16::MAX);
        if streams_max != self.streams_max {
            self.streams_max = streams_max;
            self.streams = Arc::new(Semaphore::new(usize::from(streams_max)));
        }
        if on && self.pause.reason().is_none() {
            self.owed.clear();
            self.terms = Some(Terms {
                lent: Arc::new(self.lent_now(context)),
                streams: self.streams.clone(),
                running: TaskTracker::new(),
                until: self.lifetime.child_token(),
                revoked: self.lifetime.child_token(),
                served: Served::default(),
                usage: self.usage.clone(),
                named: NamedCalls::default(),
                marks_key: context.fresh_key.clone(),
            });
        }
        self.advertise(context);
    }

    /// Works out anew whether sharing pauses; whether that changed.
    pub(super) fn weigh(&mut self, context: &Surroundings<'_>) -> bool {
        let wish = &context.settings.host.pause;
        self.pause.weigh(context.now, context.unix_seconds, wish)
    }

    pub(super) fn weigh_and_apply(&mut self, context: &Surroundings<'_>) {
        if self.weigh(context) {
            self.apply(context);
        }
    }

    /// Streams of other devices are only disturbed when what is lent has changed.
    pub(super) fn settings_changed(&mut self, before: &Settings, context: &Surroundings<'_>) {
        let now = context.settings;
        let same_lending = {
            let pause = now.host.pause;
            let before_host = HostSettings { pause, ..before.host.clone() };
            (&before_host, before.inference.enabled) == (&now.host, now.inference.enabled)
        };
        // The pause is weighed apart: streams go on where that comes to the same.
        let pause_changed = self.weigh(context);
        if !same_lending || pause_changed {
            self.apply(context);
        }
        // A worker is told what computes with what it may take.
        if !same_lending || before.inference.backend != now.inference.backend {
            self.limit_workers(context);
        }
    }

    /// Nothing of other devices runs on the workers of `models` any more: unless sharing is on
    /// again, the machine is its owner's, all of it.
    pub(super) fn free(&mut self, models: BTreeSet<ModelDigest>, context: &Surroundings<'_>) {
        if self.terms.is_some() {
            // The new terms may allow less; what is still wanted comes back under them.
            return self.take_back(models, context);
        }
        self.owed.extend(models);
        // A worker that is loading for a guest who is gone answers nobody; with no reply of our own
        // there is nothing to ask it either.
        let force = context.replies == 0;
        let models = self.owed.clone();
        if force {
            self.owed.clear();
        }
        self.run(HostTask::Free { models, force });
    }

    /// All memory that no reply of this device needs goes; where guests are served until now, when
    /// their steps are done.
    pub(super) fn free_all(&mut self, guests: Guests, context: &Surroundings<'_>) {
        let mut all: BTreeSet<_> = context.entries().map(Entry::digest).collect();
        // A model that was deleted while its worker runs is in no list.
        all.extend(self.residency.all().map(|(model, _)| model));
        match guests {
            Guests::Draining => self.owed.extend(all),
            Guests::None => self.free(all, context),
        }
    }

    /// What was owed while a reply ran may be free now.
    pub(super) fn reply_ended(&mut self, context: &Surroundings<'_>) {
        if !self.owed.is_empty() {
            self.free(BTreeSet::new(), context);
        }
    }

    pub(super) fn looked(&mut self, conditions: Option<Conditions>, context: &Surroundings<'_>) {
        self.pause.looked(conditions);
        self.weigh_and_apply(context);
    }

    /// Lends nothing from now on, and says `ready` when nothing of others runs here and they know
    /// it.
    pub(super) fn sleep_near(&mut self, ready: oneshot::Sender<()>, context: &Surroundings<'_>) {
        self.pause.sleep_is_near();
        self.weigh_and_apply(context);
        self.push(HostEffect::SayNow);
        let (streams, streams_max) = (self.streams.clone(), self.streams_max);
        self.run(HostTask::DrainForSleep { streams, streams_max, ready });
    }

    /// Lends again, and looks for the devices that have hung up meanwhile.
    pub(super) fn sleep_over(&mut self, context: &Surroundings<'_>) {
        self.pause.sleep_is_over();
        self.weigh_and_apply(context);
        self.push(HostEffect::WakeUp);
    }

    /// The node leaves: guests finish their steps. Devices hear of it by the goodbye on each link.
    pub(super) fn leave(&mut self) {
        if let Some(terms) = self.terms.take() {
            terms.until.cancel();
            let streams_max = self.streams_max;
            self.run(HostTask::Drain { terms: Box::new(terms), streams_max });
        }
    }
}
