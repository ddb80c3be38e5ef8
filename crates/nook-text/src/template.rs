//! A chat as the model's publisher wants to read it.
//!
//! Owns the chat template of one model: a Jinja program from the model file, run here with limits
//! on its source, its steps and its output. [`ChatTemplate::render`] gives a [`RenderedPrompt`] for
//! [`crate::Tokenizer::encode_chat`]. Reference: Hugging Face transformers' chat template
//! environment (`trim_blocks`, `lstrip_blocks`, loop controls, Python's `json.dumps`).
//!
//! What a message says must not become structure. The messages are rendered a second time with
//! marks inside everything that could be read as a control token (`guard`), and the places of the
//! marks travel with the prompt; the tokenizer never takes a control token across one.

mod budget;
mod defaults;
mod engine;
mod generator;
mod guard;
mod json;
mod moment;
mod order;
mod renderer;
mod rewrite;

use nook_base::{Sensitive, Vocabulary};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::said::THOUGHT_MARKS;
use crate::tokenizer::kinds::Kinds;
use crate::tools::{Tool, ToolForm, ToolStyle, Turn, written};
use defaults::Form;
use guard::{MarkedChat, Structure};
use renderer::check_user_text;
pub(crate) use renderer::{Renderer, RendererSetup};

pub use budget::MADE_BYTES_MAX;
pub use engine::{FUEL, SOURCE_BYTES_MAX};
pub use moment::Moment;
pub use renderer::RenderJob;

pub use crate::rendered::RenderedPrompt;

/// Longest rendered prompt, in bytes; a longer one is an error.
pub const PROMPT_BYTES_MAX: usize = crate::tokenizer::TEXT_BYTES_MAX;

/// Why a chat cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum TemplateError {
    /// The template is longer than [`SOURCE_BYTES_MAX`].
    #[error("the model's chat template is too long: {bytes} bytes, at most {SOURCE_BYTES_MAX}")]
    SourceTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The template is not Jinja that we can read.
    #[error("the model's chat template cannot be read: {kind} in line {line} ({detail})")]
    Syntax {
        /// What is wrong.
        kind: String,
        /// Where.
        line: usize,
        /// More about it, in the interpreter's words.
        detail: String,
    },
    /// The template says that it cannot do this chat (`raise_exception`).
    #[error("the model's chat template refuses this chat: {}", sentence.0)]
    Refused {
        /// Its own words; they may quote the chat.
        #[serde(with = "renderer::plainly")]
        sentence: Sensitive<String>,
    },
    /// The template failed while it ran.
    #[error("the model's chat template failed: {kind} in line {line}")]
    Failed {
        /// What went wrong, without values of the chat.
        kind: String,
        /// Where.
        line: usize,
    },
    /// The template took more than [`FUEL`] steps.
    #[error("the model's chat template runs too long")]
    OutOfFuel,
    /// The rendering makes more text and lists on its way than [`MADE_BYTES_MAX`].
    #[error("the model's chat template makes too much: more than {MADE_BYTES_MAX} bytes")]
    MakesTooMuch,
    /// The prompt is longer than [`PROMPT_BYTES_MAX`].
    #[error("the prompt is too long: more than {PROMPT_BYTES_MAX} bytes")]
    PromptTooLong,
    /// The prompt lacks the last user message, so the answer would be to something else.
    #[error("the model's chat template left out the user's message")]
    UserTextLost,
    /// A role is not a plain word; templates write roles next to control tokens.
    #[error("a message's role must be 1 to 32 lower-case letters or underscores")]
    Role,
    /// The messages use all of Unicode's noncharacters that could serve as marks.
    #[error("the messages contain too many noncharacters")]
    NoMark,
}

impl TemplateError {
    /// The template's own words where it refused the chat; they may quote it.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Refused { sentence } => Some(&sentence.0),
            _ => None,
        }
    }
}

/// Who speaks: `system`, `user`, `assistant`, `tool`, or another plain word that a template knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role(String);

impl Role {
    /// A role by name: 1 to 32 lower-case letters or underscores.
    pub fn new(name: impl Into<String>) -> Result<Self, TemplateError> {
        let name = name.into();
        let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if plain && (1..=32).contains(&name.len()) {
            Ok(Self(name))
        } else {
            Err(TemplateError::Role)
        }
    }

