//! Where one file comes from, as a person or the catalogue writes it. Pure.
//!
//! Two forms: `hf:owner/repository/file.gguf` (with `@revision` at the end where one is meant) for
//! files of Hugging Face, or a whole https address. Addresses of that site's pages are understood
//! as the files that they show. http is taken for this machine itself only.
//!
//! A model in several files is one source, whichever of its pieces was named: the first.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;

use crate::folder::FileKey;
use crate::limits::{HUBS_MAX, URL_BYTES_MAX};
use crate::piece_names::{PIECES_MAX, PieceName};

const HUB_PREFIX: &str = "hf:";
const HUB_USUAL: &str = "https://huggingface.co";
const HUB_HOSTS: &[&str] = &["huggingface.co", "www.huggingface.co", "hf.co"];
pub(crate) const BRANCH_USUAL: &str = "main";
const ENDING: &str = ".gguf";
const REPOSITORY_ONLY: &str =
    "it is a repository and not one of its files; search for it (nook models search) to see those";

/// Longest part of a repository's path, in bytes; the site allows 96.
const PART_BYTES_MAX: usize = 128;

/// Most folders above a file in a repository.
const PARTS_MAX: usize = 8;

/// One file of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file of a repository on Hugging Face, or a mirror of it.
    Hub {
        /// Who publishes it.
        owner: String,
        /// The repository.
        repository: String,
        /// Path of the file in it.
        file: String,
        /// Branch, tag or commit; absent: the main branch.
        revision: Option<String>,
    },
    /// A file with an address of its own.
    Web(Url),
}

/// A repository of the hub, at one of its revisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubPlace {
    pub(crate) owner: String,
    pub(crate) repository: String,
    /// Branch, tag or commit; absent: the main branch.
    pub(crate) revision: Option<String>,
}

/// A text that names no repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is no repository; write owner/repository")]
pub struct PlaceError;

/// A server that stands behind `hf:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hub(Url);

/// The servers that stand behind `hf:`, in the order in which they are asked. There is at least
/// one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hubs(Vec<Hub>);

/// An address that is no server for `hf:`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is no address of a mirror of Hugging Face: {why}")]
pub struct HubError {
    shown: String,
    why: String,
}

/// A text that names no file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{shown}` names no file that can be downloaded: {why}. Write hf:owner/repository/file.gguf or an https address"
)]
pub struct SourceError {
    shown: String,
    why: String,
}

impl Hub {
    /// The site itself.
    #[must_use]
    pub fn usual() -> Self {
        Self(Url::parse(HUB_USUAL).expect("this constant is an address"))
    }

    /// A mirror, as the variable `HF_ENDPOINT` of other programs names it.
    pub fn at(address: &str) -> Result<Self, HubError> {
        let refused = |why: &str| HubError { shown: shown(address), why: why.to_owned() };
        let url = Url::parse(address.trim()).map_err(|error| refused(&error.to_string()))?;
        check_url(&url).map_err(refused)?;
        if url.query().is_some() {
            return Err(refused("it has a query"));
        }
        Ok(Self(url))
    }

    /// Where questions about models are asked, with `parts` behind it.
    pub(crate) fn question(&self, parts: &[&str]) -> Url {
        let mut url = self.0.clone();
        // Fails only for addresses that cannot have a path, which are none of http's.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["api", "models"]).extend(parts);
        }
        url
    }
}

impl HubPlace {
    /// `owner/repository`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.owner, self.repository)
    }

    /// How a file in it is written.
    pub(crate) fn file(&self, path: &str) -> String {
        let revision = self.revision.as_ref().map_or_else(String::new, |it| format!("@{it}"));
        format!("{HUB_PREFIX}{}/{path}{revision}", self.name())
    }
}

impl FromStr for HubPlace {
    type Err = PlaceError;

