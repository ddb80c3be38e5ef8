//! The bodies of `POST /api/chat` and `POST /api/generate`, as sent and as understood.

use nook_api::views::HouseholdView;
use nook_api::{Dialog, GenerateRequest, Prompt, Reach, Thinking};
use nook_base::Sensitive;
use nook_text::{PastCall, ReplyShape, Role, ToolChoice, Turn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::plain_name;
use crate::error::ApiError;
use crate::messages::{MESSAGES_MAX, SentArguments, role};
use crate::sampling::{SentSampling, Stop, model_name, refuse, stops};
use crate::tools::{SentTool, tools};

/// A request for the next message of a conversation, in Ollama's form. Fields that are not listed
/// are ignored, `keep_alive` among them: how long a model stays open is a setting.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "OllamaChatRequest")]
pub(crate) struct ChatBody {
    /// See chat completions; `:latest` at its end stands for nothing.
    model: Option<String>,
    /// Empty asks for nothing but an answer that the model is here.
    messages: Option<Vec<SentMessage>>,
    /// Send the reply while it is made; absent: yes.
    stream: Option<bool>,
    tools: Option<Vec<SentTool>>,
    format: Option<SentFormat>,
    options: Option<SentOptions>,
    think: Option<SentThink>,
}

/// A request to continue a text, in Ollama's form. Fields that are not listed are ignored.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "OllamaGenerateRequest")]
pub(crate) struct GenerateBody {
    /// See chat completions; `:latest` at its end stands for nothing.
    model: Option<String>,
    /// What the person says; with `raw`, the text itself. Empty asks for nothing but an answer that
    /// the model is here.
    prompt: Option<String>,
    /// What stands behind the reply.
    suffix: Option<String>,
    system: Option<String>,
    /// Continue the text as it is, without the model's template.
    raw: Option<bool>,
    /// Send the reply while it is made; absent: yes.
    stream: Option<bool>,
    format: Option<SentFormat>,
    options: Option<SentOptions>,
    think: Option<SentThink>,
    /// Not supported: the models read text.
    images: Option<Vec<Value>>,
    /// Not supported: a model's own template is used.
    template: Option<String>,
    /// Not supported: chats hold their own past.
    context: Option<Vec<Value>>,
}

/// One message.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "OllamaMessage")]
struct SentMessage {
    /// `system`, `user`, `assistant` or `tool`.
    role: String,
    content: Option<String>,
    /// Not supported: the models read text.
    images: Option<Vec<Value>>,
    /// Calls that the assistant made.
    tool_calls: Option<Vec<SentCall>>,
    /// The tool whose result a message of the role `tool` brings.
    tool_name: Option<String>,
    /// The call that it answers, where the client keeps ids.
    tool_call_id: Option<String>,
}

/// A call that the assistant made.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "OllamaCall")]
struct SentCall {
    id: Option<String>,
    function: SentCalled,
}

/// What it called.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "OllamaCalled")]
struct SentCalled {
    name: String,
    arguments: Option<SentArguments>,
}

/// The form of the reply: empty, `json`, or a JSON schema.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected \"json\", a JSON schema or null")]
#[schemars(rename = "OllamaFormat")]
enum SentFormat {
    Word(String),
    Schema(Value),
}

/// Whether to think, or how much.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected true, false or a word")]
#[schemars(rename = "OllamaThink")]
enum SentThink {
    Whether(bool),
    Effort(String),
}

/// Settings of the reply. Others are ignored, `num_ctx` among them: a model's whole window is used.
#[derive(Default, Deserialize, JsonSchema)]
#[schemars(rename = "OllamaOptions")]
struct SentOptions {
    /// Most tokens of the reply; absent, -1 or -2: as many as fit.
    num_predict: Option<i64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    min_p: Option<f64>,
    repeat_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    seed: Option<i64>,
    stop: Option<Stop>,
}

/// A body as understood.
pub(super) struct Understood {
    /// `None` asks for nothing but an answer that the model is here.
    pub(super) request: Option<GenerateRequest>,
    pub(super) model: String,
    pub(super) stream: bool,
}

impl ChatBody {
    /// Checks everything and turns it into a request to the house.
    pub(super) fn understand(self, house: &HouseholdView) -> Result<Understood, ApiError> {
        let tools = tools(self.tools)?;
        let turns = turns(self.messages.unwrap_or_default())?;
        let thinking = self.think.map_or(Thinking::AsUsual, SentThink::thinking);
        let wishes =
            Wishes { model: self.model, stream: self.stream, options: self.options, thinking };
        if turns.is_empty() {
            return wishes.understood(None, None, house);
        }
        let dialog = Dialog { turns, tools, choice: ToolChoice::Auto, parallel: true };
        wishes.understood(Some(Prompt::Dialog(Box::new(dialog))), shape(self.format)?, house)
    }
}

impl GenerateBody {
    /// Checks everything and turns it into a request to the house.
    pub(super) fn understand(self, house: &HouseholdView) -> Result<Understood, ApiError> {
        let any = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|list| !list.is_empty());
        let said = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        refuse(&[
            (any(&self.images), "images", "are not supported: this model reads text only."),
            (said(&self.template), "template", "is not supported; raw is."),
            (any(&self.context), "context", "is not supported; /api/chat takes the messages."),
        ])?;
        let thinking = self.think.map_or(Thinking::AsUsual, SentThink::thinking);
        let wishes =
            Wishes { model: self.model, stream: self.stream, options: self.options, thinking };
        let text = self.prompt.unwrap_or_default();
        let behind = self.suffix.filter(|suffix| !suffix.is_empty());
        let prompt = match (self.raw.unwrap_or(false), behind) {
            (_, Some(behind)) => Prompt::Gap { before: Sensitive(text), behind: Sensitive(behind) },
            (_, None) if text.is_empty() => return wishes.understood(None, None, house),
            (true, None) => Prompt::Text(Sensitive(text)),
            (false, None) => {
                let system = self.system.filter(|system| !system.is_empty());
                let system = system.map(|text| Turn::new(Role::system(), text));
                let turns = system.into_iter().chain([Turn::new(Role::user(), text)]).collect();
                Prompt::Dialog(Box::new(Dialog {
                    turns,
                    tools: Vec::new(),
                    choice: ToolChoice::None,
                    parallel: true,
                }))
            }
        };
        wishes.understood(Some(prompt), shape(self.format)?, house)
    }
}

