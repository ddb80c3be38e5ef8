//! Whether this program starts when its person logs in: asked of the system, and switched there.
//!
//! On Linux it is an entry in the folder of autostart files that the desktop reads (XDG). It is
//! written here: the plugin that does it elsewhere knows only `~/.config`, also where the desktop
//! reads another folder, writes a path with a space as two words, and takes an entry that the
//! person has switched off in their desktop's settings for one that is on. The program starts with
//! `--hidden`, in the tray.

use tauri::AppHandle;

/// What the system does not allow, in its own words.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct LoginStartError {
    /// Of the system or of the plugin.
    pub(crate) reason: String,
}

impl LoginStartError {
    fn new(reason: impl std::fmt::Display) -> Self {
        Self { reason: reason.to_string() }
    }
}

#[cfg(target_os = "linux")]
pub(crate) use entry::{is_on, set};

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_on(app: &AppHandle) -> Result<bool, LoginStartError> {
    use tauri_plugin_autostart::ManagerExt;
    app.autolaunch().is_enabled().map_err(LoginStartError::new)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn set(app: &AppHandle, on: bool) -> Result<(), LoginStartError> {
    use tauri_plugin_autostart::ManagerExt;
    let entry = app.autolaunch();
    let done = if on { entry.enable() } else { entry.disable() };
    done.map_err(LoginStartError::new)
}

#[cfg(target_os = "linux")]
mod entry {
    use std::fs;
    use std::io::ErrorKind;
    use std::path::{Path, PathBuf};

    use tauri::Manager;

    use super::{AppHandle, LoginStartError};

    /// Inside the folder of the person's settings.
    const FILE: &str = "autostart/Inglenook.desktop";

    /// Lines by which desktops keep that the person has switched an entry off.
    const OFF: [&str; 2] = ["Hidden=true", "X-GNOME-Autostart-enabled=false"];

    pub(crate) fn is_on(app: &AppHandle) -> Result<bool, LoginStartError> {
        is_on_at(&place(app)?).map_err(LoginStartError::new)
    }

    pub(crate) fn set(app: &AppHandle, on: bool) -> Result<(), LoginStartError> {
        let place = place(app)?;
        if on {
            let entry = entry(&program(app)?)?;
            write_at(&place, &entry).map_err(LoginStartError::new)
        } else {
            remove_at(&place).map_err(LoginStartError::new)
        }
    }

    /// `$XDG_CONFIG_HOME`, else `~/.config`.
    fn place(app: &AppHandle) -> Result<PathBuf, LoginStartError> {
        Ok(app.path().config_dir().map_err(LoginStartError::new)?.join(FILE))
    }

    /// As it was at the start: once an upgrade has replaced the file, the system calls it deleted.
    /// An AppImage is started by its own file: what runs inside it is gone when it ends.
    fn program(app: &AppHandle) -> Result<PathBuf, LoginStartError> {
        tauri::process::current_binary(&app.env()).map_err(LoginStartError::new)
    }

    fn is_on_at(place: &Path) -> std::io::Result<bool> {
        match fs::read_to_string(place) {
            Ok(text) => Ok(!text.lines().any(|line| OFF.contains(&line.trim()))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The whole file or the one before: a desktop may read it at any moment.
    fn write_at(place: &Path, entry: &str) -> std::io::Result<()> {
        let folder = place.parent().unwrap_or(place);
        fs::create_dir_all(folder)?;
        // Without the ending it is none of the entries that a desktop reads.
        let draft = place.with_extension("draft");
        fs::write(&draft, entry)?;
        fs::rename(&draft, place)
    }

    fn remove_at(place: &Path) -> std::io::Result<()> {
        match fs::remove_file(place) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn entry(program: &Path) -> Result<String, LoginStartError> {
        let path = program.to_str().filter(|path| !path.contains(char::is_control));
        let path = path.ok_or_else(|| {
            LoginStartError::new("the path of this program holds signs that are no text")
        })?;
        Ok(format!(
            "[Desktop Entry]\nType=Application\nVersion=1.0\nName=Inglenook\nExec={} --hidden\n\
             StartupNotify=false\nTerminal=false\n",
            quoted(path)
        ))
    }

    /// A path as one word of a command, by the rules of the Desktop Entry Specification (1.5, "The
    /// Exec key"): in quotation marks with four signs escaped, `%` twice; and then as a text of the
    /// file, in which each backslash stands twice.
    fn quoted(path: &str) -> String {
        let mut word = String::from("\"");
        for sign in path.chars() {
            match sign {
                '"' | '`' | '$' => word.push_str("\\\\"),
                '\\' => word.push_str("\\\\\\"),
                '%' => word.push('%'),
                _ => {}
            }
            word.push(sign);
        }
        word.push('"');
        word
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_path_is_one_word_of_the_command_whatever_it_holds() {
            for (path, exec) in [
                ("/usr/bin/inglenook", r#""/usr/bin/inglenook""#),
                ("/opt/My Programs/in glenook", r#""/opt/My Programs/in glenook""#),
                ("/opt/100%/a", r#""/opt/100%%/a""#),
                ("/opt/a\"b$c`d", r#""/opt/a\\"b\\$c\\`d""#),
                ("/opt/a\\b", r#""/opt/a\\\\b""#),
            ] {
                assert_eq!(quoted(path), exec);
                let entry = entry(Path::new(path)).unwrap();
                assert!(entry.contains(&format!("Exec={exec} --hidden\n")), "{entry}");
            }
            assert!(entry(Path::new("/opt/a\nExec=evil")).is_err());
        }

        #[test]
        fn an_entry_is_on_while_it_is_there_and_nobody_has_switched_it_off_elsewhere() {
            let folder = tempfile::tempdir().unwrap();
            let place = folder.path().join("config").join(FILE);
            assert!(!is_on_at(&place).unwrap());
            remove_at(&place).unwrap();
            let text = entry(Path::new("/usr/bin/inglenook")).unwrap();
            write_at(&place, &text).unwrap();
            assert!(is_on_at(&place).unwrap());
            for off in OFF {
                fs::write(&place, format!("{text}{off}\n")).unwrap();
                assert!(!is_on_at(&place).unwrap(), "{off}");
            }
            write_at(&place, &text).unwrap();
            assert!(is_on_at(&place).unwrap());
            let files: Vec<_> = fs::read_dir(place.parent().unwrap()).unwrap().collect();
            assert_eq!(files.len(), 1, "{files:?}");
            remove_at(&place).unwrap();
            assert!(!place.exists() && !is_on_at(&place).unwrap());
        }
    }
}
