//! The Jinja interpreter, fenced in.
//!
//! Owns the compiled template and everything that it may call. It has no loader, no file and no
//! network access; its source, steps, output and all that it makes on the way are limited by
//! [`SOURCE_BYTES_MAX`], [`FUEL`], [`super::PROMPT_BYTES_MAX`] and [`super::MADE_BYTES_MAX`]
//! (`rewrite` puts the guards into the source, `budget` is the guards).

use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};
use nook_base::Sensitive;
use serde_json::Map;
use time::{OffsetDateTime, UtcOffset, format_description};

use super::budget::{self, Overspent};
use super::generator::Generator;
use super::json::Dumps;
use super::rewrite;
use super::{Moment, PROMPT_BYTES_MAX, TemplateError};

/// Longest template source, in bytes; a longer one is refused. The longest in our fixtures has 17
/// KB.
pub const SOURCE_BYTES_MAX: usize = 256 << 10;

/// Steps that one rendering may take; past that it is an error. A chat of 1,000 messages needs up
/// to 4,000,000 with the templates of our fixtures.
pub const FUEL: u64 = 10_000_000;

/// Stack of a rendering: [`budget::NESTINGS_MAX`] times what freeing or writing one level takes in
/// an unoptimised build. Only what is used becomes memory.
const STACK_BYTES: usize = 64 << 20;

const NAME: &str = "chat";

/// One compiled template.
#[derive(Debug)]
pub(super) struct Engine {
    environment: Environment<'static>,
}

impl Engine {
    /// Compiles `source`.
    pub(super) fn new(source: &str) -> Result<Self, TemplateError> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(TemplateError::SourceTooLong { bytes: source.len() });
        }
        let syntax_error = |error: Error| TemplateError::Syntax {
            kind: error.kind().to_string(),
            line: error.line().unwrap_or(0),
            detail: error.detail().unwrap_or_default().chars().take(120).collect(),
        };
        let syntax = syntax();
        let source =
            rewrite::fenced(&without_training_marks(source), &syntax).map_err(syntax_error)?;
        let mut environment = environment(syntax);
        environment.add_template_owned(NAME, source).map_err(syntax_error)?;
        Ok(Self { environment })
    }

    /// Runs the template over `values`.
    pub(super) fn run(
        &self,
        values: &Map<String, serde_json::Value>,
        now: Option<Moment>,
    ) -> Result<String, TemplateError> {
        let mut globals: Vec<(Value, Value)> = values
            .iter()
            .map(|(name, value)| (Value::from(name.as_str()), jinja_value(value)))
            .collect();
        if let Some(now) = now {
            let strftime = move |format: &str| strftime(now, format);
            globals.push((Value::from("strftime_now"), Value::from_function(strftime)));
        }
        let template = self.environment.get_template(NAME).map_err(explain)?;
        let mut out = Bounded(Vec::new());
        let globals = Value::from_pairs(globals);
        let run = || template.render_captured_to(globals, &mut out).map(drop);
        on_deep_stack(run)?.map_err(explain)?;
        Ok(String::from_utf8(out.0).expect("minijinja writes only whole strings"))
    }
}

/// Runs `work` on a thread whose stack is deep enough for all values that a template may nest.
///
/// A panic of the interpreter takes down no more than this rendering, because the template is not
/// ours; after it nothing that it touched is used again.
fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, TemplateError> {
    let failed = |kind: &str| TemplateError::Failed { kind: kind.to_owned(), line: 0 };
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("template".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|_| failed("no thread"))?
            .join()
            .map_err(|_| failed("a fault in the interpreter"))
    })
}

fn syntax() -> SyntaxConfig {
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    syntax.build().expect("the delimiters are Jinja's own")
}

fn environment(syntax: SyntaxConfig) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax);
    environment.set_debug(false);
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    budget::guard(&mut environment);
    environment.add_function("raise_exception", raise_exception);
    environment.add_filter("tojson", tojson);
    environment.add_test("iterable", is_iterable);
    environment
}

