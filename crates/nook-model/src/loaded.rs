//! The weights that one worker holds: layers one by one, embedding and head apart.
//!
//! Ranges are views of what is held, so overlapping ranges never load a layer twice. Holding and
//! releasing need `&mut`, computing only `&`: several sessions may step at once from several threads.
//! They share the model's compute threads, so they gain nothing by it; the worker decides the order.

use std::sync::Arc;

use nook_base::{LayerRange, ModelPart};
use nook_kernels::{Compute, Matrix};

use crate::error::{Fault, ModelError};
use crate::family::{Layer, Shared};
use crate::file::ModelFile;
use crate::parts::RmsNorm;
use crate::session::Session;
use crate::weights::Weights;

/// How a model is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadOptions {
    /// Threads that compute; 0 counts as 1. Results do not depend on it.
    pub threads: usize,
}

/// A model with some of its weights in memory.
#[derive(Debug)]
pub struct LoadedModel {
    file: ModelFile,
    compute: Compute,
    shared: Option<Shared>,
    /// One place for each layer of the model.
    layers: Vec<Option<Box<dyn Layer>>>,
    embedding: Option<Arc<Matrix>>,
    head: Option<Head>,
}

/// What makes logits from hidden states.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) norm: RmsNorm,
    /// (vocabulary, hidden)
    pub(crate) output: Arc<Matrix>,
}

impl LoadedModel {
    /// A model of which nothing is held yet. Starts the compute threads.
    pub fn new(file: ModelFile, options: LoadOptions) -> Result<Self, ModelError> {
        match Compute::new(options.threads) {
            Ok(compute) => Ok(Self::with_compute(file, compute)),
            Err(_) => Err(file.error(Fault::NoThreads)),
        }
    }

    /// As [`Self::new`], computing where the caller says.
    #[must_use]
    pub fn with_compute(file: ModelFile, compute: Compute) -> Self {
        let mut layers = Vec::new();
        layers.resize_with(file.shape().layers as usize, || None);
        Self { file, compute, shared: None, layers, embedding: None, head: None }
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

    /// Loads what is missing of `part`. After a failure everything that was held is still held, and
    /// what was loaded before the failure too.
    pub fn hold(&mut self, part: &ModelPart) -> Result<(), ModelError> {
        self.check_layers(part.layers)?;
        let file = self.file.clone();
        let weights = Weights { file: &file };
        let unchanged = || file.reader().check_unchanged().map_err(|f| file.error(f));
        unchanged()?;
        if !part.layers.is_empty() && self.shared.is_none() {
            self.shared = Some(file.family().shared(&weights)?);
        }
        for index in part.layers.iter() {
            if self.layers[index as usize].is_none() {
                let layer = file.family().layer(&weights, index)?;
                // Before it counts as held: bytes that changed under the reader must not compute.
                unchanged()?;
                self.layers[index as usize] = Some(layer);
            }
        }
        if part.embedding && self.embedding.is_none() {
            let embedding = self.tied_matrix(&weights)?;
            unchanged()?;
            self.embedding = Some(embedding);
        }
        if part.head && self.head.is_none() {
            let epsilon = file.shape().norm_epsilon;
            let head = Head {
                norm: RmsNorm::load(&weights, "output_norm.weight", epsilon)?,
                output: if file.shape().tied_output {
                    self.tied_matrix(&weights)?
                } else {
                    Arc::new(weights.matrix("output.weight")?)
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
        Ok(Session::new(self.file.clone(), part, positions_max))
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

    pub(crate) fn layer(&self, index: u32) -> Option<&dyn Layer> {
        self.layers.get(index as usize)?.as_deref()
    }

    pub(crate) fn shared(&self) -> Option<&Shared> {
        self.shared.as_ref()
    }

    pub(crate) fn embedding(&self) -> Option<&Matrix> {
        self.embedding.as_deref()
    }

    pub(crate) fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The embedding matrix: the one that an end of a tied model holds already, or a new one.
    fn tied_matrix(&self, weights: &Weights<'_>) -> Result<Arc<Matrix>, ModelError> {
        if let Some(embedding) = &self.embedding {
            return Ok(Arc::clone(embedding));
        }
        match &self.head {
            Some(head) if self.file.shape().tied_output => Ok(Arc::clone(&head.output)),
            _ => Ok(Arc::new(weights.matrix("token_embd.weight")?)),
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
