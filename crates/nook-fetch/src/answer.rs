//! What a server said of a file, made of status and header fields. Pure.
//!
//! Range requests and their answers: RFC 9110, sections 13.1.5 (If-Range), 14.2 (Range) and 14.4
//! (Content-Range). For files in large file storage Hugging Face names length, digest and commit in
//! the fields `X-Linked-Size`, `X-Linked-Etag` (the SHA-256 of the file) and `X-Repo-Commit` of the
//! redirect to its storage; the names are those of `huggingface_hub`, `constants.py`.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, LAST_MODIFIED, RETRY_AFTER,
};
use serde::{Deserialize, Serialize};

use crate::limits::RETRY_AFTER_MAX;

const LINKED_SIZE: &str = "x-linked-size";
const LINKED_ETAG: &str = "x-linked-etag";
const COMMIT: &str = "x-repo-commit";

/// Longest value that is remembered of a field, in bytes; a longer one counts as absent.
const VALUE_BYTES_MAX: usize = 256;

/// What the origin itself says of a file, whoever hands out the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Linked {
    /// Digest of the whole file, hexadecimal.
    pub(crate) sha256: Option<String>,
    /// Its length.
    pub(crate) bytes: Option<u64>,
    /// The commit of the repository that has it.
    pub(crate) commit: Option<String>,
}

/// Which version of a file a server has. Bytes of two versions are never mixed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Version {
    /// The publisher's digest, hexadecimal. Where there is one, nothing else decides.
    pub(crate) sha256: Option<String>,
    /// A strong entity tag, or the time of the last change: what `If-Range` takes.
    pub(crate) validator: Option<String>,
    /// Whose mark that is: marks of two servers say nothing of each other.
    pub(crate) server: Option<String>,
    /// Length of the whole file.
    pub(crate) bytes: Option<u64>,
    /// The commit of the repository, for people.
    pub(crate) commit: Option<String>,
}

/// An answer that brings bytes, or says that none are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// Where the bytes that follow begin.
    pub(crate) from: u64,
    pub(crate) version: Version,
}

/// Trouble that may pass: another try may go better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passing {
    pub(crate) why: String,
    /// How long the server asks to be left alone, where it says.
    pub(crate) wait: Option<Duration>,
}

impl Passing {
    /// Trouble of which no server has said how long it lasts.
    pub(crate) fn of(why: impl Into<String>) -> Self {
        Self { why: why.into(), wait: None }
    }
}

/// What an answer amounts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Bytes follow.
    Bytes(Head),
    /// Everything was there already.
    Complete(Version),
    /// What is there is of no use with this server: begin anew.
    Anew(&'static str),
    /// It may go better later.
    Later(Passing),
    /// There is no such file.
    NotThere,
    /// Not for everybody.
    Refused,
    /// Something else.
    Unexpected,
}

impl Linked {
    pub(crate) fn read(fields: &HeaderMap) -> Self {
        let digest = text(fields, LINKED_ETAG).map(|tag| tag.trim_matches('"').to_lowercase());
        Self {
            sha256: digest.filter(|digest| is_sha256(digest)),
            bytes: text(fields, LINKED_SIZE).and_then(|size| size.parse().ok()),
            commit: text(fields, COMMIT).map(str::to_owned),
        }
    }
}

impl Version {
    /// Whether bytes of `self` go on with bytes of `other`.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same_length = match (self.bytes, other.bytes) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        same_length
            && match (&self.sha256, &other.sha256) {
                (Some(one), Some(other)) => one == other,
                // Without a digest on both sides, only the server's own mark can say so.
                _ => {
                    self.validator.is_some()
                        && (&self.validator, &self.server) == (&other.validator, &other.server)
                }
            }
    }

    /// All that is known of a version when `self` is what was said last and `known` what was said
    /// of the same one before: a server need not say everything each time.
    pub(crate) fn or(self, known: &Self) -> Self {
        let (validator, server) = match self.validator {
            Some(validator) => (Some(validator), self.server),
            None => (known.validator.clone(), known.server.clone()),
        };
        Self {
            sha256: self.sha256.or_else(|| known.sha256.clone()),
            validator,
            server,
            bytes: self.bytes.or(known.bytes),
            commit: self.commit.or_else(|| known.commit.clone()),
        }
    }
}

/// An answer as it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received<'a> {
    pub(crate) status: StatusCode,
    pub(crate) fields: &'a HeaderMap,
    /// What the origin itself said on the way here.
    pub(crate) linked: &'a Linked,
    /// The origin, as `https://host`.
    pub(crate) server: &'a str,
}