/// What both bodies say of the reply.
struct Wishes {
    model: Option<String>,
    stream: Option<bool>,
    options: Option<SentOptions>,
    thinking: Thinking,
}

impl Wishes {
    fn understood(
        self,
        prompt: Option<Prompt>,
        shape: Option<ReplyShape>,
        house: &HouseholdView,
    ) -> Result<Understood, ApiError> {
        let model = model_name(plain_name(self.model, house), house)?;
        let options = self.options.unwrap_or_default();
        let stream = self.stream.unwrap_or(true);
        let sampling = SentSampling {
            temperature: options.temperature,
            top_p: options.top_p,
            top_k: options.top_k,
            min_p: options.min_p,
            repetition_penalty: options.repeat_penalty,
            frequency_penalty: options.frequency_penalty,
            presence_penalty: options.presence_penalty,
            seed: options.seed,
            shape,
            ..SentSampling::default()
        };
        // Nothing, and everything that fits, are both less than one.
        let most = options.num_predict.filter(|tokens| *tokens > 0);
        let Some(prompt) = prompt else { return Ok(Understood { request: None, model, stream }) };
        let request = GenerateRequest {
            model: model.clone(),
            prompt,
            tokens_max: most.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            sampling: sampling.sampling()?,
            stop: stops("options.stop", options.stop)?,
            thinking: self.thinking,
            activation_dtype: None,
            reach: Reach::House,
        };
        Ok(Understood { request: Some(request), model, stream })
    }
}