/// Replaces `{% generation %}`, which marks replies for training and renders nothing by itself, by
/// a block that does the same and keeps the white space control of its tags.
fn without_training_marks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else {
            break;
        };
        let (tag, after) = (&rest[start..start + length], &rest[start + length..]);
        let word = tag["{%".len()..].trim_matches(|c: char| c.is_whitespace() || "+-".contains(c));
        out.push_str(&rest[..start]);
        match word {
            "generation" | "endgeneration" => out.push_str(&tag.replace("generation", "with")),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out + rest
}

/// Python's idea of what can be iterated over: text can, `none` cannot.
fn is_iterable(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable
    )
}

/// The template's own refusal, kept apart from our errors.
#[derive(Debug, thiserror::Error)]
#[error("the template raised an exception")]
struct Raised(Sensitive<String>);

fn raise_exception(sentence: String) -> Result<Value, Error> {
    Err(Error::from(ErrorKind::InvalidOperation).with_source(Raised(Sensitive(sentence))))
}

fn tojson(state: &mut State, value: Value, options: Kwargs) -> Result<Value, Error> {
    if Generator::is(&value) {
        return Err(Error::new(ErrorKind::BadSerialization, "a generator is not JSON"));
    }
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let separators = match separators.as_deref() {
        Some([items, keys]) => (items.clone(), keys.clone()),
        _ if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        _ => (", ".to_owned(), ": ".to_owned()),
    };
    let dumps = Dumps {
        indent: indent.map(|indent| indent.min(16)),
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        ensure_ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        separators,
    };
    options.assert_all_used()?;
    let text = dumps.write(&value, budget::left(state))?;
    budget::spend(state, text.len())?;
    Ok(Value::from_safe_string(text))
}

fn strftime(now: Moment, format: &str) -> Result<String, Error> {
    budget::check_date_format(format)?;
    let wrong = |_| Error::new(ErrorKind::InvalidOperation, "a date format that is not known");
    let broken = || Error::new(ErrorKind::InvalidOperation, "a moment outside the calendar");
    let description = format_description::parse_strftime_owned(format).map_err(wrong)?;
    let offset = UtcOffset::from_whole_seconds(now.utc_offset_seconds).map_err(|_| broken())?;
    let moment = OffsetDateTime::from_unix_timestamp(now.unix_seconds)
        .ok()
        .and_then(|moment| moment.checked_to_offset(offset))
        .ok_or_else(broken)?;
    moment.format(&description).map_err(|_| broken())
}

fn jinja_value(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(yes) => Value::from(*yes),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Value::from(integer),
            (None, Some(integer)) => Value::from(integer),
            (None, None) => Value::from(number.as_f64()),
        },
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => items.iter().map(jinja_value).collect(),
        serde_json::Value::Object(fields) => Value::from_pairs(
            fields.iter().map(|(key, field)| (Value::from(key.as_str()), jinja_value(field))),
        ),
    }
}

fn explain(error: Error) -> TemplateError {
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(Raised(sentence)) = cause.downcast_ref() {
            return TemplateError::Refused { sentence: sentence.clone() };
        }
        if cause.is::<Full>() {
            return TemplateError::PromptTooLong;
        }
        if cause.is::<Overspent>() {
            return TemplateError::MakesTooMuch;
        }
        source = cause.source();
    }
    match error.kind() {
        ErrorKind::OutOfFuel => TemplateError::OutOfFuel,
        ErrorKind::WriteFailure => TemplateError::PromptTooLong,
        // Only the kind: details may quote the chat.
        kind => TemplateError::Failed { kind: kind.to_string(), line: error.line().unwrap_or(0) },
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the prompt is full")]
struct Full;

/// Output up to [`PROMPT_BYTES_MAX`].
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len().saturating_add(bytes.len()) > PROMPT_BYTES_MAX {
            return Err(io::Error::other(Full));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
