//! Which tokens may come next when a reply must have a form: JSON, a schema, calls of tools.
//!
//! Owns the bridge to llguidance: [`Grammars`] holds a model's vocabulary as its trie of bytes and
//! makes a [`Constraint`] for each reply; the node asks it for a [`TokenMask`] before a token is
//! chosen and tells it which one was. Nothing here sees logits. Grammars come from clients, so
//! sizes and steps are limited (llguidance's own limits, and those here), and a fault inside
//! becomes an error. Some forms get past all of these; so each is tried in a process of its own
//! before it is compiled here ([`crate::sandbox`]). Reference: llguidance's documentation of JSON
//! schemas and of its Lark dialect.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, SimpleVob, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory, panic_utils};
use nook_base::Sensitive;
use nook_base::vocabulary::TokenKind;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::tokenizer::Tokenizer;
use number::{DigitTokens, Number};

mod number;
mod schema;

/// Largest schema or grammar, in bytes of its text; a larger one is refused.
pub const SCHEMA_BYTES_MAX: usize = 256 << 10;

/// Most objects, arrays and values in a schema; one with more is refused. Compiling takes a time
/// that grows with the square of the properties of one object.
pub const SCHEMA_NODES_MAX: usize = 2_000;

/// Deepest nesting of a schema, in levels of its JSON; a deeper one is refused.
pub const SCHEMA_DEPTH_MAX: usize = 64;

/// Stack of a thread that compiles a form. llguidance calls itself once for each level of a
/// schema and for each property of an object. Only what is used becomes memory.
pub(crate) const STACK_BYTES: usize = 256 << 20;

/// Longest token that a grammar may use, in bytes: the trie's depth is limited. Longer ones (runs
/// of white space) are never chosen under a grammar.
const TOKEN_BYTES_MAX: usize = 512;

/// Bytes of all tokens together, an upper bound for the trie's nodes.
const TRIE_BYTES_MAX: usize = 4 << 20;

/// Most states of the automaton that reads a reply; a reply that needs more cannot be held to its
/// form any longer. A state takes one to two kilobytes.
const LEXER_STATES_MAX: usize = 60_000;

/// Most characters of llguidance's own words in an error.
const DETAIL_CHARS_MAX: usize = 300;

/// Why no reply can be held to a form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// The form asked for is not one that can be kept to. The client is to blame.
    #[error("{detail}")]
    Unsupported {
        /// What is not supported, and where.
        detail: String,
    },
    /// The schema or grammar has more than [`SCHEMA_BYTES_MAX`].
    #[error("it has {bytes} bytes, at most {SCHEMA_BYTES_MAX} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The schema has more than [`SCHEMA_NODES_MAX`], or is deeper than [`SCHEMA_DEPTH_MAX`].
    #[error("it may have at most {SCHEMA_NODES_MAX} values in at most {SCHEMA_DEPTH_MAX} levels")]
    TooDeep,
    /// The vocabulary cannot be used with grammars. The model file is to blame.
    #[error("this model's vocabulary cannot be held to a form: {why}")]
    Vocabulary {
        /// What it lacks.
        why: &'static str,
    },
    /// Compiling it took more time or memory than one form may. The client is to blame.
    #[error(
        "it takes too much time or memory to enforce; use smaller numbers in multipleOf, shorter \
         repetitions and fewer alternatives, or leave a rule out and check it in your program"
    )]
    TakesTooMuch,
    /// The work for one token went over a limit, or the model's token was not one of those allowed.
    #[error("the reply could not be held to its form any longer")]
    Lost,
}

/// The form that a reply must have.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyShape {
    /// Any JSON object.
    JsonObject,
    /// JSON that a schema describes (draft 2020-12, as far as llguidance goes).
    JsonSchema(Sensitive<Value>),
    /// Calls of tools, or something else: written by [`crate::tools`].
    Grammar(Sensitive<String>),
}

impl ReplyShape {
    /// Refuses what is too large on its face, in a time that the limits bound. The rest is for a
    /// process that may be killed.
    pub fn check_size(&self) -> Result<(), GrammarError> {
        match self {
            Self::JsonObject => Ok(()),
            Self::JsonSchema(schema) => schema_nodes(schema).map(drop),
            Self::Grammar(lark) => check_size(lark.len()),
        }
    }
}

/// One model's vocabulary, ready for grammars.
pub struct Grammars {
    factory: ParserFactory,
    digits: Arc<DigitTokens>,
}

/// What holds one reply to its form.
pub struct Constraint {
    matcher: Matcher,
    trie: TokEnv,
    waits: Option<Waits>,
    digits: Arc<DigitTokens>,
    number: Number,
}

/// The form begins only behind this text.
struct Waits {
    until: Vec<u8>,
    seen: Vec<u8>,
}

/// The tokens that may come next.
#[derive(Clone)]
pub struct TokenMask(SimpleVob);

/// What may come next.
#[derive(Debug, Clone)]
pub enum Allowed {
    /// Any token: the form begins later.
    Anything,
    /// These tokens, end-of-turn tokens among them where the form may end.
    These(TokenMask),
    /// Nothing: the reply is complete.
    Nothing,
}

