//! Whether the window in front fills the screen: a game, a film, a presentation. Not known on macOS
//! yet.

#[cfg(not(any(target_os = "linux", windows)))]
pub(crate) use elsewhere::Screen;
#[cfg(windows)]
pub(crate) use on_windows::Screen;
#[cfg(target_os = "linux")]
pub(crate) use x11::Screen;

#[cfg(windows)]
mod on_windows;
#[cfg(target_os = "linux")]
mod x11;

#[cfg(not(any(target_os = "linux", windows)))]
mod elsewhere {
    #[derive(Debug, Default)]
    pub(crate) struct Screen;

    impl Screen {
        pub(crate) fn is_filled(&mut self) -> Option<bool> {
            None
        }
    }
}
