//! Both devices of one computer for one model: layers lie on the GPU as far as it has memory for
//! them, all others in the memory of the processor.
//!
//! Where a layer lies is settled when it is loaded first and never changes afterwards, so that a
//! session that remembers something of it finds it there. The embedding is only looked up, so it
//! takes no memory of the GPU, unless it is the output matrix as well. A step goes through the
//! stretches of neighbouring layers on one device in turn; hidden states cross the bus between two
//! of them. Some of the GPU's memory is left for what conversations will remember there.

use nook_base::{DeviceBytes, LayerRange, ModelPart};
use nook_kernels::{CacheKind, Compute};

use super::gpu::{self, GpuExecutor};
use super::pass::{self, BatchPiece, ROWS_AT_ONCE};
use super::session::{Input, Output, StepError};
use super::{Cpu, EMBEDDING, HEAD, LoadedModel};
use crate::error::Fault;
use crate::file::ModelFile;

/// Positions that the GPU's memory is kept for, of all its layers: one long conversation, or
/// several short ones. A wider window of the model is not always used, and weights on the GPU
/// always are.
const POSITIONS_KEPT_FREE: u32 = 8192;

/// Rows of logits that a step is expected to give at a time: one of each conversation.
const LOGIT_ROWS: u64 = 16;

const ENDS: ModelPart = ModelPart { layers: LayerRange::all(0), embedding: true, head: true };

/// Room on the GPU that is promised beside what lies there.
struct Booked {
    bytes: u64,
    /// Bytes there that may still be promised, with what conversations over the new layers take.
    left: u64,
    /// The layers there, also those that are promised.
    layers: Vec<u32>,
}

/// A GPU and the processor beside it.
#[derive(Debug)]
pub(crate) struct Divided {
    pub(crate) gpu: GpuExecutor,
    pub(crate) cpu: Cpu,
    cache: CacheKind,
    /// Of each layer, once it was to be loaded.
    layers: Vec<Option<Home>>,
    /// Of the output matrix.
    head: Option<Home>,
    /// Bytes of the GPU's memory that are kept for what a step computes with.
    step_bytes: u64,
}

/// Where a part of a model lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    Gpu,
    Cpu,
}

impl Divided {
    pub(crate) fn new(gpu: GpuExecutor, cpu: Cpu, cache: CacheKind, file: &ModelFile) -> Self {
        let layers = vec![None; file.shape().layers as usize];
        Self { gpu, cpu, cache, layers, head: None, step_bytes: step_bytes(file) }
    }

    /// Loads what is missing of `part`, each layer where it belongs; what is new on the GPU takes no
    /// more than `gpu_max` bytes there, with what conversations over it will remember.
    pub(crate) fn load(
        &mut self,
        file: &ModelFile,
        part: &ModelPart,
        (compute, gpu_max): (&Compute, u64),
    ) -> Result<(), Fault> {
        file.require(part)?;
        let mut left = gpu_max;
        for index in part.layers.iter() {
            if self.missing(&one_layer(index)).is_some() {
                // What cannot be cut apart lies together: one layer may read what another remembers.
                let bound = bound_to(file, index);
                let together = ModelPart::inner(bound.intersection(part.layers));
                let home = self.home(file, index, &mut self.booked(left));
                let home = self.load_at(home, file, &together, compute)?;
                if home == Home::Gpu {
                    left = left.saturating_sub(self.room_for(file, &together));
                }
                for bound in bound.iter() {
                    if let Some(settled) = self.layers.get_mut(bound as usize) {
                        *settled = Some(home);
                    }
                }
            }
        }
        if part.head && self.missing(&HEAD).is_some() {
            let home = self.home_of_head(file, &mut self.booked(left));
            let home = self.load_at(home, file, &HEAD, compute)?;
            if home == Home::Gpu {
                left = left.saturating_sub(self.room_for(file, &HEAD));
            }
            self.head = Some(home);
        }
        if part.embedding && self.missing(&EMBEDDING).is_some() {
            let home = self.home_of_embedding(file, &mut self.booked(left));
            let home = self.load_at(home, file, &EMBEDDING, compute)?;
            if ends_are_one(file) {
                self.head = Some(home);
            }
        }
        Ok(())
    }

