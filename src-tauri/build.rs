//! Prepares the window's permissions and says early when its pages have not been built.

use std::path::Path;

/// What the window may ask for: one list, from which the commands are read.
const CAPABILITY: &str = include_str!("capabilities/main.json");

/// Stands before each command of the list.
const ALLOW: &str = "allow-";

/// The commands that the capability allows. They are known by their names alone, so every text of
/// the file that begins so is one.
fn commands() -> Vec<&'static str> {
    let texts = CAPABILITY.split('"');
    let allowed = texts.filter_map(|text| text.strip_prefix(ALLOW));
    allowed.map(|name| &*name.replace('-', "_").leak()).collect()
}

fn main() {
    println!("cargo::rerun-if-changed=../ui/dist");
    if !Path::new("../ui/dist/index.html").exists() {
        println!(
            "cargo::error=the window's pages are not built: run `npm ci && npm run build` in ui/ first"
        );
        return;
    }
    let manifest = tauri_build::AppManifest::new().commands(commands().leak());
    if let Err(error) =
        tauri_build::try_build(tauri_build::Attributes::new().app_manifest(manifest))
    {
        println!("cargo::error=tauri-build: {error:#}");
    }
}
