//! The texts of the tray, in English. The window's are in `ui/src/strings`.

/// Name of the window and of the tray icon.
pub(crate) const NAME: &str = "Inglenook";
/// First line of the tray's menu until the house is up.
pub(crate) const STARTING: &str = "Starting…";
/// First line of the tray's menu when the house did not start.
pub(crate) const NOT_RUNNING: &str = "Not running: open the window to see why";
/// Switch.
pub(crate) const SHARE: &str = "Share this computer";
/// Lends nothing for an hour.
pub(crate) const PAUSE_HOUR: &str = "Pause sharing for an hour";
/// Lends nothing until the next morning.
pub(crate) const PAUSE_TOMORROW: &str = "Pause sharing until tomorrow";
/// Ends a pause that the owner asked for.
pub(crate) const RESUME: &str = "Go on sharing";
/// Gives memory back.
pub(crate) const FREE_MEMORY: &str = "Free memory now";
/// Shows the chat page.
pub(crate) const OPEN_CHAT: &str = "Open chat";
/// Shows the devices page.
pub(crate) const DEVICES: &str = "Devices…";
/// Ends the program.
pub(crate) const QUIT: &str = "Quit";
