//! The house as doors show it, made in one place from the state.

use std::collections::BTreeMap;
use std::time::Duration;

use nook_base::{ModelDigest, PeerId, clock};
use nook_find::{Health, Tag};
use nook_plan::{Link, Place, Speed};
use nook_store::{HelpAnswer, Peer};
use nook_trust::TrustLevel;

use crate::devices;
use crate::devices::{Offered, Seen};
use crate::facts::facts_view;
use crate::preferences::{pooling_view, settings_view};
use crate::state::State;
use crate::status_line::status_line;
use nook_api::Sharing;
use nook_api::views::{
    CatalogueEditionView, DeviceView, FactsView, GuestView, HouseholdView, LendView, MeView,
    MeasuredView, ModelsFolderView, PipelineView, PortView, SharingState, SharingView, Trouble,
    TroubleView, Trust, UnusedReason, UpdatesView, WhyLeftOut,
};
use nook_resources::catalogue;

impl State {
    /// Publishes the view if anything in it changed.
    pub(crate) fn publish(&self) {
        let fresh = self.present();
        self.view.send_if_modified(|current| {
            let changed = **current != fresh;
            if changed {
                *current = std::sync::Arc::new(fresh);
            }
            changed
        });
    }

    pub(crate) fn present(&self) -> HouseholdView {
        let fits = &self.fits.known;
        HouseholdView {
            me: MeView {
                id: self.me.id.to_string(),
                short_id: self.me.id.short(),
                name: self.me.name.clone(),
                app_version: nook_base::VERSION.to_owned(),
                listen_port: self.listen_port,
                key_kept_in: self.key_place.words(),
                key_place: Some(self.key_place.clone()),
                memory_bytes: nook_resources::memory::memory_total(),
                disk_free_bytes: self.library.disk_free(),
                facts: facts_view(&self.own_facts()),
            },
            sharing: self.sharing_view(),
            devices: self.device_views(),
            models: self.library.model_views(fits),
            default_model: self.library.default_model(),
            catalogue: self.library.catalogue_views(fits),
            catalogue_edition: self.catalogue_edition(),
            downloads: self.library.download_views(),
            models_folder: self.library.folder_view(),
            in_house: self.library.household_views(fits),
            pairing: self.pairing_view(),
            paired_by_code: self.devices.paired_by_code().cloned(),
            port: self.port.clone(),
            problems: self.troubles(),
            settings: settings_view(self.settings.settings()),
            updates: self.updates_view(),
        }
    }

    fn troubles(&self) -> Vec<TroubleView> {
        let mut problems: Vec<TroubleView> = self.workers.problems().borrow().clone();
        problems.extend(self.problems.values().flatten().cloned());
        problems.extend(self.record_troubles());
        if let Some(finder) = &self.finder {
            problems.extend(find_trouble(&finder.health().borrow()));
        }
        problems.extend(self.port.problem.clone());
        problems
    }

    fn sharing_view(&self) -> SharingView {
        let on = self.host.sharing() == Sharing::On;
        let streams = self.host.streams();
        let replies = self.replies_running();
        let busy = streams > 0 || replies > 0;
        let broken = !self.workers.problems().borrow().is_empty();
        let paused = self.pause_view();
        let state = match (broken, busy, on) {
            (true, ..) => SharingState::Problem,
            (false, true, _) => SharingState::Busy,
            (false, false, true) if paused.is_some() => SharingState::Paused,
            (false, false, true) => SharingState::Sharing,
            (false, false, false) => SharingState::Idle,
        };
        let mut view = SharingView {
            on,
            state,
            answering: replies > 0,
            streams,
            streams_max: self.host.streams_max(),
            paused,
            guests: self.guest_views(),
            lent_days: self.host.lent_days(),
            gpus: self.gpu_views(),
            status_line: String::new(),
        };
        let is_connected = |peer: &&Peer| self.links.link(peer.id).is_some();
        let connected = self.devices.peers().list().iter().filter(is_connected).count();
        view.status_line = status_line(&view, connected);
        view
    }

    /// Who is helped now, by name.
    fn guest_views(&self) -> Vec<GuestView> {
        let guests = self.host.guests().into_iter();
        let view = |(peer, streams): (PeerId, u16)| GuestView {
            device_id: peer.to_string(),
            device: self.name_of(peer),
            streams,
        };
        let mut views: Vec<_> = guests.map(view).collect();
        views.sort_by(|a, b| a.device.cmp(&b.device).then_with(|| a.device_id.cmp(&b.device_id)));
        views
    }

