//! What a person should hear of while they do something else: a device that wants to join, a model
//! that is ready, sharing that stopped because of the battery, a version that did not come up.
//! Nothing else.
//!
//! [`Noticing`] compares each view of the house with the one before (pure); [`follow`] shows what
//! comes of it through the desktop (`desktop_notices`), unless the owner has switched it off or
//! sees it already in the window. A click leads to the page that it is about.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nook_api::NodeHandle;
use nook_api::views::{DeviceView, HouseholdView, PauseReason};
use nook_base::clock;
use tauri::{AppHandle, Manager};

use crate::asks::Page;
use crate::desktop_notices::Desktop;
use crate::page_watch::PageWatch;
use crate::texts::{Speech, Texts, fill};
use crate::{trial, window};

/// The same is not said twice within this time: a plug with a loose contact, a code shown again.
const QUIET: Duration = Duration::from_secs(10 * 60);

/// Notices within [`QUIET`]; what comes beyond them is left out. Any device of the network can make
/// names up and say that it shows a code.
const NOTICES_MAX: usize = 8;

/// Characters of a name that are shown; a desktop cuts longer ones anyhow.
const NAME_CHARS_MAX: usize = 60;

/// Something to hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A device that is not paired shows a code.
    Device {
        /// Its name.
        name: String,
    },
    /// A model was added.
    Model {
        /// The name to ask for it by.
        name: String,
    },
    /// Nothing is lent while a battery is drained.
    Battery,
    /// A fault has ended the node.
    Stopped,
    /// A new version did not come up; this is the one before.
    TakenBack {
        /// The new version.
        version: String,
    },
}

impl Notice {
    /// Headline and sentence.
    pub(crate) fn words(&self, texts: &Texts) -> (String, String) {
        let named = |text: &str, name: &str| {
            let name: String = name.chars().take(NAME_CHARS_MAX).collect();
            fill(text, "name", &name)
        };
        let (title, text) = match self {
            Self::Device { name } => (&texts.notice_device, named(&texts.notice_device_text, name)),
            Self::Model { name } => (&texts.notice_model, named(&texts.notice_model_text, name)),
            Self::Battery => (&texts.notice_battery, texts.notice_battery_text.clone()),
            Self::Stopped => (&texts.stopped, texts.notice_stopped_text.clone()),
            Self::TakenBack { version } => {
                (&texts.notice_taken_back, named(&texts.notice_taken_back_text, version))
            }
        };
        (title.clone(), text)
    }

    /// The page that shows it.
    pub(crate) fn page(&self) -> Page {
        match self {
            Self::Device { .. } => Page::Devices,
            Self::Model { .. } => Page::Models,
            Self::Battery => Page::Sharing,
            // The window shows the fault in place of every page.
            Self::Stopped => Page::Chat,
            Self::TakenBack { .. } => Page::Settings,
        }
    }

    /// Whether somebody who looks at `page` sees it there. The line on sharing stands beside every
    /// page, and a fault takes the place of each.
    fn is_seen_on(&self, page: Page) -> bool {
        matches!(self, Self::Battery | Self::Stopped) || self.page() == page
    }
}

/// The owner's switch.
const SWITCH: &str = "window.notifications";

/// Finds what is worth a notice, from view to view.
#[derive(Debug, Default)]
pub(crate) struct Noticing {
    /// Absent until the first view, which is news to nobody.
    before: Option<Seen>,
    said: VecDeque<(Instant, Notice)>,
}

/// What the last view showed.
#[derive(Debug)]
struct Seen {
    joining: BTreeSet<String>,
    models: BTreeSet<String>,
    on_battery: bool,
}

impl Noticing {
    /// What is new in this view, if the owner wants notices. What came while they were off is no
    /// news later.
    pub(crate) fn see(&mut self, view: &HouseholdView, now: Instant) -> Vec<Notice> {
        let seen = Seen::of(view);
        let Some(before) = self.before.replace(seen) else { return Vec::new() };
        let joining = view.devices.iter().filter(|device| wants_to_join(device));
        let devices = joining
            .filter(|device| !before.joining.contains(&device.id))
            .map(|device| Notice::Device { name: device.name.clone() });
        let added = view.models.iter().filter(|model| !before.models.contains(&model.digest));
        let models = added.map(|model| Notice::Model { name: model.name.clone() });
        let battery = (is_on_battery(view) && !before.on_battery).then_some(Notice::Battery);
        let found: Vec<Notice> = devices.chain(models).chain(battery).collect();
        if !view.settings.is_on(SWITCH) {
            return Vec::new();
        }
        found.into_iter().filter(|notice| self.may_say(notice, now)).collect()
    }

    fn may_say(&mut self, notice: &Notice, now: Instant) -> bool {
        self.said.retain(|(at, _)| now.duration_since(*at) < QUIET);
        let may = self.said.len() < NOTICES_MAX && self.said.iter().all(|(_, said)| said != notice);
        if may {
            self.said.push_back((now, notice.clone()));
        }
        may
    }
}

impl Seen {
    fn of(view: &HouseholdView) -> Self {
        let joining = view.devices.iter().filter(|device| wants_to_join(device));
        Self {
            joining: joining.map(|device| device.id.clone()).collect(),
            models: view.models.iter().map(|model| model.digest.clone()).collect(),
            on_battery: is_on_battery(view),
        }
    }
}

fn wants_to_join(device: &DeviceView) -> bool {
    device.pairing && !device.paired
}

fn is_on_battery(view: &HouseholdView) -> bool {
    view.sharing.paused.as_ref().is_some_and(|pause| pause.reason == PauseReason::Battery)
}