    /// `owner/repository`, with `hf:` before it or `@revision` behind it, or its page.
    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let text = text.trim();
        let page = Url::parse(text).ok().filter(|url| {
            url.scheme() == "https" && url.host_str().is_some_and(|it| HUB_HOSTS.contains(&it))
        });
        let (path, revision) = match &page {
            Some(url) => (url.path().trim_matches('/').to_owned(), None),
            None => {
                let path = text.strip_prefix(HUB_PREFIX).unwrap_or(text);
                match path.split_once('@') {
                    Some((path, revision)) => (path.to_owned(), Some(revision)),
                    None => (path.to_owned(), None),
                }
            }
        };
        let parts: Vec<&str> = path.split('/').collect();
        let (owner, repository, revision) = match (parts.as_slice(), page.is_some()) {
            ([owner, repository], _) => (owner, repository, revision),
            ([owner, repository, "tree", revision], true) => (owner, repository, Some(*revision)),
            _ => return Err(PlaceError),
        };
        let plain = [*owner, *repository].into_iter().chain(revision).all(is_plain_part);
        let revision = revision.filter(|it| *it != BRANCH_USUAL).map(str::to_owned);
        let (owner, repository) = ((*owner).to_owned(), (*repository).to_owned());
        plain.then_some(Self { owner, repository, revision }).ok_or(PlaceError)
    }
}

impl Hubs {
    /// The site itself, alone.
    #[must_use]
    pub fn usual() -> Self {
        Self(vec![Hub::usual()])
    }

    /// Each of them, in the order in which they are asked.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Hub> {
        self.0.iter()
    }

    /// `first`, else the site itself; behind it the addresses in `more`, with commas between them.
    /// Who is named twice is asked once.
    pub fn read(first: Option<&str>, more: Option<&str>) -> Result<Self, HubError> {
        let mut hubs = vec![first.map_or_else(|| Ok(Hub::usual()), Hub::at)?];
        let more = more.unwrap_or_default();
        for address in more.split(',').filter(|text| !text.trim().is_empty()) {
            let hub = Hub::at(address)?;
            if !hubs.contains(&hub) {
                hubs.push(hub);
            }
        }
        if hubs.len() > HUBS_MAX {
            let why = format!("with it there would be more than {HUBS_MAX} servers");
            return Err(HubError { shown: shown(more), why });
        }
        Ok(Self(hubs))
    }
}

impl Source {
    /// The addresses to ask, in order, with `hubs` behind `hf:`. At least one.
    #[must_use]
    pub fn urls(&self, hubs: &Hubs) -> Vec<Url> {
        match self {
            Self::Web(url) => vec![url.clone()],
            Self::Hub { .. } => hubs.0.iter().map(|hub| self.url(hub)).collect(),
        }
    }

    /// The address to ask, with `hub` behind `hf:`.
    #[must_use]
    pub fn url(&self, hub: &Hub) -> Url {
        match self {
            Self::Web(url) => url.clone(),
            Self::Hub { owner, repository, file, revision } => {
                let mut url = hub.0.clone();
                let revision = revision.as_deref().unwrap_or(BRANCH_USUAL);
                let parts = [owner, repository, "resolve", revision];
                // Fails only for addresses that cannot have a path, which are none of http's.
                if let Ok(mut path) = url.path_segments_mut() {
                    path.pop_if_empty().extend(parts).extend(file.split('/'));
                }
                url
            }
        }
    }

    /// Name of the file, for people. Never a path: see [`Source::key`].
    #[must_use]
    pub fn file_name(&self) -> &str {
        let path = match self {
            Self::Hub { file, .. } => file,
            Self::Web(url) => url.path(),
        };
        path.rsplit('/').next().unwrap_or(path)
    }

    /// What the model's file is called where it is in one: [`Self::file_name`], but for pieces.
    #[must_use]
    pub fn whole_name(&self) -> String {
        let name = self.file_name();
        PieceName::read(name).map_or_else(|| name.to_owned(), |piece| piece.whole())
    }

    /// Where each of its pieces is, in order, for a model in several files; else nothing.
    #[must_use]
    pub fn pieces(&self) -> Vec<Self> {
        let name = PieceName::read(self.file_name());
        let count = name.as_ref().map_or(0, PieceName::count);
        let piece = |number| name.as_ref().map(|name| self.named(&name.of(number)));
        (1..=count).filter_map(piece).collect()
    }

