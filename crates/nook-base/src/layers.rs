//! Which part of a model: a contiguous range of transformer layers, with or without the two ends.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Transformer layers `start..end`, half open. May be empty; `start <= end` always holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct LayerRange {
    start: u32,
    end: u32,
}

/// A part of a model that one holder computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelPart {
    /// The transformer layers.
    pub layers: LayerRange,
    /// Whether token ids come in (the embedding is held), else activations do.
    pub embedding: bool,
    /// Whether logits go out (final norm and output matrix are held), else activations do.
    pub head: bool,
}

/// Two numbers that are not a layer range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("layers {start}..{end} run backwards")]
pub struct BackwardsRange {
    /// First number given.
    pub start: u32,
    /// Second number given.
    pub end: u32,
}

impl LayerRange {
    /// Layers `start..end`; fails when `start > end`.
    pub fn new(start: u32, end: u32) -> Result<Self, BackwardsRange> {
        if start <= end { Ok(Self { start, end }) } else { Err(BackwardsRange { start, end }) }
    }

    /// Layers `start..start + len`, saturating at `u32::MAX`.
    #[must_use]
    pub const fn with_len(start: u32, len: u32) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    /// All layers of a model of `layers` layers.
    #[must_use]
    pub const fn all(layers: u32) -> Self {
        Self { start: 0, end: layers }
    }

    /// `layers`, which ascend, as ranges in order that do not touch.
    #[must_use]
    pub fn joined(layers: impl IntoIterator<Item = u32>) -> Vec<Self> {
        let mut ranges: Vec<Self> = Vec::new();
        for layer in layers {
            match ranges.last_mut() {
                Some(last) if last.end == layer => last.end = layer.saturating_add(1),
                _ => ranges.push(Self::with_len(layer, 1)),
            }
        }
        ranges
    }

    /// First layer.
    #[must_use]
    pub fn start(self) -> u32 {
        self.start
    }

    /// One past the last layer.
    #[must_use]
    pub fn end(self) -> u32 {
        self.end
    }

    /// Number of layers.
    #[must_use]
    pub fn len(self) -> u32 {
        self.end - self.start
    }

    /// Whether there is no layer in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether every layer of `other` is in this range. An empty range is in every range.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        other.is_empty() || (self.start <= other.start && other.end <= self.end)
    }

    /// Whether `layer` is in this range.
    #[must_use]
    pub fn contains_layer(self, layer: u32) -> bool {
        (self.start..self.end).contains(&layer)
    }

    /// The layers, in order.
    pub fn iter(self) -> std::ops::Range<u32> {
        self.start..self.end
    }

    /// The layers that are in both; empty (at this range's start) when there are none.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        let end = self.end.min(other.end);
        if start < end { Self { start, end } } else { Self { start: self.start, end: self.start } }
    }
}

impl<'de> Deserialize<'de> for LayerRange {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            start: u32,
            end: u32,
        }
        let raw = Raw::deserialize(deserializer)?;
        Self::new(raw.start, raw.end).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for LayerRange {
    /// Inclusive, as people count: `3-7`, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            f.write_str("none")
        } else {
            write!(f, "{}-{}", self.start, self.end - 1)
        }
    }
}

impl fmt::Debug for LayerRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl ModelPart {
    /// Inner layers only: activations in, activations out.
    #[must_use]
    pub fn inner(layers: LayerRange) -> Self {
        Self { layers, embedding: false, head: false }
    }

    /// The whole model of `layers` layers: token ids in, logits out.
    #[must_use]
    pub fn whole(layers: u32) -> Self {
        Self { layers: LayerRange::all(layers), embedding: true, head: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_cannot_run_backwards() {
        assert_eq!(LayerRange::new(3, 2), Err(BackwardsRange { start: 3, end: 2 }));
    }

    #[test]
    fn containment_and_intersection_follow_set_rules() {
        let outer = LayerRange::new(2, 9).unwrap();
        let inner = LayerRange::new(4, 9).unwrap();
        assert!(outer.contains(inner) && !inner.contains(outer));
        assert_eq!(outer.intersection(inner), inner);
        assert!(outer.intersection(LayerRange::new(9, 12).unwrap()).is_empty());
        assert_eq!(inner.to_string(), "4-8");
    }
}
