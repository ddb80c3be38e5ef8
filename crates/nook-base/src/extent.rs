//! How much of a model a device has, or is to get.

/// How much of a model its owner wants on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The whole file.
    Whole,
    /// What the device itself computes when others compute the rest: embedding, first and last
    /// layers, norm and head.
    Ends,
}
