//! What a device can be let in for, as a value ([`Purpose`]) and as a type ([`AdmissionPurpose`]).
//!
//! The types stand in [`crate::Admitted`]: a function that hosts layers asks for an
//! `Admitted<purpose::Lend>` and cannot be handed a proof for anything else.

/// What a device wants to do, or what this machine wants it for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Use layers hosted here.
    Lend,
    /// Compute on this machine's prompts.
    Borrow,
    /// Fetch model files from here. Each side asks its own gate, the one that gives and the one
    /// that takes.
    CopyModels,
    /// Run a whole request: prompt and reply are seen by the device that runs it. Each side asks
    /// its own gate, the one that gives the request away and the one that takes it.
    RemoteWhole,
}

/// A purpose as a type.
pub trait AdmissionPurpose: sealed::Sealed {
    /// The same as a value.
    const PURPOSE: Purpose;
}

/// [`Purpose::Lend`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lend {}

/// [`Purpose::Borrow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Borrow {}

/// [`Purpose::CopyModels`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyModels {}

/// [`Purpose::RemoteWhole`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteWhole {}

impl AdmissionPurpose for Lend {
    const PURPOSE: Purpose = Purpose::Lend;
}

impl AdmissionPurpose for Borrow {
    const PURPOSE: Purpose = Purpose::Borrow;
}

impl AdmissionPurpose for CopyModels {
    const PURPOSE: Purpose = Purpose::CopyModels;
}

impl AdmissionPurpose for RemoteWhole {
    const PURPOSE: Purpose = Purpose::RemoteWhole;
}

/// No other crate adds a purpose.
mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Lend {}
    impl Sealed for super::Borrow {}
    impl Sealed for super::CopyModels {}
    impl Sealed for super::RemoteWhole {}
}
