//! The command line, as typed. `nook worker` is not of it: `main` starts that before it reads this.

mod bench;
mod debug;
mod privacy;
mod settings;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use nook_base::{ActivationDtype, Backend, ThinkingChoice};

pub(crate) use bench::Bench;
pub(crate) use debug::{Debug, DebugLogits, DebugSubject, DebugTemplate, IsaChoice};
pub(crate) use privacy::{Privacy, PrivacyAction, PrivacyMeasure};
pub(crate) use settings::{SettingsAction, SettingsWish};

use crate::endings;

/// Inglenook without a window: pools the computers of one household to run a language model.
#[derive(Debug, Parser)]
#[command(name = "nook", version = nook_base::VERSION, arg_required_else_help = true, after_long_help = endings::help())]
pub(crate) struct Arguments {
    /// Data folder of the node (default: the system's place for application data).
    #[arg(long, global = true, env = "INGLENOOK_HOME", value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a node until it is interrupted: discovery, links, sharing, the OpenAI-compatible port.
    Up(Up),
    /// End the node that runs, in order: replies end, devices are told. The tray app ends with its node.
    Down(Down),
    /// Pair with another device: show a code here, or type the code that the other one shows.
    Pair(Pair),
    /// List devices; set how far one is trusted; forget one.
    Devices(Devices),
    /// Switch sharing on or off, or say how it stands.
    Share(Share),
    /// List models; add or remove one.
    Models(Models),
    /// Talk with a model in this terminal.
    Chat(Chat),
    /// Continue a text, for scripts.
    Generate(Generate),
    /// Look at everything that usually goes wrong, and say what to do.
    Doctor(Doctor),
    /// Show settings and change them. Needs no running node; one that runs takes changes over at once.
    Settings(SettingsWish),
    /// Print the key of the OpenAI-compatible port; make or remove keys of single programs.
    Key(KeyWish),
    /// Try it all on this one machine: a household of three nodes that pair and answer together.
    House(House),
    /// Look inside: model files, token ids, rendered templates, logits. Needs no running node.
    Debug(Debug),
    /// Measure how fast the processor and the graphics cards of this computer compute a model, and compare what
    /// they compute. Needs no running node.
    Bench(Bench),
    /// Show what whoever owns a helping computer could read, as it was measured; measure it. Needs no running node.
    Privacy(Privacy),
    /// Look for a new version of Inglenook, and install it where it came as the portable package.
    Update(Update),
    /// Print the script with which a shell completes this command.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write the manual pages of this program into a folder.
    Manual {
        /// The folder; it must be there.
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Do not open the OpenAI-compatible port.
    #[arg(long)]
    pub(crate) no_port: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Down {
    /// Say in one line how it is started again, its program and words, and nothing else; nothing where it
    /// ran for one command only. For installers.
    #[arg(long)]
    pub(crate) say_again: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Update {
    /// Only look, and say what there is. This is also what happens without a word.
    #[arg(long, conflicts_with_all = ["now", "undo"])]
    pub(crate) check: bool,
    /// Install a newer version. A node that runs starts anew once nothing is under way; if the new
    /// version does not come up, the old one comes back.
    #[arg(long, conflicts_with = "undo")]
    pub(crate) now: bool,
    /// Wait no longer than this for replies that are under way; with 0, install only if there are none.
    /// After it nothing is changed, and what was downloaded stays for the next try.
    #[arg(long, default_value_t = 60, value_name = "MINUTES", requires = "now")]
    pub(crate) wait: u16,
    /// Put the version back that was here before the last update.
    #[arg(long)]
    pub(crate) undo: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The program that is to run again if the new version does not come up, with its words; without
    /// it, `nook up`. Last on the line. A node says so when it starts this command.
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true, requires = "now")]
    pub(crate) again: Vec<std::ffi::OsString>,
    /// Seconds after which a new version that runs and does not come up is put back.
    #[arg(long, hide = true, requires = "now")]
    pub(crate) patience: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Pair {
    /// The six digits that the other device shows; without them, this device shows some.
    pub(crate) code: Option<String>,
    /// The other device: its name or id as listed, or `host:port`. Needed when several show a code.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) with: Option<String>,
    /// How far to trust it once paired; without it, the terminal asks. `trusted` and `own` also
    /// switch sharing on here: the two help each other.
    #[arg(long, value_enum)]
    pub(crate) trust: Option<TrustChoice>,
    /// Print JSON: a line with the code where one is shown, and one with the device once it is paired.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Devices {
    /// What to do; without it, list them.
    #[command(subcommand)]
    pub(crate) action: Option<DevicesAction>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DevicesAction {
    /// Set how far a paired device is trusted.
    Trust {
        /// Its name or id as listed.
        device: String,
        /// The level.
        #[arg(value_enum)]
        level: TrustChoice,
    },
    /// Answer "May these two computers help each other?" for this side.
    Allow {
        /// Its name or id as listed.
        device: String,
        /// The answer.
        #[arg(value_enum)]
        answer: HelpChoice,
    },
    /// Show the safety number of a paired device: the same digits must stand on its own screen.
    Safety {
        /// Its name or id as listed.
        device: String,
    },
    /// Wake a device that sleeps, if its owner lets others wake it, and wait until it is there.
    Wake {
        /// Its name or id as listed.
        device: String,
    },
    /// Show what other devices asked of this one: who, when, how much, and never what.
    Log {
        /// Forget what is listed; what is under way stays.
        #[arg(long)]
        clear: bool,
    },
    /// Unpair a device.
    Forget {
        /// Its name or id as listed.
        device: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrustChoice {
    /// Never talks to this device.
    Blocked,
    /// Paired; takes part in nothing, unless a gate lets every paired device in.
    Guest,
    /// May compute on prompts and use shared layers.
    Trusted,
    /// Another device of the same owner.
    Own,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HelpChoice {
    /// Both compute for each other: trusts it, and switches sharing on here.
    EachOther,
    /// Only this computer helps: as above, but it is never asked for help.
    OnlyThis,
    /// Nothing yet.
    Nothing,
}

#[derive(Debug, Args)]
pub(crate) struct Share {
    /// What to do; without it, say how it stands.
    #[arg(value_enum)]
    pub(crate) choice: Option<Switch>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// With `pause`: until six o'clock of the next morning, not for an hour.
    #[arg(long, requires = "choice")]
    pub(crate) until_tomorrow: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// Lend layers to trusted devices.
    On,
    /// Lend nothing.
    Off,
    /// Lend nothing for an hour; then it goes on by itself.
    Pause,
    /// End a pause before its time.
    Resume,
    /// Give back all memory that no reply of this device needs, and pause for a quarter of an hour.
    FreeMemory,
}

#[derive(Debug, Args)]
pub(crate) struct Models {
    /// What to do; without it, list models and downloads.
    #[command(subcommand)]
    pub(crate) action: Option<ModelsAction>,
    /// Print JSON; while downloading, a line for each step.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsAction {
    /// List the models that can be downloaded by name, and whether this household has room for them.
    Catalog,
    /// Download a model, or go on with a download.
    Pull {
        /// A name from `nook models catalog`, `hf:owner/repository/file.gguf`, or an https address. Of a
        /// model in several files, any of them: all are downloaded and become one.
        source: String,
        /// What to call it (default: its name in the catalogue, else after the file).
        #[arg(long)]
        name: Option<String>,
    },
    /// Search Hugging Face for models, or list those of one repository.
    ///
    /// Only these words go there, and only now. Anybody can publish there: take models of publishers that
    /// you know.
    Search {
        /// A few words, or a repository as `owner/repository`.
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Copy a model from another device of the house, or list what those devices give.
    ///
    /// A copy is a download like any other: it goes on without this command, and with pause, resume, cancel
    /// and remove. The other device must be paired, and each side must trust the other.
    Copy {
        /// Its name there, or at least eight digits of its digest (default: list all).
        model: Option<String>,
        /// The device that is asked first: id, short id or unique beginning of its name.
        #[arg(long, value_name = "DEVICE", requires = "model")]
        from: Option<String>,
        /// Take only what this computer computes itself: the first and last layers. Other devices then
        /// compute the rest of every reply.
        #[arg(long, requires = "model")]
        ends: bool,
    },
    /// Let a download rest; what came is kept.
    Pause {
        /// The model's name to be, or the key of the download.
        download: String,
    },
    /// Go on with a download that rests or has failed.
    Resume {
        /// The model's name to be, or the key of the download.
        download: String,
    },
    /// End a download; what came is kept until it is removed.
    Cancel {
        /// The model's name to be, or the key of the download.
        download: String,
    },
    /// Add a GGUF file. It is used where it lies; a model in several files is joined into one first.
    Import {
        /// The file.
        file: PathBuf,
        /// What to call it (default: after the file).
        #[arg(long)]
        name: Option<String>,
    },
    /// List GGUF files that other programs on this computer hold; `import` uses them where they lie.
    Found,
    /// Say in which folder the models are kept, or move them to another one.
    Folder {
        /// The folder that they and unfinished downloads move to.
        #[arg(value_hint = ValueHint::DirPath)]
        path: Option<PathBuf>,
        /// Move them back to the usual folder.
        #[arg(long, conflicts_with = "path")]
        usual: bool,
    },
    /// Remove a model from the library, or a download with what came of it.
    #[command(visible_alias = "rm")]
    Remove {
        /// Its name.
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// Model to talk with (default: the newest, as in the window).
    #[arg(long, value_name = "FILE-OR-NAME", value_hint = ValueHint::AnyPath)]
    pub(crate) model: Option<String>,
    /// Instructions that hold for the whole chat.
    #[arg(long)]
    pub(crate) system: Option<String>,
    /// Whether the model thinks before it answers, where it can be told (default: as it does unasked).
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) think: Option<Think>,
    #[command(flatten)]
    pub(crate) choice: SamplingChoice,
    /// Compute on this device only.
    #[arg(long)]
    pub(crate) alone: bool,
}

/// Whether a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Think {
    /// As it does unasked.
    Usual,
    /// No.
    Off,
    /// Yes.
    On,
}

impl From<Think> for ThinkingChoice {
    fn from(think: Think) -> Self {
        match think {
            Think::Usual => Self::Usual,
            Think::Off => Self::Off,
            Think::On => Self::On,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// What to look at (default: everything that usually goes wrong).
    #[command(subcommand)]
    pub(crate) subject: Option<DoctorSubject>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum DoctorSubject {
    /// Where the last replies were computed and why, what happened to them, and how fast the devices were measured to
    /// be.
    Pipeline,
}

/// How to choose tokens.
#[derive(Debug, Clone, Args)]
pub(crate) struct SamplingChoice {
    /// 0 always takes the likeliest token.
    #[arg(long, value_name = "T")]
    pub(crate) temperature: Option<f32>,
    /// Only the K likeliest tokens.
    #[arg(long, value_name = "K")]
    pub(crate) top_k: Option<u32>,
    /// Only the likeliest tokens that make up this probability.
    #[arg(long, value_name = "P")]
    pub(crate) top_p: Option<f32>,
    /// Only tokens at least this likely compared with the likeliest.
    #[arg(long, value_name = "P")]
    pub(crate) min_p: Option<f32>,
    /// Above 1 makes repetition less likely.
    #[arg(long, value_name = "R")]
    pub(crate) repetition_penalty: Option<f32>,
    /// Same seed, same reply.
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
}

/// What `generate` and `house` share.
#[derive(Debug, Clone, Args)]
pub(crate) struct Wish {
    /// Model: a name from `nook models`, or a GGUF file.
    #[arg(long, default_value = "ember", value_name = "FILE-OR-NAME", value_hint = ValueHint::AnyPath)]
    pub(crate) model: String,
    /// Text to continue.
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: String,
    /// Most tokens of the reply.
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: u32,
    #[command(flatten)]
    pub(crate) choice: SamplingChoice,
    /// How numbers travel between devices: f16 is half the bytes, f32 is exact, q8 a quarter of the
    /// bytes and the least exact.
    #[arg(long, value_name = "f16|f32|q8")]
    pub(crate) activation_dtype: Option<ActivationDtype>,
    /// Read the prompt as a message of a chat, through the model's chat template.
    #[arg(long)]
    pub(crate) chat: bool,
    /// Whether the model thinks before it answers such a message, where it can be told (default: as it does unasked).
    #[arg(long, value_enum, value_name = "WHEN", requires = "chat")]
    pub(crate) think: Option<Think>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Generate {
    #[command(flatten)]
    pub(crate) wish: Wish,
    /// Compute on this device only.
    #[arg(long)]
    pub(crate) alone: bool,
    /// Print who did what under the reply. With `--json` it is always there.
    #[arg(long)]
    pub(crate) timeline: bool,
}

#[derive(Debug, Args)]
pub(crate) struct House {
    #[command(flatten)]
    pub(crate) wish: Wish,
    /// Devices that help.
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) helpers: u8,
    /// Kill one helper (SIGKILL) after this many tokens.
    #[arg(long, value_name = "T", conflicts_with = "stop_after")]
    pub(crate) kill_after: Option<u32>,
    /// Freeze one helper (SIGSTOP) after this many tokens.
    #[arg(long, value_name = "T")]
    pub(crate) stop_after: Option<u32>,
    /// What computes on each node, as the setting `distributed_inference.backend` names it: native, gpu:0 …
    #[arg(long, default_value_t = Backend::Auto, value_name = "BACKEND")]
    pub(crate) backend: Backend,
    /// Keep the homes of the nodes, and say where they are.
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Which key of the port.
#[derive(Debug, Args)]
pub(crate) struct KeyWish {
    /// Print one JSON object instead of words.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// What to do; without a word the main key is printed.
    #[command(subcommand)]
    pub(crate) deed: Option<KeyDeed>,
}

/// What to do with the keys of single programs.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyDeed {
    /// List the keys of single programs.
    List,
    /// Make a key for one program and print it, which nothing can do again.
    Add {
        /// What it is to be called, such as `Zed`.
        name: String,
    },
    /// Take the key of one program back: from now on it opens nothing.
    Remove {
        /// What it is called.
        name: String,
    },
}
