//! The tray icon and its menu, in step with the house: status line, share switch, pauses, pages,
//! quit.
//!
//! The menu is built once; the house's view only changes texts, the check, what can be chosen, and
//! the icon. Only computers that sleep and can be woken come and go (`sleepers`). Where no tray can
//! be made the app goes on with its window.

mod sleepers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use nook_api::views::{HouseholdView, PauseReason, SharingState};
use nook_api::{NodeError, NodeHandle, PauseFor, Sharing};
use tauri::menu::{
    CheckMenuItem, CheckMenuItemBuilder, Menu, MenuEvent, MenuItem, MenuItemBuilder,
    PredefinedMenuItem,
};
use tauri::tray::{MouseButton, MouseButtonState, TrayIcon, TrayIconBuilder, TrayIconEvent};
use tauri::{AppHandle, Manager, Wry};
use tokio::sync::watch;

use self::sleepers::Sleepers;
use crate::asks::Page;
use crate::background::Background;
use crate::leaving::StartAnew;
use crate::news::News;
use crate::opening::Opening;
use crate::texts::{NAME, Speech, Texts};
use crate::{icons, leaving, window};

const STATUS: &str = "status";
const SHARE: &str = "share";
const PAUSE_HOUR: &str = "pause-hour";
const PAUSE_TOMORROW: &str = "pause-tomorrow";
const RESUME: &str = "resume";
const FREE_MEMORY: &str = "free-memory";
const CHAT: &str = "chat";
const DEVICES: &str = "devices";
const SETTINGS: &str = "settings";
const QUIT: &str = "quit";
const RESTART: &str = "restart";

/// The place of an entry that stands right behind the status line.
const BEHIND_STATUS: usize = 1;

/// The tray's handles.
#[derive(Clone)]
pub(crate) struct Tray {
    icon: TrayIcon<Wry>,
    menu: Menu<Wry>,
    status: MenuItem<Wry>,
    share: CheckMenuItem<Wry>,
    /// Both ways to pause.
    pauses: [MenuItem<Wry>; 2],
    resume: MenuItem<Wry>,
    free_memory: MenuItem<Wry>,
    sleepers: Sleepers,
    chat: MenuItem<Wry>,
    devices: MenuItem<Wry>,
    settings: MenuItem<Wry>,
    quit: MenuItem<Wry>,
}

/// What the menu asks of the house.
#[derive(Debug, Clone)]
pub(crate) enum Wish {
    /// Sharing to the other side of what the house says, not of what the check shows: the desktop
    /// has turned the check already.
    ToggleSharing,
    Pause(PauseFor),
    Resume,
    FreeMemory,
    /// The id of a device.
    Wake(String),
}

/// Wishes are fulfilled one after another: two toggles are there and back, however soon the second
/// comes.
#[derive(Default)]
pub(crate) struct Wishes(tokio::sync::Mutex<()>);

/// Longest wait until the house says what was set.
const SAID_LIMIT: Duration = Duration::from_secs(5);

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
    let texts = app.state::<Speech>().now();
    // An entry begins checked unless told otherwise, and nothing is lent before the house says so.
    let share = CheckMenuItemBuilder::with_id(SHARE, &texts.share).checked(false).enabled(false);
    let share = share.build(app)?;
    let entry = |id, text: &str| MenuItemBuilder::with_id(id, text).build(app);
    // What needs the house waits for it.
    let later = |id, text: &str| MenuItemBuilder::with_id(id, text).enabled(false).build(app);
    let status = later(STATUS, &texts.starting)?;
    let pauses =
        [later(PAUSE_HOUR, &texts.pause_hour)?, later(PAUSE_TOMORROW, &texts.pause_tomorrow)?];
    let resume = later(RESUME, &texts.resume)?;
    let free_memory = later(FREE_MEMORY, &texts.free_memory)?;
    let chat = entry(CHAT, &texts.open_chat)?;
    let devices = entry(DEVICES, &texts.devices)?;
    let settings = entry(SETTINGS, &texts.settings)?;
    let quit = entry(QUIT, &texts.quit)?;
    let [pause_hour, pause_tomorrow] = &pauses;
    let menu = Menu::with_items(
        app,
        &[
            &status,
            &share,
            pause_hour,
            pause_tomorrow,
            &resume,
            &free_memory,
            &PredefinedMenuItem::separator(app)?,
            &chat,
            &devices,
            &settings,
            &PredefinedMenuItem::separator(app)?,
            &quit,
        ],
    )?;
    let icon = TrayIconBuilder::with_id("main")
        .icon(icons::of(SharingState::Idle))
        .icon_as_template(cfg!(target_os = "macos"))
        .tooltip(NAME)
        .menu(&menu)
        // Windows people expect the window on a left click and the menu on a right one.
        .show_menu_on_left_click(!cfg!(target_os = "windows"))
        .on_menu_event(chosen)
        .on_tray_icon_event(clicked)
        .build(app)?;
    Ok(Tray {
        icon,
        menu,
        status,
        share,
        pauses,
        resume,
        free_memory,
        sleepers: Sleepers::default(),
        chat,
        devices,
        settings,
        quit,
    })
}

