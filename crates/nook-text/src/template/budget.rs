//! How much text one rendering may make, and the guards that count it.
//!
//! A step of the interpreter is cheap, what it makes may not be: twenty-eight doublings turn one
//! letter into 256 MB. So whatever makes text or lists is counted here before it does, against
//! [`MADE_BYTES_MAX`]: the operators through the filters that `rewrite` puts into the source, what is
//! written (also into a variable) through the formatter, filters and methods through wrappers that
//! know how large their result may become.
//!
//! A template may add to one text a thousand times, so long texts count only while they live:
//! [`Made`] knows them by weak references, and looks which are left when the count is full. All
//! else counts once and for ever. What steps alone can make is bounded by the fuel.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Weak};

use minijinja::value::{Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value, filters, functions};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::generator::Generator;
use super::rewrite::{EACH, FACTOR, ITEM, MADE, PART, SLICE, TEXT, TIMES};

/// Most bytes that one rendering may have made, counted as above; past that it is an error. Four
/// times the longest prompt: templates trim, join and collect what they write. While the
/// interpreter joins two texts it holds up to three times the result, so memory stays below 256 MB.
pub const MADE_BYTES_MAX: usize = 64 << 20;

/// A text of at least this many bytes counts only while it lives.
const LONG_BYTES: usize = 4 << 10;

/// Most times that one rendering may put a list or map into another, or take a slice of one; past
/// that it is an error. It bounds how deeply values nest, because they are freed and written out by
/// recursion. A chat of 1,000 messages with tools needs a few thousand.
pub(super) const NESTINGS_MAX: usize = 20_000;

/// Bytes of a list's entry.
const ENTRY_BYTES: usize = 32;

/// Longest format of a date, in bytes; a longer one is an error.
const DATE_FORMAT_BYTES_MAX: usize = 256;

/// Widest field of a `%` or `{}` format; a wider one is an error.
const FIELD_WIDTH_DIGITS_MAX: usize = 3;

/// The rendering makes more than [`MADE_BYTES_MAX`].
#[derive(Debug, thiserror::Error)]
#[error("the rendering makes too much text")]
pub(super) struct Overspent;

/// What one rendering has made so far.
#[derive(Debug, Default)]
struct Made {
    /// Counted for ever, or until [`Made::keep`] takes it back.
    bytes: usize,
    /// Long texts that may be alive; their memory stays until they are dropped from here.
    long: Vec<Weak<str>>,
    /// Bytes of those.
    long_bytes: usize,
    nestings: usize,
    /// Left sides of products whose right sides are not known yet.
    factors: Vec<Factor>,
}

#[derive(Debug, Clone, Copy)]
struct Factor {
    /// Bytes, of a text or list.
    bytes: usize,
    /// The number, of a number.
    times: usize,
}

impl Made {
    fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.left() > 0 {
            return Ok(());
        }
        self.long.retain(|text| text.strong_count() > 0);
        self.long.sort_unstable_by_key(|text| text.as_ptr().addr());
        self.long.dedup_by(|a, b| a.ptr_eq(b));
        let long = self.long.iter().filter_map(Weak::upgrade).map(|text| text.len());
        self.long_bytes = long.sum();
        if self.left() > 0 { Ok(()) } else { Err(overspent()) }
    }

    fn left(&self) -> usize {
        MADE_BYTES_MAX.saturating_sub(self.bytes.saturating_add(self.long_bytes))
    }

    /// Knows `value`, if it is a long text, as one that was counted before it was made.
    fn keep(&mut self, value: &Value) {
        let Some(text) = value.to_str().filter(|text| text.len() >= LONG_BYTES) else {
            return;
        };
        self.bytes = self.bytes.saturating_sub(text.len());
        self.long_bytes = self.long_bytes.saturating_add(text.len());
        self.long.push(Arc::downgrade(&text));
    }
}

fn made<'s>(state: &'s mut State<'_, '_>) -> &'s mut Made {
    state.get_or_insert_extension_with(Made::default)
}

