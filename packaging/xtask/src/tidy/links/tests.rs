//! Documents with links and commands that are there, and that are not.

use super::*;

const GUIDE: &str = "# A guide\n\n## Two words\n\n## Two words\n\n## `nook up`: what's new?\n\n\
                     <a id=\"old-name\"></a>\n";

const ARGUMENTS: &str = "
    #[derive(Debug, Parser)]
    #[command(name = \"nook\")]
    struct Arguments { #[command(subcommand)] command: Command }
    #[derive(Subcommand)]
    enum Command { Up(Up), FreeMemory, Models(Models), #[command(visible_alias = \"rm\")] Remove(Up) }
    #[derive(Args)]
    struct Up { quick: bool }
    #[derive(Args)]
    struct Models { #[command(subcommand)] order: Option<Order> }
    #[derive(Subcommand)]
    enum Order { Pull { name: String }, Copy }
";

#[track_caller]
fn check_text(text: &str, found: &[&str]) {
    let tree = Tree::of(&[
        ("README.md", text),
        ("docs/guide.md", GUIDE),
        ("docs/pictures/a b.png", ""),
        ("crates/nook-cli/src/arguments.rs", ARGUMENTS),
    ]);
    let findings = check(&tree);
    assert_eq!(findings.len(), found.len(), "{text}: {findings:?}");
    for (finding, part) in findings.iter().zip(found) {
        assert!(finding.to_string().contains(part), "{finding}");
    }
}

#[test]
fn links_to_files_folders_and_the_internet_are_fine() {
    check_text(
        "[a](docs/guide.md) [b](docs) [c](./docs/guide.md#two-words) [d](/docs/guide.md)",
        &[],
    );
    check_text("![e](docs/pictures/a%20b.png) <img src=\"docs/pictures/a%20b.png\">", &[]);
    check_text("[f](https://example.org/x.md#y) <mailto:a@example.org> [g][h]\n\n[h]: docs", &[]);
    check_text("[i](crates/nook-cli/src/arguments.rs#L3) `[j](k.md)` [x] a[1]", &[]);
}

#[test]
fn a_link_that_leads_nowhere_is_found_with_its_line() {
    check_text("one\n\ntwo [a](docs/gone.md)", &["README.md:3: `docs/gone.md`: there is no"]);
    check_text("[a](guide.md)", &["there is no `guide.md`"]);
    check_text("![a](docs/pictures/a.png)", &["there is no `docs/pictures/a.png`"]);
    check_text("<p>\n<img src=\"docs/b.png\">\n</p>", &["there is no `docs/b.png`"]);
    check_text("[a](../shared/notes.md)", &["leads out of the repository"]);
    check_text("[a][b]\n\n[b]: docs/gone.md", &["there is no `docs/gone.md`"]);
    check_text("[a][nowhere]", &["`[…][nowhere]` is defined nowhere"]);
    check_text("[a](Docs/guide.md)", &["there is no `Docs/guide.md`"]);
}

#[test]
fn an_anchor_is_a_heading_by_the_rules_of_github() {
    let guide = |anchor: &str| format!("[a](docs/guide.md#{anchor})");
    for fine in ["a-guide", "two-words", "two-words-1", "nook-up-whats-new", "old-name"] {
        check_text(&guide(fine), &[]);
    }
    for wrong in ["two-words-2", "Two-words", "nook-up-what's-new", "gone"] {
        check_text(&guide(wrong), &["has no heading"]);
    }
    check_text("# Über_uns – x\n[a](#über_uns--x) [b](#uber_uns)", &["`#uber_uns`"]);
}

#[test]
fn a_command_is_one_that_the_program_has() {
    check_text("`nook up`, `nook free-memory`, `nook rm NAME`, `nook worker`, `nook help`", &[]);
    check_text("`nook models`, `nook models pull hf:a/b`, `nook models pull|copy …`", &[]);
    check_text("`nook --help`, `nook …`, `nook up quick`, `nookery down`, `cargo xtask any`", &[]);
    check_text("`nook down`", &["`nook down` is no command; there are: free-memory, models"]);
    check_text("```sh\n$ nook up\n  nook models gone x\n```", &[":3: `nook models gone`"]);
    check_text("| a |\n| --- |\n| `nook models pull\\|push` |", &["`nook models push`"]);
    check_text("`nook pull`", &["`nook pull`"]);
}
