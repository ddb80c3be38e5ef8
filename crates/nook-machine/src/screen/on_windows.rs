//! Windows: the window in front, compared with the whole of its monitor.

use winsafe::{HWND, SysResult, co};

/// Classes of the desktop itself, which fills the screen when nothing else has the focus.
const DESKTOP: [&str; 2] = ["Progman", "WorkerW"];

/// Nothing is kept between two looks.
#[derive(Debug, Default)]
pub(crate) struct Screen;

impl Screen {
    pub(crate) fn is_filled(&mut self) -> Option<bool> {
        // Without a window in front, nothing fills the screen.
        let Some(window) = HWND::GetForegroundWindow() else { return Some(false) };
        fills(&window)
            .inspect_err(|error| tracing::debug!(%error, "the window in front is not known"))
            .ok()
    }
}

fn fills(window: &HWND) -> SysResult<bool> {
    let (_, process) = window.GetWindowThreadProcessId();
    if process == std::process::id() || DESKTOP.contains(&window.GetClassName()?.as_str()) {
        return Ok(false);
    }
    let monitor = window.MonitorFromWindow(co::MONITOR::DEFAULTTONEAREST).GetMonitorInfo()?;
    let (mine, all) = (window.GetWindowRect()?, monitor.rcMonitor);
    Ok((mine.left, mine.top, mine.right, mine.bottom) == (all.left, all.top, all.right, all.bottom))
}
