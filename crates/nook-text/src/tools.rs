//! How models are told of tools, and how they write calls.
//!
//! Owns the writing side: a conversation with tools as a template wants to read it, and the grammar
//! of a call for replies that must make one. Publishers trained their models on different forms; a
//! template that mentions its form is taken at its word ([`ToolForm`]). A template that knows no
//! tools, or a form that is not known here, gets the default: the tools are listed in the system
//! message, calls are `<tool_call>` blocks as in Nous Research's Hermes format, and results come as
//! messages of the user in `<tool_response>` blocks.
//! References: the publishers' templates in the fixtures; OpenAI's chat completions.

mod grammar;
mod writing;

use nook_base::Sensitive;
use serde_json::{Value, json};

use crate::template::Role;

pub use grammar::CallRule;
pub(crate) use writing::written;

/// Most tools of one request; more are refused. OpenAI allows 128, agents with several servers of
/// tools send more.
pub const TOOLS_MAX: usize = 512;

/// Longest name of a tool. OpenAI allows 64, Anthropic 128, which agents use up: they put the name
/// of a server before that of its tool.
pub const TOOL_NAME_BYTES_MAX: usize = 128;

/// What a bare call begins with.
pub(crate) const BARE_CALL: &str = "{";

/// What a call in tags begins with, where the model leaves out the mark around it.
pub(crate) const FUNCTION_CALL: &str = "<function=";

/// How a model writes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolForm {
    /// `<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen, and the default.
    Hermes,
    /// A bare `{"name": …, "parameters": …}` as the whole reply: Llama 3.
    Llama,
    /// `[TOOL_CALLS][{"name": …, "arguments": …}]`: Mistral up to version 7 of its tokenizer.
    Mistral,
    /// `[TOOL_CALLS]name[ARGS]{…}`: Mistral since then.
    MistralNamed,
    /// `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`:
    /// Qwen3.5, Qwen3-Coder, Nemotron 3, Seed-OSS.
    Functions,
    /// `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`: GLM.
    Keys,
    /// `<|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|>`: Gemma 4.
    Gemma,
    /// `<|tool_call_start|>[name(key='text')]<|tool_call_end|>`: LFM2.
    Python,
    /// `<|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>`: gpt-oss.
    Harmony,
}

/// A form, and who writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ToolStyle {
    pub(crate) form: ToolForm,
    /// Whether the template writes tools, calls and results itself.
    pub(crate) native: bool,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name: letters, digits, `_` and `-`, at most 128.
    name: String,
    /// What it does.
    description: Option<Sensitive<String>>,
    /// JSON schema of its arguments, an object.
    parameters: Sensitive<Value>,
}

/// Whether tools are to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model may.
    Auto,
    /// It may not; tools are not mentioned to it.
    None,
    /// It must call one or more.
    Required,
    /// It must call this one, once.
    Named(String),
}

/// A call that the model made earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastCall {
    /// Its id, which the result repeats.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Arguments, as the model wrote them.
    pub arguments: Sensitive<String>,
}

/// One message of a conversation with tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Who speaks; `tool` brings the result of a call.
    pub role: Role,
    /// What was said.
    pub text: Sensitive<String>,
    /// Calls that the assistant made with it.
    pub calls: Vec<PastCall>,
    /// The call whose result this is.
    pub answers: Option<String>,
}

/// What is wrong with a tool. The client is to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The name is empty, too long, or has other characters.
    #[error(
        "a tool's name has 1 to {TOOL_NAME_BYTES_MAX} letters, digits, underscores or hyphens, not {name:?}"
    )]
    Name {
        /// What was given.
        name: String,
    },
    /// The parameters are not an object.
    #[error("the parameters of the tool {name:?} must be a JSON schema, an object")]
    Parameters {
        /// Which tool.
        name: String,
    },
}

impl ToolForm {
    /// Every form.
    pub const ALL: [Self; 9] = [
        Self::Hermes,
        Self::Functions,
        Self::Keys,
        Self::Gemma,
        Self::Python,
        Self::Harmony,
        Self::Llama,
        Self::Mistral,
        Self::MistralNamed,
    ];

