//! Small crates whose cycles are known.

use super::*;

const MANIFEST: (&str, &str) = ("crates/a/Cargo.toml", "[package]\n");

/// The uses in a crate of these files below `crates/a/src/`, as `user>used`.
fn uses(files: &[(&str, &str)]) -> Vec<String> {
    let package = packages(&crate_of(files)).remove(0);
    let told = |&(from, to): &(usize, usize)| {
        let name = |at| package.short_name(at).trim_end_matches(".rs");
        format!("{}>{}", name(from), name(to))
    };
    let mut uses = package.uses.keys().map(told).collect::<Vec<_>>();
    uses.sort();
    uses
}

fn crate_of(files: &[(&str, &str)]) -> Tree {
    let files = files.iter().map(|(path, text)| (format!("crates/a/src/{path}"), *text));
    let files = files.collect::<Vec<_>>();
    let files = files.iter().map(|(path, text)| (path.as_str(), *text));
    Tree::of(&files.chain([MANIFEST]).collect::<Vec<_>>())
}

/// A crate in which `count` modules use each other in one circle.
fn ring(count: usize) -> Tree {
    let declared: String = (0..count).map(|at| format!("mod m{at};\n")).collect();
    let modules = (0..count).map(|at| {
        let next = (at + 1) % count;
        (format!("m{at}.rs"), format!("use crate::m{next}::Thing as _;\npub struct Thing;\n"))
    });
    let modules = modules.collect::<Vec<_>>();
    let mut files = vec![("lib.rs", declared.as_str())];
    files.extend(modules.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    crate_of(&files)
}

fn sentences(tree: &Tree) -> Vec<String> {
    check(tree).into_iter().map(|finding| finding.to_string()).collect()
}

#[test]
fn a_circle_of_more_than_three_modules_is_found() {
    assert_eq!(sentences(&ring(3)), [""; 0]);
    let found = sentences(&ring(4));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("crates/a/src/m0.rs:0: 4 modules use each other"), "{found:?}");
    assert!(found[0].contains("m0.rs → m1.rs → m2.rs → m3.rs → m0.rs"), "{found:?}");
}

#[test]
fn every_way_to_name_another_module_is_a_use() {
    for code in [
        "use crate::b::Thing;",
        "use super::b::{self, Thing as Other};",
        "use crate::b::Work as _;",
        "fn f() { crate::b::work(); }",
        "fn f(_: &super::b::Thing) {}",
        "fn f() { use crate::b::work; work() }",
        "impl crate::b::Work for u8 {}",
        "fn f(x: u8) { match x { crate::b::LIMIT => {} _ => {} } }",
        "fn f() { say!(\"{}\", crate::b::LIMIT); }",
        "use crate::*; fn f() { b::work() }",
        "use crate::b as other; fn f() { other::work() }",
    ] {
        let lib = ("lib.rs", "mod a;\nmod b;\n");
        let found = uses(&[lib, ("a.rs", code), ("b.rs", "pub fn work() {}\n")]);
        assert!(found.contains(&"a>b".to_owned()), "{code}: {found:?}");
    }
}

#[test]
fn tests_fields_variables_and_foreign_names_are_no_uses() {
    for code in [
        "#[cfg(test)]\nmod tests { use crate::b::Thing; }",
        "#[cfg(test)]\nuse crate::b::Thing;",
        "#[test]\nfn f() { crate::b::work(); }",
        "fn f(b: u8) { let c = b; say!(c.b); }",
        "use std::collections::BTreeMap; fn f() { tokio::b::work() }",
        "//! [`crate::b::Thing`]\npub(in crate::b) fn f() {}",
    ] {
        let found = uses(&[("lib.rs", "mod a;\nmod b;\n"), ("a.rs", code), ("b.rs", "")]);
        assert_eq!(found, [""; 0], "{code}");
    }
}

#[test]
fn names_are_followed_to_the_file_that_defines_them() {
    let found = uses(&[
        ("lib.rs", "mod a;\nmod b;\npub use b::Thing;\npub use b::inner::*;\n"),
        ("a.rs", "use crate::{Thing, deep};\nuse crate::b::Renamed;\n"),
        ("b.rs", "mod inner;\npub(crate) use inner::Old as Renamed;\npub struct Thing;\n"),
        ("b/inner.rs", "pub fn deep() {}\npub struct Old;\n"),
    ]);
    assert_eq!(found, ["a>b", "a>b/inner"]);
}

