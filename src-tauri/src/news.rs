//! News for the window: the house after every change, and the page that the tray asks for.
//!
//! The page opens one channel with `watch`; a reloaded page opens another and the first one ends.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nook_api::NodeHandle;
use nook_api::views::Problem;
use nook_base::tasks::Tasks;
use tauri::ipc::Channel;

use crate::asks::{AskKeys, Page, WindowNews};
use crate::page_paths;

/// Shortest time between two views: a busy house changes more often than anybody can see.
const VIEW_PAUSE: Duration = Duration::from_millis(50);

/// Files of one drop that the page is told of.
const DROPPED_MAX: usize = 16;

/// Where news goes.
#[derive(Default)]
pub(crate) struct News {
    /// Guards the listener and the page that waits for one; held for single assignments.
    state: Mutex<Listening>,
}

#[derive(Default)]
struct Listening {
    channel: Option<Channel<WindowNews>>,
    /// The forwarder of that channel.
    forwarder: Option<Tasks>,
    /// What was asked for before anybody listened.
    waiting: Option<WindowNews>,
    ask_keys: AskKeys,
}

impl News {
    /// Starts the news for a page that was just loaded.
    pub(crate) fn listen(&self, house: &NodeHandle, channel: Channel<WindowNews>) {
        let tasks = house.tasks().child();
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(before) = state.forwarder.replace(tasks.clone()) {
                before.cancel();
            }
            tell(&channel, WindowNews::AskKeys { state: state.ask_keys });
            if let Some(asked) = state.waiting.take() {
                tell(&channel, asked);
            }
            state.channel = Some(channel.clone());
        }
        let mut view = house.view();
        tasks.spawn_until_cancelled("window-news", async move {
            loop {
                let house = Box::new(view.borrow_and_update().as_ref().clone());
                if !tell(&channel, WindowNews::House { house }) {
                    return;
                }
                tokio::time::sleep(VIEW_PAUSE).await;
                if view.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Takes a page that was just loaded where no node is left to tell it anything.
    pub(crate) fn listen_to_fault(&self, channel: Channel<WindowNews>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).channel = Some(channel);
    }

    /// Says to the page, if there is one, that the node has ended because of a fault.
    pub(crate) fn stopped(&self, log: Option<String>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = &state.channel {
            tell(channel, WindowNews::Stopped { log });
        }
    }

    /// Sends the window to a page, now or as soon as it listens.
    pub(crate) fn go_to(&self, page: Page) {
        self.tell_now_or_later(WindowNews::GoTo { page });
    }

    /// Sends the window to a new chat, now or as soon as it listens.
    pub(crate) fn ask(&self) {
        self.tell_now_or_later(WindowNews::Ask);
    }

    /// Says why what was asked for elsewhere was not done, now or as soon as the window listens.
    pub(crate) fn not_done(&self, problem: Problem) {
        self.tell_now_or_later(WindowNews::NotDone { problem });
    }

    fn tell_now_or_later(&self, asked: WindowNews) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let told = state.channel.as_ref().is_some_and(|channel| tell(channel, asked.clone()));
        if !told {
            state.waiting = Some(asked);
        }
    }

    /// Says what became of the keys that bring the window up, to this page and to later ones.
    pub(crate) fn ask_keys(&self, now: AskKeys) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ask_keys = now;
        if let Some(channel) = &state.channel {
            tell(channel, WindowNews::AskKeys { state: now });
        }
    }

    /// Says which files were dropped on the window; beyond [`DROPPED_MAX`] they are left out.
    pub(crate) fn dropped(&self, paths: &[PathBuf]) {
        let news = news_of(paths);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = &state.channel {
            tell(channel, news);
        }
    }

    /// Says why the window was only minimised. A page that is not there yet needs no reason.
    pub(crate) fn no_tray(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = &state.channel {
            tell(channel, WindowNews::NoTray);
        }
    }
}

fn news_of(dropped: &[PathBuf]) -> WindowNews {
    let (mut paths, mut refused) = (Vec::new(), None);
    for path in dropped.iter().take(DROPPED_MAX) {
        match page_paths::text_of(path) {
            Ok(text) => paths.push(text),
            Err(problem) => refused = Some(problem),
        }
    }
    WindowNews::Dropped { paths, refused }
}

/// Whether the page could be told.
fn tell(channel: &Channel<WindowNews>, news: WindowNews) -> bool {
    match channel.send(news) {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, "the window does not listen any more");
            false
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_dropped_file_whose_path_is_no_text_is_refused_and_the_others_come() {
        let latin = PathBuf::from(OsStr::from_bytes(b"/a/caf\xe9.gguf"));
        let WindowNews::Dropped { paths, refused } = news_of(&[latin, "/a/b.gguf".into()]) else {
            panic!("no news of dropped files");
        };
        assert_eq!(paths, ["/a/b.gguf"]);
        assert!(refused.unwrap().sentence.contains("/a/caf"));
    }
}
