//! Runs the tasks that the state machine asks for; each reports by events.

use std::time::Duration;

use nook_base::PeerId;
use nook_base::tasks::Tasks;
use nook_link::Links;
use nook_machine::Machine;
use nook_mux::Call;
use nook_store::{AuditAsked, AuditFile, AuditList, LentDays, LentDaysFile};
use nook_trust::purpose::Lend;
use nook_trust::{Admitted, TicketClaim};
use nook_wire::Message;
use tokio::sync::{Semaphore, watch};

use super::audit::{Moment, subject, why};
use super::chain;
use super::events::{HostEffect, HostEvent, HostTask};
use super::loading::{Loading, give_back};
use super::look::WatchedMachine;
use super::proxy::DRAIN_LIMIT;
use super::refusal::refuse;
use super::residency::Surveyed;
use super::serve::serve;
use super::sleep;
use super::terms::{Guest, NamedCalls, Terms};
use super::tools::Tools;
use nook_api::Sharing;

/// Waited beyond [`DRAIN_LIMIT`] for calls that end by themselves then.
const DRAIN_SLACK: Duration = Duration::from_millis(100);

/// The tasks of the lending side, and what they work with.
#[derive(Debug)]
pub struct Runner {
    tools: Tools,
    links: Links,
    tasks: Tasks,
    machine: WatchedMachine,
    /// What the owner chose, for whoever waits for a sleep.
    chosen: watch::Sender<Sharing>,
    ledger: LentDaysFile,
    audit: AuditFile,
    /// Bytes that programs could still take, as the system counts.
    memory_free: fn() -> u64,
}

impl Runner {
    /// A runner whose tasks belong to `tasks`.
    pub fn new(
        tools: Tools,
        links: Links,
        tasks: Tasks,
        (ledger, audit): (LentDaysFile, AuditFile),
        memory_free: fn() -> u64,
    ) -> Self {
        let (machine, chosen) = (WatchedMachine::default(), watch::Sender::default());
        Self { tools, links, tasks, machine, chosen, ledger, audit, memory_free }
    }

    /// Waits for sleeps of the machine as long as this node runs.
    pub fn watch_for_sleep(&self) {
        let watched = sleep::watch_for_sleep(self.chosen.subscribe(), self.tools.events.clone());
        self.tasks.spawn_until_cancelled("sleep", watched);
    }

    /// Begins what is asked for.
    pub fn run(&self, task: HostTask) {
        match task {
            HostTask::Serve { guest, call, terms } => self.serve(*guest, call, *terms),
            HostTask::Refuse { peer, copies, call, error, why } => {
                let Tools { giving, events, audit, .. } = self.tools.clone();
                let tools = (giving, events, audit);
                let answered = chain::relay_or_refuse((peer, copies), call, (error, why), tools);
                self.tasks.spawn_until_cancelled("refuse", answered);
            }
            HostTask::Answer { call, error } => {
                self.tasks.spawn_until_cancelled("refuse", refuse(call, error));
            }
            HostTask::Join { requester, carrier, claim, call, named } => {
                self.join((&requester, carrier), &claim, call, &named);
            }
            HostTask::Drain { terms, .. } => self.drain(*terms),
            HostTask::DrainForSleep { streams, streams_max, ready } => {
                let links = self.links.all();
                self.tasks.spawn_until_cancelled("fall-asleep", async move {
                    drained(&streams, streams_max).await;
                    sleep::heard(&links).await;
                    // Past its limit nobody waits any more.
                    let _ = ready.send(());
                });
            }
            HostTask::Free { models, force } => {
                let workers = self.tools.workers.clone();
                self.tasks.spawn_until_cancelled("free", async move {
                    for model in models {
                        workers.free(model, force).await;
                    }
                });
            }
            HostTask::Load { job, cut } => {
                let Tools { workers, events, .. } = self.tools.clone();
                let loading = Loading { job: *job, workers, events };
                self.tasks.spawn_until_cancelled("placing", loading.run(cut));
            }
            HostTask::Release { model, ranges, until } => {
                let Tools { workers, events, .. } = self.tools.clone();
                let freed = give_back((model, ranges), until, workers, events);
                self.tasks.spawn_until_cancelled("give-back", freed);
            }
            HostTask::ForgetKept(peer) => {
                let workers = self.tools.workers.clone();
                self.tasks
                    .spawn_until_cancelled("forget", async move { workers.forget(peer).await });
            }
            HostTask::AdvertiseAfter(time) => self.advertise_after(time),
            HostTask::Give(given) => self.tools.giving.give(given),
            HostTask::Survey => self.survey(),
            HostTask::SaveLedger(days) => {
                let file = self.ledger.clone();
                self.tasks.spawn_until_cancelled("ledger", save(file, days));
            }
            HostTask::SaveAudit(list) => {
                let file = self.audit.clone();
                self.tasks.spawn_until_cancelled("audit", save_audit(file, list));
            }
            HostTask::LookAtMachine => self.look_at_machine(),
            HostTask::WatchSleep(sharing) => {
                self.chosen.send_replace(sharing);
            }
        }
    }

