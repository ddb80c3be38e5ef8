//! The one thing that must be known before a webview exists: which graphics workaround it needs.
//!
//! WebKitGTK with NVIDIA's driver can show a blank window. The known switches are environment
//! variables that have to be there before any thread starts, so the program starts itself again with
//! them; whoever has set one already is left alone.

use std::io;
#[cfg(target_os = "linux")]
use std::path::Path;

/// Sets what this machine needs. Returns when nothing has to be set; does not return when the program
/// was started again instead.
#[cfg(target_os = "linux")]
pub(crate) fn prepare(safe_graphics: bool) -> io::Result<()> {
    use std::os::unix::process::CommandExt;

    if nook_base::env::raw("DISPLAY").is_none() && nook_base::env::raw("WAYLAND_DISPLAY").is_none()
    {
        return Err(io::Error::other(
            "there is no display here; `nook up` runs Inglenook without a window",
        ));
    }
    let nvidia = Path::new("/sys/module/nvidia/version").exists();
    let wayland = nook_base::env::raw("WAYLAND_DISPLAY").is_some();
    let Some(variable) = workaround(nvidia, wayland, safe_graphics) else {
        return Ok(());
    };
    if nook_base::env::raw(variable).is_some() {
        return Ok(());
    }
    tracing::info!(variable, "starting again with a graphics workaround");
    let error = std::process::Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(variable, "1")
        .exec();
    Err(error)
}

/// Other systems need nothing.
#[cfg(not(target_os = "linux"))]
pub(crate) fn prepare(_safe_graphics: bool) -> io::Result<()> {
    Ok(())
}

/// The mildest switch that helps: on Wayland the picture stays accelerated.
#[cfg(target_os = "linux")]
fn workaround(nvidia: bool, wayland: bool, safe_graphics: bool) -> Option<&'static str> {
    match (safe_graphics, nvidia, wayland) {
        (true, ..) => Some("WEBKIT_DISABLE_COMPOSITING_MODE"),
        (false, true, true) => Some("__NV_DISABLE_EXPLICIT_SYNC"),
        (false, true, false) => Some("WEBKIT_DISABLE_DMABUF_RENDERER"),
        (false, false, _) => None,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::workaround;

    #[test]
    fn machines_without_the_problem_get_no_workaround() {
        assert_eq!(workaround(false, true, false), None);
        assert_eq!(workaround(false, false, false), None);
    }

    #[test]
    fn nvidia_keeps_its_acceleration_where_it_can() {
        assert_eq!(workaround(true, true, false), Some("__NV_DISABLE_EXPLICIT_SYNC"));
        assert_eq!(workaround(true, false, false), Some("WEBKIT_DISABLE_DMABUF_RENDERER"));
        assert_eq!(workaround(true, true, true), Some("WEBKIT_DISABLE_COMPOSITING_MODE"));
    }
}