fn turns(sent: Vec<SentMessage>) -> Result<Vec<Turn>, ApiError> {
    if sent.len() > MESSAGES_MAX {
        return Err(ApiError::bad("messages", format!("At most {MESSAGES_MAX} messages.")));
    }
    let mut turns: Vec<Turn> = Vec::with_capacity(sent.len());
    for message in sent {
        let name = message.role;
        let role = role(&name).ok_or_else(|| {
            ApiError::bad("messages", format!("The role {name:?} is not supported."))
        })?;
        if message.images.is_some_and(|images| !images.is_empty()) {
            let sentence = "messages: images are not supported: this model reads text only.";
            return Err(ApiError::bad("messages", sentence));
        }
        let calls = message.tool_calls.unwrap_or_default().into_iter().enumerate();
        let at = turns.len();
        let calls = calls.map(|(index, SentCall { id, function })| PastCall {
            id: id.unwrap_or_else(|| call_id(at, index)),
            name: function.name,
            arguments: Sensitive(
                function.arguments.map_or_else(|| "{}".to_owned(), SentArguments::text),
            ),
        });
        let calls = if role == Role::assistant() { calls.collect() } else { Vec::new() };
        let answers = (role == Role::tool())
            .then(|| message.tool_call_id.unwrap_or_else(|| answered(&turns, &message.tool_name)));
        let text = Sensitive(message.content.unwrap_or_default());
        turns.push(Turn { role, text, calls, answers });
    }
    Ok(turns)
}

/// An id for a call that came without one: nine letters and digits, as Mistral's templates want.
fn call_id(turn: usize, index: usize) -> String {
    format!("c{turn:05}{index:03}")
}

/// The call that a result without an id answers: of the tool that it names, the first one that no
/// result has answered yet, else the first of all.
fn answered(turns: &[Turn], tool: &Option<String>) -> String {
    let last = turns.iter().rposition(|turn| !turn.calls.is_empty());
    let Some((called, behind)) = last.and_then(|at| turns[at..].split_first()) else {
        return call_id(turns.len(), 0);
    };
    let is_open =
        |call: &&PastCall| !behind.iter().any(|turn| turn.answers.as_ref() == Some(&call.id));
    let open = || called.calls.iter().filter(is_open);
    let named = open().find(|call| tool.as_ref().is_some_and(|tool| *tool == call.name));
    let found = named.or_else(|| open().next()).or(called.calls.first());
    found.map_or_else(|| call_id(turns.len(), 0), |call| call.id.clone())
}

fn shape(sent: Option<SentFormat>) -> Result<Option<ReplyShape>, ApiError> {
    match sent {
        None => Ok(None),
        Some(SentFormat::Word(word)) if word.is_empty() => Ok(None),
        Some(SentFormat::Word(word)) if word == "json" => Ok(Some(ReplyShape::JsonObject)),
        Some(SentFormat::Schema(Value::Null)) => Ok(None),
        Some(SentFormat::Schema(schema)) if schema.is_object() => {
            Ok(Some(ReplyShape::JsonSchema(Sensitive(schema))))
        }
        Some(_) => Err(ApiError::bad("format", "format is \"json\" or a JSON schema, an object.")),
    }
}

impl SentThink {
    fn thinking(self) -> Thinking {
        match self {
            Self::Whether(false) => Thinking::Off,
            Self::Whether(true) => Thinking::On,
            Self::Effort(effort) => Thinking::of_effort(Some(effort)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_without_an_id_answer_the_calls_in_turn() {
        let messages = serde_json::json!([
            {"role": "user", "content": "Look and rest."},
            {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "look", "arguments": {"at": "x"}}},
                {"function": {"name": "rest", "arguments": {}}},
                {"function": {"name": "look"}},
            ]},
            {"role": "tool", "content": "a", "tool_name": "rest"},
            {"role": "tool", "content": "b", "tool_name": "look"},
            {"role": "tool", "content": "c"},
        ]);
        let turns = turns(serde_json::from_value(messages).unwrap()).unwrap();
        let ids: Vec<_> = turns[1].calls.iter().map(|call| call.id.clone()).collect();
        let answers: Vec<_> = turns[2..].iter().map(|turn| turn.answers.clone().unwrap()).collect();
        assert_eq!(answers, [ids[1].clone(), ids[0].clone(), ids[2].clone()]);
        assert!(ids.iter().all(|id| id.len() == 9), "{ids:?}");
        assert_eq!(turns[1].calls[0].arguments.0, "{\"at\":\"x\"}");
        assert_eq!(turns[1].calls[2].arguments.0, "{}");
    }
}
