//! One model file: its validated header, and what can be known without loading weights.

mod partial;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nook_base::{FileStamp, LayerRange, ModelDigest, ModelPart, NotedFile, Vocabulary};
use nook_kernels::{CacheKind, Format};

use crate::error::{Fault, ModelError};
use crate::family::{self, Description, Expected};
use crate::gguf::{Header, PieceOf, TensorInfo};
use crate::hashing;
use crate::manifest::Manifest;
use crate::reader::Reader;
use crate::shape::ModelShape;

pub use partial::TensorRange;

/// Widest hidden states of a model that computes in full precision by itself.
pub const SMALL_HIDDEN: u32 = 512;

/// The validated header of one GGUF file. Cheap to clone; keeps the file open, so that a file that
/// is replaced at its path does not mix with the one that was checked.
#[derive(Clone)]
pub struct ModelFile {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    reader: Reader,
    header: Header,
    description: Description,
    expected: Vec<Expected>,
    name: String,
}

impl ModelFile {
    /// Opens and checks the file at `path`: header, hyperparameters, and that it has exactly the
    /// tensors of its architecture. Reads no weights. A file with a record of present tensors
    /// beside it ([`crate::Presence`]) is opened as the partial file that it is.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        Self::open_noted(&path.into())
    }

    /// As [`Self::open`], for a file that had the noted stamp when all of it was digested. Where it
    /// has another one, now or whenever something is read, that is refused with
    /// [`Fault::Changed`]: so nothing of another file comes under the digest of that one.
    pub fn open_noted(file: &NotedFile) -> Result<Self, ModelError> {
        let inner = Inner::open(&file.path, file.stamp);
        let inner = inner.map_err(|fault| ModelError::new(&file.path, fault))?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The stamp that the file must have as long as anything is read.
    #[must_use]
    pub fn noted(&self) -> Option<FileStamp> {
        self.inner.reader.noted()
    }

    /// Where the file lay when it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The hyperparameters.
    #[must_use]
    pub fn shape(&self) -> &ModelShape {
        &self.inner.description.shape
    }

    /// The model's name: `general.name`, or the file's name without its ending.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The architecture, as GGUF calls it.
    #[must_use]
    pub fn architecture(&self) -> &str {
        let key = "general.architecture";
        self.inner.header.value(key).and_then(|v| v.as_text()).unwrap_or_default()
    }

    /// How the weights are quantised, in llama.cpp's words (`Q4_K_M`); by the most used tensor type
    /// where the file does not say.
    #[must_use]
    pub fn quantisation(&self) -> String {
        let named = match self.inner.header.number("general.file_type") {
            Ok(Some(number)) => file_type_name(number),
            _ => None,
        };
        named.map_or_else(|| self.most_used_type().to_owned(), str::to_owned)
    }

    /// Whether a token is computed with a part of the weights only: with some of several experts.
    #[must_use]
    pub fn is_mixture(&self) -> bool {
        let key = format!("{}.expert_count", self.architecture());
        matches!(self.inner.header.number(&key), Ok(Some(count)) if count > 0)
    }

    /// Length of the file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.inner.header.file_bytes()
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.inner.header
    }

    /// The tokenizer data; empty when the file has none. Reads the header again: a vocabulary of
    /// today takes 10 to 40 MB of memory, and is wanted once, when a model is opened for use.
    pub fn vocabulary(&self) -> Result<Vocabulary, ModelError> {
        let reader = &self.inner.reader;
        // Checked behind the read: a change meanwhile is one too.
        let header = reader.header().and_then(|header| reader.check_unchanged().map(|()| header));
        header.and_then(Header::into_vocabulary).map_err(|fault| self.error(fault))
    }

    /// The manifest of the model. Reads the whole file, so a partial file is refused.
    pub fn manifest(&self) -> Result<Manifest, ModelError> {
        self.manifest_unless(&|| false)
    }

    /// As [`Self::manifest`]. `stop` is asked before each piece of 1 MiB; when it says yes, the
    /// result is [`Fault::Stopped`].
    pub fn manifest_unless(&self, stop: &dyn Fn() -> bool) -> Result<Manifest, ModelError> {
        let manifest = hashing::of(&self.inner.reader, &self.inner.header, stop);
        manifest.map_err(|fault| self.error(fault))
    }

    /// The model's identity. Reads the whole file, as a stream.
    pub fn digest(&self) -> Result<ModelDigest, ModelError> {
        self.manifest().map(|manifest| manifest.digest())
    }

    /// The identity of the model in the file at `path`, whether or not this version can use it.
    /// Reads the whole file.
    pub fn digest_at(path: &Path) -> Result<ModelDigest, ModelError> {
        Manifest::at(path).map(|manifest| manifest.digest())
    }

    /// So many bytes of the file as it lies, from byte `at` on, for a copy of it. Refuses a file
    /// that has changed since it was opened, and bytes of tensors that are not in it. Waits for the
    /// disk.
    pub fn bytes_at(&self, at: u64, count: usize) -> Result<Vec<u8>, ModelError> {
        let reader = &self.inner.reader;
        let mut bytes = vec![0; count];
        // Checked behind the read: a change meanwhile is one too.
        let read = reader.read(at, &mut bytes).and_then(|()| reader.check_unchanged());
        read.map(|()| bytes).map_err(|fault| self.error(fault))
    }

    /// Bytes of weights that `part` needs in memory.
    #[must_use]
    pub fn weight_bytes(&self, part: &ModelPart) -> u64 {
        self.tensors_of(part).map(|tensor| tensor.bytes).sum()
    }

    /// The tensors that `part` needs.
    pub(crate) fn tensors_of(&self, part: &ModelPart) -> impl Iterator<Item = &TensorInfo> {
        let needed = self.inner.expected.iter().filter(|tensor| tensor.place.is_in(part));
        needed.filter_map(|tensor| self.inner.header.tensor(&tensor.name))
    }

    /// Whether the layers before `layer` and those from it on may be computed by different hosts.
    /// They may not where one reads what another remembers.
    #[must_use]
    pub fn may_cut(&self, layer: u32) -> bool {
        let blocks = (0u32..).zip(&self.description().blocks);
        let mut behind = blocks.filter(|(index, _)| *index >= layer);
        !behind.any(|(index, block)| index - layer < block.reads_back())
    }

    /// The layers before which the model cannot be cut.
    #[must_use]
    pub fn uncuttable(&self) -> Vec<u32> {
        (0..self.shape().layers).filter(|layer| !self.may_cut(*layer)).collect()
    }

    /// Bytes that the caches of one session over `layers` take at `positions` positions, in the
    /// precision that [`Self::is_small`] chooses.
    #[must_use]
    pub fn cache_bytes(&self, layers: LayerRange, positions: u32) -> u64 {
        let kind = if self.is_small() { CacheKind::F32 } else { CacheKind::F16 };
        self.cache_bytes_as(kind, layers, positions)
    }

    /// Whether the model computes in full precision where nothing else is asked for: when its
    /// hidden states have at most [`SMALL_HIDDEN`] numbers, or all its matrices are in single
    /// precision. What rounding adds is averaged over a row, so it weighs more in small models, and
    /// they gain least. It does not depend on which layers are held, so all hosts of a model agree.
    #[must_use]
    pub fn is_small(&self) -> bool {
        let mut matrices = self.inner.header.tensors().iter().filter(|t| t.dimensions.len() > 1);
        self.shape().hidden <= SMALL_HIDDEN
            || matrices.all(|tensor| tensor.kind.format() == Some(Format::F32))
    }

    /// As [`Self::cache_bytes`], for another kind of numbers.
    #[must_use]
    pub fn cache_bytes_as(&self, kind: CacheKind, layers: LayerRange, positions: u32) -> u64 {
        let layers = LayerRange::all(self.shape().layers).intersection(layers);
        let blocks =
            layers.iter().filter_map(|index| self.description().blocks.get(index as usize));
        let bytes = blocks.map(|block| block.state().bytes(kind, positions));
        bytes.fold(0, u64::saturating_add)
    }

    /// Whether both files have the same header, so that each tensor lies at the same place.
    #[must_use]
    pub fn is_laid_out_like(&self, other: &Self) -> bool {
        let lengths = |file: &Self| (file.file_bytes(), file.header().data_start());
        self.is_same(other)
            || (lengths(self) == lengths(other)
                && self.header().tensors() == other.header().tensors()
                && self.shape() == other.shape())
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn description(&self) -> &Description {
        &self.inner.description
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.inner.reader
    }

    pub(crate) fn error(&self, fault: Fault) -> ModelError {
        ModelError::new(&self.inner.path, fault)
    }

    /// The type that most bytes of the file are in.
    fn most_used_type(&self) -> &'static str {
        let mut totals: Vec<(&'static str, u64)> = Vec::new();
        for tensor in self.inner.header.tensors() {
            let name = tensor.kind.name();
            match totals.iter_mut().find(|(known, _)| *known == name) {
                Some((_, total)) => *total += tensor.bytes,
                None => totals.push((name, tensor.bytes)),
            }
        }
        totals.iter().max_by_key(|(_, total)| *total).map_or("", |(name, _)| name)
    }
}

