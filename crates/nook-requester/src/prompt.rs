//! From what a door asks for to token ids and the settings of a reply.

use nook_base::{ErrorCode, clock};
use nook_text::said::THOUGHT_MARKS;
use nook_text::{
    CallRule, Constraint, EncodeOptions, Moment, Opening, RenderOptions, ReplyForm, ReplyShape,
    Role, Sampler, SamplerSettings, StopStrings, Thought, Tokenizer, ToolChoice,
};
use serde_json::{Map, Value};

use nook_api::views::{ChatRole, Wording};
use nook_api::{
    ChatMessage, Dialog, GenerateRequest, NodeError, Prompt, Sampling, SamplingParameters,
};
use nook_resources::open_models::OpenModel;

/// The effort that asks for no thinking.
const NO_EFFORT: &str = "none";

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

/// What a prompt became.
struct Encoded {
    ids: Vec<u32>,
    opening: Opening,
    stops: Vec<String>,
    form: ReplyForm,
    /// The form of the reply, and the text behind which it begins.
    shape: Option<ReplyShape>,
    after: Option<&'static str>,
}

/// Renders, encodes and checks a request against the model's window.
pub(crate) fn ready(model: &OpenModel, request: &GenerateRequest) -> Result<Ready, NodeError> {
    let encoded = encode(model, request)?;
    if encoded.ids.is_empty() {
        return Err(bad("there is nothing to continue: the prompt is empty"));
    }
    let mut stops = encoded.stops;
    stops.extend(request.stop.iter().cloned());
    let spelt = spelt(model, &encoded.form);
    let constraint = match &encoded.shape {
        Some(shape) => Some(constrain(model, shape, encoded.after)?),
        None => None,
    };
    Ok(Ready {
        tokens_max: room(model, encoded.ids.len(), request.tokens_max)?,
        sampler: sampler(model, &request.sampling)?,
        constraint,
        alternatives: request.sampling.alternatives,
        stops: StopStrings::new(stops).map_err(bad)?,
        ids: encoded.ids,
        opening: encoded.opening,
        spelt,
        form: encoded.form,
    })
}

fn bad(error: impl ToString) -> NodeError {
    NodeError::new(ErrorCode::BadRequest, error.to_string())
}

fn encode(model: &OpenModel, request: &GenerateRequest) -> Result<Encoded, NodeError> {
    let plain = |ids: Vec<u32>, opening: Opening, stops: Vec<String>| Encoded {
        ids,
        opening,
        stops,
        form: ReplyForm::plain(),
        shape: request.sampling.shape.clone(),
        after: None,
    };
    match &request.prompt {
        Prompt::Text(text) => Ok(plain(text_ids(model, text)?, Opening::Continues, Vec::new())),
        Prompt::Gap { before, behind } => {
            let ids = model.tokenizer.encode_gap(&before.0, &behind.0).map_err(bad)?;
            let ids = ids.ok_or_else(|| {
                bad("this model cannot fill in text before a suffix: its vocabulary has no marks for that. \
                     Leave `suffix` out, or ask a model for code, such as Qwen2.5-Coder")
            })?;
            Ok(plain(ids, Opening::Continues, Vec::new()))
        }
        Prompt::Tokens(ids) => {
            check_ids(model, ids)?;
            Ok(plain(ids.0.clone(), Opening::Continues, Vec::new()))
        }
        Prompt::Chat(messages) => {
            let (ids, open) = chat_ids(model, messages)?;
            let form = thinking_form(thought_after(model, open));
            let encoded = plain(ids, Opening::Fresh, template_stops(model));
            Ok(Encoded { form, ..encoded })
        }
        Prompt::Begun { messages, thought, reply } => {
            let (mut ids, open) = chat_ids(model, messages)?;
            let known = model.template.thought_marks();
            let begun = go_on(&model.tokenizer, (open, known), thought, reply)?;
            ids.extend(begun.0);
            let encoded = plain(ids, Opening::Continues, template_stops(model));
            Ok(Encoded { form: thinking_form(begun.1), ..encoded })
        }
        Prompt::Dialog(dialog) => encode_dialog(model, dialog, request),
    }
}

/// A mark of thinking and its end.
type ThoughtMarks = (&'static str, &'static str);

/// A conversation through the model's template, up to where the reply begins; with it the marks of
/// the thinking that this end has opened.
fn chat_ids(
    model: &OpenModel,
    messages: &[ChatMessage],
) -> Result<(Vec<u32>, Option<ThoughtMarks>), NodeError> {
    if messages.is_empty() {
        return Err(bad("a conversation needs at least one message"));
    }
    let messages: Vec<_> = messages
        .iter()
        .map(|message| nook_text::ChatMessage::new(role(message.role), &*message.text.0))
        .collect();
    let rendered = model.template.render(&messages, options()).map_err(bad)?;
    let open = opened(rendered.text());
    Ok((model.tokenizer.encode_chat(&rendered).map_err(bad)?, open))
}

/// The marks of the thinking that a prompt ends in.
fn opened(prompt: &str) -> Option<ThoughtMarks> {
    THOUGHT_MARKS.into_iter().find(|(mark, _)| prompt.trim_end().ends_with(mark))
}

