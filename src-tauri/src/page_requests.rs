//! Which requests of the list are taken from a page: those that `nook-api` opens to the window, and
//! of these only what a page can mean.
//!
//! The command line gives some arguments that the window has no field for, and changes settings
//! that no page offers. A page that sends one was not written here.

use std::path::PathBuf;

use nook_api::views::{Problem, Wording};
use nook_api::{NodeError, Request};
use nook_base::ErrorCode;

/// The request as it goes to the node; fails where no field of the window could have made it.
pub(crate) fn checked(request: Request) -> Result<Request, Problem> {
    match request {
        Request::ImportModel { name: Some(_), .. }
        | Request::Pull { name: Some(_), .. }
        | Request::CopyModel { from: Some(_), .. } => {
            let sentence = format!("`{}` has an argument too many.", request.action().name);
            Err(NodeError::new(ErrorCode::BadRequest, sentence).into())
        }
        Request::ImportModel { file, name: None } => {
            Ok(Request::ImportModel { file: whole(file)?, name: None })
        }
        Request::ChangeSetting { setting } if !nook_node::settings::is_in_window(&setting.key) => {
            let sentence = format!("The window does not change `{}`.", setting.key);
            Err(NodeError::new(ErrorCode::BadRequest, sentence).into())
        }
        request => Ok(request),
    }
}

/// A path that the person typed or dropped here.
fn whole(typed: PathBuf) -> Result<PathBuf, Problem> {
    let trimmed = typed.to_str().map(|text| PathBuf::from(text.trim()));
    trimmed.filter(|path| path.is_absolute()).ok_or_else(|| Problem {
        code: ErrorCode::BadRequest.name().to_owned(),
        sentence: "Type the whole path of the file, from the root of the disk.".to_owned(),
        wording: Some(Wording::WholePath),
    })
}

#[cfg(test)]
mod tests {
    use nook_api::views::{CopyExtent, SettingAsk, SettingData};

    use super::*;

    const ROOT: &str = if cfg!(windows) { r"C:\" } else { "/" };

    fn import(file: String) -> Request {
        Request::ImportModel { file: file.into(), name: None }
    }

    #[test]
    fn a_typed_path_is_trimmed_and_must_be_whole() {
        let Ok(Request::ImportModel { file, .. }) = checked(import(format!(" {ROOT}m.gguf\n")))
        else {
            panic!("a whole path is taken");
        };
        assert_eq!(file, PathBuf::from(format!("{ROOT}m.gguf")));
        for typed in ["m.gguf", "../m.gguf", ""] {
            let refused = checked(import(typed.to_owned())).unwrap_err();
            assert_eq!(refused.wording, Some(Wording::WholePath), "{typed}");
        }
    }

    #[test]
    fn a_page_changes_only_the_settings_that_pages_offer() {
        let change = |key: &str, value: SettingData| {
            checked(Request::ChangeSetting { setting: SettingAsk { key: key.to_owned(), value } })
        };
        assert!(change("gate.lend", "own".into()).is_ok());
        assert!(change("distributed_inference.host.pause.on_battery", false.into()).is_ok());
        for key in
            ["models.folder", "port.allowed_origins", "device.keyring", "network.loopback", "x"]
        {
            let refused = change(key, "y".into()).unwrap_err();
            assert_eq!(refused.code, "bad_request", "{key}");
            assert!(refused.sentence.contains(key), "{}", refused.sentence);
        }
    }

    #[test]
    fn arguments_of_the_command_line_are_not_taken_from_a_page() {
        let some = || Some("x".to_owned());
        for request in [
            Request::ImportModel { file: format!("{ROOT}m.gguf").into(), name: some() },
            Request::Pull { source: "qwen3-4b".to_owned(), name: some() },
            Request::CopyModel {
                model: "qwen3-4b".to_owned(),
                from: some(),
                extent: CopyExtent::Ends,
            },
        ] {
            assert_eq!(checked(request).unwrap_err().code, "bad_request");
        }
        let plain = Request::Pull { source: "qwen3-4b".to_owned(), name: None };
        assert!(matches!(checked(plain), Ok(Request::Pull { .. })));
    }
}