impl Inner {
    fn open(path: &Path, noted: Option<FileStamp>) -> Result<Self, Fault> {
        let (reader, mut header) = Reader::open(path, noted)?;
        if let Some(PieceOf { number, count }) = header.piece()? {
            return Err(Fault::Piece { number, count });
        }
        let tokens = header.take_vocabulary()?.tokens.len();
        let description = family::of(&header, tokens)?;
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = match header.text("general.name")? {
            Some(name) if !name.trim().is_empty() => name.trim().to_owned(),
            _ => stem(),
        };
        header.drop_lists();
        Ok(Self {
            path: path.to_owned(),
            expected: family::expected(&description),
            reader,
            header,
            description,
            name,
        })
    }
}

impl fmt::Debug for ModelFile {
    /// Name and path; headers are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.name(), self.path().display())
    }
}

/// Names of `general.file_type`, as in `llama.h` (`llama_ftype`).
fn file_type_name(number: u32) -> Option<&'static str> {
    Some(match number {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K",
        11 => "Q3_K_S",
        12 => "Q3_K_M",
        13 => "Q3_K_L",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        19 => "IQ2_XXS",
        20 => "IQ2_XS",
        21 => "Q2_K_S",
        22 => "IQ3_XS",
        23 => "IQ3_XXS",
        24 => "IQ1_S",
        25 => "IQ4_NL",
        26 => "IQ3_S",
        27 => "IQ3_M",
        28 => "IQ2_S",
        29 => "IQ2_M",
        30 => "IQ4_XS",
        31 => "IQ1_M",
        32 => "BF16",
        36 => "TQ1_0",
        37 => "TQ2_0",
        38 => "MXFP4_MOE",
        39 => "NVFP4",
        _ => return None,
    })
}
