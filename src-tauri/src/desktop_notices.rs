//! Notices through the desktop: shown, and what becomes of a click.
//!
//! On Linux this speaks `org.freedesktop.Notifications` (Desktop Notifications Specification 1.2)
//! over the session bus, because only there a click comes back; elsewhere notify-rust shows them,
//! and a click does what the system does with it.

#[cfg(target_os = "linux")]
pub(crate) use on_linux::Desktop;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::Desktop;

#[cfg(target_os = "linux")]
mod on_linux {
    use std::collections::{HashMap, VecDeque};
    use std::time::Duration;

    use futures_util::StreamExt;
    use zbus::connection::Builder;
    use zbus::zvariant::Value;

    use crate::asks::Page;
    use crate::notices::Notice;
    use crate::texts::{NAME, Texts};

    /// Notices whose clicks are still waited for; the oldest is forgotten then.
    const OPEN_MAX: usize = 16;

    /// Longest wait for the desktop to take a notice, which may have to start the program that
    /// shows it. Past it this notice is given up, and the next one connects anew.
    const ANSWER_LIMIT: Duration = Duration::from_secs(10);

    /// The desktop decides how long a notice stays.
    const AS_THE_DESKTOP_LIKES: i32 = -1;

    /// What a click on the notice itself is called.
    const CLICK: &str = "default";

