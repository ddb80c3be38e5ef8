//! From what a door asks for to token ids and the settings of a reply.

mod going_on;

use nook_base::{ErrorCode, clock};
use nook_text::said::{Channel, THOUGHT_MARKS};
use nook_text::{
    CallRule, ChatTemplate, Constraint, EncodeError, EncodeOptions, Moment, Opening, RenderJob,
    RenderOptions, RenderedPrompt, ReplyForm, ReplyShape, Role, Sampler, SamplerSettings,
    StopStrings, Thought, Tool, ToolChoice, ToolForm,
};
use serde_json::{Map, Value};

use nook_api::views::{ChatRole, Wording};
use nook_api::{
    ChatMessage, Dialog, GenerateRequest, NodeError, Prompt, Sampling, SamplingParameters, Thinking,
};
use nook_resources::open_models::{OpenModel, unfit_form};

use going_on::{FINAL_HEAD, go_on, go_on_in_channels, write_marks};

/// A request made ready.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) ids: Vec<u32>,
    pub(crate) tokens_max: u32,
    pub(crate) sampler: Sampler,
    pub(crate) constraint: Option<Constraint>,
    pub(crate) alternatives: Option<usize>,
    pub(crate) stops: StopStrings,
    pub(crate) opening: Opening,
    /// Control tokens that are spelt out in the reply, ascending.
    pub(crate) spelt: Vec<u32>,
    pub(crate) form: ReplyForm,
}

/// A request whose conversation is not a prompt yet.
#[derive(Debug)]
pub(crate) struct Draft {
    request: GenerateRequest,
    /// What the model's template has to do, if the request is a conversation.
    pub(crate) job: Option<RenderJob>,
    /// The form of the reply.
    shape: Option<ReplyShape>,
}

/// A request that is encoded. The form of its reply is still to be made ready.
#[derive(Debug)]
pub(crate) struct Encoded {
    request: GenerateRequest,
    ids: Vec<u32>,
    opening: Opening,
    stops: Vec<String>,
    form: ReplyForm,
    /// The form of the reply, and the text behind which it begins.
    pub(crate) shape: Option<ReplyShape>,
    after: Option<&'static str>,
}

/// Works out what is to be rendered.
pub(crate) fn draft(model: &OpenModel, request: GenerateRequest) -> Result<Draft, NodeError> {
    let asked = request.sampling.shape.clone();
    let (job, shape) = match &request.prompt {
        Prompt::Text(_) | Prompt::Gap { .. } | Prompt::Tokens(_) => (None, asked),
        Prompt::Chat(messages) | Prompt::Begun { messages, .. } => {
            // What was thought aloud goes on, whatever the owner wants by now.
            let goes_on =
                matches!(&request.prompt, Prompt::Begun { thought, .. } if !thought.is_empty());
            let thinking = if goes_on { &Thinking::On } else { &request.thinking };
            (Some(chat_job(model, messages, thinking)?), asked)
        }
        Prompt::Dialog(dialog) => {
            let (job, shape) = dialog_job(model, (dialog, &request.thinking), asked.as_ref())?;
            (Some(job), shape)
        }
    };
    Ok(Draft { request, job, shape })
}

/// Makes the form ready and checks the rest against the model's window.
pub(crate) fn ready(model: &OpenModel, encoded: Encoded) -> Result<Ready, NodeError> {
    let Encoded { request, ids, opening, mut stops, form, shape, after } = encoded;
    stops.extend(request.stop.iter().cloned());
    let constraint = match &shape {
        Some(shape) => Some(constrain(model, shape, after)?),
        None => None,
    };
    Ok(Ready {
        tokens_max: room(model, ids.len(), request.tokens_max)?,
        sampler: sampler(model, &request.sampling)?,
        constraint,
        alternatives: request.sampling.alternatives,
        stops: StopStrings::new(stops).map_err(bad)?,
        spelt: spelt(model, &form),
        ids,
        opening,
        form,
    })
}

fn bad(error: impl ToString) -> NodeError {
    NodeError::new(ErrorCode::BadRequest, error.to_string())
}

