//! What the pages beside the chat may ask for: models, settings, the port, diagnostics.

use std::path::PathBuf;

use nook_base::ErrorCode;
use nook_node::views::{
    DownloadAsk, DownloadView, FoundView, ModelView, Problem, SettingAsk, Wording,
};
use nook_node::{PauseFor, PortSettings};
use tauri::{AppHandle, State, WebviewWindow};
use tauri_plugin_dialog::DialogExt;
use tokio::sync::oneshot;

use crate::arguments::Arguments;
use crate::asks::DiagnosticsView;
use crate::commands::Answer;
use crate::login_start::LoginStartError;
use crate::opening::Opening;
use crate::{log_file, login_start, page_paths, port_test, tray_host};

/// Adds the GGUF file at a path that the person typed or dropped here.
#[tauri::command]
pub(crate) async fn import_model(path: String, opening: State<'_, Opening>) -> Answer<ModelView> {
    let path = PathBuf::from(path.trim());
    if !path.is_absolute() {
        return Err(Problem {
            code: ErrorCode::BadRequest.name().to_owned(),
            sentence: "Type the whole path of the file, from the root of the disk.".to_owned(),
            wording: Some(Wording::WholePath),
        });
    }
    Ok(opening.house().await?.import_model(path, None).await?)
}

/// Asks for the file of a model in the desktop's own dialog; nothing when none was chosen. A page is
/// never told where a file lies that is chosen in its own field.
#[tauri::command]
pub(crate) async fn choose_model_file(window: WebviewWindow) -> Answer<Option<String>> {
    let (chosen, wait) = oneshot::channel();
    let dialog = window.dialog().file().set_parent(&window).add_filter("GGUF", &["gguf"]);
    dialog.pick_file(move |file| {
        // The page may be gone meanwhile.
        let _ = chosen.send(file);
    });
    let file = wait.await.ok().flatten().and_then(|file| file.into_path().ok());
    file.map(|path| page_paths::text_of(&path)).transpose()
}

/// Asks for a folder in the desktop's own dialog; nothing when none was chosen.
#[tauri::command]
pub(crate) async fn choose_models_folder(window: WebviewWindow) -> Answer<Option<String>> {
    let (chosen, wait) = oneshot::channel();
    window.dialog().file().set_parent(&window).pick_folder(move |folder| {
        // The page may be gone meanwhile.
        let _ = chosen.send(folder);
    });
    let folder = wait.await.ok().flatten().and_then(|folder| folder.into_path().ok());
    folder.map(|path| page_paths::text_of(&path)).transpose()
}

/// Moves the models to a folder, or back to the usual one; the house shows how far it is.
#[tauri::command]
pub(crate) async fn move_models(to: Option<String>, opening: State<'_, Opening>) -> Answer<()> {
    Ok(opening.house().await?.move_models(to.map(PathBuf::from)).await?)
}

#[tauri::command]
pub(crate) async fn stop_moving_models(opening: State<'_, Opening>) -> Answer<()> {
    Ok(opening.house().await?.stop_moving_models().await?)
}

/// Begins a download, or goes on with it; the house shows how far it is.
#[tauri::command]
pub(crate) async fn pull_model(
    source: String,
    opening: State<'_, Opening>,
) -> Answer<DownloadView> {
    Ok(opening.house().await?.pull(source, None).await?)
}

/// Begins to copy a model from a device of the house, or goes on with that.
#[tauri::command]
pub(crate) async fn copy_model(model: String, opening: State<'_, Opening>) -> Answer<DownloadView> {
    Ok(opening.house().await?.copy_model(model, None).await?)
}

#[tauri::command]
pub(crate) async fn change_download(
    key: String,
    ask: DownloadAsk,
    opening: State<'_, Opening>,
) -> Answer<()> {
    Ok(opening.house().await?.change_download(key, ask).await?)
}

/// Model files of other programs on this computer.
#[tauri::command]
pub(crate) async fn found_models(opening: State<'_, Opening>) -> Answer<Vec<FoundView>> {
    Ok(opening.house().await?.found_models().await?)
}

#[tauri::command]
pub(crate) async fn remove_model(name: String, opening: State<'_, Opening>) -> Answer<()> {
    Ok(opening.house().await?.remove_model(name).await?)
}

#[tauri::command]
pub(crate) async fn change_setting(setting: SettingAsk, opening: State<'_, Opening>) -> Answer<()> {
    Ok(opening.house().await?.change_setting(setting).await?)
}

/// Lends nothing for an hour, or until the next morning.
#[tauri::command]
pub(crate) async fn pause_sharing(until_tomorrow: bool, opening: State<'_, Opening>) -> Answer<()> {
    let span = if until_tomorrow { PauseFor::UntilTomorrow } else { PauseFor::Hour };
    Ok(opening.house().await?.pause_sharing(span).await?)
}

#[tauri::command]
pub(crate) async fn resume_sharing(opening: State<'_, Opening>) -> Answer<()> {
    Ok(opening.house().await?.resume_sharing().await?)
}

#[tauri::command]
pub(crate) async fn free_memory(opening: State<'_, Opening>) -> Answer<()> {
    Ok(opening.house().await?.free_memory().await?)
}

/// Whether this program starts, in the tray, when the person logs in.
#[tauri::command]
pub(crate) async fn autostart(app: AppHandle) -> Answer<bool> {
    login_start::is_on(&app).map_err(|error| autostart_problem(&error))
}

#[tauri::command]
pub(crate) async fn set_autostart(on: bool, app: AppHandle) -> Answer<()> {
    login_start::set(&app, on).map_err(|error| autostart_problem(&error))
}

fn autostart_problem(error: &LoginStartError) -> Problem {
    Problem {
        code: ErrorCode::BadRequest.name().to_owned(),
        sentence: format!("The start at login cannot be changed here: {error}."),
        wording: Some(Wording::LoginStart { reason: error.to_string().into() }),
    }
}

/// The key of the port, for the person to copy.
#[tauri::command]
pub(crate) async fn port_key(opening: State<'_, Opening>) -> Answer<String> {
    Ok(opening.house().await?.port_settings().await?.key.0)
}

#[tauri::command]
pub(crate) async fn renew_port_key(opening: State<'_, Opening>) -> Answer<String> {
    Ok(opening.house().await?.renew_port_key().await?.0)
}

/// A new key for one program; it is told this once.
#[tauri::command]
pub(crate) async fn add_port_key(opening: State<'_, Opening>, name: String) -> Answer<String> {
    Ok(opening.house().await?.add_port_key(name).await?.0)
}

#[tauri::command]
pub(crate) async fn remove_port_key(opening: State<'_, Opening>, name: String) -> Answer<()> {
    Ok(opening.house().await?.remove_port_key(name).await?)
}

/// Asks the port as another program would; returns the status that it answers with.
#[tauri::command]
pub(crate) async fn test_port(opening: State<'_, Opening>) -> Answer<u16> {
    let house = opening.house().await?;
    let port = house.port_settings().await?;
    port_test::ask(PortSettings::from_here(port.address), &port.key).await
}

#[tauri::command]
pub(crate) async fn diagnostics(
    opening: State<'_, Opening>,
    arguments: State<'_, Arguments>,
) -> Answer<DiagnosticsView> {
    Ok(DiagnosticsView {
        findings: opening.house().await?.doctor().await?,
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        web_view: tauri::webview_version().ok(),
        safe_graphics: arguments.safe_graphics,
        tray: tray_host::is_there().await,
        log: nook_node::data_folder(None)
            .ok()
            .map(|data| log_file::place(&data).display().to_string()),
    })
}
