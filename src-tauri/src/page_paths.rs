//! Paths on their way to the page, which holds nothing but text.
//!
//! A path that is no Unicode would come back from the page as another one, so it is refused by the
//! name that can be shown of it.

use std::path::Path;

use nook_api::views::{Problem, Wording};
use nook_base::ErrorCode;

/// The path as the page can hand it back.
pub(crate) fn text_of(path: &Path) -> Result<String, Problem> {
    if let Some(text) = path.to_str() {
        return Ok(text.to_owned());
    }
    let shown = path.display().to_string();
    Err(Problem {
        code: ErrorCode::BadRequest.name().to_owned(),
        sentence: format!(
            "The path {shown} holds signs that are no text. Give the file another name, or move it \
             to another folder."
        ),
        wording: Some(Wording::PathNoText { path: shown }),
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_path_comes_as_it_is_or_not_at_all() {
        assert_eq!(text_of(Path::new("/models/größe.gguf")).unwrap(), "/models/größe.gguf");
        let latin = Path::new(OsStr::from_bytes(b"/models/caf\xe9.gguf"));
        let refused = text_of(latin).unwrap_err();
        assert!(refused.sentence.contains("/models/caf\u{fffd}.gguf"), "{}", refused.sentence);
        let path = "/models/caf\u{fffd}.gguf".to_owned();
        assert_eq!(refused.wording, Some(Wording::PathNoText { path }));
    }
}