/// Reads an answer to a request for everything from `asked` on.
pub(crate) fn read(received: Received<'_>, asked: u64) -> Verdict {
    let Received { status, fields, linked, server } = received;
    let version = |bytes: Option<u64>| Version {
        sha256: linked.sha256.clone(),
        validator: validator(fields),
        server: Some(server.to_owned()),
        bytes: linked.bytes.or(bytes),
        commit: linked.commit.clone(),
    };
    match status.as_u16() {
        200 if fields.contains_key(CONTENT_ENCODING) && !is_identity(fields) => {
            // What was not asked for is not undone either: its length says nothing of the file's.
            Verdict::Unexpected
        }
        200 => {
            let length = text(fields, CONTENT_LENGTH.as_str()).and_then(|it| it.parse().ok());
            Verdict::Bytes(Head { from: 0, version: version(length) })
        }
        206 => match range(fields) {
            Some((from, total)) if from == asked => {
                Verdict::Bytes(Head { from, version: version(total) })
            }
            _ => Verdict::Anew("the server sent another piece than was asked for"),
        },
        416 => match unsatisfied(fields) {
            Some(total) if total == asked && linked.bytes.is_none_or(|it| it == asked) => {
                Verdict::Complete(version(Some(total)))
            }
            _ => Verdict::Anew("the file on the server is shorter than what is here"),
        },
        404 | 410 => Verdict::NotThere,
        401 | 403 | 451 => Verdict::Refused,
        408 | 425 | 429 | 500..=599 => Verdict::Later(Passing {
            why: format!("the server answered with status {}", status.as_u16()),
            wait: retry_after(fields),
        }),
        _ => Verdict::Unexpected,
    }
}

pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A mark that changes with every byte of the file. Weak tags allow differences.
fn validator(fields: &HeaderMap) -> Option<String> {
    let strong = |tag: &&str| tag.starts_with('"') && tag.len() > 2;
    let tag = text(fields, ETAG.as_str()).filter(strong);
    tag.or_else(|| text(fields, LAST_MODIFIED.as_str())).map(str::to_owned)
}

