//! The validated order of places that one prompt routes through.
//!
//! A [`Route`] exists only in a legal shape: every layer exactly once and in order, token ids enter
//! and logits leave on this device (invariant I-2). `nook-pipeline` relies on that without checking
//! again; the node shows it to the user.

use nook_base::{LayerRange, ModelPart, PeerId, limits::HOPS_MAX};

use crate::{Hop, Topology};

/// Who computes a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A worker of this device.
    Local,
    /// A paired device.
    Peer(PeerId),
}

/// One stretch of the route: one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// What is computed.
    pub part: ModelPart,
    /// Where.
    pub place: Place,
}

/// An end of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// Token ids come in here.
    #[error("embedding")]
    Embedding,
    /// Logits go out here.
    #[error("head")]
    Head,
}

/// All layers `0..L` in order: the first segment embeds, the last has the head, both are local.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    segments: Vec<Segment>,
    layers: u32,
}

/// Segments that are no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// There is no segment, or no layer.
    #[error("a route has at least one segment and one layer")]
    Empty,
    /// A layer is computed by nobody.
    #[error("nobody computes layer {layer}")]
    Gap {
        /// The first such layer.
        layer: u32,
    },
    /// A layer is computed twice, or out of order.
    #[error("layer {layer} comes twice, or out of order")]
    Overlap {
        /// The first such layer.
        layer: u32,
    },
    /// A segment reaches beyond the model.
    #[error("a segment ends at layer {end}, the model has {layers}")]
    BeyondTheModel {
        /// Where it ends.
        end: u32,
        /// Layers of the model.
        layers: u32,
    },
    /// A segment holds neither a layer nor an end.
    #[error("segment {index} computes nothing")]
    EmptySegment {
        /// Which.
        index: usize,
    },
    /// The embedding is not exactly in the first segment, or the head not exactly in the last.
    #[error("the {end} is missing from its end of the route, or stands elsewhere: segment {index}")]
    EndMisplaced {
        /// Which end.
        end: End,
        /// The segment that is wrong about it.
        index: usize,
    },
    /// Another device would read token ids or return logits.
    #[error("the {end} may not be on another device ({peer:?})")]
    EndOnAnotherDevice {
        /// Which end.
        end: End,
        /// The device.
        peer: PeerId,
    },
    /// More devices than [`HOPS_MAX`].
    #[error("{hops} hops are more than the {HOPS_MAX} a route may have")]
    TooManyHops {
        /// Calls to other devices.
        hops: usize,
    },
}

impl Route {
    /// Proves that `segments` cover a model of `layers` layers, contiguously, with local ends.
    pub fn new(layers: u32, segments: Vec<Segment>) -> Result<Self, RouteError> {
        if segments.is_empty() || layers == 0 {
            return Err(RouteError::Empty);
        }
        let last = segments.len() - 1;
        let mut cursor = 0;
        for (index, segment) in segments.iter().enumerate() {
            check_ends(index, last, segment)?;
            cursor = check_layers(index, cursor, segment)?;
        }
        if cursor < layers {
            return Err(RouteError::Gap { layer: cursor });
        }
        if cursor > layers {
            return Err(RouteError::BeyondTheModel { end: cursor, layers });
        }
        let route = Self { segments, layers };
        match route.hops() {
            hops if hops > HOPS_MAX => Err(RouteError::TooManyHops { hops }),
            _ => Ok(route),
        }
    }

    /// Everything on this device, in one call.
    pub fn alone(layers: u32) -> Result<Self, RouteError> {
        Self::new(layers, vec![Segment { part: ModelPart::whole(layers), place: Place::Local }])
    }

    /// This device's prefix, the hops, this device's suffix. A topology without a middle takes no
    /// hops and runs alone.
    pub fn boomerang(topology: Topology, hops: &[Hop]) -> Result<Self, RouteError> {
        if topology.is_alone() && hops.is_empty() {
            return Self::alone(topology.layers());
        }
        let local = |layers: LayerRange, embedding, head| Segment {
            part: ModelPart { layers, embedding, head },
            place: Place::Local,
        };
        let mut segments = vec![local(topology.prefix(), true, false)];
        segments.extend(hops.iter().map(|hop| Segment {
            part: ModelPart::inner(hop.layers),
            place: Place::Peer(hop.peer),
        }));
        segments.push(local(topology.suffix(), false, true));
        Self::new(topology.layers(), segments)
    }

    /// The segments, in layer order; at least one.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Layers of the model.
    #[must_use]
    pub fn layers(&self) -> u32 {
        self.layers
    }

    /// Calls to other devices.
    #[must_use]
    pub fn hops(&self) -> usize {
        self.segments.iter().filter(|segment| segment.place != Place::Local).count()
    }
}

fn check_ends(index: usize, last: usize, segment: &Segment) -> Result<(), RouteError> {
    let ends = [
        (End::Embedding, segment.part.embedding, index == 0),
        (End::Head, segment.part.head, index == last),
    ];
    for (end, is_here, belongs_here) in ends {
        match segment.place {
            Place::Peer(peer) if is_here || belongs_here => {
                return Err(RouteError::EndOnAnotherDevice { end, peer });
            }
            _ if is_here != belongs_here => return Err(RouteError::EndMisplaced { end, index }),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the next uncovered layer.
fn check_layers(index: usize, cursor: u32, segment: &Segment) -> Result<u32, RouteError> {
    let part = segment.part;
    let has_end = part.embedding || part.head;
    if part.layers.is_empty() {
        return if has_end { Ok(cursor) } else { Err(RouteError::EmptySegment { index }) };
    }
    match part.layers.start().cmp(&cursor) {
        std::cmp::Ordering::Greater => Err(RouteError::Gap { layer: cursor }),
        std::cmp::Ordering::Less => Err(RouteError::Overlap { layer: part.layers.start() }),
        std::cmp::Ordering::Equal => Ok(part.layers.end()),
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local => f.write_str("this device"),
            Self::Peer(peer) => f.write_str(&peer.short()),
        }
    }
}
