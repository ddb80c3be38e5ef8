//! The tray icon and its menu, in step with the house: status line, share switch, pages, quit.
//!
//! The menu is built once; the house's view only changes the text, the check and the icon. Where no
//! tray can be made the app goes on with its window.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nook_node::views::{HouseView, SharingState};
use nook_node::{House, Sharing};
use tauri::menu::{
    CheckMenuItem, CheckMenuItemBuilder, Menu, MenuEvent, MenuItem, MenuItemBuilder,
    PredefinedMenuItem,
};
use tauri::tray::{MouseButton, MouseButtonState, TrayIcon, TrayIconBuilder, TrayIconEvent};
use tauri::{AppHandle, Manager, Wry};

use crate::app::Background;
use crate::asks::Page;
use crate::opening::Opening;
use crate::{icons, leaving, texts, window};

const STATUS: &str = "status";
const SHARE: &str = "share";
const CHAT: &str = "chat";
const DEVICES: &str = "devices";
const QUIT: &str = "quit";

/// The tray's handles.
#[derive(Clone)]
pub(crate) struct Tray {
    icon: TrayIcon<Wry>,
    status: MenuItem<Wry>,
    share: CheckMenuItem<Wry>,
}

/// Builds the tray; absent where this desktop cannot have one.
pub(crate) fn create(app: &AppHandle) -> Option<Tray> {
    // The icon's system library is opened when it is first used, and its loader panics where it is
    // missing. The window works without it.
    match catch_unwind(AssertUnwindSafe(|| build(app))) {
        Ok(Ok(tray)) => Some(tray),
        Ok(Err(error)) => {
            tracing::warn!(%error, "no tray icon");
            None
        }
        Err(_) => {
            tracing::warn!("no tray icon: the system's library for it is missing");
            None
        }
    }
}

fn build(app: &AppHandle) -> tauri::Result<Tray> {
    let status = MenuItemBuilder::with_id(STATUS, texts::STARTING).enabled(false).build(app)?;
    let share = CheckMenuItemBuilder::with_id(SHARE, texts::SHARE).enabled(false).build(app)?;
    let menu = Menu::with_items(
        app,
        &[
            &status,
            &share,
            &PredefinedMenuItem::separator(app)?,
            &MenuItemBuilder::with_id(CHAT, texts::OPEN_CHAT).build(app)?,
            &MenuItemBuilder::with_id(DEVICES, texts::DEVICES).build(app)?,
            &PredefinedMenuItem::separator(app)?,
            &MenuItemBuilder::with_id(QUIT, texts::QUIT).build(app)?,
        ],
    )?;
    let icon = TrayIconBuilder::with_id("main")
        .icon(icons::of(SharingState::Idle))
        .icon_as_template(cfg!(target_os = "macos"))
        .tooltip(texts::NAME)
        .menu(&menu)
        // Windows people expect the window on a left click and the menu on a right one.
        .show_menu_on_left_click(!cfg!(target_os = "windows"))
        .on_menu_event(chosen)
        .on_tray_icon_event(clicked)
        .build(app)?;
    Ok(Tray { icon, status, share })
}

fn chosen(app: &AppHandle, event: MenuEvent) {
    match event.id().as_ref() {
        SHARE => {
            let app_handle = app.clone();
            app.state::<Background>().run("tray-share", toggle(app_handle));
        }
        CHAT => window::show_page(app, Page::Chat),
        DEVICES => window::show_page(app, Page::Devices),
        QUIT => app.state::<Background>().run("quit", leaving::leave(app.clone())),
        _ => {}
    }
}

fn clicked(icon: &TrayIcon<Wry>, event: TrayIconEvent) {
    let left = matches!(
        event,
        TrayIconEvent::Click { button: MouseButton::Left, button_state: MouseButtonState::Up, .. }
    );
    if left && cfg!(target_os = "windows") {
        window::show(icon.app_handle());
    }
}

/// Switches sharing to the other side of what the house says, not of what the check shows: the
/// desktop has turned the check already.
async fn toggle(app: AppHandle) {
    let Some(house) = app.state::<Opening>().now() else {
        return;
    };
    let sharing = if house.now().sharing.on { Sharing::Off } else { Sharing::On };
    if let Err(error) = house.set_sharing(sharing).await {
        tracing::warn!(%error, "sharing stays as it was");
        if let Some(tray) = app.try_state::<Tray>() {
            tray.show(&house.now(), None);
        }
    }
}

impl Tray {
    /// Says that there will be no house.
    pub(crate) fn show_failure(&self) {
        log(self.status.set_text(texts::NOT_RUNNING));
        log(self.icon.set_icon(Some(icons::of(SharingState::Problem))));
    }

    /// Follows the house until it is gone.
    pub(crate) async fn follow(self, house: House) {
        let mut view = house.view();
        let mut before: Option<SharingState> = None;
        log(self.share.set_enabled(true));
        loop {
            let now = view.borrow_and_update().clone();
            self.show(&now, before);
            before = Some(now.sharing.state);
            if view.changed().await.is_err() {
                return;
            }
        }
    }

    /// Shows a view; the icon only where the state is another one, as setting it writes a file.
    fn show(&self, view: &HouseView, before: Option<SharingState>) {
        log(self.status.set_text(&view.sharing.status_line));
        log(self.share.set_checked(view.sharing.on));
        if before != Some(view.sharing.state) {
            log(self.icon.set_icon(Some(icons::of(view.sharing.state))));
        }
    }
}

fn log(done: tauri::Result<()>) {
    if let Err(error) = done {
        tracing::warn!(%error, "the tray could not be updated");
    }
}