    /// The same file as the repository had it at `commit`, where no revision was meant.
    pub(crate) fn at(&self, commit: &str) -> Self {
        match self {
            Self::Hub { owner, repository, file, revision: None } if is_plain_part(commit) => {
                Self::Hub {
                    owner: owner.clone(),
                    repository: repository.clone(),
                    file: file.clone(),
                    revision: Some(commit.to_owned()),
                }
            }
            source => source.clone(),
        }
    }

    /// The file beside this one that is called `name`.
    fn named(&self, name: &str) -> Self {
        match self {
            Self::Hub { owner, repository, file, revision } => {
                let folders = file.rsplit_once('/').map(|(folders, _)| format!("{folders}/"));
                Self::Hub {
                    owner: owner.clone(),
                    repository: repository.clone(),
                    file: folders.unwrap_or_default() + name,
                    revision: revision.clone(),
                }
            }
            Self::Web(url) => {
                let folders = url.path().rsplit_once('/').map_or("", |(folders, _)| folders);
                let path = format!("{folders}/{name}");
                let mut url = url.clone();
                url.set_path(&path);
                Self::Web(url)
            }
        }
    }

    /// The first piece, where this is one of several.
    fn first(self) -> Self {
        match PieceName::read(self.file_name()) {
            Some(piece) => self.named(&piece.of(1)),
            None => self,
        }
    }

    /// Who has it, for people: `Qwen/Qwen3-4B-GGUF` or the server.
    #[must_use]
    pub fn origin(&self) -> String {
        match self {
            Self::Hub { owner, repository, .. } => format!("{owner}/{repository}"),
            Self::Web(url) => url.host_str().unwrap_or_default().to_owned(),
        }
    }

    /// Its place in a [`crate::Folder`].
    #[must_use]
    pub fn key(&self) -> FileKey {
        FileKey::of(self.file_name(), &self.to_string())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web(url) => f.write_str(url.as_str()),
            Self::Hub { owner, repository, file, revision } => {
                write!(f, "{HUB_PREFIX}{owner}/{repository}/{file}")?;
                revision.as_ref().map_or(Ok(()), |revision| write!(f, "@{revision}"))
            }
        }
    }
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let refused = |why: &str| SourceError { shown: shown(text), why: why.to_owned() };
        let text = text.trim();
        if let Some(rest) = text.strip_prefix(HUB_PREFIX) {
            let (path, revision) = match rest.split_once('@') {
                Some((path, revision)) => (path, Some(revision)),
                None => (rest, None),
            };
            let parts: Vec<&str> = path.split('/').collect();
            return hub(&parts, revision).map_err(refused);
        }
        let url = Url::parse(text).map_err(|_| refused("it is no address"))?;
        check_url(&url).map_err(refused)?;
        if url.host_str().is_some_and(|host| HUB_HOSTS.contains(&host)) {
            return hub_page(&url).map_err(refused);
        }
        let source = Self::Web(url);
        check_file(source.file_name()).map_err(refused)?;
        Ok(source.first())
    }
}

/// Whether something may be fetched from there: https, or http on this machine itself; no user in
/// the address, which would end up in lists and logs.
pub(crate) fn check_url(url: &Url) -> Result<(), &'static str> {
    match url.scheme() {
        "https" => {}
        "http" if is_this_machine(url) => {}
        "http" => return Err("http is not secure; https is needed"),
        _ => return Err("only https is fetched"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address with a user name or password is not taken");
    }
    if url.as_str().len() > URL_BYTES_MAX {
        return Err("it is too long");
    }
    Ok(())
}

