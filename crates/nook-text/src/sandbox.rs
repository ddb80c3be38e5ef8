//! Work on what strangers wrote, as a process of its own does it.
//!
//! A template comes from a publisher, a schema from a client. Both are programs in effect, and no
//! limit inside an interpreter holds for all of them: a schema's `multipleOf` costs work in
//! proportion to the number, and two nested lists are compared in a time that doubles with each
//! level. So both are run where they can be killed. Here is what that process is told
//! ([`Setup`], [`Question`]), what it does ([`Sandboxed`]) and what it says ([`Answer`]); the
//! process itself, its limits and its pipes are the node's.

use nook_base::Sensitive;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::grammar::{self, GrammarError, Grammars, ReplyShape, Words};
use crate::rendered::RenderedPrompt;
use crate::template::{ChatTemplate, RenderJob, Renderer, RendererSetup, TemplateError};

/// Stack that an answer may take, in bytes. Only what is used becomes memory.
pub const STACK_BYTES: usize = grammar::STACK_BYTES;

/// What a process is for, told once.
#[derive(Clone, Serialize, Deserialize)]
pub struct Setup(For);

#[derive(Clone, Serialize, Deserialize)]
enum For {
    Template(RendererSetup),
    Words(Words),
}

/// What is asked of it.
#[derive(Serialize, Deserialize)]
pub struct Question(Asked);

#[derive(Serialize, Deserialize)]
enum Asked {
    Render(RenderJob),
    Schema(Value),
    Grammar(String),
}

/// What it says.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A conversation became a prompt, or the template says why not.
    Rendered(Result<RenderedPrompt, TemplateError>),
    /// A reply can be held to this form, or why not.
    Compiled(Result<(), String>),
}

/// What a process is ready to do.
pub struct Sandboxed(Ready);

enum Ready {
    Template(Box<Renderer>),
    Words(Box<Grammars>),
}

impl Setup {
    /// To render with `template`.
    #[must_use]
    pub fn of_template(template: &ChatTemplate) -> Self {
        Self(For::Template(template.setup()))
    }

    /// To compile forms for a vocabulary.
    #[must_use]
    pub fn of_words(words: Words) -> Self {
        Self(For::Words(words))
    }
}

impl Question {
    /// To render a conversation.
    #[must_use]
    pub fn render(job: RenderJob) -> Self {
        Self(Asked::Render(job))
    }

    /// To compile a form and work out its first mask; none for the form that is our own.
    #[must_use]
    pub fn compile(shape: &ReplyShape) -> Option<Self> {
        match shape {
            ReplyShape::JsonObject => None,
            ReplyShape::JsonSchema(schema) => Some(Self(Asked::Schema(schema.0.clone()))),
            ReplyShape::Grammar(lark) => Some(Self(Asked::Grammar(lark.0.clone()))),
        }
    }
}

impl Answer {
    /// Whether it can be worked with: places that are not in a prompt would be a fault here.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        match self {
            Self::Rendered(Ok(prompt)) => prompt.is_sound(),
            Self::Rendered(Err(_)) | Self::Compiled(_) => true,
        }
    }
}

impl Sandboxed {
    /// Makes ready; none for what cannot be used at all.
    #[must_use]
    pub fn new(Setup(what): Setup) -> Option<Self> {
        let ready = match what {
            For::Template(setup) => Ready::Template(Box::new(Renderer::new(setup).ok()?)),
            For::Words(words) => Ready::Words(Box::new(Grammars::lay_out(&words).ok()?)),
        };
        Some(Self(ready))
    }

    /// Whether it compiles forms; else it renders.
    #[must_use]
    pub fn is_for_forms(&self) -> bool {
        matches!(self.0, Ready::Words(_))
    }

    /// Answers, in whatever time and memory that takes; none for a question to another setup.
    #[must_use]
    pub fn answer(&self, Question(asked): Question) -> Option<Answer> {
        match (&self.0, asked) {
            (Ready::Template(renderer), Asked::Render(job)) => {
                Some(Answer::Rendered(renderer.render(&job)))
            }
            (Ready::Words(grammars), Asked::Schema(schema)) => {
                Some(compiled(grammars, &ReplyShape::JsonSchema(Sensitive(schema))))
            }
            (Ready::Words(grammars), Asked::Grammar(lark)) => {
                Some(compiled(grammars, &ReplyShape::Grammar(Sensitive(lark))))
            }
            _ => None,
        }
    }
}

fn compiled(grammars: &Grammars, shape: &ReplyShape) -> Answer {
    let compiled = grammars.compile(shape).map(drop);
    Answer::Compiled(compiled.map_err(|error: GrammarError| error.to_string()))
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Conversations and schemas stay out of logs (invariant I-3).
        f.debug_struct("Question").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Sandboxed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandboxed").finish_non_exhaustive()
    }
}
