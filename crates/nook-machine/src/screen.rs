//! Whether the window in front fills the screen: a game, a film, a presentation.

#[cfg(not(any(target_os = "linux", windows, target_os = "macos")))]
pub(crate) use elsewhere::Screen;
#[cfg(any(windows, target_os = "macos"))]
pub(crate) use windowed::Screen;
#[cfg(target_os = "linux")]
pub(crate) use x11::Screen;

#[cfg(target_os = "linux")]
mod x11;

#[cfg(any(windows, target_os = "macos"))]
mod windowed {
    /// The desktop itself and the task bar belong to this program on Windows; both fill the screen.
    const DESKTOP: &str = "explorer";

    /// Nothing is kept between two looks.
    #[derive(Debug, Default)]
    pub(crate) struct Screen;

    impl Screen {
        pub(crate) fn is_filled(&mut self) -> Option<bool> {
            let window = x_win::get_active_window()
                .inspect_err(|error| tracing::debug!(%error, "the window in front is not known"))
                .ok()?;
            let ours = window.info.process_id == std::process::id();
            let desktop = cfg!(windows) && window.info.exec_name.eq_ignore_ascii_case(DESKTOP);
            Some(window.position.is_full_screen && !ours && !desktop)
        }
    }
}

#[cfg(not(any(target_os = "linux", windows, target_os = "macos")))]
mod elsewhere {
    #[derive(Debug, Default)]
    pub(crate) struct Screen;

    impl Screen {
        pub(crate) fn is_filled(&mut self) -> Option<bool> {
            None
        }
    }
}
