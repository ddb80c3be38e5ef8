//! The window's TypeScript types, made from the program's own (tests only).
//!
//! `ui/src/generated` is committed, so that the pages build without Rust. The test below makes the
//! same files afresh and compares; with `INGLENOOK_UPDATE=1` it writes them instead.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nook_node::views;
use ts_rs::{Config, TS};

use crate::asks;

/// Where the pages look for the types.
const GENERATED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ui/src/generated");

#[test]
fn the_windows_types_are_those_of_the_program() {
    let fresh = generate();
    if nook_base::env::text("INGLENOOK_UPDATE").is_some() {
        let _ = fs::remove_dir_all(GENERATED);
        fs::create_dir_all(GENERATED).unwrap();
        for (name, text) in &fresh {
            fs::write(Path::new(GENERATED).join(name), text).unwrap();
        }
    }
    let committed = read_folder(Path::new(GENERATED));
    assert!(
        committed == fresh,
        "ui/src/generated is out of date: run `INGLENOOK_UPDATE=1 cargo test -p inglenook bindings`.\n\
         Different: {:?}",
        fresh
            .keys()
            .chain(committed.keys())
            .filter(|name| fresh.get(*name) != committed.get(*name))
            .collect::<Vec<_>>()
    );
}

fn generate() -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    // JSON has one kind of number; ids and times stay far below 2^53.
    let config = Config::new().with_large_int("number").with_out_dir(folder.path());
    views::HouseView::export_all(&config).unwrap();
    views::ConversationView::export_all(&config).unwrap();
    views::MessageView::export_all(&config).unwrap();
    views::ReplyEvent::export_all(&config).unwrap();
    views::Problem::export_all(&config).unwrap();
    asks::WindowNews::export_all(&config).unwrap();
    asks::TurnAsk::export_all(&config).unwrap();
    asks::JoinTarget::export_all(&config).unwrap();
    asks::TurnView::export_all(&config).unwrap();
    asks::DiagnosticsView::export_all(&config).unwrap();
    views::ExportAsk::export_all(&config).unwrap();
    views::SettingAsk::export_all(&config).unwrap();
    read_folder(folder.path())
}

fn read_folder(folder: &Path) -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return BTreeMap::new();
    };
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path: PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect()
}
