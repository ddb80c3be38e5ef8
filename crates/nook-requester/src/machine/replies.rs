//! From a front end's request to a reply under way: the queue, and what a reply needs of the house.

use std::sync::Arc;
use std::time::Instant;

use nook_base::limits::HOPS_MAX;
use nook_base::{ActivationDtype, ErrorCode, ModelDigest};
use nook_model::ModelFile;
use nook_pipeline::{FallBack, FirstWords, Forecast, NormBounds, SpotCheck};
use nook_plan::{Ends, OffloadPolicy, Width};
use nook_store::{ActivationChoice, InferenceSettings};

use crate::choice::Question;
use crate::machine::queue::Place;
use crate::machine::{Effect, Requester, Surroundings, Task, Work};
use crate::reply::CacheCosts;
use nook_api::views::Wording;
use nook_api::{
    Answer, Asker, Counted, GenerateRequest, NodeError, REPLIES_WAITING_MAX, Reach, Reply,
};
use nook_resources::catalogue::Entry;
use nook_resources::open_models::Listed;

/// A reply that was asked for, and may have to wait for its turn.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) asker: Asker,
    pub(crate) model: ModelDigest,
    pub(crate) request: Box<GenerateRequest>,
    /// The kept conversation that it belongs to.
    pub(crate) conversation: Option<i64>,
    pub(crate) answer: Answer<Reply>,
}

/// A reply that begins, with everything that was known when it was asked for.
#[derive(Debug)]
pub(crate) struct ReplyJob {
    pub(crate) listed: Listed,
    pub(crate) request: GenerateRequest,
    pub(crate) answer: Answer<Reply>,
    /// The reply's place among those under way.
    pub(crate) place: Place,
    pub(crate) terms: ReplyTerms,
}

/// Tokens of a reply that count as one piece: about a line of text. Checking one costs a second
/// device all that came before it as well, so not every token is drawn for itself.
const REPLY_PIECE_TOKENS: u32 = 32;

/// How it is to be made.
#[derive(Debug)]
pub(crate) struct ReplyTerms {
    pub(crate) conversation: Option<i64>,
    /// When it was asked for.
    pub(crate) asked: Instant,
    pub(crate) question: Question,
    pub(crate) fall_back: FallBack,
    pub(crate) failovers_max: u32,
    /// What is computed twice; chance is drawn when the reply begins.
    pub(crate) spot_check: SpotCheck,
    pub(crate) norm_bounds: Arc<NormBounds>,
    pub(crate) forecast: Arc<Forecast>,
    pub(crate) cache_costs: CacheCosts,
}

impl Requester {
    /// Starts a reply, or lets it wait for its turn; the answer comes once its prompt is encoded.
    /// Says whether it has a place; where it has none, the answer has said why.
    pub(super) fn generate(
        &mut self,
        asked: Waiting,
        around: &Surroundings<'_>,
    ) -> (bool, Vec<Effect>) {
        let Some(entry) = around.entry(asked.model) else {
            // It was removed while the request was on its way.
            let _ = asked.answer.send(Err(ErrorCode::NotFound.into()));
            return (false, Vec::new());
        };
        if let Some(place) = self.queue.place(asked.asker, replies_max(around)) {
            return (true, vec![self.begin(entry, (asked, place), around)]);
        }
        match self.queue.wait(asked) {
            Ok(()) => (true, Vec::new()),
            Err(refused) => {
                let _ = refused.answer.send(Err(all_busy(self.replies_running())));
                (false, Vec::new())
            }
        }
    }

