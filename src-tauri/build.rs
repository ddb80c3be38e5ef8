//! Prepares the window's permissions and says early when its pages have not been built.

use std::path::Path;

/// What the page may ask for; `capabilities/main.json` allows exactly these.
const COMMANDS: &[&str] = &[
    "add_port_key",
    "arrived",
    "autostart",
    "cancel_pairing",
    "change_download",
    "change_setting",
    "choose_model_file",
    "choose_models_folder",
    "confine_conversation",
    "conversations",
    "copy_model",
    "delete_conversation",
    "diagnostics",
    "export_conversation",
    "forget",
    "found_models",
    "free_memory",
    "import_conversation",
    "import_model",
    "instruct_conversation",
    "join",
    "messages",
    "move_models",
    "open_link",
    "pause_sharing",
    "port_key",
    "pull_model",
    "quit",
    "remove_model",
    "remove_port_key",
    "rename_conversation",
    "renew_port_key",
    "resume_sharing",
    "say",
    "set_autostart",
    "set_name",
    "set_sharing",
    "set_trust",
    "show_code",
    "stop",
    "stop_moving_models",
    "test_port",
    "turned_to",
    "watch",
];

fn main() {
    println!("cargo::rerun-if-changed=../ui/dist");
    if !Path::new("../ui/dist/index.html").exists() {
        println!(
            "cargo::error=the window's pages are not built: run `npm ci && npm run build` in ui/ first"
        );
        return;
    }
    let manifest = tauri_build::AppManifest::new().commands(COMMANDS);
    if let Err(error) =
        tauri_build::try_build(tauri_build::Attributes::new().app_manifest(manifest))
    {
        println!("cargo::error=tauri-build: {error:#}");
    }
}
