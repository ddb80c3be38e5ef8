//! The entries of the tray's menu that wake a computer: one for each that sleeps and can be woken,
//! behind the entries of sharing.

use std::sync::{Arc, Mutex, PoisonError};

use nook_api::views::{DeviceView, HouseholdView};
use tauri::Wry;
use tauri::menu::{Menu, MenuItem, MenuItemBuilder};

use crate::texts::{Texts, fill};

/// Before the id of a device, in the id of its entry.
const PREFIX: &str = "wake-";

/// Where the first entry stands: behind the six of sharing.
const FIRST: usize = 6;

/// Most entries. A menu of more is no menu; the others have their cards in the window.
const ENTRIES_MAX: usize = 8;

/// What is in the menu.
#[derive(Clone, Default)]
pub(crate) struct Sleepers {
    // Guards a short list; never held across an await.
    shown: Arc<Mutex<Vec<Shown>>>,
}

struct Shown {
    entry: Entry,
    item: MenuItem<Wry>,
}

/// Id and text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    id: String,
    text: String,
}

impl Sleepers {
    /// Shows who sleeps in this view. The menu is left alone unless that has changed.
    pub(super) fn show(&self, menu: &Menu<Wry>, view: &HouseholdView, texts: &Texts) {
        self.set(menu, entries(view, texts));
    }

    /// Nobody can be woken: there is no node that would.
    pub(super) fn clear(&self, menu: &Menu<Wry>) {
        self.set(menu, Vec::new());
    }

    fn set(&self, menu: &Menu<Wry>, entries: Vec<Entry>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.iter().map(|it| &it.entry).eq(&entries) {
            return;
        }
        for Shown { item, .. } in shown.drain(..) {
            super::log(menu.remove(&item));
        }
        for (place, entry) in (FIRST..).zip(entries) {
            let item = MenuItemBuilder::with_id(&entry.id, &entry.text).build(menu.app_handle());
            let inserted = item.and_then(|item| menu.insert(&item, place).map(|()| item));
            match inserted {
                Ok(item) => shown.push(Shown { entry, item }),
                Err(error) => super::log(Err(error)),
            }
        }
    }
}

/// The device that is to be woken when this entry is chosen.
pub(super) fn device_of(entry: &str) -> Option<&str> {
    entry.strip_prefix(PREFIX)
}

fn entries(view: &HouseholdView, texts: &Texts) -> Vec<Entry> {
    let sleeps = view.devices.iter().filter(|it| it.wakeable && !it.connected && !it.waking);
    let entry = |device: &DeviceView| Entry {
        id: format!("{PREFIX}{}", device.id),
        text: fill(&texts.wake, "name", &device.name),
    };
    sleeps.take(ENTRIES_MAX).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::household::{device, house};

    #[test]
    fn who_sleeps_and_can_be_woken_has_an_entry_and_nobody_else() {
        let texts = Texts::of("en").unwrap();
        let mut view = house(&json!({}));
        view.devices.clear();
        for (number, [wakeable, connected, waking]) in
            [[true, false, false], [true, true, false], [true, false, true], [false, false, false]]
                .into_iter()
                .enumerate()
        {
            let mut device: DeviceView =
                serde_json::from_value(device(&format!("PC {number}"), true)).unwrap();
            (device.wakeable, device.connected, device.waking) = (wakeable, connected, waking);
            view.devices.push(device);
        }
        let found = entries(&view, texts);
        assert_eq!(found.iter().map(|it| it.text.as_str()).collect::<Vec<_>>(), ["Wake PC 0"]);
        assert_eq!(device_of(&found[0].id), Some(view.devices[0].id.as_str()));
        assert_eq!(device_of("quit"), None);
        view.devices = vec![view.devices[0].clone(); 20];
        assert_eq!(entries(&view, texts).len(), ENTRIES_MAX);
    }
}
