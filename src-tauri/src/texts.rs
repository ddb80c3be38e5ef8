//! The texts of the tray and of notices, in the language that the window speaks.
//!
//! They come from `ui/src/strings/shell`, the same files that the pages take their words on sharing
//! from. [`Speech`] holds the catalogue in use: the page says which, and what the settings kept of
//! that holds until there is a page. Whoever shows texts follows [`Speech::changes`].

use std::sync::LazyLock;

use nook_api::views::{HouseholdView, PauseReason, PauseView};
use serde::Deserialize;
use tokio::sync::watch;

/// Name of the window and of the tray icon, in every language.
pub(crate) const NAME: &str = "Inglenook";

static ENGLISH: LazyLock<Texts> =
    LazyLock::new(|| read(include_str!("../../ui/src/strings/shell/en.json")));
static GERMAN: LazyLock<Texts> =
    LazyLock::new(|| read(include_str!("../../ui/src/strings/shell/de.json")));

fn read(catalogue: &str) -> Texts {
    serde_json::from_str(catalogue).expect("a test reads every catalogue")
}

/// One language. What stands in braces is replaced by [`fill`].
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Texts {
    /// First line of the tray's menu until the house is up.
    pub(crate) starting: String,
    /// First line of the tray's menu when the house did not start.
    pub(crate) not_running: String,
    /// What the tray and a notice say once a fault has ended the node.
    pub(crate) stopped: String,
    /// Starts the program anew after that.
    pub(crate) restart: String,
    /// Switch.
    pub(crate) share: String,
    pub(crate) pause_hour: String,
    pub(crate) pause_tomorrow: String,
    /// Ends a pause that the owner asked for.
    pub(crate) resume: String,
    pub(crate) free_memory: String,
    /// `{name}`
    pub(crate) wake: String,
    pub(crate) open_chat: String,
    pub(crate) devices: String,
    pub(crate) settings: String,
    pub(crate) quit: String,
    sharing: String,
    not_sharing: String,
    no_device: String,
    one_device: String,
    /// `{count}`
    many_devices: String,
    idle: String,
    answering: String,
    helping_one: String,
    /// `{count}`
    helping_many: String,
    paused: String,
    /// `{time}`
    paused_until: String,
    paused_sleep: String,
    paused_quiet_hours: String,
    paused_battery: String,
    paused_full_screen: String,
    paused_busy: String,
    /// `{how}`: one of the pauses.
    sharing_is: String,
    pub(crate) notice_device: String,
    /// `{name}`
    pub(crate) notice_device_text: String,
    pub(crate) notice_model: String,
    /// `{name}`
    pub(crate) notice_model_text: String,
    pub(crate) notice_battery: String,
    pub(crate) notice_battery_text: String,
    pub(crate) notice_stopped_text: String,
    pub(crate) notice_taken_back: String,
    /// With `{name}`: the version.
    pub(crate) notice_taken_back_text: String,
    /// What a notice offers to do.
    pub(crate) notice_open: String,
    /// What is asked where nothing can draw a window. `{address}`
    pub(crate) no_web_view: String,
}

/// The language in use.
#[derive(Debug)]
pub(crate) struct Speech(watch::Sender<&'static Texts>);

impl Speech {
    /// Begins with the language that the window spoke last, else with that of the system.
    pub(crate) fn new(kept: Option<&str>) -> Self {
        let texts = kept.and_then(Texts::of).or_else(|| Texts::of(&system_language()));
        Self(watch::channel(texts.unwrap_or(&ENGLISH)).0)
    }

    /// Takes the window's language into use; one that is not known here leaves all as it is.
    pub(crate) fn speak(&self, code: &str) {
        let Some(texts) = Texts::of(code) else { return };
        self.0.send_if_modified(|now| {
            let changed = !std::ptr::eq(*now, texts);
            *now = texts;
            changed
        });
    }

    /// The texts in use now.
    pub(crate) fn now(&self) -> &'static Texts {
        *self.0.borrow()
    }

    /// The texts in use from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<&'static Texts> {
        self.0.subscribe()
    }
}

impl Texts {
    /// The catalogue of a language, by its code or a locale that begins with it.
    pub(crate) fn of(code: &str) -> Option<&'static Self> {
        match code.split(['-', '_', '.']).next() {
            Some("en") => Some(&ENGLISH),
            Some("de") => Some(&GERMAN),
            _ => None,
        }
    }

    /// How sharing stands, in one line.
    pub(crate) fn status_line(&self, view: &HouseholdView) -> String {
        let sharing = &view.sharing;
        let word = match &sharing.paused {
            Some(pause) => fill(&self.sharing_is, "how", &self.pause(pause)),
            None if sharing.on => self.sharing.clone(),
            None => self.not_sharing.clone(),
        };
        let connected = view.devices.iter().filter(|device| device.connected).count();
        let devices = match connected {
            0 => self.no_device.clone(),
            1 => self.one_device.clone(),
            more => fill(&self.many_devices, "count", &more.to_string()),
        };
        let doing = match sharing.streams {
            0 if sharing.answering => self.answering.clone(),
            0 => self.idle.clone(),
            1 => self.helping_one.clone(),
            more => fill(&self.helping_many, "count", &more.to_string()),
        };
        format!("{word} · {devices} · {doing}")
    }

    fn pause(&self, pause: &PauseView) -> String {
        match (pause.reason, pause.until) {
            (PauseReason::Owner, Some(until)) => {
                fill(&self.paused_until, "time", &nook_node::seconds_to_clock(until))
            }
            (PauseReason::Owner, None) => self.paused.clone(),
            (PauseReason::Sleep, _) => self.paused_sleep.clone(),
            (PauseReason::QuietHours, _) => self.paused_quiet_hours.clone(),
            (PauseReason::Battery, _) => self.paused_battery.clone(),
            (PauseReason::FullScreen, _) => self.paused_full_screen.clone(),
            (PauseReason::Busy, _) => self.paused_busy.clone(),
        }
    }
}

