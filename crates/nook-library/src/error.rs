//! Why the models of a home cannot be listed.

/// One of the lists could not be read.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The list of models.
    #[error(transparent)]
    Library(#[from] nook_store::LibraryError),
    /// The list of downloads.
    #[error(transparent)]
    Downloads(#[from] nook_store::DownloadsError),
    /// The catalogue of models.
    #[error(transparent)]
    Catalogue(#[from] nook_fetch::CatalogueError),
}
