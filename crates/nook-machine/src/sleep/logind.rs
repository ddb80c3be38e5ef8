//! systemd-logind over the system bus (`org.freedesktop.login1.Manager`): a lock of mode "delay",
//! which is a file that is kept open, and the signal `PrepareForSleep`. Such a lock serves for one
//! sleep; another one is taken after it.
//!
//! A bus that is not there, is gone or says nothing costs a try now and then. Whoever is told that
//! a sleep is near is told that it is over as well, even if logind cannot say so any more.

use std::time::Duration;

use futures_util::StreamExt;
use zbus::connection::Builder;
use zbus::proxy::OwnerChangedStream;
use zbus::zvariant::OwnedFd;

use super::Sleep;
use crate::PROGRAM;

/// Waited after the first try that failed; after each one more, twice as long.
const TRY_FIRST: Duration = Duration::from_secs(1);

/// Longest wait between two tries: a machine without logind is asked for it this often.
const TRY_LAST: Duration = Duration::from_secs(300);

/// Longest wait for the bus and logind, which may have to be started for it, until a lock is there.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

#[zbus::proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1"
)]
pub(crate) trait Login {
    /// Gives a lock, which holds until its file is closed.
    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zbus::Result<OwnedFd>;

    /// The machine is about to sleep, or has slept.
    #[zbus(signal)]
    fn prepare_for_sleep(&self, start: bool) -> zbus::Result<()>;
}

/// Keeps the machine awake until it is dropped, for the seconds that logind grants
/// (`InhibitDelayMaxSec`, usually five).
#[derive(Debug)]
pub struct SleepLock {
    _file: Option<OwnedFd>,
}

/// Holds a lock while it is there, and says when the machine is about to sleep. Dropping it gives
/// the lock back.
#[derive(Default)]
pub struct SleepWatch {
    session: Option<Session>,
    /// Before the next try.
    wait: Duration,
    is_near: bool,
}

/// What is kept while logind answers.
struct Session {
    login: LoginProxy<'static>,
    turns: PrepareForSleepStream,
    owners: OwnerChangedStream<'static>,
    /// Absent while the machine goes to sleep: whoever was told of that has it.
    lock: Option<OwnedFd>,
}

impl std::fmt::Debug for SleepWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let connected = self.session.is_some();
        f.debug_struct("SleepWatch").field("connected", &connected).finish_non_exhaustive()
    }
}

impl SleepWatch {
    /// What happens next, however long that takes. To be awaited to its end while a sleep is near,
    /// or the end of that sleep may be missed.
    pub async fn next(&mut self) -> Sleep {
        loop {
            let said = match &mut self.session {
                Some(session) => session.next().await,
                None if self.is_near => Ok(Sleep::Over),
                None => {
                    tokio::time::sleep(self.wait).await;
                    self.wait = (self.wait * 2).clamp(TRY_FIRST, TRY_LAST);
                    self.session = Session::begin().await;
                    continue;
                }
            };
            match said {
                Ok(sleep) => {
                    self.is_near = matches!(sleep, Sleep::Near(_));
                    self.wait = TRY_FIRST;
                    return sleep;
                }
                Err(error) => {
                    tracing::debug!(%error, "logind is gone; it is looked for again");
                    self.session = None;
                }
            }
        }
    }
}

impl Session {
    async fn begin() -> Option<Self> {
        match tokio::time::timeout(ANSWER_LIMIT, Self::over_the_bus()).await {
            Ok(Ok(session)) => return Some(session),
            Ok(Err(error)) => tracing::debug!(%error, "no logind says when this machine sleeps"),
            Err(_) => tracing::debug!(limit = ?ANSWER_LIMIT, "logind does not answer"),
        }
        None
    }

    async fn over_the_bus() -> zbus::Result<Self> {
        let bus = Builder::system()?.method_timeout(ANSWER_LIMIT).build().await?;
        let login = LoginProxy::new(&bus).await?;
        // Before there is a lock: what is said while it is asked for is heard.
        let turns = login.receive_prepare_for_sleep().await?;
        let owners = login.inner().receive_owner_changed().await?;
        let lock = Some(login.lock().await?);
        Ok(Self { login, turns, owners, lock })
    }

    async fn next(&mut self) -> zbus::Result<Sleep> {
        let gone = || zbus::Error::Failure("its name has another owner or none".to_owned());
        let turn = tokio::select! {
            biased;
            turn = self.turns.next() => turn.ok_or_else(gone)?,
            // The lock was the old one's.
            _ = self.owners.next() => return Err(gone()),
        };
        if *turn.args()?.start() {
            return Ok(Sleep::Near(SleepLock { _file: self.lock.take() }));
        }
        self.lock = Some(self.login.lock().await?);
        Ok(Sleep::Over)
    }
}

impl LoginProxy<'_> {
    async fn lock(&self) -> zbus::Result<OwnedFd> {
        let why = "Replies of other devices that this one helps with go on elsewhere";
        self.inhibit("sleep", PROGRAM, why, "delay").await
    }
}