    /// A reply of this device ended: the next ones that wait begin.
    pub(super) fn reply_ended(&mut self, around: &Surroundings<'_>) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((next, place)) = self.queue.next(replies_max(around)) {
            match around.entry(next.model) {
                Some(entry) => effects.push(self.begin(entry, (next, place), around)),
                // It was removed while the request waited.
                None => drop(next.answer.send(Err(ErrorCode::NotFound.into()))),
            }
        }
        effects
    }

    fn begin(
        &mut self,
        entry: &Entry,
        (asked, place): (Waiting, Place),
        around: &Surroundings<'_>,
    ) -> Effect {
        let (listed, file) = (entry.listed.clone(), entry.file.clone());
        let Waiting { request, conversation, answer, .. } = asked;
        let request = *request;
        self.probing.stop();
        if request.reach == Reach::House {
            self.want_probe(listed.clone(), file.clone(), around);
            self.want_placement(listed.clone(), file.clone(), around.now);
        }
        let inference = &around.settings.inference;
        let fall_back = match inference.fallback_to_local {
            true => FallBack::Allow,
            false => FallBack::Refuse,
        };
        let format = format(request.activation_dtype, around);
        let question = self.question(&listed, file.clone(), (request.reach, format), around);
        let terms = ReplyTerms {
            conversation,
            asked: around.now,
            fall_back,
            failovers_max: inference.fallback_to_local_after_failures,
            spot_check: spot_check(inference),
            norm_bounds: self.records.norm_bounds(listed.digest),
            forecast: Arc::new(question.forecast(around.book)),
            cache_costs: CacheCosts::of(file, &question.facts),
            question,
        };
        Effect::Start(Task(Work::Reply(Box::new(ReplyJob {
            listed,
            request,
            answer,
            place,
            terms,
        }))))
    }

    /// What there is to decide by for a reply with this model, as the house is now.
    pub(super) fn question(
        &self,
        listed: &Listed,
        file: ModelFile,
        (reach, format): (Reach, ActivationChoice),
        around: &Surroundings<'_>,
    ) -> Question {
        let inference = &around.settings.inference;
        Question {
            me: around.me.clone(),
            model: listed.digest,
            file,
            pooling: inference.pooling,
            split: inference.split,
            reach: if inference.enabled { reach } else { Reach::ThisDevice },
            format,
            ends: ends(inference),
            hops_max: (inference.max_shards_per_request as usize).min(HOPS_MAX),
            whole: whole(inference, &listed.name),
            facts: self.estimates.facts(listed.digest, around.now),
        }
    }
}

/// The tokens of a prompt are counted in a task of its own, whatever else is made.
pub(super) fn count(
    model: ModelDigest,
    request: Box<GenerateRequest>,
    answer: Answer<Counted>,
    around: &Surroundings<'_>,
) -> Vec<Effect> {
    let Some(entry) = around.entry(model) else {
        let _ = answer.send(Err(ErrorCode::NotFound.into()));
        return Vec::new();
    };
    let listed = entry.listed.clone();
    vec![Effect::Start(Task(Work::Count { listed, request, answer }))]
}

/// Whether a whole request for the model of this name may run on another device of the owner.
fn whole(inference: &InferenceSettings, name: &str) -> OffloadPolicy {
    match inference.whole_on_own_devices && inference.whole_models.has(name) {
        true => OffloadPolicy::OnOwnDevices,
        false => OffloadPolicy::Refused,
    }
}

/// Which layers stay here, as the owner chose.
pub(crate) fn ends(inference: &InferenceSettings) -> Ends {
    Ends {
        prefix: inference.local_prefix_layers,
        suffix: inference.local_suffix_layers,
        width: if inference.allow_self_as_shard { Width::Free } else { Width::EndsOnly },
    }
}

/// How activations travel: as `wished`, else as set.
pub(super) fn format(
    wished: Option<ActivationDtype>,
    around: &Surroundings<'_>,
) -> ActivationChoice {
    wished.map_or(around.settings.inference.activation_dtype, ActivationChoice::Always)
}

fn replies_max(around: &Surroundings<'_>) -> usize {
    around.settings.inference.max_concurrent_pipelines as usize
}

fn all_busy(running: usize) -> NodeError {
    let words = format!(
        "This device makes {running} replies, and {REPLIES_WAITING_MAX} wait. Try again shortly."
    );
    let (running, waiting) = (running as u64, REPLIES_WAITING_MAX as u64);
    NodeError::new(ErrorCode::Busy, words).worded(Wording::AllBusy { running, waiting })
}

/// What the owner wants computed twice.
fn spot_check(inference: &InferenceSettings) -> SpotCheck {
    let share_ppm = inference.spot_checks_per_thousand.saturating_mul(1_000);
    let first_words = match inference.check_first_words {
        true => FirstWords::Checked,
        false => FirstWords::AtOnce,
    };
    let decode_ppm = share_ppm / REPLY_PIECE_TOKENS;
    SpotCheck { share_ppm, decode_ppm, first_words, ..SpotCheck::OFF }
}
