//! Starting a node: what must work before there is a house, in order.
//!
//! 1 the home and its lock, 2 settings, 3 identity, 4 who is paired, 5 models, 6 chats and keys, 7
//! links, 8 discovery, 9 the loop. What can fail without ending the node (discovery, a model whose
//! file is damaged) becomes a problem that is shown.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nook_base::tasks::Tasks;
use nook_base::{ModelDigest, PeerId, clock};
use nook_find::{DiscoveryCommand, Finder, FinderConfig, Household, Interfaces, Sighting};
use nook_link::pairing::Pairing;
use nook_link::{Identity, LinkConfig, Links, LoopbackPolicy};
use nook_mux::PingPolicy;
use nook_shard::WorkerCommand;
use nook_store::{
    AuditFile, AuditList, Chats, Home, HomeChoice, HomeError, LentDays, LentDaysFile, Measured,
    MeasuredFile, Peers, PortKeys, SettingsFile, Where,
};
use nook_trust::{DeviceKey, DeviceName};
use nook_wire::{Hello, Message, ProtocolRange};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::asked_here;
use crate::awake::Awake;
use crate::card_watch::CardWatch;
use crate::chats::{ChatBook, ChatEvent};
use crate::devices::{DeviceEvent, Devices};
use crate::fits::KnownFits;
use crate::kept_privacy::KeptPrivacy;
use crate::meters::Meters;
use crate::outbox::Outbox;
use crate::preferences::{not_changed, settings_trouble};
use crate::quiet::Quiet;
use crate::running::{self, Inboxes};
use crate::state::{OpenWindow, State};
use crate::updates::{NewVersionsHere, UpdateEvent};
use crate::waking::Looks;
use nook_api::views::{KeyPlace, PortView, Wording};
use nook_api::{INBOX_COMMANDS_MAX, NodeHandle, NodeParts, PortKeyHolder, PortSettings};
use nook_host::{Audit, Giving, Host, HostEvent, Runner as HostRunner, Tools, worker_limits};
use nook_library::{LibraryEvent, ModelLibrary, OpenError, Runner as LibraryRunner};
use nook_requester::Me;
use nook_requester::{Event, Requester, Runner};
use nook_resources::adverts::AdvertBook;
use nook_resources::open_models::OpenModelCache;
use nook_resources::prefix_cache::Unwanted;
use nook_resources::sandbox::SandboxSource;
use nook_resources::traffic::Traffic;
use nook_resources::workers::{WorkerSource, Workers};

/// Things that happened inside and wait for the loop; a task beyond them waits.
const EVENTS_MAX: usize = 256;

/// Things that happened on the lending side and wait for the loop; a task beyond them waits.
const HOST_EVENTS_MAX: usize = 256;

/// What models that made room have left and waits for the loop; the one that opens another waits.
const LEFT_MAX: usize = 8;

/// Calls that one other device may have open here at once; streams are limited apart from it.
const CALLS_MAX: usize = 64;

/// How a node is started.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The data folder; absent: the system's place for this user.
    pub home: Option<PathBuf>,
    /// How this same program is started as a worker.
    pub worker: WorkerCommand,
}

