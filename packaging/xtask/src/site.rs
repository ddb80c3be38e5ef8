//! `cargo xtask site`: what a visitor sees of a release: the download page, and beside it the
//! documents as pages.
//!
//! [`files`] makes all of it in memory, by name; `cargo xtask release` signs the same files. A page
//! is a document with the frame of [`page`] around it. A link from one document to another leads to
//! its page, a picture comes along, and a link to anything else of the repository becomes plain
//! text: there is no public address of the source. A link that leads nowhere is an error, and so is
//! HTML in a document. No page has a script but the download page.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use pulldown_cmark::{CowStr, Event, Parser, Tag, TagEnd, html};

use crate::markdown::{OPTIONS, add_anchor, has_scheme, resolved};
use crate::places::Places;
use crate::say;

#[cfg(test)]
mod tests;

/// Files by their name in the site, with `/` between folders.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// The download page and what all pages use, and where each lies in the tree. The page reads the
/// list of versions that lies beside it.
const SITE: [(&str, &str); 6] = [
    ("index.html", "packaging/site/index.html"),
    ("site.css", "packaging/site/site.css"),
    ("docs.css", "packaging/site/docs.css"),
    ("download.js", "packaging/site/download.js"),
    ("icon.png", "icons/app/128x128.png"),
    ("chat.png", "packaging/pictures/chat.png"),
];

/// Folders whose documents become pages, and the folder of the site for each.
const FOLDERS: [(&str, &str); 3] = [
    ("docs", "docs"),
    ("docs/decisions", "docs/decisions"),
    ("packaging/benchmarks", "docs/benchmarks"),
];

/// Further documents that become pages.
const SINGLE: [(&str, &str); 4] = [
    ("ARCHITECTURE.md", "docs/architecture.html"),
    ("CHANGELOG.md", "docs/changelog.html"),
    ("CONTRIBUTING.md", "docs/contributing.html"),
    ("SECURITY.md", "docs/security.html"),
];

/// Where pictures of documents go.
const PICTURES: &str = "docs/pictures";

/// A document that becomes a page.
#[derive(Debug)]
struct Document {
    /// Its name in the site.
    target: String,
    text: String,
    title: String,
    /// Anchors of its headings, in order.
    headings: Vec<String>,
}

/// Where a link leads.
enum Destination {
    /// To this address.
    Address(String),
    /// To something that the site does not have.
    Source,
}

/// Writes the site into the target folder, to look at it.
pub(crate) fn command(places: &Places) -> Result<()> {
    let folder = places.target.join("site");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let files = files(&places.root)?;
    write(&files, &folder)?;
    let pages = files.keys().filter(|name| name.ends_with(".html")).count();
    say::line(&format!("{pages} pages lie in {}", folder.display()));
    Ok(())
}

/// The whole site of the tree at `root`.
pub(crate) fn files(root: &Path) -> Result<Files> {
    let read = |path: &str| fs::read(root.join(path)).with_context(|| path.to_owned());
    let mut files = Files::new();
    for (name, path) in SITE {
        files.insert(name.to_owned(), read(path)?);
    }
    let documents = documents(root)?;
    for (path, document) in &documents {
        let (body, pictures) = body(root, path, &documents)?;
        let page = page(&document.target, &document.title, &body);
        files.insert(document.target.clone(), page.into_bytes());
        for picture in pictures {
            files.insert(picture_target(&picture)?, read(&picture)?);
        }
    }
    Ok(files)
}

/// Puts files into `folder`, with the folders that they lie in.
pub(crate) fn write(files: &Files, folder: &Path) -> Result<()> {
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Every document that becomes a page, by its path in the repository.
fn documents(root: &Path) -> Result<BTreeMap<String, Document>> {
    let mut targets: BTreeMap<String, String> =
        SINGLE.iter().map(|(path, target)| ((*path).to_owned(), (*target).to_owned())).collect();
    for (folder, into) in FOLDERS {
        for entry in fs::read_dir(root.join(folder)).with_context(|| folder.to_owned())? {
            let name = entry?.file_name();
            let name = name.to_str().context("a name is text")?;
            if let Some(stem) = name.strip_suffix(".md") {
                let stem = if stem == "README" { "index" } else { stem };
                targets.insert(format!("{folder}/{name}"), format!("{into}/{stem}.html"));
            }
        }
    }
    let mut documents = BTreeMap::new();
    for (path, target) in targets {
        let text = fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
        let (title, headings) = headings(&text);
        let title = title.with_context(|| format!("{path} has no heading"))?;
        documents.insert(path, Document { target, text, title, headings });
    }
    Ok(documents)
}

/// The first heading of a document, and the anchor of each.
fn headings(text: &str) -> (Option<String>, Vec<String>) {
    let (mut known, mut anchors, mut first) = (BTreeSet::new(), Vec::new(), None);
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, OPTIONS) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let heading = heading.take().unwrap_or_default();
                anchors.push(add_anchor(&mut known, &heading));
                first.get_or_insert(heading);
            }
            Event::Text(text) | Event::Code(text) => {
                heading.iter_mut().for_each(|heading| heading.push_str(&text));
            }
            _ => {}
        }
    }
    (first, anchors)
}

