//! The state of Mamba-2, which each position lets fade, adds to and reads.

use crate::buffer::Buffer;
use crate::commands::Commands;
use crate::delta::SOFTPLUS;
use crate::error::GpuError;
use crate::kernel::Kernel;
use crate::product::check;
use crate::template::{Values, expand};

/// Most places: two rows of them lie in the 16 KB of workgroup memory that every device has.
const PLACES_MAX: usize = 1024;

/// Sizes of a Mamba-2 layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MambaShape {
    /// Heads.
    pub heads: usize,
    /// Numbers of a head.
    pub dim: usize,
    /// Groups of heads that put and read at the same places.
    pub groups: usize,
    /// Numbers that say where.
    pub places: usize,
    /// Where the states begin, in numbers: the rows that the convolution needs lie before them.
    pub state_at: usize,
}

/// What comes to the states with each row.
#[derive(Debug, Clone, Copy)]
pub struct MambaInput<'a> {
    /// Inputs (heads * dim), where they are put and where is read (groups * places each), of each
    /// row behind the convolution.
    pub convolved: &'a Buffer,
    /// (n, heads): before their softplus.
    pub steps: &'a Buffer,
    /// (heads): added to `steps`.
    pub bias: &'a Buffer,
    /// (heads), negative.
    pub decay: &'a Buffer,
    /// (heads): what inputs are multiplied with on their way past the state.
    pub skip: &'a Buffer,
}

impl MambaShape {
    /// Numbers of a row behind the convolution.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.heads * self.dim + 2 * self.groups * self.places
    }
}

impl Commands {
    /// Takes rows `row..row + rows` through the states of all heads in `state`, which change; what
    /// is read goes into `out` (n, heads * dim).
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where a buffer is too short or there are too many places.
    pub fn mamba(
        &mut self,
        shape: MambaShape,
        input: MambaInput<'_>,
        (row, rows): (usize, usize),
        state: &Buffer,
        out: &Buffer,
    ) -> Result<(), GpuError> {
        let MambaShape { heads, dim, groups, places, state_at } = shape;
        let MambaInput { convolved, steps, bias, decay, skip } = input;
        let end = row + rows;
        check("places of a Mamba layer", PLACES_MAX, places)?;
        if groups == 0 || !heads.is_multiple_of(groups) {
            return Err(GpuError::Size { what: "heads", got: heads, expected: groups });
        }
        check("rows of a Mamba layer", convolved.len(), end * shape.channels())?;
        check("steps of a Mamba layer", steps.len(), end * heads)?;
        for numbers in [bias, decay, skip] {
            check("factors of a Mamba layer", numbers.len(), heads)?;
        }
        check("a state", state.len(), state_at + heads * dim * places)?;
        check("what is read", out.len(), end * heads * dim)?;
        let kernel = self.gpu().clone().kernel(&format!("mamba {places}"), |gpu| {
            Kernel::build(gpu, "mamba", source(places), "rrrrrww")
        })?;
        let params = [rows, row, heads, dim, groups, places, state_at].map(|n| n as u32);
        let buffers = [convolved, steps, bias, decay, skip, state, out];
        self.dispatch(kernel, &buffers, [heads as u32, 1, 1], &params);
        Ok(())
    }
}

/// The text of the kernel.
pub(crate) fn source(places: usize) -> String {
    let values = Values::new(&[("PLACES", places as u32)]);
    expand(&[include_str!("shaders/mamba.wgsl"), SOFTPLUS].concat(), &values)
}
