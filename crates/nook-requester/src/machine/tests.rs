//! The asking side by lists of events: no runtime, no network, no clock.

mod awaiting;
mod readiness;

use std::collections::BTreeSet;
use std::time::Duration;

use nook_base::ErrorCode;
use nook_base::clock;
use nook_base::limits::ADVERT_LIFE;
use nook_model::ModelFile;
use nook_plan::{Basis, Place, Prediction, Share};
use nook_wire::{Advert, PlaceState, ShardAdvert};
use tokio::sync::mpsc;

use super::*;
use crate::choice::outlook::{Outlook, Present, Wanted};
use crate::machine::probing::Asked;
use nook_api::{Asker, Prompt, REPLIES_WAITING_MAX, Reach, Sampling};
use nook_resources::adverts::Heard;
use nook_resources::file_place::FilePlace;
use nook_resources::testing::no_sandboxes;

const MODEL: ModelDigest = ModelDigest([1; 32]);
const STUDY: PeerId = PeerId([2; 32]);

/// A device with the built-in model, and what it sees of the household.
struct Scene {
    requester: Requester,
    me: Me,
    settings: Settings,
    models: Vec<Entry>,
    book: AdvertBook,
    paired: BTreeSet<PeerId>,
    lent: Option<LentLayers>,
    now: Instant,
    jobs: Vec<ReplyJob>,
    rounds: Vec<Round>,
    embeddings: Vec<EmbedMark>,
    answers: Vec<oneshot::Receiver<Result<Reply, nook_api::NodeError>>>,
    // Models that made room would tell what they left here.
    _left: mpsc::Receiver<(ModelDigest, Unwanted)>,
}

impl Scene {
    fn new() -> Self {
        let (left, receiver) = mpsc::channel(1);
        let now = clock::now();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf");
        let listed =
            Listed { name: "ember".to_owned(), digest: MODEL, path: FilePlace::new(path.into()) };
        let file = ModelFile::open(path.as_ref()).expect("the built-in model");
        Self {
            requester: Requester::new(OpenModelCache::new(left, no_sandboxes()), now),
            me: Me { id: PeerId([0; 32]), name: "Kitchen".to_owned() },
            settings: Settings::default(),
            models: vec![Entry {
                listed,
                file,
                built_in: true,
                added: 0,
                owned: false,
                ends_only: false,
            }],
            book: AdvertBook::default(),
            paired: [STUDY].into(),
            lent: None,
            now,
            jobs: Vec::new(),
            rounds: Vec::new(),
            embeddings: Vec::new(),
            answers: Vec::new(),
            _left: receiver,
        }
    }

    /// One event; its effects in a line.
    fn on(&mut self, event: impl Into<Event>) -> String {
        let Self { requester, me, settings, models, book, paired, lent, now, .. } = self;
        let is_paired = |peer: PeerId| paired.contains(&peer);
        let memory_free = u64::MAX;
        let effects = requester.on(
            event.into(),
            &Surroundings {
                now: *now,
                unix: 1_000,
                today: 20_000,
                me,
                settings,
                models,
                book,
                heard: &book.heard,
                is_paired: &is_paired,
                lending: lent.as_ref().map(|lent| Lending {
                    lent: std::slice::from_ref(lent),
                    is_at_rest: true,
                    memory_free,
                }),
            },
        );
        effects.into_iter().map(|effect| self.line(effect)).collect::<Vec<_>>().join(", ")
    }