/// Encodes what a draft says, up to `most` tokens; `rendered` is what became of its job, where that
/// was done elsewhere.
pub(crate) fn encode(
    model: &OpenModel,
    (draft, most): (Draft, usize),
    rendered: Option<RenderedPrompt>,
) -> Result<Encoded, NodeError> {
    let Draft { request, job, shape } = draft;
    let rendered = match (rendered, job) {
        (None, Some(job)) => Some(model.template.run(&job).map_err(bad)?),
        (rendered, _) => rendered,
    };
    let (mut ids, mut open) = (Vec::new(), None);
    if let Some(rendered) = &rendered {
        let encoded = model.tokenizer.encode_chat_within(rendered, most);
        ids = encoded.map_err(|error| unencoded(model, error))?;
        open = opened(rendered.text());
    }
    let (mut opening, mut form, mut after) = (Opening::Continues, ReplyForm::plain(), None);
    match &request.prompt {
        Prompt::Text(text) => ids = raw_ids(model, text, most)?,
        Prompt::Gap { before, behind } => ids = gap_ids(model, (&before.0, &behind.0), most)?,
        Prompt::Tokens(given) => {
            check_ids(model, given)?;
            ids.clone_from(&given.0);
        }
        Prompt::Chat(_) => {
            opening = Opening::Fresh;
            form = thinking_form(thought_after(model, open));
        }
        Prompt::Begun { thought, reply, .. } => {
            let known = model.template.thought_marks();
            let begun = match has_channels(model) {
                true => go_on_in_channels(&model.tokenizer, (thought, reply), most),
                false => go_on(&model.tokenizer, (open, known), (thought, reply), most),
            };
            let (begun, rest) = begun.map_err(|error| unencoded(model, error))?;
            ids.extend(begun);
            form = thinking_form(rest);
        }
        Prompt::Dialog(dialog) => {
            opening = Opening::Fresh;
            form = dialog_form(model, dialog, thought_after(model, open));
            after = shape.as_ref().and(open).map(|(_, end)| end);
            if has_channels(model) && shape.is_some() && offered(dialog).is_empty() {
                // The form of the reply is that of its text, whose head is ours then.
                let head = write_marks(&model.tokenizer, FINAL_HEAD, most);
                ids.extend(head.map_err(|error| unencoded(model, error))?);
                form.thought = Thought::Channels(Channel::Final);
            }
        }
    }
    if ids.is_empty() {
        return Err(bad("there is nothing to continue: the prompt is empty"));
    }
    let stops = if rendered.is_some() { template_stops(model) } else { Vec::new() };
    Ok(Encoded { request, ids, opening, stops, form, shape, after })
}

fn gap_ids(model: &OpenModel, around: (&str, &str), most: usize) -> Result<Vec<u32>, NodeError> {
    let ids = model.tokenizer.encode_gap(around, most);
    ids.map_err(|error| unencoded(model, error))?.ok_or_else(|| {
        bad(
            "this model cannot fill in text before a suffix: its vocabulary has no marks for that. \
             Leave `suffix` out, or ask a model for code, such as Qwen2.5-Coder",
        )
    })
}

/// A mark of thinking and its end.
type ThoughtMarks = (&'static str, &'static str);

fn chat_job(
    model: &OpenModel,
    messages: &[ChatMessage],
    thinking: &Thinking,
) -> Result<RenderJob, NodeError> {
    if messages.is_empty() {
        return Err(bad("a conversation needs at least one message"));
    }
    let messages: Vec<_> = messages
        .iter()
        .map(|message| nook_text::ChatMessage::new(role(message.role), &*message.text.0))
        .collect();
    let variables = thinking_variables(thinking, false, has_channels(model));
    Ok(ChatTemplate::job(&messages, options(), variables))
}

/// The marks of the thinking that a prompt ends in.
fn opened(prompt: &str) -> Option<ThoughtMarks> {
    THOUGHT_MARKS.into_iter().find(|(mark, _)| prompt.trim_end().ends_with(mark))
}

/// Whether a reply behind such a prompt thinks.
fn thought_after(model: &OpenModel, open: Option<ThoughtMarks>) -> Thought {
    match open {
        _ if has_channels(model) => Thought::Channels(Channel::Head),
        Some((_, end)) => Thought::Open { end },
        None if model.template.thinks() => Thought::Perhaps,
        None => Thought::None,
    }
}

/// Whether replies of the model are messages on channels.
fn has_channels(model: &OpenModel) -> bool {
    model.template.tool_form() == ToolForm::Harmony
}

fn thinking_form(thought: Thought) -> ReplyForm {
    ReplyForm { thought, ..ReplyForm::plain() }
}

/// The ids of a plain text, at most `most`, as the model's vocabulary begins and ends one.
pub(crate) fn text_ids(model: &OpenModel, text: &str, most: usize) -> Result<Vec<u32>, NodeError> {
    let options = EncodeOptions { add_special: true, parse_special: false };
    let ids = model.tokenizer.encode_within(text, options, most);
    ids.map_err(|error| unencoded(model, error))
}

/// The same of a text that stands for the model's whole input: what it spells out is meant, as
/// programs write a template or the marks of a gap into it themselves.
fn raw_ids(model: &OpenModel, text: &str, most: usize) -> Result<Vec<u32>, NodeError> {
    let options = EncodeOptions { add_special: true, parse_special: true };
    let ids = model.tokenizer.encode_within(text, options, most);
    ids.map_err(|error| unencoded(model, error))
}

