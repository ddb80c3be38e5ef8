//! From a door's wish to a walk.

use std::sync::Arc;

use nook_base::limits::HOPS_MAX;
use nook_base::{ErrorCode, ModelDigest, Sensitive, clock};
use nook_pipeline::FallBack;
use nook_plan::{Route, Topology, greedy_cover};
use tokio::sync::mpsc;

use crate::house::{
    Answer, GenerateRequest, HouseError, REPLIES_WAITING_MAX, REPLY_EVENTS_MAX, Reach, Reply,
};
use crate::prompt;
use crate::reply::{Teller, Walk, WalkSetup};
use crate::shelf::{Listed, OpenModel};
use crate::state::{Inside, State};

/// What a reply needs of the house, as it was when the reply was asked for.
pub(crate) struct Desk {
    setup: Box<dyn FnOnce(Arc<OpenModel>, prompt::Ready, Route, Teller) -> WalkSetup + Send>,
    teller: Teller,
    topology: (u32, u32),
    hops_max: usize,
    reach: Reach,
}

impl State {
    /// Starts a reply, or lets it wait for its turn; the answer comes once its prompt is encoded.
    pub(crate) fn generate(&mut self, request: GenerateRequest, answer: Answer<Reply>) {
        let listed = match self.model(&request.model) {
            Ok(entry) => entry.listed.clone(),
            Err(error) => {
                let _ = answer.send(Err(error));
                return;
            }
        };
        if self.replies_running() < self.replies_max() {
            self.begin(listed, request, answer);
            return;
        }
        // Whoever has left meanwhile needs no place.
        self.waiting.retain(|(_, answer)| !answer.is_closed());
        if self.waiting.len() < REPLIES_WAITING_MAX {
            self.waiting.push_back((Box::new(request), answer));
            return;
        }
        let _ = answer.send(Err(HouseError::new(
            ErrorCode::Busy,
            format!(
                "This device makes {} replies, and {REPLIES_WAITING_MAX} wait. Try again shortly.",
                self.replies_running()
            ),
        )));
    }

    /// A reply of this device ended: the next one that waits begins.
    pub(crate) fn reply_ended(&mut self) {
        while self.replies_running() < self.replies_max() {
            let Some((request, answer)) = self.waiting.pop_front() else { return };
            if !answer.is_closed() {
                self.generate(*request, answer);
            }
        }
    }

    fn replies_max(&self) -> usize {
        self.settings.settings().inference.max_concurrent_pipelines as usize
    }

    fn begin(&mut self, listed: Listed, request: GenerateRequest, answer: Answer<Reply>) {
        let seat = self.replies.clone();
        let (events, receiver) = mpsc::channel(REPLY_EVENTS_MAX);
        let desk = self.desk(&request, listed.digest, events);
        let (shelf, inside) = (self.shelf.clone(), self.inside.clone());
        self.tasks.spawn_until_cancelled("reply", async move {
            let begun = async {
                let model = shelf.open(listed).await?;
                // Rendering and encoding a long prompt takes milliseconds: not on the runtime.
                let (ready, model) = tokio::task::spawn_blocking(move || {
                    prompt::ready(&model, &request).map(|ready| (ready, model))
                })
                .await
                .map_err(|_| HouseError::from(ErrorCode::BadRequest))??;
                Ok((ready, model))
            };
            match begun.await {
                Ok((ready, model)) => {
                    let prompt_ids = Sensitive(ready.ids.clone());
                    let model_name = model.listed.name.clone();
                    let reply = Reply { model: model_name, prompt_ids, events: receiver };
                    if answer.send(Ok(reply)).is_ok() {
                        desk.walk(model, ready).run().await;
                    }
                }
                Err(error) => {
                    let _ = answer.send(Err(error));
                }
            }
            drop(seat);
            let _ = inside.send(Inside::ReplyEnded).await;
        });
    }

    fn desk(
        &self,
        request: &GenerateRequest,
        model: ModelDigest,
        events: mpsc::Sender<crate::house::ReplyPiece>,
    ) -> Desk {
        let inference = self.settings.settings().inference.clone();
        let teller = Teller {
            me: self.me.clone(),
            book: self.book.subscribe(),
            events,
            asked: clock::now(),
            first: None,
            last: None,
            tokens: 0,
            failovers: Vec::new(),
            house: self.inside.clone(),
        };
        let (workers, links, tasks) =
            (self.workers.clone(), self.links.clone(), self.tasks.clone());
        let dtype = request.activation_dtype.unwrap_or(inference.activation_dtype);
        let fall_back =
            if inference.fallback_to_local { FallBack::Allow } else { FallBack::Refuse };
        let failovers_max = inference.fallback_to_local_after_failures;
        let spot_check_ppm = inference.spot_checks_per_thousand.saturating_mul(1_000);
        let gains = self.records.gains(model);
        Desk {
            setup: Box::new(move |model, ready, route, teller| WalkSetup {
                model,
                route,
                ready,
                dtype,
                fall_back,
                failovers_max,
                spot_check_ppm,
                gains,
                teller,
                workers,
                links,
                tasks,
            }),
            teller,
            topology: (inference.local_prefix_layers, inference.local_suffix_layers),
            hops_max: (inference.max_shards_per_request as usize).min(HOPS_MAX),
            reach: request.reach,
        }
    }
}

impl Desk {
    fn walk(self, model: Arc<OpenModel>, ready: prompt::Ready) -> Walk {
        let route = self.route(&model);
        Walk::new((self.setup)(model, ready, route, self.teller))
    }

    /// Over the house where offers cover the middle of the model, else alone.
    fn route(&self, model: &OpenModel) -> Route {
        let layers = model.shape.layers;
        let alone = || {
            Route::alone(layers)
                .expect("a validated model has at least one layer, so this cuts nothing")
        };
        if self.reach == Reach::ThisDevice {
            return alone();
        }
        let (prefix, suffix) = self.topology;
        let Ok(topology) = Topology::or_alone(layers, prefix, suffix) else {
            return alone();
        };
        if topology.is_alone() {
            return alone();
        }
        let offers = self.teller.book.borrow().offers(model.listed.digest, clock::now());
        if offers.is_empty() {
            return alone();
        }
        match greedy_cover(topology.middle(), &offers, self.hops_max) {
            Ok(hops) => Route::boomerang(topology, &hops).unwrap_or_else(|error| {
                tracing::error!(%error, "a cover made no route");
                alone()
            }),
            Err(error) => {
                tracing::info!(%error, "this device computes alone");
                alone()
            }
        }
    }
}
