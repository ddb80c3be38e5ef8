//! How the documents are read: what Markdown they may use, where their links lead, and what their
//! headings are called, as GitHub has it.

use std::collections::BTreeSet;

use pulldown_cmark::Options;

/// What GitHub reads beside plain Markdown.
pub(crate) const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS);

/// `https:`, `mailto:` and the like.
pub(crate) fn has_scheme(link: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric());
    link.starts_with("//") || link.split_once(':').is_some_and(|(scheme, _)| is_word(scheme))
}

/// The path from the top of the repository that `link` means in the document at `from`.
pub(crate) fn resolved(from: &str, link: &str) -> Option<String> {
    let mut steps: Vec<&str> = from.split('/').collect();
    steps.pop();
    if link.starts_with('/') {
        steps.clear();
    }
    for step in link.split('/') {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop()?;
            }
            step => steps.push(step),
        }
    }
    Some(steps.join("/"))
}

/// Adds GitHub's anchor of a heading to those of its document; the second of the same name ends in
/// `-1`. Returns it.
pub(crate) fn add_anchor(anchors: &mut BTreeSet<String>, heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let slug: String = heading.trim().to_lowercase().chars().filter(kept).collect();
    let slug = slug.replace(' ', "-");
    let numbered = (1..).map(|number| format!("{slug}-{number}"));
    let mut names = std::iter::once(slug.clone()).chain(numbered);
    let anchor = names.find(|name| !anchors.contains(name)).unwrap_or(slug);
    anchors.insert(anchor.clone());
    anchor
}