/// `bytes 100-199/200`: where it begins and how long the whole is.
fn range(fields: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let rest = text(fields, CONTENT_RANGE.as_str())?.strip_prefix("bytes ")?;
    let (span, total) = rest.split_once('/')?;
    let (from, to) = span.split_once('-')?;
    let (from, to): (u64, u64) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
    let total: Option<u64> = match total.trim() {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    // A server may send less than the rest; what is missing then is asked for again.
    (from <= to && total.is_none_or(|total| to < total)).then_some((from, total))
}

/// `bytes */200`.
fn unsatisfied(fields: &HeaderMap) -> Option<u64> {
    text(fields, CONTENT_RANGE.as_str())?.strip_prefix("bytes */")?.trim().parse().ok()
}

/// Seconds only: a date needs clocks that agree, and servers of files send seconds.
fn retry_after(fields: &HeaderMap) -> Option<Duration> {
    let seconds = text(fields, RETRY_AFTER.as_str())?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

fn is_identity(fields: &HeaderMap) -> bool {
    text(fields, CONTENT_ENCODING.as_str()) == Some("identity")
}

fn text<'a>(fields: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = fields.get(name)?.to_str().ok()?.trim();
    (!value.is_empty() && value.len() <= VALUE_BYTES_MAX).then_some(value)
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    const DIGEST: &str = "9465E63A22ADD5354D9BB4B99E90117043C7124007664907259BD16D043BB031";

    fn fields(lines: &str) -> HeaderMap {
        let line = |line: &str| {
            let (name, value) = line.trim().split_once(": ").unwrap();
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        lines.lines().filter(|text| !text.trim().is_empty()).map(line).collect()
    }

    fn answer(status: u16, lines: &str, asked: u64) -> Verdict {
        let fields = fields(lines);
        let status = StatusCode::from_u16(status).unwrap();
        let linked = Linked::read(&fields);
        let server = "https://a.example";
        read(Received { status, fields: &fields, linked: &linked, server }, asked)
    }

    #[track_caller]
    fn check_bytes(verdict: &Verdict, from: u64, bytes: Option<u64>, validator: Option<&str>) {
        let Verdict::Bytes(head) = verdict else { panic!("{verdict:?}") };
        let found = (head.from, head.version.bytes, head.version.validator.as_deref());
        assert_eq!(found, (from, bytes, validator));
    }

    #[test]
    fn whole_and_partial_answers_say_where_they_begin() {
        check_bytes(&answer(200, "content-length: 9\netag: \"a\"", 0), 0, Some(9), Some("\"a\""));
        // Ranges were not understood: it begins at 0.
        check_bytes(&answer(200, "content-length: 9", 5), 0, Some(9), None);
        check_bytes(&answer(206, "content-range: bytes 5-8/9", 5), 5, Some(9), None);
        check_bytes(&answer(206, "content-range: bytes 5-8/*", 5), 5, None, None);
        check_bytes(&answer(206, "content-range: bytes 5-6/9", 5), 5, Some(9), None);
        for wrong in [
            "bytes 4-8/9",
            "bytes 5-9/9",
            "bytes 5-4/9",
            "bytes 5-18446744073709551615/9",
            "items 5-8/9",
            "bytes 5-8",
        ] {
            let verdict = answer(206, &format!("content-range: {wrong}"), 5);
            assert!(matches!(verdict, Verdict::Anew(_)), "{wrong}: {verdict:?}");
        }
    }

    #[test]
    fn weak_tags_and_odd_values_are_no_marks() {
        check_bytes(&answer(200, "etag: W/\"a\"", 0), 0, None, None);
        let dated = "etag: W/\"a\"\nlast-modified: Sat, 21 Nov 2026 10:00:00 GMT";
        check_bytes(&answer(200, dated, 0), 0, None, Some("Sat, 21 Nov 2026 10:00:00 GMT"));
        check_bytes(&answer(200, "content-length: -3", 0), 0, None, None);
        let long = format!("etag: \"{}\"", "a".repeat(VALUE_BYTES_MAX));
        check_bytes(&answer(200, &long, 0), 0, None, None);
    }

    #[test]
    fn the_origins_word_on_length_and_digest_counts() {
        let lines = format!(
            "x-linked-etag: \"{DIGEST}\"\nx-linked-size: 7\nx-repo-commit: 0a1b\ncontent-length: 9"
        );
        let Verdict::Bytes(head) = answer(200, &lines, 0) else { panic!() };
        assert_eq!(head.version.sha256.as_deref(), Some(DIGEST.to_lowercase().as_str()));
        assert_eq!((head.version.bytes, head.version.commit.as_deref()), (Some(7), Some("0a1b")));
        // A git id is no SHA-256.
        let odd = Linked::read(&fields("x-linked-etag: \"0a1b\"\nx-linked-size: many"));
        assert_eq!(odd, Linked::default());
    }

    #[test]
    fn all_that_is_there_may_be_all_there_is() {
        let all = answer(416, "content-range: bytes */9\netag: \"a\"", 9);
        assert!(matches!(all, Verdict::Complete(_)), "{all:?}");
        for (lines, asked) in [
            ("content-range: bytes */9", 12),
            ("", 9),
            ("content-range: bytes */9\nx-linked-size: 8", 9),
        ] {
            let verdict = answer(416, lines, asked);
            assert!(matches!(verdict, Verdict::Anew(_)), "{lines}: {verdict:?}");
        }
    }

    #[test]
    fn what_passes_is_told_from_what_stays() {
        assert_eq!(answer(404, "", 0), Verdict::NotThere);
        assert_eq!(answer(403, "", 0), Verdict::Refused);
        assert_eq!(answer(418, "", 0), Verdict::Unexpected);
        assert_eq!(answer(200, "content-encoding: gzip", 0), Verdict::Unexpected);
        let wait = |lines: &str| match answer(429, lines, 0) {
            Verdict::Later(passing) => passing.wait,
            other => panic!("{other:?}"),
        };
        assert_eq!(wait("retry-after: 7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after: 99999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(wait("retry-after: Sat, 21 Nov 2026 10:00:00 GMT"), None);
        assert!(matches!(answer(503, "", 0), Verdict::Later(Passing { wait: None, .. })));
    }

    #[test]
    fn versions_are_the_same_by_digest_else_by_mark() {
        let version = |sha256: Option<&str>, validator: Option<&str>, bytes| Version {
            sha256: sha256.map(str::to_owned),
            validator: validator.map(str::to_owned),
            server: Some("a".to_owned()),
            bytes,
            commit: None,
        };
        let one = version(Some("aa"), Some("1"), Some(9));
        // Storage servers have tags of their own; the digest decides.
        assert!(one.is_same(&version(Some("aa"), Some("2"), Some(9))));
        assert!(!one.is_same(&version(Some("bb"), Some("1"), Some(9))));
        assert!(!one.is_same(&version(Some("aa"), Some("1"), Some(8))));
        let plain = version(None, Some("1"), Some(9));
        assert!(plain.is_same(&version(None, Some("1"), None)));
        assert!(!plain.is_same(&version(None, Some("2"), Some(9))));
        assert!(!version(None, None, Some(9)).is_same(&version(None, None, Some(9))));
        // Two servers may call two files `1`.
        let elsewhere = |version: Version| Version { server: Some("b".to_owned()), ..version };
        assert!(!plain.is_same(&elsewhere(plain.clone())));
        assert!(one.is_same(&elsewhere(one.clone())));
    }

    #[test]
    fn what_is_not_said_again_is_not_forgotten() {
        let known = Version {
            sha256: Some("aa".to_owned()),
            validator: Some("1".to_owned()),
            server: Some("a".to_owned()),
            bytes: Some(9),
            commit: Some("0a1b".to_owned()),
        };
        assert_eq!(Version::default().or(&known), known);
        let moved = Version {
            validator: Some("2".to_owned()),
            server: Some("b".to_owned()),
            ..Version::default()
        };
        let both = moved.or(&known);
        assert_eq!((both.validator.as_deref(), both.server.as_deref()), (Some("2"), Some("b")));
        assert_eq!((both.sha256.as_deref(), both.bytes), (Some("aa"), Some(9)));
    }
}