    fn device_views(&self) -> Vec<DeviceView> {
        let by_tag: BTreeMap<Tag, &Seen> =
            self.devices.seen().iter().map(|(tag, seen)| (*tag, seen)).collect();
        let mut paired: Vec<_> = self
            .devices
            .peers()
            .list()
            .iter()
            .map(|peer| self.paired_view(peer, by_tag.get(&Tag::of(&peer.id)).copied()))
            .collect();
        paired.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.id.cmp(&b.id)));
        let known =
            |tag: &Tag| self.devices.peers().list().iter().any(|peer| tag.matches(&peer.id));
        let mut others: Vec<_> = by_tag
            .iter()
            .filter(|(tag, _)| !known(tag))
            .map(|(tag, seen)| seen_view(tag, seen))
            .collect();
        others.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.id.cmp(&b.id)));
        paired.extend(others);
        paired
    }

    fn paired_view(&self, peer: &Peer, seen: Option<&Seen>) -> DeviceView {
        let link = self.links.link(peer.id);
        let heard = self.devices.heard().get(&peer.id).filter(|heard| heard.is_fresh(clock::now()));
        let advert = heard.map(|heard| &heard.advert).filter(|advert| advert.sharing);
        let lends = advert.map_or_else(Vec::new, |advert| {
            let lend = |shard: &nook_wire::ShardAdvert| LendView {
                model: self.library.name_of(shard.model),
                first_layer: shard.layers.start(),
                last_layer: shard.layers.end().saturating_sub(1),
                held: held_layers(shard),
            };
            advert.shards.iter().filter(|shard| !shard.layers.is_empty()).map(lend).collect()
        });
        let unused = self.unused(peer, &lends, advert);
        let (unused, unused_because, left_out) = match unused {
            Some(Unused { reason, sentence, left_out }) => (Some(reason), Some(sentence), left_out),
            None => (None, None, None),
        };
        DeviceView {
            id: peer.id.to_string(),
            short_id: peer.id.short(),
            name: peer.name.as_str().to_owned(),
            paired: true,
            trust: devices::trust(peer.level),
            connected: link.is_some(),
            pairing: seen.is_some_and(|seen| seen.pairing_port.is_some()),
            addresses: peer.addresses.iter().map(ToString::to_string).collect(),
            way: link.as_ref().and_then(|link| self.way_view(link)),
            rtt_ms: link.as_ref().and_then(|link| link.rtt()).map(|rtt| rtt.as_secs_f64() * 1e3),
            streams_free: advert.map(|advert| advert.streams_free),
            memory_free_bytes: advert.map(|advert| advert.memory_free_bytes),
            last_seen: if link.is_some() { Some(clock::unix_seconds()) } else { peer.last_seen }
                // A stamp that moves every second would publish a view every second.
                .map(|seen| seen - seen % 60),
            unused,
            unused_because,
            left_out,
            takes_whole: self.book.borrow().own.contains_key(&peer.id),
            safety_number: Some(nook_trust::safety_number(&self.me.id, &peer.id)),
            asks_help: peer.help == HelpAnswer::Open && peer.level == TrustLevel::Guest,
            only_helped: peer.help == HelpAnswer::OnlyThis,
            their_terms: self.devices.their_terms(peer.id),
            fetched_percent: self.requester.fetching(peer.id, clock::now()),
            wakeable: !peer.wake.is_empty() && peer.level.may_connect(),
            waking: self.devices.is_waking(peer.id),
            woke_seconds: peer.woke_seconds,
            facts: self.devices.facts(peer.id).map(facts_view).unwrap_or_default(),
            helped_days: self.requester.helped_days(peer.id),
            lends,
        }
    }

    /// How replies are divided, and what that is decided by.
    pub(crate) fn pipeline_view(&self) -> PipelineView {
        let pooling = pooling_view(self.settings.settings().inference.pooling);
        let measured = self
            .requester
            .estimates()
            .all()
            .map(|(place, model, speed)| self.measured(place, model, speed));
        PipelineView {
            pooling,
            last: self.requester.last_decision().cloned(),
            measured: measured.collect(),
            placement: self.around(|around| self.requester.placement_view(around)),
            past: self.requester.past_replies(),
            gains: self.around(|around| self.requester.gain_views(around)),
        }
    }

    fn measured(&self, place: Place, model: ModelDigest, speed: Speed) -> MeasuredView {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let (id, name, link) = match place {
            Place::Local => (self.me.id, self.me.name.clone(), Link::default()),
            Place::Peer(peer) => (peer, self.name_of(peer), self.requester.estimates().link(peer)),
        };
        let decode = speed.decode.measured();
        MeasuredView {
            device_id: id.to_string(),
            device: name,
            model: self.library.name_of(model),
            decode_us_per_layer: decode.map(|line| us(line.slope)),
            decode_us_fixed: decode.map(|line| us(line.fixed)),
            prefill_us_per_layer_token: speed.prefill.measured().map(|line| us(line.slope)),
            ends_us: speed.ends.measured().map(us),
            load_bytes_per_second: speed.load.measured().map(|rate| rate.0),
            round_trip_ms: link.round_trip.measured().map(|trip| us(trip.mean) / 1e3),
            bandwidth_bytes_per_second: link.bandwidth.measured().map(|rate| rate.0),
        }
    }

    /// Why the last reply did without a device that could help.
    fn left_out_because(&self, peer: &Peer) -> Option<Unused> {
        let id = peer.id.to_string();
        let mut left_out = self.requester.last_decision()?.left_out.iter();
        let found = left_out.find(|out| out.device_id == id)?;
        let reason = UnusedReason::LeftOut;
        let sentence = format!("{} {}", unused_sentence(reason), found.why);
        Some(Unused { reason, sentence, left_out: found.reason })
    }

    /// Why a paired device does not compute for this one.
    fn unused(
        &self,
        peer: &Peer,
        lends: &[LendView],
        advert: Option<&nook_wire::Advert>,
    ) -> Option<Unused> {
        let here = |lend: &LendView| {
            catalogue::in_use(self.library.entries()).any(|entry| entry.listed.name == lend.model)
        };
        let offered = match advert {
            None => Offered::Nothing,
            Some(_) if self.requester.fetching(peer.id, clock::now()).is_some() => {
                Offered::Fetching
            }
            Some(advert) if !lends.iter().any(here) => match self.requester.not_fetched(peer.id) {
                Some(code) => Offered::NotFetched(code),
                None if advert.fetch_bytes > 0 => Offered::Lacking,
                None => Offered::OtherModels,
            },
            Some(advert) if advert.streams_free == 0 => Offered::Full,
            Some(_) => Offered::Layers,
        };
        match self.devices.unused(peer, offered) {
            None => self.left_out_because(peer),
            Some(reason) => {
                let percent = self.requester.fetching(peer.id, clock::now());
                let sentence = match percent.filter(|_| reason == UnusedReason::Fetching) {
                    Some(percent) => format!("It is getting its part of your model: {percent} %."),
                    None => unused_sentence(reason).to_owned(),
                };
                Some(Unused { reason, sentence, left_out: None })
            }
        }
    }
}

