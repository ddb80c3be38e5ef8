//! Hearing that this machine is about to sleep, before it does.
//!
//! [`SleepWatch::next`] says when a sleep is near and when it is over. What is said before brings a
//! [`SleepLock`]: the machine sleeps once that is dropped, or after the time that it gives its programs. On
//! Linux systemd-logind is asked. On other systems, and on a Linux without it, nothing is ever
//! said: there a sleep is noticed afterwards only.

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{SleepLock, SleepWatch};
#[cfg(target_os = "linux")]
pub(crate) use logind::LoginProxy;
#[cfg(target_os = "linux")]
pub use logind::{SleepLock, SleepWatch};

#[cfg(target_os = "linux")]
mod logind;

/// What becomes of this machine.
#[derive(Debug)]
pub enum Sleep {
    /// It is about to sleep, and waits for this lock, though not for long.
    Near(SleepLock),
    /// It is awake again, or it is not known any more when it will be.
    Over,
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::Sleep;

    /// Keeps the machine awake until it is dropped; never given here.
    #[derive(Debug)]
    pub struct SleepLock(());

    /// Says nothing here.
    #[derive(Debug, Default)]
    pub struct SleepWatch;

    impl SleepWatch {
        /// Waits for ever.
        pub async fn next(&mut self) -> Sleep {
            std::future::pending().await
        }
    }
}