    fn line(&mut self, effect: Effect) -> String {
        match effect {
            Effect::Start(Task(Work::Reply(job))) => {
                self.jobs.push(*job);
                "reply".to_owned()
            }
            Effect::Start(Task(Work::Probe(round))) => {
                self.rounds.push(*round);
                "probe".to_owned()
            }
            Effect::Start(Task(Work::Count { .. })) => "count".to_owned(),
            Effect::Start(Task(Work::Embed { mark, .. })) => {
                self.embeddings.push(mark);
                "embed".to_owned()
            }
            Effect::Start(Task(Work::LookAtPlacement(look))) => {
                format!("look at placement with {} movable", look.movable.len())
            }
            Effect::Wake(peer) => format!("wake {}", peer.0[0]),
            Effect::Take { layers, .. } => format!("take {layers:?}"),
            Effect::AskToHold(_, wish) if wish.layers.is_empty() => "give back".to_owned(),
            Effect::AskToHold(_, wish) => format!("ask to hold {}", wish.layers),
            Effect::Drop(peer, _) => format!("drop at {peer:?}"),
            Effect::PublishBook => "publish".to_owned(),
            Effect::Advertise => "advertise".to_owned(),
            Effect::UsesLent(_) => "uses lent".to_owned(),
            Effect::ReplyOver => "over".to_owned(),
            Effect::Keep(measured) => format!("keep {} ways", measured.ways.len()),
            Effect::KeepNow(_) => "keep now".to_owned(),
        }
    }

    fn ask(&mut self, model: ModelDigest) -> String {
        self.ask_as(Asker::Program, model)
    }

    fn ask_as(&mut self, asker: Asker, model: ModelDigest) -> String {
        let (answer, receiver) = oneshot::channel();
        self.answers.push(receiver);
        let request = GenerateRequest {
            model: "ember".to_owned(),
            prompt: Prompt::Text("Once".to_owned().into()),
            tokens_max: None,
            sampling: Sampling::default(),
            stop: Vec::new(),
            thinking: nook_api::Thinking::AsUsual,
            activation_dtype: None,
            reach: Reach::House,
        };
        let request = Box::new(request);
        self.on(Event::Generate { asker, model, request, conversation: None, placed: None, answer })
    }

    /// What the reply with this number was refused with.
    fn refusal(&mut self, number: usize) -> Option<ErrorCode> {
        self.answers[number].try_recv().ok()?.err().map(|error| error.code)
    }

    /// Seconds pass, with a tick for each; what happened in them.
    fn wait(&mut self, seconds: u64) -> Vec<String> {
        let mut happened = Vec::new();
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            happened.push(self.on(Event::Tick));
        }
        happened.retain(|line| !line.is_empty());
        happened
    }

    /// The study offers the middle of the model.
    fn study_offers(&mut self) {
        let shard = ShardAdvert {
            model: MODEL,
            layers: LayerRange::with_len(1, 4),
            held: LayerRange::with_len(1, 0),
            decode_us_per_layer: None,
            prefill_us_per_layer_token: None,
        };
        let advert = Advert {
            sharing: true,
            shards: vec![shard],
            streams_free: 2,
            queue_depth: 0,
            memory_free_bytes: 1 << 30,
            fetch_bytes: 0,
        };
        let life = 1_000 * ADVERT_LIFE;
        let heard = Heard { advert, at: self.now, life, app_version: "1".to_owned() };
        self.book.heard.insert(STUDY, heard);
        self.book.names.insert(STUDY, "Study".to_owned());
        self.book.keepers.insert(STUDY);
    }

    fn troubles(&self) -> Vec<String> {
        let is_paired = |peer: PeerId| self.paired.contains(&peer);
        let around = Surroundings {
            now: self.now,
            unix: 1_000,
            today: 20_000,
            me: &self.me,
            settings: &self.settings,
            models: &self.models,
            book: &self.book,
            heard: &self.book.heard,
            is_paired: &is_paired,
            lending: None,
        };
        let troubles = self.requester.troubles(&around);
        troubles.into_iter().map(|trouble| trouble.sentence).collect()
    }
}