/// Whether a reply behind such a prompt thinks.
fn thought_after(model: &OpenModel, open: Option<ThoughtMarks>) -> Thought {
    match open {
        Some((_, end)) => Thought::Open { end },
        None if model.template.thinks() => Thought::Perhaps,
        None => Thought::None,
    }
}

fn thinking_form(thought: Thought) -> ReplyForm {
    ReplyForm { thought, ..ReplyForm::plain() }
}

/// The ids of a reply that was cut, with the marks between what was thought and what was said, and
/// how its rest is read. `open` are the marks of the thinking that the prompt has opened, `known`
/// those of the template.
fn go_on(
    tokenizer: &Tokenizer,
    (open, known): (Option<ThoughtMarks>, Option<ThoughtMarks>),
    thought: &str,
    reply: &str,
) -> Result<(Vec<u32>, Thought), NodeError> {
    // What the model said is text, whatever it spells; the marks are ours.
    let plain = EncodeOptions { add_special: false, parse_special: false };
    let marked = EncodeOptions { parse_special: true, ..plain };
    let mut ids = Vec::new();
    let mut write = |text: &str, options| -> Result<(), NodeError> {
        ids.extend(tokenizer.encode(text, options).map_err(bad)?);
        Ok(())
    };
    let rest = match open.or(known) {
        Some((mark, end)) if open.is_some() || !thought.is_empty() => {
            if open.is_none() {
                write(&format!("{mark}\n"), marked)?;
            }
            write(if reply.is_empty() { thought } else { thought.trim_end() }, plain)?;
            // A reply from before thinking was kept apart holds the end of its own.
            if !reply.is_empty() && !reply.contains(end) {
                write(&format!("\n{end}\n\n"), marked)?;
            }
            if reply.is_empty() { Thought::Within { end } } else { Thought::None }
        }
        _ => Thought::None,
    };
    write(reply, plain)?;
    Ok((ids, rest))
}

/// The ids of a plain text, as the model's vocabulary begins and ends one.
pub(crate) fn text_ids(model: &OpenModel, text: &str) -> Result<Vec<u32>, NodeError> {
    let options = EncodeOptions { add_special: true, parse_special: false };
    model.tokenizer.encode(text, options).map_err(bad)
}

/// Refuses ids that the vocabulary does not have.
pub(crate) fn check_ids(model: &OpenModel, ids: &[u32]) -> Result<(), NodeError> {
    let count = model.tokenizer.vocabulary_len();
    match ids.iter().any(|id| *id as usize >= count) {
        true => Err(bad(format!("a token id is too large: this model has {count} tokens"))),
        false => Ok(()),
    }
}

fn encode_dialog(
    model: &OpenModel,
    dialog: &Dialog,
    request: &GenerateRequest,
) -> Result<Encoded, NodeError> {
    if dialog.turns.is_empty() {
        return Err(bad("a conversation needs at least one message"));
    }
    let template = &model.template;
    let offered = if dialog.choice == ToolChoice::None { &[][..] } else { &dialog.tools[..] };
    let rule = CallRule {
        form: template.tool_form(),
        tools: offered,
        choice: &dialog.choice,
        parallel: dialog.parallel,
        or_else: request.sampling.shape.as_ref(),
    };
    let shape = rule.shape(&model.tokenizer).map_err(|error| form_error(&error))?;
    let mut variables = Map::new();
    if shape.is_some() || dialog.effort.as_deref() == Some(NO_EFFORT) {
        // Templates that can, close the thinking before it begins.
        variables.insert("enable_thinking".to_owned(), false.into());
    }
    if let Some(effort) = &dialog.effort {
        variables.insert("reasoning_effort".to_owned(), Value::from(effort.as_str()));
    }
    let rendered =
        template.render_turns(&dialog.turns, offered, options(), &variables).map_err(bad)?;
    let open = opened(rendered.text());
    let thought = thought_after(model, open);
    let single = !dialog.parallel || matches!(dialog.choice, ToolChoice::Named(_));
    let form = ReplyForm {
        calls: (!offered.is_empty()).then(|| template.tool_form()),
        names: offered.iter().map(|tool| tool.name().to_owned()).collect(),
        calls_max: if single { 1 } else { nook_text::said::CALLS_MAX },
        thought,
    };
    Ok(Encoded {
        ids: model.tokenizer.encode_chat(&rendered).map_err(bad)?,
        opening: Opening::Fresh,
        stops: template_stops(model),
        form,
        after: shape.as_ref().and(open).map(|(_, end)| end),
        shape,
    })
}

fn options() -> RenderOptions {
    RenderOptions { add_generation_prompt: true, now: Some(now()), tools: None }
}

fn template_stops(model: &OpenModel) -> Vec<String> {
    model.template.stop_strings().iter().map(|&stop| stop.to_owned()).collect()
}