    /// Does what is left to do when the node leaves, and waits for it.
    pub async fn finish(&self, effects: Vec<HostEffect>) {
        for effect in effects {
            match effect {
                HostEffect::Run(HostTask::Drain { terms, streams_max }) => {
                    drained(&terms.streams, streams_max).await;
                }
                HostEffect::Run(HostTask::SaveLedger(days)) => {
                    save(self.ledger.clone(), days).await;
                }
                HostEffect::Run(HostTask::SaveAudit(list)) => {
                    save_audit(self.audit.clone(), list).await;
                }
                other => tracing::debug!(?other, "not done: the node leaves"),
            }
        }
    }

    fn serve(&self, guest: Guest, call: Call<Message>, terms: Terms) {
        let tools = self.tools.clone();
        self.tasks.spawn_until_cancelled("lend", async move {
            serve(guest, call, terms, &tools).await;
            // A full queue loses the note; the advert is repeated anyway.
            let _ = tools.events.try_send(HostEvent::StreamChanged);
        });
    }

    fn join(
        &self,
        (requester, carrier): (&Admitted<Lend>, PeerId),
        claim: &TicketClaim,
        call: Call<Message>,
        named: &NamedCalls,
    ) {
        let asked = subject(AuditAsked::Relay, claim.model, None, Some(claim.layers));
        let (audit, at) = (&self.tools.audit, Moment::read());
        match chain::join(named, requester, claim, call) {
            Ok(()) => {
                audit.begin(at, carrier, asked).end(at, None);
                tracing::info!(requester = ?requester.peer(), ?carrier, "steps are relayed");
            }
            Err((call, error)) => {
                audit.refuse(at.unix, carrier, asked, why(error.code));
                self.tasks.spawn_until_cancelled("refuse", refuse(call, error));
            }
        }
    }

    fn drain(&self, terms: Terms) {
        let events = self.tools.events.clone();
        self.tasks.spawn_until_cancelled("drain", async move {
            // As in `drained`.
            let _ = tokio::time::timeout(DRAIN_LIMIT + DRAIN_SLACK, terms.drained()).await;
            let _ = events.send(HostEvent::Drained(terms.served.all())).await;
        });
    }

    fn advertise_after(&self, time: Duration) {
        let events = self.tools.events.clone();
        self.tasks.spawn_until_cancelled("tell-soon", async move {
            tokio::time::sleep(time).await;
            // A node that is leaving tells its devices otherwise.
            let _ = events.send(HostEvent::AdvertDue).await;
        });
    }

    fn survey(&self) {
        let Tools { workers, events, .. } = self.tools.clone();
        let memory_free = self.memory_free;
        self.tasks.spawn_until_cancelled("survey", async move {
            let models = workers.survey().await;
            let backends = workers.backends();
            let (cards, watches_cards) = (backends.cards(), backends.watches_cards());
            let available = memory_free();
            let surveyed = Surveyed { models, available, cards, watches_cards };
            // A node that is leaving asks nothing any more.
            let _ = events.send(HostEvent::Surveyed(surveyed)).await;
        });
    }

    fn look_at_machine(&self) {
        let (machine, events) = (self.machine.clone(), self.tools.events.clone());
        self.tasks.spawn_until_cancelled("machine", async move {
            let conditions = machine.look(Machine::look).await;
            let _ = events.send(HostEvent::Looked(conditions)).await;
        });
    }
}

/// Waits until no stream runs any more, under whatever terms it was lent, but not for long. Nothing
/// is lent meanwhile: this takes what is free.
async fn drained(streams: &Semaphore, streams_max: u16) {
    let all = streams.acquire_many(u32::from(streams_max));
    // Whatever has not ended by then ends with its worker.
    let _ = tokio::time::timeout(DRAIN_LIMIT + DRAIN_SLACK, all).await;
}

async fn save(file: LentDaysFile, days: LentDays) {
    match tokio::task::spawn_blocking(move || file.save(&days)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "how much was lent is not kept"),
        Err(error) => tracing::warn!(%error, "how much was lent is not kept"),
    }
}

async fn save_audit(file: AuditFile, list: AuditList) {
    match tokio::task::spawn_blocking(move || file.save(&list)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "what others asked is not kept"),
        Err(error) => tracing::warn!(%error, "what others asked is not kept"),
    }
}