    /// A call in this form, for people.
    #[must_use]
    pub fn example(self) -> &'static str {
        match self {
            Self::Hermes => r#"<tool_call>{"name": …, "arguments": …}</tool_call>"#,
            Self::Llama => r#"{"name": …, "parameters": …} as the whole reply"#,
            Self::Mistral => r#"[TOOL_CALLS][{"name": …, "arguments": …}]"#,
            Self::MistralNamed => "[TOOL_CALLS]name[ARGS]{…}",
            Self::Functions => {
                "<tool_call><function=name><parameter=key>value</parameter></function></tool_call>"
            }
            Self::Keys => {
                "<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>"
            }
            Self::Gemma => r#"<|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|>"#,
            Self::Python => "<|tool_call_start|>[name(key='text')]<|tool_call_end|>",
            Self::Harmony => {
                "<|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}"
            }
        }
    }

    /// Whose models write it, for people.
    #[must_use]
    pub fn models(self) -> &'static str {
        match self {
            Self::Hermes => "Hermes, Qwen up to 3, Granite 4; the default for every other template",
            Self::Functions => "Qwen3.5, Qwen3-Coder, Nemotron 3, Seed-OSS",
            Self::Keys => "GLM since 4.5",
            Self::Gemma => "Gemma 4",
            Self::Python => "LFM2, LFM2.5",
            Self::Harmony => "gpt-oss",
            Self::Llama => "Llama 3",
            Self::Mistral => "Mistral, up to version 7 of its tokenizer",
            Self::MistralNamed => "Mistral, since then",
        }
    }

    /// Strings that begin a call; a bare brace does so only as the `first` word.
    pub(crate) fn marks(self, first: bool) -> &'static [&'static str] {
        match (self, first) {
            (Self::Hermes, _) => &["<tool_call>"],
            (Self::Llama, true) => &["<|python_tag|>", BARE_CALL],
            (Self::Llama, false) => &["<|python_tag|>"],
            (Self::Mistral | Self::MistralNamed, _) => &["[TOOL_CALLS]"],
            (Self::Functions, _) => &["<tool_call>", "<seed:tool_call>", FUNCTION_CALL],
            (Self::Keys, _) => &["<tool_call>"],
            (Self::Gemma, _) => &["<|tool_call>"],
            (Self::Python, _) => &["<|tool_call_start|>"],
            // Its replies are read message by message.
            (Self::Harmony, _) => &[],
        }
    }

    /// What may stand behind a call and says nothing.
    pub(crate) fn closing(self) -> &'static [&'static str] {
        match self {
            // Some models close one brace too many.
            Self::Hermes => &["}", "</tool_call>"],
            Self::Llama => &[";"],
            Self::Mistral => &[",", "]"],
            Self::Functions => &["}", "</function>", "</tool_call>", "</seed:tool_call>"],
            Self::Keys => &["}", "</tool_call>"],
            Self::Gemma => &["<tool_call|>", "<|tool_response>"],
            Self::Python => &[",", "}", "]", "<|tool_call_end|>"],
            Self::MistralNamed | Self::Harmony => &[],
        }
    }

    /// Whether `rest`, behind a call, is another one without a mark of its own.
    pub(crate) fn next_call(self, rest: &str) -> bool {
        match self {
            Self::Llama | Self::Mistral => rest.starts_with(BARE_CALL),
            // `name(`, or the beginning of that.
            Self::Python => {
                let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let behind = rest.trim_start_matches(in_name);
                behind.len() < rest.len() && (behind.is_empty() || behind.starts_with('('))
            }
            _ => false,
        }
    }

    /// Control tokens that must be spelt out for a reader of such replies.
    pub(crate) fn spelt(self) -> &'static [&'static str] {
        match self {
            Self::Hermes => &["<tool_call>", "</tool_call>"],
            Self::Llama => &["<|python_tag|>"],
            Self::Mistral | Self::MistralNamed => &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
            Self::Functions => {
                &["<tool_call>", "</tool_call>", "<seed:tool_call>", "</seed:tool_call>"]
            }
            Self::Keys => &[
                "<tool_call>",
                "</tool_call>",
                "<arg_key>",
                "</arg_key>",
                "<arg_value>",
                "</arg_value>",
            ],
            Self::Gemma => &["<|tool_call>", "<tool_call|>", "<|\"|>"],
            Self::Python => &["<|tool_call_start|>", "<|tool_call_end|>"],
            Self::Harmony => &[
                "<|start|>",
                "<|end|>",
                "<|message|>",
                "<|channel|>",
                "<|constrain|>",
                "<|call|>",
                "<|return|>",
            ],
        }
    }
}

