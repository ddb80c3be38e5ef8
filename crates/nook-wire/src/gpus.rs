//! The GPUs of a computer, as its worker tells its node.
//!
//! Drivers are foreign code that may crash, so only a worker ever loads one.

use serde::{Deserialize, Serialize};

use crate::bounded;

/// Most GPUs of one computer; the worker leaves out the rest.
pub const GPUS_MAX: usize = 16;

/// Longest of the driver's texts, in bytes; a longer one is cut.
const TEXT_BYTES_MAX: usize = 256;

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuReport {
    /// Its place in the list: `gpu:N`.
    pub number: u32,
    /// Its name.
    #[serde(
        serialize_with = "bounded::write_text::<TEXT_BYTES_MAX, _>",
        deserialize_with = "bounded::read_text::<TEXT_BYTES_MAX, _>"
    )]
    pub name: String,
    /// `vulkan`, `dx12` or `metal`.
    #[serde(
        serialize_with = "bounded::write_text::<TEXT_BYTES_MAX, _>",
        deserialize_with = "bounded::read_text::<TEXT_BYTES_MAX, _>"
    )]
    pub api: String,
    /// Name and version of its driver.
    #[serde(
        serialize_with = "bounded::write_text::<TEXT_BYTES_MAX, _>",
        deserialize_with = "bounded::read_text::<TEXT_BYTES_MAX, _>"
    )]
    pub driver: String,
    /// What kind it is.
    pub kind: GpuKind,
    /// Bytes of its own memory, where the system tells.
    pub memory: Option<u64>,
}

/// What kind of GPU it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GpuKind {
    /// A card with memory of its own.
    Discrete,
    /// Part of the processor, with the processor's memory.
    Integrated,
    /// Given by a virtual machine.
    Virtual,
    /// The CPU, by a driver that plays GPU.
    Software,
    /// The driver does not say.
    Unknown,
}

/// What of a model lies on a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuHolding {
    /// Layers.
    pub layers: u32,
    /// Bytes of its memory that weights, caches and steps take.
    pub bytes: u64,
    /// Those of them that weights and caches of other devices take, as they were promised.
    pub lent_bytes: u64,
    /// Bytes beside those that ended conversations of other devices keep there, until somebody needs
    /// the room.
    pub kept_bytes: u64,
    /// Whether it has no memory of its own: then all of that is in the memory of the computer.
    pub shares_memory: bool,
}
