//! Models as front ends show them: those that are here, those that could be, and those on their
//! way.

use nook_base::Extent;
use serde::{Deserialize, Serialize};

use super::Problem;

view! {
/// A model on this device.
struct ModelView {
    /// The name to ask for it by.
    pub name: String,
    /// The publisher's name for it.
    pub title: String,
    /// Digest that devices must agree on, hexadecimal.
    pub digest: String,
    /// GGUF architecture.
    pub architecture: String,
    /// Kind of quantisation.
    pub quantisation: String,
    /// Transformer layers.
    pub layers: u32,
    /// Most positions.
    pub context_length: u32,
    /// Size of the file.
    pub file_bytes: u64,
    /// Whether it came with the program.
    pub built_in: bool,
    /// Seconds since 1970 when it came here.
    pub added: u64,
    /// Whether its file is deleted with it; else it lies in a folder of the owner and stays.
    pub owned: bool,
    /// Where its file lies, as far as text can say it.
    pub file: String,
    /// Bytes that are here, where only its ends are: what this device computes itself while others
    /// compute the layers between. Absent where all of it is here.
    pub ends_bytes: Option<u64>,
    /// Whether this household has the memory for it.
    pub fit: FitView,
}
}

view! {
/// Whether a household has the memory for a model.
struct FitView {
    /// Where it fits.
    pub kind: FitKind,
    /// The devices that it takes beside this one; only with `with`.
    pub devices: Vec<String>,
    /// How many tokens of a reply they are expected to make in a second, once it has begun; absent
    /// where it fits nowhere, or the speed of a device or of the way to it is not known.
    #[serde(default)]
    pub tokens_per_second: Option<f64>,
}
}

view! {
/// Where a model fits.
#[derive(Copy, Eq)]
enum FitKind {
    /// On this device alone.
    Here,
    /// With others.
    With,
    /// Not on the devices that are here now.
    Nowhere,
    /// The system does not say how much memory there is.
    Unknown,
}
}

view! {
/// A model of the catalogue.
struct CatalogueView {
    /// What to ask for it by.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The publisher's licence.
    pub licence: String,
    /// Where it comes from, `owner/repository`.
    pub origin: String,
    /// Kind of quantisation.
    pub quantisation: String,
    /// About as many bytes as its file has.
    pub file_bytes: u64,
    /// Parameters, in thousands of millions.
    pub billions: f64,
    /// Languages it was made for, as two letters.
    pub languages: Vec<String>,
    /// What it is good for, in English.
    pub about_en: String,
    /// The same in German.
    pub about_de: String,
    /// Whether this household has the memory for it.
    pub fit: FitView,
    /// Whether it is the one to begin with here.
    pub recommended: bool,
    /// The name of the model here, once it is.
    pub here: Option<String>,
    /// The key of its download, while there is one.
    pub download: Option<String>,
    /// Digest of what a device of the house has of it, by its name and size: see [`InHouseView`].
    #[serde(default)]
    pub in_house: Option<String>,
}
}

view! {
/// Which list of models the catalogue is.
#[derive(Default)]
struct CatalogueEditionView {
    /// When it was written, in seconds since 1970.
    pub written: u64,
    /// Whether it is the one that the program brought along.
    pub built_in: bool,
    /// Why the last look for a newer one brought none, in English; absent where it worked.
    pub trouble: Option<String>,
}
}

view! {
/// A model on its way here.
struct DownloadView {
    /// What to ask for it by.
    pub key: String,
    /// What the model will be called here.
    pub name: String,
    /// Where it comes from: a repository or a server; of a copy the devices that have it now.
    pub origin: String,
    /// Whether devices of the house bring it.
    #[serde(default)]
    pub copied: bool,
    /// The file's name there.
    pub file: String,
    /// What it does.
    pub state: DownloadState,
    /// Bytes that are here.
    pub have_bytes: u64,
    /// Length of the file; absent while nobody has said.
    pub file_bytes: Option<u64>,
    /// Bytes that come each second; absent while none do.
    pub bytes_per_second: Option<f64>,
    /// Seconds that it will take at this speed.
    pub seconds_left: Option<u64>,
    /// What is wrong.
    pub problem: Option<Problem>,
}
}