/// Counts `bytes`; fails when that is too much.
pub(super) fn spend(state: &mut State, bytes: usize) -> Result<(), Error> {
    made(state).spend(bytes)
}

/// Counts that a list or map is put into another.
fn nest(state: &mut State) -> Result<(), Error> {
    let made = made(state);
    made.nestings += 1;
    if made.nestings > NESTINGS_MAX { Err(overspent()) } else { Ok(()) }
}

/// Bytes that may still be made.
pub(super) fn left(state: &mut State) -> usize {
    // Long texts that are gone make room.
    let made = made(state);
    match made.spend(0) {
        Ok(()) => made.left(),
        Err(_) => 0,
    }
}

/// The error of a rendering that makes too much.
pub(super) fn overspent() -> Error {
    Error::from(ErrorKind::InvalidOperation).with_source(Overspent)
}

/// Puts the guards into an environment.
pub(super) fn guard(environment: &mut Environment<'_>) {
    environment.set_formatter(write);
    environment.set_unknown_method_callback(method);
    environment.add_filter(TEXT, |state: &mut State, value: Value| {
        let bytes = bytes_of(state, &value)?;
        spend(state, bytes).map(|()| value)
    });
    environment.add_filter(PART, part);
    environment.add_filter(MADE, |state: &mut State, value: Value| {
        made(state).keep(&value);
        value
    });
    environment.add_filter(ITEM, item);
    environment.add_filter(FACTOR, factor);
    environment.add_filter(TIMES, times);
    environment.add_filter(EACH, each);
    environment.add_filter(SLICE, slice);
    guard_filters(environment);
    environment.add_function("dict", |state: &mut State, args: Rest<ValueOrKwargs>| {
        let args = args.into_values();
        args.iter().flat_map(named).try_for_each(|value| item(state, value).map(drop))?;
        Value::from_function(functions::dict).call(state, &args)
    });
    environment.add_function("namespace", |state: &mut State, args: Rest<ValueOrKwargs>| {
        let args = args.into_values();
        args.iter().flat_map(named).try_for_each(|value| item(state, value).map(drop))?;
        Value::from_function(functions::namespace).call(state, &args)
    });
    // Would print everything that a template can see.
    environment.remove_filter("pprint");
    environment.remove_global("debug");
}

/// Refuses formats of dates that are longer than any real one.
pub(super) fn check_date_format(format: &str) -> Result<(), Error> {
    if format.len() <= DATE_FORMAT_BYTES_MAX { Ok(()) } else { Err(overspent()) }
}

fn guard_filters(environment: &mut Environment<'_>) {
    let mut add = |name: &'static str, filter: Value| {
        environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            let bytes = bytes_of_filter(state, name, &args)?;
            spend(state, bytes)?;
            if NESTING.contains(&name) {
                nest(state)?;
            }
            let value = filter.call(state, &args)?;
            settle(state, bytes, &value);
            // In Python these are generators, which `tojson` refuses.
            Ok(if GENERATORS.contains(&name) { Generator::from_list(value)? } else { value })
        });
    };
    add("batch", Value::from_function(filters::batch));
    add("capitalize", Value::from_function(filters::capitalize));
    add("chain", Value::from_function(filters::chain));
    add("dictsort", Value::from_function(filters::dictsort));
    add("e", Value::from_function(filters::escape));
    add("escape", Value::from_function(filters::escape));
    add("format", Value::from_function(filters::format));
    add("groupby", Value::from_function(filters::groupby));
    add("indent", Value::from_function(filters::indent));
    add("items", Value::from_function(filters::items));
    add("join", Value::from_function(filters::join));
    add("lines", Value::from_function(filters::lines));
    add("list", Value::from_function(filters::list));
    add("lower", Value::from_function(filters::lower));
    add("map", Value::from_function(filters::map));
    add("reject", Value::from_function(filters::reject));
    add("rejectattr", Value::from_function(filters::rejectattr));
    add("replace", Value::from_function(filters::replace));
    add("reverse", Value::from_function(filters::reverse));
    add("select", Value::from_function(filters::select));
    add("selectattr", Value::from_function(filters::selectattr));
    add("slice", Value::from_function(filters::slice));
    add("sort", Value::from_function(filters::sort));
    add("split", Value::from_function(filters::split));
    add("string", Value::from_function(filters::string));
    add("title", Value::from_function(filters::title));
    add("trim", Value::from_function(filters::trim));
    add("unique", Value::from_function(filters::unique));
    add("upper", Value::from_function(filters::upper));
    add("zip", Value::from_function(filters::zip));
}

