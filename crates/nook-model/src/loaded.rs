//! The weights that one worker holds: layers one by one, embedding and head apart.
//!
//! Ranges are views of what is held, so overlapping ranges never load a layer twice. Holding and
//! releasing need `&mut`, computing only `&`: several sessions may step at once from several threads.
//! They share the model's compute threads, so they gain nothing by it; what gains is to step several
//! sessions together ([`LoadedModel::step_batch`]).

use std::sync::{Arc, Mutex, PoisonError};

use nook_base::{LayerRange, ModelPart};
use nook_kernels::{Arithmetic, CacheKind, Compute, Matrix};

use crate::error::{Fault, ModelError};
use crate::file::ModelFile;
use crate::parts::{Block, Norm, RopeSet};
use crate::pass::Workspace;
use crate::session::Session;
use crate::weights::{Held, Loading, Source};

/// How a model is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadOptions {
    /// Threads that compute; 0 counts as 1. Results do not depend on it.
    pub threads: usize,
    /// How exactly it computes.
    pub precision: Precision,
}

/// How exactly a model computes. Results depend on it a little, so all hosts of a route must choose
/// alike; [`Precision::Auto`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// As [`ModelFile::is_small`] says: [`Self::Full`] for small models, else [`Self::Fast`].
    #[default]
    Auto,
    /// Activations, keys and values in single precision.
    Full,
    /// Keys and values in half precision, and products with quantised weights in bytes
    /// ([`Arithmetic::Bytes`]).
    Fast,
}

/// A model with some of its weights in memory.
#[derive(Debug)]
pub struct LoadedModel {
    file: ModelFile,
    compute: Compute,
    cache: CacheKind,
    arithmetic: Arithmetic,
    ropes: Option<Vec<RopeSet>>,
    /// One place for each layer of the model.
    layers: Vec<Option<Block<Held>>>,
    embedding: Option<Arc<Matrix>>,
    head: Option<Head>,
    /// Buffers between two steps. The lock guards the list alone, not a step.
    workspaces: Mutex<Vec<Workspace>>,
}

/// What makes logits from hidden states.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) norm: Norm<Held>,
    /// (vocabulary, hidden)
    pub(crate) output: Arc<Matrix>,
}

impl LoadedModel {
    /// A model of which nothing is held yet. Starts the compute threads.
    pub fn new(file: ModelFile, options: LoadOptions) -> Result<Self, ModelError> {
        let Ok(compute) = Compute::new(options.threads) else {
            return Err(file.error(Fault::NoThreads));
        };
        Ok(Self::with_compute(file, compute, options.precision))
    }

