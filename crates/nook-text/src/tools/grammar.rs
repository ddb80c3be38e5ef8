//! The grammar of a reply that must call a tool, in llguidance's dialect of Lark.

use std::fmt::Write as _;

use nook_base::Sensitive;
use serde_json::{Value, json};

use super::{Tool, ToolChoice, ToolForm};
use crate::grammar::{GrammarError, ReplyShape, prepared};
use crate::tokenizer::Tokenizer;

/// Most calls that a grammar allows in one reply.
const CALLS_FORCED_MAX: usize = 16;

/// Which calls a reply must make.
#[derive(Debug, Clone, Copy)]
pub struct CallRule<'a> {
    /// How calls are written.
    pub form: ToolForm,
    /// Everything on offer.
    pub tools: &'a [Tool],
    /// What must be called.
    pub choice: &'a ToolChoice,
    /// Whether more than one call may be made.
    pub parallel: bool,
    /// The form of a reply that calls nothing, where calling is free but other replies have a form.
    pub or_else: Option<&'a ReplyShape>,
}

impl CallRule<'_> {
    /// The form of the reply; `None` when anything may be said.
    pub fn shape(&self, tokenizer: &Tokenizer) -> Result<Option<ReplyShape>, GrammarError> {
        let callable: Vec<&Tool> = match self.choice {
            ToolChoice::Named(name) => {
                self.tools.iter().filter(|tool| tool.name == *name).collect()
            }
            ToolChoice::None => Vec::new(),
            ToolChoice::Auto | ToolChoice::Required => self.tools.iter().collect(),
        };
        if callable.is_empty() || (*self.choice == ToolChoice::Auto && self.or_else.is_none()) {
            return Ok(self.or_else.cloned());
        }
        let many = self.parallel && !matches!(self.choice, ToolChoice::Named(_));
        let mut lark = String::new();
        let reply = match (self.choice, self.or_else) {
            (ToolChoice::Auto, Some(shape)) => format!(" | {}", other(shape, &mut lark)?),
            _ => String::new(),
        };
        let calls = self.calls(tokenizer, many);
        let _ = writeln!(lark, "start: calls{reply}\ncalls: {calls}");
        let names: Vec<String> = (0..callable.len()).map(|at| format!("call_{at}")).collect();
        let _ = writeln!(lark, "call: {}", names.join(" | "));
        for (at, tool) in callable.iter().enumerate() {
            let (open, close) = self.around(tool, tokenizer);
            let arguments = prepared(&arguments(&tool.parameters))?;
            let _ = writeln!(lark, "call_{at}: {open} arguments_{at} {close}");
            let _ = writeln!(lark, "arguments_{at}: %json {arguments}");
        }
        Ok(Some(ReplyShape::Grammar(Sensitive(lark))))
    }

    /// The calls of a reply, one or many.
    fn calls(&self, tokenizer: &Tokenizer, many: bool) -> String {
        let more = CALLS_FORCED_MAX - 1;
        match (self.form, many) {
            (ToolForm::Hermes, true) => format!("call (\"\\n\" call){{0,{more}}}"),
            (ToolForm::MistralNamed, true) => format!("call{{1,{CALLS_FORCED_MAX}}}"),
            (ToolForm::Mistral, _) => {
                let mark = mark(tokenizer, "[TOOL_CALLS]");
                let rest = if many { format!(" (\", \" call){{0,{more}}}") } else { String::new() };
                format!("{mark} \"[\" call{rest} \"]\"")
            }
            (ToolForm::Functions | ToolForm::Keys, true) => {
                format!("call (\"\\n\" call){{0,{more}}}")
            }
            (ToolForm::Gemma, true) => format!("call{{1,{CALLS_FORCED_MAX}}}"),
            // Llama 3 and gpt-oss make one call in a reply.
            _ => "call".to_owned(),
        }
    }

    /// What stands before and behind the arguments of a call of `tool`.
    fn around(&self, tool: &Tool, tokenizer: &Tokenizer) -> (String, String) {
        let name = &tool.name;
        let object = |key: &str, before: &str| {
            literal(&format!("{before}{{\"name\": \"{name}\", \"{key}\": "))
        };
        match self.form {
            // JSON can be held to a schema while it is written; the reader understands both.
            ToolForm::Hermes | ToolForm::Functions | ToolForm::Keys => {
                let open = mark(tokenizer, "<tool_call>");
                let close = mark(tokenizer, "</tool_call>");
                (format!("{open} {}", object("arguments", "\n")), format!("\"}}\\n\" {close}"))
            }
            ToolForm::Llama => (object("parameters", ""), "\"}\"".to_owned()),
            ToolForm::Gemma => {
                let begin = mark(tokenizer, "<|tool_call>");
                let open = format!("{begin} {}", literal(&format!("call:{name}")));
                (open, mark(tokenizer, "<tool_call|>"))
            }
            ToolForm::Python => {
                let begin = mark(tokenizer, "<|tool_call_start|>");
                let close = mark(tokenizer, "<|tool_call_end|>");
                (format!("{begin} {}", object("arguments", "[")), format!("\"}}]\" {close}"))
            }
            ToolForm::Harmony => {
                let [channel, constrain, message] = ["<|channel|>", "<|constrain|>", "<|message|>"]
                    .map(|spelling| mark(tokenizer, spelling));
                let to = literal(&format!("commentary to=functions.{name} "));
                let open = format!("{channel} {to} {constrain} \"json\" {message}");
                (open, String::new())
            }
            ToolForm::Mistral => (object("arguments", ""), "\"}\"".to_owned()),
            ToolForm::MistralNamed => {
                let (begin, args) = (mark(tokenizer, "[TOOL_CALLS]"), mark(tokenizer, "[ARGS]"));
                (format!("{begin} {} {args}", literal(name)), String::new())
            }
        }
    }
}

/// A mark as the vocabulary has it: a control token by its id, else its letters.
fn mark(tokenizer: &Tokenizer, spelling: &str) -> String {
    match tokenizer.control_tokens(&[spelling]).first() {
        Some(id) => format!("<[{id}]>"),
        None => literal(spelling),
    }
}

/// A string of Lark, whose escapes are those of JSON.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

/// The rule for a reply without calls; what it needs goes to `lark`.
fn other(shape: &ReplyShape, lark: &mut String) -> Result<&'static str, GrammarError> {
    let schema = match shape {
        ReplyShape::JsonObject => prepared(&json!({"type": "object"}))?,
        ReplyShape::JsonSchema(schema) => prepared(schema)?,
        ReplyShape::Grammar(_) => {
            let detail = "a grammar cannot be joined with tools".to_owned();
            return Err(GrammarError::Unsupported { detail });
        }
    };
    let _ = writeln!(lark, "other: %json {schema}");
    Ok("other")
}

/// The schema of the arguments as they are forced: an object, and only with the properties that are
/// described, where the tool does not speak of others. Such arguments fit the tool's own schema
/// too.
fn arguments(parameters: &Value) -> Value {
    let mut schema = parameters.clone();
    let Some(fields) = schema.as_object_mut() else { return schema };
    let combines = ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|key| fields.contains_key(*key));
    if combines {
        return schema;
    }
    if !fields.contains_key("type") {
        fields.insert("type".to_owned(), "object".into());
    }
    let speaks = ["additionalProperties", "patternProperties"];
    if !speaks.iter().any(|key| fields.contains_key(*key)) {
        fields.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}
