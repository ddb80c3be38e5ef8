//! Changing one key in the text of `settings.toml`, with everything that a person wrote kept.

use std::ops::Range;

use toml_edit::{Document, DocumentMut, Item, TableLike, Value};

/// A section that the key needs is something else in the file, a number for instance.
#[derive(Debug)]
pub(super) struct NoSection;

/// The item at a dotted key.
pub(super) fn find<'a>(root: &'a Item, key: &str) -> Option<&'a Item> {
    key.split('.').try_fold(root, |item, part| item.get(part))
}

/// `text` with `value` at `key`. `text` is TOML.
pub(super) fn set(text: &str, key: &str, value: Value) -> Result<String, NoSection> {
    let mut document = parsed(text);
    let (section, leaf) = key.rsplit_once('.').unwrap_or(("", key));
    if find(document.as_item(), key).is_none()
        && let Some(new) = below_its_comment(text, section, leaf, &value)
        && new
            .parse::<DocumentMut>()
            .is_ok_and(|new| find(new.as_item(), key).and_then(Item::as_value).is_some())
    {
        return Ok(new);
    }
    let table = make_section(&mut document, section)?;
    match table.get_mut(leaf).and_then(Item::as_value_mut) {
        Some(old) => replace(old, value),
        None => {
            table.insert(leaf, Item::Value(value));
        }
    }
    Ok(document.to_string())
}

/// `text` without `key`. Comments stay; one that belongs to the key by its place keeps it, with
/// `default` as the value.
pub(super) fn unset(text: &str, key: &str, default: Option<Value>) -> String {
    let (section, leaf) = key.rsplit_once('.').unwrap_or(("", key));
    if let Some(line) = own_line(text, section, leaf) {
        let above = text[..line.start].lines().next_back().unwrap_or_default().trim();
        let is_template = above.starts_with(&commented(leaf));
        if is_template || !above.starts_with('#') || default.is_none() {
            return format!("{}{}", &text[..line.start], &text[line.end..]);
        }
    }
    let mut document = parsed(text);
    let item = section.split('.').try_fold(document.as_item_mut(), |item, part| item.get_mut(part));
    let Some(table) = item.and_then(Item::as_table_like_mut) else { return text.to_owned() };
    match (is_commented(table, leaf), default) {
        (true, Some(default)) => {
            if let Some(old) = table.get_mut(leaf).and_then(Item::as_value_mut) {
                replace(old, default);
            }
        }
        _ => {
            table.remove(leaf);
        }
    }
    document.to_string()
}

fn parsed(text: &str) -> DocumentMut {
    text.parse().expect("the caller has understood the text as TOML")
}

/// Puts `value` in the place of `old`, with the spaces and comments around it.
fn replace(old: &mut Value, value: Value) {
    let decor = old.decor().clone();
    *old = value;
    *old.decor_mut() = decor;
}

/// How the template writes a key that is not set.
fn commented(leaf: &str) -> String {
    format!("# {leaf} =")
}

/// `text` with a new line below the commented-out one of the same key, where the section has that.
fn below_its_comment(text: &str, section: &str, leaf: &str, value: &Value) -> Option<String> {
    let header = format!("[{section}]");
    let mut is_inside = false;
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        if line.trim_start().starts_with('[') {
            is_inside = line.trim() == header;
        } else if is_inside && line.starts_with(&commented(leaf)) {
            let (before, after) = text.split_at(end);
            let end_of_line = if before.ends_with('\n') { "" } else { "\n" };
            return Some(format!("{before}{end_of_line}{leaf} = {value}\n{after}"));
        }
    }
    None
}

/// The line of a key, with its end, where nothing else stands on it: no comment, no other key, and
/// the
/// value ends on it or on a later line of its own.
fn own_line(text: &str, section: &str, leaf: &str) -> Option<Range<usize>> {
    let document = Document::parse(text).ok()?;
    let item = if section.is_empty() {
        Some(document.as_item())
    } else {
        find(document.as_item(), section)
    };
    let (key, item) = item?.as_table()?.get_key_value(leaf)?;
    let (key, value) = (key.span()?, item.as_value()?.span()?);
    let start = text[..key.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[value.end..].find('\n').map_or(text.len(), |at| value.end + at + 1);
    let is_alone = |part: &str| part.trim().is_empty();
    (is_alone(&text[start..key.start]) && is_alone(&text[value.end..end])).then_some(start..end)
}

fn is_commented(table: &dyn TableLike, leaf: &str) -> bool {
    let above = table
        .key(leaf)
        .and_then(|key| key.leaf_decor().prefix())
        .and_then(|prefix| prefix.as_str())
        .is_some_and(|prefix| prefix.contains('#'));
    let behind = table
        .get(leaf)
        .and_then(Item::as_value)
        .and_then(|value| value.decor().suffix())
        .and_then(|suffix| suffix.as_str())
        .is_some_and(|suffix| suffix.contains('#'));
    above || behind
}

fn make_section<'a>(
    document: &'a mut DocumentMut,
    section: &str,
) -> Result<&'a mut dyn TableLike, NoSection> {
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for part in section.split('.') {
        let item = table.entry(part).or_insert_with(|| {
            let mut new = toml_edit::Table::new();
            // Shown only if it holds keys itself, not for the sake of its children.
            new.set_implicit(true);
            Item::Table(new)
        });
        table = item.as_table_like_mut().ok_or(NoSection)?;
    }
    Ok(table)
}