/// Those of the layers on offer that are in memory there; the advert is not checked, so its numbers
/// may say anything.
fn held_layers(shard: &nook_wire::ShardAdvert) -> Option<[u32; 2]> {
    let held = shard.layers.intersection(shard.held);
    (!held.is_empty()).then(|| [held.start(), held.end().saturating_sub(1)])
}

/// Why a device is not used.
struct Unused {
    reason: UnusedReason,
    /// The same in plain words.
    sentence: String,
    left_out: Option<WhyLeftOut>,
}

/// The reason in plain words.
fn unused_sentence(reason: UnusedReason) -> &'static str {
    match reason {
        UnusedReason::NotPaired => "It is not paired with this device.",
        UnusedReason::Blocked => "You have blocked it.",
        UnusedReason::Away => "It does not answer: it is off, asleep, or on another network.",
        UnusedReason::Unanswered => {
            "Say whether these two computers may help each other: the question waits here."
        }
        UnusedReason::NotAllowed => {
            "You have not allowed it to compute for you: set it to Trusted."
        }
        UnusedReason::OnlyHelped => {
            "You chose that this computer helps it, and not the other way round."
        }
        UnusedReason::UnansweredThere => {
            "The same question waits on its screen: may these two computers help each other?"
        }
        UnusedReason::NotAllowedThere => {
            "Its owner does not let this computer use it: set this computer to Trusted there."
        }
        UnusedReason::SharingOff => "Sharing is switched off there: switch it on there.",
        UnusedReason::SharingPaused => {
            "Sharing pauses there: on battery, in a full-screen game, or because its owner said so."
        }
        UnusedReason::NotSharing => "It shares nothing with this device now.",
        UnusedReason::NoModel => {
            "It has none of the models that this device uses, and may fetch none: allow that there, \
             under Settings, Sharing."
        }
        UnusedReason::LacksLayers => {
            "It has no part of your model yet. It gets one by itself as soon as that is of use."
        }
        UnusedReason::Fetching => "It is getting its part of your model.",
        UnusedReason::DiskFull => {
            "Its disk has no room for its part of your model. Make some there."
        }
        UnusedReason::FetchLimit => {
            "It may not fetch its part of your model, or no more of it. Allow it there, under \
             Settings, Sharing."
        }
        UnusedReason::FetchFailed => {
            "It could not get its part of your model. It is tried again; this computer must let it \
             copy models."
        }
        UnusedReason::BadModel => {
            "What it was sent of your model is damaged, or it cannot use the model. Add the model \
             again here, then start Inglenook again there."
        }
        UnusedReason::Busy => "All its streams are taken.",
        UnusedReason::LeftOut => "The last reply did without it.",
    }
}