/// Filters whose results hold what they were given, in lists of their own or by reference.
const NESTING: &[&str] =
    &["batch", "chain", "dictsort", "groupby", "items", "reverse", "slice", "zip"];

const GENERATORS: &[&str] = &["map", "reject", "rejectattr", "select", "selectattr"];

/// Most bytes that a filter makes of its arguments.
fn bytes_of_filter(state: &mut State, name: &str, args: &[Value]) -> Result<usize, Error> {
    let Some(first) = args.first() else { return Ok(0) };
    let text = |index: usize| args.get(index).and_then(Value::as_str).unwrap_or_default();
    Ok(match name {
        "join" => bytes_of_join(state, first, args.get(1))?,
        "replace" => bytes_of_replace(text(0), text(1), text(2)),
        "split" => bytes_of_split(text(0), args.get(1)),
        "lines" => bytes_of_split(text(0), Some(&Value::from("\n"))),
        "format" => bytes_of_format(state, text(0), &args[1..])?,
        "indent" => {
            let text = text(0);
            text.len() + (text.matches('\n').count() + 1).saturating_mul(greatest(&args[1..]))
        }
        "batch" | "slice" => {
            let entries = entries(first).saturating_add(greatest(&args[1..]));
            entries.saturating_mul(ENTRY_BYTES * 2)
        }
        "e" | "escape" => bytes_of(state, first)?.saturating_mul(6),
        "string" | "trim" => bytes_of(state, first)?,
        "capitalize" | "lower" | "title" | "upper" => bytes_of(state, first)?.saturating_mul(3),
        // Lists of what is there already.
        _ => {
            let all: usize = args.iter().map(entries).sum();
            all.saturating_mul(ENTRY_BYTES)
        }
    })
}

/// Python's methods, with the same care.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let text = |index: usize| args.get(index).and_then(Value::as_str).unwrap_or_default();
    let own = value.as_str().unwrap_or_default();
    let bytes = match name {
        "join" => match args.first() {
            Some(list) => bytes_of_join(state, list, Some(value))?,
            None => 0,
        },
        "replace" => bytes_of_replace(own, text(0), text(1)),
        "split" | "splitlines" => bytes_of_split(own, args.first()),
        "format" => bytes_of_format(state, own, args)?,
        "capitalize" | "lower" | "title" | "upper" => own.len().saturating_mul(3),
        "lstrip" | "rstrip" | "strip" => own.len(),
        "items" | "keys" | "values" => entries(value).saturating_mul(ENTRY_BYTES * 2),
        _ => 0,
    };
    spend(state, bytes)?;
    let value = unknown_method_callback(state, value, name, args)?;
    settle(state, bytes, &value);
    Ok(value)
}

/// Takes back what was counted too much for a text, and knows the text if it is long.
fn settle(state: &mut State, counted: usize, value: &Value) {
    let length = value.as_str().map_or(usize::MAX, str::len);
    // A method such as `get` hands out what is there, and nothing was counted.
    if let Some(too_much) = counted.checked_sub(length) {
        let made = made(state);
        made.bytes = made.bytes.saturating_sub(too_much);
        made.keep(value);
    }
}

/// Writes a value where the template says, which may be a variable.
fn write(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let unwritten = |_| Error::from(ErrorKind::WriteFailure);
    if let Some(text) = value.as_str() {
        spend(state, text.len())?;
        return out.write_str(text).map_err(unwritten);
    }
    let text = shown(state, value)?;
    spend(state, text.len())?;
    out.write_str(&text).map_err(unwritten)
}