view! {
/// A model that devices of the house give, and that is not here.
struct InHouseView {
    /// Digest to ask for it by, hexadecimal.
    pub digest: String,
    /// What it is called there; made harmless.
    pub name: String,
    /// Size of the file.
    pub file_bytes: u64,
    /// Names of the devices that have it.
    pub devices: Vec<String>,
    /// Whether this household has the memory for it, guessed from its size.
    pub fit: FitView,
    /// Whether the disk has room for it now.
    pub room: bool,
    /// About how many bytes its ends are: what this device computes itself while others compute
    /// the layers between.
    pub ends_bytes: u64,
    /// Whether the disk has room for these.
    pub ends_room: bool,
    /// Whether these are here already.
    pub ends_here: bool,
    /// The key of its copy, while there is one.
    pub copy: Option<String>,
}
}

view! {
/// How much of a model is copied.
#[derive(Copy, Eq)]
enum CopyExtent {
    /// The whole file.
    Whole,
    /// What this device computes itself: embedding, first and last layers, head. Others compute the
    /// layers between.
    Ends,
}
}

impl From<CopyExtent> for Extent {
    fn from(wanted: CopyExtent) -> Self {
        match wanted {
            CopyExtent::Whole => Self::Whole,
            CopyExtent::Ends => Self::Ends,
        }
    }
}

view! {
/// What a download does.
#[derive(Copy, Eq)]
enum DownloadState {
    /// Waits for others to end.
    Waiting,
    /// Asks the server, or tries again in a moment.
    Connecting,
    /// Takes bytes.
    Loading,
    /// Has all bytes; they are being checked.
    Checking,
    /// Rests until the owner resumes it.
    Paused,
    /// Is not wanted now; what came is kept.
    Cancelled,
    /// Ended with a problem; what came is kept unless that says otherwise.
    Failed,
}
}

view! {
/// What is to be done with a download.
#[derive(Copy, Eq)]
enum DownloadAsk {
    /// Let it rest.
    Pause,
    /// Go on.
    Resume,
    /// Stop it and keep what came.
    Cancel,
    /// Stop it and delete what came.
    Delete,
}
}

view! {
/// What a model can besides answering.
#[derive(Copy, Eq)]
struct CapabilitiesView {
    /// It may think before it answers, apart from its answer.
    pub thinks: bool,
    /// It has marks for a text with a gap and was trained to fill it.
    pub fills_gaps: bool,
}
}

view! {
/// What a search for models has found: repositories, or the models of the one that was named.
struct HubView {
    /// The repository, `owner/repository`; absent where words were searched for.
    pub repository: Option<String>,
    /// Repositories, those with the most downloads first.
    pub repositories: Vec<RepositoryView>,
    /// Models, the smallest first.
    pub models: Vec<HubModelView>,
}
}

view! {
/// A repository that has GGUF files.
struct RepositoryView {
    /// `owner/repository`.
    pub name: String,
    /// How often something of it was downloaded lately; absent where the hub does not say.
    pub downloads: Option<u64>,
}
}

view! {
/// A model in a repository.
struct HubModelView {
    /// What downloads it.
    pub source: String,
    /// What its file is called.
    pub file: String,
    /// Its size, of all files together.
    pub file_bytes: u64,
    /// In how many files it comes.
    pub pieces: u32,
    /// Whether this household has the memory for it, guessed from its size.
    pub fit: FitView,
}
}

view! {
/// A model file of another program on this device.
struct FoundView {
    /// Whose it is.
    pub program: String,
    /// Its name there.
    pub name: String,
    /// Where it is.
    pub path: String,
    /// Its size.
    pub file_bytes: u64,
    /// GGUF architecture.
    pub architecture: String,
    /// Kind of quantisation.
    pub quantisation: String,
}
}