    /// The instructions that stand before a chat.
    #[must_use]
    pub fn system() -> Self {
        Self("system".to_owned())
    }

    /// The person.
    #[must_use]
    pub fn user() -> Self {
        Self("user".to_owned())
    }

    /// The model.
    #[must_use]
    pub fn assistant() -> Self {
        Self("assistant".to_owned())
    }

    /// A tool that was called.
    #[must_use]
    pub fn tool() -> Self {
        Self("tool".to_owned())
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One message of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// What was said.
    pub content: Sensitive<String>,
}

impl ChatMessage {
    /// A message.
    #[must_use]
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: Sensitive(content.into()) }
    }
}

/// What to render besides the messages. An absent value means that the template does without.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RenderOptions {
    /// End with the opening of the assistant's turn.
    pub add_generation_prompt: bool,
    /// Today for templates that ask; without it `strftime_now` is not defined, and most templates
    /// fall back to a fixed date.
    pub now: Option<Moment>,
    /// Tools in OpenAI's form, an array.
    pub tools: Option<Value>,
}

/// The chat template of one model.
#[derive(Debug)]
pub struct ChatTemplate {
    renderer: Renderer,
    /// Set where the model file brings no template.
    form: Option<&'static Form>,
    tools: ToolStyle,
    thought_marks: Option<(&'static str, &'static str)>,
}

/// A rendering to look at, not to answer: see [`ChatTemplate::preview`].
#[derive(Clone, PartialEq, Eq)]
pub struct Preview {
    /// The text.
    pub text: String,
    /// Whether the last user message is missing from it.
    pub user_text_lost: bool,
}

impl ChatTemplate {
    /// The template in a model file. A file without one gets a default by the tokens of its
    /// vocabulary ([`Self::default_name`]): ChatML, Llama 3, Gemma, Phi-3 or Mistral where their
    /// markers are there, else a transcript of `User:` and `Assistant:` lines.
    pub fn for_vocabulary(vocabulary: &Vocabulary) -> Result<Self, TemplateError> {
        match &vocabulary.chat_template {
            Some(source) => Self::build(source, vocabulary, None),
            None => {
                let form = defaults::form(vocabulary);
                Self::build(form.source, vocabulary, Some(form))
            }
        }
    }

