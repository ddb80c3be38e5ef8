//! Models that other programs hold: which of their files this one understands.

use std::path::PathBuf;

use nook_api::views::FoundView;
use nook_model::ModelFile;
use nook_store::{Elsewhere, FoundFile};

/// Looks for them; walks folders and reads headers. Files that are listed `here` are left out.
pub(crate) fn look(here: &[PathBuf]) -> Vec<FoundView> {
    let mut found = Elsewhere::usual().look();
    found.retain(|file| !here.contains(&file.path));
    found.into_iter().filter_map(view).collect()
}

/// A file that would be refused is not offered.
fn view(found: FoundFile) -> Option<FoundView> {
    let file = match ModelFile::open(&found.path) {
        Ok(file) => file,
        Err(error) => {
            tracing::debug!(file = %found.path.display(), %error, "not offered");
            return None;
        }
    };
    Some(FoundView {
        program: found.keeper.name().to_owned(),
        name: found.name,
        path: found.path.to_str()?.to_owned(),
        file_bytes: found.bytes,
        architecture: file.architecture().to_owned(),
        quantisation: file.quantisation(),
    })
}