/// What stands in the page of a document, and the pictures that it shows, by their path in the
/// repository.
fn body(
    root: &Path,
    path: &str,
    documents: &BTreeMap<String, Document>,
) -> Result<(String, BTreeSet<String>)> {
    let document = documents.get(path).with_context(|| format!("no document {path}"))?;
    let mut headings: VecDeque<&String> = document.headings.iter().collect();
    let (mut events, mut pictures) = (Vec::new(), BTreeSet::new());
    // Whether each link that is open has an address.
    let mut links = Vec::new();
    for event in Parser::new_ext(&document.text, OPTIONS) {
        match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let id = headings.pop_front().map(|anchor| CowStr::from(anchor.clone()));
                events.push(Event::Start(Tag::Heading { level, id, classes, attrs }));
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let destination = destination(root, path, &dest_url, documents)?;
                links.push(matches!(destination, Destination::Address(_)));
                if let Destination::Address(address) = destination {
                    let dest_url = address.into();
                    events.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
                }
            }
            Event::End(TagEnd::Link) => {
                if links.pop() == Some(true) {
                    events.push(Event::End(TagEnd::Link));
                }
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let picture = resolved(path, &dest_url).filter(|it| root.join(it).is_file());
                let picture = picture.with_context(|| format!("{path}: no picture {dest_url}"))?;
                let dest_url = relative(&document.target, &picture_target(&picture)?).into();
                pictures.insert(picture);
                events.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
            }
            Event::Html(text) | Event::InlineHtml(text) => {
                let is_comment = text.trim().is_empty() || text.trim_start().starts_with("<!--");
                ensure!(is_comment, "{path}: a page of the site takes no HTML, such as {text:?}");
            }
            // A wide one is moved by itself, not the page; by keys, too.
            Event::Start(Tag::Table(columns)) => {
                events.push(Event::Html("<div class=\"wide\" tabindex=\"0\">".into()));
                events.push(Event::Start(Tag::Table(columns)));
            }
            Event::End(TagEnd::Table) => {
                events.extend([Event::End(TagEnd::Table), Event::Html("</div>\n".into())]);
            }
            event => events.push(event),
        }
    }
    let mut body = String::new();
    html::push_html(&mut body, events.into_iter());
    // In text it would stand as `&lt;pre>`.
    Ok((body.replace("<pre>", "<pre tabindex=\"0\">"), pictures))
}

/// Where `link` in the document at `from` leads.
fn destination(
    root: &Path,
    from: &str,
    link: &str,
    documents: &BTreeMap<String, Document>,
) -> Result<Destination> {
    if has_scheme(link) {
        let is_known = ["https://", "http://", "mailto:"].iter().any(|it| link.starts_with(it));
        ensure!(is_known, "{from}: `{link}` is no address for a page");
        return Ok(Destination::Address(link.to_owned()));
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, at)| (path, Some(at)));
    let target = if path.is_empty() { Some(from.to_owned()) } else { resolved(from, path) };
    let target = target.with_context(|| format!("{from}: `{link}` leads out of the repository"))?;
    let (Some(here), Some(document)) = (documents.get(from), documents.get(&target)) else {
        ensure!(root.join(&target).exists(), "{from}: `{link}` leads nowhere");
        return Ok(Destination::Source);
    };
    let Some(anchor) = anchor else {
        return Ok(Destination::Address(relative(&here.target, &document.target)));
    };
    let is_known = document.headings.iter().any(|it| it == anchor);
    ensure!(is_known, "{from}: `{link}`: `{target}` has no heading `#{anchor}`");
    let file =
        if path.is_empty() { String::new() } else { relative(&here.target, &document.target) };
    Ok(Destination::Address(format!("{file}#{anchor}")))
}

/// The name in the site of a picture of the repository.
fn picture_target(path: &str) -> Result<String> {
    match path.strip_prefix("packaging/pictures/") {
        Some(name) if !name.contains('/') => Ok(format!("{PICTURES}/{name}")),
        _ => bail!("{path}: pictures of documents lie in packaging/pictures"),
    }
}

/// The address of one file of the site as another one names it.
fn relative(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let folders = from.len().min(to.len()) - 1;
    let same = (0..folders).take_while(|at| from[*at] == to[*at]).count();
    let up = std::iter::repeat_n("..", from.len() - 1 - same);
    up.chain(to[same..].iter().copied()).collect::<Vec<_>>().join("/")
}

/// A page around the body of a document.
fn page(target: &str, title: &str, body: &str) -> String {
    let to = |name: &str| relative(target, name);
    let (icon, site, docs) = (to("icon.png"), to("site.css"), to("docs.css"));
    let (home, all) = (to("index.html"), to("docs/index.html"));
    let (begin, remove) = (to("docs/getting-started.html"), to("docs/uninstalling.html"));
    let title = escaped(title);
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'">
  <meta name="color-scheme" content="light dark">
  <title>{title} - Inglenook</title>
  <link rel="icon" href="{icon}">
  <link rel="stylesheet" href="{site}">
  <link rel="stylesheet" href="{docs}">
</head>
<body>
<nav aria-label="Inglenook">
  <a href="{home}">Download</a>
  <a href="{begin}">Getting started</a>
  <a href="{all}">Documentation</a>
  <a href="{remove}">Uninstalling</a>
</nav>
<main class="document">
{body}</main>
</body>
</html>
"#
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