#[test]
fn a_parent_uses_a_child_only_by_using_it() {
    let child = ("b.rs", "use super::Config;\npub struct Thing;\n");
    let lib = "mod b;\npub use b::Thing;\npub struct Config;\n";
    assert_eq!(uses(&[("lib.rs", lib), child]), ["b>lib"]);
    let lib = "mod b;\npub use b::Thing;\npub struct Config { thing: Thing }\n";
    assert_eq!(uses(&[("lib.rs", lib), child]), ["b>lib", "lib>b"]);
    // What a parent offers of others is a use.
    let lib = ("lib.rs", "mod b;\nmod c;\n");
    let files = [lib, ("b.rs", "pub struct Thing;"), ("c.rs", "pub(crate) use crate::b::Thing;")];
    assert_eq!(uses(&files), ["c>b"]);
}

#[test]
fn an_inline_module_is_part_of_its_file() {
    let inline = "mod inline { use super::super::c::Thing; pub fn f() {} }\nfn g() { inline::f() }";
    let files = [("lib.rs", "mod b;\nmod c;\n"), ("b.rs", inline), ("c.rs", "pub struct Thing;")];
    assert_eq!(uses(&files), ["b>c"]);
}

#[test]
fn a_level_is_the_modules_of_one_parent_with_what_they_contain() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
        ("a.rs", "mod inner;\nuse inner::Thing;\npub struct Own;\n"),
        // The circle goes in by one file of a module and out by another.
        ("a/inner.rs", "use super::Own;\nuse crate::b::Thing as Next;\npub struct Thing;\n"),
        ("b.rs", "use crate::c::Thing as Next;\npub struct Thing;\n"),
        ("c.rs", "use crate::d::Thing as Next;\npub struct Thing;\n"),
        ("d.rs", "use crate::a::Own;\npub struct Thing;\n"),
    ];
    let found = sentences(&crate_of(&files));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("a.rs → b.rs → c.rs → d.rs → a.rs"), "{found:?}");
}

#[test]
fn a_parent_and_its_children_may_use_each_other() {
    let names = ["b", "c", "d", "e", "f"];
    let declared = names.map(|name| format!("mod {name};\nuse {name}::Thing as _;\n")).concat();
    let a = format!("{declared}pub struct Own;\n");
    let child = "use super::Own;\npub struct Thing;\n";
    let paths = names.map(|name| format!("a/{name}.rs"));
    let mut files = vec![("lib.rs", "mod a;\n"), ("a.rs", a.as_str())];
    files.extend(paths.iter().map(|path| (path.as_str(), child)));
    assert_eq!(sentences(&crate_of(&files)), [""; 0]);
    // At the top of a crate the root is a module like the others.
    let paths = names.map(|name| format!("{name}.rs"));
    let mut files = vec![("lib.rs", a.as_str())];
    files.extend(paths.iter().map(|path| (path.as_str(), child)));
    let found = sentences(&crate_of(&files));
    assert!(found.len() == 1 && found[0].contains("6 modules"), "{found:?}");
}

#[test]
fn a_circle_deeper_down_is_found() {
    let lib = "mod a;\n";
    let a = "mod b;\nmod c;\nmod d;\nmod e;\n";
    let next = |name: &str| format!("use super::{name}::Thing as _;\npub struct Thing;\n");
    let texts = ["c", "d", "e", "b"].map(next);
    let files = [("a/b.rs", 0), ("a/c.rs", 1), ("a/d.rs", 2), ("a/e.rs", 3)];
    let mut files = files.map(|(path, at)| (path, texts[at].as_str())).to_vec();
    files.extend([("lib.rs", lib), ("a.rs", a)]);
    let found = sentences(&crate_of(&files));
    assert!(
        found.len() == 1 && found[0].contains("a/b.rs → a/c.rs → a/d.rs → a/e.rs"),
        "{found:?}"
    );
}

#[test]
fn the_figures_count_files_lines_and_modules() {
    let package = packages(&crate_of(&[
        ("lib.rs", "mod b;\nmod c;\n"),
        ("b.rs", "mod inner;\nuse inner::Thing;\nuse crate::c::Other;\npub struct Config;\n"),
        ("b/inner.rs", "use super::Config;\npub struct Thing;\n#[cfg(test)]\nmod tests {\n}\n"),
        ("c.rs", "use crate::b::Config;\npub struct Other;\n"),
    ]));
    // Files, lines, modules at the top; cycle b, c with 8 lines; all levels; b, inner, c.
    assert_eq!(package[0].row(), "| crates/a | 4 | 10 | 3 | 2 | 8 | 2 | 3 |");
}
