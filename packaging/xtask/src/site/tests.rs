//! The site of this tree, and documents that must not become pages.

use super::*;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a release makes beside the site.
const OF_A_RELEASE: [&str; 4] =
    ["inglenook-versions.json", "SHA256SUMS", "SHA256SUMS.minisig", "inglenook.cdx.json"];

/// The values of an attribute in a page.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    page.split(begin.as_str()).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

fn pages(files: &Files) -> Vec<(&str, &str)> {
    let pages = files.iter().filter(|(name, _)| name.ends_with(".html"));
    pages.map(|(name, bytes)| (name.as_str(), std::str::from_utf8(bytes).unwrap())).collect()
}

#[test]
fn every_document_has_a_page_that_the_list_of_documents_leads_to() {
    let files = files(&root()).unwrap();
    let index = std::str::from_utf8(&files["docs/index.html"]).unwrap();
    let mut count = 0;
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(stem) = name.strip_suffix(".md").filter(|stem| *stem != "README") else {
            continue;
        };
        assert!(files.contains_key(&format!("docs/{stem}.html")), "{name} has no page");
        let link = format!("href=\"{stem}.html\"");
        assert!(index.contains(&link), "docs/README.md does not name {name}");
        count += 1;
    }
    assert!(count > 10 && files.contains_key("docs/decisions/0051-making-a-release.html"));
    // Where it is removed from, and what stays.
    let page = std::str::from_utf8(&files["docs/uninstalling.html"]).unwrap();
    for wanted in ["id=\"what-stays\"", "Windows", "macOS", ".deb"] {
        assert!(page.contains(wanted), "{wanted}");
    }
}

#[test]
fn every_link_of_every_page_leads_somewhere_and_the_download_page_to_the_documents() {
    let files = files(&root()).unwrap();
    let mut followed = 0;
    for (name, page) in pages(&files) {
        for link in values(page, "href").into_iter().chain(values(page, "src")) {
            if has_scheme(link) {
                assert!(link.starts_with("https://"), "{name}: {link}");
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if path.is_empty() { name.to_owned() } else { resolved(name, path).unwrap() };
            let is_made = name == "index.html" && OF_A_RELEASE.contains(&link);
            assert!(is_made || files.contains_key(&target), "{name}: {link}");
            if !anchor.is_empty() {
                let there = std::str::from_utf8(&files[&target]).unwrap();
                assert!(values(there, "id").contains(&anchor), "{name}: {link}");
            }
            followed += 1;
        }
    }
    assert!(followed > 500, "{followed}");
    let home = std::str::from_utf8(&files["index.html"]).unwrap();
    for wanted in ["docs/index.html", "docs/getting-started.html", "docs/uninstalling.html"] {
        assert!(values(home, "href").contains(&wanted), "the download page leads not to {wanted}");
    }
}

#[test]
fn no_page_of_a_document_has_a_script_or_asks_another_server() {
    let files = files(&root()).unwrap();
    for (name, page) in pages(&files) {
        if name == "index.html" {
            continue;
        }
        let page = page.to_lowercase();
        for odd in ["<script", "<iframe", "<object", "<style", "<form", "javascript:", " onclick="]
        {
            assert!(!page.contains(odd), "{name} has {odd}");
        }
        assert!(page.contains("content=\"default-src 'none'; style-src 'self'; img-src 'self';"));
        let loaded = values(&page, "src");
        assert!(loaded.iter().all(|it| !has_scheme(it)), "{name}: {loaded:?}");
        assert_eq!(page.matches("<h1").count(), 1, "{name}");
        // What is too wide for the page is moved by keys, too.
        assert_eq!(page.matches("<pre").count(), page.matches("<pre tabindex").count(), "{name}");
    }
}

/// What becomes of a document with this in it, beside one called `other.md`.
fn made(text: &str) -> Result<String> {
    let root = tempfile::tempdir().unwrap();
    let document = |target: &str, text: &str| {
        let (title, headings) = headings(text);
        let title = title.unwrap_or_default();
        Document { target: target.to_owned(), text: text.to_owned(), title, headings }
    };
    fs::create_dir_all(root.path().join("docs")).unwrap();
    fs::write(root.path().join("docs/source.rs"), "").unwrap();
    let documents = BTreeMap::from([
        ("docs/one.md".to_owned(), document("docs/one.html", text)),
        ("docs/other.md".to_owned(), document("docs/a/other.html", "# Other\n## A part: `x`\n")),
    ]);
    body(root.path(), "docs/one.md", &documents).map(|(body, _)| body)
}

#[test]
fn links_lead_to_pages_and_what_is_not_in_the_site_is_text() {
    let body =
        made("# One\n[a](other.md#a-part-x) [b](source.rs) [c](#one) [d](https://x.example)");
    let body = body.unwrap();
    assert!(body.contains("<h1 id=\"one\">"), "{body}");
    assert!(body.contains("<a href=\"a/other.html#a-part-x\">a</a> b <a href=\"#one\">c</a>"));
    assert!(made("# One\n<!-- a comment -->\n`<script>`").unwrap().contains("&lt;script&gt;"));
    for odd in [
        "[a](nowhere.md)",
        "[a](other.md#no-part)",
        "[a](../../../x)",
        "[a](javascript:x)",
        "![a](nowhere.png)",
        "![a](source.rs)",
        "<script>x</script>",
        "a <b onclick=\"x\">b</b>",
    ] {
        assert!(made(&format!("# One\n\n{odd}\n")).is_err(), "{odd}");
    }
}

#[test]
fn one_page_names_another_by_the_way_between_them() {
    for (from, to, way) in [
        ("index.html", "docs/a.html", "docs/a.html"),
        ("docs/a.html", "index.html", "../index.html"),
        ("docs/a.html", "docs/b.html", "b.html"),
        ("docs/x/a.html", "docs/y/b.html", "../y/b.html"),
        ("docs/x/a.html", "docs/b.html", "../b.html"),
    ] {
        assert_eq!(relative(from, to), way);
    }
}
