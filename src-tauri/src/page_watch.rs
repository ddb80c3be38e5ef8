//! Whether the page is there, and what is done where it does not come or keeps ending.
//!
//! A page says so with `arrived` and names the page that it turns to; `window` says when one is
//! made. On Linux the graphics card is the usual reason for a window that stays blank (WebKitGTK
//! with some drivers), so a page that is late, or that ends twice in a row, is tried once more
//! without it: the program starts anew with the work-around of `graphics`, and the settings
//! remember it. Where even that does not help, tray and port go on without a window. [`Patience`]
//! decides (pure). Of a new version on trial none of that is tried: the one before comes back.

#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "only WebKitGTK says that the process of a page has ended")
)]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tauri::{AppHandle, Manager, WebviewWindow};
use tokio::sync::watch;

use crate::arguments::Arguments;
use crate::asks::Page;
use crate::background::Background;
use crate::leaving::StartAnew;
use crate::opening::Opening;
use crate::{leaving, trial, window};

/// A page that has not come after so long will not: on a slow machine with a cold disk it takes a
/// third of this.
const PAGE_LIMIT: Duration = Duration::from_secs(25);

/// The same for a new version on trial: putting the one before back is more than starting anew, and
/// the first start of other files is the slowest.
const TRIAL_LIMIT: Duration = Duration::from_secs(100);

/// Why a version on trial gives way then.
const NO_PAGE: &str = "its page does not come";

/// Two ends within this time have one cause.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Longest wait for replies that are under way, before the program starts anew.
const REPLIES_LIMIT: Duration = Duration::from_secs(60);

/// What is known of the page.
#[derive(Debug)]
pub(crate) struct PageWatch {
    /// Times that a page has come.
    arrivals: watch::Sender<u64>,
    /// Guards what the page shows and how much patience is left; held for single steps.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    page: Option<Page>,
    patience: Patience,
    /// Waits that were begun; only the newest has a say.
    waits: u64,
}

/// A page is on its way: who gets this waits for it, with [`PageWatch::is_late`].
#[must_use]
#[derive(Debug)]
struct Wait {
    number: u64,
    arrivals: watch::Receiver<u64>,
}

/// What is done about a page that is not there, with what is needed for it.
#[derive(Debug)]
enum Step {
    /// The page that is loaded anew may not come either.
    LoadAnew(Wait),
    StartWithoutCard,
    GiveUp,
}

/// How often a page may fail before something else is tried.
#[derive(Debug, PartialEq, Eq)]
struct Patience {
    /// Whether the graphics card is left out already, or starting anew would change nothing.
    is_last_way: bool,
    ended: Option<Instant>,
}

/// What is done about a page that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    LoadAnew,
    StartWithoutCard,
    GiveUp,
}

impl Patience {
    /// The page's process ended by itself.
    fn on_end(&mut self, now: Instant) -> Remedy {
        let again = self.ended.is_some_and(|at| now.duration_since(at) < ENDS_WITHIN);
        self.ended = Some(now);
        if again { self.on_late() } else { Remedy::LoadAnew }
    }

    /// The page did not come.
    fn on_late(&mut self) -> Remedy {
        // Once is enough, whatever comes of it.
        if std::mem::replace(&mut self.is_last_way, true) {
            Remedy::GiveUp
        } else {
            Remedy::StartWithoutCard
        }
    }
}

impl PageWatch {
    /// Nothing has come yet, in a program that was started so.
    pub(crate) fn new(arguments: &Arguments) -> Self {
        let is_last_way = arguments.safe_graphics || !cfg!(target_os = "linux");
        let patience = Patience { is_last_way, ended: None };
        let state = State { page: None, patience, waits: 0 };
        Self { arrivals: watch::channel(0).0, state: Mutex::new(state) }
    }

    /// A page has come.
    pub(crate) fn arrived(&self) {
        self.arrivals.send_modify(|count| *count += 1);
    }

