//! What is this program's own besides the chat: dialogs, the start at login, looking at itself.

use nook_api::PortSettings;
use nook_api::views::{Problem, Wording};
use nook_base::ErrorCode;
use tauri::{AppHandle, State, WebviewWindow};
use tauri_plugin_dialog::DialogExt;
use tokio::sync::oneshot;

use crate::arguments::Arguments;
use crate::asks::DiagnosticsView;
use crate::commands::Answer;
use crate::login_start::LoginStartError;
use crate::opening::Opening;
use crate::{log_file, login_start, page_paths, port_test, tray_host};

/// Asks for the file of a model in the desktop's own dialog; nothing when none was chosen. A page
/// is never told where a file lies that is chosen in its own field.
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

/// Asks the port as another program would; returns the status that it answers with.
#[tauri::command]
pub(crate) async fn test_port(opening: State<'_, Opening>) -> Answer<u16> {
    let house = opening.house().await?;
    // The key goes to nobody else who may have that address.
    if !house.now().port.on {
        let sentence = "The port is not open, so there is nothing to test.".to_owned();
        let code = ErrorCode::BadRequest.name().to_owned();
        return Err(Problem { code, sentence, wording: None });
    }
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
        log: log_file::shown_place(),
    })
}
