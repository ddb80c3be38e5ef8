//! A short causal convolution of each channel, as recurrent layers have it before their state.

use crate::buffer::Buffer;
use crate::commands::Commands;
use crate::error::GpuError;
use crate::kernel::Kernel;
use crate::product::check;
use crate::template::{Values, expand};
use crate::vector::lines;

/// A convolution of rows of `channels` numbers over the last `taps` of them.
#[derive(Debug, Clone, Copy)]
pub struct Convolution<'a> {
    /// Numbers of a row.
    pub channels: usize,
    /// Rows that it sees, the current one among them.
    pub taps: usize,
    /// (channels, taps)
    pub weights: &'a Buffer,
    /// (channels): what is added to each sum.
    pub bias: Option<&'a Buffer>,
    /// Whether `x * sigmoid(x)` follows.
    pub silu: bool,
}

impl Convolution<'_> {
    /// Numbers of the rows before that it needs.
    #[must_use]
    pub fn history(&self) -> usize {
        self.taps.saturating_sub(1) * self.channels
    }
}

impl Commands {
    /// Convolves rows `row..row + rows` of `inputs` (n, channels) behind those that `past` begins
    /// with (taps - 1, channels), into the same rows of `out`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where a buffer is too short.
    pub fn convolve(
        &mut self,
        convolution: Convolution<'_>,
        inputs: &Buffer,
        past: &Buffer,
        (row, rows): (usize, usize),
        out: &Buffer,
    ) -> Result<(), GpuError> {
        let Convolution { channels, taps, weights, bias, silu } = convolution;
        check("inputs of a convolution", inputs.len(), (row + rows) * channels)?;
        check("results of a convolution", out.len(), (row + rows) * channels)?;
        check("a state", past.len(), convolution.history())?;
        check("weights of a convolution", weights.len(), channels * taps)?;
        if let Some(bias) = bias {
            check("biases of a convolution", bias.len(), channels)?;
        }
        let biased = bias.is_some();
        let kernel = self.gpu().clone().kernel(&format!("convolve {biased} {silu}"), |gpu| {
            let bindings = if biased { "rrrwr" } else { "rrrw" };
            Kernel::build(gpu, "convolve", source(biased, silu), bindings)
        })?;
        let params = [rows, row, channels, taps].map(|n| n as u32);
        let mut buffers = vec![inputs, past, weights, out];
        buffers.extend(bias);
        self.dispatch(kernel, &buffers, lines(rows * channels), &params);
        Ok(())
    }

    /// Puts the rows that the next position needs at the beginning of `after`: the last ones of
    /// those that `past` begins with and of rows `row..row + rows` of `inputs`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where a buffer is too short.
    pub fn keep_inputs(
        &mut self,
        convolution: Convolution<'_>,
        inputs: &Buffer,
        past: &Buffer,
        (row, rows): (usize, usize),
        after: &Buffer,
    ) -> Result<(), GpuError> {
        let (channels, earlier) = (convolution.channels, convolution.taps.saturating_sub(1));
        let kept = earlier.saturating_sub(rows);
        let new = earlier - kept;
        self.copy(past, (earlier - kept) * channels, after, 0, kept * channels)?;
        let from = (row + rows - new) * channels;
        self.copy(inputs, from, after, kept * channels, new * channels)
    }
}

/// The text of the kernel.
pub(crate) fn source(biased: bool, silu: bool) -> String {
    let values = Values::new(&[("BIAS", u32::from(biased)), ("SILU", u32::from(silu))]);
    expand(include_str!("shaders/convolve.wgsl"), &values)
}