/// Whether an address is one of this machine alone.
pub(crate) fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A file of the hub from the parts of its path.
fn hub(parts: &[&str], revision: Option<&str>) -> Result<Source, &'static str> {
    let [owner, repository, file @ ..] = parts else {
        return Err("owner, repository and file are needed");
    };
    if file.is_empty() {
        return Err(REPOSITORY_ONLY);
    }
    let named = [*owner, *repository].into_iter().chain(file.iter().copied());
    if file.len() > PARTS_MAX || !named.chain(revision).all(is_plain_part) {
        return Err("owner, repository and file have letters, digits, `-`, `_`, `+` and `.`");
    }
    check_file(file.last().copied().unwrap_or_default())?;
    let source = Source::Hub {
        owner: (*owner).to_owned(),
        repository: (*repository).to_owned(),
        file: file.join("/"),
        revision: revision.filter(|it| *it != BRANCH_USUAL).map(str::to_owned),
    };
    Ok(source.first())
}

/// A page or a file of the site, as copied from a browser: `/owner/repository/blob/main/file`.
fn hub_page(url: &Url) -> Result<Source, &'static str> {
    let parts: Vec<&str> = url.path_segments().map(Iterator::collect).unwrap_or_default();
    match parts.as_slice() {
        [owner, repository, "blob" | "resolve" | "raw", revision, file @ ..] => {
            let path: Vec<&str> =
                [*owner, *repository].into_iter().chain(file.iter().copied()).collect();
            hub(&path, Some(revision))
        }
        _ => Err(REPOSITORY_ONLY),
    }
}

fn check_file(name: &str) -> Result<(), &'static str> {
    if !name.to_ascii_lowercase().ends_with(ENDING) {
        return Err("only GGUF files are models here, and their names end in .gguf");
    }
    if PieceName::read(name).is_some_and(|piece| piece.count() > PIECES_MAX) {
        return Err("it is a piece of a model in more files than any is published in");
    }
    Ok(())
}

/// Whether a part of a path stands for itself in a path and in an address.
fn is_plain_part(part: &str) -> bool {
    let first =
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    first && part.len() <= PART_BYTES_MAX && part.bytes().all(plain)
}