    /// What people call the default that is in use; `None` for a template from the model file.
    #[must_use]
    pub fn default_name(&self) -> Option<&'static str> {
        self.form.map(|form| form.name)
    }

    /// Strings at which a reply to this template ends, besides end-of-turn tokens.
    #[must_use]
    pub fn stop_strings(&self) -> &'static [&'static str] {
        self.form.map_or(&[], |form| form.stops)
    }

    /// Renders a chat. If the template refuses it, or leaves a system message out, it is asked again
    /// with the same words in orders that more templates take: leading system messages as one,
    /// later ones as words of the user, neighbours in one role joined, words behind a tool's result
    /// as its end, and last the system message before the user's first words.
    pub fn render(
        &self,
        messages: &[ChatMessage],
        options: RenderOptions,
    ) -> Result<RenderedPrompt, TemplateError> {
        self.renderer.render(&Self::job(messages, options, Map::new()))
    }

    /// The work of [`Self::render`], to be done elsewhere, with a template's own switches in
    /// `variables`.
    #[must_use]
    pub fn job(
        messages: &[ChatMessage],
        options: RenderOptions,
        variables: Map<String, Value>,
    ) -> RenderJob {
        let values = messages
            .iter()
            .map(|message| json!({"role": message.role.as_str(), "content": message.content.0}))
            .collect();
        RenderJob { messages: values, options, variables }
    }

    /// Renders a conversation with tools: as the template itself writes them, or in the default
    /// form of [`crate::tools`]. `options.tools` is not looked at. Asks again like [`Self::render`].
    pub fn render_turns(
        &self,
        turns: &[Turn],
        tools: &[Tool],
        options: RenderOptions,
        variables: &Map<String, Value>,
    ) -> Result<RenderedPrompt, TemplateError> {
        self.renderer.render(&self.job_of_turns(turns, tools, options, variables.clone()))
    }

    /// The work of [`Self::render_turns`], to be done elsewhere.
    #[must_use]
    pub fn job_of_turns(
        &self,
        turns: &[Turn],
        tools: &[Tool],
        options: RenderOptions,
        variables: Map<String, Value>,
    ) -> RenderJob {
        let (messages, tools) = written(turns, tools, self.tools);
        RenderJob { messages, options: RenderOptions { tools, ..options }, variables }
    }

    /// Does such work here. Only for templates that are ours ([`Self::default_name`]), and where
    /// nothing but this program waits for it: a publisher's template may take for ever.
    pub fn run(&self, job: &RenderJob) -> Result<RenderedPrompt, TemplateError> {
        self.renderer.render(job)
    }

    /// How replies to this template write calls of tools.
    #[must_use]
    pub fn tool_form(&self) -> ToolForm {
        self.tools.form
    }

    /// Whether replies to this template may begin with thinking between marks.
    #[must_use]
    pub fn thinks(&self) -> bool {
        self.thought_marks.is_some()
    }

    /// The marks around such thinking, where it may be.
    #[must_use]
    pub fn thought_marks(&self) -> Option<(&'static str, &'static str)> {
        self.thought_marks
    }

    /// Renders messages in the form of the OpenAI interface (`role`, `content`, `tool_calls`, …),
    /// with a template's own switches such as `enable_thinking` in `variables`. A refusal is final.
    pub fn render_values(
        &self,
        messages: &[Value],
        options: &RenderOptions,
        variables: &Map<String, Value>,
    ) -> Result<RenderedPrompt, TemplateError> {
        self.renderer.render_values(messages, options, variables)
    }

    /// What a process of its own needs to do the work of [`Self::run`].
    pub(crate) fn setup(&self) -> RendererSetup {
        self.renderer.setup()
    }

    /// What the template makes of messages, exactly as the publisher's environment would render
    /// them: control tokens in a message stay what they are, nothing is folded, and a lost user
    /// text is reported instead of refused. For looking inside; a prompt comes from
    /// [`Self::render`].
    pub fn preview(
        &self,
        messages: &[Value],
        options: &RenderOptions,
        variables: &Map<String, Value>,
    ) -> Result<Preview, TemplateError> {
        let chat = MarkedChat::unmarked(messages, options.tools.as_ref());
        let text = self.renderer.run(&chat, options, variables)?;
        let user_text_lost = check_user_text(messages, &text).is_err();
        Ok(Preview { text, user_text_lost })
    }

    fn build(
        source: &str,
        vocabulary: &Vocabulary,
        form: Option<&'static Form>,
    ) -> Result<Self, TemplateError> {
        let spelling = |id: Option<u32>| {
            id.and_then(|id| vocabulary.tokens.get(id as usize)).cloned().unwrap_or_default()
        };
        let structure = Structure::new(vocabulary, &Kinds::of(vocabulary));
        let setup = RendererSetup {
            source: source.to_owned(),
            spellings: structure.spellings,
            bos: spelling(vocabulary.bos),
            eos: spelling(vocabulary.eos),
        };
        Ok(Self {
            renderer: Renderer::new(setup)?,
            form,
            tools: ToolStyle::of(source),
            thought_marks: thought_marks(source, vocabulary),
        })
    }
}

impl std::fmt::Debug for Preview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // As for [`RenderedPrompt`].
        f.debug_struct("Preview").field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}

/// The template that is in use for a vocabulary: its own, or the one that it gets by default.
pub(crate) fn source_for(vocabulary: &Vocabulary) -> &str {
    let own = vocabulary.chat_template.as_deref();
    own.unwrap_or_else(|| defaults::form(vocabulary).source)
}

/// The marks of thinking that a template, or else its vocabulary, knows.
pub(crate) fn thought_marks(
    source: &str,
    vocabulary: &Vocabulary,
) -> Option<(&'static str, &'static str)> {
    let in_source = THOUGHT_MARKS.into_iter().find(|(_, end)| source.contains(end));
    let is_token = |mark: &str| vocabulary.tokens.iter().any(|token| token == mark);
    in_source.or_else(|| THOUGHT_MARKS.into_iter().find(|(mark, _)| is_token(mark)))
}
