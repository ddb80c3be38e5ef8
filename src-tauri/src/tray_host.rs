//! Whether this desktop shows tray icons at all. Plain GNOME does not: there, a hidden window would
//! be lost.

/// Longest wait for the desktop's answer; a bus that is slower counts as one without a tray, which
/// costs a minimised window instead of a hidden one.
#[cfg(target_os = "linux")]
const ANSWER_LIMIT: std::time::Duration = std::time::Duration::from_millis(500);

/// Asks the desktop now: hosts come and go.
#[cfg(target_os = "linux")]
pub(crate) async fn is_there() -> bool {
    tokio::time::timeout(ANSWER_LIMIT, ask()).await.is_ok_and(|answer| answer.unwrap_or(false))
}

/// Windows and macOS always have one.
#[cfg(not(target_os = "linux"))]
pub(crate) async fn is_there() -> bool {
    true
}

#[cfg(target_os = "linux")]
async fn ask() -> zbus::Result<bool> {
    let bus = zbus::Connection::session().await?;
    let watcher = zbus::Proxy::new(
        &bus,
        "org.kde.StatusNotifierWatcher",
        "/StatusNotifierWatcher",
        "org.kde.StatusNotifierWatcher",
    )
    .await?;
    watcher.get_property("IsStatusNotifierHostRegistered").await
}