    /// Loads `part` at `home`, or with the processor where a GPU that could be chosen freely has
    /// less memory than it said.
    fn load_at(
        &mut self,
        (home, is_settled): (Home, bool),
        file: &ModelFile,
        part: &ModelPart,
        compute: &Compute,
    ) -> Result<Home, Fault> {
        if home == Home::Gpu {
            match self.gpu.load(file, part) {
                Err(fault) if fault.is_out_of_memory() && !is_settled => {
                    self.gpu.inventory.release(part.layers);
                }
                done => return done.map(|()| Home::Gpu),
            }
        }
        self.cpu.load(file, part, compute).map(|()| Home::Cpu)
    }

    /// Where the layer `index` lies, or would, and whether that is settled.
    fn home(&self, file: &ModelFile, index: u32, booked: &mut Booked) -> (Home, bool) {
        if let Some(Some(settled)) = self.layers.get(index as usize) {
            return (*settled, true);
        }
        let bound = ModelPart::inner(bound_to(file, index));
        // The first of several that lie together books room for all of them.
        let is_booked = booked.layers.contains(&index);
        let fits = is_booked || self.has_room(file, &bound, booked);
        (if fits { Home::Gpu } else { Home::Cpu }, false)
    }

    fn home_of_head(&self, file: &ModelFile, booked: &mut Booked) -> (Home, bool) {
        if let Some(settled) = self.head {
            return (settled, true);
        }
        let fits = self.has_room(file, &HEAD, booked);
        (if fits { Home::Gpu } else { Home::Cpu }, false)
    }

    fn home_of_embedding(&self, file: &ModelFile, booked: &mut Booked) -> (Home, bool) {
        if ends_are_one(file) {
            return self.home_of_head(file, booked);
        }
        (Home::Cpu, true)
    }

    /// Nothing is booked beside what is there, and `left` bytes may be.
    fn booked(&self, left: u64) -> Booked {
        let settled = (0u32..).zip(&self.layers);
        let on_gpu = settled.filter(|(_, home)| **home == Some(Home::Gpu));
        Booked { bytes: 0, left, layers: on_gpu.map(|(index, _)| index).collect() }
    }

    /// Lets every layer be placed anew when it is loaded next, but for those that are held and those
    /// that lie with them. Nothing may remember any of them.
    pub(crate) fn unsettle(&mut self, file: &ModelFile) {
        let (gpu, cpu) = (&self.gpu.inventory, &self.cpu.inventory);
        let is_held = |index| gpu.layer(index).is_some() || cpu.layer(index).is_some();
        for (index, home) in (0u32..).zip(&mut self.layers) {
            if !bound_to(file, index).iter().any(is_held) {
                *home = None;
            }
        }
        if gpu.head().is_none() && cpu.head().is_none() {
            self.head = None;
        }
    }

    /// Bytes of the GPU's memory that are kept for what conversations over the layer `index` will
    /// remember there.
    pub(crate) fn kept_free(&self, file: &ModelFile, index: u32) -> u64 {
        let positions = gpu::whole_blocks(file.shape().context_length.min(POSITIONS_KEPT_FREE));
        file.cache_bytes_as(self.cache, LayerRange::with_len(index, 1), positions)
    }

    /// Bytes of the GPU's memory that `part` needs there, with what is kept for conversations.
    fn room_for(&self, file: &ModelFile, part: &ModelPart) -> u64 {
        let caches: u64 = part.layers.iter().map(|index| self.kept_free(file, index)).sum();
        self.gpu.part_bytes(file, part).saturating_add(caches)
    }

    /// Books room on the GPU for `part`, if there is any beside what conversations over the layers
    /// there will take. What they take already is counted twice: rather too much is left than too
    /// little.
    fn has_room(&self, file: &ModelFile, part: &ModelPart, booked: &mut Booked) -> bool {
        let gpu = self.gpu.gpu();
        let free = gpu.budget_bytes().saturating_sub(gpu.used_bytes());
        let layers = booked.layers.iter().copied().chain(part.layers.iter());
        let caches = layers.map(|index| self.kept_free(file, index));
        let needed = self.room_for(file, part);
        let bytes = booked.bytes.saturating_add(self.gpu.part_bytes(file, part));
        let fits = bytes.saturating_add(caches.sum::<u64>()).saturating_add(self.step_bytes)
            <= free
            && needed <= booked.left;
        if fits {
            booked.bytes = bytes;
            booked.left -= needed;
            booked.layers.extend(part.layers.iter());
        }
        fits
    }

