//! A second start hands its words to the program that runs already, and ends.
//!
//! The single-instance plugin does the same, but only once the window system is up, and then ends
//! the process at once: a thread of the window system that is still opening the display can crash
//! while the process lets go of the libraries under it. So the running program is looked for before
//! that. Where this finds nobody or fails, the plugin decides, as it does on other systems.

/// Longest wait for the running program to take the words. It only notes them; past this limit the
/// plugin asks again.
#[cfg(target_os = "linux")]
const TAKE_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

/// Whether a program of this `identifier` runs in this desktop session and has taken the words of
/// this start.
#[cfg(target_os = "linux")]
pub(crate) fn is_handed_over(identifier: &str) -> bool {
    hand_over(identifier).is_ok()
}

/// On other systems the plugin alone does it.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_handed_over(_identifier: &str) -> bool {
    false
}

/// Says to the running program what the plugin of a second one would say: its words and its folder.
#[cfg(target_os = "linux")]
fn hand_over(identifier: &str) -> zbus::Result<()> {
    let bus = zbus::blocking::connection::Builder::session()?.method_timeout(TAKE_LIMIT).build()?;
    let name = format!("{identifier}.SingleInstance");
    let path = format!("/{}", name.replace('.', "/").replace('-', "_"));
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let folder = std::env::current_dir().unwrap_or_default();
    let said = (words.collect::<Vec<_>>(), folder.to_string_lossy());
    let (to, interface) = (Some(name.as_str()), Some("org.SingleInstance.DBus"));
    bus.call_method(to, path.as_str(), interface, "ExecuteCallback", &said)?;
    Ok(())
}