/// The words of a vocabulary as a grammar sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    /// Bytes of all words, one behind the other.
    bytes: Vec<u8>,
    /// How many each word has.
    lengths: Vec<u16>,
    /// Ids that end a turn; at least one.
    enders: Vec<u32>,
}

impl Words {
    /// The words of `tokenizer`.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self, GrammarError> {
        let enders = tokenizer.enders();
        if enders.is_empty() {
            return Err(GrammarError::Vocabulary { why: "no token ends a reply" });
        }
        let (mut bytes, mut lengths) = (Vec::new(), Vec::new());
        for id in (0..).take(tokenizer.vocabulary_len()) {
            let word = trie_bytes(tokenizer, id);
            // Words have at most TOKEN_BYTES_MAX bytes and a mark.
            lengths.push(u16::try_from(word.len()).unwrap_or_default());
            bytes.extend(word);
            if bytes.len() > TRIE_BYTES_MAX {
                return Err(GrammarError::Vocabulary { why: "it is too large" });
            }
        }
        Ok(Self { bytes, lengths, enders })
    }

    /// The words one by one; those that lengths out of step would give are empty.
    fn words(&self) -> Vec<Vec<u8>> {
        let mut at = 0;
        let word = |length: &u16| {
            let from = at;
            at += usize::from(*length);
            self.bytes.get(from..at).unwrap_or_default().to_owned()
        };
        self.lengths.iter().map(word).collect()
    }
}

impl Grammars {
    /// Lays out the vocabulary; takes a good part of a second for a large one.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, GrammarError> {
        Self::lay_out(&Words::of(tokenizer)?)
    }

    /// Lays out the words of a vocabulary.
    pub(crate) fn lay_out(words: &Words) -> Result<Self, GrammarError> {
        let broken = GrammarError::Vocabulary { why: "it is not one that llguidance can lay out" };
        let (spelt, enders) = (words.words(), &words.enders);
        let count = u32::try_from(spelt.len()).map_err(|_| broken.clone())?;
        let end = *enders.first().ok_or_else(|| broken.clone())?;
        let laid_out = panic_utils::catch_unwind(AssertUnwindSafe(|| {
            let trie = TokTrie::from(&TokRxInfo::new(count, end), &spelt).with_eos_tokens(enders);
            let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
            let mut factory = ParserFactory::new_simple(&env)?;
            factory.quiet();
            // Errors reach clients and logs: no text of a reply in them.
            factory.limits_mut().verbose_errors = false;
            factory.limits_mut().max_lexer_states = LEXER_STATES_MAX;
            Ok(factory)
        }));
        let factory = laid_out.map_err(|_| broken)?;
        let none = factory.tok_env().tok_trie().alloc_token_set();
        let digits = DigitTokens::of(&none, &spelt);
        Ok(Self { factory, digits: Arc::new(digits) })
    }

    /// What holds a reply to `shape`, from its first token or from behind the text `after`.
    pub fn constrain(
        &self,
        shape: &ReplyShape,
        after: Option<&str>,
    ) -> Result<Constraint, GrammarError> {
        let matcher = on_deep_stack(|| self.compile(shape))??;
        let waits = after.map(|until| Waits { until: until.into(), seen: Vec::new() });
        let (trie, digits) = (self.factory.tok_env().clone(), Arc::clone(&self.digits));
        Ok(Constraint { matcher, trie, waits, digits, number: Number::default() })
    }

    /// Compiles `shape` as far as its first mask, on this thread's stack.
    pub(crate) fn compile(&self, shape: &ReplyShape) -> Result<Matcher, GrammarError> {
        let grammar = match shape {
            ReplyShape::JsonObject => {
                TopLevelGrammar::from_json_schema(prepared(&json!({"type": "object"}))?)
            }
            ReplyShape::JsonSchema(schema) => TopLevelGrammar::from_json_schema(prepared(schema)?),
            ReplyShape::Grammar(lark) => {
                check_size(lark.len())?;
                TopLevelGrammar::from_lark(lark.0.clone())
            }
        };
        let made =
            panic_utils::catch_unwind(AssertUnwindSafe(|| self.factory.create_parser(grammar)));
        let mut matcher = Matcher::new(made);
        // A form that nothing fits shows at its first mask.
        let masked = matcher.compute_mask_or_eos().map(|_| matcher);
        masked.map_err(|error| unsupported(&error.to_string()))
    }
}

impl Constraint {
    /// What may come next. Takes up to some milliseconds: not for the runtime's own threads.
    pub fn allowed(&mut self) -> Result<Allowed, GrammarError> {
        if self.waits.is_some() {
            return Ok(Allowed::Anything);
        }
        if self.matcher.is_error() {
            return Err(GrammarError::Lost);
        }
        if self.matcher.is_stopped() {
            return Ok(Allowed::Nothing);
        }
        let mask = self.matcher.compute_mask().map_err(|_| GrammarError::Lost)?;
        if mask.is_zero() {
            return Ok(Allowed::Nothing);
        }
        let mask = self.number.shortened(mask, &self.digits);
        Ok(Allowed::These(TokenMask(mask)))
    }