    /// Where the layer `index` computes.
    pub(crate) fn home_of_layer(&self, index: u32) -> Home {
        self.layers.get(index as usize).copied().flatten().unwrap_or(Home::Cpu)
    }

    /// What of `part` is not held, in words.
    pub(crate) fn missing(&self, part: &ModelPart) -> Option<String> {
        let (gpu, cpu) = (&self.gpu.inventory, &self.cpu.inventory);
        if part.embedding && gpu.embedding().is_none() && cpu.embedding().is_none() {
            return Some("the embedding".to_owned());
        }
        if part.head && gpu.head().is_none() && cpu.head().is_none() {
            return Some("the head".to_owned());
        }
        let is_there = |index: u32| gpu.layer(index).is_some() || cpu.layer(index).is_some();
        let missing = part.layers.iter().find(|index| !is_there(*index))?;
        Some(format!("layer {missing}"))
    }

    /// The layers that are held: ranges in order that do not touch.
    pub(crate) fn held(&self) -> Vec<LayerRange> {
        let mut layers: Vec<u32> = [self.gpu.inventory.held(), self.cpu.inventory.held()]
            .into_iter()
            .flatten()
            .flat_map(|range| range.iter().collect::<Vec<_>>())
            .collect();
        layers.sort_unstable();
        LayerRange::joined(layers)
    }

    /// Bytes of `part` where it lies, or would if a load may take `gpu_max` bytes of the GPU.
    pub(crate) fn part_bytes(
        &self,
        file: &ModelFile,
        part: &ModelPart,
        gpu_max: u64,
    ) -> DeviceBytes {
        let mut booked = self.booked(gpu_max);
        let mut bytes = DeviceBytes::default();
        let mut count = |home: Home, part: &ModelPart| match home {
            Home::Gpu => bytes.gpu += self.gpu.part_bytes(file, part),
            Home::Cpu => bytes.memory += file.weight_bytes(part),
        };
        for index in part.layers.iter() {
            count(self.home(file, index, &mut booked).0, &one_layer(index));
        }
        let head = part.head.then(|| self.home_of_head(file, &mut booked).0);
        let embedding = match head {
            Some(head) if part.embedding && ends_are_one(file) => Some(head),
            _ => part.embedding.then(|| self.home_of_embedding(file, &mut booked).0),
        };
        match (head, embedding) {
            // The two ends of a tied model are one matrix where they lie together.
            (Some(head), Some(embedding)) if head == embedding => count(head, &ENDS),
            _ => {
                if let Some(home) = head {
                    count(home, &HEAD);
                }
                if let Some(home) = embedding {
                    count(home, &EMBEDDING);
                }
            }
        }
        bytes
    }

    /// Bytes that one session over `layers` takes at `positions` positions, where those layers lie
    /// or would, as in [`Self::part_bytes`].
    pub(crate) fn cache_bytes(
        &self,
        file: &ModelFile,
        layers: LayerRange,
        (positions, gpu_max): (u32, u64),
    ) -> DeviceBytes {
        let mut booked = self.booked(gpu_max);
        let mut bytes = DeviceBytes::default();
        for index in layers.iter() {
            let of = |positions| {
                file.cache_bytes_as(self.cache, LayerRange::with_len(index, 1), positions)
            };
            match self.home(file, index, &mut booked).0 {
                Home::Gpu => bytes.gpu += of(gpu::whole_blocks(positions)),
                Home::Cpu => bytes.memory += of(positions),
            }
        }
        bytes
    }