fn seen_view(tag: &Tag, seen: &Seen) -> DeviceView {
    let id = tag.to_string();
    let short_id: String = id.chars().take(8).collect();
    DeviceView {
        name: seen.name.clone().unwrap_or_else(|| format!("Computer {short_id}")),
        id,
        short_id,
        paired: false,
        trust: Trust::Unknown,
        connected: false,
        pairing: seen.pairing_port.is_some(),
        addresses: seen.addresses.iter().map(ToString::to_string).collect(),
        rtt_ms: None,
        way: None,
        lends: Vec::new(),
        streams_free: None,
        memory_free_bytes: None,
        last_seen: Some(seen.at - seen.at % 60),
        unused_because: Some(unused_sentence(UnusedReason::NotPaired).to_owned()),
        unused: Some(UnusedReason::NotPaired),
        left_out: None,
        takes_whole: false,
        safety_number: None,
        asks_help: false,
        only_helped: false,
        their_terms: None,
        fetched_percent: None,
        wakeable: false,
        waking: false,
        woke_seconds: None,
        facts: FactsView::default(),
        helped_days: Vec::new(),
    }
}

/// What keeps devices from finding each other.
pub(crate) fn find_trouble(health: &Health) -> Option<TroubleView> {
    Some(match health {
        Health::Unknown | Health::Working => return None,
        Health::OwnAdvertUnheard { .. } => TroubleView::new(
            "This network or a firewall keeps devices from finding each other. Paired devices and \
             typed addresses still work; allow UDP port 5353 to find new ones.",
            Trouble::DiscoveryUnheard,
        ),
        Health::TwinSeen => TroubleView::new(
            "Something in this network says that it is this computer. If you copied Inglenook's data \
             folder to another computer, set Inglenook up anew there; else there is nothing to do.",
            Trouble::CopySeen,
        ),
        Health::Refused { reason } => TroubleView::new(
            format!("Devices cannot be looked for: {reason}."),
            Trouble::DiscoveryRefused { reason: reason.clone().into() },
        ),
    })
}

/// What is shown before the loop has published anything.
pub(crate) fn empty_view() -> HouseholdView {
    HouseholdView {
        updates: UpdatesView::default(),
        me: MeView {
            id: String::new(),
            short_id: String::new(),
            name: String::new(),
            app_version: String::new(),
            listen_port: 0,
            key_kept_in: String::new(),
            key_place: None,
            memory_bytes: None,
            disk_free_bytes: None,
            facts: FactsView::default(),
        },
        sharing: SharingView {
            on: false,
            state: SharingState::Idle,
            streams: 0,
            answering: false,
            streams_max: 0,
            paused: None,
            guests: Vec::new(),
            lent_days: Vec::new(),
            gpus: Vec::new(),
            status_line: String::new(),
        },
        devices: Vec::new(),
        models: Vec::new(),
        default_model: None,
        catalogue: Vec::new(),
        catalogue_edition: CatalogueEditionView::default(),
        downloads: Vec::new(),
        models_folder: ModelsFolderView {
            path: String::new(),
            usual: true,
            there: true,
            missing: Vec::new(),
            moving: None,
            problem: None,
        },
        in_house: Vec::new(),
        pairing: None,
        paired_by_code: None,
        port: PortView::closed(String::new()),
        problems: Vec::new(),
        settings: settings_view(&nook_store::Settings::default()),
    }
}