/// Follows the house until it is gone.
pub(crate) async fn follow(app: AppHandle, house: NodeHandle) {
    let mut view = house.view();
    let mut noticing = Noticing::default();
    let mut desktop = Desktop::default();
    if house.now().settings.is_on(SWITCH)
        && let Some(version) = trial::tell_taken_back(&app).await
    {
        desktop.show(&Notice::TakenBack { version }, app.state::<Speech>().now()).await;
    }
    loop {
        let now = view.borrow_and_update().clone();
        for notice in noticing.see(&now, clock::now()) {
            if !is_seen(&app, &notice) {
                let texts = app.state::<Speech>().now();
                desktop.show(&notice, texts).await;
            }
        }
        tokio::select! {
            changed = view.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            page = desktop.chosen() => window::show_page(&app, page),
        }
    }
}

/// Says that a fault has ended the node, unless the owner wants no notices or sees it in the
/// window, and shows the window on a click.
pub(crate) async fn tell_fault(app: AppHandle, last: Arc<HouseholdView>) {
    if !last.settings.is_on(SWITCH) || is_seen(&app, &Notice::Stopped) {
        return;
    }
    let mut desktop = Desktop::default();
    desktop.show(&Notice::Stopped, app.state::<Speech>().now()).await;
    loop {
        desktop.chosen().await;
        window::show(&app);
    }
}

/// Whether the window is in front and shows it.
fn is_seen(app: &AppHandle, notice: &Notice) -> bool {
    let window = app.get_webview_window(window::LABEL);
    let in_front = window.is_some_and(|window| window.is_focused().unwrap_or(false));
    in_front && app.state::<PageWatch>().page().is_some_and(|page| notice.is_seen_on(page))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::household::{device, house, model};

    fn with_devices(devices: &[Value]) -> HouseholdView {
        let mut view = house(&json!({}));
        let read = |device: &Value| serde_json::from_value(device.clone()).unwrap();
        view.devices = devices.iter().map(read).collect();
        view
    }

    fn joining(name: &str) -> Notice {
        Notice::Device { name: name.to_owned() }
    }

    #[test]
    fn only_what_is_new_is_told_and_once() {
        let now = clock::now();
        let mut noticing = Noticing::default();
        let calm = with_devices(&[device("Study PC", true)]);
        let shown = with_devices(&[device("Study PC", true), device("Attic PC", false)]);
        // What was so before the program started is no news.
        assert_eq!(noticing.see(&shown, now), []);
        assert_eq!(noticing.see(&calm, now), []);
        assert_eq!(noticing.see(&shown, now), [joining("Attic PC")]);
        assert_eq!(noticing.see(&shown, now), []);
        assert_eq!(noticing.see(&calm, now), []);
        assert_eq!(noticing.see(&shown, now + QUIET / 2), [], "so soon it is the same");
        assert_eq!(noticing.see(&calm, now), []);
        assert_eq!(noticing.see(&shown, now + QUIET), [joining("Attic PC")]);
    }

    #[test]
    fn nothing_is_told_while_the_owner_wants_no_notices_nor_later() {
        let mut noticing = Noticing::default();
        noticing.see(&with_devices(&[]), clock::now());
        let mut off = with_devices(&[device("Attic PC", false)]);
        off.settings.values.insert(SWITCH.to_owned(), false.into());
        assert_eq!(noticing.see(&off, clock::now()), []);
        let on = with_devices(&[device("Attic PC", false), device("Study PC", false)]);
        assert_eq!(noticing.see(&on, clock::now()), [joining("Study PC")]);
    }

    #[test]
    fn a_network_full_of_devices_does_not_fill_the_screen() {
        let mut noticing = Noticing::default();
        noticing.see(&with_devices(&[]), clock::now());
        let many: Vec<Value> =
            (0..50).map(|number| device(&format!("PC {number}"), false)).collect();
        assert_eq!(noticing.see(&with_devices(&many), clock::now()).len(), NOTICES_MAX);
    }

    #[test]
    fn a_model_and_the_battery_are_told_and_other_pauses_are_not() {
        let now = clock::now();
        let paused = |reason: &str| {
            house(&json!({"paused": {"reason": reason, "sentence": "", "until": null}}))
        };
        let mut noticing = Noticing::default();
        noticing.see(&house(&json!({})), now);
        for reason in ["owner", "quiet_hours", "full_screen", "busy"] {
            assert_eq!(noticing.see(&paused(reason), now), [], "{reason}");
        }
        assert_eq!(noticing.see(&paused("battery"), now), [Notice::Battery]);
        let mut view = paused("battery");
        view.models.push(serde_json::from_value(model("qwen")).unwrap());
        assert_eq!(noticing.see(&view, now), [Notice::Model { name: "qwen".to_owned() }]);
    }

    #[test]
    fn names_are_cut_and_nothing_is_said_twice_to_who_looks() {
        let notice = joining(&"x".repeat(500));
        let (title, text) = notice.words(Texts::of("en").unwrap());
        assert_eq!(title, "A device wants to join");
        assert!(text.len() < 200 && text.contains(&"x".repeat(NAME_CHARS_MAX)));
        assert!(notice.is_seen_on(Page::Devices) && !notice.is_seen_on(Page::Chat));
        assert!(Notice::Battery.is_seen_on(Page::Chat));
        assert!(Notice::Stopped.is_seen_on(Page::Devices), "it takes the place of every page");
        let taken_back = Notice::TakenBack { version: "0.2.0".to_owned() };
        assert_eq!(taken_back.page(), Page::Settings);
        assert!(taken_back.words(Texts::of("en").unwrap()).1.contains("0.2.0"));
    }
}