/// Why a node could not start. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The settings.
    #[error(transparent)]
    Settings(#[from] nook_store::SettingsError),
    /// The identity of this device.
    #[error(transparent)]
    Identity(#[from] nook_store::IdentityError),
    /// The list of paired devices.
    #[error(transparent)]
    Peers(#[from] nook_store::PeersError),
    /// The port's key.
    #[error(transparent)]
    PortKey(#[from] nook_store::PortKeysError),
    /// The conversations.
    #[error(transparent)]
    Chats(#[from] nook_store::ChatsError),
    /// The models, the downloads or the catalogue.
    #[error(transparent)]
    Library(#[from] OpenError),
    /// The certificate for links.
    #[error(transparent)]
    Certificate(#[from] nook_link::IdentityError),
    /// The port for other devices.
    #[error("{source}; set another [network] listen_port in settings.toml, or 0 for any free one")]
    Links {
        /// Why.
        source: nook_link::StartError,
    },
    /// A thread.
    #[error("no thread could be started: {source}")]
    Thread {
        /// Why.
        source: std::io::Error,
    },
}

impl StartError {
    /// Whether another node has the data folder: this one is not to blame.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::Home(HomeError::AlreadyRunning { .. }))
    }

    /// The same for doors that speak other languages.
    #[must_use]
    pub fn wording(&self) -> Wording {
        match self {
            Self::Home(HomeError::AlreadyRunning { data, .. }) => {
                Wording::AlreadyRuns { folder: data.display().to_string() }
            }
            Self::Settings(error) => {
                Wording::Trouble { trouble: Box::new(settings_trouble(error)) }
            }
            other => Wording::NotStarted { reason: other.to_string().into() },
        }
    }
}

/// What was read from the home, before anything runs.
struct Read {
    home: Home,
    settings: SettingsFile,
    key: DeviceKey,
    kept: Where,
    peers: Peers,
    port_keys: PortKeys,
    chats: Chats,
    library: ModelLibrary,
    giving: Giving,
    measured_file: MeasuredFile,
    measured: Measured,
    privacy: KeptPrivacy,
    lent: LentDays,
    audit: AuditList,
    updates: (NewVersionsHere, mpsc::Receiver<UpdateEvent>),
}

/// Starts a node.
pub async fn start(options: NodeOptions) -> Result<NodeHandle, StartError> {
    let choice = choice(options.home.as_deref());
    let tasks = Tasks::new();
    let lifetime = tasks.token().clone();
    let program = options.worker.program.clone();
    let read = tokio::task::spawn_blocking(move || read(&choice, &program, lifetime))
        .await
        .map_err(|error| StartError::Thread { source: std::io::Error::other(error) })??;
    let (commands, command_inbox) = mpsc::channel(INBOX_COMMANDS_MAX);
    let runtime_folder: Arc<Path> = read.home.runtime().into();
    let (state, inboxes) = assemble(read, options.worker, command_inbox, &tasks)?;
    let (view, port_keys) = (state.view.subscribe(), state.port_keys.subscribe());
    let restart = state.restart.clone();
    tasks.essential().spawn("house", running::run(state, inboxes));
    // In a thread of its own, before anybody asks: a driver that sleeps takes its time.
    tasks.spawn_until_cancelled("cards", async {
        let _ = tokio::task::spawn_blocking(nook_machine::look_for_cards).await;
    });
    let port_keys = Arc::new(move |presented: &str| {
        port_keys.borrow().holder(presented).map(|holder| match holder {
            nook_store::PortKeyHolder::Main => PortKeyHolder::Main,
            nook_store::PortKeyHolder::Named(name) => PortKeyHolder::Named(name),
        })
    });
    Ok(NodeParts { inbox: commands, view, port_keys, tasks, runtime_folder, restart }.into())
}

/// The folder where the sockets of the node at `home` lie; for whoever talks to it.
pub fn runtime_folder(home: Option<&Path>) -> Result<PathBuf, StartError> {
    Ok(Home::runtime_of(&choice(home))?)
}

/// The folder in which the node at `home` keeps everything; it may be missing.
pub fn data_folder(home: Option<&Path>) -> Result<PathBuf, StartError> {
    Ok(Home::data_of(&choice(home))?)
}

/// The process that has the home, or had it last; absent where there was none or the system does
/// not say.
#[must_use]
pub fn process_of(home: Option<&Path>) -> Option<u32> {
    Home::process_of(&choice(home))
}

/// What a window has to know before there is a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WindowChoices {
    /// The language that it spoke last, as a code such as `de`.
    pub language: Option<String>,
    /// Whether it is drawn without the graphics card.
    pub safe_graphics: bool,
}

/// Reads them from the settings of `home`. Settings that cannot be read choose nothing: the start
/// of the node says what is wrong with them.
#[must_use]
pub fn window_choices(home: Option<&Path>) -> WindowChoices {
    match SettingsFile::glance(&choice(home)) {
        Ok(settings) => {
            let nook_store::WindowSettings { language, safe_graphics, .. } = settings.window;
            WindowChoices { language: language.map(String::from), safe_graphics }
        }
        Err(error) => {
            tracing::debug!(%error, "the window's choices are not known");
            WindowChoices::default()
        }
    }
}

pub(crate) fn choice(home: Option<&Path>) -> HomeChoice {
    home.map_or(HomeChoice::Usual, |folder| HomeChoice::At(folder.to_owned()))
}

fn read(
    choice: &HomeChoice,
    program: &Path,
    lifetime: CancellationToken,
) -> Result<Read, StartError> {
    let home = Home::open(choice)?;
    let settings = SettingsFile::load(&home)?;
    let (key, kept) = nook_store::load_or_mint(&home, settings.settings().device.keyring)?;
    let peers = Peers::load(&home)?;
    let chosen = settings.settings().models.folder.as_deref();
    let traffic = Traffic::default();
    let library =
        ModelLibrary::open(&home, chosen, clock::unix_seconds(), traffic.clone(), lifetime)?;
    let port_keys = PortKeys::load_or_create(&home)?;
    let chats = Chats::open(&home)?;
    let (measured_file, measured) = crate::computing::measured(&home);
    let (lent, audit) = (asked_here::lent_days(&home), asked_here::audit(&home));
    let privacy = KeptPrivacy::read(&home);
    let (update_events, update_inbox) = mpsc::channel(EVENTS_MAX);
    let giving = Giving::new(traffic.clone()).keeping_manifests_in(library.manifests_folder());
    let updates =
        NewVersionsHere::of((home.data(), program), update_events, (giving.clone(), traffic));
    Ok(Read {
        updates: (updates, update_inbox),
        home,
        settings,
        key,
        kept,
        peers,
        port_keys,
        chats,
        library,
        giving,
        measured_file,
        measured,
        privacy,
        lent,
        audit,
    })
}

fn start_library(
    home: &Home,
    workers: &Workers,
    tasks: &Tasks,
) -> (LibraryRunner, mpsc::Receiver<LibraryEvent>) {
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    (LibraryRunner::new(home.clone(), workers.clone(), events, tasks.clone()), inbox)
}

fn start_chats(
    chats: Chats,
    tasks: &Tasks,
) -> Result<(ChatBook, mpsc::Receiver<ChatEvent>), StartError> {
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    let started = ChatBook::start(chats, events, tasks);
    Ok((started.map_err(|source| StartError::Thread { source })?, inbox))
}

fn assemble(
    read: Read,
    worker: WorkerCommand,
    commands: mpsc::Receiver<nook_api::Command>,
    tasks: &Tasks,
) -> Result<(State, Inboxes), StartError> {
    let Read { home, settings, key, kept, peers, port_keys, chats, library, .. } = read;
    let (updates, update_inbox) = read.updates;
    let me = Me { id: key.peer_id(), name: device_name(&settings) };
    let signer = Arc::new(key.clone());
    let identity = Identity::new(key)?;
    let (links, link_events) = start_links(&settings, identity.clone(), &me, tasks)?;
    let workers = start_workers(worker.clone(), &home, &settings, tasks);
    let (chats, chat_inbox) = start_chats(chats, tasks)?;
    let (device_events, device_inbox) = mpsc::channel(EVENTS_MAX);
    let book = watch::channel(Arc::new(AdvertBook::default())).0;
    let shared = Shared::of(&links, &workers, &book, worker.clone());
    let ledger = (LentDaysFile::of(&home), AuditFile::of(&home));
    let given = (read.giving, read.audit);
    let (sides, heard) = start_sides(shared, (me.id, signer), ledger, given, tasks);
    let (library_runner, library_inbox) = start_library(&home, &workers, tasks);
    let mut state = State {
        me,
        key_place: key_place(&kept),
        pairing: Arc::new(Pairing::new(identity)),
        devices: Devices::new(peers, settings.settings()),
        listen_port: links.local_addr().map_or(0, |address| address.port()),
        links,
        finder: None,
        pairing_window: OpenWindow::default(),
        book,
        outbox: Outbox::default(),
        ways: BTreeMap::new(),
        cards: CardWatch::default(),
        machine: watch::Sender::default(),
        host: Host::new(read.lent, sides.audit, tasks.token().child_token()),
        host_runner: sides.host_runner,
        looks: Looks::default(),
        awake: Awake::default(),
        rest: watch::Sender::default(),
        meters: Meters::default(),
        requester: sides.requester,
        runner: sides.runner,
        measured: read.measured_file,
        privacy: read.privacy,
        quiet: Quiet::default(),
        workers,
        library,
        library_runner,
        fits: KnownFits::default(),
        chats,
        port: closed_port(&settings),
        problems: BTreeMap::new(),
        device_events,
        view: watch::channel(Arc::new(crate::present::empty_view())).0,
        updates,
        restart: Arc::default(),
        tasks: tasks.clone(),
        home,
        settings,
        port_keys: watch::channel(port_keys).0,
    };
    let sightings = settle(&mut state, read.measured, worker);
    let inboxes = Inboxes {
        commands,
        devices: device_inbox,
        chats: chat_inbox,
        requester: heard.requester,
        host: heard.host,
        library: library_inbox,
        updates: update_inbox,
        left: heard.left,
        links: link_events,
        sightings,
    };
    Ok((state, inboxes))
}

/// What both sides work with.
struct Shared {
    links: Links,
    workers: Workers,
    book: watch::Receiver<Arc<AdvertBook>>,
    sandboxes: SandboxSource,
}

impl Shared {
    fn of(
        links: &Links,
        workers: &Workers,
        book: &watch::Sender<Arc<AdvertBook>>,
        program: WorkerCommand,
    ) -> Self {
        let (links, workers) = (links.clone(), workers.clone());
        Self { links, workers, book: book.subscribe(), sandboxes: SandboxSource::new(program) }
    }
}

/// The asking side, and what carries out the work of both.
struct Sides {
    requester: Requester,
    runner: Runner,
    host_runner: HostRunner,
    /// What other devices ask.
    audit: Audit,
}

/// What their tasks report.
struct SideInboxes {
    requester: mpsc::Receiver<Event>,
    host: mpsc::Receiver<HostEvent>,
    left: mpsc::Receiver<(ModelDigest, Unwanted)>,
}

fn start_sides(
    shared: Shared,
    (me, key): (PeerId, Arc<DeviceKey>),
    ledger: (LentDaysFile, AuditFile),
    (giving, asked_before): (Giving, AuditList),
    tasks: &Tasks,
) -> (Sides, SideInboxes) {
    let Shared { links, workers, book, sandboxes } = shared;
    let (asking, asking_inbox) = mpsc::channel(EVENTS_MAX);
    let (hosting, hosting_inbox) = mpsc::channel(HOST_EVENTS_MAX);
    let (left, left_inbox) = mpsc::channel(LEFT_MAX);
    let open_models = OpenModelCache::new(left, sandboxes);
    let requester = Requester::new(open_models.clone(), clock::now());
    let audit = Audit::new(asked_before, book.clone());
    let tools = Tools {
        open_models: open_models.clone(),
        me,
        workers: workers.clone(),
        book: book.clone(),
        giving,
        audit: audit.clone(),
        events: hosting,
    };
    let memory_free = nook_resources::memory::memory_free;
    let host_runner = HostRunner::new(tools, links.clone(), tasks.clone(), ledger, memory_free);
    let runner = Runner {
        key,
        workers,
        open_models,
        links,
        book,
        events: asking,
        tasks: tasks.clone(),
        counting: Arc::new(Semaphore::new(1)),
    };
    let sides = Sides { requester, runner, host_runner, audit };
    (sides, SideInboxes { requester: asking_inbox, host: hosting_inbox, left: left_inbox })
}

/// Starts what acts on the outside by itself, once all parts are there.
fn settle(
    state: &mut State,
    measured: Measured,
    program: WorkerCommand,
) -> mpsc::Receiver<Sighting> {
    state.workers.backends().restore(crate::computing::restored(&measured.backends));
    state.ask(Event::Measured(measured));
    let sightings = start_finder(state, program);
    state.tell_devices(DeviceEvent::SettingsChanged);
    state.set_up_library();
    state.tell_host(HostEvent::SharingSet);
    state.host_runner.watch_for_sleep();
    let rest = nook_machine::hold_off_rest(state.rest.subscribe());
    state.tasks.spawn_until_cancelled("keep-awake", rest);
    state.tasks.spawn_until_cancelled("sensors", crate::machine_seen::watch(state.machine.clone()));
    state.use_held_catalogue();
    state.look_at_fits();
    state.tell_library(LibraryEvent::Started);
    state.list_port_keys();
    state.read_held();
    state.publish();
    sightings
}

fn closed_port(settings: &SettingsFile) -> PortView {
    let base_url = format!("http://{}/v1", settings.settings().port.address);
    PortView::closed(base_url)
}

fn start_links(
    settings: &SettingsFile,
    identity: Identity,
    me: &Me,
    tasks: &Tasks,
) -> Result<(Links, mpsc::Receiver<nook_link::LinkEvent>), StartError> {
    let network = &settings.settings().network;
    let port = network.listen_port;
    let config = LinkConfig {
        identity,
        listen: vec![
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
        ],
        hello: Hello {
            protocol: ProtocolRange::SPOKEN,
            app_version: nook_base::VERSION.to_owned(),
            device_name: me.name.clone(),
            listen_port: 0,
        },
        loopback: if network.loopback { LoopbackPolicy::Allow } else { LoopbackPolicy::Refuse },
        ping: PingPolicy::LINK,
        calls_max: CALLS_MAX,
    };
    Links::start(config, tasks).map_err(|source| StartError::Links { source })
}

/// Discovery is a convenience: without it remembered and typed addresses still work.
fn start_finder(state: &mut State, program: WorkerCommand) -> mpsc::Receiver<Sighting> {
    let one_machine = state.settings.settings().network.loopback;
    let config = FinderConfig {
        me: state.me.id,
        advertise: Some(state.advertisement()),
        interfaces: Interfaces::All,
        household: if one_machine { Household::OneMachine } else { Household::ManyMachines },
    };
    let WorkerCommand { program, arguments } = program;
    let memory_of = nook_resources::memory::memory_of;
    let command = DiscoveryCommand { program, arguments, memory_of };
    let (finder, sightings) = Finder::start_apart(config, command, &state.tasks);
    state.finder = Some(finder);
    sightings
}

impl State {
    /// Renames this device for everybody who sees it.
    pub(crate) fn set_name(&mut self, name: &str) -> Result<(), nook_api::NodeError> {
        let clean = DeviceName::sanitised(name);
        let change = ("device.name", clean.as_str().into());
        self.settings.change(&[change]).map_err(|error| not_changed(&error))?;
        self.apply_name();
        self.announce();
        Ok(())
    }

    pub(crate) fn apply_name(&mut self) {
        self.me.name = device_name(&self.settings);
        self.links.set_name(&self.me.name);
        for peer in self.outbox.peers() {
            self.outbox.post(peer, Message::Hello(self.links.hello()));
        }
    }

    pub(crate) fn port_settings(&self) -> PortSettings {
        let port = &self.settings.settings().port;
        PortSettings {
            on: port.enabled,
            address: port.address,
            exposed: port.expose_to_lan,
            host_names: host_names(),
            key: self.port_key(),
            allowed_origins: port.allowed_origins.clone(),
            allowed_hosts: port.allowed_hosts.0.clone(),
        }
    }
}

/// What other machines of the network call this one: its name, and its name over mDNS.
fn host_names() -> Vec<String> {
    let host = sysinfo::System::host_name().unwrap_or_default().to_lowercase();
    let is_name = |name: &str| {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        !name.is_empty() && name != "localhost" && name.chars().all(letters)
    };
    let short = host.split('.').next().unwrap_or_default();
    let names = [host.clone(), short.to_owned(), format!("{short}.local")];
    if !is_name(short) || !is_name(&host) {
        return Vec::new();
    }
    let mut names: Vec<String> = names.into();
    names.dedup();
    names
}

fn start_workers(
    command: WorkerCommand,
    home: &Home,
    settings: &SettingsFile,
    tasks: &Tasks,
) -> Workers {
    let folder = home.runtime().to_owned();
    let memory_total = nook_resources::memory::memory_total();
    let limits = worker_limits(settings.settings(), memory_total);
    Workers::start(WorkerSource { command, folder, limits }, tasks)
}

/// The given name, else the computer's, which others only hear once they are paired.
fn device_name(settings: &SettingsFile) -> String {
    if let Some(name) = &settings.settings().device.name {
        return name.as_str().to_owned();
    }
    let host = sysinfo::System::host_name().unwrap_or_default();
    let name = DeviceName::sanitised(&host);
    name.as_str().to_owned()
}

fn key_place(kept: &Where) -> KeyPlace {
    match kept {
        Where::Keyring => KeyPlace::Keychain,
        Where::File { path, .. } => KeyPlace::File { path: path.display().to_string() },
    }
}