#[test]
fn replies_wait_for_a_place_begin_in_order_and_beyond_the_queue_are_refused() {
    let mut scene = Scene::new();
    scene.settings.inference.max_concurrent_pipelines = 1;
    assert_eq!(scene.ask(MODEL), "reply");
    for _ in 0..REPLIES_WAITING_MAX {
        assert_eq!(scene.ask(MODEL), "");
    }
    assert_eq!(scene.ask(MODEL), "");
    assert_eq!(scene.refusal(1 + REPLIES_WAITING_MAX), Some(ErrorCode::Busy));
    assert_eq!(scene.requester.replies_running(), 1);
    // The first of those that wait has left; the second begins when the place is free.
    scene.answers.remove(1);
    assert_eq!(scene.on(Said::ReplyEnded), "over", "its place is still taken");
    scene.jobs.clear();
    assert_eq!(scene.on(Said::ReplyEnded), "reply, over");
    assert_eq!(scene.requester.replies_waiting(), REPLIES_WAITING_MAX - 2);
    // A task that was lost tells nobody: the next tick finds its place free.
    scene.jobs.clear();
    assert_eq!(scene.wait(1), ["reply"]);
}

#[test]
fn the_owner_goes_before_programs_and_is_refused_nothing_that_they_took() {
    let mut scene = Scene::new();
    scene.settings.inference.max_concurrent_pipelines = 2;
    for _ in 0..2 {
        assert_eq!(scene.ask(MODEL), "reply");
    }
    for _ in 0..REPLIES_WAITING_MAX {
        assert_eq!(scene.ask(MODEL), "");
    }
    assert_eq!(scene.ask(MODEL), "");
    assert_eq!(scene.refusal(2 + REPLIES_WAITING_MAX), Some(ErrorCode::Busy));
    // Programs have all places and the whole queue; the owner has one more of each.
    assert_eq!(scene.ask_as(Asker::Owner, MODEL), "reply");
    assert_eq!(scene.ask_as(Asker::Owner, MODEL), "", "one more, not many");
    assert_eq!(scene.requester.replies_running(), 3);
    // Two have ended, and one place is free: the owner waits for none of the sixteen.
    let last = scene.jobs.pop();
    scene.jobs.clear();
    assert_eq!(scene.on(Said::ReplyEnded), "reply, over");
    drop(last);
    assert_eq!(scene.requester.replies_waiting(), REPLIES_WAITING_MAX);
    // It was the owner's that began: once the programs have left, nothing waits.
    scene.answers.drain(..scene.answers.len() - 2);
    scene.jobs.clear();
    assert_eq!(scene.on(Said::ReplyEnded), "over");
}

#[test]
fn a_model_that_is_gone_is_refused_also_when_its_request_has_waited() {
    let mut scene = Scene::new();
    scene.settings.inference.max_concurrent_pipelines = 1;
    assert_eq!(scene.ask(ModelDigest([9; 32])), "");
    assert_eq!(scene.refusal(0), Some(ErrorCode::NotFound));
    assert_eq!(scene.ask(MODEL), "reply");
    assert_eq!(scene.ask(MODEL), "");
    scene.models.clear();
    scene.jobs.clear();
    assert_eq!(scene.on(Said::ReplyEnded), "over");
    assert_eq!(scene.refusal(2), Some(ErrorCode::NotFound));
}

#[test]
fn devices_are_measured_when_nobody_waits_and_a_reply_ends_that_at_once() {
    let mut scene = Scene::new();
    assert_eq!(scene.wait(5), Vec::<String>::new(), "nobody has asked, and nobody is there");
    assert_eq!(scene.ask(MODEL), "reply");
    scene.study_offers();
    assert_eq!(scene.wait(3), Vec::<String>::new(), "a reply is under way");
    scene.jobs.clear();
    let idle = scene.wait(3);
    assert!(idle.iter().any(|line| line.contains("probe")), "{idle:?}");
    let until = scene.rounds[0].until.clone();
    assert!(!until.is_cancelled());
    assert_eq!(scene.ask(MODEL), "reply");
    assert!(until.is_cancelled(), "the reply has the devices to itself");
}

