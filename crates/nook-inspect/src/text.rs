//! What a model's tokenizer and chat template make of a text or a conversation.

use std::path::{Path, PathBuf};

use nook_base::Vocabulary;
use nook_text::{ChatTemplate, EncodeOptions, Moment, RenderOptions, Tokenizer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{InspectError, header};

/// Longest conversation file, in bytes; a longer one is refused.
const CONVERSATION_BYTES_MAX: u64 = 64 << 20;

/// How to treat special tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenizeOptions {
    /// Put BOS first and EOS last as the vocabulary says.
    pub add_special: bool,
    /// Recognise control tokens that are spelt out in the text.
    pub parse_special: bool,
}

/// Token ids of a text.
#[derive(Debug, Clone, Serialize)]
pub struct TokensView {
    /// The ids.
    pub ids: Vec<u32>,
    /// What each of them spells; U+FFFD for part of a character.
    pub pieces: Vec<String>,
}

/// Where a chat template comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateSource {
    /// From a model file, with its begin and end tokens.
    Model(PathBuf),
    /// From a Jinja file.
    File(PathBuf),
}

/// What a conversation file holds. Other fields are the template's own switches
/// (`enable_thinking`).
#[derive(Debug, Deserialize)]
pub struct Conversation {
    /// Messages in the form of the OpenAI interface.
    pub messages: Vec<Value>,
    /// Tools in that form.
    #[serde(default)]
    pub tools: Option<Value>,
    /// Whether to end with the opening of the assistant's turn.
    #[serde(default)]
    pub add_generation_prompt: bool,
    /// Spelling of the begin token; absent: the model's.
    #[serde(default)]
    pub bos_token: Option<String>,
    /// Spelling of the end token; absent: the model's.
    #[serde(default)]
    pub eos_token: Option<String>,
    /// What `strftime_now` says: seconds since 1970 in UTC, or `2025-01-02 03:04:05` (also with `T`
    /// between, and with `Z` or `+01:00` behind). Absent: there is no `strftime_now`.
    #[serde(default)]
    pub now: Option<Value>,
    /// Everything else.
    #[serde(flatten)]
    pub variables: Map<String, Value>,
}

/// A rendered conversation.
#[derive(Debug, Clone, Serialize)]
pub struct RenderedView {
    /// The text.
    pub text: String,
    /// Whether the last user message is missing from it; a prompt like that would be refused.
    pub user_text_lost: bool,
    /// The default that is in use because the model file brings no template.
    pub default: Option<&'static str>,
}

/// The ids of `text` in the vocabulary of the file at `model`.
pub fn tokenize(
    model: &Path,
    text: &str,
    options: TokenizeOptions,
) -> Result<TokensView, InspectError> {
    let vocabulary = vocabulary(model)?;
    let tokenizer = Tokenizer::new(&vocabulary)
        .map_err(|source| InspectError::Tokenizer { file: model.to_owned(), source })?;
    let TokenizeOptions { add_special, parse_special } = options;
    let ids = tokenizer.encode(text, EncodeOptions { add_special, parse_special })?;
    let piece =
        |id: &u32| String::from_utf8_lossy(tokenizer.decode_bytes_with_control(*id)).into_owned();
    Ok(TokensView { pieces: ids.iter().map(piece).collect(), ids })
}

/// Renders the conversation in the file `conversation`.
pub fn template(
    source: &TemplateSource,
    conversation: &Path,
) -> Result<RenderedView, InspectError> {
    let chat = read_conversation(conversation)?;
    let mut vocabulary = match source {
        TemplateSource::Model(model) => vocabulary(model)?,
        TemplateSource::File(file) => {
            let read = std::fs::read_to_string(file);
            let unread = |source| InspectError::File { file: file.clone(), done: "read", source };
            Vocabulary { chat_template: Some(read.map_err(unread)?), ..Vocabulary::default() }
        }
    };
    vocabulary.bos = spelt(&mut vocabulary.tokens, vocabulary.bos, chat.bos_token.as_ref());
    vocabulary.eos = spelt(&mut vocabulary.tokens, vocabulary.eos, chat.eos_token.as_ref());
    let now = chat.now.as_ref().map(|now| {
        moment(now).ok_or_else(|| InspectError::Conversation {
            file: conversation.to_owned(),
            problem: "`now` must be seconds since 1970 or like 2025-01-02 03:04:05".to_owned(),
        })
    });
    let options = RenderOptions {
        add_generation_prompt: chat.add_generation_prompt,
        now: now.transpose()?,
        tools: chat.tools.filter(|tools| !tools.is_null()),
    };
    let template = ChatTemplate::for_vocabulary(&vocabulary)?;
    let preview = template.preview(&chat.messages, &options, &chat.variables)?;
    Ok(RenderedView {
        text: preview.text,
        user_text_lost: preview.user_text_lost,
        default: template.default_name(),
    })
}

fn vocabulary(model: &Path) -> Result<Vocabulary, InspectError> {
    let fault = |fault| nook_model::ModelError { file: model.to_owned(), fault };
    Ok(header(model)?.into_vocabulary().map_err(fault)?)
}

/// The id of the token `spelling`, which is put behind the others; without it, `id`.
fn spelt(tokens: &mut Vec<String>, id: Option<u32>, spelling: Option<&String>) -> Option<u32> {
    let Some(spelling) = spelling else { return id };
    let new = u32::try_from(tokens.len()).ok();
    tokens.push(spelling.clone());
    new
}

fn moment(now: &Value) -> Option<Moment> {
    match now {
        Value::Number(number) => {
            Some(Moment { unix_seconds: number.as_i64()?, utc_offset_seconds: 0 })
        }
        Value::String(text) => Moment::parse(text),
        _ => None,
    }
}

fn read_conversation(path: &Path) -> Result<Conversation, InspectError> {
    let unread = |source| InspectError::File { file: path.to_owned(), done: "read", source };
    let wrong = |problem: String| InspectError::Conversation { file: path.to_owned(), problem };
    let length = path.metadata().map_err(unread)?.len();
    if length > CONVERSATION_BYTES_MAX {
        let problem = format!("it has {length} bytes, at most {CONVERSATION_BYTES_MAX} are read");
        return Err(wrong(problem));
    }
    let bytes = std::fs::read(path).map_err(unread)?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
}
