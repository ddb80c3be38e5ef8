//! The shapes that a route can have, by name, and the ones that are refused.
//!
//! A [`Route`] proves that layers and ends are legal; a [`Shape`] says which of the known
//! topologies it is, and [`Shape::topology`] makes the division that the owner asked for by name.
//! *Whole elsewhere* is the one shape in which token ids leave this device; it exists only towards
//! a device of the same person, and its proof is [`OffloadPermit`].

use std::fmt;

use nook_base::PeerId;

use crate::facts::Owner;
use crate::route::{Place, Route};
use crate::topology::{PlanError, Topology};

/// Which device computes which end, and how much with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// No hops: everything is computed here.
    Alone,
    /// Layers `0..layers` are computed here, all others elsewhere; only norm and head return.
    PrefixOwned {
        /// Layers at the start.
        layers: u32,
    },
    /// Layers `from..` and the head are computed here, all others elsewhere; the start only embeds.
    SuffixOwned {
        /// First layer that is computed here.
        from: u32,
    },
    /// The boomerang: layers at both ends are computed here.
    BothEnds {
        /// Layers at the start.
        prefix: u32,
        /// Layers at the end.
        suffix: u32,
    },
    /// Embedding and head are here, and no layer is.
    EndsWithoutLayers,
    /// Everything, both ends included, is computed by one other device.
    OffloadPolicy {
        /// That device.
        peer: PeerId,
    },
}

/// Shapes that no route has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The numbers do not divide the model.
    #[error("{0}")]
    Division(#[from] PlanError),
    /// A prefix-owned or suffix-owned shape that keeps nothing, or everything, here.
    #[error("{shape} leaves {left} of {layers} layers to other devices: that is another shape")]
    Degenerate {
        /// What was asked for.
        shape: Shape,
        /// Layers that others would compute.
        left: u32,
        /// Layers of the model.
        layers: u32,
    },
    /// The whole request would go to somebody else's device.
    #[error(
        "the whole request may go only to a device of trust `own`; {} is not one", peer.short()
    )]
    OffloadNeedsOwnDevice {
        /// That device.
        peer: PeerId,
    },
    /// A whole request is not divided, so there is no topology of it.
    #[error("a whole request on another device is not divided into ends and middle")]
    OffloadIsNotDivided,
}

/// Proof that a whole request may go to `peer`: the gate said that it is the same person's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OffloadPermit {
    peer: PeerId,
}

impl Shape {
    /// The shape of a route.
    #[must_use]
    pub fn of(route: &Route) -> Self {
        if route.hops() == 0 {
            return Self::Alone;
        }
        let here = |segment: &&crate::Segment| segment.place == Place::Local;
        let prefix: u32 =
            route.segments().iter().take_while(here).map(|segment| segment.part.layers.len()).sum();
        let suffix: u32 = route
            .segments()
            .iter()
            .rev()
            .take_while(here)
            .map(|segment| segment.part.layers.len())
            .sum();
        match (prefix, suffix) {
            (0, 0) => Self::EndsWithoutLayers,
            (layers, 0) => Self::PrefixOwned { layers },
            (0, suffix) => Self::SuffixOwned { from: route.layers() - suffix },
            (prefix, suffix) => Self::BothEnds { prefix, suffix },
        }
    }

    /// The division of a model of `layers` layers that this shape names.
    pub fn topology(self, layers: u32) -> Result<Topology, ShapeError> {
        let (prefix, suffix) = match self {
            Self::Alone => (layers, 0),
            Self::PrefixOwned { layers: prefix } => (prefix, 0),
            Self::SuffixOwned { from } => {
                let beyond = PlanError::EndsOverlap { prefix: from, suffix: 0, layers };
                (0, layers.checked_sub(from).ok_or(ShapeError::Division(beyond))?)
            }
            Self::BothEnds { prefix, suffix } => (prefix, suffix),
            Self::EndsWithoutLayers => (0, 0),
            Self::OffloadPolicy { .. } => return Err(ShapeError::OffloadIsNotDivided),
        };
        let topology = Topology::new(layers, prefix, suffix)?;
        let left = topology.middle().len();
        let is_degenerate = match self {
            Self::PrefixOwned { .. } => prefix == 0 || left == 0,
            Self::SuffixOwned { .. } => suffix == 0 || left == 0,
            Self::BothEnds { .. } => prefix == 0 || suffix == 0 || left == 0,
            Self::Alone | Self::EndsWithoutLayers | Self::OffloadPolicy { .. } => false,
        };
        if is_degenerate {
            return Err(ShapeError::Degenerate { shape: self, left, layers });
        }
        Ok(topology)
    }
}

