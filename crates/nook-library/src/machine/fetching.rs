//! Downloads from servers: asked for, begun, paused.

use std::path::Path;

use nook_api::views::{DownloadAsk, DownloadView, Trouble, TroubleView};
use nook_api::{NodeError, sentence};
use nook_base::ErrorCode;
use nook_fetch::{Order, Pin, Progress, Seat, Source};
use nook_store::{DownloadEntry, DownloadWish, ModelEntry};
use tokio::sync::watch;

use super::ModelLibrary;
use super::ends::ends_of;
use crate::downloads::{Stage, UnderWay, Work};
use crate::events::{Job, Surroundings, Transfer};

impl ModelLibrary {
    /// Begins a download, or resumes the one of the same file.
    pub(super) fn pull(
        &mut self,
        wanted: &str,
        name: Option<&str>,
        around: &Surroundings<'_>,
    ) -> Result<DownloadView, NodeError> {
        let (order, usual_name) = self.order_for(wanted)?;
        let key = order.source.key();
        let known = self.downloads.find(key.as_str()).map(|entry| entry.name.clone());
        let name = match (name, known) {
            (None, Some(known)) => known,
            (name, _) => self.name_for(name.or(usual_name.as_deref()), &order.source)?,
        };
        let entry = DownloadEntry {
            key: key.as_str().to_owned(),
            source: order.source.to_string(),
            name,
            wish: DownloadWish::Run,
            added: around.unix,
        };
        self.downloads.list.put(entry).map_err(|error| refused(&error.to_string()))?;
        self.downloads.troubles.remove(key.as_str());
        tracing::info!(download = key.as_str(), "asked for");
        self.start_downloads();
        let view = self.download_views().into_iter().find(|view| view.key == key.as_str());
        view.ok_or_else(|| refused("the download is not in the list"))
    }

    /// Pauses, resumes, cancels or deletes a download.
    pub(super) fn change_download(
        &mut self,
        wanted: &str,
        ask: DownloadAsk,
    ) -> Result<(), NodeError> {
        let Some(entry) = self.downloads.find(wanted).cloned() else {
            let shown: String = wanted.chars().take(80).flat_map(char::escape_debug).collect();
            return Err(NodeError::new(
                ErrorCode::NotFound,
                format!("No download is called `{shown}`; nook models lists them."),
            ));
        };
        let (key, ends) = (entry.key.clone(), ends_of(&entry));
        let wish = match ask {
            DownloadAsk::Delete => {
                self.check_in_reach()?;
                return self.delete_download(&key);
            }
            DownloadAsk::Resume => DownloadWish::Run,
            DownloadAsk::Pause => DownloadWish::Pause,
            DownloadAsk::Cancel => DownloadWish::Cancel,
        };
        self.wish_download(entry, wish)?;
        self.downloads.troubles.remove(&key);
        if ask != DownloadAsk::Resume
            && let Some(under_way) = self.downloads.under_way.get_mut(&key)
            && under_way.stage == Stage::Loading
        {
            under_way.stage = Stage::Stopping;
            under_way.stop.cancel();
            if let Some(model) = ends {
                self.stop_part(model);
            }
        }
        self.start_downloads();
        Ok(())
    }

    /// Begins what waits, as far as there are seats.
    pub(super) fn start_downloads(&mut self) {
        if let Some(problem) = self.downloads.hub_problem.take() {
            let trouble = Trouble::DownloadServer { reason: problem.clone() };
            self.note("downloads", [TroubleView::new(problem, trouble)]);
        }
        self.go_on_moving();
        if self.moving.holds() {
            return;
        }
        self.delete_orphans();
        self.downloads.lacks_seat = false;
        while let Some(entry) = self.downloads.next(|entry| self.can_begin(entry)) {
            if let Ok(Work::TakeEnds(source)) = self.downloads.work(&entry) {
                // It takes one of the seats for parts.
                self.begin_ends(&entry.key, &source);
                continue;
            }
            let Some(seat) = self.downloads.seats.take() else {
                self.downloads.lacks_seat = true;
                return;
            };
            match self.downloads.work(&entry) {
                Ok(Work::Fetch(order)) => self.begin_download(entry.key, order, seat),
                Ok(Work::Copy(order)) => self.begin_copy(entry.key, order, seat),
                Ok(Work::TakeEnds(source)) => self.begin_ends(&entry.key, &source),
                Err(why) => {
                    self.downloads.troubles.insert(entry.key, refused(&why).into());
                }
            }
        }
    }

    /// Lists `key` as loading, with what is known to be on the disk of it.
    pub(super) fn list_loading(&mut self, key: &str) -> Transfer {
        let stop = self.lifetime.child_token();
        let (fetcher, folder) = (self.downloads.fetcher.clone(), self.downloads.folder.clone());
        let have = self.downloads.on_disk(key).bytes;
        let (tell, told) = watch::channel(Progress { have, ..Progress::default() });
        let under_way = UnderWay::new(stop.clone(), told, Stage::Loading);
        self.downloads.under_way.insert(key.to_owned(), under_way);
        Transfer { fetcher, folder, stop, tell }
    }

    fn begin_download(&mut self, key: String, order: Order, seat: Seat) {
        let transfer = self.list_loading(&key);
        self.run(Job::Fetch { key, order, seat, transfer });
    }

    /// What `wanted` means, and what such a model is called here.
    fn order_for(&self, wanted: &str) -> Result<(Order, Option<String>), NodeError> {
        let catalogue = &self.downloads.catalogue;
        if let Some(entry) = catalogue.get(wanted.trim()) {
            return Ok((entry.order.clone(), Some(entry.id.clone())));
        }
        let parsed: Result<Source, _> = wanted.parse();
        let source = parsed.map_err(|error| {
            let ids: Vec<&str> = catalogue.entries().iter().map(|it| it.id.as_str()).collect();
            refused(&format!("{error}; or one of the catalogue: {}", ids.join(", ")))
        })?;
        Ok(match catalogue.of_source(&source) {
            Some(entry) => (entry.order.clone(), Some(entry.id.clone())),
            None => (Order { source, pin: Pin::default() }, None),
        })
    }

    /// A name that the model can have once it is here, known before anything is loaded.
    fn name_for(&self, wished: Option<&str>, source: &Source) -> Result<String, NodeError> {
        let file = source.whole_name();
        let file = Path::new(&file);
        let wishes = |model: &&ModelEntry| {
            wished.is_some_and(|wished| model.name.eq_ignore_ascii_case(wished))
        };
        let name = match self.library.models().iter().find(wishes) {
            // Whoever lost a model's file may fetch it again; another model gets a number at the
            // end.
            Some(lost) if self.is_lost(lost) => lost.name.clone(),
            _ => {
                let name = self.library.name_for(wished, file);
                name.map_err(|error| refused(&error.to_string()))?
            }
        };
        let is_taken = |entry: &DownloadEntry| entry.name.eq_ignore_ascii_case(&name);
        let key = source.key();
        let mut others = self.downloads.list.entries().iter().filter(|it| it.key != key.as_str());
        if others.any(is_taken) {
            return Err(refused(&format!(
                "a download is called `{name}` already; choose another name"
            )));
        }
        Ok(name)
    }

    pub(super) fn wish_download(
        &mut self,
        entry: DownloadEntry,
        wish: DownloadWish,
    ) -> Result<(), NodeError> {
        let entry = DownloadEntry { wish, ..entry };
        self.downloads.list.put(entry).map_err(|error| refused(&error.to_string()))
    }
}

pub(super) fn refused(why: &str) -> NodeError {
    NodeError::new(ErrorCode::BadRequest, sentence(why))
}
