//! Linux: whoever would put the machine to sleep is asked not to.
//!
//! On a desktop that is its session or its power manager, over the session's bus:
//! `org.gnome.SessionManager` (GNOME, Cinnamon, MATE), else `org.freedesktop.PowerManagement` (KDE
//! Plasma, Xfce). They ask nobody else before they let the machine sleep, and logind's lock would
//! keep KDE's screen on as well. Where neither is there, it is logind, over the system's bus.
//!
//! A lock ends with the connection that it was taken over. Whoever gave it may end as well; then
//! another one is taken.

use std::time::Duration;

use futures_util::StreamExt as _;
use zbus::Connection;
use zbus::connection::Builder;
use zbus::proxy::OwnerChangedStream;
use zbus::zvariant::OwnedFd;

use super::WHY;
use crate::PROGRAM;
use crate::sleep::LoginProxy;

/// Waited after the first try that failed; after each one more, twice as long.
const TRY_FIRST: Duration = Duration::from_secs(1);

/// Longest wait between two tries: a machine on which nobody gives a lock is asked this often.
const TRY_LAST: Duration = Duration::from_secs(60);

/// Longest wait for one bus, and for one answer over it. Whoever takes longer is taken for absent.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Of `org.gnome.SessionManager`: the session may not be suspended.
const SUSPEND: u32 = 4;

#[zbus::proxy(
    interface = "org.gnome.SessionManager",
    default_service = "org.gnome.SessionManager",
    default_path = "/org/gnome/SessionManager"
)]
trait Session {
    /// Gives a number, which holds while the connection does.
    #[zbus(no_autostart)]
    fn inhibit(&self, app_id: &str, window: u32, reason: &str, flags: u32) -> zbus::Result<u32>;
}

#[zbus::proxy(
    interface = "org.freedesktop.PowerManagement.Inhibit",
    default_service = "org.freedesktop.PowerManagement",
    default_path = "/org/freedesktop/PowerManagement/Inhibit"
)]
trait Power {
    /// Gives a number, which holds while the connection does.
    #[zbus(no_autostart)]
    fn inhibit(&self, application: &str, reason: &str) -> zbus::Result<u32>;
}

/// Holds the machine awake until it is dropped.
struct Lock {
    /// What logind gives: a lock is a file that is kept open.
    _file: Option<OwnedFd>,
    /// Tells when its giver is gone.
    giver: OwnerChangedStream<'static>,
    /// The lock ends with it.
    _bus: Connection,
}

/// Takes a lock, and another one whenever that is lost.
pub(super) async fn hold() {
    let mut wait = TRY_FIRST;
    loop {
        if let Some(mut lock) = take().await {
            wait = TRY_FIRST;
            lock.giver.next().await;
            tracing::debug!("whoever kept this machine awake is gone");
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(TRY_LAST);
    }
}

async fn take() -> Option<Lock> {
    if let Some(lock) = within_limit("the desktop", of_desktop()).await {
        return Some(lock);
    }
    within_limit("logind", of_logind()).await
}

async fn within_limit(whose: &str, lock: impl Future<Output = zbus::Result<Lock>>) -> Option<Lock> {
    match tokio::time::timeout(ANSWER_LIMIT, lock).await {
        Ok(Ok(lock)) => return Some(lock),
        Ok(Err(error)) => tracing::debug!(%error, "{whose} does not keep this machine awake"),
        Err(_) => tracing::debug!(limit = ?ANSWER_LIMIT, "{whose} does not answer"),
    }
    None
}

async fn of_desktop() -> zbus::Result<Lock> {
    let bus = Builder::session()?.method_timeout(ANSWER_LIMIT).build().await?;
    // Listened to before there is a lock: whoever leaves right after giving one is missed else.
    let session = SessionProxy::new(&bus).await?;
    let giver = session.inner().receive_owner_changed().await?;
    if session.inhibit(PROGRAM, 0, WHY, SUSPEND).await.is_ok() {
        return Ok(Lock { giver, _file: None, _bus: bus });
    }
    let power = PowerProxy::new(&bus).await?;
    let giver = power.inner().receive_owner_changed().await?;
    power.inhibit(PROGRAM, WHY).await?;
    Ok(Lock { giver, _file: None, _bus: bus })
}

async fn of_logind() -> zbus::Result<Lock> {
    let bus = Builder::system()?.method_timeout(ANSWER_LIMIT).build().await?;
    let login = LoginProxy::new(&bus).await?;
    let giver = login.inner().receive_owner_changed().await?;
    // Not "sleep", which would refuse it to the person who asks for it.
    let file = login.inhibit("idle", PROGRAM, WHY, "block").await?;
    Ok(Lock { giver, _file: Some(file), _bus: bus })
}
