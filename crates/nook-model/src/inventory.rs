//! What of a model is in memory, whatever form its weights have there: layers one by one, embedding
//! and head apart.
//!
//! [`crate::LoadedModel`] owns one and tells it what to load; passes read from it. Nothing counts
//! as held before the file was seen unchanged after its last byte was read.

mod loading;
mod rows;

use std::sync::Arc;

use nook_base::{LayerRange, ModelPart};

use crate::error::Fault;
use crate::file::ModelFile;
use crate::parts::{Block, LayerInputs, Norm, OtherStreams, RopeSet};
use crate::weights::{Part, Source, Weights};

pub(crate) use loading::Loading;
pub(crate) use rows::Rows;

/// Weights in memory, in one form.
#[derive(Debug)]
pub(crate) struct Inventory<W: Weights> {
    ropes: Option<Vec<RopeSet>>,
    /// One place for each layer of the model.
    layers: Vec<Option<Block<W>>>,
    embedding: Option<Arc<W::Matrix>>,
    /// Held with the embedding, in models that have it.
    layer_inputs: Option<Box<LayerInputs<W>>>,
    /// Likewise: what makes several hidden states of one embedding.
    spread: Option<OtherStreams<W>>,
    head: Option<Head<W>>,
}

/// What makes logits from hidden states.
#[derive(Debug)]
pub(crate) struct Head<W: Weights> {
    /// What makes one hidden state of several, in models that have several.
    pub(crate) merge: Option<OtherStreams<W>>,
    pub(crate) norm: Norm<W>,
    /// (vocabulary, hidden)
    pub(crate) output: Arc<W::Matrix>,
}

impl<W: Weights<Numbers = Vec<f32>>> Inventory<W> {
    /// Nothing yet, of a model of so many layers.
    pub(crate) fn new(layers: u32) -> Self {
        let mut places = Vec::new();
        places.resize_with(layers as usize, || None);
        Self {
            ropes: None,
            layers: places,
            embedding: None,
            layer_inputs: None,
            spread: None,
            head: None,
        }
    }

    /// Loads what is missing of `part`. After a failure everything that was held is still held, and
    /// what was loaded before the failure too.
    pub(crate) fn load<S: Source<Into = W>>(
        &mut self,
        file: &ModelFile,
        part: &ModelPart,
        source: &mut S,
    ) -> Result<(), Fault> {
        let description = file.description();
        // All of it before anything is read, so that what is named is what must be fetched.
        file.require(part)?;
        // Asked each time before something counts as held: bytes that changed under the reader must
        // not compute.
        let unchanged = || file.reader().check_unchanged();
        unchanged()?;
        if !part.layers.is_empty() && self.ropes.is_none() {
            let mut ropes = Vec::new();
            for rope in &description.ropes {
                ropes.push(rope.read(source)?.build()?);
            }
            unchanged()?;
            self.ropes = Some(ropes);
        }
        for (index, block) in description.blocks.iter().enumerate() {
            let wanted = part.layers.contains_layer(index as u32);
            if wanted && self.layers[index].is_none() {
                source.together(block);
                let layer = block.read(source)?;
                unchanged()?;
                self.layers[index] = Some(layer);
            }
        }
        if part.embedding && self.embedding.is_none() {
            let embedding = self.tied_matrix(file, source)?;
            let layer_inputs = description.layer_inputs.read(source)?.map(Box::new);
            let streams = description.streams.as_ref();
            let spread = streams.map(|streams| streams.spread.read(source)).transpose()?;
            unchanged()?;
            self.embedding = Some(embedding);
            (self.layer_inputs, self.spread) = (layer_inputs, spread);
        }
        if part.head && self.head.is_none() {
            let streams = description.streams.as_ref();
            let head = Head {
                merge: streams.map(|streams| streams.merge.read(source)).transpose()?,
                norm: description.head.norm.read(source)?,
                output: match &description.head.output {
                    Some(output) => Arc::new(source.matrix(output)?),
                    None => self.tied_matrix(file, source)?,
                },
            };
            unchanged()?;
            self.head = Some(head);
        }
        Ok(())
    }

    /// Drops the layers of `layers` that are held.
    pub(crate) fn release(&mut self, layers: LayerRange) {
        let model = LayerRange::all(self.layers.len() as u32);
        for index in model.intersection(layers).iter() {
            self.layers[index as usize] = None;
        }
    }

    /// Drops the embedding.
    pub(crate) fn release_embedding(&mut self) {
        self.embedding = None;
        (self.layer_inputs, self.spread) = (None, None);
    }

    /// Drops the head.
    pub(crate) fn release_head(&mut self) {
        self.head = None;
    }

    /// The layers that are held: ranges in order that do not touch.
    pub(crate) fn held(&self) -> Vec<LayerRange> {
        let layers = (0u32..).zip(&self.layers);
        LayerRange::joined(layers.filter(|(_, layer)| layer.is_some()).map(|(index, _)| index))
    }

    /// What of `part` is not held, in words; `None` when nothing is missing.
    pub(crate) fn missing(&self, part: &ModelPart) -> Option<String> {
        if part.embedding && self.embedding.is_none() {
            return Some("the embedding".to_owned());
        }
        if part.head && self.head.is_none() {
            return Some("the head".to_owned());
        }
        let missing = part.layers.iter().find(|index| self.layer(*index).is_none())?;
        Some(format!("layer {missing}"))
    }

    pub(crate) fn layer(&self, index: u32) -> Option<&Block<W>> {
        self.layers.get(index as usize)?.as_ref()
    }

    pub(crate) fn ropes(&self) -> &[RopeSet] {
        self.ropes.as_deref().unwrap_or_default()
    }

    pub(crate) fn embedding(&self) -> Option<&W::Matrix> {
        self.embedding.as_deref()
    }

    pub(crate) fn layer_inputs(&self) -> Option<&LayerInputs<W>> {
        self.layer_inputs.as_deref()
    }

    pub(crate) fn spread(&self) -> Option<&OtherStreams<W>> {
        self.spread.as_ref()
    }

    pub(crate) fn head(&self) -> Option<&Head<W>> {
        self.head.as_ref()
    }

    /// The embedding matrix: the one that an end of a tied model holds already, or a new one.
    fn tied_matrix<S: Source<Into = W>>(
        &self,
        file: &ModelFile,
        source: &mut S,
    ) -> Result<Arc<W::Matrix>, Fault> {
        if let Some(embedding) = &self.embedding {
            return Ok(Arc::clone(embedding));
        }
        match &self.head {
            Some(head) if file.shape().tied_output => Ok(Arc::clone(&head.output)),
            _ => Ok(Arc::new(source.matrix(&file.description().embedding)?)),
        }
    }
}
