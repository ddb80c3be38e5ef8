//! Layers over real links: what travels, who is blamed, and what an end leaves. The devices that
//! give are played by the test.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;

use nook_base::tasks::Tasks;
use nook_fetch::{CopyOrder, Folder, HouseSource, Hubs, Limits, Pin, Progress, Room, Seats};
use nook_link::{Identity, KnownPeer, Link, LinkConfig, LinkEvent, Links, LoopbackPolicy};
use nook_model::ModelFile;
use nook_mux::{Call, PingPolicy};
use nook_trust::{DeviceKey, Gate, GatePolicy, TrustLevel};
use nook_wire::{
    Document, HaveModel, Hello, Message, PIECE_BYTES_MAX, Piece, ProtocolRange, Want, chunks_of,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::copies::{Giver, Holder};
use crate::partial::PARTS_BYTES_MAX;
use crate::parts_here::PartsHere;
use crate::taking::Taker;

const STORIES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/stories260K/stories260K-q8_0.gguf");

/// Questions that a test may look at; further ones are dropped.
const QUESTIONS_MAX: usize = 256;

/// How a device gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gives {
    /// What it is asked for.
    Truth,
    /// As [`Gives::Truth`], but the byte at this place of the file is another one.
    Flipped(u64),
    /// A manifest with another length of the file, which no digest covers.
    WrongLength,
    /// As [`Gives::Truth`] up to this byte of the file, and then nothing more.
    Until(u64),
}

/// A disk with room.
#[derive(Debug)]
struct Free;

impl Room for Free {
    fn free(&self, _: &Path) -> io::Result<u64> {
        Ok(1 << 40)
    }
}

/// The model that is taken.
struct Model {
    digest: ModelDigest,
    bytes: Vec<u8>,
    manifest: Vec<u8>,
    file: ModelFile,
}

/// A device with links.
struct Device {
    id: PeerId,
    links: Links,
    events: mpsc::Receiver<LinkEvent>,
    tasks: Tasks,
}

/// A device that gives, and what it was asked for.
struct Played {
    id: PeerId,
    asked: Arc<Mutex<Vec<Want>>>,
    /// Hears of each question.
    questions: mpsc::Receiver<Want>,
    link: Link,
    tasks: Tasks,
}

/// The device that takes, and those that give.
struct Scene {
    model: Model,
    folder: Folder,
    _home: tempfile::TempDir,
    givers: Vec<Played>,
    tasks: Tasks,
    budget: PartsBudget,
    stop: CancellationToken,
}

impl Model {
    fn stories() -> Self {
        let path = Path::new(STORIES);
        let manifest = Manifest::at(path).unwrap();
        let bytes = std::fs::read(path).unwrap();
        let file = ModelFile::open(path).unwrap();
        Self { digest: manifest.digest(), bytes, manifest: manifest.to_bytes(), file }
    }

    fn ranges(&self, part: ModelPart) -> Vec<(usize, usize)> {
        let ranges = self.file.ranges_of(&part).into_iter();
        ranges.map(|it| (it.start as usize, (it.start + it.bytes) as usize)).collect()
    }

    /// A byte in the middle of what `part` needs.
    fn byte_of(&self, part: ModelPart) -> u64 {
        let ranges = self.ranges(part);
        let (start, end) = ranges[ranges.len() / 2];
        (start + end) as u64 / 2
    }
}

impl Device {
    fn start() -> Self {
        let key = DeviceKey::generate().unwrap();
        let (id, tasks) = (key.peer_id(), Tasks::new());
        let config = LinkConfig {
            identity: Identity::new(key).unwrap(),
            listen: vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)],
            hello: Hello {
                protocol: ProtocolRange::SPOKEN,
                app_version: "0.1.0".to_owned(),
                device_name: "device".to_owned(),
                listen_port: 0,
            },
            loopback: LoopbackPolicy::Allow,
            ping: PingPolicy::LINK,
            calls_max: 8,
        };
        let (links, events) = Links::start(config, &tasks).unwrap();
        Self { id, links, events, tasks }
    }

    fn known(&self) -> KnownPeer {
        KnownPeer { id: self.id, addresses: vec![self.links.local_addr().unwrap()] }
    }
}

