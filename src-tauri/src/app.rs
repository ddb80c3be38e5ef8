//! Puts the app together and runs it: runtime, plugins, tray, window, and the house behind them.

use anyhow::Context as _;
use nook_update::RunningProgram;
use tauri::{
    AppHandle, Builder, Context, DragDropEvent, Manager, RunEvent, Window, WindowEvent, Wry,
};
use tauri_plugin_window_state::StateFlags;

use crate::arguments::Arguments;
use crate::background::Background;
use crate::leaving::{self, Leaving};
use crate::news::News;
use crate::opening::{Opener, opening};
use crate::page_watch::PageWatch;
use crate::replies::Replies;
use crate::texts::Speech;
use crate::tray;
use crate::window::Whereabouts;
use crate::{commands, page_commands, running, tray_host, window};

/// Runs the app until it is told to quit.
/// `language`: the one that the window spoke last.
pub(crate) fn run(
    program: Context<Wry>,
    own: RunningProgram,
    arguments: Arguments,
    language: Option<&str>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    tauri::async_runtime::set(runtime.handle().clone());
    let (opener, opening) = opening();
    let background = Background::new(runtime.handle().clone());
    let app = with_parts(with_plugins(Builder::default()), arguments, language)
        .manage(background)
        .manage(own)
        .manage(opening)
        .invoke_handler(tauri::generate_handler![
            commands::arrived,
            page_commands::autostart,
            commands::call,
            page_commands::choose_model_file,
            page_commands::choose_models_folder,
            page_commands::diagnostics,
            commands::export_conversation,
            commands::holds,
            commands::open_link,
            commands::quit,
            commands::restart,
            commands::say,
            page_commands::set_autostart,
            commands::stop,
            page_commands::test_port,
            commands::turned_to,
            commands::watch,
        ])
        .on_window_event(happened)
        .setup(move |app| {
            set_up(app.handle(), arguments, opener);
            Ok(())
        })
        .build(program)
        .context("cannot open the window system")?;
    app.run(|_, event| stay(&event));
    Ok(())
}

/// Without a code the last window is gone, which does not end an app that lives in the tray.
fn stay(event: &RunEvent) {
    if let RunEvent::ExitRequested { code: None, api, .. } = event {
        api.prevent_exit();
    }
}

fn with_parts(builder: Builder<Wry>, arguments: Arguments, language: Option<&str>) -> Builder<Wry> {
    builder
        .manage(Whereabouts::new(arguments.page_kept.unwrap_or(window::PAGE_KEPT)))
        .manage(Leaving::default())
        .manage(News::default())
        .manage(tray::Wishes::default())
        .manage(arguments)
        .manage(PageWatch::new(&arguments))
        .manage(Speech::new(language))
        .manage(Replies::default())
}

fn with_plugins(builder: Builder<Wry>) -> Builder<Wry> {
    // Whether the window is seen is the tray's matter.
    let kept = StateFlags::SIZE | StateFlags::POSITION | StateFlags::MAXIMIZED;
    let builder = builder
        // First, so that a second start ends before it touches anything.
        .plugin(tauri_plugin_single_instance::init(|app, words, _| started_again(app, words)))
        .plugin(tauri_plugin_window_state::Builder::default().with_state_flags(kept).build())
        .plugin(tauri_plugin_dialog::init());
    // On Linux the program writes its entry itself (`login_start`).
    #[cfg(not(target_os = "linux"))]
    let builder = builder.plugin(tauri_plugin_autostart::Builder::new().arg("--hidden").build());
    builder
}

/// Something happened to the window: it is never closed, only put away.
fn happened(window: &Window, event: &WindowEvent) {
    let app = window.app_handle();
    match event {
        WindowEvent::CloseRequested { api, .. } => {
            api.prevent_close();
            app.state::<Background>().run("close-window", window::put_away(app.clone()));
        }
        WindowEvent::DragDrop(DragDropEvent::Drop { paths, .. }) => {
            app.state::<News>().dropped(paths);
        }
        _ => {}
    }
}

/// The program was started a second time: that one has ended, and this one does what it was asked.
fn started_again(app: &AppHandle, words: Vec<String>) {
    let arguments = Arguments::read(words.into_iter().skip(1));
    if arguments.toggle_share {
        tray::wish(app, tray::Wish::ToggleSharing);
    }
    if arguments.ask {
        window::ask(app);
    } else if !arguments.hidden && !arguments.toggle_share {
        window::show(app);
    }
}

fn set_up(app: &AppHandle, arguments: Arguments, opener: Opener) {
    let tray = tray::create(app);
    if let Some(tray) = &tray {
        app.manage(tray.clone());
    }
    let background = app.state::<Background>();
    let hidden = arguments.hidden && !arguments.ask && tray.is_some();
    background.run("first-window", first_window(app.clone(), hidden));
    background.run("house", running::run(app.clone(), tray, opener, arguments));
    if arguments.ask {
        app.state::<News>().ask();
    }
    if arguments.toggle_share {
        tray::wish(app, tray::Wish::ToggleSharing);
    }
    let asked = app.clone();
    background.run("signals", async move {
        nook_control::asked_by_the_system().await;
        leaving::leave(asked).await;
    });
}

/// Shows the window, or leaves it in the tray where one was asked for and exists.
async fn first_window(app: AppHandle, hidden: bool) {
    if !hidden {
        window::show_anew(app).await;
    } else if !tray_host::is_there().await {
        // It is there at least, and minimised.
        window::put_away_anew(app).await;
    }
}