    /// As [`Self::new`], computing where the caller says.
    #[must_use]
    pub fn with_compute(file: ModelFile, compute: Compute, precision: Precision) -> Self {
        let full = match precision {
            Precision::Auto => file.is_small(),
            Precision::Full => true,
            Precision::Fast => false,
        };
        if !full && let Some(format) = file.slow_format() {
            tracing::warn!(model = file.name(), %format, "weights without a fast kernel: slow");
        }
        let mut layers = Vec::new();
        layers.resize_with(file.shape().layers as usize, || None);
        Self {
            cache: if full { CacheKind::F32 } else { CacheKind::F16 },
            arithmetic: if full { Arithmetic::Floats } else { Arithmetic::Bytes },
            file,
            compute,
            ropes: None,
            layers,
            embedding: None,
            head: None,
            workspaces: Mutex::new(Vec::new()),
        }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &ModelFile {
        &self.file
    }

    /// Where it computes.
    #[must_use]
    pub fn compute(&self) -> &Compute {
        &self.compute
    }

    /// How its sessions hold keys and values.
    #[must_use]
    pub fn cache_kind(&self) -> CacheKind {
        self.cache
    }

    /// Bytes that the caches of one session over `layers` take at `positions` positions.
    #[must_use]
    pub fn cache_bytes(&self, layers: LayerRange, positions: u32) -> u64 {
        self.file.cache_bytes_as(self.cache, layers, positions)
    }

    /// Loads what is missing of `part`. After a failure everything that was held is still held, and
    /// what was loaded before the failure too.
    pub fn hold(&mut self, part: &ModelPart) -> Result<(), ModelError> {
        self.check_layers(part.layers)?;
        let file = self.file.clone();
        self.load(part).map_err(|fault| file.error(fault))
    }

    fn load(&mut self, part: &ModelPart) -> Result<(), Fault> {
        let file = self.file.clone();
        let description = file.description();
        // Asked each time before something counts as held: bytes that changed under the reader must
        // not compute.
        let unchanged = || file.reader().check_unchanged();
        unchanged()?;
        let mut loading =
            Loading { file: &file, compute: &self.compute, arithmetic: self.arithmetic };
        if !part.layers.is_empty() && self.ropes.is_none() {
            let mut ropes = Vec::new();
            for rope in &description.ropes {
                ropes.push(loading.load(rope)?.build()?);
            }
            unchanged()?;
            self.ropes = Some(ropes);
        }
        for (index, block) in description.blocks.iter().enumerate() {
            let wanted = part.layers.contains_layer(index as u32);
            if wanted && self.layers[index].is_none() {
                let layer = loading.load(block)?;
                unchanged()?;
                self.layers[index] = Some(layer);
            }
        }
        if part.embedding && self.embedding.is_none() {
            let embedding = self.tied_matrix()?;
            unchanged()?;
            self.embedding = Some(embedding);
        }
        if part.head && self.head.is_none() {
            let head = Head {
                norm: loading.load(&description.head.norm)?,
                output: match &description.head.output {
                    Some(output) => Arc::new(loading.matrix(output)?),
                    None => self.tied_matrix()?,
                },
            };
            unchanged()?;
            self.head = Some(head);
        }
        Ok(())
    }

    /// Gives the memory of `layers` back. Sessions over them fail from their next step on.
    pub fn release(&mut self, layers: LayerRange) {
        let model = LayerRange::all(self.file.shape().layers);
        for index in model.intersection(layers).iter() {
            self.layers[index as usize] = None;
        }
    }

    /// Gives the memory of the embedding back.
    pub fn release_embedding(&mut self) {
        self.embedding = None;
    }

    /// Gives the memory of the head back.
    pub fn release_head(&mut self) {
        self.head = None;
    }

    /// The layers that are held: ranges in order that do not touch.
    #[must_use]
    pub fn held(&self) -> Vec<LayerRange> {
        let mut ranges: Vec<LayerRange> = Vec::new();
        for (index, layer) in (0u32..).zip(&self.layers) {
            if layer.is_none() {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.end() == index => {
                    *last = LayerRange::with_len(last.start(), last.len() + 1);
                }
                _ => ranges.push(LayerRange::with_len(index, 1)),
            }
        }
        ranges
    }

    /// Whether the embedding is held.
    #[must_use]
    pub fn has_embedding(&self) -> bool {
        self.embedding.is_some()
    }

    /// Whether the head is held.
    #[must_use]
    pub fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Whether all of `part` is held.
    #[must_use]
    pub fn holds(&self, part: &ModelPart) -> bool {
        self.missing(part).is_none()
    }

    /// Bytes of the weights that are held.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let ends = ModelPart {
            layers: LayerRange::all(0),
            embedding: self.has_embedding(),
            head: self.has_head(),
        };
        let layers = self.held().into_iter().map(|layers| {
            // What any layer needs is counted with each range; it is a few hundred bytes.
            self.file.weight_bytes(&ModelPart::inner(layers))
        });
        self.file.weight_bytes(&ends) + layers.sum::<u64>()
    }

    /// A new session over `part`, which must be held, of at most `positions_max` positions.
    pub fn session(&self, part: ModelPart, positions_max: u32) -> Result<Session, ModelError> {
        self.check_layers(part.layers)?;
        if let Some(what) = self.missing(&part) {
            return Err(self.file.error(Fault::NotHeld { what }));
        }
        let limit = self.file.shape().context_length;
        if positions_max > limit {
            return Err(self.file.error(Fault::ContextLength { limit, asked: positions_max }));
        }
        Ok(Session::new(self.file.clone(), self.cache, part, positions_max))
    }

    /// What of `part` is not held, in words; `None` when nothing is missing.
    pub(crate) fn missing(&self, part: &ModelPart) -> Option<String> {
        let held = |index: u32| matches!(self.layers.get(index as usize), Some(Some(_)));
        if part.embedding && self.embedding.is_none() {
            return Some("the embedding".to_owned());
        }
        if part.head && self.head.is_none() {
            return Some("the head".to_owned());
        }
        let missing = part.layers.iter().find(|index| !held(*index))?;
        Some(format!("layer {missing}"))
    }

    pub(crate) fn layer(&self, index: u32) -> Option<&Block<Held>> {
        self.layers.get(index as usize)?.as_ref()
    }

    pub(crate) fn ropes(&self) -> &[RopeSet] {
        self.ropes.as_deref().unwrap_or_default()
    }

    pub(crate) fn embedding(&self) -> Option<&Matrix> {
        self.embedding.as_deref()
    }

    pub(crate) fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Buffers for one step: those of an earlier one, where no other step has them.
    pub(crate) fn take_workspace(&self) -> Workspace {
        let mut all = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        all.pop().unwrap_or_default()
    }

    /// Keeps buffers for the next step.
    pub(crate) fn keep_workspace(&self, workspace: Workspace) {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner).push(workspace);
    }

    /// The embedding matrix: the one that an end of a tied model holds already, or a new one.
    fn tied_matrix(&self) -> Result<Arc<Matrix>, Fault> {
        if let Some(embedding) = &self.embedding {
            return Ok(Arc::clone(embedding));
        }
        match &self.head {
            Some(head) if self.file.shape().tied_output => Ok(Arc::clone(&head.output)),
            _ => {
                let spec = &self.file.description().embedding;
                let mut loading = Loading {
                    file: &self.file,
                    compute: &self.compute,
                    arithmetic: self.arithmetic,
                };
                Ok(Arc::new(loading.matrix(spec)?))
            }
        }
    }

    fn check_layers(&self, layers: LayerRange) -> Result<(), ModelError> {
        let total = self.file.shape().layers;
        if LayerRange::all(total).contains(layers) {
            return Ok(());
        }
        Err(self.file.error(Fault::NoSuchLayers { layers: total, asked: layers.to_string() }))
    }
}