    /// Waits until a page has come at least once.
    pub(crate) async fn until_one_came(&self) {
        // The sender lives as long as this.
        let _ = self.arrivals.subscribe().wait_for(|count| *count > 0).await;
    }

    /// The page that the window shows now.
    pub(crate) fn turned_to(&self, page: Page) {
        self.with(|state| state.page = Some(page));
    }

    /// The page that the window showed last; absent before it said so.
    pub(crate) fn page(&self) -> Option<Page> {
        self.with(|state| state.page)
    }

    /// A page is being loaded. Whoever waited for the one before waits no more.
    fn begin(&self) -> Wait {
        let number = self.with(|state| {
            state.waits += 1;
            state.waits
        });
        Wait { number, arrivals: self.arrivals.subscribe() }
    }

    /// Waits for the page; whether it is not there after `limit`, and nothing else was begun
    /// meanwhile.
    async fn is_late(&self, mut wait: Wait, limit: Duration) -> bool {
        let came = tokio::time::timeout(limit, wait.arrivals.changed()).await.is_ok();
        !came && self.with(|state| state.waits == wait.number)
    }

    /// What is to be done about a page that did not come.
    fn on_late(&self) -> Step {
        let remedy = self.with(|state| state.patience.on_late());
        self.step(remedy)
    }

    /// What is to be done about a page whose process ended by itself.
    fn on_end(&self, now: Instant) -> Step {
        let remedy = self.with(|state| state.patience.on_end(now));
        self.step(remedy)
    }

