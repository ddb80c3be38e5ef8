//! `POST /v1/completions`: plain text or token ids, continued as they are.
//!
//! Several prompts are answered one after the other, each as a choice of its own.

use std::collections::VecDeque;

use axum::extract::State;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use nook_api::views::HouseholdView;
use nook_api::{GenerateRequest, PieceLogprobs, Prompt, Reach, Thinking};
use nook_base::{Sensitive, clock};
use nook_text::Said;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::answer::{AnswerHead, new_id};
use crate::asking::{Asked, Heard, Leaves};
use crate::caller::Caller;
use crate::error::ApiError;
use crate::happened::Happened;
use crate::port::Port;
use crate::sampling::{SentSampling, Stop, StreamOptions, model_name, refuse, stops, tokens_max};
use crate::shapes::{TextChoice, TextCompletion, TextLogprobs, Usage, finish_reason};
use crate::stream::{self, Outgoing, comment, data, failed};

/// Most prompts of one request; more are refused, because they are answered one after the other.
const PROMPTS_MAX: usize = 64;

/// Most alternatives of a token, as OpenAI has it.
const LOGPROBS_MAX: u64 = 5;

/// A request to continue texts. Fields that are not listed are ignored.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CompletionRequest")]
pub(crate) struct Body {
    /// See chat completions.
    model: Option<String>,
    prompt: SentPrompt,
    /// Send the replies while they are made.
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    /// Most tokens of each reply; absent or -1: as many as fit.
    max_tokens: Option<i64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    min_p: Option<f64>,
    repetition_penalty: Option<f64>,
    seed: Option<i64>,
    stop: Option<Stop>,
    /// May only be 1.
    n: Option<u64>,
    /// May only be 1.
    best_of: Option<u64>,
    /// Tell how likely each token was, with so many alternatives, at most 5.
    logprobs: Option<u64>,
    /// Put the prompt before its reply; not together with `logprobs`.
    echo: Option<bool>,
    /// What stands behind the reply: the model fills the gap between the prompt and this. Only with
    /// prompts that are text, and models whose vocabulary has marks for it.
    suffix: Option<String>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    logit_bias: Option<Map<String, Value>>,
}

/// What is to be continued.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string, token ids, or an array of either")]
enum SentPrompt {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

/// One prompt that waits for its turn.
struct Asking {
    request: GenerateRequest,
    /// What stands before the reply.
    echo: String,
}

/// The body as understood.
struct Understood {
    asking: VecDeque<Asking>,
    stream: bool,
    include_usage: bool,
}

/// Continues texts.
pub(crate) async fn complete(
    State(port): State<Port>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Body,
) -> Result<Response, ApiError> {
    let (sent, place): (Body, _) = port.read_in_turn(body).await?;
    let mut understood = sent.understand(&port.house.now())?;
    let id = new_id("cmpl-");
    let Some(first) = understood.asking.pop_front() else {
        return Err(ApiError::bad("prompt", "There must be a prompt."));
    };
    let leaves = Leaves::of(understood.stream);
    let asked = Asked::begin(&port, caller.clone(), first.request, &id, leaves).await?;
    drop(place);
    let model = asked.model().to_owned();
    let head = AnswerHead { id, created: clock::unix_seconds(), model };
    let choices = Choices {
        port,
        caller,
        head,
        asked,
        asking: understood.asking,
        index: 0,
        offset: 0,
        echo: first.echo,
        usage: Usage::of(0, 0),
        include_usage: understood.include_usage,
        leaves,
    };
    if understood.stream { Ok(stream::send(choices)) } else { whole(choices).await }
}

impl Body {
    fn understand(self, house: &HouseholdView) -> Result<Understood, ApiError> {
        let echo = self.echo.unwrap_or(false);
        let suffix = self.suffix.filter(|suffix| !suffix.is_empty());
        let several = |n: Option<u64>| n.is_some_and(|n| n != 1);
        refuse(&[
            (several(self.n), "n", "may only be 1."),
            (several(self.best_of), "best_of", "may only be 1."),
            (self.logprobs.is_some_and(|top| top > LOGPROBS_MAX), "logprobs", "may be at most 5."),
            (echo && self.logprobs.is_some(), "echo", "is not supported together with logprobs."),
        ])?;
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
            alternatives: self.logprobs.map(|top| usize::try_from(top).unwrap_or(usize::MAX)),
            shape: None,
        };
        let prompts = self.prompt.prompts()?;
        let usual = GenerateRequest {
            model: model_name(self.model, house)?,
            prompt: Prompt::Text(Sensitive(String::new())),
            tokens_max: tokens_max("max_tokens", self.max_tokens)?,
            sampling: sampling.sampling()?,
            stop: stops("stop", self.stop)?,
            thinking: Thinking::AsUsual,
            activation_dtype: None,
            reach: Reach::House,
        };
        let one = |prompt: Prompt| {
            let echo = match (&prompt, echo) {
                (_, false) => String::new(),
                (Prompt::Text(text), true) => text.0.clone(),
                _ => return Err(ApiError::bad("echo", "echo needs prompts that are text.")),
            };
            let prompt = match (prompt, &suffix) {
                (prompt, None) => prompt,
                (Prompt::Text(before), Some(behind)) => {
                    Prompt::Gap { before, behind: Sensitive(behind.clone()) }
                }
                _ => return Err(ApiError::bad("suffix", "suffix needs prompts that are text.")),
            };
            Ok(Asking { request: GenerateRequest { prompt, ..usual.clone() }, echo })
        };
        Ok(Understood {
            asking: prompts.into_iter().map(one).collect::<Result<_, _>>()?,
            stream: self.stream.unwrap_or(false),
            include_usage: self.stream_options.is_some_and(|options| options.include_usage),
        })
    }
}

