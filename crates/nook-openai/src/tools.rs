//! Tools and the choice of one, as chat completions and responses write them.

use nook_text::{Tool, ToolChoice};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::error::ApiError;

/// A tool on offer. Chat completions nest the function, responses do not; both are understood.
#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct SentTool {
    /// Only `function` is supported.
    #[serde(rename = "type")]
    kind: String,
    function: Option<SentFunction>,
    name: Option<String>,
    description: Option<String>,
    parameters: Option<Value>,
}

/// What can be called.
#[derive(Clone, Deserialize, JsonSchema)]
struct SentFunction {
    /// Letters, digits, `_` and `-`, at most 128.
    name: String,
    description: Option<String>,
    /// A JSON schema, an object.
    parameters: Option<Value>,
}

/// Whether a tool is to be called.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected \"none\", \"auto\", \"required\" or {\"type\": \"function\", …}"
)]
pub(crate) enum SentChoice {
    /// `none`, `auto` or `required`.
    Word(String),
    /// One function by name, or some of the tools.
    Named(Box<NamedChoice>),
}

/// One function that must be called, or the only ones that may be.
#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct NamedChoice {
    /// `function` or `allowed_tools`.
    #[serde(rename = "type")]
    kind: String,
    function: Option<ChosenFunction>,
    name: Option<String>,
    /// What chat completions nest.
    allowed_tools: Option<SentAllowed>,
    /// Of `allowed_tools` in responses.
    #[serde(flatten)]
    allowed: SentAllowed,
}

/// Some of the tools; the others are not offered.
#[derive(Clone, Default, Deserialize, JsonSchema)]
struct SentAllowed {
    /// `auto` or `required`.
    mode: Option<String>,
    /// By type and name.
    tools: Option<Vec<SentTool>>,
}

/// Its name, as chat completions nest it.
#[derive(Clone, Deserialize, JsonSchema)]
struct ChosenFunction {
    name: String,
}

impl SentTool {
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    pub(crate) fn is_function(&self) -> bool {
        self.kind == "function"
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.function.as_ref().map(|it| it.name.as_str()).or(self.name.as_deref())
    }

    /// The same tool under another name.
    pub(crate) fn called(mut self, name: String) -> Self {
        match &mut self.function {
            Some(function) => function.name = name,
            None => self.name = Some(name),
        }
        self
    }
}

/// The tools, checked.
pub(crate) fn tools(sent: Option<Vec<SentTool>>) -> Result<Vec<Tool>, ApiError> {
    let sent = sent.unwrap_or_default();
    distinct(sent.into_iter().map(tool).collect::<Result<_, _>>()?)
}

/// The tools, if they are not too many and each has a name of its own.
pub(crate) fn distinct(tools: Vec<Tool>) -> Result<Vec<Tool>, ApiError> {
    let most = nook_text::tools::TOOLS_MAX;
    if tools.len() > most {
        return Err(ApiError::bad("tools", format!("At most {most} tools.")));
    }
    for (at, tool) in tools.iter().enumerate() {
        if tools[..at].iter().any(|other| other.name() == tool.name()) {
            return Err(ApiError::bad("tools", format!("Two tools are called {:?}.", tool.name())));
        }
    }
    Ok(tools)
}

fn tool(sent: SentTool) -> Result<Tool, ApiError> {
    let SentTool { kind, function, name, description, parameters } = sent;
    if kind != "function" {
        let message = format!("tools may only be of type \"function\", not {kind:?}.");
        return Err(ApiError::bad("tools", message));
    }
    let function = match (function, name) {
        (Some(function), _) => function,
        (None, Some(name)) => SentFunction { name, description, parameters },
        (None, None) => return Err(ApiError::bad("tools", "A tool needs a name.")),
    };
    Tool::new(function.name, function.description, function.parameters)
        .map_err(|error| ApiError::bad("tools", format!("{error}.")))
}

/// The choice, checked against what is on offer, and what is left of that.
pub(crate) fn choice(
    sent: Option<SentChoice>,
    tools: Vec<Tool>,
) -> Result<(ToolChoice, Vec<Tool>), ApiError> {
    let bad = |message: String| Err(ApiError::bad("tool_choice", message));
    let (choice, tools) = match sent {
        None => (ToolChoice::Auto, tools),
        Some(SentChoice::Word(word)) => match word.as_str() {
            "auto" => (ToolChoice::Auto, tools),
            "none" => (ToolChoice::None, tools),
            "required" => (ToolChoice::Required, tools),
            other => {
                return bad(format!(
                    "tool_choice is \"none\", \"auto\", \"required\" or a function, not {other:?}."
                ));
            }
        },
        Some(SentChoice::Named(sent)) => match sent.kind.as_str() {
            "function" => match sent.function.map(|function| function.name).or(sent.name) {
                Some(name) => (ToolChoice::Named(name), tools),
                None => return bad("tool_choice needs the name of a function.".to_owned()),
            },
            "allowed_tools" => allowed(sent.allowed_tools.unwrap_or(sent.allowed), tools)?,
            kind => return bad(format!("tool_choice of type {kind:?} is not supported.")),
        },
    };
    Ok((checked_choice(choice, &tools)?, tools))
}

/// Only those of the tools that are allowed. What is no function cannot be called here anyway.
fn allowed(sent: SentAllowed, tools: Vec<Tool>) -> Result<(ToolChoice, Vec<Tool>), ApiError> {
    let bad = |message: String| Err(ApiError::bad("tool_choice", message));
    let choice = match sent.mode.as_deref() {
        None | Some("auto") => ToolChoice::Auto,
        Some("required") => ToolChoice::Required,
        Some(other) => {
            return bad(format!("The mode of allowed_tools is auto or required, not {other:?}."));
        }
    };
    let Some(sent) = sent.tools else {
        return bad("tool_choice of type allowed_tools needs tools.".to_owned());
    };
    let functions = sent.iter().filter(|tool| tool.is_function());
    let names = functions.filter_map(SentTool::name).collect::<Vec<_>>();
    for name in &names {
        if !tools.iter().any(|tool| tool.name() == *name) {
            return bad(not_among_tools(name));
        }
    }
    let tools = tools.into_iter().filter(|tool| names.contains(&tool.name())).collect();
    Ok((choice, tools))
}

fn not_among_tools(name: &str) -> String {
    format!("tool_choice names {name:?}, which is not among the tools.")
}

/// The choice, if what it wants is on offer.
pub(crate) fn checked_choice(choice: ToolChoice, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    let bad = |message: String| Err(ApiError::bad("tool_choice", message));
    match &choice {
        ToolChoice::Named(name) if !tools.iter().any(|tool| tool.name() == name) => {
            bad(not_among_tools(name))
        }
        ToolChoice::Required if tools.is_empty() => {
            bad("tool_choice wants a call, but there are no tools.".to_owned())
        }
        _ => Ok(choice),
    }
}
