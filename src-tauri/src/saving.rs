//! Saves what a person exports, in their folder for downloads. No file is ever written over.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use nook_api::views::{Problem, Wording};
use nook_base::ErrorCode;
use tauri::{AppHandle, Manager};

/// Longest name of a file, in characters, without its ending and number.
const NAME_CHARS_MAX: usize = 60;

/// Files of one name that are kept beside each other; with more, the person is asked to clear up.
const SAME_NAME_MAX: u32 = 100;

/// Writes `text` into a new file named after `title`, and says where it is.
pub(crate) async fn save(
    app: &AppHandle,
    title: &str,
    ending: &'static str,
    text: String,
) -> Result<String, Problem> {
    let paths = app.path();
    let folder = paths.download_dir().or_else(|_| paths.home_dir()).map_err(|error| {
        let sentence = format!("There is no folder for downloads: {error}.");
        problem(ErrorCode::NotFound, sentence, error.to_string())
    })?;
    let name = file_name(title);
    let saved =
        tokio::task::spawn_blocking(move || write_new(&folder, &name, ending, text.as_bytes()));
    match saved.await {
        Ok(Ok(path)) => Ok(path.display().to_string()),
        Ok(Err(error)) => {
            let sentence = format!("The file could not be saved: {error}.");
            Err(problem(ErrorCode::BadRequest, sentence, error.to_string()))
        }
        Err(_) => Err(nook_api::NodeError::gone().into()),
    }
}

fn problem(code: ErrorCode, sentence: String, reason: String) -> Problem {
    let wording = Some(Wording::NotSaved { reason: reason.into() });
    Problem { code: code.name().to_owned(), sentence, wording }
}

/// A name that every system takes: letters, numbers and single spaces of the title.
fn file_name(title: &str) -> String {
    let kept: String =
        title.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { ' ' }).collect();
    let words: Vec<&str> = kept.split_whitespace().collect();
    let name: String = words.join(" ").chars().take(NAME_CHARS_MAX).collect();
    let name = name.trim().trim_start_matches('-');
    if name.is_empty() { "chat".to_owned() } else { name.to_owned() }
}

fn write_new(folder: &Path, name: &str, ending: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    for number in 1..=SAME_NAME_MAX {
        let number = if number == 1 { String::new() } else { format!(" ({number})") };
        let path = folder.join(format!("{name}{number}.{ending}"));
        match create_own(&path) {
            Ok(mut file) => {
                file.write_all(bytes)?;
                file.sync_all()?;
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("there are a hundred files of this name already; move some away"))
}

/// A new file that nobody but its owner reads: it holds what somebody wrote.
fn create_own(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_whatever_the_title_is() {
        for (title, name) in [
            ("Why leaves change colour", "Why leaves change colour"),
            ("../../etc/passwd", "etc passwd"),
            ("a\0b:c|d?", "a b c d"),
            ("--rf", "rf"),
            ("  ", "chat"),
            ("Grüße 你好", "Grüße 你好"),
        ] {
            assert_eq!(file_name(title), name, "{title:?}");
        }
        assert_eq!(file_name(&"x".repeat(300)).len(), NAME_CHARS_MAX);
    }

    #[test]
    fn no_file_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let first = write_new(folder.path(), "chat", "md", b"one").unwrap();
        let second = write_new(folder.path(), "chat", "md", b"two").unwrap();
        assert_ne!(first, second);
        assert_eq!(std::fs::read(first).unwrap(), b"one");
        assert_eq!(std::fs::read(second).unwrap(), b"two");
    }

    #[cfg(unix)]
    #[test]
    fn what_somebody_wrote_is_for_their_eyes() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let saved = write_new(folder.path(), "chat", "md", b"private").unwrap();
        assert_eq!(std::fs::metadata(saved).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
