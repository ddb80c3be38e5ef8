//! The gated delta net's state, which each position lets fade, corrects and reads.

use crate::buffer::Buffer;
use crate::commands::Commands;
use crate::error::GpuError;
use crate::kernel::Kernel;
use crate::product::check;
use crate::template::{Values, expand};

/// Most numbers of a head: two rows of them lie in the 16 KB of workgroup memory that every device
/// has.
const DIM_MAX: usize = 1024;

/// The function that makes steps of what comes to a state.
pub(crate) const SOFTPLUS: &str = include_str!("shaders/softplus.wgsl");

/// Sizes of a gated delta net.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaShape {
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Heads of values.
    pub value_heads: usize,
    /// Whether value heads that follow each other use the same key head; else value head `h` uses
    /// key head `h % key_heads`.
    pub grouped: bool,
    /// Numbers of a head.
    pub dim: usize,
    /// Rows that the convolution sees, the current one among them.
    pub taps: usize,
}

/// What comes to the states with each row.
#[derive(Debug, Clone, Copy)]
pub struct DeltaInput<'a> {
    /// Queries, keys and values (n, channels) behind the convolution.
    pub convolved: &'a Buffer,
    /// (n, `value_heads`): how far the state is corrected, before its sigmoid.
    pub betas: &'a Buffer,
    /// (n, `value_heads`): how far the state fades, before its softplus.
    pub alphas: &'a Buffer,
    /// (`value_heads`): added to `alphas`.
    pub bias: &'a Buffer,
    /// (`value_heads`), negative.
    pub decay: &'a Buffer,
    /// What is added to the squares of a head's length.
    pub epsilon: f32,
}

impl DeltaShape {
    /// Numbers of a row before the convolution.
    #[must_use]
    pub fn channels(&self) -> usize {
        (2 * self.key_heads + self.value_heads) * self.dim
    }

    /// Numbers of the rows before that the convolution needs; they begin a state.
    #[must_use]
    pub fn history(&self) -> usize {
        self.taps.saturating_sub(1) * self.channels()
    }

    /// Numbers of a state.
    #[must_use]
    pub fn state(&self) -> usize {
        self.history() + self.value_heads * self.dim * self.dim
    }
}

impl Commands {
    /// Takes rows `row..row + rows` through the states of all heads in `state`, which change; what
    /// the queries read goes into `out` (n, `value_heads` * dim).
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where a buffer is too short or a head too wide.
    pub fn delta(
        &mut self,
        shape: DeltaShape,
        input: DeltaInput<'_>,
        (row, rows): (usize, usize),
        state: &Buffer,
        out: &Buffer,
    ) -> Result<(), GpuError> {
        let DeltaShape { key_heads, value_heads, grouped, dim, .. } = shape;
        let DeltaInput { convolved, betas, alphas, bias, decay, epsilon } = input;
        let end = row + rows;
        check("numbers of a head", DIM_MAX, dim)?;
        check("key heads", key_heads, 1)?;
        if !value_heads.is_multiple_of(key_heads) {
            let (got, expected) = (value_heads, key_heads);
            return Err(GpuError::Size { what: "value heads of a delta net", got, expected });
        }
        check("rows of a delta net", convolved.len(), end * shape.channels())?;
        for (numbers, count) in
            [(betas, end * value_heads), (alphas, end * value_heads), (bias, value_heads)]
        {
            check("factors of a delta net", numbers.len(), count)?;
        }
        check("factors of a delta net", decay.len(), value_heads)?;
        check("a state", state.len(), shape.state())?;
        check("what is read", out.len(), end * value_heads * dim)?;
        let kernel = self.gpu().clone().kernel(&format!("delta {dim}"), |gpu| {
            Kernel::build(gpu, "delta", source(dim), "rrrrrww")
        })?;
        let params = [rows, row, key_heads, value_heads, dim, shape.history()];
        let mut params: Vec<u32> = params.iter().map(|n| *n as u32).collect();
        // Value heads that share a key head, where they follow each other.
        let together = if grouped { value_heads / key_heads } else { 0 };
        params.extend([epsilon.to_bits(), together as u32]);
        let buffers = [convolved, betas, alphas, bias, decay, state, out];
        self.dispatch(kernel, &buffers, [value_heads as u32, 1, 1], &params);
        Ok(())
    }
}

/// The text of the kernel.
pub(crate) fn source(dim: usize) -> String {
    let values = Values::new(&[("DIM", dim as u32)]);
    expand(&[include_str!("shaders/delta.wgsl"), SOFTPLUS].concat(), &values)
}
