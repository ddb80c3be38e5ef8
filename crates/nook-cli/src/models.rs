//! `nook models`: what is here, what could be, and fetching it or copying it from the house.
//!
//! The node owns downloads: this only asks and shows. A download that was asked of a running node
//! goes on when this command ends; without one, the command's own node keeps what came for the next
//! time.

mod folder;
mod search;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use indicatif::ProgressBar;
use nook_api::NodeCalls as _;
use nook_api::views::{
    CatalogueEditionView, CatalogueView, CopyExtent, DownloadAsk, DownloadState, DownloadView,
    FitKind, FitView, HouseholdView, InHouseView, ModelView, Problem,
};
use nook_base::ErrorCode;
use nook_control::{Client, ClientError};
use serde::Serialize;

use crate::arguments::{Models, ModelsAction};
use crate::ask::view;
use crate::connection::Connection;
use crate::output;

/// How often a download is looked at; the node looks once a second.
const LOOK: Duration = Duration::from_millis(300);

/// Looks at what other devices give, where this command has started the node itself: six seconds.
const HOUSE_LOOKS: u32 = 20;

pub(crate) async fn run(home: Option<PathBuf>, models: Models) -> anyhow::Result<ExitCode> {
    let connection = Connection::open(home).await?;
    let outcome = obey(&connection, models).await;
    connection.close().await;
    outcome
}

