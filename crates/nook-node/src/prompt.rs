//! From what a door asks for to token ids and the settings of a reply.

use nook_base::{ErrorCode, clock};
use nook_text::{
    EncodeOptions, Moment, Opening, RawSamplerSettings, RenderOptions, Role, SamplerSettings,
    StopStrings,
};

use crate::house::{ChatMessage, GenerateRequest, HouseError, Prompt, Sampling};
use crate::shelf::OpenModel;
use crate::views::ChatRole;

/// A request made ready.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) ids: Vec<u32>,
    pub(crate) tokens_max: u32,
    pub(crate) sampler: SamplerSettings,
    pub(crate) stops: StopStrings,
    pub(crate) opening: Opening,
}

/// Renders, encodes and checks a request against the model's window.
pub(crate) fn ready(model: &OpenModel, request: &GenerateRequest) -> Result<Ready, HouseError> {
    let bad = |error: String| HouseError::new(ErrorCode::BadRequest, error);
    let (ids, opening, mut stops) = match &request.prompt {
        Prompt::Text(text) => {
            let options = EncodeOptions { add_special: true, parse_special: false };
            let ids = model.tokenizer.encode(text, options).map_err(|e| bad(e.to_string()))?;
            (ids, Opening::Continues, Vec::new())
        }
        Prompt::Chat(messages) => {
            let (ids, stops) = chat(model, messages)?;
            (ids, Opening::Fresh, stops)
        }
        Prompt::Begun { messages, reply } => {
            let (mut ids, stops) = chat(model, messages)?;
            // What the model said is text, whatever it spells.
            let options = EncodeOptions { add_special: false, parse_special: false };
            ids.extend(model.tokenizer.encode(reply, options).map_err(|e| bad(e.to_string()))?);
            (ids, Opening::Continues, stops)
        }
    };
    if ids.is_empty() {
        return Err(bad("there is nothing to continue: the prompt is empty".to_owned()));
    }
    stops.extend(request.stop.iter().cloned());
    Ok(Ready {
        tokens_max: room(model, ids.len(), request.tokens_max)?,
        sampler: sampler(&request.sampling)?,
        stops: StopStrings::new(stops).map_err(|error| bad(error.to_string()))?,
        ids,
        opening,
    })
}

/// A conversation through the model's template, up to where the reply begins; and what ends it.
fn chat(
    model: &OpenModel,
    messages: &[ChatMessage],
) -> Result<(Vec<u32>, Vec<String>), HouseError> {
    let bad = |error: String| HouseError::new(ErrorCode::BadRequest, error);
    if messages.is_empty() {
        return Err(bad("a conversation needs at least one message".to_owned()));
    }
    let messages: Vec<_> = messages
        .iter()
        .map(|message| nook_text::ChatMessage::new(role(message.role), &*message.text.0))
        .collect();
    let options = RenderOptions { add_generation_prompt: true, now: Some(now()), tools: None };
    let rendered = model.template.render(&messages, options).map_err(|e| bad(e.to_string()))?;
    let ids = model.tokenizer.encode_chat(&rendered).map_err(|e| bad(e.to_string()))?;
    let stops = model.template.stop_strings().iter().map(|&stop| stop.to_owned()).collect();
    Ok((ids, stops))
}

/// Tokens that fit behind a prompt of `prompt` tokens; never a silent cut of the prompt.
fn room(model: &OpenModel, prompt: usize, wanted: Option<u32>) -> Result<u32, HouseError> {
    let window = model.shape.context_length;
    let left = u32::try_from(prompt).ok().and_then(|prompt| window.checked_sub(prompt));
    match left {
        Some(left) if left > 0 => Ok(wanted.unwrap_or(left).clamp(1, left)),
        _ => Err(HouseError::new(
            ErrorCode::TooLong,
            format!(
                "The prompt has {prompt} tokens; {} can hold {window}. Start a new chat, or shorten it.",
                model.listed.name
            ),
        )),
    }
}

fn sampler(sampling: &Sampling) -> Result<SamplerSettings, HouseError> {
    let raw = RawSamplerSettings {
        temperature: Some(sampling.temperature.unwrap_or(0.7)),
        top_k: sampling.top_k,
        top_p: sampling.top_p,
        min_p: sampling.min_p,
        repetition_penalty: sampling.repetition_penalty,
        repetition_window: None,
    };
    let seed = sampling.seed.unwrap_or_else(rand::random);
    SamplerSettings::new(raw, seed)
        .map_err(|error| HouseError::new(ErrorCode::BadRequest, error.to_string()))
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