/// The complaint about a text that was not encoded.
fn unencoded(model: &OpenModel, error: EncodeError) -> NodeError {
    match error {
        EncodeError::TooMany { least } => too_long(model, Tokens::AtLeast(least)),
        error => bad(error),
    }
}

/// Refuses ids that the vocabulary does not have.
pub(crate) fn check_ids(model: &OpenModel, ids: &[u32]) -> Result<(), NodeError> {
    let count = model.tokenizer.vocabulary_len();
    match ids.iter().any(|id| *id as usize >= count) {
        true => Err(bad(format!("a token id is too large: this model has {count} tokens"))),
        false => Ok(()),
    }
}

/// The tools that a reply may call.
fn offered(dialog: &Dialog) -> &[Tool] {
    if dialog.choice == ToolChoice::None { &[] } else { &dialog.tools }
}

/// What is to be rendered of a conversation with tools, and the form of the reply to it; `or_else`
/// is the form of a reply that calls none.
fn dialog_job(
    model: &OpenModel,
    (dialog, thinking): (&Dialog, &Thinking),
    or_else: Option<&ReplyShape>,
) -> Result<(RenderJob, Option<ReplyShape>), NodeError> {
    if dialog.turns.is_empty() {
        return Err(bad("a conversation needs at least one message"));
    }
    let template = &model.template;
    let rule = CallRule {
        form: template.tool_form(),
        tools: offered(dialog),
        choice: &dialog.choice,
        parallel: dialog.parallel,
        or_else,
    };
    let shape = rule.shape(&model.tokenizer).map_err(|error| unfit_form(&error))?;
    let variables = thinking_variables(thinking, shape.is_some(), has_channels(model));
    let job = template.job_of_turns(&dialog.turns, offered(dialog), options(), variables);
    Ok((job, shape))
}

/// What publishers' templates call it: Qwen, GLM, SmolLM and Gemma `enable_thinking`, DeepSeek and
/// Granite `thinking`, gpt-oss `reasoning_effort`. Templates that can, close the thinking before it
/// begins where a form is wanted. With channels a model always thinks; it is asked for little then.
fn thinking_variables(
    thinking: &Thinking,
    has_form: bool,
    has_channels: bool,
) -> Map<String, Value> {
    let thinks = match thinking {
        _ if has_form => Some(false),
        Thinking::AsUsual => None,
        Thinking::Off => Some(false),
        Thinking::On | Thinking::Effort(_) => Some(true),
    };
    let mut variables = Map::new();
    for name in ["enable_thinking", "thinking"] {
        variables.extend(thinks.map(|thinks| (name.to_owned(), Value::from(thinks))));
    }
    let effort = match thinking {
        Thinking::Off if has_channels => Some("low"),
        thinking => thinking.effort(),
    };
    variables.extend(effort.map(|effort| ("reasoning_effort".to_owned(), effort.into())));
    variables
}

/// How the reply to such a conversation is read.
fn dialog_form(model: &OpenModel, dialog: &Dialog, thought: Thought) -> ReplyForm {
    let offered = offered(dialog);
    let single = !dialog.parallel || matches!(dialog.choice, ToolChoice::Named(_));
    ReplyForm {
        calls: (!offered.is_empty()).then(|| model.template.tool_form()),
        names: offered.iter().map(|tool| tool.name().to_owned()).collect(),
        texts: offered.iter().flat_map(texts).collect(),
        calls_max: if single { 1 } else { nook_text::said::CALLS_MAX },
        thought,
    }
}

/// The parameters of a tool whose values are text.
fn texts(tool: &Tool) -> impl Iterator<Item = (String, String)> {
    tool.text_parameters().map(|parameter| (tool.name().to_owned(), parameter.to_owned()))
}

fn options() -> RenderOptions {
    RenderOptions { add_generation_prompt: true, now: Some(now()), tools: None }
}

fn template_stops(model: &OpenModel) -> Vec<String> {
    model.template.stop_strings().iter().map(|&stop| stop.to_owned()).collect()
}

/// Control tokens without which calls and thinking could not be told from text.
fn spelt(model: &OpenModel, form: &ReplyForm) -> Vec<u32> {
    let spellings = form.spelt();
    if spellings.is_empty() { Vec::new() } else { model.tokenizer.control_tokens(&spellings) }
}

fn constrain(
    model: &OpenModel,
    shape: &ReplyShape,
    after: Option<&str>,
) -> Result<Constraint, NodeError> {
    let grammars = model.grammars().map_err(|error| unfit_form(&error))?;
    grammars.constrain(shape, after).map_err(|error| unfit_form(&error))
}

