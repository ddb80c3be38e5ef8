//! Files that hold only some tensors of their model: which bytes a part of the model needs, and
//! which parts are there.
//!
//! The record beside the file says what is there ([`crate::presence`]). It may grow while the file
//! is open; every answer here is of the moment.

use nook_base::{LayerRange, ModelPart};

use super::ModelFile;
use crate::error::Fault;
use crate::family::Place;
use crate::presence::Presence;

/// The bytes of one tensor in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorRange {
    /// Which tensor, counted from 0 in file order, as in [`crate::Manifest`] and [`Presence`].
    pub number: u32,
    /// Byte in the file where it begins.
    pub start: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

impl ModelFile {
    /// The tensors that `part` needs, in file order. Needs no tensor to be present.
    #[must_use]
    pub fn ranges_of(&self, part: &ModelPart) -> Vec<TensorRange> {
        let mut numbers: Vec<u32> = self.needed(part).map(|(number, _)| number).collect();
        // Two ropes may name the same tensor.
        numbers.sort_unstable();
        numbers.dedup();
        let tensors = self.inner.header.tensors();
        let range = |number: u32| {
            let tensor = tensors.get(number as usize)?;
            Some(TensorRange { number, start: tensor.start, bytes: tensor.bytes })
        };
        numbers.into_iter().filter_map(range).collect()
    }

    /// Whether some tensors of the model are not in this file. Then only the parts that are there
    /// load, and the file has no digest of its own.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.presence().is_some_and(|presence| !presence.is_complete())
    }

    /// What of a file with a record is present now, and of which model; `None` for a file without a
    /// record, which is whole.
    #[must_use]
    pub fn presence(&self) -> Option<Presence> {
        self.inner.reader.partial().map(|partial| partial.now())
    }

    /// Whether everything that `part` needs is in the file. False for layers that the model does
    /// not have.
    #[must_use]
    pub fn has_part(&self, part: &ModelPart) -> bool {
        let exists = LayerRange::all(self.shape().layers).contains(part.layers);
        let is_present = |presence: Presence| self.needed(part).all(|(at, _)| presence.has(at));
        exists && self.presence().is_none_or(is_present)
    }

    /// The layers that load from this file: ranges in order that do not touch. A layer counts when
    /// its tensors are there and those that every holder of any layer needs.
    #[must_use]
    pub fn layers_present(&self) -> Vec<LayerRange> {
        let all = LayerRange::all(self.shape().layers);
        let Some(presence) = self.presence() else {
            return LayerRange::joined(all.iter());
        };
        let mut is_present = vec![true; all.len() as usize];
        for (number, place) in self.needed(&ModelPart::inner(all)) {
            if !presence.has(number) {
                place.layers_in(all).for_each(|layer| is_present[layer as usize] = false);
            }
        }
        LayerRange::joined(all.iter().filter(|layer| is_present[*layer as usize]))
    }

    /// Fails when something that `part` needs has not arrived, and names all of it.
    pub(crate) fn require(&self, part: &ModelPart) -> Result<(), Fault> {
        let Some(partial) = self.inner.reader.partial() else {
            return Ok(());
        };
        let mut absent = partial.absent(self.needed(part).map(|(number, _)| number))?;
        if absent.is_empty() {
            return Ok(());
        }
        absent.sort_unstable();
        let is_absent = |(number, _): &(u32, Place)| absent.binary_search(number).is_ok();
        let places: Vec<Place> = self.needed(part).filter(is_absent).map(|(_, at)| at).collect();
        Err(Fault::Absent { what: in_words(&places, part) })
    }

    /// The tensors that `part` needs, in no order: number, and what needs it. One may come twice.
    fn needed(&self, part: &ModelPart) -> impl Iterator<Item = (u32, Place)> {
        let needed = self.inner.expected.iter().filter(|tensor| tensor.place.is_in(part));
        needed.filter_map(|tensor| {
            let number = self.inner.header.number_of(&tensor.name)?;
            Some((number, tensor.place))
        })
    }
}

/// What of `part` needs the tensors at `places`, for people.
fn in_words(places: &[Place], part: &ModelPart) -> String {
    let has = |wanted: &[Place]| places.iter().any(|place| wanted.contains(place));
    let mut layers: Vec<u32> = places.iter().flat_map(|at| at.layers_in(part.layers)).collect();
    layers.sort_unstable();
    layers.dedup();
    let mut words: Vec<String> =
        LayerRange::joined(layers).into_iter().map(|range| format!("layers {range}")).collect();
    if part.embedding && has(&[Place::Embedding, Place::BothEnds]) {
        words.push("the embedding".to_owned());
    }
    if part.head && has(&[Place::Head, Place::BothEnds]) {
        words.push("the head".to_owned());
    }
    words.join(", ")
}
