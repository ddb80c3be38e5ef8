//! Layers of models that this device lacks: asked for, taken, found again and forgotten.
//!
//! One job takes layers of one model at a time. Who asks for more of it meanwhile waits for the
//! next job, which takes only what is still missing. When the cap of all partial models is reached,
//! those that nobody needs go, the longest unused first.

use std::collections::BTreeSet;

use nook_base::{ErrorCode, ModelDigest, ModelPart, PeerId};
use nook_fetch::Progress;
use nook_resources::catalogue::{Entry, PartialEntry, PartialModels};
use nook_wire::HaveModel;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ModelLibrary;
use crate::events::{Job, LibraryEffect, Surroundings, Transfer};
use crate::part_failure::PartFailure;
use crate::part_job::{PartEnd, PartJob};
use crate::partial::PartialModel;
use crate::parts::{
    PARTS_ASKED_MAX, PARTS_OF_ONE_MAX, PartNotice, PartWish, UnderWay, Waiting, Work,
};

impl PartialModels for ModelLibrary {
    fn entries(&self) -> &[PartialEntry] {
        self.parts.entries()
    }

    fn room(&self) -> u64 {
        self.parts.room()
    }

    fn given(&self, model: ModelDigest) -> Result<HaveModel, ErrorCode> {
        let holders = self.copies.holders.borrow();
        let given = holders.values().find_map(|holder| holder.model(model)).cloned();
        given.ok_or_else(|| match self.copies.is_said_by_liars(model) {
            true => ErrorCode::BadModel,
            false => ErrorCode::FetchFailed,
        })
    }

    fn percent(&self, model: ModelDigest) -> u8 {
        let Some(under_way) = self.parts.under_way.get(&model) else { return 0 };
        let Progress { have, bytes, .. } = *under_way.told.borrow();
        let percent = have.saturating_mul(100) / bytes.unwrap_or(u64::MAX).max(1);
        u8::try_from(percent).unwrap_or(100).min(100)
    }
}

impl ModelLibrary {
    /// Models of which only some layers are here. Not one of them is in [`Self::entries`].
    pub fn partial_models(&self) -> impl Iterator<Item = &PartialModel> {
        self.parts.known.values()
    }

    /// Somebody wants layers.
    pub(super) fn take_part(&mut self, wish: PartWish) {
        let PartWish { model, name, part, holders } = wish;
        tracing::info!(?model, ?name, layers = %part.layers, "layers are asked for");
        // The whole model may have come meanwhile.
        let is_whole = |entry: &&Entry| entry.digest() == model && !entry.ends_only;
        if let Some(entry) = self.entries.iter().find(is_whole) {
            let path = entry.listed.path.now();
            return self.tell_part(PartNotice::Present { model, path, part });
        }
        // Looks at the record of the file, which is as short as the lists of the store.
        if let Some(known) = self.parts.known.get(&model).filter(|known| known.file.has_part(&part))
            && !matches!(
                self.parts.under_way.get(&model).map(|it| &it.work),
                Some(Work::Forgetting | Work::Deleting)
            )
        {
            let path = known.path.clone();
            return self.tell_part(PartNotice::Present { model, path, part });
        }
        if self.moving.holds() {
            return self.part_failed(model, part, PartFailure::FolderAway);
        }
        if !self.wait_for_part(model, part, holders) {
            return self.part_failed(model, part, PartFailure::TooMany);
        }
        self.start_parts();
    }

    /// Lists the part as waiting; not where too many are.
    pub(super) fn wait_for_part(
        &mut self,
        model: ModelDigest,
        part: ModelPart,
        holders: BTreeSet<PeerId>,
    ) -> bool {
        let waiting = &mut self.parts.waiting;
        if let Some(known) = waiting.iter_mut().find(|known| known.model == model) {
            known.first.extend(holders);
            let is_new = !known.parts.contains(&part);
            if is_new && known.parts.len() >= PARTS_OF_ONE_MAX {
                return false;
            }
            if is_new {
                known.parts.push(part);
            }
            return true;
        }
        if waiting.len() >= PARTS_ASKED_MAX {
            return false;
        }
        waiting.push(Waiting { model, parts: vec![part], first: holders });
        true
    }

