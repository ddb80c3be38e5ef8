//! From a door's wish to a walk.

use std::collections::BTreeSet;
use std::sync::Arc;

use nook_base::limits::HOPS_MAX;
use nook_base::{ActivationDtype, ErrorCode, ModelDigest, PeerId, Sensitive, clock};
use nook_model::ModelFile;
use nook_pipeline::FallBack;
use nook_plan::{Ends, Route, WholeElsewhere, Width};
use nook_store::ActivationChoice;
use nook_wire::FEATURE_Q8;
use tokio::sync::mpsc;

use crate::choice::{Encoded, Question};
use crate::house::{
    Answer, GenerateRequest, HouseError, REPLIES_WAITING_MAX, REPLY_EVENTS_MAX, Reach, Reply,
};
use crate::prompt;
use crate::reply::{self, CacheCosts, Given, Teller, WalkSetup};
use crate::shelf::{Listed, OpenModel};
use crate::state::{Inside, State, Waiting};
use crate::views::Wording;
use crate::workers::Workers;

/// What a reply needs of the house, as it was when the reply was asked for.
pub(crate) struct Desk {
    setup: Box<dyn FnOnce(Arc<OpenModel>, prompt::Ready, Way, Teller) -> WalkSetup + Send>,
    teller: Teller,
    question: Question,
    workers: Workers,
}

/// Where a reply is computed.
struct Way {
    route: Route,
    /// Whether that was chosen knowing what earlier replies left where.
    is_planned: bool,
    /// How activations travel there.
    dtype: ActivationDtype,
    /// The device that is to run everything first, if one is.
    whole: Option<Given>,
}

impl State {
    /// Starts a reply, or lets it wait for its turn; the answer comes once its prompt is encoded. Says
    /// whether it has a place; where it has none, the answer has said why.
    pub(crate) fn generate(
        &mut self,
        request: GenerateRequest,
        conversation: Option<i64>,
        answer: Answer<Reply>,
    ) -> bool {
        let (listed, file) = match self.model(&request.model) {
            Ok(entry) => (entry.listed.clone(), entry.file.clone()),
            Err(error) => {
                let _ = answer.send(Err(error));
                return false;
            }
        };
        if self.replies_running() < self.replies_max() {
            self.begin((listed, file), request, conversation, answer);
            return true;
        }
        // Whoever has left meanwhile needs no place.
        self.waiting.retain(|waiting| !waiting.answer.is_closed());
        if self.waiting.len() < REPLIES_WAITING_MAX {
            let request = Box::new(request);
            self.waiting.push_back(Waiting { request, conversation, answer });
            return true;
        }
        let running = self.replies_running();
        let error = HouseError::new(
            ErrorCode::Busy,
            format!(
                "This device makes {running} replies, and {REPLIES_WAITING_MAX} wait. Try again shortly."
            ),
        );
        let (running, waiting) = (running as u64, REPLIES_WAITING_MAX as u64);
        let _ = answer.send(Err(error.worded(Wording::AllBusy { running, waiting })));
        false
    }

    /// A reply of this device ended: the next one that waits begins.
    pub(crate) fn reply_ended(&mut self) {
        while self.replies_running() < self.replies_max() {
            let Some(next) = self.waiting.pop_front() else { return };
            if !next.answer.is_closed() {
                self.generate(*next.request, next.conversation, next.answer);
            }
        }
    }

    fn replies_max(&self) -> usize {
        self.settings.settings().inference.max_concurrent_pipelines as usize
    }