/// Tokens that fit behind a prompt of `prompt` tokens; never a silent cut of the prompt.
fn room(model: &OpenModel, prompt: usize, wanted: Option<u32>) -> Result<u32, NodeError> {
    let window = model.shape.context_length;
    let left = u32::try_from(prompt).ok().and_then(|prompt| window.checked_sub(prompt));
    match left {
        Some(left) if left > 0 => Ok(wanted.unwrap_or(left).clamp(1, left)),
        _ => Err(too_long(model, Tokens::Exactly(prompt))),
    }
}

/// Most tokens of a prompt: one more must fit behind it.
pub(crate) fn prompt_max(model: &OpenModel) -> usize {
    (model.shape.context_length as usize).saturating_sub(1)
}

/// Tokens of a text that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// All were counted.
    Exactly(usize),
    /// That it is too long was certain before all were counted.
    AtLeast(usize),
}

/// The complaint about a text of so many tokens that does not fit.
pub(crate) fn too_long(model: &OpenModel, tokens: Tokens) -> NodeError {
    let (name, window) = (&model.listed.name, model.shape.context_length);
    let (tokens, at_least, said) = match tokens {
        Tokens::Exactly(tokens) => (tokens as u64, false, ""),
        Tokens::AtLeast(tokens) => (tokens as u64, true, "at least "),
    };
    NodeError::new(
        ErrorCode::TooLong,
        format!(
            "The prompt has {said}{tokens} tokens; {name} can hold {window}. Start a new chat, or \
             shorten it."
        ),
    )
    .worded(Wording::PromptTooLong { tokens, at_least, model: name.clone(), window })
}

/// How freely a reply chooses its words unless its request says so.
const TEMPERATURE: f32 = 0.7;

fn sampler(model: &OpenModel, sampling: &Sampling) -> Result<Sampler, NodeError> {
    let asked = sampling.parameters;
    let parameters =
        SamplingParameters { temperature: asked.temperature.or(Some(TEMPERATURE)), ..asked };
    let biased: Vec<u32> = sampling.biases.iter().map(|(id, _)| *id).collect();
    check_ids(model, &biased)?;
    let settings = SamplerSettings::new(parameters, rand::random()).map_err(bad)?;
    let sampler = Sampler::new(settings).with_biases(&sampling.biases).map_err(bad)?;
    Ok(sampler.without(model.tokenizer.suppressed()))
}

fn role(role: ChatRole) -> Role {
    match role {
        ChatRole::System => Role::system(),
        ChatRole::User => Role::user(),
        ChatRole::Assistant => Role::assistant(),
    }
}

/// The wall clock in UTC. A template that writes the date may be off by one near midnight; a
/// portable way to ask for the local offset from several threads is not to be had.
fn now() -> Moment {
    let unix_seconds = i64::try_from(clock::unix_seconds()).unwrap_or(i64::MAX);
    Moment { unix_seconds, utc_offset_seconds: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: ThoughtMarks = ("<think>", "</think>");

    #[test]
    fn only_a_prompt_that_ends_with_the_mark_has_opened_it() {
        for (prompt, expected) in [
            ("<|assistant|>", None),
            ("<|assistant|><think>\n", Some(MARKS)),
            ("<|assistant|>[THINK]", Some(("[THINK]", "[/THINK]"))),
            ("<|assistant|><think>\n\n</think>\n\n", None),
            ("What is <think>? <|assistant|>", None),
        ] {
            assert_eq!(opened(prompt), expected, "{prompt}");
        }
    }

    #[test]
    fn templates_are_told_whether_to_think_in_each_publishers_word() {
        let told = |thinking: Thinking, has_form| {
            Value::Object(thinking_variables(&thinking, has_form, false))
        };
        let switch = |on: bool| serde_json::json!({"enable_thinking": on, "thinking": on});
        let with = |mut variables: Value, effort: &str| {
            variables["reasoning_effort"] = effort.into();
            variables
        };
        assert_eq!(told(Thinking::AsUsual, false), serde_json::json!({}));
        assert_eq!(told(Thinking::AsUsual, true), switch(false), "a form leaves no room for it");
        assert_eq!(told(Thinking::On, false), switch(true));
        assert_eq!(told(Thinking::On, true), switch(false));
        assert_eq!(told(Thinking::Off, false), with(switch(false), "none"));
        let on_channels = thinking_variables(&Thinking::Off, false, true);
        assert_eq!(Value::Object(on_channels), with(switch(false), "low"));
        let low = Thinking::Effort("low".to_owned());
        assert_eq!(told(low, false), with(switch(true), "low"));
    }
}