fn chosen(app: &AppHandle, event: MenuEvent) {
    match event.id().as_ref() {
        SHARE => wish(app, Wish::ToggleSharing),
        PAUSE_HOUR => wish(app, Wish::Pause(PauseFor::Hour)),
        PAUSE_TOMORROW => wish(app, Wish::Pause(PauseFor::UntilTomorrow)),
        RESUME => wish(app, Wish::Resume),
        FREE_MEMORY => wish(app, Wish::FreeMemory),
        CHAT => window::show_page(app, Page::Chat),
        DEVICES => window::show_page(app, Page::Devices),
        SETTINGS => window::show_page(app, Page::Settings),
        RESTART => {
            let anew = leaving::start_anew(app.clone(), StartAnew::AsItWas);
            app.state::<Background>().run("restart", anew);
        }
        QUIT => app.state::<Background>().run("quit", leaving::leave(app.clone())),
        other => {
            if let Some(device) = sleepers::device_of(other) {
                wish(app, Wish::Wake(device.to_owned()));
            }
        }
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

/// Asks the house, in the background: a menu waits for nobody.
pub(crate) fn wish(app: &AppHandle, wish: Wish) {
    app.state::<Background>().run("tray-wish", fulfil(app.clone(), wish));
}

async fn fulfil(app: AppHandle, wish: Wish) {
    // Asked while the house still opens, it is done once it is open.
    let Ok(house) = app.state::<Opening>().house().await else {
        return;
    };
    let wishes = app.state::<Wishes>();
    let _turn = wishes.0.lock().await;
    if let Err(error) = ask(&house, wish.clone()).await {
        tracing::warn!(%error, ?wish, "it was not done");
        if let Some(tray) = app.try_state::<Tray>() {
            tray.show(&house.now(), None, app.state::<Speech>().now());
        }
        // A menu cannot say why.
        app.state::<News>().not_done(error.into());
        window::show(&app);
    }
}

async fn ask(house: &NodeHandle, wish: Wish) -> Result<(), NodeError> {
    match wish {
        Wish::ToggleSharing => {
            let on = !house.now().sharing.on;
            house.set_sharing(if on { Sharing::On } else { Sharing::Off }).await?;
            // The next wish is about what comes of this one. Somebody else may have set it back.
            let mut view = house.view();
            let said = view.wait_for(|view| view.sharing.on == on);
            let _ = tokio::time::timeout(SAID_LIMIT, said).await;
            Ok(())
        }
        Wish::Pause(span) => house.pause_sharing(span).await,
        Wish::Resume => house.resume_sharing().await,
        Wish::FreeMemory => house.free_memory().await,
        Wish::Wake(device) => house.wake(device).await.map(|_| ()),
    }
}

impl Tray {
    /// Says that there will be no house.
    pub(crate) fn show_failure(&self, texts: &Texts) {
        log(self.status.set_text(&texts.not_running));
        log(self.icon.set_icon(Some(icons::of(SharingState::Problem))));
    }

    /// Says that a fault has ended the node, and offers to start the program anew.
    pub(crate) fn show_fault(&self, app: &AppHandle) {
        let texts = app.state::<Speech>().now();
        log(self.status.set_text(&texts.stopped));
        log(self.icon.set_tooltip(Some(&texts.stopped)));
        log(self.icon.set_icon(Some(icons::of(SharingState::Problem))));
        log(self.share.set_checked(false));
        log(self.share.set_enabled(false));
        // They need the node, or are pages that the window does not show now.
        let [hour, tomorrow] = &self.pauses;
        let entries = [hour, tomorrow, &self.resume, &self.free_memory];
        for entry in entries.into_iter().chain([&self.devices, &self.settings]) {
            log(entry.set_enabled(false));
        }
        self.sleepers.clear(&self.menu);
        let restart = MenuItemBuilder::with_id(RESTART, &texts.restart).build(app);
        log(restart.and_then(|restart| self.menu.insert(&restart, BEHIND_STATUS)));
    }

    /// Follows the house until it is gone, in the language in use.
    pub(crate) async fn follow(
        &self,
        house: NodeHandle,
        mut speech: watch::Receiver<&'static Texts>,
    ) {
        let mut view = house.view();
        self.name_entries(*speech.borrow_and_update());
        let mut before: Option<SharingState> = None;
        log(self.free_memory.set_enabled(true));
        log(self.share.set_enabled(true));
        loop {
            let now = view.borrow_and_update().clone();
            self.show(&now, before, *speech.borrow());
            before = Some(now.sharing.state);
            tokio::select! {
                changed = view.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                // It lives as long as the program.
                Ok(()) = speech.changed() => self.name_entries(*speech.borrow_and_update()),
            }
        }
    }

    /// Names the entries in another language.
    fn name_entries(&self, texts: &Texts) {
        let [hour, tomorrow] = &self.pauses;
        log(self.share.set_text(&texts.share));
        log(hour.set_text(&texts.pause_hour));
        log(tomorrow.set_text(&texts.pause_tomorrow));
        log(self.resume.set_text(&texts.resume));
        log(self.free_memory.set_text(&texts.free_memory));
        log(self.chat.set_text(&texts.open_chat));
        log(self.devices.set_text(&texts.devices));
        log(self.settings.set_text(&texts.settings));
        log(self.quit.set_text(&texts.quit));
    }

    /// Shows a view; the icon only where the state is another one, as setting it writes a file.
    fn show(&self, view: &HouseholdView, before: Option<SharingState>, texts: &Texts) {
        log(self.status.set_text(texts.status_line(view)));
        log(self.share.set_checked(view.sharing.on));
        let paused = view.sharing.paused.as_ref();
        let by_owner = paused.is_some_and(|paused| paused.reason == PauseReason::Owner);
        for pause in &self.pauses {
            log(pause.set_enabled(view.sharing.on));
        }
        log(self.resume.set_enabled(by_owner));
        self.sleepers.show(&self.menu, view, texts);
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
