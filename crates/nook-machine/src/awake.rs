//! Keeping this machine from falling asleep by itself while somebody needs it.
//!
//! [`hold_off_rest`] does what it is told and decides nothing. Only the sleep that a system begins
//! because nobody types is held off. Whoever closes the lid still puts the machine to sleep
//! ([`SleepWatch`] hears of it), and the screen may go dark. When the program ends, in whatever
//! way, the system forgets what it was asked for.
//!
//! [`SleepWatch`]: crate::SleepWatch

#[cfg(any(windows, target_os = "macos"))]
mod by_crate;
#[cfg(target_os = "linux")]
mod over_bus;

use tokio::sync::watch;

#[cfg(any(windows, target_os = "macos"))]
use self::by_crate::hold;
#[cfg(not(any(windows, target_os = "macos", target_os = "linux")))]
use self::elsewhere::hold;
#[cfg(target_os = "linux")]
use self::over_bus::hold;

/// What systems show their owner as the reason.
#[cfg(any(windows, target_os = "macos", target_os = "linux"))]
const WHY: &str = "A reply is being made";

/// Whether the machine may fall asleep by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rest {
    /// As its owner has set it.
    #[default]
    Allowed,
    /// Not now: somebody needs it.
    HeldOff,
}

/// Holds the machine's rest off whenever that is `wanted`; ends when nobody can want it any more.
pub async fn hold_off_rest(mut wanted: watch::Receiver<Rest>) {
    while until(&mut wanted, Rest::HeldOff).await {
        tokio::select! {
            biased;
            _ = until(&mut wanted, Rest::Allowed) => {}
            // Never over: it gives back what it holds when it is dropped.
            () = hold() => {}
        }
    }
}

/// Waits until `rest` is wanted; `false` when nobody wants anything any more.
async fn until(wanted: &mut watch::Receiver<Rest>, rest: Rest) -> bool {
    wanted.wait_for(|wanted| *wanted == rest).await.is_ok()
}

#[cfg(not(any(windows, target_os = "macos", target_os = "linux")))]
mod elsewhere {
    /// Nothing is known here that could be held.
    pub(super) async fn hold() {
        std::future::pending().await
    }
}
