//! Several hidden states of a position side by side, and rows that are changed by their own mean:
//! what Gemma 3n has between its products.

use crate::buffer::Buffer;
use crate::commands::Commands;
use crate::error::GpuError;
use crate::kernel::Kernel;
use crate::product::{check, spread};
use crate::template::{Values, expand};
use crate::vector::lines;

/// Most streams: a lane has all of them in registers.
const STREAMS_MAX: usize = 16;

/// Sizes of rows of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// How many.
    pub count: usize,
    /// Numbers of each.
    pub hidden: usize,
}

/// What all streams become.
#[derive(Debug, Clone, Copy)]
pub enum Mixing<'a> {
    /// Each is what it was, and shares (n, streams, streams) of all.
    Predict(&'a Buffer),
    /// What the computed stream `active` has become (n, hidden), less what it is now, goes into each
    /// stream: all of it and shares (n, streams) more.
    Correct {
        /// The computed stream.
        made: &'a Buffer,
        /// How much more of the change goes into each.
        shares: &'a Buffer,
        /// Which of them it is.
        active: usize,
    },
    /// These numbers (n, hidden) are added to all but the first.
    AddToOthers(&'a Buffer),
}

/// How a row is changed by its own mean.
#[derive(Debug, Clone, Copy)]
pub enum ByMean<'a> {
    /// It gets the mean square of the row of a model (n, width); its own counts as this at least.
    AsLongAs(&'a Buffer, f32),
    /// What is above the mean by more than so many standard deviations counts by what it is above
    /// that, and all else as 0.
    CutOff(f32),
}

impl Mixing<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Predict(_) => "PREDICT",
            Self::Correct { .. } => "CORRECT",
            Self::AddToOthers(_) => "OTHERS",
        }
    }
}

impl Commands {
    /// Mixes the streams of each of `n` rows of `x` (n, streams, hidden), in place.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where a buffer is too short or there are too many streams.
    pub fn mix_streams(
        &mut self,
        x: &Buffer,
        n: usize,
        streams: Streams,
        mixing: Mixing<'_>,
    ) -> Result<(), GpuError> {
        let Streams { count, hidden } = streams;
        check("streams", STREAMS_MAX, count)?;
        check("numbers of streams", x.len(), n * count * hidden)?;
        let (made, needed) = match mixing {
            Mixing::Predict(shares) => (shares, n * count * count),
            Mixing::Correct { made, .. } | Mixing::AddToOthers(made) => (made, n * hidden),
        };
        check("numbers for streams", made.len(), needed)?;
        let mut buffers = vec![x, made];
        let mut own = 0;
        if let Mixing::Correct { shares, active, .. } = mixing {
            check("shares of streams", shares.len(), n * count)?;
            check("streams", count, active + 1)?;
            buffers.push(shares);
            own = active;
        }
        let name = mixing.name();
        let kernel = self.gpu().clone().kernel(&format!("streams {name} {count}"), |gpu| {
            let bindings = if buffers.len() == 3 { "wrr" } else { "wr" };
            Kernel::build(gpu, "streams", source(name, count), bindings)
        })?;
        let params = [n, hidden, own].map(|n| n as u32);
        self.dispatch(kernel, &buffers, lines(n * hidden), &params);
        Ok(())
    }

    /// Changes each of `n` rows of `width` numbers of `x` by its own mean, in place.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where a buffer is too short.
    pub fn by_mean(
        &mut self,
        x: &Buffer,
        n: usize,
        width: usize,
        change: ByMean<'_>,
    ) -> Result<(), GpuError> {
        check("numbers of rows", x.len(), n * width)?;
        let mut buffers = vec![x];
        let factor = match change {
            ByMean::AsLongAs(model, least) => {
                check("numbers of rows", model.len(), n * width)?;
                buffers.push(model);
                least
            }
            ByMean::CutOff(deviations) => deviations,
        };
        let length = buffers.len() > 1;
        let kernel = self.gpu().clone().kernel(&format!("by mean {length}"), |gpu| {
            let bindings = if length { "wr" } else { "w" };
            Kernel::build(gpu, "by mean", row_source(length), bindings)
        })?;
        let params = [width as u32, n as u32, factor.to_bits()];
        self.dispatch(kernel, &buffers, spread(n as u32, 1), &params);
        Ok(())
    }
}

/// The text of a kernel for so many streams.
pub(crate) fn source(name: &'static str, count: usize) -> String {
    let values = Values::new(&[("STREAMS", count as u32), (name, 1)]);
    expand(include_str!("shaders/streams.wgsl"), &values)
}

/// The text of a kernel for rows.
pub(crate) fn row_source(length: bool) -> String {
    expand(include_str!("shaders/rows.wgsl"), &Values::new(&[("LENGTH", u32::from(length))]))
}
