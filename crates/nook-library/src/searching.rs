//! Models that the hub has: what a person searches for, and what is shown of the answer (pure).

use nook_api::views::{FitKind, FitView, HubModelView, HubView, RepositoryView, Wording};
use nook_api::{NodeError, sentence};
use nook_base::ErrorCode;
use nook_fetch::{FetchError, Found, Search, SearchError};

use crate::troubles;

/// What `words` ask for.
pub(crate) fn search_for(words: &str) -> Result<Search, NodeError> {
    words.parse().map_err(|error: SearchError| {
        let error = NodeError::new(ErrorCode::BadRequest, sentence(&error.to_string()));
        error.worded(Wording::NoSearch)
    })
}

/// What came of it, without whether it fits.
pub(crate) fn found(
    search: &Search,
    found: Result<Found, FetchError>,
) -> Result<HubView, NodeError> {
    let repository = match search {
        Search::Words(_) => None,
        Search::Repository(place) => Some(place.name()),
    };
    let empty = HubView { repository, repositories: Vec::new(), models: Vec::new() };
    match found.map_err(|error| troubles::of_search(&error))? {
        Found::Repositories(found) => {
            let view = |it: nook_fetch::Repository| {
                let (name, downloads) = (it.name, it.downloads);
                RepositoryView { name, downloads }
            };
            Ok(HubView { repositories: found.into_iter().map(view).collect(), ..empty })
        }
        Found::Models(found) => {
            let view = |it: nook_fetch::HubModel| HubModelView {
                source: it.source.to_string(),
                file: it.source.whole_name(),
                file_bytes: it.bytes,
                pieces: it.pieces,
                fit: FitView {
                    kind: FitKind::Unknown,
                    devices: Vec::new(),
                    tokens_per_second: None,
                },
            };
            Ok(HubView { models: found.into_iter().map(view).collect(), ..empty })
        }
    }
}