#[test]
fn a_device_that_lends_measures_itself_once_and_stops_when_a_guest_comes() {
    let mut scene = Scene::new();
    scene.lent = Some(LentLayers { model: MODEL, layers: LayerRange::with_len(1, 4) });
    assert_eq!(scene.wait(3), ["uses lent, probe"]);
    assert_eq!(scene.on(Event::Lending), "");
    assert!(scene.rounds[0].until.is_cancelled());
    let number = scene.rounds[0].number;
    let measured = Probed::Device(Place::Local, MODEL, Asked::Measured);
    assert_eq!(scene.on(Said::Probed(measured)), "");
    assert_eq!(scene.on(Said::Probed(Probed::Round(number))), "advertise");
    assert_eq!(scene.wait(10), Vec::<String>::new(), "not again within the hour");
}

#[test]
fn a_helper_that_is_lost_twice_is_left_out_for_a_while_and_the_owner_is_told() {
    let mut scene = Scene::new();
    scene.study_offers();
    assert_eq!(scene.on(Said::Noted(Note::Failed(STUDY))), "publish");
    assert!(scene.requester.left_out(scene.now).is_empty());
    assert_eq!(scene.on(Said::Noted(Note::Failed(STUDY))), "publish");
    assert_eq!(scene.requester.left_out(scene.now), [STUDY].into());
    scene.book.left_out = scene.requester.left_out(scene.now);
    scene.book.suspected = scene.requester.suspected(scene.now);
    let troubles = scene.troubles();
    assert!(troubles[0].starts_with("Study failed repeatedly"), "{troubles:?}");
    // When its time is over, the book is published without it.
    let until_back = scene.wait(125);
    assert!(until_back.contains(&"publish".to_owned()), "{until_back:?}");
    assert!(scene.requester.left_out(scene.now).is_empty());
    // A device that was unpaired meanwhile is remembered no more, and no late word brings it back.
    scene.paired.clear();
    scene.on(Event::Unpaired(STUDY));
    assert_eq!(scene.on(Said::Noted(Note::Failed(STUDY))), "");
    assert_eq!(scene.troubles(), Vec::<String>::new());
}

#[test]
fn layers_are_asked_for_when_that_was_better_three_times_and_given_back_when_not_needed() {
    let mut scene = Scene::new();
    scene.study_offers();
    assert_eq!(scene.ask(MODEL), "reply");
    scene.jobs.clear();
    let looks = scene.wait(1);
    assert_eq!(looks, ["look at placement with 1 movable"]);
    let prediction = |seconds| Prediction {
        first_token: Duration::ZERO,
        load: Duration::ZERO,
        token: Duration::from_millis(10),
        total: Duration::from_secs(seconds),
        resumed: 0,
        basis: Basis::Measured,
    };
    let outlook = |shares: Vec<Share>| {
        let wanted = Wanted { shares, prediction: prediction(10), moving: Duration::ZERO };
        let present = Present::Predicted(prediction(20));
        Said::Outlook(
            MODEL,
            Some(Box::new(Outlook { present, wanted: Some(wanted), lacking: Vec::new() })),
        )
    };
    let layers = LayerRange::with_len(1, 4);
    let at_study = || outlook(vec![Share { place: Place::Peer(STUDY), layers }]);
    assert_eq!(scene.on(at_study()), "");
    assert_eq!(scene.on(at_study()), "");
    assert_eq!(scene.on(at_study()), format!("ask to hold {layers}"));
    let placed = |state| Event::Placed(STUDY, Placed { model: MODEL, layers, state });
    assert_eq!(scene.on(placed(PlaceState::Held)), "");
    // Now everything is better at home.
    let home = || outlook(vec![Share { place: Place::Local, layers: LayerRange::all(6) }]);
    let asked: Vec<String> = (0..3).map(|_| scene.on(home())).collect();
    assert_eq!(asked, ["", "", ""], "it is to be measured first");
    scene.now += Duration::from_secs(60);
    let asked: Vec<String> = (0..3).map(|_| scene.on(home())).collect();
    assert_eq!(asked, ["", "", "give back"]);
}

