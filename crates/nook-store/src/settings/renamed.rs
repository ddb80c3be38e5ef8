//! Keys of earlier versions: read once, and rewritten in place.
//!
//! Only the name changes in the file: value, comments and order stay. Where a person has written
//! the
//! new key too, that one counts and the old one is left alone, as an unknown key.

use std::ops::Range;

use toml_edit::Document;

/// Old key, and the leaf that stands in its place in the same section.
const RENAMED: &[(&str, &str)] =
    &[("distributed_inference.host.shard_max_vram_mb", "max_lent_memory_mb")];

/// A key of an earlier version that was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Renamed {
    /// As it was called.
    pub(super) old: &'static str,
    /// Its new name within its section.
    pub(super) leaf: &'static str,
}

/// The text with today's names, and what was renamed; `None` where nothing was.
pub(super) fn with_todays_names(
    text: &str,
    document: &Document<&str>,
) -> Option<(String, Vec<Renamed>)> {
    let mut places = Vec::new();
    for (old, leaf) in RENAMED {
        if let Some(span) = place(document, old, leaf) {
            places.push((span, Renamed { old, leaf }));
        }
    }
    if places.is_empty() {
        return None;
    }
    // From the end, so that the places before stay where they are.
    places.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut new = text.to_owned();
    for (span, renamed) in &places {
        new.replace_range(span.clone(), renamed.leaf);
    }
    Some((new, places.into_iter().map(|(_, renamed)| renamed).collect()))
}

/// Where the name of `old` stands, if it is there and the new one is not.
fn place(document: &Document<&str>, old: &str, leaf: &str) -> Option<Range<usize>> {
    let (section, old_leaf) = old.rsplit_once('.')?;
    let item = section.split('.').try_fold(document.as_item(), |item, part| item.get(part))?;
    let table = item.as_table_like()?;
    if table.contains_key(leaf) {
        return None;
    }
    table.get_key_value(old_leaf)?.0.span()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::setting;

    fn check(text: &str, expected: Option<&str>) {
        let document = Document::parse(text).unwrap();
        let new = with_todays_names(text, &document).map(|(new, _)| new);
        assert_eq!(new.as_deref(), expected, "{text}");
    }

    #[test]
    fn an_old_key_gets_its_new_name_wherever_and_however_it_is_written() {
        check(
            "[distributed_inference.host]\n# mine\n  shard_max_vram_mb =  5 # MB\nx = 1\n",
            Some("[distributed_inference.host]\n# mine\n  max_lent_memory_mb =  5 # MB\nx = 1\n"),
        );
        check(
            "distributed_inference.host.shard_max_vram_mb = 5\n",
            Some("distributed_inference.host.max_lent_memory_mb = 5\n"),
        );
        check(
            "[distributed_inference]\nhost = { \"shard_max_vram_mb\" = 5 }\n",
            Some("[distributed_inference]\nhost = { max_lent_memory_mb = 5 }\n"),
        );
        check("[distributed_inference.host]\nmax_lent_memory_mb = 5\n", None);
        check("[other]\nshard_max_vram_mb = 5\n", None);
        check("", None);
    }

    #[test]
    fn where_both_are_written_the_new_one_counts_and_the_old_one_is_left_alone() {
        check(
            "[distributed_inference.host]\nshard_max_vram_mb = 5\nmax_lent_memory_mb = 6\n",
            None,
        );
    }

    #[test]
    fn old_keys_are_no_settings_and_new_ones_are() {
        for (old, leaf) in RENAMED {
            let section = old.rsplit_once('.').unwrap().0;
            assert!(setting(old).is_none(), "{old}");
            assert!(setting(&format!("{section}.{leaf}")).is_some(), "{leaf}");
        }
    }
}