    /// Begins what waits, as far as there are permits and the place of each model is free.
    pub(super) fn start_parts(&mut self) {
        self.go_on_moving();
        if self.moving.holds() {
            for waiting in std::mem::take(&mut self.parts.waiting) {
                self.parts_failed(waiting, &PartFailure::FolderAway);
            }
            return;
        }
        loop {
            // What makes room for the first one that waits goes before anything is taken.
            let is_clearing =
                self.parts.under_way.values().any(|it| matches!(it.work, Work::Deleting));
            let can = |waiting: &Waiting| !self.parts.under_way.contains_key(&waiting.model);
            let Some(at) = self.parts.waiting.iter().position(can).filter(|_| !is_clearing) else {
                return;
            };
            let Some(seat) = self.parts.seats.take() else { return };
            let waiting = self.parts.waiting.remove(at);
            let Waiting { model, parts, first } = &waiting;
            let (model, parts, first) = (*model, parts.clone(), first.clone());
            let stop = self.lifetime.child_token();
            let (tell, told) = watch::channel(Progress::default());
            self.follow_ends(model, &told);
            let under_way = UnderWay { work: Work::Taking(waiting), stop: stop.clone(), told };
            self.parts.under_way.insert(model, under_way);
            let transfer = Transfer {
                fetcher: self.downloads.fetcher.clone(),
                folder: self.parts.folder.clone(),
                stop,
                tell,
            };
            self.run(Job::TakePart(Box::new(PartJob {
                model,
                parts,
                seat,
                transfer,
                budget: self.parts.budget.clone(),
                holders: self.copies.holders.subscribe(),
                first,
                traffic: self.copies.traffic.clone(),
            })));
        }
    }

    /// A job has ended.
    pub(super) fn on_part_end(&mut self, end: PartEnd, around: &Surroundings<'_>) {
        let PartEnd { model, failure, partial, liars } = end;
        for peer in liars {
            self.disbelieve(peer, around);
        }
        match partial {
            Some(partial) => {
                self.parts.note(PartialModel { used: around.unix, ..partial });
            }
            None => self.part_gone(model),
        }
        let Some(UnderWay { work, .. }) = self.parts.under_way.remove(&model) else { return };
        match (work, failure) {
            (Work::Taking(waiting), None) => {
                self.parts_present(&waiting);
                self.ends_came(model, around);
            }
            (Work::Taking(waiting), Some(PartFailure::CapReached { needed, most }))
                if !waiting.parts.is_empty() =>
            {
                self.make_room(waiting, needed, most);
            }
            (Work::Taking(waiting), Some(failure)) => self.parts_failed(waiting, &failure),
            (Work::Forgetting | Work::Deleting, _) => self.delete_part(model),
        }
        self.keep_below_cap();
        self.start_parts();
        // One whose job was stopped for somebody else goes on.
        self.start_downloads();
    }

    /// Deletes what nobody needs, and takes the layers again behind that; or says that it cannot
    /// be done.
    fn make_room(&mut self, waiting: Waiting, needed: u64, most: u64) {
        let mut room = most;
        let mut going = Vec::new();
        for partial in self.parts.unneeded(Some(waiting.model)) {
            if room >= needed {
                break;
            }
            room = room.saturating_add(partial.bytes);
            going.push(partial.model);
        }
        if room < needed {
            return self.parts_failed(waiting, &PartFailure::CapReached { needed, most });
        }
        for model in going {
            tracing::info!(?model, "its layers go, to make room for others");
            self.delete_part(model);
        }
        // Before everything that was asked for later.
        match self.parts.waiting.iter_mut().find(|it| it.model == waiting.model) {
            Some(more) => {
                more.first.extend(waiting.first);
                let new = waiting.parts.into_iter().filter(|part| !more.parts.contains(part));
                let new: Vec<_> = new.collect();
                more.parts.extend(new);
            }
            None => self.parts.waiting.insert(0, waiting),
        }
    }

    /// Ends taking layers of `model`; what came stays.
    pub(super) fn stop_part(&mut self, model: ModelDigest) {
        let at = self.parts.waiting.iter().position(|waiting| waiting.model == model);
        if let Some(at) = at {
            let waiting = self.parts.waiting.remove(at);
            self.parts_failed(waiting, &PartFailure::Stopped);
        }
        let Some(under_way) = self.parts.under_way.get_mut(&model) else { return };
        under_way.stop.cancel();
        // Told now, and nothing of them when the job has ended: by then somebody else may wait for
        // the same layers, who waits for the next job.
        if let Work::Taking(waiting) = &mut under_way.work {
            for part in std::mem::take(&mut waiting.parts) {
                self.part_failed(model, part, PartFailure::Stopped);
            }
        }
    }

    /// Deletes what is here of `model`; nobody needs it any more.
    pub(super) fn forget_part(&mut self, model: ModelDigest) {
        self.stop_part(model);
        self.parts.needed.remove(&model);
        let Some(under_way) = self.parts.under_way.get_mut(&model) else {
            if self.parts.known.contains_key(&model) {
                self.delete_part(model);
            }
            return;
        };
        if matches!(under_way.work, Work::Taking(_)) {
            under_way.work = Work::Forgetting;
            self.ends_failed(model, &PartFailure::Stopped);
        }
    }

