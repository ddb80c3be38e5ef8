//! What Hugging Face, or a mirror of it, has: repositories by words, and the files of one.
//!
//! Two questions of the hub's own interface are asked, once each and only when a person searches:
//! `/api/models` (search, filter `gguf`, most downloads first) and
//! `/api/models/owner/repository/tree/revision`. Source: the hub's public documentation and
//! `huggingface_hub`, `hf_api.py`. An answer is a stranger's: it is bounded, and what does not name
//! a file that could be fetched is left out.

use std::str::FromStr;
use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;

use crate::error::FetchError;
use crate::fetching::Fetcher;
use crate::files::Address;
use crate::source::{BRANCH_USUAL, Hub, HubPlace, Source};

/// Most repositories of one answer.
pub const REPOSITORIES_MAX: usize = 20;

/// Most models of one repository that are listed; the smallest come first.
pub const FILES_MAX: usize = 100;

/// Longest search, in characters.
pub const WORDS_MAX: usize = 100;

/// Longest wait for one server's answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Longest answer; that of a repository with a thousand files has some 300 kB.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// What names of files begin with, or have in them, that lie beside models and are none: what reads
/// pictures, and what a quantisation was made with.
const NO_MODELS: [&str; 3] = ["mmproj", "imatrix", "ggml-vocab"];

/// What somebody searches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    /// Repositories with these words in their names.
    Words(String),
    /// The models of one repository.
    Repository(HubPlace),
}

/// A text that nothing can be searched with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "write a few words to search for, or a repository as owner/repository (at most {WORDS_MAX} letters)"
)]
pub struct SearchError;

/// A repository that has GGUF files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// `owner/repository`.
    pub name: String,
    /// How often something of it was downloaded lately, by the hub's word.
    pub downloads: Option<u64>,
}

/// A model in a repository, in one file or in several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubModel {
    /// What fetches it.
    pub source: Source,
    /// Its length, of all pieces together, by the hub's word.
    pub bytes: u64,
    /// In how many files it comes.
    pub pieces: u32,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Repositories, those with the most downloads first.
    Repositories(Vec<Repository>),
    /// Models, the smallest first.
    Models(Vec<HubModel>),
}

#[derive(Deserialize)]
struct RawRepository {
    id: String,
    downloads: Option<u64>,
}

#[derive(Deserialize)]
struct RawFile {
    path: String,
    size: Option<u64>,
    lfs: Option<RawLarge>,
}

#[derive(Deserialize)]
struct RawLarge {
    size: Option<u64>,
}

impl FromStr for Search {
    type Err = SearchError;

    fn from_str(text: &str) -> Result<Self, SearchError> {
        let text = text.trim();
        if let Ok(place) = text.parse() {
            return Ok(Self::Repository(place));
        }
        let is_long = text.chars().count() > WORDS_MAX;
        let is_address = text.contains("://") || text.contains('\0');
        if text.is_empty() || is_long || is_address || text.chars().any(char::is_control) {
            return Err(SearchError);
        }
        Ok(Self::Words(text.to_owned()))
    }
}

impl Fetcher {
    /// Asks the servers behind `hf:`, one after the other, until one answers.
    pub async fn search(&self, search: &Search) -> Result<Found, FetchError> {
        let mut errors = Vec::new();
        for hub in self.hubs.each() {
            match self.search_at(hub, search).await {
                Ok(found) => return Ok(found),
                Err(error) if error.is_of_the_server() => errors.push(error),
                Err(error) => return Err(error),
            }
        }
        Err(match errors.len() {
            0 | 1 => errors.pop().unwrap_or(FetchError::Lost),
            _ => FetchError::Nowhere { errors },
        })
    }

    async fn search_at(&self, hub: &Hub, search: &Search) -> Result<Found, FetchError> {
        let address = Address::of(search.url(hub));
        let host = address.host().to_owned();
        let answer = self.fetch_document(&address, ANSWER_BYTES_MAX, ANSWER_LIMIT).await;
        let odd = |_| FetchError::Strange { host };
        match search {
            Search::Words(_) => {
                let raw: Vec<RawRepository> = serde_json::from_slice(&answer?).map_err(odd)?;
                Ok(Found::Repositories(repositories(raw)))
            }
            Search::Repository(place) => {
                let raw = answer.map_err(|error| match error {
                    FetchError::NotThere { host, status }
                    | FetchError::Refused { host, status } => {
                        FetchError::NoRepository { host, status }
                    }
                    error => error,
                });
                let raw: Vec<RawFile> = serde_json::from_slice(&raw?).map_err(odd)?;
                Ok(Found::Models(models(place, raw)))
            }
        }
    }
}

impl Search {
    fn url(&self, hub: &Hub) -> Url {
        match self {
            Self::Words(words) => {
                let mut url = hub.question(&[]);
                url.query_pairs_mut()
                    .append_pair("search", words)
                    .append_pair("filter", "gguf")
                    .append_pair("sort", "downloads")
                    .append_pair("direction", "-1")
                    .append_pair("limit", &REPOSITORIES_MAX.to_string());
                url
            }
            Self::Repository(HubPlace { owner, repository, revision }) => {
                let revision = revision.as_deref().unwrap_or(BRANCH_USUAL);
                let mut url = hub.question(&[owner, repository, "tree", revision]);
                url.query_pairs_mut().append_pair("recursive", "true");
                url
            }
        }
    }
}

