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

/// Most tools of one request; more are refused. OpenAI allows 128.
pub const TOOLS_MAX: usize = 128;

/// What a bare call begins with.
pub(crate) const BARE_CALL: &str = "{";

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
    /// Its name: letters, digits, `_` and `-`, at most 64.
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
    #[error("a tool's name has 1 to 64 letters, digits, underscores or hyphens, not {name:?}")]
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
    pub const ALL: [Self; 4] = [Self::Hermes, Self::Llama, Self::Mistral, Self::MistralNamed];

    /// A call in this form, for people.
    #[must_use]
    pub fn example(self) -> &'static str {
        match self {
            Self::Hermes => r#"<tool_call>{"name": …, "arguments": …}</tool_call>"#,
            Self::Llama => r#"{"name": …, "parameters": …} as the whole reply"#,
            Self::Mistral => r#"[TOOL_CALLS][{"name": …, "arguments": …}]"#,
            Self::MistralNamed => "[TOOL_CALLS]name[ARGS]{…}",
        }
    }

    /// Whose models write it, for people.
    #[must_use]
    pub fn models(self) -> &'static str {
        match self {
            Self::Hermes => "Hermes, Qwen; the default for every other template",
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
        }
    }

    /// What may stand behind a call and says nothing.
    pub(crate) fn closing(self) -> &'static [&'static str] {
        match self {
            // Some models close one brace too many.
            Self::Hermes => &["}", "</tool_call>"],
            Self::Llama => &[";"],
            Self::Mistral => &[",", "]"],
            Self::MistralNamed => &[],
        }
    }

    /// Whether `rest`, behind a call, is another one without a mark of its own.
    pub(crate) fn next_call(self, rest: &str) -> bool {
        matches!(self, Self::Llama | Self::Mistral) && rest.starts_with(BARE_CALL)
    }

    /// Control tokens that must be spelt out for a reader of such replies.
    #[must_use]
    pub fn spelt(self) -> &'static [&'static str] {
        match self {
            Self::Hermes => &["<tool_call>", "</tool_call>"],
            Self::Llama => &["<|python_tag|>"],
            Self::Mistral | Self::MistralNamed => &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
        }
    }
}

impl ToolStyle {
    /// The style of a template, by what its source mentions.
    pub(crate) fn of(source: &str) -> Self {
        let says = |word: &str| source.contains(word);
        let form = match () {
            () if !says("tools") => None,
            () if says("[TOOL_CALLS]") && says("[ARGS]") => Some(ToolForm::MistralNamed),
            () if says("[TOOL_CALLS]") => Some(ToolForm::Mistral),
            // Qwen3-Coder and GLM write XML inside the same mark, Apriel a list inside its like.
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
        if !(1..=64).contains(&name.len()) || !name.bytes().all(plain) {
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
