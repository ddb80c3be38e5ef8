//! The part of a client's schema that is enforced.
//!
//! Libraries for typed replies (Zod, Pydantic) write schemas with rules that no grammar can keep to,
//! and OpenAI's own service takes most of them. [`enforced`] leaves such rules out, so that the
//! client's own check has the last word, and closes objects that say nothing of other properties:
//! small models invent them without end, and what fits the closed object fits the client's too.
//! Names that are listed elsewhere become properties, and a list of different values is no longer
//! than there are values, because llguidance knows neither rule. llguidance leaves out the keywords and formats that it does not know (`lenient`), and reads
//! `oneOf` as `anyOf`.

use regex_syntax::ast::{AssertionKind, Ast, parse::Parser};
use serde_json::{Map, Value};

/// Keywords whose value maps names to schemas.
const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Keywords whose value is a schema, or a list of them.
const SCHEMAS: [&str; 8] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "prefixItems",
    "allOf",
    "anyOf",
    "oneOf",
    "contains",
];

/// What speaks of properties that are not described, or joins descriptions of one object.
const OPEN: [&str; 8] = [
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "minProperties",
];

/// The part of `schema` that is enforced. Its nesting is limited already; it grows by at most
/// `spare` values.
pub(super) fn enforced(schema: &Map<String, Value>, spare: usize) -> Map<String, Value> {
    let mut enforced = schema.clone();
    // Where objects are put together from parts, none of the parts may exclude the others.
    let mut loosening = Loosening { root: schema, closes: !joins(schema), spare };
    loosening.loosen(&mut enforced);
    enforced
}

/// What the schemas within a schema are loosened by.
struct Loosening<'a> {
    /// What references point into.
    root: &'a Map<String, Value>,
    closes: bool,
    /// Values that may still be added.
    spare: usize,
}

/// Whether an object is described in several parts somewhere.
fn joins(schema: &Map<String, Value>) -> bool {
    schema.contains_key("allOf")
        || (schema.contains_key("properties")
            && ["$ref", "anyOf", "oneOf"].iter().any(|key| schema.contains_key(*key)))
        || below(schema).any(joins)
}

/// The schemas within a schema.
fn below(schema: &Map<String, Value>) -> impl Iterator<Item = &Map<String, Value>> {
    let in_maps = MAPS.iter().filter_map(|key| schema.get(*key)?.as_object());
    let alone = SCHEMAS.iter().filter_map(|key| schema.get(*key));
    let lists = alone.clone().filter_map(Value::as_array).flatten();
    in_maps.flat_map(Map::values).chain(alone).chain(lists).filter_map(Value::as_object)
}

impl Loosening<'_> {
    /// From the inside out, so that what is copied is as large as it gets.
    fn loosen(&mut self, schema: &mut Map<String, Value>) {
        for (key, value) in schema.iter_mut() {
            let is_map = MAPS.contains(&key.as_str());
            let is_schema = SCHEMAS.contains(&key.as_str());
            match value {
                Value::Object(named) if is_map => {
                    let schemas = named.values_mut().filter_map(Value::as_object_mut);
                    schemas.for_each(|schema| self.loosen(schema));
                }
                Value::Object(one) if is_schema => self.loosen(one),
                Value::Array(all) if is_schema => {
                    let schemas = all.iter_mut().filter_map(Value::as_object_mut);
                    schemas.for_each(|schema| self.loosen(schema));
                }
                _ => {}
            }
        }
        leave_out_patterns(schema);
        self.describe_names(schema);
        self.end_list(schema);
        if self.closes {
            close(schema);
        }
    }

    /// Names that `propertyNames` lists become properties that may be left out.
    fn describe_names(&mut self, schema: &mut Map<String, Value>) {
        let Some(names) = schema.get("propertyNames").and_then(|rule| self.listed(rule)) else {
            return;
        };
        let each = schema.get("additionalProperties").cloned().unwrap_or(true.into());
        let added = size(&each).saturating_mul(names.len());
        if each == false || schema.contains_key("patternProperties") || added > self.spare {
            return;
        }
        let names = names.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
        let properties = schema.entry("properties").or_insert_with(|| Map::new().into());
        let Some(properties) = properties.as_object_mut() else { return };
        self.spare -= added;
        properties.retain(|name, _| names.contains(name));
        for name in names {
            properties.entry(name).or_insert_with(|| each.clone());
        }
        schema.insert("additionalProperties".to_owned(), false.into());
        schema.remove("propertyNames");
    }

    /// A list whose items are all different has at most as many as there are values.
    fn end_list(&self, schema: &mut Map<String, Value>) {
        if schema.get("uniqueItems") != Some(&true.into()) {
            return;
        }
        let values = schema.get("items").and_then(|items| self.listed(items)).map(<[_]>::len);
        let known = schema.get("maxItems").and_then(Value::as_u64);
        if let Some(most) = values.map(|count| count as u64)
            && known.is_none_or(|known| known > most)
        {
            schema.insert("maxItems".to_owned(), most.into());
        }
    }

    /// The values of an enumeration, which may stand elsewhere.
    fn listed<'a>(&'a self, rule: &'a Value) -> Option<&'a [Value]> {
        let pointed = rule.get("$ref").and_then(Value::as_str).and_then(|reference| {
            let (first, rest) = reference.strip_prefix("#/")?.split_once('/')?;
            self.root.get(first)?.pointer(&format!("/{rest}"))
        });
        pointed.unwrap_or(rule).get("enum")?.as_array().map(Vec::as_slice)
    }
}