/// Serves every call as `gives` says.
async fn play(
    mut events: mpsc::Receiver<LinkEvent>,
    gives: Gives,
    bytes: Arc<Vec<u8>>,
    manifest: Arc<Vec<u8>>,
    told: (Arc<Mutex<Vec<Want>>>, mpsc::Sender<Want>),
    tasks: Tasks,
) {
    while let Some(event) = events.recv().await {
        let LinkEvent::IncomingCall { mut call, .. } = event else { continue };
        let (bytes, manifest, told) = (bytes.clone(), manifest.clone(), told.clone());
        tasks.spawn_until_cancelled("call", async move {
            while let Ok(Message::Want(want)) = call.recv().await {
                told.0.lock().unwrap().push(want);
                let _ = told.1.try_send(want);
                let document = match want.document {
                    Document::File => &bytes,
                    Document::Manifest => &manifest,
                };
                if !answer(&mut call, want, document, gives).await {
                    return;
                }
            }
        });
    }
}

/// Sends what is asked for; whether the call goes on.
async fn answer(call: &mut Call<Message>, want: Want, document: &[u8], gives: Gives) -> bool {
    let range = want.range(document.len() as u64).expect("the taker asks for what is there");
    let (mut at, end) = (range.start, range.end);
    while at < end {
        let next = (at + u64::from(PIECE_BYTES_MAX)).min(end);
        let mut piece = document[at as usize..next as usize].to_vec();
        match (gives, want.document) {
            (Gives::Flipped(place), Document::File) if (at..next).contains(&place) => {
                piece[(place - at) as usize] ^= 1;
            }
            (Gives::WrongLength, Document::Manifest) if (at..next).contains(&20) => {
                // In the length of the file: 4 GiB more.
                piece[(20 - at) as usize] ^= 1;
            }
            (Gives::Until(place), Document::File) if next > place && at > 0 => {
                // It says nothing more, and keeps the call.
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        let head = Piece { from: at, bytes: piece.len() as u32 };
        if call.send(Message::Piece(head)).await.is_err() {
            return false;
        }
        for chunk in chunks_of(piece.into()) {
            if call.send(Message::Chunk(chunk)).await.is_err() {
                return false;
            }
        }
        at = next;
    }
    true
}

impl Scene {
    /// A device that takes, linked with one that gives for each of `gives`.
    async fn new(gives: impl IntoIterator<Item = Gives>) -> Self {
        let model = Model::stories();
        let (bytes, manifest) = (Arc::new(model.bytes.clone()), Arc::new(model.manifest.clone()));
        let mut taker = Device::start();
        let devices: Vec<_> = gives.into_iter().map(|gives| (Device::start(), gives)).collect();
        taker.links.set_peers(devices.iter().map(|(device, _)| device.known()).collect());
        let mut playing = Vec::new();
        for (device, gives) in devices {
            device.links.set_peers(vec![taker.known()]);
            let asked = Arc::<Mutex<Vec<Want>>>::default();
            let (tell, questions) = mpsc::channel(QUESTIONS_MAX);
            let told = (asked.clone(), tell);
            let (id, tasks) = (device.id, device.tasks.clone());
            tasks.spawn_until_cancelled(
                "play",
                play(device.events, gives, bytes.clone(), manifest.clone(), told, tasks.clone()),
            );
            playing.push((id, asked, questions, tasks, device.links));
        }
        let mut up = Vec::new();
        while up.len() < playing.len() {
            if let Some(LinkEvent::Up(link)) = taker.events.recv().await {
                up.push(link);
            }
        }
        // The links wait for whoever reads their events.
        let mut events = taker.events;
        taker
            .tasks
            .spawn_until_cancelled("events", async move { while events.recv().await.is_some() {} });
        let givers = playing
            .into_iter()
            .map(|(id, asked, questions, tasks, _)| {
                let link = up.iter().find(|link| link.peer() == id).unwrap().clone();
                Played { id, asked, questions, link, tasks }
            })
            .collect();
        let home = tempfile::tempdir().unwrap();
        Self {
            model,
            folder: Folder::at(home.path().join("partial")),
            _home: home,
            givers,
            tasks: taker.tasks,
            budget: PartsBudget::new(PARTS_BYTES_MAX),
            stop: CancellationToken::new(),
        }
    }

    /// Those that give, for whoever takes.
    fn holders(&self) -> watch::Receiver<Arc<Holders>> {
        let gate = Gate::new(
            GatePolicy::DEFAULT,
            self.givers.iter().map(|giver| (giver.id, TrustLevel::Trusted)),
        );
        let have = HaveModel {
            model: self.model.digest,
            bytes: self.model.bytes.len() as u64,
            layers: 5,
            name: "stories".to_owned(),
        };
        let holder = |(number, giver): (usize, &Played)| {
            let pass = gate.admit(giver.id).unwrap();
            let name = format!("device {number}");
            let giver_of = Giver { pass, link: giver.link.clone(), name };
            (giver.id, Holder { giver: giver_of, models: vec![have.clone()] })
        };
        let holders: Holders = self.givers.iter().enumerate().map(holder).collect();
        // Its sender is gone, so nobody waits for more devices.
        watch::channel(Arc::new(holders)).1
    }

    fn job(&self, parts: &[ModelPart]) -> PartJob {
        let holders = self.holders();
        let fetcher = Fetcher::new(Hubs::usual(), Limits::USUAL, Arc::new(Free));
        let tell = watch::channel(Progress::default()).0;
        let (folder, stop) = (self.folder.clone(), self.stop.clone());
        PartJob {
            model: self.model.digest,
            parts: parts.to_vec(),
            seat: Seats::new(1).take().unwrap(),
            transfer: Transfer { fetcher, folder, stop, tell },
            budget: self.budget.clone(),
            holders,
            first: self.givers.first().map(|giver| giver.id).into_iter().collect(),
            traffic: Traffic::default(),
        }
    }

    async fn take(&self, parts: &[ModelPart]) -> PartEnd {
        self.job(parts).run().await
    }

    /// Copies the whole model beside what lies here of it. Returns the file, and who alone has
    /// brought the rest.
    async fn copy(&self) -> (Result<Vec<u8>, FetchError>, Option<PeerId>) {
        let model = self.model.digest;
        let place = PartialPlace::new(self.folder.clone(), model);
        let holders = self.holders();
        let mut taker =
            Taker::new(model, holders, None, Traffic::default()).with(PartsHere::look(&place));
        let fetcher = Fetcher::new(Hubs::usual(), Limits::USUAL, Arc::new(Free));
        let order = CopyOrder { source: HouseSource::new(model, "stories"), pin: Pin::default() };
        let folder = Folder::at(self.folder.path().with_file_name("downloads"));
        let (seat, tell) = (Seats::new(1).take().unwrap(), watch::channel(Progress::default()).0);
        let copied = fetcher.copy(&folder, &order, &mut taker, seat, &self.stop, &tell).await;
        (copied.map(|it| std::fs::read(it.path).unwrap()), taker.only_device())
    }

    /// What a device was asked for since the last time.
    fn asked(&self, giver: usize) -> Vec<Want> {
        std::mem::take(&mut self.givers[giver].asked.lock().unwrap())
    }

    /// Holds the file against the whole one: header and `parts` are here, byte by byte.
    fn check(&self, end: &PartEnd, parts: &[ModelPart]) {
        let partial = end.partial.as_ref().expect("something is here");
        let found = std::fs::read(&partial.path).unwrap();
        assert_eq!(found.len(), self.model.bytes.len());
        for part in parts {
            assert!(partial.file.has_part(part), "{part:?}");
            for (start, end) in self.model.ranges(*part) {
                assert!(found[start..end] == self.model.bytes[start..end], "{start}..{end}");
            }
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.tasks.cancel();
        self.givers.iter().for_each(|giver| giver.tasks.cancel());
    }
}

fn layers(start: u32, end: u32) -> ModelPart {
    ModelPart::inner(LayerRange::new(start, end).unwrap())
}

fn bytes_of(asked: &[Want], document: Document) -> u64 {
    asked.iter().filter(|want| want.document == document).map(|want| want.bytes).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_layers_travel_and_a_second_wish_takes_only_what_is_missing() {
    let scene = Scene::new([Gives::Truth]).await;
    let end = scene.take(&[layers(1, 3)]).await;
    assert_eq!(end.failure, None);
    scene.check(&end, &[layers(1, 3)]);
    let partial = end.partial.as_ref().unwrap();
    assert!(!partial.file.has_part(&layers(0, 1)) && !partial.file.has_part(&ModelPart::whole(5)));
    assert_eq!(partial.file.layers_present(), [LayerRange::new(1, 3).unwrap()]);
    let asked = scene.asked(0);
    let header = scene.model.file.header().data_start();
    let tensors: u64 = scene.model.file.ranges_of(&layers(1, 3)).iter().map(|it| it.bytes).sum();
    assert_eq!(bytes_of(&asked, Document::Manifest), scene.model.manifest.len() as u64);
    // What lies between two tensors travels with them, and is never more than their alignment.
    let file = bytes_of(&asked, Document::File);
    let gaps = file.checked_sub(header + tensors).expect("all of it came");
    assert!(gaps < 32 * 64, "{gaps} bytes more than the layers");
    assert_eq!(partial.bytes, header + tensors);

    let end = scene.take(&[layers(1, 3), layers(2, 4)]).await;
    assert_eq!(end.failure, None);
    scene.check(&end, &[layers(1, 4)]);
    let asked = scene.asked(0);
    assert_eq!(bytes_of(&asked, Document::Manifest), 0, "it was kept");
    let fourth: u64 = scene.model.file.ranges_of(&layers(3, 4)).iter().map(|it| it.bytes).sum();
    assert!(bytes_of(&asked, Document::File) < fourth + 32 * 64);
    // Everything is here: nobody is asked.
    assert_eq!(scene.take(&[layers(1, 4)]).await.failure, None);
    assert_eq!(scene.asked(0), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_is_blamed_on_its_device_and_another_one_brings_the_rest() {
    let wrong = Model::stories().byte_of(layers(2, 3));
    let scene = Scene::new([Gives::Flipped(wrong), Gives::Truth]).await;
    let end = scene.take(&[layers(1, 4)]).await;
    assert_eq!(end.failure, None);
    scene.check(&end, &[layers(1, 4)]);
    assert_eq!(end.liars, [scene.givers[0].id].into());
    let asked = scene.asked(1);
    assert!(!asked.is_empty() && bytes_of(&asked, Document::Manifest) == 0);
    assert!(asked.iter().all(|want| want.from + want.bytes > wrong), "the rest alone: {asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_device_is_named_when_it_sends_wrong_bytes_and_what_was_right_stays() {
    let wrong = Model::stories().byte_of(layers(3, 4));
    let scene = Scene::new([Gives::Flipped(wrong)]).await;
    let end = scene.take(&[layers(1, 4)]).await;
    assert_eq!(end.failure, Some(PartFailure::WrongBytes { device: "device 0".to_owned() }));
    assert_eq!(end.liars, [scene.givers[0].id].into());
    scene.check(&end, &[layers(1, 3)]);
    assert!(!end.partial.unwrap().file.has_part(&layers(3, 4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_with_a_wrong_length_of_the_file_blames_who_gave_it() {
    let scene = Scene::new([Gives::WrongLength, Gives::Truth]).await;
    let end = scene.take(&[layers(0, 1)]).await;
    assert_eq!(end.failure, None);
    scene.check(&end, &[layers(0, 1)]);
    assert_eq!(end.liars, [scene.givers[0].id].into());
    let scene = Scene::new([Gives::WrongLength]).await;
    let end = scene.take(&[layers(0, 1)]).await;
    assert_eq!(end.failure, Some(PartFailure::WrongBytes { device: "device 0".to_owned() }));
    assert!(end.partial.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_the_middle_keeps_what_was_checked_for_the_next_time() {
    let middle = Model::stories().byte_of(layers(3, 4));
    let mut scene = Scene::new([Gives::Until(middle)]).await;
    let job = scene.job(&[layers(1, 2)]);
    assert_eq!(job.run().await.failure, None, "these lie before the byte that never comes");
    scene.asked(0);
    while scene.givers[0].questions.try_recv().is_ok() {}
    let (job, stop) = (scene.job(&[layers(1, 4)]), scene.stop.clone());
    let (tell, ended) = oneshot::channel();
    scene.tasks.spawn("job", async move { drop(tell.send(job.run().await)) });
    // It was asked, and says nothing.
    scene.givers[0].questions.recv().await.unwrap();
    stop.cancel();
    let end = ended.await.unwrap();
    assert_eq!(end.failure, Some(PartFailure::Stopped));
    assert_eq!(end.liars, BTreeSet::new());
    scene.check(&end, &[layers(1, 2)]);
    assert_eq!(scene.folder.keys().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_the_cap_or_not_in_the_model_is_not_taken() {
    let scene = Scene::new([Gives::Truth]).await;
    scene.budget.set_most(1000);
    let end = scene.take(&[layers(1, 3)]).await;
    let tensors: u64 = scene.model.file.ranges_of(&layers(1, 3)).iter().map(|it| it.bytes).sum();
    let needed = scene.model.file.header().data_start() + tensors;
    assert_eq!(end.failure, Some(PartFailure::CapReached { needed, most: 1000 }));
    scene.budget.set_most(needed);
    assert_eq!(scene.take(&[layers(1, 3)]).await.failure, None);
    let end = scene.take(&[layers(4, 9)]).await;
    assert_eq!(end.failure, Some(PartFailure::NoSuchLayers { layers: 5 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_device_that_gives_it_nothing_is_made() {
    let scene = Scene::new([]).await;
    let end = scene.take(&[layers(1, 3)]).await;
    assert_eq!(end.failure, Some(PartFailure::NoHolder));
    assert!(end.partial.is_none());
    assert!(!PartialPlace::new(scene.folder.clone(), scene.model.digest).path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_header_or_a_lost_record_begins_anew_and_nothing_of_it_looks_whole() {
    let scene = Scene::new([Gives::Truth]).await;
    let path = scene.take(&[layers(1, 2)]).await.partial.unwrap().path;
    let record = nook_model::Presence::path_of(&path);
    std::fs::remove_file(&record).unwrap();
    assert_eq!(crate::partial::scan(&scene.folder).len(), 0, "without a record it is nothing");
    scene.asked(0);
    let end = scene.take(&[layers(2, 3)]).await;
    assert_eq!(end.failure, None);
    scene.check(&end, &[layers(2, 3)]);
    assert!(!end.partial.unwrap().file.has_part(&layers(1, 2)), "nobody vouches for it any more");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let end = scene.take(&[layers(2, 3)]).await;
    assert_eq!(end.failure, None);
    scene.check(&end, &[layers(2, 3)]);
    let found = crate::partial::scan(&scene.folder);
    assert_eq!(found.iter().map(|it| it.model).collect::<Vec<_>>(), [scene.model.digest]);
    PartialPlace::new(scene.folder.clone(), scene.model.digest).discard().unwrap();
    assert_eq!(std::fs::read_dir(scene.folder.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_all_of_it_asks_for_nothing_that_lies_here() {
    let scene = Scene::new([Gives::Truth]).await;
    let end = scene.take(&[layers(1, 2), layers(3, 5)]).await;
    assert_eq!(end.failure, None);
    scene.asked(0);
    let (copied, giver) = scene.copy().await;
    assert!(copied.unwrap() == scene.model.bytes, "byte by byte");
    assert_eq!(giver, Some(scene.givers[0].id), "all that came was its");
    let asked = scene.asked(0);
    let here = end.partial.unwrap().bytes;
    let missing = scene.model.bytes.len() as u64 - here;
    let came = bytes_of(&asked, Document::File);
    assert!(asked.len() > 1 && here > missing / 2, "{} times, {here} here", asked.len());
    // The padding of a tensor whose neighbour is not here comes with that.
    assert!((missing - 32 * 64..=missing).contains(&came), "{came} of {missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_disk_has_spoilt_of_a_part_is_asked_for_again_by_a_copy() {
    let scene = Scene::new([Gives::Truth]).await;
    let path = scene.take(&[layers(1, 3)]).await.partial.unwrap().path;
    let spoilt = scene.model.byte_of(layers(2, 3));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[spoilt as usize] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    scene.asked(0);
    let (copied, _) = scene.copy().await;
    assert!(copied.unwrap() == scene.model.bytes, "byte by byte");
    let asked = scene.asked(0);
    let covers = |want: &Want| (want.from..want.from + want.bytes).contains(&spoilt);
    assert!(asked.iter().any(covers), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_wrong_bytes_for_the_rest_of_a_model_is_known_by_name() {
    let wrong = Model::stories().byte_of(layers(3, 4));
    let scene = Scene::new([Gives::Flipped(wrong)]).await;
    assert_eq!(scene.take(&[layers(1, 2)]).await.failure, None);
    let (copied, giver) = scene.copy().await;
    let copied = copied.unwrap();
    assert!(copied[wrong as usize] != scene.model.bytes[wrong as usize], "for the digest to find");
    assert_eq!(giver, Some(scene.givers[0].id));
}