    /// Computes the positions of `batch`, of which each piece has so many as `counts` says.
    pub(crate) fn forward(
        &self,
        model: &LoadedModel,
        batch: &mut [BatchPiece<'_>],
        counts: &[u32],
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Output>, StepError> {
        let part = batch.first().map(|piece| piece.session.part()).ok_or(StepError::Empty)?;
        let mut came: Option<Vec<Output>> = None;
        for (home, stretch) in self.stretches(&part) {
            let mut lent: Vec<_> =
                batch.iter_mut().map(|piece| piece.session.lend(stretch)).collect();
            let pieces = lent.iter_mut().zip(&*batch).enumerate();
            let mut pieces: Vec<BatchPiece<'_>> = pieces
                .map(|(index, (session, piece))| {
                    let before = came.as_ref().and_then(|outputs| outputs.get(index));
                    let input = match before {
                        Some(Output::Hidden(hidden)) => Input::Hidden(hidden),
                        _ => piece.input,
                    };
                    BatchPiece { session, input, rows: piece.rows }
                })
                .collect();
            let done = match home {
                Home::Gpu => self.gpu.forward(model, &mut pieces, counts, cancelled),
                Home::Cpu => pass::on_cpu(model, &self.cpu, &mut pieces, counts, cancelled),
            };
            // Also after a failure: the caller takes back what it left.
            for (piece, lent) in batch.iter_mut().zip(lent) {
                piece.session.take_back(lent);
            }
            came = Some(done?);
        }
        came.ok_or(StepError::Empty)
    }

    /// The parts of `part` that one device computes without the other, in order; at least one.
    fn stretches(&self, part: &ModelPart) -> Vec<(Home, ModelPart)> {
        let begin = LayerRange::with_len(part.layers.start(), 0);
        let mut all: Vec<(Home, ModelPart)> = Vec::new();
        if part.embedding {
            let on_gpu = self.gpu.inventory.embedding().is_some();
            let home = if on_gpu { Home::Gpu } else { Home::Cpu };
            all.push((home, ModelPart { layers: begin, embedding: true, head: false }));
        }
        for index in part.layers.iter() {
            let home = self.home_of_layer(index);
            match all.last_mut() {
                Some((last, stretch)) if *last == home => {
                    let len = stretch.layers.len() + 1;
                    stretch.layers = LayerRange::with_len(stretch.layers.start(), len);
                }
                _ => all.push((home, one_layer(index))),
            }
        }
        if part.head {
            let home = self.head.unwrap_or(Home::Cpu);
            let end = LayerRange::with_len(part.layers.end(), 0);
            match all.last_mut() {
                Some((last, stretch)) if *last == home => stretch.head = true,
                _ => all.push((home, ModelPart { layers: end, embedding: false, head: true })),
            }
        }
        if all.is_empty() {
            all.push((Home::Cpu, *part));
        }
        all
    }
}

/// Bytes that the widest step needs between its products: what each matrix of a layer gives for each
/// row, some rows of the hidden width beside, and some rows of logits, in single precision.
fn step_bytes(file: &ModelFile) -> u64 {
    let shape = file.shape();
    let rows_of = |index| {
        let layer = one_layer(index);
        let rows = file.tensors_of(&layer).filter_map(|tensor| tensor.dimensions.get(1).copied());
        rows.fold(0, u64::saturating_add)
    };
    let widest = (0..shape.layers).map(rows_of).max().unwrap_or(0);
    let width = widest.saturating_add(4 * u64::from(shape.hidden));
    let numbers = width.saturating_mul(ROWS_AT_ONCE as u64);
    let logits = LOGIT_ROWS * u64::from(shape.vocabulary);
    numbers.saturating_add(logits).saturating_mul(size_of::<f32>() as u64)
}

/// Whether both ends lie on one device, as one matrix. Where tokens have inputs for the layers, the
/// table of those, which is only looked up, lies with the processor and the embedding beside it.
fn ends_are_one(file: &ModelFile) -> bool {
    file.shape().tied_output && file.description().layer_inputs.is_none()
}

/// The layers that the layer `index` cannot be cut apart from, itself among them.
fn bound_to(file: &ModelFile, index: u32) -> LayerRange {
    let (mut start, mut end) = (index, index + 1);
    while start > 0 && !file.may_cut(start) {
        start -= 1;
    }
    while end < file.shape().layers && !file.may_cut(end) {
        end += 1;
    }
    LayerRange::with_len(start, end - start)
}

fn one_layer(index: u32) -> ModelPart {
    ModelPart::inner(LayerRange::with_len(index, 1))
}