/// How many objects, lists and values it is made of.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// Leaves out regular expressions that automata cannot follow.
fn leave_out_patterns(schema: &mut Map<String, Value>) {
    let is_lost =
        |pattern: &Value| pattern.as_str().is_some_and(|pattern| !can_be_followed(pattern));
    if schema.get("pattern").is_some_and(is_lost) {
        schema.remove("pattern");
    }
    let Some(Value::Object(patterns)) = schema.get_mut("patternProperties") else { return };
    let before = patterns.len();
    patterns.retain(|pattern, _| can_be_followed(pattern));
    if patterns.len() < before && schema.get("additionalProperties") == Some(&false.into()) {
        // The names that were meant may come, and others with them.
        schema.remove("additionalProperties");
    }
}

/// An object that says nothing of other properties has none.
fn close(schema: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    let required = schema.get("required").and_then(Value::as_array);
    let mut names = required.into_iter().flatten().filter_map(Value::as_str);
    let is_described = names.all(|name| properties.contains_key(name));
    let speaks = OPEN.iter().any(|key| schema.contains_key(*key));
    if !properties.is_empty() && is_described && !speaks {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
}

/// Whether an automaton can follow a regular expression: one that looks neither around nor back,
/// and whose anchors are at its ends.
fn can_be_followed(pattern: &str) -> bool {
    Parser::new().parse(pattern).is_ok_and(|ast| is_plain(&ast, true, true))
}

/// See [`can_be_followed`]; `start` and `end` say at which ends of the whole `ast` stands. The
/// parser limits how deep it calls itself.
fn is_plain(ast: &Ast, start: bool, end: bool) -> bool {
    match ast {
        Ast::Assertion(it) => match it.kind {
            AssertionKind::StartLine | AssertionKind::StartText => start,
            AssertionKind::EndLine | AssertionKind::EndText => end,
            _ => false,
        },
        Ast::Group(group) => is_plain(&group.ast, start, end),
        Ast::Repetition(repeated) => is_plain(&repeated.ast, false, false),
        Ast::Alternation(either) => either.asts.iter().all(|ast| is_plain(ast, start, end)),
        Ast::Concat(parts) => {
            let is_anchor = |ast: &Ast| matches!(ast, Ast::Assertion(_));
            let first = parts.asts.iter().position(|ast| !is_anchor(ast)).unwrap_or(usize::MAX);
            let last = parts.asts.iter().rposition(|ast| !is_anchor(ast)).unwrap_or(0);
            let mut each = parts.asts.iter().enumerate();
            each.all(|(at, ast)| is_plain(ast, start && at <= first, end && at >= last))
        }
        Ast::Empty(_)
        | Ast::Flags(_)
        | Ast::Literal(_)
        | Ast::Dot(_)
        | Ast::ClassUnicode(_)
        | Ast::ClassPerl(_)
        | Ast::ClassBracketed(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, expected: Value) {
        assert_eq!(Value::Object(enforced(schema.as_object().unwrap(), 100)), expected);
    }

    #[test]
    fn what_looks_around_is_left_out_where_it_is_a_rule_and_nowhere_else() {
        check(json!({"type": "string", "pattern": "^(?!no)"}), json!({"type": "string"}));
        check(json!({"pattern": "(a)\\1"}), json!({}));
        check(json!({"pattern": "\\bword\\b"}), json!({}));
        check(json!({"pattern": "a$b"}), json!({}));
        for pattern in ["^a|b$", "^[a-z]+\\d{2}$", "(^a$)|(^b$)", "^$", "\\/path"] {
            check(json!({"pattern": pattern}), json!({"pattern": pattern}));
        }
        // A property may have any name.
        let named =
            json!({"properties": {"pattern": {"const": "(?=a)"}}, "additionalProperties": true});
        check(named.clone(), named);
        check(
            json!({"patternProperties": {"^(?=a)": {}, "^b": {}}, "additionalProperties": false}),
            json!({"patternProperties": {"^b": {}}}),
        );
    }

    #[test]
    fn objects_that_are_described_whole_are_closed() {
        let object = json!({"type": "object", "properties": {"a": {}}, "required": ["a"]});
        let mut closed = object.clone();
        closed["additionalProperties"] = false.into();
        check(object.clone(), closed.clone());
        check(json!({"items": object}), json!({"items": closed}));
        check(json!({"anyOf": [object]}), json!({"anyOf": [closed]}));
        check(json!({"$defs": {"it": object}}), json!({"$defs": {"it": closed}}));
        for open in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {}}),
            json!({"properties": {"a": {}}, "required": ["b"]}),
            json!({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}),
            json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}),
            json!({"properties": {"a": {}}, "$ref": "#/$defs/b", "$defs": {"b": {"properties": {"c": {}}}}}),
        ] {
            check(open.clone(), open);
        }
    }

    #[test]
    fn names_that_are_listed_become_properties() {
        let value = json!({"type": "boolean"});
        let described = json!({
            "properties": {"a": value, "b": value},
            "required": ["a"],
            "additionalProperties": false,
        });
        let with = |more: Value| {
            let mut schema = json!({"additionalProperties": value, "required": ["a"]});
            schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            schema
        };
        let names = json!({"type": "string", "enum": ["a", "b"]});
        check(with(json!({"propertyNames": names})), described.clone());
        let mut pointing = described;
        pointing["$defs"] = json!({"names": names});
        check(
            with(json!({"propertyNames": {"$ref": "#/$defs/names"}, "$defs": {"names": names}})),
            pointing,
        );
        check(
            json!({"propertyNames": {"enum": ["a"]}}),
            json!({"properties": {"a": true}, "additionalProperties": false}),
        );
        for untouched in [
            json!({"propertyNames": {"type": "string"}, "additionalProperties": value}),
            json!({"propertyNames": {"enum": ["a"]}, "additionalProperties": false}),
            json!({"propertyNames": {"$ref": "#/$defs/gone"}, "additionalProperties": value}),
        ] {
            check(untouched.clone(), untouched);
        }
    }

    #[test]
    fn a_schema_grows_no_further_than_it_may() {
        let names = json!({"enum": ["a", "b"]});
        let mut record = json!({"type": "boolean"});
        for _ in 0..40 {
            record = json!({"propertyNames": names, "additionalProperties": record});
        }
        let schema = json!({"anyOf": vec![record; 20]});
        let grown = Value::Object(enforced(schema.as_object().unwrap(), 50));
        assert!(size(&grown) > size(&schema), "some of it can be enforced");
        assert!(size(&grown) <= size(&schema) + 50);
    }

    #[test]
    fn a_list_of_different_values_ends_with_them() {
        let items = json!({"enum": ["a", "b"]});
        let list = |most: Value| json!({"items": items, "uniqueItems": true, "maxItems": most});
        check(json!({"items": items, "uniqueItems": true}), list(2.into()));
        check(list(5.into()), list(2.into()));
        check(list(1.into()), list(1.into()));
        for untouched in
            [json!({"items": items}), json!({"items": {"type": "string"}, "uniqueItems": true})]
        {
            check(untouched.clone(), untouched);
        }
    }
}