    /// Whether the form is complete and nothing may come behind it.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.waits.is_none() && !self.matcher.is_error() && self.matcher.is_stopped()
    }

    /// The reply goes on with token `id`.
    pub fn accept(&mut self, id: u32) -> Result<(), GrammarError> {
        match &mut self.waits {
            Some(waits) => {
                if waits.end_with(self.trie.tok_trie().token(id)) {
                    self.waits = None;
                }
                Ok(())
            }
            None => {
                self.number.go_on(self.trie.tok_trie().token(id));
                self.matcher.consume_token(id).map_err(|_| GrammarError::Lost)
            }
        }
    }
}

impl Waits {
    /// Whether the awaited text is complete with these bytes. What a token brings behind it counts
    /// as part of the text before the form.
    fn end_with(&mut self, bytes: &[u8]) -> bool {
        let spelt = bytes.strip_prefix(&[TokTrie::SPECIAL_TOKEN_MARKER]).unwrap_or(bytes);
        self.seen.extend_from_slice(spelt);
        let found = self.seen.windows(self.until.len()).any(|window| window == self.until);
        let spare = self.seen.len().saturating_sub(self.until.len());
        self.seen.drain(..spare);
        found
    }
}

impl TokenMask {
    /// Whether token `id` may come; never for an id outside the vocabulary.
    #[must_use]
    pub fn allows(&self, id: u32) -> bool {
        (id as usize) < self.0.len() && self.0.is_allowed(id)
    }
}

impl std::fmt::Debug for Grammars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammars").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // It has seen the reply (invariant I-3).
        f.debug_struct("Constraint").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TokenMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenMask").field("tokens", &self.0.num_set()).finish()
    }
}

/// What a token is in the trie: its bytes, or its spelling behind the mark of special tokens.
fn trie_bytes(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let spelling = tokenizer.decode_bytes_with_control(id);
    if spelling.len() > TOKEN_BYTES_MAX {
        return Vec::new();
    }
    match tokenizer.kind(id) {
        TokenKind::Control | TokenKind::Unknown if !spelling.is_empty() => {
            [&[TokTrie::SPECIAL_TOKEN_MARKER], spelling].concat()
        }
        _ => spelling.to_owned(),
    }
}

/// The part of the schema that is enforced, with our own rules for white space: none but a space
/// behind `,` and `:`, so that no reply fills up with it.
pub(crate) fn prepared(schema: &Value) -> Result<Value, GrammarError> {
    let Some(fields) = schema.as_object() else {
        return Err(unsupported("a schema must be a JSON object"));
    };
    let nodes = schema_nodes(schema)?;
    let mut prepared = Map::new();
    let spaces = json!({
        "whitespace_flexible": false,
        "item_separator": ", ?",
        "key_separator": ": ?",
        "lenient": true,
    });
    prepared.insert("x-guidance".to_owned(), spaces);
    let spare = SCHEMA_NODES_MAX.saturating_sub(nodes);
    let rest = schema::enforced(fields, spare).into_iter().filter(|(key, _)| *key != "x-guidance");
    prepared.extend(rest);
    Ok(prepared.into())
}

/// Objects, arrays and values of a schema that is within the limits.
fn schema_nodes(schema: &Value) -> Result<usize, GrammarError> {
    let mut nodes = 0;
    // First, so that no text is made of a schema with too many.
    if !is_within(schema, 0, &mut nodes) {
        return Err(GrammarError::TooDeep);
    }
    check_size(schema.to_string().len())?;
    Ok(nodes)
}

/// Whether a schema is within the limits of nesting and number. It calls itself no deeper than they
/// allow.
fn is_within(schema: &Value, depth: usize, nodes: &mut usize) -> bool {
    *nodes += 1;
    if depth > SCHEMA_DEPTH_MAX || *nodes > SCHEMA_NODES_MAX {
        return false;
    }
    match schema {
        Value::Array(items) => items.iter().all(|item| is_within(item, depth + 1, nodes)),
        Value::Object(fields) => fields.values().all(|field| is_within(field, depth + 1, nodes)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Runs `work` where its calls may nest. A fault in it is the form's, which is then refused.
fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, GrammarError> {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("grammar".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|_| unsupported("there is no thread to compile it"))?
            .join()
            .map_err(|_| unsupported("it cannot be compiled"))
    })
}

fn check_size(bytes: usize) -> Result<(), GrammarError> {
    if bytes > SCHEMA_BYTES_MAX { Err(GrammarError::TooLarge { bytes }) } else { Ok(()) }
}

fn unsupported(words: &str) -> GrammarError {
    let lines: Vec<&str> =
        words.lines().map(str::trim).take_while(|line| !line.starts_with('<')).collect();
    let detail: String = lines.join(" ").chars().take(DETAIL_CHARS_MAX).collect();
    let detail =
        if detail.is_empty() { "the schema cannot be compiled".to_owned() } else { detail };
    GrammarError::Unsupported { detail }
}
