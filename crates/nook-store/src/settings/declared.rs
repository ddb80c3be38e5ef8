//! Every setting, declared once.
//!
//! A new setting is one entry here, the place that reads its field, and a behavioural test. The
//! file's template, the errors, `nook settings`, `docs/settings.md`, the view and the window's types
//! follow from the entry; `cargo xtask goldens` rewrites the generated ones. The text is written for
//! owners. What a page of the window offers is marked `in_window`: a page can change no other
//! setting.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use nook_base::ThinkingChoice;
use nook_base::limits::{HOPS_MAX, OPENAI_PORT};
use nook_base::reply_choices::TEMPERATURE_MAX;
use nook_base::{Backend, FormFactor, LayerRange};
use nook_trust::{DeviceName, GatePolicy, TrustLevel};

use super::declare::{Found, Section, declare, narrowed};
use super::host_names::HostNames;
use super::kinds::SettingType;
use super::model_names::ModelNames;
use super::pausing::QuietHours;
use super::setting::{Setting, Side, at_once, next_start};
use super::value::SettingValue;
use super::{
    ActivationChoice, AskKeys, Language, Megabytes, NewVersions, OutOfRange, Pooling, SplitChoice,
};
use crate::identity::KeyringChoice;

use super::setting::Side::{Asking, Lending};

/// Adverts come every 30 seconds; four times this is a little longer, so none is forgotten in
/// between.
const SILENCE_SECONDS_MIN: i64 = 8;

/// The last second of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