/// Bytes of `value` as it would be written.
fn bytes_of(state: &mut State, value: &Value) -> Result<usize, Error> {
    match value.as_str() {
        Some(text) => Ok(text.len()),
        None => Ok(shown(state, value)?.len()),
    }
}

/// Entries of a list or map; characters of a text.
fn entries(value: &Value) -> usize {
    match value.as_str() {
        Some(text) => text.len(),
        None => value.len().or_else(|| Some(value.try_iter().ok()?.count())).unwrap_or(0),
    }
}

fn bytes_of_join(state: &mut State, list: &Value, between: Option<&Value>) -> Result<usize, Error> {
    let between = between.and_then(Value::as_str).unwrap_or_default().len();
    let mut bytes = 0_usize;
    for item in list.try_iter()? {
        let item = match item.as_str() {
            Some(text) => text.len(),
            None => shown(state, &item)?.len(),
        };
        bytes = bytes.saturating_add(item).saturating_add(between);
        if bytes > MADE_BYTES_MAX {
            return Err(overspent());
        }
    }
    Ok(bytes)
}

fn bytes_of_replace(text: &str, from: &str, to: &str) -> usize {
    let count = if from.is_empty() { text.len() + 1 } else { text.matches(from).count() };
    count.saturating_mul(to.len()).saturating_add(text.len())
}

fn bytes_of_split(text: &str, between: Option<&Value>) -> usize {
    let count = match between.and_then(Value::as_str) {
        Some(between) if !between.is_empty() => text.matches(between).count(),
        _ => text.split_ascii_whitespace().count(),
    };
    (count + 1).saturating_mul(ENTRY_BYTES).saturating_add(text.len())
}

/// Every field may be as long as the longest argument, or as wide as its width.
fn bytes_of_format(state: &mut State, format: &str, args: &[Value]) -> Result<usize, Error> {
    let digits = |run: &str| run.len() > FIELD_WIDTH_DIGITS_MAX;
    if format.contains('*') || format.split(|c: char| !c.is_ascii_digit()).any(digits) {
        return Err(overspent());
    }
    let mut longest = 10_usize.pow(FIELD_WIDTH_DIGITS_MAX as u32);
    for arg in args {
        longest = longest.max(match arg.as_str() {
            Some(text) => text.len(),
            None => shown(state, arg)?.len(),
        });
    }
    let fields = format.matches(['%', '{']).count();
    Ok(fields.saturating_mul(longest).saturating_add(format.len()))
}

/// An argument, or all the named ones.
fn named(value: &Value) -> Vec<Value> {
    if !value.is_kwargs() {
        return vec![value.clone()];
    }
    let keys = value.try_iter().into_iter().flatten();
    keys.filter_map(|key| value.get_item(&key).ok()).collect()
}

/// The greatest whole number among arguments, also named ones.
fn greatest(args: &[Value]) -> usize {
    args.iter().flat_map(named).filter_map(|value| value.as_usize()).max().unwrap_or(0)
}

/// A side of `+`.
fn part(state: &mut State, value: Value) -> Result<Value, Error> {
    spend(state, copied(&value))?;
    if is_container(&value) {
        nest(state)?;
    }
    Ok(value)
}

/// What is put into a list, a map or a namespace. A namespace may not: it could come to hold
/// itself.
fn item(state: &mut State, value: Value) -> Result<Value, Error> {
    let is_namespace =
        value.as_object().is_some_and(|object| object.type_name().ends_with("Namespace"));
    if is_namespace {
        return Err(Error::new(ErrorKind::InvalidOperation, "a namespace cannot be put away"));
    }
    if is_container(&value) {
        nest(state)?;
    }
    Ok(value)
}

fn is_container(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable | ValueKind::Plain)
}