/// What came from outside goes into a sentence without control characters, and cut.
fn shown(text: &str) -> String {
    text.chars().take(120).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, canonical: &str, address: &str) {
        let source: Source = text.parse().unwrap();
        assert_eq!(source.to_string(), canonical);
        assert_eq!(source.url(&Hub::usual()).as_str(), address);
        assert_eq!(
            canonical.parse::<Source>().unwrap(),
            source,
            "the canonical text says the same"
        );
    }

    #[test]
    fn each_form_leads_to_its_address() {
        let file = "https://huggingface.co/Qwen/Qwen3-4B-GGUF/resolve/main/Qwen3-4B-Q4_K_M.gguf";
        let short = "hf:Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf";
        check(short, short, file);
        check(&format!(" {short}@main\n"), short, file);
        check(file, short, file);
        check(&file.replace("resolve", "blob"), short, file);
        check(&format!("{file}?download=true"), short, file);
        check(
            "hf:o/r/folder/m.GGUF@0f3a",
            "hf:o/r/folder/m.GGUF@0f3a",
            "https://huggingface.co/o/r/resolve/0f3a/folder/m.GGUF",
        );
        let other = "https://example.org/models/a%20b.gguf?token=1";
        check(other, other, other);
        let near = "http://127.0.0.1:8080/a.gguf";
        check(near, near, near);
        check("http://[::1]/a.gguf", "http://[::1]/a.gguf", "http://[::1]/a.gguf");
    }

    #[test]
    fn a_mirror_stands_in_for_the_site() {
        let hub = Hub::at("https://mirror.example/hub/").unwrap();
        let source: Source = "hf:o/r/m.gguf".parse().unwrap();
        assert_eq!(source.url(&hub).as_str(), "https://mirror.example/hub/o/r/resolve/main/m.gguf");
        for refused in ["http://mirror.example", "ftp://x", "https://a:b@x", "https://x/?q=1", ""] {
            assert!(Hub::at(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn each_piece_of_a_model_in_several_files_leads_to_all_of_them() {
        let first = "hf:o/r/q8/m-00001-of-00003.gguf@v1";
        for named in [first, "hf:o/r/q8/m-00003-of-00003.gguf@v1"] {
            let source: Source = named.parse().unwrap();
            assert_eq!(source.to_string(), first);
            assert_eq!(source.whole_name(), "m.gguf");
            let pieces: Vec<String> = source.pieces().iter().map(Source::to_string).collect();
            let named = |number| format!("hf:o/r/q8/m-0000{number}-of-00003.gguf@v1");
            assert_eq!(pieces, [named(1), named(2), named(3)]);
        }
        let web: Source = "https://a.example/b/c%20d-00002-of-00002.gguf".parse().unwrap();
        let pieces: Vec<String> = web.pieces().iter().map(Source::to_string).collect();
        let named = |number| format!("https://a.example/b/c%20d-0000{number}-of-00002.gguf");
        assert_eq!(pieces, [named(1), named(2)]);
        let of_a_branch = "hf:o/r/m-00001-of-00002.gguf".parse::<Source>().unwrap();
        assert_eq!(of_a_branch.at("0a").to_string(), "hf:o/r/m-00001-of-00002.gguf@0a");
        assert_eq!(of_a_branch.at("../x"), of_a_branch, "no commit, so no part of a path");
        let of_a_revision: Source = first.parse().unwrap();
        assert_eq!((of_a_revision.at("0a"), web.at("0a")), (of_a_revision, web));
        let whole: Source = "hf:o/r/m.gguf".parse().unwrap();
        assert_eq!((whole.pieces(), whole.whole_name()), (vec![], "m.gguf".to_owned()));
    }

    #[test]
    fn several_servers_are_asked_in_the_order_in_which_they_are_named() {
        let source: Source = "hf:o/r/m.gguf".parse().unwrap();
        let hosts = |first: Option<&str>, more: Option<&str>| {
            let urls = source.urls(&Hubs::read(first, more).unwrap());
            urls.iter().map(|url| url.host_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(hosts(None, None), ["huggingface.co"]);
        assert_eq!(hosts(Some("https://a.example"), None), ["a.example"]);
        let more = "https://b.example, https://huggingface.co,";
        assert_eq!(hosts(None, Some(more)), ["huggingface.co", "b.example"]);
        let all = hosts(Some("https://a.example"), Some(more));
        assert_eq!(all, ["a.example", "b.example", "huggingface.co"]);
        // An address of its own is asked there and nowhere else.
        let web: Source = "https://example.org/m.gguf".parse().unwrap();
        let hubs = Hubs::read(None, Some(more)).unwrap();
        assert_eq!(web.urls(&hubs).len(), 1);
        for refused in ["http://b.example", "b.example", "https://b.example https://c.example"] {
            assert!(Hubs::read(None, Some(refused)).is_err(), "{refused}");
        }
        let many: Vec<String> = (0..HUBS_MAX).map(|at| format!("https://x{at}.example")).collect();
        let error = Hubs::read(None, Some(&many.join(","))).unwrap_err().to_string();
        assert!(error.contains("more than 4 servers"), "{error}");
    }

    #[test]
    fn what_names_no_file_is_refused_with_a_way_out() {
        for text in [
            "",
            "qwen",
            "hf:",
            "hf:owner/file.gguf",
            "hf:../../etc/passwd.gguf",
            "hf:o/../r/m.gguf",
            "hf:o/r/.hidden.gguf",
            "hf:o/r/m.gguf@../x",
            "hf:o/r/m.safetensors",
            "hf:o/r/m-00001-of-00065.gguf",
            "hf:o/r/a b.gguf",
            "http://example.org/m.gguf",
            "http://127.0.0.1.example.org/m.gguf",
            "file:///tmp/m.gguf",
            "https://user@example.org/m.gguf",
            "https://huggingface.co/Qwen/Qwen3-4B-GGUF",
            "https://example.org/m.zip",
        ] {
            let error = text.parse::<Source>().unwrap_err().to_string();
            assert!(error.contains("hf:owner/repository/file.gguf"), "{text}: {error}");
        }
        let long = format!("https://example.org/{}.gguf", "a".repeat(URL_BYTES_MAX));
        assert!(long.parse::<Source>().is_err());
    }
}
