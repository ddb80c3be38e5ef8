//! A short causal convolution of each channel with its own kernel, as recurrent layers have it
//! before their state.

use nook_kernels::elementary::silu;

/// The kernels of all channels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Convolution<'a> {
    /// (channels, taps)
    pub(super) weights: &'a [f32],
    /// (channels)
    pub(super) bias: Option<&'a [f32]>,
    /// Positions that it sees.
    pub(super) taps: usize,
    /// Whether SiLU follows.
    pub(super) silu: bool,
}

impl Convolution<'_> {
    /// Convolves `inputs` (rows, channels) into `out`. `past` (taps - 1, channels) holds the inputs
    /// of the positions before, and afterwards those that the next position needs.
    pub(super) fn forward(&self, past: &mut [f32], inputs: &[f32], out: &mut [f32]) {
        let taps = self.taps;
        let (channels, earlier) = (self.weights.len() / taps.max(1), taps.saturating_sub(1));
        let rows = inputs.len() / channels.max(1);
        for row in 0..rows {
            let out = &mut out[row * channels..(row + 1) * channels];
            match self.bias {
                Some(bias) => out.copy_from_slice(bias),
                None => out.fill(0.0),
            }
            for tap in 0..taps {
                // Row `row + tap` of the past followed by the inputs.
                let from = match (row + tap).checked_sub(earlier) {
                    Some(row) => &inputs[row * channels..(row + 1) * channels],
                    None => &past[(row + tap) * channels..(row + tap + 1) * channels],
                };
                let weights = self.weights.iter().skip(tap).step_by(taps);
                for ((out, from), weight) in out.iter_mut().zip(from).zip(weights) {
                    *out += from * weight;
                }
            }
            if self.silu {
                out.iter_mut().for_each(|number| *number = silu(*number));
            }
        }
        if rows >= earlier {
            past.copy_from_slice(&inputs[(rows - earlier) * channels..]);
        } else {
            past.copy_within(rows * channels.., 0);
            past[(earlier - rows) * channels..].copy_from_slice(inputs);
        }
    }
}