/// `text` with `value` for the name in braces.
pub(crate) fn fill(text: &str, name: &str, value: &str) -> String {
    text.replace(&format!("{{{name}}}"), value)
}

/// What the environment names, as POSIX orders it; empty where it names nothing, as on systems that
/// keep it elsewhere: there the page says it.
fn system_language() -> String {
    let named = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(nook_base::env::text);
    named.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::household::house;

    #[test]
    fn every_language_has_every_text_and_the_same_values_in_it() {
        let raw = |text| serde_json::from_str::<serde_json::Map<_, _>>(text).unwrap();
        let english = raw(include_str!("../../ui/src/strings/shell/en.json"));
        let german = raw(include_str!("../../ui/src/strings/shell/de.json"));
        for (key, text) in &english {
            let values = |text: &serde_json::Value| -> Vec<String> {
                let text = text.as_str().unwrap().to_owned();
                assert!(!text.is_empty(), "{key}");
                text.split('{')
                    .skip(1)
                    .map(|rest| rest.split('}').next().unwrap().to_owned())
                    .collect()
            };
            assert_eq!(values(text), values(&german[key]), "{key}");
        }
        assert_ne!(Texts::of("en").unwrap(), Texts::of("de").unwrap());
    }

    #[test]
    fn languages_are_found_by_code_and_locale() {
        let german = Texts::of("de").unwrap();
        assert!(std::ptr::eq(Texts::of("de_AT.UTF-8").unwrap(), german));
        assert!(Texts::of("C.UTF-8").is_none() && Texts::of("").is_none());
        let speech = Speech::new(Some("de"));
        let mut changes = speech.changes();
        speech.speak("de");
        speech.speak("xx");
        assert!(!changes.has_changed().unwrap());
        speech.speak("en");
        assert!(changes.has_changed().unwrap());
        assert_eq!(changes.borrow_and_update().quit, "Quit");
    }

    #[test]
    fn the_tray_says_in_english_what_the_node_says() {
        let english = Texts::of("en").unwrap();
        let owner = [(PauseReason::Owner, Some(1_750_000_000)), (PauseReason::Owner, None)];
        let others = [
            PauseReason::Sleep,
            PauseReason::QuietHours,
            PauseReason::Battery,
            PauseReason::FullScreen,
            PauseReason::Busy,
        ];
        let pauses = owner.into_iter().chain(others.map(|reason| (reason, None)));
        let pauses = pauses.map(|(reason, until)| {
            Some(PauseView { reason, sentence: nook_node::pause_words(reason, until), until })
        });
        for paused in pauses.chain([None]) {
            for (on, answering) in [(true, true), (true, false), (false, true), (false, false)] {
                for state in ["idle", "sharing", "paused", "busy", "problem"] {
                    for (streams, connected) in [(0, 0), (0, 1), (0, 2), (1, 2), (3, 2)] {
                        let mut house = house(&json!({
                            "on": on, "answering": answering, "state": state, "streams": streams,
                        }));
                        house.sharing.paused.clone_from(&paused);
                        for (number, device) in house.devices.iter_mut().enumerate() {
                            device.connected = number < connected;
                        }
                        let said = nook_node::status_line(&house.sharing, connected);
                        assert_eq!(english.status_line(&house), said, "{:?}", house.sharing);
                    }
                }
            }
        }
    }

    #[test]
    fn the_line_on_sharing_says_whether_with_whom_and_what() {
        let english = Texts::of("en").unwrap();
        let german = Texts::of("de").unwrap();
        for (sharing, line, zeile) in [
            (json!({}), "Sharing · 2 devices · idle", "Teilt · 2 Geräte · untätig"),
            (
                json!({"on": false, "state": "busy", "answering": true}),
                "Not sharing · 2 devices · answering",
                "Teilt nicht · 2 Geräte · antwortet",
            ),
            (
                json!({"streams": 1, "state": "busy"}),
                "Sharing · 2 devices · helping with 1 reply",
                "Teilt · 2 Geräte · hilft bei 1 Antwort",
            ),
            (
                json!({"paused": {"reason": "battery", "sentence": "", "until": null}}),
                "Sharing paused on battery · 2 devices · idle",
                "Teilen pausiert im Akkubetrieb · 2 Geräte · untätig",
            ),
        ] {
            let house = house(&sharing);
            assert_eq!(english.status_line(&house), line);
            assert_eq!(german.status_line(&house), zeile);
        }
        let pause = json!({"paused": {"reason": "owner", "sentence": "", "until": 0}});
        let until = nook_node::seconds_to_clock(0);
        let line = english.status_line(&house(&pause));
        assert_eq!(line, format!("Sharing paused until {until} · 2 devices · idle"));
    }
}
