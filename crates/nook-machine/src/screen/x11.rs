//! X11, and what runs in Xwayland: the window manager says on the root window which window is
//! active, and on that window whether it fills the screen (Extended Window Manager Hints, the
//! freedesktop.org specification of `_NET_ACTIVE_WINDOW` and `_NET_WM_STATE_FULLSCREEN`). Wayland
//! tells no program what another one's window is like.

use x11rb::connection::Connection;
use x11rb::errors::ReplyError;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt, Window};
use x11rb::rust_connection::RustConnection;

x11rb::atom_manager! {
    Atoms:
    AtomsCookie {
        _NET_ACTIVE_WINDOW,
        _NET_WM_PID,
        _NET_WM_STATE,
        _NET_WM_STATE_FULLSCREEN,
    }
}

/// Most states of a window that are read; there are about a dozen.
const STATES_MAX: u32 = 64;

#[derive(Default)]
pub(crate) struct Screen {
    /// Absent until a display answers, and again when it is gone.
    display: Option<Display>,
}

struct Display {
    connection: RustConnection,
    root: Window,
    atoms: Atoms,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("connected", &self.display.is_some()).finish()
    }
}

impl Screen {
    /// `None` where there is no display, or its desktop does not say.
    pub(crate) fn is_filled(&mut self) -> Option<bool> {
        if self.display.is_none() {
            nook_base::env::text("DISPLAY")?;
            self.display = Display::open();
        }
        match self.display.as_ref()?.is_filled() {
            Ok(filled) => filled,
            // The window was closed between two questions.
            Err(ReplyError::X11Error(_)) => Some(false),
            Err(ReplyError::ConnectionError(error)) => {
                tracing::debug!(%error, "the display is gone");
                self.display = None;
                None
            }
        }
    }
}

impl Display {
    fn open() -> Option<Self> {
        let unknown = |error: &dyn std::fmt::Display| tracing::debug!(%error, "no display");
        let (connection, screen) = x11rb::connect(None).inspect_err(|e| unknown(e)).ok()?;
        let root = connection.setup().roots.get(screen)?.root;
        let atoms = Atoms::new(&connection).inspect_err(|e| unknown(e)).ok()?;
        let atoms = atoms.reply().inspect_err(|e| unknown(e)).ok()?;
        Some(Self { connection, root, atoms })
    }

    fn is_filled(&self) -> Result<Option<bool>, ReplyError> {
        let active = self.numbers(self.root, self.atoms._NET_ACTIVE_WINDOW, AtomEnum::WINDOW, 1)?;
        let Some(active) = active else {
            return Ok(None);
        };
        let Some(window) = active.first().copied().filter(|window| *window != x11rb::NONE) else {
            return Ok(Some(false));
        };
        let atoms = &self.atoms;
        let states = self
            .numbers(window, atoms._NET_WM_STATE, AtomEnum::ATOM, STATES_MAX)?
            .unwrap_or_default();
        if !states.contains(&atoms._NET_WM_STATE_FULLSCREEN) {
            return Ok(Some(false));
        }
        let pid = self.numbers(window, atoms._NET_WM_PID, AtomEnum::CARDINAL, 1)?;
        let ours = pid.is_some_and(|pid| pid.contains(&std::process::id()));
        Ok(Some(!ours))
    }

    /// The first numbers of a property; `None` where the window does not have it.
    fn numbers(
        &self,
        window: Window,
        property: u32,
        kind: AtomEnum,
        most: u32,
    ) -> Result<Option<Vec<u32>>, ReplyError> {
        let cookie = self.connection.get_property(false, window, property, kind, 0, most)?;
        let reply = cookie.reply()?;
        Ok(reply.value32().map(Iterator::collect))
    }
}
