//! The work of rendering, apart from the vocabulary that a template came with.
//!
//! A publisher's template is a program that nobody has read. What it takes is limited from outside
//! by running it in a process of its own ([`crate::sandbox`]): a [`RendererSetup`] says there what
//! the template is, a [`RenderJob`] what to render.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::engine::Engine;
use super::guard::{self, Guarding, MarkedChat, Structure};
use super::order::{self, Order};
use super::{RenderOptions, RenderedPrompt, Role, TemplateError};

/// A conversation that is to become a prompt.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct RenderJob {
    /// Messages in the form of the OpenAI interface.
    pub(crate) messages: Vec<Value>,
    /// What else a template is told.
    pub(crate) options: RenderOptions,
    /// The template's own switches.
    pub(crate) variables: Map<String, Value>,
}

impl std::fmt::Debug for RenderJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A conversation stays out of logs (invariant I-3).
        f.debug_struct("RenderJob").field("messages", &self.messages.len()).finish_non_exhaustive()
    }
}

/// What there is to know of a template before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RendererSetup {
    /// The template.
    pub(crate) source: String,
    /// The spellings that only it may write.
    pub(crate) spellings: Vec<String>,
    pub(crate) bos: String,
    pub(crate) eos: String,
}

/// A template that is ready to run.
#[derive(Debug)]
pub(crate) struct Renderer {
    setup: RendererSetup,
    engine: Engine,
    structure: Structure,
}

impl Renderer {
    pub(crate) fn new(setup: RendererSetup) -> Result<Self, TemplateError> {
        let engine = Engine::new(&setup.source)?;
        let structure = Structure::of(setup.spellings.clone());
        Ok(Self { setup, engine, structure })
    }

    pub(super) fn setup(&self) -> RendererSetup {
        self.setup.clone()
    }

    /// Renders. A template that refuses the order of the messages, or leaves out a system message,
    /// is asked again with other orders of the same words, a few times. Where each order loses
    /// something, the first one that was taken counts.
    pub(crate) fn render(&self, job: &RenderJob) -> Result<RenderedPrompt, TemplateError> {
        let sent = self.render_order(&job.messages, job);
        if is_final(&sent, &job.messages) {
            return sent;
        }
        let mut best = sent;
        for Order { messages, folded_system } in order::rearranged(&job.messages) {
            let outcome = self.render_order(&messages, job);
            let outcome = outcome.map(|prompt| RenderedPrompt { folded_system, ..prompt });
            if best.is_err() || (outcome.is_ok() && is_final(&outcome, &job.messages)) {
                best = outcome;
            }
            if is_final(&best, &job.messages) {
                break;
            }
        }
        best
    }

    /// Renders the messages of a job in some order.
    fn render_order(
        &self,
        messages: &[Value],
        job: &RenderJob,
    ) -> Result<RenderedPrompt, TemplateError> {
        let RenderJob { options, variables, .. } = job;
        match self.render_values(messages, options, variables) {
            // Templates for tools run over `tools` without asking whether there are any. Python
            // refuses that, and a chat without tools would never work.
            Err(TemplateError::Failed { .. }) if options.tools.is_none() => {
                let options = RenderOptions { tools: Some(json!([])), ..options.clone() };
                self.render_values(messages, &options, variables)
            }
            outcome => outcome,
        }
    }

