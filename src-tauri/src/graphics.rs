//! The one thing that must be known before a webview exists: which graphics workaround it needs.
//!
//! WebKitGTK with some drivers, NVIDIA's above all, can show a blank window. The known switches are
//! environment variables that have to be there before any thread starts, so the program starts
//! itself again with them; whoever has set one already is left alone. *Safe graphics* leaves the
//! card out altogether: asked for by `--safe-graphics` or in the settings, or chosen by
//! `page_watch`.

use std::io;

use nook_update::RunningProgram;

/// Asks for safe graphics.
pub(crate) const SAFE_WORD: &str = "--safe-graphics";

/// What leaves the graphics card out altogether.
pub(crate) const SAFE_VARIABLES: &[&str] =
    &["WEBKIT_DISABLE_DMABUF_RENDERER", "WEBKIT_DISABLE_COMPOSITING_MODE"];

/// Sets what this machine needs. Returns when nothing has to be set; does not return when the
/// program was started again instead.
#[cfg(target_os = "linux")]
pub(crate) fn prepare(own: &RunningProgram, safe_graphics: bool) -> io::Result<()> {
    if nook_base::env::raw("DISPLAY").is_none() && nook_base::env::raw("WAYLAND_DISPLAY").is_none()
    {
        return Err(io::Error::other(
            "there is no display here; `nook up` runs Inglenook without a window",
        ));
    }
    let nvidia = std::path::Path::new("/sys/module/nvidia/version").exists();
    let wayland = nook_base::env::raw("WAYLAND_DISPLAY").is_some();
    let missing: Vec<&str> = workarounds(nvidia, wayland, safe_graphics)
        .iter()
        .copied()
        .filter(|variable| nook_base::env::raw(variable).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    tracing::info!(?missing, "starting again with a graphics workaround");
    crate::start_again::start(own, own.words().iter().cloned(), &missing)
}

/// Other systems need nothing.
#[cfg(not(target_os = "linux"))]
pub(crate) fn prepare(_own: &RunningProgram, _safe_graphics: bool) -> io::Result<()> {
    Ok(())
}

/// The mildest switches that help: on Wayland with NVIDIA the picture stays accelerated.
#[cfg(target_os = "linux")]
fn workarounds(nvidia: bool, wayland: bool, safe_graphics: bool) -> &'static [&'static str] {
    match (safe_graphics, nvidia, wayland) {
        (true, ..) => SAFE_VARIABLES,
        (false, true, true) => &["__NV_DISABLE_EXPLICIT_SYNC"],
        (false, true, false) => &["WEBKIT_DISABLE_DMABUF_RENDERER"],
        (false, false, _) => &[],
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::workarounds;

    #[test]
    fn machines_without_the_problem_get_no_workaround() {
        assert!(workarounds(false, true, false).is_empty());
        assert!(workarounds(false, false, false).is_empty());
    }

    #[test]
    fn nvidia_keeps_its_acceleration_where_it_can() {
        assert_eq!(workarounds(true, true, false), ["__NV_DISABLE_EXPLICIT_SYNC"]);
        assert_eq!(workarounds(true, false, false), ["WEBKIT_DISABLE_DMABUF_RENDERER"]);
        assert!(workarounds(true, true, true).contains(&"WEBKIT_DISABLE_COMPOSITING_MODE"));
    }
}