async fn obey(connection: &Connection, models: Models) -> anyhow::Result<ExitCode> {
    let (client, json) = (&connection.client, models.json);
    match models.action {
        None => list(&view(client).await?, json),
        Some(ModelsAction::Catalog) => catalogue(&view(client).await?, json),
        Some(ModelsAction::Found) => found(client, json).await?,
        Some(ModelsAction::Search { words }) => search::run(client, &words.join(" "), json).await?,
        Some(ModelsAction::Pull { source, name }) => {
            return pull(connection, source, name, json).await;
        }
        Some(ModelsAction::Copy { model: None, .. }) => in_house(connection, json).await?,
        Some(ModelsAction::Copy { model: Some(model), from, ends }) => {
            let extent = if ends { CopyExtent::Ends } else { CopyExtent::Whole };
            return copy(connection, model, (from, extent), json).await;
        }
        Some(ModelsAction::Pause { download }) => {
            rest(client, &download, DownloadAsk::Pause, json).await?;
        }
        Some(ModelsAction::Cancel { download }) => {
            rest(client, &download, DownloadAsk::Cancel, json).await?;
        }
        Some(ModelsAction::Resume { download }) => {
            let known = change(client, &download, DownloadAsk::Resume).await?;
            return follow(connection, &known.key, known.name, json).await;
        }
        Some(ModelsAction::Import { file, name }) => import(client, file, name, json).await?,
        Some(ModelsAction::Folder { path, usual }) => {
            return folder::run(connection, path, usual, json).await;
        }
        Some(ModelsAction::Remove { name }) => remove(client, name, json).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn is_called(download: &DownloadView, name: &str) -> bool {
    download.key == name || download.name.eq_ignore_ascii_case(name)
}

/// Asks for something of the download that a person calls `wanted`; as it was before.
async fn change(client: &Client, wanted: &str, ask: DownloadAsk) -> anyhow::Result<DownloadView> {
    let downloads = view(client).await?.downloads;
    let Some(known) = downloads.into_iter().find(|it| is_called(it, wanted)) else {
        bail!("no download is called `{wanted}`; nook models lists them");
    };
    client.change_download(known.key.clone(), ask).await?;
    Ok(known)
}

/// Lets a download rest. Programs hear how far it is.
async fn rest(client: &Client, wanted: &str, ask: DownloadAsk, json: bool) -> anyhow::Result<()> {
    let key = change(client, wanted, ask).await?.key;
    if json {
        let downloads = view(client).await?.downloads;
        let Some(now) = downloads.iter().find(|it| it.key == key) else {
            bail!("the download of {wanted} was over just then; nook models lists what is here");
        };
        output::json(now);
    }
    Ok(())
}

async fn import(
    client: &Client,
    file: PathBuf,
    name: Option<String>,
    json: bool,
) -> anyhow::Result<()> {
    let file =
        std::path::absolute(&file).with_context(|| format!("cannot resolve {}", file.display()))?;
    let model = client.import_model(file, name).await?;
    if json {
        output::json(&model);
    } else {
        output::line(is_here(&model));
    }
    Ok(())
}

/// What was removed, for programs.
#[derive(Serialize)]
struct Removed {
    /// Its name.
    removed: String,
    /// `model` or `download`.
    kind: &'static str,
}

async fn remove(client: &Client, name: String, json: bool) -> anyhow::Result<()> {
    let before = view(client).await?;
    let is_model = before.models.iter().any(|it| it.name.eq_ignore_ascii_case(&name));
    let is_download = before.downloads.iter().any(|it| is_called(it, &name));
    let removed = if is_download && !is_model {
        let download = change(client, &name, DownloadAsk::Delete).await?;
        Removed { removed: download.name, kind: "download" }
    } else {
        client.remove_model(name.clone()).await?;
        // The node also takes the beginning of a name, or a digest.
        let left = view(client).await?.models;
        let mut gone = before.models.into_iter();
        let gone = gone.find(|it| left.iter().all(|left| left.digest != it.digest));
        Removed { removed: gone.map_or(name, |it| it.name), kind: "model" }
    };
    if json {
        output::json(&removed);
    }
    Ok(())
}

async fn pull(
    connection: &Connection,
    source: String,
    name: Option<String>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let download = connection.client.pull(source, name).await?;
    follow(connection, &download.key, download.name, json).await
}

async fn copy(
    connection: &Connection,
    model: String,
    (from, extent): (Option<String>, CopyExtent),
    json: bool,
) -> anyhow::Result<ExitCode> {
    // A node that has just been started needs a moment until other devices are connected and have
    // said what they give: until then it knows of no such model.
    let mut looks = if connection.is_own() { HOUSE_LOOKS } else { 0 };
    loop {
        match connection.client.copy_model(model.clone(), from.clone(), extent).await {
            Ok(download) => return follow(connection, &download.key, download.name, json).await,
            Err(ClientError::Refused(problem)) if is_not_found(&problem) && looks > 0 => looks -= 1,
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn is_not_found(problem: &Problem) -> bool {
    problem.code == ErrorCode::NotFound.name()
}

async fn in_house(connection: &Connection, json: bool) -> anyhow::Result<()> {
    if connection.is_own() {
        // The list is whole only once every device that is here is connected, and nobody knows
        // which are.
        tokio::time::sleep(LOOK * HOUSE_LOOKS).await;
    }
    let house = view(&connection.client).await?;
    if json {
        output::json(&house.in_house);
    } else if house.in_house.is_empty() {
        output::line(
            "No device of the house gives a model that is not here. Devices must be connected, and each side must trust the other (nook devices).",
        );
    } else {
        in_house_table(&house);
    }
    Ok(())
}

fn in_house_table(house: &HouseholdView) {
    let row = |model: &InHouseView| {
        let note = match (way_word(house, model.copy.as_deref()), model.room) {
            (Some(word), _) => word,
            (None, _) if model.ends_here => "its ends are here",
            (None, false) if model.ends_room => "no room on the disk for all of it",
            (None, false) => "no room on the disk",
            (None, true) => "",
        };
        vec![
            model.name.clone(),
            size(model.file_bytes),
            size(model.ends_bytes),
            fit_words(&model.fit),
            model.devices.join(", "),
            model.digest.chars().take(12).collect(),
            note.to_owned(),
        ]
    };
    output::table(
        &["IN THIS HOUSE", "SIZE", "ENDS", "FITS", "ON", "DIGEST", "NOTE"],
        &house.in_house.iter().map(row).collect::<Vec<_>>(),
    );
}

/// What the download with this key does, where another list shows it.
fn way_word(house: &HouseholdView, key: Option<&str>) -> Option<&'static str> {
    let download = house.downloads.iter().find(|it| Some(it.key.as_str()) == key);
    download.map(|it| state_word(it.state))
}

/// Shows a download until it is over or this command is interrupted.
async fn follow(
    connection: &Connection,
    key: &str,
    name: String,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let bar = if json { None } else { output::bar() };
    // One wait for the whole time: a signal that nobody waits for just then would be lost, because
    // the first wait takes it away from the system.
    tokio::select! {
        biased;
        () = nook_control::asked_by_the_system() => {
            if let Some(bar) = bar {
                bar.abandon();
            }
            output::note(match connection.is_own() {
                true => format!("What came of {name} is kept: nook models resume {name}"),
                false => format!("{name} goes on in the running node: nook models cancel {name}"),
            });
            Ok(ExitCode::FAILURE)
        }
        ended = show(&connection.client, key, &name, bar.clone(), json) => ended,
    }
}

/// Shows a download until it is over.
async fn show(
    client: &Client,
    key: &str,
    name: &str,
    bar: Option<ProgressBar>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut shown: Option<DownloadView> = None;
    loop {
        let house = view(client).await?;
        let Some(now) = house.downloads.iter().find(|it| it.key == key) else {
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
            return over(&house, name, json);
        };
        if shown.as_ref() != Some(now) {
            tell(now, shown.as_ref(), bar.as_ref(), json);
            shown = Some(now.clone());
        }
        match now.state {
            DownloadState::Failed => {
                bail!("{}", problem_of(now).unwrap_or("the download failed"))
            }
            DownloadState::Paused | DownloadState::Cancelled => {
                output::note(format!("{name} rests: nook models resume {name}"));
                return Ok(ExitCode::FAILURE);
            }
            _ => {}
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// It is in the list no more: the model is here, or somebody deleted the download.
fn over(house: &HouseholdView, name: &str, json: bool) -> anyhow::Result<ExitCode> {
    let Some(model) = house.models.iter().find(|it| it.name.eq_ignore_ascii_case(name)) else {
        bail!(
            "{name} is neither here nor on its way: its download was deleted, or it is here under another name (nook models)"
        );
    };
    if json {
        output::json_line(model);
    } else {
        output::line(is_here(model));
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(now: &DownloadView, before: Option<&DownloadView>, bar: Option<&ProgressBar>, json: bool) {
    if json {
        output::json_line(now);
        return;
    }
    let problem = problem_of(now);
    let Some(bar) = bar else {
        if before.is_none_or(|before| (before.state, problem_of(before)) != (now.state, problem)) {
            let more = problem.map(|text| format!(" ({text})")).unwrap_or_default();
            output::note(format!("{}: {}{more}", now.name, state_word(now.state)));
        }
        return;
    };
    if let Some(bytes) = now.file_bytes {
        bar.set_length(bytes);
    }
    bar.set_position(now.have_bytes);
    let pace = match (now.bytes_per_second, now.seconds_left) {
        (Some(rate), Some(left)) => format!("{:.1} MB/s, {} left", rate / 1e6, duration(left)),
        _ => state_word(now.state).to_owned(),
    };
    bar.set_message(match problem {
        Some(problem) => format!("{pace}: {problem}"),
        None => pace,
    });
}

/// What is wrong with a download, in words.
fn problem_of(download: &DownloadView) -> Option<&str> {
    download.problem.as_ref().map(|problem| problem.sentence.as_str())
}

fn list(house: &HouseholdView, json: bool) {
    if json {
        return output::json(&house.models);
    }
    let row = |model: &ModelView| {
        vec![
            model.name.clone(),
            model.architecture.clone(),
            model.quantisation.clone(),
            model.layers.to_string(),
            model.context_length.to_string(),
            match model.ends_bytes {
                Some(ends) => format!("{} of {}", size(ends), size(model.file_bytes)),
                None => size(model.file_bytes),
            },
            fit_words(&model.fit),
            model.digest.chars().take(12).collect(),
        ]
    };
    output::table(
        &["NAME", "KIND", "QUANT", "LAYERS", "CONTEXT", "SIZE", "FITS", "DIGEST"],
        &house.models.iter().map(row).collect::<Vec<_>>(),
    );
    if !house.in_house.is_empty() {
        output::line("");
        in_house_table(house);
    }
    if house.downloads.is_empty() {
        return;
    }
    output::line("");
    let row = |download: &DownloadView| {
        let of =
            download.file_bytes.map(|bytes| format!(" of {}", size(bytes))).unwrap_or_default();
        vec![
            download.name.clone(),
            state_word(download.state).to_owned(),
            format!("{}{of}", size(download.have_bytes)),
            download.origin.clone(),
            problem_of(download).unwrap_or_default().to_owned(),
        ]
    };
    output::table(
        &["DOWNLOAD", "STATE", "HERE", "FROM", "NOTE"],
        &house.downloads.iter().map(row).collect::<Vec<_>>(),
    );
}

fn catalogue(house: &HouseholdView, json: bool) {
    if json {
        return output::json(&house.catalogue);
    }
    let row = |entry: &CatalogueView| {
        let way = way_word(house, entry.download.as_deref());
        let mark = match (&entry.here, way, &entry.in_house, entry.recommended) {
            (Some(_), ..) => "here",
            (None, Some(word), ..) => word,
            (None, None, Some(_), _) => "in this house: nook models copy",
            (None, None, None, true) => "recommended",
            (None, None, None, false) => "",
        };
        vec![
            entry.id.clone(),
            format!("{}B", entry.billions),
            entry.quantisation.clone(),
            size(entry.file_bytes),
            fit_words(&entry.fit),
            speed_words(&entry.fit),
            entry.licence.clone(),
            mark.to_owned(),
            entry.about_en.clone(),
        ]
    };
    output::table(
        &["NAME", "PARAMETERS", "QUANT", "SIZE", "FITS", "TOKENS/S", "LICENCE", "", ""],
        &house.catalogue.iter().map(row).collect::<Vec<_>>(),
    );
    output::line("");
    output::line(edition_lines(&house.catalogue_edition));
}

/// How fast it is expected to be, as far as anything it takes was measured.
fn speed_words(fit: &FitView) -> String {
    fit.tokens_per_second.map(|tokens| format!("about {tokens:.1}")).unwrap_or_default()
}

/// Which list it is, and why there is no newer one where that is known.
fn edition_lines(edition: &CatalogueEditionView) -> String {
    let day = nook_base::calendar::day_of(edition.written);
    let whence = match edition.built_in {
        true => "it came with this program",
        false => "renewed since this program was installed",
    };
    let trouble = edition.trouble.as_ref();
    let trouble =
        trouble.map(|why| format!("\nThe last look for a newer list did not work: {why}"));
    format!("The list is of {day}: {whence}.{}", trouble.unwrap_or_default())
}

async fn found(client: &Client, json: bool) -> anyhow::Result<()> {
    let found = client.found_models().await?;
    if json {
        output::json(&found);
        return Ok(());
    }
    if found.is_empty() {
        output::line("No other program that is known here holds a model that can be used.");
        return Ok(());
    }
    let rows = found.into_iter().map(|it| {
        vec![it.program, it.name, it.architecture, it.quantisation, size(it.file_bytes), it.path]
    });
    output::table(&["PROGRAM", "NAME", "KIND", "QUANT", "SIZE", "FILE"], &rows.collect::<Vec<_>>());
    Ok(())
}

fn is_here(model: &ModelView) -> String {
    format!("{} is here: {} layers", model.name, model.layers)
}

fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    if bytes < 1e9 { format!("{:.1} MB", bytes / 1e6) } else { format!("{:.1} GB", bytes / 1e9) }
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

fn fit_words(fit: &FitView) -> String {
    match fit.kind {
        FitKind::Here => "here".to_owned(),
        FitKind::With => format!("with {}", fit.devices.join(" and ")),
        FitKind::Nowhere => "no".to_owned(),
        FitKind::Unknown => "?".to_owned(),
    }
}

fn state_word(state: DownloadState) -> &'static str {
    match state {
        DownloadState::Waiting => "waiting",
        DownloadState::Connecting => "connecting",
        DownloadState::Loading => "loading",
        DownloadState::Checking => "checking",
        DownloadState::Paused => "paused",
        DownloadState::Cancelled => "cancelled",
        DownloadState::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_says_of_when_it_is_and_where_it_came_from() {
        let edition =
            CatalogueEditionView { written: 1_795_694_400, built_in: true, trouble: None };
        let said = edition_lines(&edition);
        assert_eq!(said, "The list is of 2026-11-26: it came with this program.");
        let trouble = Some("Nobody answered.".to_owned());
        let said = edition_lines(&CatalogueEditionView { built_in: false, trouble, ..edition });
        assert!(said.contains("renewed since") && said.ends_with("Nobody answered."), "{said}");
    }
}
