//! The list that ships, and lists that a later program could have.

use super::*;
use crate::source::Hub;

/// Entries are held to the time that the list says it was written at: whoever changes the one
/// changes both. The first eight bytes of the file's SHA-256, hexadecimal.
const WRITTEN: (u64, &str) = (1_795_915_800, "995db33ca05d5a9e");

#[test]
fn the_list_that_ships_is_good() {
    let list = Catalogue::built_in().unwrap();
    assert!(list.is_built_in() && (10..=16).contains(&list.entries().len()));
    for entry in list.entries() {
        let url = entry.order.source.url(&Hub::usual());
        assert_eq!(url.scheme(), "https", "{}", entry.id);
        assert!(entry.costs.layer_bytes * u64::from(entry.costs.layers) < entry.bytes);
        assert!(entry.about.en.ends_with('.') && entry.about.de.ends_with('.'), "{}", entry.id);
        assert_eq!(list.of_source(&entry.order.source), Some(entry));
    }
    assert!(list.entries().is_sorted_by_key(|entry| entry.bytes), "smallest first");
    assert_eq!(list.get("QWEN3.5-4B").map(|entry| entry.rank), Some(1));
    assert!(list.get("gpt-9").is_none());
}

#[test]
fn whoever_changes_the_list_says_when() {
    use sha2::Digest as _;
    let models = BUILT_IN.split_once("[[model]]").unwrap().1;
    let digest = data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(models)[..8]);
    let list = Catalogue::built_in().unwrap();
    assert_eq!(
        (list.written(), digest.as_str()),
        WRITTEN,
        "models of the list were changed: write the present time into `written`, and both here"
    );
}

/// What is wrong with the list with one line changed, read as the one that ships is.
#[track_caller]
fn check_refused(from: &str, to: &str, why: &str) {
    assert!(BUILT_IN.contains(from), "{from}");
    let changed = BUILT_IN.replacen(from, to, 1);
    let error = Catalogue::of_this_build(&changed).unwrap_err().to_string();
    assert!(error.contains(why), "{to}: {error}");
}

#[test]
fn a_list_that_says_something_impossible_is_refused_whole_where_it_ships() {
    check_refused("rank = 15", "rank = 15\nstars = 5", "unknown field stars");
    check_refused("format = 1", "format = 1\nstars = 5", "unknown field stars");
    check_refused("rank = 15", "", "missing field");
    check_refused("rank = 15", "rank = 1\n", "its rank");
    check_refused("\"lfm2.5-1.2b\"", "\"smollm2-360m\"", "its id");
    check_refused("\"lfm2.5-1.2b\"", "\"Qwen 3\"", "small letters");
    check_refused("smollm2-360m-instruct-q8_0.gguf", "../../x.gguf", "names no file");
    check_refused("smollm2-360m-instruct-q8_0.gguf", "x.zip", "names no file");
    check_refused("rank = 15", "rank = 15\nsha256 = \"12\"", "64 small");
    check_refused("386_000_000", "1", "do not go together");
    check_refused("386_000_000", "-1", "invalid value");
    check_refused("rank = 15", "rank = 15\nactive = 0.4", "not with more");
    check_refused("rank = 15", "rank = 15\nactive = 0", "not with more");
    check_refused("rank = 15", "rank = 15\nends_bytes = 386_000_001", "do not go together");
    check_refused("layers = 32", "layers = 0", "do not go together");
    check_refused("billions = 0.36", "billions = nan", "parameters");
    check_refused("languages = [\"en\"]", "languages = []", "languages");
    check_refused("Very small", "\\u001b[31mVery small", "one short line");
    check_refused("Very small", "\\u202eVery small", "one short line");
    check_refused("\"SmolLM2 360M\"", &format!("\"{}\"", "x".repeat(97)), "one short line");
    check_refused("inglenook-catalogue", "inglenook-update", "no catalogue");
    check_refused("2026-11-29T01:30:00Z", "2026-11-28", "no time");
    check_refused("2026-11-29T01:30:00Z", "2026-11-28T21:40:00+01:00", "no time");
    check_refused("2026-11-29T01:30:00Z", "1969-11-28T12:00:00Z", "no time");
    check_refused("format = 1", "format = 2", "too old for (2, known up to 1)");
}