    #[zbus::proxy(
        interface = "org.freedesktop.Notifications",
        default_service = "org.freedesktop.Notifications",
        default_path = "/org/freedesktop/Notifications"
    )]
    trait Notifications {
        /// What this desktop's notices can do.
        fn get_capabilities(&self) -> zbus::Result<Vec<String>>;

        /// Shows a notice; gives its number.
        #[allow(clippy::too_many_arguments, reason = "the specification has them")]
        fn notify(
            &self,
            app_name: &str,
            replaces_id: u32,
            app_icon: &str,
            summary: &str,
            body: &str,
            actions: &[&str],
            hints: HashMap<&str, Value<'_>>,
            expire_timeout: i32,
        ) -> zbus::Result<u32>;

        /// Somebody chose an action of a notice.
        #[zbus(signal)]
        fn action_invoked(&self, id: u32, action_key: String) -> zbus::Result<()>;
    }

    /// The desktop; connected when the first notice is shown.
    #[derive(Default)]
    pub(crate) struct Desktop {
        connected: Option<Connected>,
    }

    struct Connected {
        notices: NotificationsProxy<'static>,
        clicks: ActionInvokedStream,
        /// Whether text is read as markup, so that what a name holds must be written as text.
        markup: bool,
        actions: bool,
        /// Notices that can be clicked, oldest first.
        open: VecDeque<(u32, Page)>,
    }

    impl Desktop {
        /// Shows a notice. A desktop without notices is no trouble: what they say stands in the
        /// window too.
        pub(crate) async fn show(&mut self, notice: &Notice, texts: &Texts) {
            self.show_within(ANSWER_LIMIT, Builder::session, notice, texts).await;
        }

        async fn show_within(
            &mut self,
            limit: Duration,
            bus: impl FnOnce() -> zbus::Result<Builder<'static>>,
            notice: &Notice,
            texts: &Texts,
        ) {
            match tokio::time::timeout(limit, self.try_show(bus, notice, texts)).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => tracing::info!(%error, "this desktop shows no notices"),
                Err(_) => tracing::warn!(?limit, "this desktop does not answer; a notice is lost"),
            }
            self.connected = None;
        }

        /// The page of the next notice that somebody clicks.
        pub(crate) async fn chosen(&mut self) -> Page {
            loop {
                let Some(connected) = &mut self.connected else {
                    return std::future::pending().await;
                };
                match connected.clicks.next().await {
                    Some(click) => {
                        if let Some(page) = connected.page_of(&click) {
                            return page;
                        }
                    }
                    // The bus is gone; the next notice looks for another.
                    None => self.connected = None,
                }
            }
        }

        async fn try_show(
            &mut self,
            bus: impl FnOnce() -> zbus::Result<Builder<'static>>,
            notice: &Notice,
            texts: &Texts,
        ) -> zbus::Result<()> {
            if self.connected.is_none() {
                self.connected = Some(Connected::over(bus()?).await?);
            }
            match &mut self.connected {
                Some(connected) => connected.show(notice, texts).await,
                None => Ok(()),
            }
        }
    }

    impl Connected {
        async fn over(bus: Builder<'static>) -> zbus::Result<Self> {
            let bus = bus.build().await?;
            let notices = NotificationsProxy::new(&bus).await?;
            let can = notices.get_capabilities().await?;
            let can = |what: &str| can.iter().any(|able| able == what);
            let (markup, actions) = (can("body-markup"), can("actions"));
            let clicks = notices.receive_action_invoked().await?;
            Ok(Self { notices, clicks, markup, actions, open: VecDeque::new() })
        }

        async fn show(&mut self, notice: &Notice, texts: &Texts) -> zbus::Result<()> {
            let (title, text) = notice.words(texts);
            let text = if self.markup { as_text(&text) } else { text };
            let actions = [CLICK, texts.notice_open.as_str()];
            let actions = if self.actions { &actions[..] } else { &[] };
            let hints = HashMap::from([("desktop-entry", Value::from(NAME))]);
            let number = self
                .notices
                .notify(NAME, 0, "inglenook", &title, &text, actions, hints, AS_THE_DESKTOP_LIKES)
                .await?;
            if self.open.len() >= OPEN_MAX {
                self.open.pop_front();
            }
            self.open.push_back((number, notice.page()));
            Ok(())
        }

        /// The page of a notice of ours that was clicked; all programs hear of all clicks.
        fn page_of(&mut self, click: &ActionInvoked) -> Option<Page> {
            let click = click.args().ok().filter(|click| click.action_key() == CLICK)?;
            let at = self.open.iter().position(|(number, _)| number == click.id())?;
            self.open.remove(at).map(|(_, page)| page)
        }
    }

    /// Names come from other devices: whatever they hold is shown as it is written.
    fn as_text(text: &str) -> String {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
    }

    #[cfg(test)]
    mod tests {
        use std::os::unix::net::UnixStream;
        use std::time::Duration;

        use zbus::connection::Builder;

        use super::{Desktop, as_text};
        use crate::notices::Notice;
        use crate::texts::Texts;

        #[tokio::test]
        async fn a_desktop_that_never_answers_holds_nothing_up() {
            let (ours, _silent) = UnixStream::pair().unwrap();
            let mut desktop = Desktop::default();
            let bus = || Ok(Builder::async_io_unix_stream(ours));
            let english = Texts::of("en").unwrap();
            desktop.show_within(Duration::ZERO, bus, &Notice::Battery, english).await;
            assert!(desktop.connected.is_none(), "the next notice connects anew");
        }

        #[test]
        fn no_name_becomes_markup() {
            assert_eq!(as_text("<a href=x>R&D</a>"), "&lt;a href=x&gt;R&amp;D&lt;/a&gt;");
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use crate::asks::Page;
    use crate::notices::Notice;
    use crate::texts::{NAME, Texts};

    /// The desktop.
    #[derive(Default)]
    pub(crate) struct Desktop;

    impl Desktop {
        /// Shows a notice. One that cannot be shown is no trouble: what it says stands in the
        /// window too.
        pub(crate) async fn show(&mut self, notice: &Notice, texts: &Texts) {
            let (title, text) = notice.words(texts);
            let shown = tokio::task::spawn_blocking(move || {
                notify_rust::Notification::new()
                    .appname(NAME)
                    .summary(&title)
                    .body(&text)
                    .show()
                    .map(drop)
            });
            match shown.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::info!(%error, "a notice could not be shown"),
                Err(error) => tracing::warn!(%error, "a notice could not be shown"),
            }
        }

        /// Nothing here says which notice was clicked.
        pub(crate) async fn chosen(&mut self) -> Page {
            std::future::pending().await
        }
    }
}
