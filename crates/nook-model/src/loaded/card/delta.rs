//! The gated delta net on a card: see [`crate::parts::GatedDelta`].
//!
//! Positions are taken one by one, all heads together: right, and slow with long prompts, because
//! each position is a handful of small kernels.

use candle_core::{D, DType, Tensor};
use candle_nn::ops::{sigmoid, silu};

use super::step::{CardLanes, CardStep};
use super::weights::OnCard;
use crate::parts::{Broken, GatedDelta};

/// What comes to the heads with the rows of one span.
struct Signals {
    /// (rows, `value_heads`, dim), of length 1, queries further by `1 / sqrt(dim)`.
    queries: Tensor,
    keys: Tensor,
    /// (rows, `value_heads`, dim)
    values: Tensor,
    /// (rows, `value_heads`): how far the state is corrected.
    betas: Tensor,
    /// (rows, `value_heads`): what is kept of it.
    kept: Tensor,
}

impl GatedDelta<OnCard> {
    /// Rows `x` (n, hidden) to (n, hidden); the states of their sessions advance.
    pub(super) fn on_card(
        &self,
        x: &Tensor,
        step: &CardStep<'_>,
        lanes: &mut CardLanes<'_>,
    ) -> Result<Tensor, Broken> {
        let inputs = self.mixed.on_card(x)?; // (n, channels)
        let betas = sigmoid(&self.beta.on_card(x)?)?;
        let alphas = self.alpha.on_card(x)?.broadcast_add(&self.step_bias)?;
        let kept = softplus(&alphas)?.broadcast_mul(&self.decay)?.exp()?;
        let mut read = Vec::with_capacity(step.spans.len());
        for span in &step.spans {
            let (start, rows) = (span.rows.start, span.rows.len());
            let part = |all: &Tensor| all.narrow(0, start, rows);
            let state = lanes.fading(span.lane)?;
            let (past, mut matrices) = self.parted(state.before(span.first)?, step)?;
            let inputs = Tensor::cat(&[&past, &part(&inputs)?], 0)?;
            let signals =
                self.signals(&self.convolved(&inputs, rows)?, part(&betas)?, part(&kept)?)?;
            for row in 0..rows {
                let (after, out) = self.position(&matrices, &signals, row)?;
                matrices = after;
                read.push(out);
            }
            let past = inputs.narrow(0, rows, past.dim(0)?)?;
            let numbers = Tensor::cat(&[past.flatten_all()?, matrices.flatten_all()?], 0)?;
            state.advance(span.first, rows as u32, numbers);
        }
        let read = Tensor::stack(&read, 0)?; // (n, value_heads, dim)
        let normed = self.norm.on_card(&read)?.flatten_from(1)?;
        self.output.on_card(&(silu(&self.gate.on_card(x)?)? * normed)?)
    }

    /// A state as the inputs of the positions before (kernel - 1, channels) and a matrix for each
    /// value head (`value_heads`, dim of keys, dim of values).
    fn parted(
        &self,
        state: Option<&Tensor>,
        step: &CardStep<'_>,
    ) -> Result<(Tensor, Tensor), Broken> {
        let (earlier, channels) = (self.kernel.saturating_sub(1), self.channels());
        let square = (self.value_heads, self.dim, self.dim);
        let Some(state) = state else {
            let zeros = |shape: (usize, usize)| Tensor::zeros(shape, DType::F32, step.device);
            let matrices = Tensor::zeros(square, DType::F32, step.device)?;
            return Ok((zeros((earlier, channels))?, matrices));
        };
        let history = earlier * channels;
        let past = state.narrow(0, 0, history)?.reshape((earlier, channels))?;
        let matrices = state.narrow(0, history, state.dim(0)? - history)?.reshape(square)?;
        Ok((past, matrices))
    }

    /// A causal convolution of each channel of `inputs` (kernel - 1 + rows, channels) with its own
    /// kernel, then SiLU: (rows, channels).
    fn convolved(&self, inputs: &Tensor, rows: usize) -> Result<Tensor, Broken> {
        let kernels = self.convolution.reshape((self.channels(), self.kernel))?;
        let mut sum: Option<Tensor> = None;
        for tap in 0..self.kernel {
            let weights = kernels.narrow(1, tap, 1)?.flatten_all()?;
            let share = inputs.narrow(0, tap, rows)?.broadcast_mul(&weights)?;
            sum = Some(match sum {
                Some(sum) => (sum + share)?,
                None => share,
            });
        }
        let sum = sum.ok_or_else(|| Broken::new("a convolution of nothing"))?;
        Ok(silu(&sum)?)
    }

    /// Queries, keys and values of `convolved` (rows, channels), each for every value head.
    fn signals(&self, convolved: &Tensor, betas: Tensor, kept: Tensor) -> Result<Signals, Broken> {
        let rows = convolved.dim(0)?;
        let width = self.key_heads * self.dim;
        let tiles = self.value_heads / self.key_heads.max(1);
        let unit = |from: usize| -> Result<Tensor, Broken> {
            let heads = convolved.narrow(1, from, width)?.contiguous()?;
            let heads = heads.reshape((rows, self.key_heads, self.dim))?;
            let squares = heads.sqr()?.sum_keepdim(D::Minus1)?;
            let length = (squares + f64::from(self.epsilon))?.sqrt()?;
            // Value head `h` uses key head `h % key_heads`.
            Ok(heads.broadcast_div(&length)?.repeat((1, tiles, 1))?)
        };
        let values = convolved.narrow(1, 2 * width, self.value_heads * self.dim)?.contiguous()?;
        Ok(Signals {
            queries: (unit(0)? / (self.dim as f64).sqrt())?,
            keys: unit(width)?,
            values: values.reshape((rows, self.value_heads, self.dim))?,
            betas,
            kept,
        })
    }

    /// One position: the states after it, and what its query reads, (`value_heads`, dim).
    fn position(
        &self,
        matrices: &Tensor,
        signals: &Signals,
        row: usize,
    ) -> Result<(Tensor, Tensor), Broken> {
        let heads = self.value_heads;
        let number = |all: &Tensor| all.get(row)?.reshape((heads, 1, 1));
        let across = |all: &Tensor| all.get(row)?.contiguous()?.reshape((heads, 1, self.dim));
        let down = |all: &Tensor| all.get(row)?.contiguous()?.reshape((heads, self.dim, 1));
        let faded = matrices.broadcast_mul(&number(&signals.kept)?)?;
        let held = across(&signals.keys)?.matmul(&faded)?; // (heads, 1, dim)
        let wrong = (across(&signals.values)? - held)?;
        let correction = wrong.broadcast_mul(&number(&signals.betas)?)?;
        let after = (faded + down(&signals.keys)?.matmul(&correction)?)?;
        let read = across(&signals.queries)?.matmul(&after)?;
        Ok((after, read.reshape((heads, self.dim))?))
    }
}

/// `ln(1 + e^x)`, without the overflow of `e^x`.
fn softplus(x: &Tensor) -> Result<Tensor, Broken> {
    let rest = ((x.abs()?.neg()?.exp()? + 1.0)?).log()?;
    Ok((x.relu()? + rest)?)
}
