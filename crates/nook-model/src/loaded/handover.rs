//! What sessions remember, as bytes for another host that goes on with them.
//!
//! A host gives the caches of some layers away ([`Session::export`]), and a host that holds those
//! layers takes them in ([`Session::import`]). Long sessions go in parts: ranges of positions in
//! order, each for all layers of the receiving session. Whatever does not follow what the receiver
//! has, in layers or in positions, is refused, and a refusal changes nothing. Numbers are handed
//! over as they are kept, so the receiver computes with the very bits.

use std::ops::Range;

use nook_base::LayerRange;
pub use nook_kernels::cache::handover::HandoverError as CacheHandoverError;

use crate::loaded::session::Session;
use crate::parts::LayerState;

/// What one layer of a session remembers of some positions.
#[derive(Clone, PartialEq, Eq)]
pub struct LayerExport {
    /// Which layer of the model.
    pub layer: u32,
    /// What it remembers; the bytes say for which positions.
    pub bytes: Vec<u8>,
}

/// What could not be handed over. The session is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandoverError {
    /// Layers that the session does not have.
    #[error("layers {asked} are not all among the layers {held} of this session")]
    NoSuchLayers {
        /// Layers asked for.
        asked: LayerRange,
        /// Layers of the session.
        held: LayerRange,
    },
    /// Not every layer of the session once, in order.
    #[error("{got} comes where layer {expected} should")]
    Order {
        /// The layer that must come.
        expected: u32,
        /// What came.
        got: String,
    },
    /// More layers than the session has.
    #[error("layer {layer} comes after all layers of this session")]
    Surplus {
        /// The layer that came.
        layer: u32,
    },
    /// The layers were handed over for different positions.
    #[error("layer {layer} goes to position {got}, those before it to {expected}")]
    Uneven {
        /// The layer.
        layer: u32,
        /// Positions of the layers before it.
        expected: u32,
        /// Its positions.
        got: u32,
    },
    /// More positions than the session may have.
    #[error("{positions} positions do not fit the {limit} of this session")]
    TooLong {
        /// Positions it would have.
        positions: u32,
        /// Most positions of the session.
        limit: u32,
    },
    /// One layer could not be handed over.
    #[error("layer {layer}: {error}")]
    Layer {
        /// The layer.
        layer: u32,
        /// What is wrong.
        #[source]
        error: CacheHandoverError,
    },
}

impl Session {
    /// What `layers` remember of `positions`, layer by layer. Layers that remember in one state
    /// give it whole: for them `positions` must be all of the session's.
    pub fn export(
        &self,
        layers: LayerRange,
        positions: Range<u32>,
    ) -> Result<Vec<LayerExport>, HandoverError> {
        let held = self.part.layers;
        if !held.contains(layers) {
            return Err(HandoverError::NoSuchLayers { asked: layers, held });
        }
        let wanted =
            held.iter().zip(&self.states).filter(|(layer, _)| layers.contains_layer(*layer));
        wanted
            .map(|(layer, state)| match state.export(positions.clone()) {
                Ok(bytes) => Ok(LayerExport { layer, bytes }),
                Err(error) => Err(HandoverError::Layer { layer, error }),
            })
            .collect()
    }

    /// Adds what other hosts exported: the next positions of every layer of this session, in order.
    /// The room that they take must have been promised before
    /// ([`crate::LoadedModel::cache_bytes`]).
    pub fn import(&mut self, exports: &[LayerExport]) -> Result<(), HandoverError> {
        let before = self.position;
        match self.take_in(exports) {
            Ok(position) => {
                self.position = position;
                Ok(())
            }
            Err(error) => {
                self.states.iter_mut().for_each(|state| state.truncate(before));
                Err(error)
            }
        }
    }

    /// The position after everything was added.
    fn take_in(&mut self, exports: &[LayerExport]) -> Result<u32, HandoverError> {
        let layers = self.part.layers;
        if let Some(surplus) = exports.get(self.states.len()) {
            return Err(HandoverError::Surplus { layer: surplus.layer });
        }
        let mut position = None;
        for (index, (layer, state)) in layers.iter().zip(&mut self.states).enumerate() {
            let export = match exports.get(index) {
                Some(export) if export.layer == layer => export,
                other => {
                    let got = other.map_or("nothing".to_owned(), |e| format!("layer {}", e.layer));
                    return Err(HandoverError::Order { expected: layer, got });
                }
            };
            let taken = state.import(&export.bytes);
            taken.map_err(|error| HandoverError::Layer { layer, error })?;
            let got = state.positions();
            let expected = *position.get_or_insert(got);
            if got != expected {
                return Err(HandoverError::Uneven { layer, expected, got });
            }
            if got > self.positions_max {
                return Err(HandoverError::TooLong { positions: got, limit: self.positions_max });
            }
        }
        // A part without layers remembers nothing and has nothing to take in.
        Ok(position.unwrap_or(self.position))
    }
}

impl LayerState {
    /// Positions that count.
    fn positions(&self) -> u32 {
        match self {
            // A session's positions are counted in 32 bits.
            Self::Keys(cache) => u32::try_from(cache.positions()).unwrap_or(u32::MAX),
            Self::Recurrent(state) => state.position(),
            Self::Nothing(state) => state.position(),
            Self::OnDevice(state) => state.position(),
        }
    }
}

impl std::fmt::Debug for LayerExport {
    /// Sizes only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "layer {}: {} bytes", self.layer, self.bytes.len())
    }
}
