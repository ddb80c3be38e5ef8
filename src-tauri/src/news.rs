//! News for the window: the house after every change, and the page that the tray asks for.
//!
//! The page opens one channel with `watch`; a reloaded page opens another and the first one ends.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nook_base::tasks::Tasks;
use nook_node::House;
use tauri::ipc::Channel;

use crate::asks::{Page, WindowNews};

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
    /// A page that was asked for before anybody listened.
    waiting: Option<Page>,
}

impl News {
    /// Starts the news for a page that was just loaded.
    pub(crate) fn listen(&self, house: &House, channel: Channel<WindowNews>) {
        let tasks = house.tasks().child();
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(before) = state.forwarder.replace(tasks.clone()) {
                before.cancel();
            }
            if let Some(page) = state.waiting.take() {
                tell(&channel, WindowNews::GoTo { page });
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

    /// Sends the window to a page, now or as soon as it listens.
    pub(crate) fn go_to(&self, page: Page) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let told =
            state.channel.as_ref().is_some_and(|channel| tell(channel, WindowNews::GoTo { page }));
        if !told {
            state.waiting = Some(page);
        }
    }

    /// Says which files were dropped on the window; beyond [`DROPPED_MAX`] they are left out.
    pub(crate) fn dropped(&self, paths: &[PathBuf]) {
        let paths = paths.iter().take(DROPPED_MAX).map(|path| path.display().to_string());
        let news = WindowNews::Dropped { paths: paths.collect() };
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
