//! Links of the documents lead somewhere: files, pictures, headings, and the commands they name.
//!
//! Every `.md` file is read with a Markdown parser. A relative link or picture must be a file or
//! folder of the tree, a `#anchor` a heading of its document by GitHub's rules. Links to the
//! internet are not looked at. A command in code (`nook …`, `cargo xtask …`) must be one that its
//! program has.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pulldown_cmark::{BrokenLink, Event, LinkType, Parser, Tag, TagEnd};

use crate::markdown::{OPTIONS, add_anchor, has_scheme, resolved};
use crate::tidy::Finding;
use crate::tidy::links::commands::Programs;
use crate::tidy::tree::{SourceFile, Tree};

mod commands;

const RULE: &str = "links";

/// Attributes by which HTML in a document leads elsewhere, and those that can be led to.
const HTML_LINKS: [&str; 2] = ["href", "src"];
const HTML_ANCHORS: [&str; 2] = ["id", "name"];

/// Links that lead nowhere.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let documents = tree.files.iter().filter(|file| file.ending() == "md");
    let documents = documents.map(|file| (file.path.as_str(), Document::read(file)));
    let documents = documents.collect::<BTreeMap<_, _>>();
    let programs = Programs::read(tree);
    let mut findings = Vec::new();
    for (path, document) in &documents {
        for (line, link) in &document.links {
            if let Some(sentence) = wrong(tree, &documents, path, link) {
                findings.push(Finding::new(RULE, path, *line, sentence));
            }
        }
        for (line, code) in &document.code {
            if let Some(sentence) = programs.wrong(code) {
                findings.push(Finding::new(RULE, path, *line, sentence));
            }
        }
        for (line, name) in &document.undefined {
            let sentence = format!("`[…][{name}]` is defined nowhere in the document");
            findings.push(Finding::new(RULE, path, *line, sentence));
        }
    }
    findings
}

/// What is wrong with a link of the document at `from`.
fn wrong(
    tree: &Tree,
    documents: &BTreeMap<&str, Document>,
    from: &str,
    link: &str,
) -> Option<String> {
    if has_scheme(link) {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, at)| (path, Some(at)));
    let path = path.replace("%20", " ");
    let target = if path.is_empty() { Some(from.to_owned()) } else { resolved(from, &path) };
    let Some(target) = target else {
        return Some(format!("`{link}` leads out of the repository"));
    };
    if !is_there(tree, &target) {
        return Some(format!("`{link}`: there is no `{target}`"));
    }
    let anchor = anchor.filter(|anchor| !anchor.is_empty())?;
    let is_known = match documents.get(target.as_str()) {
        Some(document) => document.anchors.contains(anchor),
        // A line of a source file, as GitHub shows it.
        None => anchor.starts_with('L'),
    };
    (!is_known).then(|| format!("`{link}`: `{target}` has no heading `#{anchor}`"))
}

fn is_there(tree: &Tree, path: &str) -> bool {
    let inside = |file: &SourceFile| {
        file.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    path.is_empty() || tree.files.iter().any(inside)
}

/// What a document holds, with the lines.
#[derive(Debug, Default)]
struct Document {
    links: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
    /// Pieces of code and lines of code blocks.
    code: Vec<(usize, String)>,
    /// Names of links that are defined nowhere.
    undefined: Vec<(usize, String)>,
}

impl Document {
    fn read(file: &SourceFile) -> Self {
        let text = file.text.as_str();
        let line = |at: &Range<usize>| text[..at.start].matches('\n').count() + 1;
        let mut undefined = Vec::new();
        let mut note_undefined = |link: BrokenLink<'_>| {
            // `[a]` alone may be plain text, `[a][b]` may not.
            if link.link_type == LinkType::Reference {
                undefined.push((line(&link.span), link.reference.to_string()));
            }
            None
        };
        let events =
            Parser::new_with_broken_link_callback(text, OPTIONS, Some(&mut note_undefined));
        let mut document = Self::default();
        let mut heading: Option<String> = None;
        let mut is_in_block = false;
        for (event, at) in events.into_offset_iter() {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    add_anchor(&mut document.anchors, &heading.take().unwrap_or_default());
                }
                Event::Start(Tag::CodeBlock(_)) => is_in_block = true,
                Event::End(TagEnd::CodeBlock) => is_in_block = false,
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push((line(&at), dest_url.to_string()));
                }
                Event::Html(html) | Event::InlineHtml(html) => document.add_html(&html, line(&at)),
                Event::Text(block) if is_in_block => {
                    let lines = block.lines().enumerate();
                    document.code.extend(lines.map(|(n, text)| (line(&at) + n, text.to_owned())));
                }
                Event::Code(code) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&code));
                    document.code.push((line(&at), code.to_string()));
                }
                Event::Text(text) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&text));
                }
                _ => {}
            }
        }
        document.undefined = undefined;
        document
    }

    fn add_html(&mut self, html: &str, line: usize) {
        self.links.extend(attributes(html, &HTML_LINKS).map(|link| (line, link)));
        self.anchors.extend(attributes(html, &HTML_ANCHORS));
    }
}

/// Values of attributes with one of `names` in double quotes.
fn attributes(html: &str, names: &[&str]) -> impl Iterator<Item = String> {
    let pieces: Vec<&str> = html.split('"').collect();
    let values = pieces.chunks(2).filter_map(|pair| match pair {
        [before, value] => {
            let name = before.strip_suffix('=')?.rsplit(char::is_whitespace).next()?;
            names.contains(&name).then(|| (*value).to_owned())
        }
        _ => None,
    });
    values.collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests;