declare! {
    /// This computer itself.
    new DeviceSettings in "device" {
        /// The name that other computers see. Without it, they see the system's name of this
        /// computer.
        "device.name" => name: Option<DeviceName> = None,
            at_once(Side::Computer).example("\"Desk\"");
        /// What kind of computer this is, for the picture that others see of it. Without it, what the
        /// system tells of its case counts.
        "device.kind" => kind: Option<FormFactor> = None,
            at_once(Side::Computer).in_window().example("\"laptop\"");
        /// Where the secret key of this computer is kept: in the system's keychain if there is one
        /// (`system`), or always in a file of the data folder (`off`).
        "device.keyring" => keyring: KeyringChoice = KeyringChoice::System,
            next_start(Side::Computer);
    }

    /// The OpenAI-compatible port for other programs.
    new PortSettings in "port" {
        /// Whether the port is open.
        "port.enabled" => enabled: bool = true, next_start(Side::Port);
        /// Where it listens. An address that other machines reach needs `expose_to_lan` too.
        "port.address" => address: SocketAddr =
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), OPENAI_PORT), next_start(Side::Port);
        /// Whether other machines of the network may use the port, always with its key. What is
        /// asked
        /// and answered there is not encrypted.
        "port.expose_to_lan" => expose_to_lan: bool = false, next_start(Side::Port).in_window();
        /// Web pages that may use the port, by their origin. Others are refused.
        "port.allowed_origins" => allowed_origins: Vec<String> = Vec::new(),
            next_start(Side::Port).example("[\"http://localhost:3000\"]");
        /// Other names by which programs may ask for this computer: that of a proxy before the
        /// port, or the one that a container knows it by.
        "port.allowed_hosts" => allowed_hosts: HostNames = HostNames::default(),
            next_start(Side::Port).example("[\"host.docker.internal\"]");
    }

    /// The least trust that a paired computer needs for each purpose.
    existing GatePolicy in "gate" {
        /// Who may use the layers that this computer shares.
        "gate.lend" => lend: TrustLevel = GatePolicy::DEFAULT.lend, at_once(Lending).in_window();
        /// Who may compute on prompts of this computer.
        "gate.borrow" => borrow: TrustLevel = GatePolicy::DEFAULT.borrow,
            at_once(Asking).in_window();
        /// Who may copy models from this computer, and from whom this computer copies some.
        "gate.copy" => copy: TrustLevel = GatePolicy::DEFAULT.copy,
            at_once(Side::Models).in_window();
    }

    /// Links to other computers.
    new NetworkSettings in "network" {
        /// The port on which paired computers reach this one; 0 takes any free port.
        "network.listen_port" => listen_port: u16 = 0,
            next_start(Side::Links).whole_or_zero(1024, 65_535);
        /// Whether the whole household runs on this one machine, so that loopback addresses count.
        /// For
        /// demonstrations.
        "network.loopback" => loopback: bool = false, next_start(Side::Links);
        /// Whether this computer gives its models to computers that `gate.copy` lets in.
        "network.give_models" => give_models: bool = true, at_once(Side::Models).in_window();
        /// Whether trusted computers of the same network may wake this one while it sleeps
        /// (Wake-on-LAN). They are told the hardware address of its network card for that.
        "network.let_others_wake" => let_others_wake: bool = false,
            at_once(Side::Links).in_window();
        /// Whether this computer wakes others by itself, where their owners let it, for a reply that
        /// it cannot make without them. The reply waits meanwhile.
        "network.wake_helpers" => wake_helpers: bool = false, at_once(Asking).in_window();
    }

    /// Model files.
    new ModelsSettings in "models" {
        /// The folder of the models. Without it, they lie in the data folder. `nook models folder`
        /// changes it and moves the files; a change by hand moves nothing.
        "models.folder" => folder: Option<PathBuf> = None,
            next_start(Side::Models).example(FOLDER_EXAMPLE);
    }

    /// Chats in the window, unless a chat has a choice of its own. Programs at the port and
    /// `nook chat` say it with each request.
    new ChatSettings in "chat" {
        /// How freely the model chooses its words; 0 always takes the likeliest.
        "chat.temperature" => temperature: f32 = 0.7,
            at_once(Asking).decimal(0.0, TEMPERATURE_MAX, 0.1).in_window();
        /// Whether models that think aloud do so before they answer: as each is used to (`usual`),
        /// not (`off`), or always (`on`). Those that cannot be told do as they are used to.
        "chat.thinking" => thinking: ThinkingChoice = ThinkingChoice::Usual,
            at_once(Asking).in_window();
        /// Whether the model that answers gives a chat its title, behind one of the first replies.
        /// Otherwise chats are called by their first words, as those with the model that came with
        /// the program are.
        "chat.titles" => titles: bool = true,
            at_once(Asking).in_window();
    }

    /// The window and the tray. A node without them ignores this.
    new WindowSettings in "window" {
        /// The language of the tray, before the window has been opened. The window keeps it up to
        /// date.
        "window.language" => language: Option<Language> = None,
            next_start(Side::Window).example("\"de\"");
        /// Whether the desktop may show notices.
        "window.notifications" => notifications: bool = true, at_once(Side::Window).in_window();
        /// Keys that bring the window up with a new chat, whichever program is in front. On Wayland
        /// programs get none: there, let a key of the desktop run `inglenook --ask`.
        "window.ask_keys" => ask_keys: AskKeys = AskKeys::Off, at_once(Side::Window).in_window();
        /// Whether the window is drawn without the graphics card.
        "window.safe_graphics" => safe_graphics: bool = false, next_start(Side::Window).in_window();
    }

    /// New versions of this program.
    new UpdateSettings in "updates" {
        /// What happens with new versions: nobody is asked unless you do (`off`), you are told once
        /// there is one (`tell`), or it is also installed once nothing has been under way for ten
        /// minutes (`install`), where the program came as the portable package. A program that
        /// knows no address of releases asks nobody.
        "updates.new_versions" => new_versions: NewVersions = NewVersions::Tell,
            at_once(Side::Computer).in_window();
    }

    /// Replies that are computed on several computers.
    new InferenceSettings in "distributed_inference" {
        /// Whether this computer works with others at all. Without it, it neither shares nor asks.
        "distributed_inference.enabled" => enabled: bool = true, at_once(Side::Computer);
        /// What computes models on this computer. `auto` measures the processor and each graphics
        /// card while nothing else goes on, and takes what answers at least a fifth sooner; `native`
        /// is the processor, `gpu` the fastest graphics card, `gpu:0` that of this number in
        /// `nook doctor`. `candle` computes on the processor with other code, slower, to compare
        /// with; `candle:cuda:0` needs the program `nook-worker-cuda` beside this one,
        /// `candle:metal` a build of its own. A reply that runs goes on where it began.
        "distributed_inference.backend" => backend: Backend = Backend::Auto,
            at_once(Side::Computer).in_window();
        /// When other computers help: if the reply is predicted to be faster or this computer
        /// cannot
        /// compute it alone (`when_faster`), or whenever they offer the layers (`always`).
        "distributed_inference.pooling" => pooling: Pooling = Pooling::WhenFaster,
            at_once(Asking).in_window();
        /// How layers are divided: as predicted to be best (`planned`), in equal parts (`uniform`),
        /// or
        /// in proportion to speed with no computer left out (`weighted`).
        "distributed_inference.split" => split: SplitChoice = SplitChoice::Planned, at_once(Asking);
        /// Whether a whole request may run on a faster computer that both sides mark `own`. That
        /// computer sees the prompt and the reply.
        "distributed_inference.whole_on_own_devices" => whole_on_own_devices: bool = false,
            at_once(Asking).in_window();
        /// Which models `whole_on_own_devices` counts for, by the names that `nook models` shows;
        /// all of them where none is named. With any other model, replies are divided at most.
        "distributed_inference.whole_models" => whole_models: ModelNames = ModelNames::ALL,
            at_once(Asking).example("[\"household\"]");
        /// The most computers that compute one reply.
        "distributed_inference.max_shards_per_request" => max_shards_per_request: u32 = 16,
            at_once(Asking).whole(1, HOPS_MAX as i64).unit("computers");
        /// How long a computer may be silent before it counts as late. Its offers live four times
        /// as
        /// long.
        "distributed_inference.shard_health_timeout_seconds" => shard_health_timeout: Duration =
            Duration::from_secs(30),
            at_once(Asking).whole(SILENCE_SECONDS_MIN, 3600).unit("seconds");
        /// Whether this computer takes over the layers of a computer that fails.
        "distributed_inference.fallback_to_local" => fallback_to_local: bool = true,
            at_once(Asking);
        /// After how many failures within one reply this computer is preferred to others.
        "distributed_inference.fallback_to_local_after_failures" =>
            fallback_to_local_after_failures: u32 = 2,
            at_once(Asking).whole(1, 100).unit("failures");
        /// Of a thousand pieces of prompts, and of a thousand stretches of 32 tokens of replies, how
        /// many are computed a second time to find wrong numbers.
        "distributed_inference.spot_checks_per_thousand" => spot_checks_per_thousand: u32 = 0,
            at_once(Asking).in_window().whole(0, 1000).unit("of a thousand");
        /// Whether the first words of a reply wait until all that other computers computed of its
        /// prompt was computed a second time. Of a computer that was wrong there, no word is shown.
        "distributed_inference.check_first_words" => check_first_words: bool = false,
            at_once(Asking).in_window();
        /// How numbers travel between computers: exact (`fp32`), in half the bytes and as good
        /// (`fp16`), in a quarter of the bytes and less exact (`q8`), or `q8` only where a reply is
        /// predicted to become much faster by it (`auto`).
        "distributed_inference.activation_dtype" => activation_dtype: ActivationChoice =
            ActivationChoice::Always(nook_base::ActivationDtype::F16), at_once(Asking);
        /// Whether this computer also computes layers between those of two other computers.
        "distributed_inference.allow_self_as_shard" => allow_self_as_shard: bool = true,
            at_once(Asking);
        /// The most replies that are computed at once for this computer. Others wait, but for one that
        /// the owner asks for.
        "distributed_inference.max_concurrent_pipelines" => max_concurrent_pipelines: u32 = 4,
            at_once(Asking).whole(1, 64).unit("replies");
        /// How many layers at the front of a model never leave this computer.
        "distributed_inference.local_prefix_layers" => local_prefix_layers: u32 = 1,
            at_once(Asking).in_window().whole(0, 1024).unit("layers");
        /// How many layers at the end of a model never leave this computer.
        "distributed_inference.local_suffix_layers" => local_suffix_layers: u32 = 1,
            at_once(Asking).in_window().whole(0, 1024).unit("layers");
    }

    /// What this computer computes for others.
    new HostSettings in "distributed_inference.host" {
        /// The switch *Share this computer*.
        "distributed_inference.host.serve_shards" => serve_shards: bool = false, at_once(Lending);
        /// After how long without use lent layers leave the memory.
        "distributed_inference.host.shard_eviction_idle_seconds" => shard_eviction_idle: Duration =
            Duration::from_secs(600), at_once(Lending).whole(1, 7 * 24 * 3600).unit("seconds");
        /// The most memory (RAM) that other computers may use here. Without it: half of the memory
        /// of
        /// this computer, at most 20 GB.
        "distributed_inference.host.max_lent_memory_mb" => max_lent_memory: Option<Megabytes> = None,
            at_once(Lending).in_window().whole(1, 16_000_000).unit("MB").example("8000");
        /// The most memory of graphics cards that other computers may use here, of all cards
        /// together; 0 is none. Without it: what a card that computes has free. A card without
        /// memory of its own computes from the RAM, and only `max_lent_memory_mb` counts there.
        "distributed_inference.host.max_lent_gpu_memory_mb" =>
            max_lent_gpu_memory: Option<Megabytes> = None,
            at_once(Lending).in_window().whole(0, 16_000_000).unit("MB").example("4000");
        /// The most streams of other computers at once. A further one is told `busy`.
        "distributed_inference.host.max_concurrent_streams" => max_concurrent_streams: u32 = 4,
            at_once(Lending).in_window().whole(1, 64).unit("streams");
        /// The only layers that are shared, of any model. For demonstrations.
        "distributed_inference.host.layers" => layers: Option<LayerRange> = None,
            at_once(Lending).example("\"2-5\"");
        /// Whether this computer fetches layers that it lacks when a trusted computer asks it to
        /// hold them: from that one, or from another one that has the model.
        "distributed_inference.host.fetch_layers" => fetch_layers: bool = true,
            at_once(Lending).in_window();
        /// The most disk space for layers that were fetched. Layers that nobody uses go when others
        /// need the room.
        "distributed_inference.host.max_fetched_layers_mb" =>
            max_fetched_layers: Megabytes = Megabytes(64_000),
            at_once(Lending).in_window().whole(1, 16_000_000).unit("MB");
        nested pause: PauseSettings, "When sharing pauses by itself.";
    }

    /// When sharing pauses by itself.
    #[derive(Copy)]
    #[derive(Eq)]
    new PauseSettings in "distributed_inference.host.pause" {
        /// While this computer runs on its battery.
        "distributed_inference.host.pause.on_battery" => on_battery: bool = true,
            at_once(Lending).in_window();
        /// While another program fills the screen.
        "distributed_inference.host.pause.in_full_screen" => in_full_screen: bool = true,
            at_once(Lending).in_window();
        /// While other programs take more than this share of the processor, or of a graphics card; 0 is
        /// never.
        "distributed_inference.host.pause.when_busy_percent" => when_busy_percent: Option<u32> = None,
            at_once(Lending).in_window().whole(0, 100).unit("percent").example("50");
        /// Between these two times of every day, by the local clock.
        "distributed_inference.host.pause.quiet_hours" => quiet_hours: Option<QuietHours> = None,
            at_once(Lending).in_window().example("\"22:00-07:00\"");
        /// Until this moment, in seconds since 1970; 0 is not at all. The button *Pause* writes it.
        "distributed_inference.host.pause.until" => until: u64 = 0,
            at_once(Lending).whole(0, LAST_SECOND).unit("seconds since 1970");
    }
}

/// Paths look different there.
const FOLDER_EXAMPLE: &str = if cfg!(windows) { "'D:\\models'" } else { "\"/srv/models\"" };
