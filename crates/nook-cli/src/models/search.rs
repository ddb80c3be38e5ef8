//! `nook models search`: what Hugging Face has.

use nook_api::NodeCalls as _;
use nook_api::views::{HubModelView, HubView, RepositoryView};
use nook_control::Client;

use super::{fit_words, size};
use crate::output;

pub(super) async fn run(client: &Client, words: &str, json: bool) -> anyhow::Result<()> {
    let found = client.search_models(words.to_owned()).await?;
    if json {
        output::json(&found);
        return Ok(());
    }
    match &found.repository {
        None => repositories(&found.repositories),
        Some(repository) => models(&found, repository),
    }
    Ok(())
}

fn repositories(found: &[RepositoryView]) {
    if found.is_empty() {
        output::line("Nothing was found; try fewer words.");
        return;
    }
    let row = |it: &RepositoryView| {
        vec![it.name.clone(), it.downloads.map_or_else(String::new, |count| count.to_string())]
    };
    output::table(&["REPOSITORY", "DOWNLOADS"], &found.iter().map(row).collect::<Vec<_>>());
    output::line("\nnook models search OWNER/REPOSITORY lists the models of one.");
}

fn models(found: &HubView, repository: &str) {
    if found.models.is_empty() {
        output::line(format!("{repository} has no GGUF file that is a model."));
        return;
    }
    let row = |it: &HubModelView| {
        vec![
            it.source.clone(),
            size(it.file_bytes),
            if it.pieces > 1 { it.pieces.to_string() } else { String::new() },
            fit_words(&it.fit),
        ]
    };
    let rows: Vec<_> = found.models.iter().map(row).collect();
    output::table(&["SOURCE", "SIZE", "FILES", "FITS"], &rows);
    output::line("\nnook models pull SOURCE downloads one. FITS is guessed from the size.");
}