impl ToolStyle {
    /// The style of a template, by what its source mentions.
    pub(crate) fn of(source: &str) -> Self {
        let says = |word: &str| source.contains(word);
        let form = match () {
            () if !says("tools") => None,
            () if says("<|channel|>commentary") && says("functions.") => Some(ToolForm::Harmony),
            () if says("<|tool_call>call:") => Some(ToolForm::Gemma),
            () if says("<|tool_call_start|>") && says("tool_calls") => Some(ToolForm::Python),
            () if says("<tool_call>") && says("<arg_key>") => Some(ToolForm::Keys),
            () if says("tool_call>") && says("<function=") && says("<parameter=") => {
                Some(ToolForm::Functions)
            }
            () if says("[TOOL_CALLS]") && says("[ARGS]") => Some(ToolForm::MistralNamed),
            () if says("[TOOL_CALLS]") => Some(ToolForm::Mistral),
            // Apriel writes a list inside the like of it.
            () if says("<tool_call>") && says("\"arguments") && !says("<tool_calls>") => {
                Some(ToolForm::Hermes)
            }
            () if says("<|start_header_id|>") && says("\"parameters\"") => Some(ToolForm::Llama),
            () => None,
        };
        Self { form: form.unwrap_or(ToolForm::Hermes), native: form.is_some() }
    }
}

impl Tool {
    /// Checks a tool. Absent parameters mean that it takes none.
    pub fn new(
        name: String,
        description: Option<String>,
        parameters: Option<Value>,
    ) -> Result<Self, ToolError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !(1..=TOOL_NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(plain) {
            return Err(ToolError::Name { name: name.chars().take(80).collect() });
        }
        let none = || json!({"type": "object", "properties": {}});
        let parameters = parameters.filter(|given| !given.is_null()).unwrap_or_else(none);
        if !parameters.is_object() {
            return Err(ToolError::Parameters { name });
        }
        let description = description.map(Sensitive);
        Ok(Self { name, description, parameters: Sensitive(parameters) })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does, where somebody said.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_ref().map(|text| text.0.as_str())
    }

    /// JSON schema of its arguments.
    #[must_use]
    pub fn parameters(&self) -> &Value {
        &self.parameters
    }

    /// Its parameters whose values are text and nothing else.
    pub fn text_parameters(&self) -> impl Iterator<Item = &str> {
        let described = self.parameters.get("properties").and_then(Value::as_object);
        let is_text = |schema: &Value| {
            let are_texts = |values: &Value| {
                values.as_array().is_some_and(|them| them.iter().all(Value::is_string))
            };
            match &schema["type"] {
                Value::String(kind) => kind == "string",
                Value::Null => are_texts(&schema["enum"]),
                _ => false,
            }
        };
        let texts = described.into_iter().flatten().filter(move |(_, schema)| is_text(schema));
        texts.map(|(name, _)| name.as_str())
    }

    /// The tool in OpenAI's form, as templates read it.
    fn as_openai(&self) -> Value {
        let mut function = json!({"name": self.name});
        if let Some(description) = &self.description {
            function["description"] = description.0.clone().into();
        }
        function["parameters"] = self.parameters.0.clone();
        json!({"type": "function", "function": function})
    }
}

impl Turn {
    /// A message without calls.
    #[must_use]
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: Sensitive(text.into()), calls: Vec::new(), answers: None }
    }
}