fn repositories(raw: Vec<RawRepository>) -> Vec<Repository> {
    let is_place = |name: &str| name.parse::<HubPlace>().is_ok();
    let named = raw.into_iter().filter(|it| is_place(&it.id)).take(REPOSITORIES_MAX);
    named.map(|it| Repository { name: it.id, downloads: it.downloads }).collect()
}

fn models(place: &HubPlace, raw: Vec<RawFile>) -> Vec<HubModel> {
    let mut found: Vec<HubModel> = Vec::new();
    for RawFile { path, size, lfs } in raw {
        let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        if NO_MODELS.iter().any(|no_model| name.contains(no_model)) {
            continue;
        }
        let Some(bytes) = lfs.and_then(|lfs| lfs.size).or(size) else { continue };
        let Ok(source) = place.file(&path).parse::<Source>() else { continue };
        match found.iter_mut().find(|known| known.source == source) {
            Some(known) => {
                (known.bytes, known.pieces) = (known.bytes.saturating_add(bytes), known.pieces + 1);
            }
            None => found.push(HubModel { source, bytes, pieces: 1 }),
        }
    }
    // Where a piece is missing, nothing can be made of the others.
    found.retain(|it| it.pieces as usize == it.source.pieces().len().max(1));
    found.sort_by_key(|it| it.bytes);
    found.truncate(FILES_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> HubPlace {
        "o/r".parse().unwrap()
    }

    #[test]
    fn words_and_repositories_are_told_apart() {
        let words = |text: &str| match text.parse() {
            Ok(Search::Words(words)) => words,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(words("  qwen3.5 4b "), "qwen3.5 4b");
        assert_eq!(words("a/b/c"), "a/b/c");
        for text in [
            "unsloth/Qwen3.5-4B-GGUF",
            "hf:unsloth/Qwen3.5-4B-GGUF",
            "https://huggingface.co/unsloth/Qwen3.5-4B-GGUF",
            "https://huggingface.co/unsloth/Qwen3.5-4B-GGUF/tree/main",
        ] {
            let Ok(Search::Repository(place)) = text.parse() else { panic!("{text}") };
            assert_eq!(place.name(), "unsloth/Qwen3.5-4B-GGUF");
        }
        for text in ["", "  ", &"x".repeat(WORDS_MAX + 1), "https://example.org/a/b", "a\nb"] {
            assert!(text.parse::<Search>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn questions_are_asked_as_the_hub_takes_them() {
        let url = |text: &str| text.parse::<Search>().unwrap().url(&Hub::usual()).to_string();
        assert_eq!(
            url("qwen & co"),
            "https://huggingface.co/api/models?search=qwen+%26+co&filter=gguf&sort=downloads&direction=-1&limit=20"
        );
        assert_eq!(url("o/r"), "https://huggingface.co/api/models/o/r/tree/main?recursive=true");
        let mirror = Hub::at("https://a.example/hf/").unwrap();
        let words: Search = "x".parse().unwrap();
        assert!(words.url(&mirror).as_str().starts_with("https://a.example/hf/api/models?"));
    }

    #[test]
    fn what_can_be_fetched_is_listed_with_pieces_as_one_and_the_smallest_first() {
        let file = |path: &str, bytes: u64| RawFile {
            path: path.to_owned(),
            size: Some(130),
            lfs: Some(RawLarge { size: Some(bytes) }),
        };
        let raw = vec![
            file("m-Q8_0.gguf", 900),
            file("README.md", 10),
            file("m-Q4_K_M.gguf", 500),
            file("mmproj-m-F16.gguf", 50),
            file("BF16/m-BF16-00002-of-00002.gguf", 800),
            file("BF16/m-BF16-00001-of-00002.gguf", 1000),
            file("cut/m-00001-of-00003.gguf", 1),
            file("../up.gguf", 1),
            RawFile { path: "small.gguf".to_owned(), size: Some(7), lfs: None },
            RawFile { path: "unknown.gguf".to_owned(), size: None, lfs: None },
        ];
        let found = models(&place(), raw);
        let shown: Vec<_> =
            found.iter().map(|it| (it.source.to_string(), it.bytes, it.pieces)).collect();
        let one = |text: &str, bytes, pieces| (text.to_owned(), bytes, pieces);
        assert_eq!(
            shown,
            [
                one("hf:o/r/small.gguf", 7, 1),
                one("hf:o/r/m-Q4_K_M.gguf", 500, 1),
                one("hf:o/r/m-Q8_0.gguf", 900, 1),
                one("hf:o/r/BF16/m-BF16-00001-of-00002.gguf", 1800, 2),
            ]
        );
    }

    #[test]
    fn names_that_are_no_repositories_are_left_out() {
        let raw = |id: &str| RawRepository { id: id.to_owned(), downloads: Some(5) };
        let names = ["o/r", "gpt2", "../x", "o/r/x", "a b/c", "<b>/c"];
        let found = repositories(names.iter().map(|id| raw(id)).collect());
        assert_eq!(found, [Repository { name: "o/r".to_owned(), downloads: Some(5) }]);
    }
}