fn factor(state: &mut State, value: Value) -> Result<Value, Error> {
    let factor = Factor { bytes: copied(&value), times: value.as_usize().unwrap_or(0) };
    made(state).factors.push(factor);
    Ok(value)
}

fn times(state: &mut State, value: Value) -> Result<Value, Error> {
    if let Some(left) = made(state).factors.pop() {
        let times = value.as_usize().unwrap_or(0);
        let bytes = left.bytes.saturating_mul(times);
        let bytes = bytes.saturating_add(copied(&value).saturating_mul(left.times));
        spend(state, bytes)?;
    }
    Ok(value)
}

/// Bytes that repeating `value` once copies.
fn copied(value: &Value) -> usize {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => text.len(),
        (None, ValueKind::Seq | ValueKind::Iterable) => {
            entries(value).saturating_mul(ENTRY_BYTES).max(ENTRY_BYTES)
        }
        _ => 0,
    }
}

/// What a loop runs over. Python does not iterate over `none`.
fn each(value: Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(Error::new(ErrorKind::InvalidOperation, "none cannot be iterated over"));
    }
    Ok(value)
}

/// `value[start:stop:step]`, as Python cuts it.
fn slice(
    state: &mut State,
    value: Value,
    start: Option<i64>,
    stop: Option<i64>,
    step: Option<i64>,
) -> Result<Value, Error> {
    spend(state, copied(&value))?;
    if let Some(text) = value.as_str() {
        let places: Vec<usize> =
            text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let count = places.len() - 1;
        let cut = cut(count, start, stop, step)?;
        let text: String = cut.filter_map(|at| text.get(places[at]..places[at + 1])).collect();
        return Ok(Value::from(text));
    }
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        let problem = format!("a slice of {} is not possible", value.kind());
        return Err(Error::new(ErrorKind::InvalidOperation, problem));
    }
    let items: Vec<Value> = value.try_iter()?.collect();
    let items: Vec<Value> =
        cut(items.len(), start, stop, step)?.map(|at| items[at].clone()).collect();
    Ok(if value.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) })
}

/// The places that a slice of `count` items takes, all below `count`.
fn cut(
    count: usize,
    start: Option<i64>,
    stop: Option<i64>,
    step: Option<i64>,
) -> Result<impl Iterator<Item = usize>, Error> {
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "a slice with a step of 0"));
    }
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let by = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
    let from_end = |at: i64| if at < 0 { at.saturating_add(count) } else { at };
    let (first, last) = if step > 0 {
        let bound = |at: i64| from_end(at).clamp(0, count);
        (start.map_or(0, bound), stop.map_or(count, bound))
    } else {
        // Backwards from `start` down to behind `stop`.
        let bound = |at: i64| from_end(at).clamp(-1, count - 1) + 1;
        (stop.map_or(0, bound), start.map_or(count, bound))
    };
    let whole = first..last.max(first);
    let (forwards, backwards) = match step > 0 {
        true => (Some(whole), None),
        false => (None, Some(whole.rev())),
    };
    let places = forwards.into_iter().flatten().step_by(by);
    let places = places.chain(backwards.into_iter().flatten().step_by(by));
    Ok(places.filter_map(|at| usize::try_from(at).ok()))
}

/// `value` as it would be written, if that is not too much.
fn shown(state: &mut State, value: &Value) -> Result<String, Error> {
    let mut sink = Sink { text: String::new(), left: left(state) };
    write!(sink, "{value}").map_err(|_| overspent())?;
    let work = left(state).saturating_sub(sink.left).saturating_sub(sink.text.len());
    spend(state, work)?;
    Ok(sink.text)
}

/// What writing one entry costs at least, in bytes: nested lists write little for much work.
pub(super) const ENTRY_WORK: usize = 32;

/// A text of limited length.
struct Sink {
    text: String,
    left: usize,
}

impl fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.left = self.left.checked_sub(text.len().max(ENTRY_WORK)).ok_or(fmt::Error)?;
        self.text.push_str(text);
        Ok(())
    }
}