    fn begin(
        &mut self,
        (listed, file): (Listed, ModelFile),
        request: GenerateRequest,
        conversation: Option<i64>,
        mut answer: Answer<Reply>,
    ) {
        let seat = self.replies.clone();
        self.stop_probing();
        if request.reach == Reach::House {
            self.want_probe(listed.clone(), file.clone());
            self.want_placement(listed.clone(), file.clone());
        }
        let (events, receiver) = mpsc::channel(REPLY_EVENTS_MAX);
        let desk = self.desk(&request, &listed, file, (events, conversation));
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
            let begun = tokio::select! {
                biased;
                // Whoever has left gives the place back at once, however long the model takes to open.
                () = answer.closed() => Err(HouseError::from(ErrorCode::Cancelled)),
                begun = begun => begun,
            };
            match begun {
                Ok((ready, model)) => {
                    let prompt_ids = Sensitive(ready.ids.clone());
                    let model_name = model.listed.name.clone();
                    let form = ready.form.clone();
                    let reply = Reply { model: model_name, prompt_ids, form, events: receiver };
                    if answer.send(Ok(reply)).is_ok()
                        && let Some(setup) = desk.setup(model, ready).await
                    {
                        reply::run(setup).await;
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

    /// Connected devices that have said in HELLO that they know `feature`.
    fn who_understands(&self, feature: u32) -> BTreeSet<PeerId> {
        let book = self.book.borrow();
        let understands = |peer: &&PeerId| {
            self.links.link(**peer).is_some_and(|link| link.hello().features & feature != 0)
        };
        book.names.keys().filter(understands).copied().collect()
    }

    /// How activations travel: as `wished`, else as set; with it who understands a narrower format,
    /// where the choice is open.
    pub(crate) fn format(
        &self,
        wished: Option<ActivationDtype>,
    ) -> (ActivationDtype, Option<BTreeSet<PeerId>>) {
        match (wished, self.settings.settings().inference.activation_dtype) {
            (Some(dtype), _) | (None, ActivationChoice::Always(dtype)) => (dtype, None),
            (None, ActivationChoice::ByLink) => {
                (ActivationDtype::F16, Some(self.who_understands(FEATURE_Q8)))
            }
        }
    }

    fn desk(
        &self,
        request: &GenerateRequest,
        listed: &Listed,
        file: ModelFile,
        (events, conversation): (mpsc::Sender<crate::house::ReplyPiece>, Option<i64>),
    ) -> Desk {
        let model = listed.digest;
        let inference = self.settings.settings().inference.clone();
        let teller = Teller {
            number: rand::random(),
            model,
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
        let key = self.key.clone();
        let (workers, links, tasks) =
            (self.workers.clone(), self.links.clone(), self.tasks.clone());
        let format = self.format(request.activation_dtype);
        let fall_back =
            if inference.fallback_to_local { FallBack::Allow } else { FallBack::Refuse };
        let failovers_max = inference.fallback_to_local_after_failures;
        let spot_check_ppm = inference.spot_checks_per_thousand.saturating_mul(1_000);
        let gains = self.records.gains(model);
        let question = self.question(model, file.clone(), request.reach, format);
        let cache_costs = CacheCosts::of(file, &question.facts);
        let forecast = Arc::new(question.forecast(&self.book.borrow()));
        Desk {
            question,
            workers: workers.clone(),
            setup: Box::new(move |model, ready, way, teller| WalkSetup {
                model,
                whole: way.whole,
                begun: None,
                route: way.route,
                is_planned: way.is_planned,
                ready,
                dtype: way.dtype,
                fall_back,
                failovers_max,
                spot_check_ppm,
                gains,
                forecast,
                conversation,
                cache_costs,
                teller,
                key,
                workers,
                links,
                tasks,
            }),
            teller,
        }
    }

    /// What there is to decide by for a reply with this model, as the house is now. With the format of
    /// activations goes who understands a narrower one, where the choice is open.
    pub(crate) fn question(
        &self,
        model: ModelDigest,
        file: ModelFile,
        reach: Reach,
        (dtype, narrow): (ActivationDtype, Option<BTreeSet<PeerId>>),
    ) -> Question {
        let inference = &self.settings.settings().inference;
        Question {
            me: self.me.clone(),
            model,
            file,
            pooling: inference.pooling,
            split: inference.split,
            reach: if inference.enabled { reach } else { Reach::ThisDevice },
            dtype,
            narrow,
            ends: ends(inference),
            hops_max: (inference.max_shards_per_request as usize).min(HOPS_MAX),
            whole: match inference.whole_on_own_devices {
                true => WholeElsewhere::OnOwnDevices,
                false => WholeElsewhere::Refused,
            },
            facts: self.gauges.facts(model, clock::now()),
        }
    }
}

/// Which layers stay here, as the owner chose.
pub(crate) fn ends(inference: &nook_store::InferenceSettings) -> Ends {
    Ends {
        prefix: inference.local_prefix_layers,
        suffix: inference.local_suffix_layers,
        width: if inference.allow_self_as_shard { Width::Free } else { Width::EndsOnly },
    }
}

impl Desk {
    /// Decides and makes ready; `None` when the house is leaving.
    async fn setup(self, model: Arc<OpenModel>, ready: prompt::Ready) -> Option<WalkSetup> {
        let held = self.workers.held(model.listed.digest).await;
        let told = Encoded {
            prompt: u32::try_from(ready.ids.len()).unwrap_or(u32::MAX),
            tokens_max: ready.tokens_max,
            held,
            memory_free: 0,
            warm: model.trails.warm(&ready.ids, self.question.file.shape().layers),
        };
        let (mut question, teller) = (self.question, self.teller);
        if ready.constraint.is_some() || ready.alternatives.is_some() {
            // A form, and how likely each token was, are worked out from the logits, which stay where
            // they are made.
            question.whole = WholeElsewhere::Refused;
        }
        let may_narrow = question.narrow.is_some();
        let book = teller.book.borrow().clone();
        // Sizing a large model looks at thousands of names, and the system is asked for its memory.
        let choosing = tokio::task::spawn_blocking(move || {
            let told = Encoded { memory_free: memory_free(), ..told };
            (question.choose(&told, &book, clock::now()), told)
        });
        let (choice, told) = choosing.await.ok()?;
        teller.decided(&model.listed, &choice, &told).await;
        // What was begun in one format goes on in it: to compute everything again costs more.
        let dtype = match may_narrow {
            true => model.trails.written_as(&ready.ids).unwrap_or(choice.dtype),
            false => choice.dtype,
        };
        let whole = choice.whole.and_then(|whole| {
            let own = teller.book.borrow().own.get(&whole.peer).cloned()?;
            Some(Given { pass: own.pass, prediction: whole.prediction })
        });
        let way = Way { route: choice.route, is_planned: choice.is_planned, dtype, whole };
        Some((self.setup)(model, ready, way, teller))
    }
}

/// Bytes that programs could still take without swapping, as the system counts. Where it does not
/// say, everything: this device's own model is never refused for a figure that nobody has.
pub(crate) fn memory_free() -> u64 {
    let Ok(mut system) = sysinfo::System::new() else { return u64::MAX };
    system.refresh_memory();
    system.available_memory()
}

/// All memory of this device, in bytes, asked of the system once.
pub(crate) fn memory_total() -> Option<u64> {
    static TOTAL: std::sync::OnceLock<Option<u64>> = std::sync::OnceLock::new();
    *TOTAL.get_or_init(|| {
        let mut system = sysinfo::System::new().ok()?;
        system.refresh_memory();
        Some(system.total_memory()).filter(|bytes| *bytes > 0)
    })
}