    /// These are of use now. The others may go when room is wanted.
    pub(super) fn parts_needed(
        &mut self,
        needed: BTreeSet<ModelDigest>,
        around: &Surroundings<'_>,
    ) {
        let before = std::mem::replace(&mut self.parts.needed, needed);
        for model in before.difference(&self.parts.needed) {
            if let Some(known) = self.parts.known.get_mut(model) {
                known.used = around.unix;
            }
        }
        self.drop_leaving();
        self.drop_parts_of_whole();
        self.keep_below_cap();
    }

    /// All partial models together may take so many bytes. What is of use stays until it is not.
    pub(super) fn cap_parts(&mut self, bytes: u64) {
        self.parts.budget.set_most(bytes);
        self.keep_below_cap();
    }

    /// Deletes what nobody needs, the longest unused first, while all together take more than they
    /// may: the owner has lowered the cap.
    fn keep_below_cap(&mut self) {
        if self.moving.holds() {
            return;
        }
        // What is being deleted takes its room no more in a moment.
        let mut over = self.parts.budget.over().saturating_sub(self.parts.bytes_leaving());
        let mut going = Vec::new();
        for partial in self.parts.unneeded(None) {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(partial.bytes);
            going.push(partial.model);
        }
        for model in going {
            tracing::info!(?model, "its layers go: all together may take less now");
            self.delete_part(model);
        }
    }

    /// The file of a partial model is gone, or cannot be deleted now.
    pub(super) fn on_part_deleted(&mut self, model: ModelDigest, partial: Option<PartialModel>) {
        self.parts.under_way.remove(&model);
        match partial {
            Some(partial) => {
                self.parts.note(partial);
                // Whoever looks for room again finds another one.
                self.parts.needed.insert(model);
            }
            None => self.part_gone(model),
        }
        self.start_parts();
    }

    /// Another folder counts from now on. What lies in the one before can be taken again, so it is
    /// not moved.
    pub(super) fn parts_moved(&mut self) {
        for model in self.parts.known.keys().copied().collect::<Vec<_>>() {
            let folder = self.parts.folder.clone();
            self.run(Job::LeavePart { model, folder });
            self.part_gone(model);
        }
        self.parts.folder = nook_fetch::Folder::at(self.library.partial_folder());
    }

    /// Deletes partial models of which the whole file is here, unless somebody uses them.
    pub(super) fn drop_parts_of_whole(&mut self) {
        let is_whole = |model: &ModelDigest| {
            let is_listed =
                self.entries.iter().any(|entry| entry.digest() == *model && !entry.ends_only);
            let is_used =
                self.parts.needed.contains(model) || self.parts.under_way.contains_key(model);
            is_listed && !is_used && !self.moving.holds()
        };
        let whole: Vec<_> = self.parts.known.keys().copied().filter(is_whole).collect();
        whole.into_iter().for_each(|model| self.delete_part(model));
    }

    fn delete_part(&mut self, model: ModelDigest) {
        let folder = self.parts.folder.clone();
        let (_, told) = watch::channel(Progress::default());
        let stop = CancellationToken::new();
        self.parts.under_way.insert(model, UnderWay { work: Work::Deleting, stop, told });
        self.run(Job::DeletePart { model, folder });
    }

    fn parts_present(&mut self, waiting: &Waiting) {
        let model = waiting.model;
        let path = self.parts.known.get(&model).map(|known| known.path.clone());
        for part in waiting.parts.iter().copied() {
            match path.clone() {
                Some(path) => self.tell_part(PartNotice::Present { model, path, part }),
                // Somebody deleted the file behind the job's back.
                None => self.part_failed(model, part, PartFailure::Lost),
            }
        }
    }

    fn parts_failed(&mut self, waiting: Waiting, why: &PartFailure) {
        for part in waiting.parts {
            self.part_failed(waiting.model, part, why.clone());
        }
        self.ends_failed(waiting.model, why);
    }

    fn part_failed(&mut self, model: ModelDigest, part: ModelPart, why: PartFailure) {
        tracing::warn!(?model, layers = %part.layers, %why, "layers did not come");
        self.tell_part(PartNotice::Failed { model, part, why });
    }

    fn part_gone(&mut self, model: ModelDigest) {
        if self.parts.drop_known(model) {
            self.tell_part(PartNotice::Gone { model });
        }
    }

    fn tell_part(&mut self, notice: PartNotice) {
        self.effects.push(LibraryEffect::Part(notice));
    }
}