    /// Renders the messages in the order that they have.
    pub(super) fn render_values(
        &self,
        messages: &[Value],
        options: &RenderOptions,
        variables: &Map<String, Value>,
    ) -> Result<RenderedPrompt, TemplateError> {
        check_roles(messages)?;
        let tools = options.tools.as_ref();
        let mark = guard::free_mark(messages, tools).ok_or(TemplateError::NoMark)?;
        let run = |chat: &MarkedChat| self.run(chat, options, variables);
        let text = run(&MarkedChat::unmarked(messages, tools))?;
        check_user_text(messages, &text)?;
        let whole = RenderedPrompt { text, guards: Vec::new(), folded_system: false };
        for guarding in [Guarding::Thorough, Guarding::ThoroughButTags, Guarding::Precise] {
            let chat = MarkedChat::new(messages, tools, &self.structure, guarding, mark);
            if !chat.marked {
                return Ok(whole);
            }
            let outcome = run(&chat).map(|marked| guard::take_marks(&marked, mark));
            match (outcome, guarding) {
                (Ok((text, guards)), _) if text == whole.text => {
                    return Ok(RenderedPrompt { guards, ..whole });
                }
                // The template looks into the text for control tokens: then its answer to the
                // broken ones counts.
                (Ok((text, guards)), Guarding::Precise) => {
                    return Ok(RenderedPrompt { text, guards, ..whole });
                }
                (Err(error), Guarding::Precise) => return Err(error),
                _ => {}
            }
        }
        Ok(whole)
    }

    pub(super) fn run(
        &self,
        chat: &MarkedChat,
        options: &RenderOptions,
        variables: &Map<String, Value>,
    ) -> Result<String, TemplateError> {
        let mut values = variables.clone();
        values.insert("messages".to_owned(), chat.messages.clone());
        values.insert("tools".to_owned(), chat.tools.clone().unwrap_or(Value::Null));
        values.insert("documents".to_owned(), Value::Null);
        values.insert("add_generation_prompt".to_owned(), options.add_generation_prompt.into());
        values.insert("bos_token".to_owned(), self.setup.bos.as_str().into());
        values.insert("eos_token".to_owned(), self.setup.eos.as_str().into());
        self.engine.run(&values, options.now)
    }
}

/// Whether no other order of `messages` is to be tried.
fn is_final(outcome: &Result<RenderedPrompt, TemplateError>, messages: &[Value]) -> bool {
    match outcome {
        Ok(prompt) => keeps_system(messages, &prompt.text),
        Err(error) => !matches!(error, TemplateError::Refused { .. }),
    }
}

/// So many words of a system message are looked for one by one.
const WORDS_MAX: usize = 64;

/// Whether the prompt has all system messages. Some templates know one at most, and leave the
/// others out without a word. Switches such as `/no_think` may be missing: templates take them out.
fn keeps_system(messages: &[Value], prompt: &str) -> bool {
    let system = messages.iter().filter(|message| message["role"] == "system");
    let mut texts = system.filter_map(|message| message["content"].as_str());
    texts.all(|text| {
        let words = text.split_whitespace().filter(|word| !word.starts_with('/'));
        let has = |text: &str| prompt.contains(text);
        has(text.trim()) || words.take(WORDS_MAX).all(has)
    })
}

fn check_roles(messages: &[Value]) -> Result<(), TemplateError> {
    for message in messages {
        Role::new(message["role"].as_str().ok_or(TemplateError::Role)?)?;
    }
    Ok(())
}

/// A partial Jinja once gave well-formed prompts without any user message; this would notice.
pub(super) fn check_user_text(messages: &[Value], prompt: &str) -> Result<(), TemplateError> {
    let Some(last) = messages.iter().rev().find(|message| message["role"] == "user") else {
        return Ok(());
    };
    let part_text = |part: &Value| part["text"].as_str().map(str::to_owned);
    let texts = match &last["content"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => parts.iter().filter_map(part_text).collect(),
        _ => Vec::new(),
    };
    let present = texts.iter().all(|text| prompt.contains(text.trim()));
    if present { Ok(()) } else { Err(TemplateError::UserTextLost) }
}

/// A private text as it is: from one process of this program to another, over a pipe.
pub(super) mod plainly {
    use nook_base::Sensitive;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::template) fn serialize<S: Serializer>(
        text: &Sensitive<String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text.0)
    }

    pub(in crate::template) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Sensitive<String>, D::Error> {
        String::deserialize(deserializer).map(Sensitive)
    }
}