    /// Whatever is done, nobody waits for the page as it was before.
    fn step(&self, remedy: Remedy) -> Step {
        let wait = self.begin();
        match remedy {
            Remedy::LoadAnew => Step::LoadAnew(wait),
            Remedy::StartWithoutCard => Step::StartWithoutCard,
            Remedy::GiveUp => Step::GiveUp,
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Watches over the page of a window that was just made.
pub(crate) fn watch_over(window: &WebviewWindow) {
    let app = window.app_handle();
    follow_ends(window);
    wait_for_page(app, app.state::<PageWatch>().begin());
}

fn wait_for_page(app: &AppHandle, wait: Wait) {
    let waiting = app.clone();
    app.state::<Background>().run("page-watch", async move {
        let limit = match trial::is_pending(&waiting).await {
            true => TRIAL_LIMIT,
            false => PAGE_LIMIT,
        };
        let is_late = waiting.state::<PageWatch>().is_late(wait, limit).await;
        // A window that was put away for good meanwhile has no page to wait for.
        if is_late && waiting.get_webview_window(window::LABEL).is_some() {
            tracing::warn!(seconds = limit.as_secs(), "the page of the window did not come");
            apply(&waiting, waiting.state::<PageWatch>().on_late());
        }
    });
}

/// On Linux WebKit says when the process of a page ends by itself.
#[cfg(target_os = "linux")]
fn follow_ends(window: &WebviewWindow) {
    use webkit2gtk::{WebProcessTerminationReason, WebViewExt};

    let app = window.app_handle().clone();
    let followed = window.with_webview(move |page| {
        page.inner().connect_web_process_terminated(move |_, reason| {
            if reason != WebProcessTerminationReason::TerminatedByApi {
                on_end(&app, &format!("{reason:?}"));
            }
        });
    });
    if let Err(error) = followed {
        tracing::warn!(%error, "nobody will notice when the page ends by itself");
    }
}

/// The other systems' web views load their page anew by themselves, or show that it is gone.
#[cfg(not(target_os = "linux"))]
fn follow_ends(_window: &WebviewWindow) {}

#[cfg(target_os = "linux")]
fn on_end(app: &AppHandle, reason: &str) {
    let step = app.state::<PageWatch>().on_end(nook_base::clock::now());
    tracing::warn!(reason, ?step, "the page of the window ended by itself");
    apply(app, step);
}

fn apply(app: &AppHandle, step: Step) {
    match step {
        Step::LoadAnew(wait) => {
            let window = app.get_webview_window(window::LABEL);
            if let Some(Err(error)) = window.map(|window| window.reload()) {
                tracing::warn!(%error, "the page could not be loaded anew");
            }
            wait_for_page(app, wait);
        }
        Step::StartWithoutCard => {
            tracing::warn!("starting anew with safe graphics: without the graphics card");
            app.state::<Background>().run("safe-graphics", start_anew(app.clone()));
        }
        Step::GiveUp => {
            tracing::error!(
                "the window does not work here; tray, port and `nook` go on without it"
            );
            if let Some(Err(error)) =
                app.get_webview_window(window::LABEL).map(|window| window.destroy())
            {
                tracing::warn!(%error, "the blank window could not be ended");
            }
            let blank = app.clone();
            app.state::<Background>().run("without-page", async move {
                leaving::give_way(&blank, NO_PAGE).await;
            });
        }
    }
}

/// Starts the program anew, when nothing is under way that it would cut off, or after a while.
async fn start_anew(app: AppHandle) {
    if leaving::give_way(&app, NO_PAGE).await {
        return;
    }
    if let Some(house) = app.state::<Opening>().now() {
        let mut view = house.view();
        let idle = view.wait_for(|view| !view.sharing.answering && view.sharing.streams == 0);
        // Past the limit a reply is cut off, which its door says; a blank window says nothing at
        // all.
        let _ = tokio::time::timeout(REPLIES_LIMIT, idle).await;
    }
    leaving::start_anew(app, StartAnew::WithoutCard).await;
}

#[cfg(test)]
mod tests {
    use nook_base::clock;

    use super::*;

    const FIRST: Patience = Patience { is_last_way: false, ended: None };

    #[test]
    fn two_ends_in_a_row_are_tried_once_without_the_graphics_card() {
        let start = clock::now();
        let mut patience = FIRST;
        assert_eq!(patience.on_end(start), Remedy::LoadAnew);
        let soon = start + ENDS_WITHIN / 2;
        assert_eq!(patience.on_end(soon), Remedy::StartWithoutCard);
        assert_eq!(patience.on_end(soon), Remedy::GiveUp);
    }

    #[test]
    fn ends_that_lie_far_apart_only_load_the_page_anew() {
        let mut now = clock::now();
        let mut patience = FIRST;
        for _ in 0..5 {
            assert_eq!(patience.on_end(now), Remedy::LoadAnew);
            now += ENDS_WITHIN;
        }
    }

    fn watch() -> PageWatch {
        let watch = PageWatch::new(&Arguments::default());
        watch.with(|state| state.patience = FIRST);
        watch
    }

    fn loads_anew(step: Step) -> Wait {
        match step {
            Step::LoadAnew(wait) => wait,
            other => panic!("expected a wait, not {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_page_that_is_loaded_anew_is_waited_for_too() {
        let watch = watch();
        let wait = loads_anew(watch.on_end(clock::now()));
        assert!(watch.is_late(wait, Duration::ZERO).await, "it does not come");
        assert!(matches!(watch.on_late(), Step::StartWithoutCard));
    }

    #[tokio::test]
    async fn one_page_is_late_once_and_one_that_came_never() {
        let watch = watch();
        let first = watch.begin();
        let second = loads_anew(watch.on_end(clock::now()));
        assert!(!watch.is_late(first, Duration::ZERO).await, "another took its place");
        watch.arrived();
        assert!(!watch.is_late(second, Duration::ZERO).await);
        let third = watch.begin();
        assert!(matches!(watch.on_late(), Step::StartWithoutCard));
        assert!(!watch.is_late(third, Duration::ZERO).await, "the program starts anew already");
    }

    #[test]
    fn a_page_that_does_not_come_without_the_card_either_is_given_up() {
        let mut patience = FIRST;
        assert_eq!(patience.on_late(), Remedy::StartWithoutCard);
        let mut safe = Patience { is_last_way: true, ended: None };
        assert_eq!(safe.on_late(), Remedy::GiveUp);
    }
}
