//! Keys that bring the window up for a question, whichever program is in front.
//!
//! The system is asked for them only while the setting names some: on X11 that costs a thread that
//! looks for them twenty times a second. They are held on the thread of the window system, as Windows
//! and macOS want it. Wayland gives programs no keys of their own; there, as anywhere, a key of the
//! desktop can run `inglenook --ask`.

use std::cell::RefCell;
use std::error::Error;

use global_hotkey::hotkey::HotKey;
use global_hotkey::{GlobalHotKeyEvent, GlobalHotKeyManager, HotKeyState};
use nook_api::NodeHandle;
use nook_api::views::{HouseholdView, SettingData};
use tauri::{AppHandle, Manager};
use tokio::sync::oneshot;

use crate::asks::AskKeys;
use crate::news::News;
use crate::window;

/// The setting that names the keys, in words that [`HotKey`] reads.
const SETTING: &str = "window.ask_keys";
/// Its word for no keys.
const OFF: &str = "off";

/// Keys that the system keeps for this program; given back when they are dropped.
struct Held {
    manager: GlobalHotKeyManager,
    keys: HotKey,
}

thread_local! {
    /// On the thread of the window system; empty on every other one.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

impl Held {
    /// Asks the system for `keys`, which another program may have.
    fn ask_for(keys: &str) -> Result<Self, Box<dyn Error>> {
        let keys: HotKey = keys.parse()?;
        let manager = GlobalHotKeyManager::new()?;
        manager.register(keys)?;
        Ok(Self { manager, keys })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = self.manager.unregister(self.keys) {
            tracing::warn!(%error, "the keys to ask were not given back");
        }
    }
}

/// Holds the keys that the setting names, as long as there is a house.
pub(crate) async fn follow(app: AppHandle, house: NodeHandle) {
    let pressed = app.clone();
    GlobalHotKeyEvent::set_event_handler(Some(move |event: GlobalHotKeyEvent| {
        if event.state == HotKeyState::Pressed {
            window::ask(&pressed);
        }
    }));
    let mut view = house.view();
    let mut held = None;
    loop {
        let wanted = chosen(&view.borrow_and_update());
        if held.as_ref() != Some(&wanted) {
            let state = hold(&app, wanted.clone()).await;
            app.state::<News>().ask_keys(state);
            held = Some(wanted);
        }
        if view.changed().await.is_err() {
            return;
        }
    }
}

fn chosen(view: &HouseholdView) -> String {
    match view.settings.values.get(SETTING) {
        Some(SettingData::Text(keys)) => keys.clone(),
        _ => OFF.to_owned(),
    }
}

/// Gives back the keys that are held, and asks for those that are wanted.
async fn hold(app: &AppHandle, keys: String) -> AskKeys {
    if !are_to_be_had() {
        return AskKeys::Impossible;
    }
    let (said, hears) = oneshot::channel();
    let asked = app.run_on_main_thread(move || {
        // Whoever waits has left only with the whole program.
        let _ = said.send(hold_here(&keys));
    });
    if let Err(error) = asked {
        tracing::warn!(%error, "the system was not asked for the keys to ask");
    }
    hears.await.unwrap_or(AskKeys::Taken)
}

/// The same, on the thread of the window system.
fn hold_here(keys: &str) -> AskKeys {
    HELD.with_borrow_mut(|held| {
        *held = None;
        if keys == OFF {
            return AskKeys::Off;
        }
        match Held::ask_for(keys) {
            Ok(now) => {
                *held = Some(now);
                AskKeys::Held
            }
            Err(error) => {
                tracing::warn!(%error, keys, "the system does not give the keys to ask");
                AskKeys::Taken
            }
        }
    })
}

/// Whether this system gives programs keys of their own.
#[cfg(target_os = "linux")]
fn are_to_be_had() -> bool {
    // Also where programs for X11 run beside others: they would hear the keys from each other only.
    nook_base::env::raw("WAYLAND_DISPLAY").is_none() && nook_base::env::raw("DISPLAY").is_some()
}

/// Whether this system gives programs keys of their own.
#[cfg(not(target_os = "linux"))]
fn are_to_be_had() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_a_key_with_others_that_are_held() {
        let home = tempfile::tempdir().unwrap();
        let takes = nook_node::settings::get(Some(home.path()), SETTING).unwrap().takes;
        let choices: Vec<&str> = takes.split('`').skip(1).step_by(2).collect();
        assert!(choices.contains(&OFF) && choices.len() > 1, "{takes}");
        for keys in choices.into_iter().filter(|&keys| keys != OFF) {
            let read: HotKey = keys.parse().unwrap();
            assert!(!read.mods.is_empty(), "{keys} alone would be lost to all programs");
        }
    }
}
