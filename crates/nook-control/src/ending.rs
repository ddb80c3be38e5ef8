//! How the system tells a node to end; both programs that run one wait for it here.

/// Completes when the system or a terminal asks this program to end: by Ctrl-C; on Unix by
/// `SIGTERM`; on Windows by Ctrl-Break, when the console is closed, and when its owner logs off or
/// shuts down. Windows waits about five seconds then, and ends the program itself.
pub async fn asked_by_the_system() {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = asked_politely() => {}
    }
}

#[cfg(unix)]
async fn asked_politely() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(error) => unnoticed(&error).await,
    }
}

#[cfg(windows)]
async fn asked_politely() {
    use tokio::signal::windows::{ctrl_break, ctrl_close, ctrl_logoff, ctrl_shutdown};
    let heard = || Ok((ctrl_break()?, ctrl_close()?, ctrl_logoff()?, ctrl_shutdown()?));
    match heard() {
        Ok((mut broken, mut closed, mut logged_off, mut shut_down)) => {
            tokio::select! {
                _ = broken.recv() => {}
                _ = closed.recv() => {}
                _ = logged_off.recv() => {}
                _ = shut_down.recv() => {}
            }
        }
        Err(error) => unnoticed(&error).await,
    }
}

async fn unnoticed(error: &std::io::Error) {
    tracing::warn!(%error, "that the system asks this program to end cannot be noticed");
    std::future::pending::<()>().await;
}
