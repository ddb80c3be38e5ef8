//! `tojson` as Python writes it, because models were trained on that.
//!
//! `json.dumps(value, ensure_ascii=False)`: keys in their order, `", "` and `": "` between, no
//! HTML escapes. With `indent`, one value a line.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::budget::{ENTRY_WORK, overspent};

/// Deepest nesting that is written; templates and tools stay far below it.
const DEPTH_MAX: usize = 64;

/// How to write.
#[derive(Debug, Clone)]
pub(super) struct Dumps {
    /// Spaces for each level; `None` for one line.
    pub(super) indent: Option<usize>,
    /// Keys in alphabetical order.
    pub(super) sort_keys: bool,
    /// Characters beyond ASCII as `\uXXXX`.
    pub(super) ensure_ascii: bool,
    /// Between items, and between a key and its value.
    pub(super) separators: (String, String),
}

impl Dumps {
    /// Writes `value`, in at most `bytes_max` bytes and a little.
    pub(super) fn write(&self, value: &Value, bytes_max: usize) -> Result<String, Error> {
        let mut out = Out { text: String::new(), left: bytes_max };
        self.value(value, 0, &mut out)?;
        Ok(out.text)
    }

    fn value(&self, value: &Value, depth: usize, out: &mut Out) -> Result<(), Error> {
        out.take(ENTRY_WORK)?;
        if depth > DEPTH_MAX {
            return Err(Error::new(ErrorKind::BadSerialization, "nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => out.text.push_str("null"),
            ValueKind::Bool => out.text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.text.push_str(&number(value)),
            ValueKind::String => self.text(value.as_str().unwrap_or_default(), out)?,
            ValueKind::Seq | ValueKind::Iterable => {
                let mut items = Vec::new();
                for item in value.try_iter()? {
                    items.push((None, item));
                }
                self.items(('[', ']'), items, depth, out)?;
            }
            ValueKind::Map => {
                let mut items = Vec::new();
                for key in value.try_iter()? {
                    let item = value.get_item(&key)?;
                    items.push((Some(key.to_string()), item));
                }
                if self.sort_keys {
                    items.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.items(('{', '}'), items, depth, out)?;
            }
            _ => return Err(Error::new(ErrorKind::BadSerialization, "not JSON")),
        }
        Ok(())
    }

    fn items(
        &self,
        (open, close): (char, char),
        items: Vec<(Option<String>, Value)>,
        depth: usize,
        out: &mut Out,
    ) -> Result<(), Error> {
        out.text.push(open);
        let empty = items.is_empty();
        for (index, (key, item)) in items.into_iter().enumerate() {
            if index > 0 {
                out.text.push_str(&self.separators.0);
            }
            self.new_line(depth + 1, out);
            if let Some(key) = key {
                self.text(&key, out)?;
                out.text.push_str(&self.separators.1);
            }
            self.value(&item, depth + 1, out)?;
        }
        if !empty {
            self.new_line(depth, out);
        }
        out.text.push(close);
        Ok(())
    }

    fn new_line(&self, depth: usize, out: &mut Out) {
        if let Some(indent) = self.indent {
            out.text.push('\n');
            out.text.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn text(&self, text: &str, out: &mut Out) -> Result<(), Error> {
        out.take(text.len())?;
        let out = &mut out.text;
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{C}' => out.push_str("\\f"),
                _ if u32::from(c) < 0x20 || (self.ensure_ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                _ => out.push(c),
            }
        }
        out.push('"');
        Ok(())
    }
}

/// What is written.
struct Out {
    text: String,
    /// Bytes that may still be written.
    left: usize,
}

impl Out {
    /// Fails when `bytes` more would be too many.
    fn take(&mut self, bytes: usize) -> Result<(), Error> {
        self.left = self.left.checked_sub(bytes).ok_or_else(overspent)?;
        Ok(())
    }
}

/// A number as Python's `repr` writes it; `1.0` keeps its point.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(float) = f64::try_from(value.clone()) else {
        return value.to_string();
    };
    let size = float.abs();
    if float == 0.0 || (1e-4..1e16).contains(&size) {
        return format!("{float:?}");
    }
    // Python: two digits of exponent at least, with a sign.
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let exponent: i32 = exponent.parse().unwrap_or(0);
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumps(value: &Value, indent: Option<usize>) -> String {
        let comma = if indent.is_some() { "," } else { ", " };
        let separators = (comma.to_owned(), ": ".to_owned());
        Dumps { indent, sort_keys: false, ensure_ascii: false, separators }
            .write(value, 1000)
            .unwrap()
    }

    #[test]
    fn json_is_written_as_python_does() {
        let value = Value::from_pairs([
            ("z", Value::from("<é\"\\\n\u{1}>")),
            ("a", Value::from(vec![Value::from(1), Value::from(1.0), Value::from(1e-7)])),
            ("e", Value::from(Vec::<Value>::new())),
            ("n", Value::from(())),
            ("t", Value::from(true)),
        ]);
        assert_eq!(
            dumps(&value, None),
            r#"{"z": "<é\"\\\n\u0001>", "a": [1, 1.0, 1e-07], "e": [], "n": null, "t": true}"#
        );
        assert_eq!(
            dumps(&Value::from_pairs([("a", vec![1, 2])]), Some(2)),
            "{\n  \"a\": [\n    1,\n    2\n  ]\n}"
        );
    }
}