#[test]
fn of_a_later_list_what_is_unknown_is_passed_over_and_entries_that_are_not_understood_left_out() {
    let whole = Catalogue::built_in().unwrap();
    let read = |from: &str, to: &str| {
        assert!(BUILT_IN.contains(from), "{from}");
        Catalogue::read(&BUILT_IN.replacen(from, to, 1)).unwrap()
    };
    for (from, to) in [
        ("rank = 15", "rank = 15\nstars = 5"),
        ("format = 1", "format = 1\npublisher = { name = \"x\" }"),
        ("about.en", "about.fr = \"Bon.\"\nabout.en"),
    ] {
        let list = read(from, to);
        assert!(!list.is_built_in() && list.entries() == whole.entries(), "{to}");
    }
    for (from, to) in [
        ("rank = 15", ""),
        ("rank = 15", "rank = \"first\""),
        ("386_000_000", "-1"),
        ("\"smollm2-360m\"", "\"../x\""),
        ("\"smollm2-360m\"", "7"),
        ("rank = 15", "rank = 15\nsince = \"soon\""),
        ("repository = \"HuggingFaceTB", "place = \"HuggingFaceTB"),
    ] {
        assert_eq!(read(from, to).entries(), &whole.entries()[1..], "{to}");
    }
    // Of two with one id or one rank the first counts.
    assert_eq!(
        read("\"lfm2.5-1.2b\"", "\"smollm2-360m\"").entries().len(),
        whole.entries().len() - 1
    );
    let later = read("rank = 15", "rank = 15\nsince = \"9.0.0\"");
    assert_eq!(later.entries()[0].since, Some(Version::new(9, 0, 0)));
    let ours = later.only(|entry| entry.since.is_none());
    assert_eq!((ours.entries(), ours.written()), (&whole.entries()[1..], whole.written()));
}

#[test]
fn a_list_without_an_entry_or_with_too_many_is_none() {
    let head = BUILT_IN.split_once("[[model]]").unwrap().0;
    let one = &BUILT_IN[head.len()..BUILT_IN.len()];
    let one = &one[..one[1..].find("[[model]]").unwrap() + 1];
    let unreadable = |text: &str| {
        let outcome = Catalogue::read(text);
        assert!(matches!(outcome, Err(CatalogueError::Unreadable { .. })), "{outcome:?}");
    };
    assert!(Catalogue::read(&format!("{head}{one}")).is_ok());
    assert_eq!(Catalogue::read(&format!("{head}model = []")), Err(CatalogueError::Empty));
    let odd = one.replace("rank", "place");
    assert_eq!(Catalogue::read(&format!("{head}{odd}")), Err(CatalogueError::Empty));
    unreadable(&format!("{head}{}", one.repeat(65)));
    let deep = format!("{head}x = {}", "[".repeat(100_000));
    for odd in ["", "\u{0}", "model = 7", "{\"kind\": \"inglenook-catalogue\"}", head, &deep] {
        unreadable(odd);
    }
}

#[test]
fn a_pinned_entry_is_fetched_at_its_revision_and_held_to_its_digest() {
    let digest = "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031";
    let pinned = format!("rank = 15\nrevision = \"0a1b2c\"\nsha256 = \"{digest}\"");
    let list = Catalogue::read(&BUILT_IN.replacen("rank = 15", &pinned, 1)).unwrap();
    let order = &list.entries()[0].order;
    assert_eq!(order.pin.sha256.as_deref(), Some(digest));
    assert!(order.source.url(&Hub::usual()).path().contains("/resolve/0a1b2c/"));
}