#[test]
fn what_was_measured_is_kept_from_time_to_time_and_when_the_node_leaves() {
    let mut scene = Scene::new();
    assert_eq!(scene.on(Event::Leave), "", "nothing is new");
    let opened = || Note::Opened {
        place: Place::Peer(STUDY),
        model: MODEL,
        bytes: 1 << 20,
        took: Duration::from_millis(10),
    };
    scene.on(Said::Noted(opened()));
    assert_eq!(scene.wait(59), Vec::<String>::new());
    assert_eq!(scene.wait(2).len(), 1);
    assert_eq!(scene.wait(120), Vec::<String>::new(), "nothing is new since");
    scene.on(Said::Noted(opened()));
    assert_eq!(scene.on(Event::Leave), "keep now");
}

#[test]
fn what_a_device_would_run_whole_is_void_when_its_link_goes() {
    let mut scene = Scene::new();
    let offer = nook_wire::OffloadOffer {
        model: MODEL,
        ends_us: None,
        ends_held: false,
        load_kb_per_s: None,
    };
    let offers = OffloadOffers { offers: vec![offer] };
    assert_eq!(scene.on(Event::OffloadOffers(STUDY, offers)), "publish");
    assert!(scene.requester.whole_offers(STUDY).is_some());
    assert_eq!(scene.on(Event::LinkChanged(STUDY)), "");
    assert!(scene.requester.whole_offers(STUDY).is_none());
}

#[test]
fn vectors_are_made_of_a_model_that_is_here_whole_and_refused_of_its_ends() {
    let mut scene = Scene::new();
    let ask = |scene: &mut Scene| {
        let (answer, mut waiting) = oneshot::channel();
        let request = EmbedRequest { model: "ember".to_owned(), inputs: Vec::new() };
        let done = scene.on(Event::Embed { model: MODEL, request, answer });
        (done, waiting.try_recv().ok().and_then(Result::err))
    };
    assert_eq!(ask(&mut scene).0, "embed");
    scene.models[0].ends_only = true;
    let (done, refused) = ask(&mut scene);
    assert_eq!(done, "");
    assert!(refused.expect("a reason").sentence.contains("nook models copy ember"));
}

#[test]
fn nothing_that_waits_keeps_the_file_of_a_deleted_model_open() {
    let mut scene = Scene::new();
    scene.study_offers();
    assert_eq!(scene.ask(MODEL), "reply");
    scene.jobs.clear();
    assert_eq!(scene.wait(1), ["look at placement with 1 movable"]);
    assert_eq!(scene.requester.model_in_use(scene.now), Some(MODEL));
    scene.models.clear();
    scene.on(Event::ModelsChanged);
    assert_eq!(scene.requester.model_in_use(scene.now), None);
    assert_eq!(scene.wait(10), Vec::<String>::new(), "neither placed nor measured");
}

#[test]
fn vectors_are_work_under_way_and_take_no_place_of_a_reply() {
    let mut scene = Scene::new();
    scene.settings.inference.max_concurrent_pipelines = 1;
    let request = EmbedRequest { model: "ember".to_owned(), inputs: Vec::new() };
    let (answer, _waiting) = oneshot::channel();
    assert_eq!(scene.on(Event::Embed { model: MODEL, request, answer }), "embed");
    let running = |scene: &Scene| {
        let requester = &scene.requester;
        (requester.work_running(), requester.replies_running())
    };
    assert_eq!(running(&scene), (1, 0));
    assert_eq!(scene.ask(MODEL), "reply", "the only place is free");
    assert_eq!(running(&scene), (2, 1));
    scene.embeddings.clear();
    assert_eq!(running(&scene), (1, 1));
}
