//! Why downloads do not go on, as front ends are told: a code, an English sentence, and what the
//! window's catalogues need to say it in another language (pure).

use nook_base::ErrorCode;
use nook_fetch::FetchError;

use nook_api::views::{DownloadTrouble as Trouble, Problem, Wording};
use nook_api::{NodeError, sentence};

use crate::part_failure::PartFailure;

/// What ended a download.
pub(crate) fn of_end(error: &FetchError) -> Problem {
    problem(code(error), error.to_string(), trouble(error))
}

/// What ended a search.
pub(crate) fn of_search(error: &FetchError) -> NodeError {
    let (said, trouble) = match error.clone() {
        FetchError::GaveUp { host, last, .. } => {
            let said = format!(
                "{host} did not answer: {last}. See whether this computer is on the internet, then search again"
            );
            (said, Trouble::NoAnswer { host, reason: last.into() })
        }
        error => (error.to_string(), trouble(&error)),
    };
    NodeError::new(code(error), sentence(&said)).worded(Wording::Download { trouble })
}

/// What ended the last try of a download that goes on by itself.
pub(crate) fn of_try(last: &str) -> Problem {
    let trouble = Trouble::Retrying { last: last.into() };
    problem(ErrorCode::PipelineStalled, last.to_owned(), trouble)
}

/// What came is no model that can be used. `deleted`: nothing vouched for it, so it is gone.
pub(crate) fn of_model(reason: String, deleted: bool) -> Problem {
    let said = match deleted {
        true => format!("{reason}. What came was deleted; it was not checked by a digest"),
        false => reason.clone(),
    };
    problem(ErrorCode::BadModel, said, Trouble::NoModel { reason, deleted })
}

/// What came from the house is something else than what was asked for; `device` brought all of it
/// in one go, if one did.
pub(crate) fn of_copy(device: Option<String>) -> Problem {
    let said = match &device {
        Some(device) => format!(
            "what {device} sent is not the model that was asked for. It was deleted, and nothing more is copied from that device until Inglenook starts again"
        ),
        None => "what was copied in several parts is not the model that was asked for. It was \
                 deleted; copy it again"
            .to_owned(),
    };
    problem(ErrorCode::BadModel, said, Trouble::WrongCopy { device })
}

/// Why parts of a model did not come.
pub(crate) fn of_part(why: &PartFailure) -> Problem {
    let trouble = match why.clone() {
        PartFailure::DiskFull => Trouble::DiskFull,
        PartFailure::Disk { file, reason } => {
            Trouble::NotWritten { file: file.display().to_string(), reason: reason.into() }
        }
        PartFailure::NoHolder => Trouble::NobodyHasIt,
        PartFailure::WrongBytes { device } => Trouble::WrongCopy { device: Some(device) },
        PartFailure::Unusable { reason } => Trouble::NoModel { reason, deleted: false },
        PartFailure::Lost => Trouble::Interrupted,
        why => Trouble::Ended { reason: why.to_string().into() },
    };
    problem(why.code(), why.to_string(), trouble)
}

/// No device that has the model is here now.
pub(crate) fn of_nobody() -> Problem {
    problem(ErrorCode::ShardUnavailable, FetchError::Nobody.to_string(), Trouble::NobodyHasIt)
}

fn problem(code: ErrorCode, said: String, trouble: Trouble) -> Problem {
    let wording = Some(Wording::Download { trouble });
    Problem { code: code.name().to_owned(), sentence: sentence(&said), wording }
}

fn code(error: &FetchError) -> ErrorCode {
    match error {
        FetchError::Busy { .. } => ErrorCode::Busy,
        FetchError::NotThere { .. } | FetchError::NoRepository { .. } => ErrorCode::NotFound,
        FetchError::Refused { .. } => ErrorCode::TrustDenied,
        FetchError::GaveUp { .. } => ErrorCode::PipelineStalled,
        FetchError::TooLarge { .. } => ErrorCode::TooLong,
        FetchError::TooLong { .. }
        | FetchError::NotGguf { .. }
        | FetchError::NotTheOne { .. }
        | FetchError::Digest { .. } => ErrorCode::BadModel,
        _ => ErrorCode::BadRequest,
    }
}

fn trouble(error: &FetchError) -> Trouble {
    match error.clone() {
        FetchError::Busy { file } => Trouble::Busy { file },
        FetchError::NotThere { host, .. } => Trouble::NotThere { host },
        FetchError::NoRepository { host, .. } => Trouble::NoRepository { host },
        FetchError::Strange { host } => Trouble::NoList { host },
        FetchError::Pieces { reason } => Trouble::NotJoined { reason },
        FetchError::Refused { host, .. } => Trouble::NotForAll { host },
        FetchError::Unexpected { host, status } => Trouble::Unexpected { host, status },
        FetchError::GaveUp { host, tries, last } => {
            Trouble::GaveUp { host, tries, last: last.into() }
        }
        FetchError::Redirect { host, why } => Trouble::Redirected { host, reason: why },
        FetchError::TooLarge { bytes, .. } => Trouble::TooLarge { bytes },
        FetchError::NotGguf { host } => Trouble::NotGguf { host },
        FetchError::NotTheOne { host, .. } => Trouble::NotTheOne { host },
        FetchError::Digest { .. } => Trouble::Damaged,
        FetchError::TooLong { host, bytes } => Trouble::TooLong { host, bytes },
        FetchError::NoRoom { needed, free } => Trouble::NoRoom { needed, free },
        FetchError::Disk { full: true, .. } => Trouble::DiskFull,
        FetchError::Disk { file, reason, .. } => {
            Trouble::NotWritten { file: file.display().to_string(), reason: reason.into() }
        }
        FetchError::Untrusted { host, reason } => {
            Trouble::Untrusted { host, reason: reason.into() }
        }
        FetchError::Certificates { reason } => Trouble::NoCertificates { reason },
        FetchError::Lost => Trouble::Interrupted,
        error => Trouble::Ended { reason: error.to_string().into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_has_a_code_a_sentence_and_what_other_languages_need() {
        let error =
            FetchError::GaveUp { host: "example.org".into(), tries: 8, last: "reset".into() };
        let told = of_end(&error);
        assert_eq!(told.code, "pipeline_stalled");
        assert!(told.sentence.starts_with("Example.org: 8 tries"), "{}", told.sentence);
        let trouble =
            Trouble::GaveUp { host: "example.org".into(), tries: 8, last: "reset".into() };
        assert_eq!(told.wording, Some(Wording::Download { trouble }));
        let full = |full| FetchError::Disk { file: "/m".into(), reason: "no".into(), full };
        assert_eq!(trouble_of(&full(true)), Trouble::DiskFull);
        assert!(matches!(trouble_of(&full(false)), Trouble::NotWritten { .. }));
        assert_eq!(trouble_of(&FetchError::Lost), Trouble::Interrupted);
    }

    fn trouble_of(error: &FetchError) -> Trouble {
        match of_end(error).wording {
            Some(Wording::Download { trouble }) => trouble,
            other => panic!("no words for a download: {other:?}"),
        }
    }

    #[test]
    fn what_is_no_model_says_whether_it_is_still_there() {
        let told = of_model("a.gguf is no model that can be used: it is empty".into(), true);
        assert_eq!(
            told.sentence,
            "A.gguf is no model that can be used: it is empty. What came was deleted; it was not \
             checked by a digest."
        );
        assert!(!of_model("x".into(), false).sentence.contains("deleted"));
    }
}
