//! Models that other programs hold: which of their files this one understands.

use nook_model::ModelFile;
use nook_store::{Elsewhere, FoundFile};

use crate::house::Answer;
use crate::state::State;
use crate::views::FoundView;

impl State {
    /// Looks for them in a task of its own: folders are walked and headers read.
    pub(crate) fn look_elsewhere(&self, answer: Answer<Vec<FoundView>>) {
        let here: Vec<_> = self.catalogue.iter().map(|entry| entry.listed.path.now()).collect();
        self.tasks.spawn_until_cancelled("look-elsewhere", async move {
            let look = tokio::task::spawn_blocking(move || {
                let mut found = Elsewhere::usual().look();
                found.retain(|file| !here.contains(&file.path));
                found.into_iter().filter_map(view).collect()
            });
            // Whoever asked may have left.
            let _ = answer.send(look.await.map_err(crate::views_of::task_lost));
        });
    }
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