impl SentPrompt {
    fn prompts(self) -> Result<Vec<Prompt>, ApiError> {
        let text = |text| Prompt::Text(Sensitive(text));
        let tokens = |ids| Prompt::Tokens(Sensitive(ids));
        let prompts: Vec<Prompt> = match self {
            Self::Text(one) => vec![text(one)],
            Self::Texts(several) => several.into_iter().map(text).collect(),
            Self::Tokens(one) => vec![tokens(one)],
            Self::TokenLists(several) => several.into_iter().map(tokens).collect(),
        };
        match prompts.len() {
            1..=PROMPTS_MAX => Ok(prompts),
            _ => Err(ApiError::bad("prompt", format!("There must be 1 to {PROMPTS_MAX} prompts."))),
        }
    }
}

/// The choices of one answer, as they are made.
struct Choices {
    port: Port,
    caller: Caller,
    head: AnswerHead,
    asked: Asked,
    /// Prompts whose turn has not come.
    asking: VecDeque<Asking>,
    index: usize,
    /// Characters of the choice so far that logprobs were told for.
    offset: usize,
    /// What stands before the reply and was not sent yet.
    echo: String,
    usage: Usage,
    include_usage: bool,
    leaves: Leaves,
}

/// What the choices tell next.
enum Told {
    /// More of the choice `index`.
    Choice(TextChoice),
    Happened(Happened),
    Broken(ApiError),
}

impl Choices {
    /// Waits for what comes next. A choice with a reason is the last one of its prompt.
    async fn told(&mut self) -> Told {
        match self.asked.next().await {
            Heard::Said { pieces, logprobs } => {
                Told::Choice(self.choice(&pieces, logprobs.as_slice(), None))
            }
            Heard::Happened(what) => Told::Happened(what),
            Heard::Broken(error) => Told::Broken(error),
            Heard::End { pieces, summary, .. } => {
                let more = Usage::from(&summary);
                self.usage = Usage::of(
                    self.usage.prompt_tokens.saturating_add(more.prompt_tokens),
                    self.usage.completion_tokens.saturating_add(more.completion_tokens),
                );
                Told::Choice(self.choice(&pieces, &[], Some(finish_reason(&summary))))
            }
        }
    }

    /// Begins with the next prompt; `false` when there is none.
    async fn go_on(&mut self) -> Result<bool, ApiError> {
        let Some(Asking { request, echo }) = self.asking.pop_front() else { return Ok(false) };
        let (caller, id) = (self.caller.clone(), &self.head.id);
        self.asked = Asked::begin(&self.port, caller, request, id, self.leaves).await?;
        self.index += 1;
        self.offset = 0;
        self.echo = echo;
        Ok(true)
    }

    fn choice(
        &mut self,
        pieces: &[Said],
        logprobs: &[PieceLogprobs],
        finish_reason: Option<&'static str>,
    ) -> TextChoice {
        let mut text = std::mem::take(&mut self.echo);
        for piece in pieces {
            // Plain text has neither thinking nor calls: its form knows none.
            if let Said::Text(more) = piece {
                text.push_str(more);
            }
        }
        let logprobs = TextLogprobs::of(logprobs, &mut self.offset);
        TextChoice { text, index: self.index, logprobs, finish_reason }
    }

    fn frame(&self, choices: Vec<TextChoice>, usage: Option<Usage>) -> TextCompletion<'_> {
        TextCompletion {
            id: &self.head.id,
            object: "text_completion",
            created: self.head.created,
            model: &self.head.model,
            choices,
            usage,
        }
    }
}

impl Outgoing for Choices {
    type Piece = Event;

    async fn take_next(&mut self, ready: &mut VecDeque<Event>) -> bool {
        match self.told().await {
            Told::Choice(choice) => {
                let is_last = choice.finish_reason.is_some();
                ready.push_back(data(&self.frame(vec![choice], None)));
                if !is_last {
                    return true;
                }
            }
            Told::Happened(what) => {
                ready.extend(comment(&what));
                return true;
            }
            Told::Broken(error) => {
                ready.push_back(failed(&error));
                return false;
            }
        }
        match self.go_on().await {
            Ok(true) => true,
            Ok(false) => {
                if self.include_usage {
                    ready.push_back(data(&self.frame(Vec::new(), Some(self.usage))));
                }
                ready.push_back(Event::default().data("[DONE]"));
                false
            }
            Err(error) => {
                ready.push_back(failed(&error));
                false
            }
        }
    }
}

/// Collects all choices. The client's leaving drops this future, and with it the reply.
async fn whole(mut choices: Choices) -> Result<Response, ApiError> {
    let mut done: Vec<TextChoice> = Vec::new();
    loop {
        let more = match choices.told().await {
            Told::Choice(more) => more,
            Told::Happened(_) => continue,
            Told::Broken(error) => return Err(error),
        };
        let is_last = more.finish_reason.is_some();
        match done.last_mut() {
            Some(choice) if choice.index == more.index => join(choice, more),
            _ => done.push(more),
        }
        if is_last && !choices.go_on().await? {
            let usage = Some(choices.usage);
            return Ok(Json(choices.frame(done, usage)).into_response());
        }
    }
}

fn join(choice: &mut TextChoice, more: TextChoice) {
    choice.text.push_str(&more.text);
    choice.finish_reason = more.finish_reason;
    match (&mut choice.logprobs, more.logprobs) {
        (Some(told), Some(more)) => {
            told.tokens.extend(more.tokens);
            told.token_logprobs.extend(more.token_logprobs);
            told.top_logprobs.extend(more.top_logprobs);
            told.text_offset.extend(more.text_offset);
        }
        (told @ None, more) => *told = more,
        (Some(_), None) => {}
    }
}