/// Control tokens without which calls and thinking could not be told from text.
fn spelt(model: &OpenModel, form: &ReplyForm) -> Vec<u32> {
    let mut spellings: Vec<&str> = form.calls.map_or(&[][..], |calls| calls.spelt()).to_vec();
    if form.thought != Thought::None {
        spellings.extend(THOUGHT_MARKS.iter().flat_map(|(begin, end)| [*begin, *end]));
    }
    if spellings.is_empty() { Vec::new() } else { model.tokenizer.control_tokens(&spellings) }
}

fn constrain(
    model: &OpenModel,
    shape: &ReplyShape,
    after: Option<&str>,
) -> Result<Constraint, NodeError> {
    let grammars = model.grammars().map_err(|error| form_error(&error))?;
    grammars.constrain(shape, after).map_err(|error| form_error(&error))
}

fn form_error(error: &nook_text::GrammarError) -> NodeError {
    bad(format!("The reply cannot be held to the form asked for: {error}."))
}

/// Tokens that fit behind a prompt of `prompt` tokens; never a silent cut of the prompt.
fn room(model: &OpenModel, prompt: usize, wanted: Option<u32>) -> Result<u32, NodeError> {
    let window = model.shape.context_length;
    let left = u32::try_from(prompt).ok().and_then(|prompt| window.checked_sub(prompt));
    match left {
        Some(left) if left > 0 => Ok(wanted.unwrap_or(left).clamp(1, left)),
        _ => Err(too_long(model, prompt)),
    }
}

/// The complaint about a text of `tokens` tokens that does not fit.
pub(crate) fn too_long(model: &OpenModel, tokens: usize) -> NodeError {
    let (name, window) = (&model.listed.name, model.shape.context_length);
    NodeError::new(
        ErrorCode::TooLong,
        format!(
            "The prompt has {tokens} tokens; {name} can hold {window}. Start a new chat, or shorten it."
        ),
    )
    .worded(Wording::PromptTooLong { tokens: tokens as u64, model: name.clone(), window })
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
    Sampler::new(settings).with_biases(&sampling.biases).map_err(bad)
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
    use nook_base::Vocabulary;
    use nook_base::vocabulary::TokenKind;

    use super::*;

    const MARKS: ThoughtMarks = ("<think>", "</think>");

    /// A vocabulary of bytes and the two marks.
    fn bytes_and_marks() -> (Tokenizer, Vec<String>) {
        let marks = [MARKS.0, MARKS.1].map(|mark| (mark.to_owned(), TokenKind::Control));
        let unknown = [("<unk>".to_owned(), TokenKind::Unknown)];
        let bytes = (0..=255).map(|byte: u8| (format!("<0x{byte:02X}>"), TokenKind::Byte));
        let (tokens, kinds): (Vec<_>, Vec<_>) =
            unknown.into_iter().chain(marks).chain(bytes).unzip();
        let vocabulary = Vocabulary {
            model: "llama".to_owned(),
            scores: vec![0.0; tokens.len()],
            tokens: tokens.clone(),
            kinds,
            unk: Some(0),
            add_space_prefix: Some(false),
            ..Vocabulary::default()
        };
        (Tokenizer::new(&vocabulary).unwrap(), tokens)
    }

    /// What the model is told of a reply that was cut: marks in brackets where they are tokens of
    /// their own.
    fn told(open: bool, known: bool, thought: &str, reply: &str) -> (String, Thought) {
        let (tokenizer, tokens) = bytes_and_marks();
        let marks = (open.then_some(MARKS), known.then_some(MARKS));
        let (ids, rest) = go_on(&tokenizer, marks, thought, reply).unwrap();
        let mut text = String::new();
        for id in ids {
            match tokens[id as usize].strip_prefix("<0x") {
                Some(byte) => {
                    let byte = u8::from_str_radix(byte.trim_end_matches('>'), 16).unwrap();
                    text.push(if byte == b'\n' { '/' } else { char::from(byte) });
                }
                None => text.push_str(&format!("[{}]", tokens[id as usize])),
            }
        }
        (text.replace('\u{2581}', " "), rest)
    }

    #[test]
    fn a_cut_reply_goes_on_behind_what_it_thought_and_said() {
        let within = Thought::Within { end: MARKS.1 };
        for (open, known, thought, reply, expected, rest) in [
            (false, false, "", "Yes", "Yes", Thought::None),
            (false, true, "", "Yes", "Yes", Thought::None),
            // The prompt has opened the thinking; there was none, and it was closed.
            (true, true, "", "Yes", "/[</think>]//Yes", Thought::None),
            (true, true, "Hm.\n", "Yes", "Hm./[</think>]//Yes", Thought::None),
            (false, true, "Hm.", "Yes", "[<think>]/Hm./[</think>]//Yes", Thought::None),
            // Cut in its middle: it goes on thinking.
            (true, true, "Hm,", "", "Hm,", within),
            (false, true, "Hm,", "", "[<think>]/Hm,", within),
            // What was said is text, whatever it spells.
            (false, true, "a<think>b", "", "[<think>]/a<think>b", within),
            // From before thinking was kept apart.
            (true, true, "", "Hm.</think>Yes", "Hm.</think>Yes", Thought::None),
        ] {
            let told = told(open, known, thought, reply);
            assert_eq!(told, (expected.to_owned(), rest), "{thought:?} {reply:?}");
        }
    }

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
}