impl OffloadPermit {
    /// The whole request on `peer`, which belongs to `owner`.
    pub fn new(peer: PeerId, owner: Owner) -> Result<Self, ShapeError> {
        match owner {
            Owner::Me => Ok(Self { peer }),
            Owner::Another => Err(ShapeError::OffloadNeedsOwnDevice { peer }),
        }
    }

    /// The device.
    #[must_use]
    pub fn peer(self) -> PeerId {
        self.peer
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone => f.write_str("everything here"),
            Self::PrefixOwned { layers } => write!(f, "prefix-owned (0:{layers})"),
            Self::SuffixOwned { from } => write!(f, "suffix-owned ({from}:output)"),
            Self::BothEnds { prefix, suffix } => write!(f, "both ends ({prefix} and {suffix})"),
            Self::EndsWithoutLayers => f.write_str("both ends without a layer"),
            Self::OffloadPolicy { peer } => write!(f, "everything on {}", peer.short()),
        }
    }
}

#[cfg(test)]
mod tests {
    use nook_base::LayerRange;

    use super::*;
    use crate::Hop;

    const PEER: PeerId = PeerId([9; 32]);

    #[test]
    fn every_shape_names_the_route_that_its_topology_makes() {
        for shape in [
            Shape::Alone,
            Shape::PrefixOwned { layers: 3 },
            Shape::SuffixOwned { from: 5 },
            Shape::BothEnds { prefix: 1, suffix: 2 },
            Shape::EndsWithoutLayers,
        ] {
            let topology = shape.topology(8).unwrap();
            let hop = Hop { peer: PEER, layers: topology.middle() };
            let hops = if topology.is_alone() { vec![] } else { vec![hop] };
            let route = Route::boomerang(topology, &hops).unwrap();
            assert_eq!(Shape::of(&route), shape);
        }
    }

    #[test]
    fn shapes_that_are_none_are_refused_by_name() {
        let degenerate = |shape, left| Err(ShapeError::Degenerate { shape, left, layers: 8 });
        for (shape, left) in [
            (Shape::PrefixOwned { layers: 0 }, 8),
            (Shape::PrefixOwned { layers: 8 }, 0),
            (Shape::SuffixOwned { from: 8 }, 8),
            (Shape::SuffixOwned { from: 0 }, 0),
            (Shape::BothEnds { prefix: 0, suffix: 3 }, 5),
            (Shape::BothEnds { prefix: 4, suffix: 4 }, 0),
        ] {
            assert_eq!(shape.topology(8), degenerate(shape, left));
        }
        let overlap = |prefix, suffix| {
            Err(ShapeError::Division(PlanError::EndsOverlap { prefix, suffix, layers: 8 }))
        };
        assert_eq!(Shape::SuffixOwned { from: 9 }.topology(8), overlap(9, 0));
        assert_eq!(Shape::BothEnds { prefix: 5, suffix: 4 }.topology(8), overlap(5, 4));
        let no_layers = Err(ShapeError::Division(PlanError::NoLayers));
        assert_eq!(Shape::Alone.topology(0), no_layers);
        let whole = Shape::OffloadPolicy { peer: PEER };
        assert_eq!(whole.topology(8), Err(ShapeError::OffloadIsNotDivided));
        let said = Shape::PrefixOwned { layers: 0 }.topology(8).unwrap_err().to_string();
        assert!(said.contains("prefix-owned (0:0)"), "{said}");
    }

    #[test]
    fn a_whole_request_goes_to_ones_own_device_only() {
        assert_eq!(OffloadPermit::new(PEER, Owner::Me).map(OffloadPermit::peer), Ok(PEER));
        let refused = Err(ShapeError::OffloadNeedsOwnDevice { peer: PEER });
        assert_eq!(OffloadPermit::new(PEER, Owner::Another), refused);
    }

    #[test]
    fn layers_of_this_device_in_the_middle_belong_to_no_end() {
        let peer = |start, len| crate::Segment {
            part: nook_base::ModelPart::inner(LayerRange::with_len(start, len)),
            place: Place::Peer(PEER),
        };
        let here = |start, len, embedding, head| crate::Segment {
            part: nook_base::ModelPart {
                layers: LayerRange::with_len(start, len),
                embedding,
                head,
            },
            place: Place::Local,
        };
        let segments = vec![
            here(0, 1, true, false),
            peer(1, 2),
            here(3, 2, false, false),
            peer(5, 1),
            here(6, 2, false, true),
        ];
        let route = Route::new(8, segments).unwrap();
        assert_eq!(Shape::of(&route), Shape::BothEnds { prefix: 1, suffix: 2 });
    }
}
