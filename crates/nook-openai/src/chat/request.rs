//! The body of `POST /v1/chat/completions`, as sent and as understood.

use std::collections::VecDeque;

use nook_api::views::HouseholdView;
use nook_api::{Dialog, GenerateRequest, Prompt, Reach};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::format::{self, SentFormat};
use crate::messages::{self, SentMessage};
use crate::sampling::{SentSampling, Stop, StreamOptions, model_name, refuse, stops, tokens_max};
use crate::thinking;
use crate::tools::{self, SentChoice, SentTool};

/// Most replies of one request; they are made one after the other.
const REPLIES_MAX: u64 = 16;

/// Most alternatives of a token.
const TOP_LOGPROBS_MAX: u64 = 20;

/// A request for a chat completion. Fields that are not listed are ignored.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ChatCompletionRequest")]
pub(crate) struct Body {
    /// Name of the model: exact, then ignoring case, then a unique beginning. Empty or `default`
    /// stands for the model that was added last.
    model: Option<String>,
    messages: Vec<SentMessage>,
    /// Send the reply while it is made.
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    /// Most tokens of the reply; absent or -1: as many as fit.
    max_tokens: Option<i64>,
    /// The newer name of `max_tokens`, which goes before it.
    max_completion_tokens: Option<i64>,
    /// 0 takes the likeliest token; absent: 0.7.
    temperature: Option<f64>,
    /// Only the likeliest tokens that make up this probability.
    top_p: Option<f64>,
    /// Only so many of the likeliest tokens; 0 or -1: all.
    top_k: Option<i64>,
    /// Only tokens at least this likely compared with the likeliest.
    min_p: Option<f64>,
    /// Above 1 makes repetition less likely.
    repetition_penalty: Option<f64>,
    /// Same seed, same reply.
    seed: Option<i64>,
    /// At most 64 strings that end the reply and are not part of it.
    stop: Option<Stop>,
    /// So many replies, at most 16, made one after the other.
    n: Option<u64>,
    /// Tell how likely each token was.
    logprobs: Option<bool>,
    /// With so many alternatives, at most 20; needs `logprobs`.
    top_logprobs: Option<u64>,
    /// From -2 to 2.
    frequency_penalty: Option<f64>,
    /// From -2 to 2.
    presence_penalty: Option<f64>,
    /// Token ids, as strings, to numbers from -100 to 100.
    logit_bias: Option<Map<String, Value>>,
    tools: Option<Vec<SentTool>>,
    tool_choice: Option<SentChoice>,
    /// Whether one reply may make several calls; absent: yes.
    parallel_tool_calls: Option<bool>,
    /// Not supported: `tools` took its place.
    functions: Option<Vec<Value>>,
    /// May only hold `text`.
    modalities: Option<Vec<String>>,
    response_format: Option<SentFormat>,
    /// A schema for the reply, as vLLM's clients send it.
    guided_json: Option<Value>,
    /// Not supported: `guided_json` is.
    guided_regex: Option<Value>,
    /// Not supported: `guided_json` is.
    guided_choice: Option<Value>,
    /// Not supported: `guided_json` is.
    guided_grammar: Option<Value>,
    /// Handed to templates that know it; `none` asks for no thinking.
    reasoning_effort: Option<String>,
    /// As clients of vLLM and llama.cpp send it: `enable_thinking` or `thinking`, true or false, and
    /// `reasoning_effort`. Others are refused.
    chat_template_kwargs: Option<Map<String, Value>>,
    /// Tell in objects called `inglenook` what happens between devices, and who computed the reply.
    inglenook: Option<bool>,
}

/// What an answer holds only for whoever asks for it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extras {
    /// A last chunk of a stream with what it took.
    pub(crate) usage: bool,
    /// What happened between devices.
    pub(crate) inglenook: bool,
}

/// The body as understood.
#[derive(Debug)]
pub(crate) struct Understood {
    pub(crate) request: GenerateRequest,
    /// More of the same.
    pub(crate) more: VecDeque<GenerateRequest>,
    pub(crate) stream: bool,
    pub(crate) extras: Extras,
}

impl Body {
    /// Checks everything and turns it into a request to the house.
    pub(crate) fn understand(self, house: &HouseholdView) -> Result<Understood, ApiError> {
        self.refuse_unsupported()?;
        let alternatives = self.logprobs.unwrap_or(false).then(|| self.top_logprobs.unwrap_or(0));
        let sampling = SentSampling {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            logit_bias: self.logit_bias,
            alternatives: alternatives.map(|top| usize::try_from(top).unwrap_or(usize::MAX)),
            shape: match format::guided(self.guided_json)? {
                Some(shape) => Some(shape),
                None => format::shape("response_format", self.response_format)?,
            },
        };
        let (choice, tools) = tools::choice(self.tool_choice, tools::tools(self.tools)?)?;
        let thinking = thinking::chosen(self.reasoning_effort, self.chat_template_kwargs)?;
        let dialog = Dialog {
            choice,
            tools,
            turns: messages::turns(self.messages)?,
            parallel: self.parallel_tool_calls.unwrap_or(true),
        };
        let request = GenerateRequest {
            model: model_name(self.model, house)?,
            prompt: Prompt::Dialog(Box::new(dialog)),
            tokens_max: tokens_max("max_tokens", self.max_completion_tokens.or(self.max_tokens))?,
            sampling: sampling.sampling()?,
            stop: stops("stop", self.stop)?,
            thinking,
            activation_dtype: None,
            reach: Reach::House,
        };
        let extras = Extras {
            usage: self.stream_options.is_some_and(|options| options.include_usage),
            inglenook: self.inglenook.unwrap_or(false),
        };
        let more = others(&request, self.n.unwrap_or(1));
        Ok(Understood { request, more, stream: self.stream.unwrap_or(false), extras })
    }

    fn refuse_unsupported(&self) -> Result<(), ApiError> {
        let any = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|list| !list.is_empty());
        let kinds = self.modalities.as_deref().unwrap_or_default();
        let top = self.top_logprobs.unwrap_or(0);
        refuse(&[
            (self.n.is_some_and(|n| !(1..=REPLIES_MAX).contains(&n)), "n", "may be from 1 to 16."),
            (top > TOP_LOGPROBS_MAX, "top_logprobs", "may be at most 20."),
            (top > 0 && self.logprobs != Some(true), "top_logprobs", "needs logprobs to be true."),
            (self.guided_regex.is_some(), "guided_regex", "is not supported; guided_json is."),
            (self.guided_choice.is_some(), "guided_choice", "is not supported; guided_json is."),
            (self.guided_grammar.is_some(), "guided_grammar", "is not supported; guided_json is."),
            (any(&self.functions), "functions", "is not supported; tools is."),
            (kinds.iter().any(|kind| kind != "text"), "modalities", "may only hold text."),
        ])
    }
}

/// All but the first of `n` requests. A seed makes the first reply; each other one has its own.
fn others(request: &GenerateRequest, n: u64) -> VecDeque<GenerateRequest> {
    let one = |number: u64| {
        let mut request = request.clone();
        let seed = &mut request.sampling.parameters.seed;
        *seed = seed.map(|seed| seed.wrapping_add(number));
        request
    };
    (1..n).map(one).collect()
}
