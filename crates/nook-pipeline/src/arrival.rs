//! Whether a result can be the answer to the step that was sent.
//!
//! Cheap checks on everything that comes back (table T9 of the threat list): a device that answers
//! noise of the right shape is not caught here, one that answers garbage is.

use nook_base::{Activation, ActivationDtype};
use nook_plan::Place;

use crate::norm_bounds::OutOfBounds;

/// Why a result cannot be right; in words, a sentence without its capital and full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// It answers something that was not asked.
    #[error("the result is for other positions than the step")]
    OtherPositions,
    /// It is no tensor of the agreed kind.
    #[error("the result has another shape or type than agreed")]
    OtherShape,
    /// No layer makes such numbers of sound ones.
    #[error("the result holds a NaN or an infinity")]
    NotFinite,
    /// Nothing was computed.
    #[error("a row of the result is all zero")]
    ZeroRow,
    /// Nothing was computed either.
    #[error("a row of the result is that of the input, unchanged")]
    Copy,
    /// Its mean magnitude is above what these layers have shown.
    #[error("a row of the result is much larger than these layers make it")]
    MuchLarger,
    /// It is below that.
    #[error("a row of the result is much smaller than these layers make it")]
    MuchSmaller,
    /// This device has computed the same.
    #[error("this device computed the same layers and came to other numbers")]
    ContradictedHere,
    /// So has another one; nobody knows which of the two is right.
    #[error(
        "another device computed the same layers and came to other numbers; one of the two is wrong"
    )]
    ContradictedElsewhere,
    /// The node could not read it as what it says it is.
    #[error("{reason}")]
    Unreadable {
        /// What is wrong with it.
        reason: String,
    },
}

impl From<OutOfBounds> for Corrupt {
    fn from(out: OutOfBounds) -> Self {
        if out.gain > 0.0 { Self::MuchLarger } else { Self::MuchSmaller }
    }
}

/// What was agreed for the result of one step.
pub(crate) struct Expected<'a> {
    pub(crate) count: u32,
    pub(crate) hidden: u32,
    pub(crate) dtype: ActivationDtype,
    pub(crate) place: Place,
    /// What was sent; `None` for token ids.
    pub(crate) input: Option<&'a Activation>,
}

/// Refuses what no honest host answers.
pub(crate) fn check(result: &Activation, expected: &Expected<'_>) -> Result<(), Corrupt> {
    let shape = (result.tokens(), result.hidden(), result.dtype());
    if shape != (expected.count, expected.hidden, expected.dtype) {
        return Err(Corrupt::OtherShape);
    }
    result.check_finite().map_err(|_| Corrupt::NotFinite)?;
    // Our own worker may be asked for the embedding alone, where a padding token's row is zero.
    if expected.place == Place::Local {
        return Ok(());
    }
    if result.has_zero_row() {
        return Err(Corrupt::ZeroRow);
    }
    if expected.input.is_some_and(|input| has_row_of(input, result)) {
        return Err(Corrupt::Copy);
    }
    Ok(())
}

/// Whether some row is that of the input, bit for bit: no layer does nothing at all. That holds for
/// eight bits too, whose blocks show a change of half a step in any of their numbers.
fn has_row_of(input: &Activation, result: &Activation) -> bool {
    let row = result.dtype().row_bytes(result.hidden()).max(1);
    let mut pairs = input.bytes().chunks_exact(row).zip(result.bytes().chunks_exact(row));
    pairs.any(|(before, after)| before == after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use nook_base::PeerId;

    fn verdict(rows: &[f32], dtype: ActivationDtype, place: Place) -> Result<(), Corrupt> {
        let input = Activation::from_f32(&[1.0, 2.0, 3.0, 4.0], 2, dtype).unwrap();
        let bytes: Vec<u8> = match dtype {
            ActivationDtype::F32 => rows.iter().flat_map(|x| x.to_le_bytes()).collect(),
            ActivationDtype::F16 => {
                rows.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect()
            }
            ActivationDtype::Q8 => rows.chunks_exact(2).flat_map(q8_row).collect(),
        };
        let tokens = rows.len() as u32 / 2;
        let result = Activation::new(tokens, 2, dtype, Bytes::from(bytes)).unwrap();
        check(&result, &Expected { count: 2, hidden: 2, dtype, place, input: Some(&input) })
    }

    /// One block. What no sound sender writes has a scale that is no number.
    fn q8_row(row: &[f32]) -> Vec<u8> {
        match Activation::from_f32(row, 2, ActivationDtype::Q8) {
            Ok(activation) => activation.bytes().to_vec(),
            Err(_) => half::f16::NAN.to_le_bytes().into_iter().chain([1, 1]).collect(),
        }
    }

    #[test]
    fn what_no_honest_host_answers_is_refused_by_name() {
        let peer = Place::Peer(PeerId([1; 32]));
        for dtype in ActivationDtype::ALL {
            let cases = [
                (vec![1.5, 2.0, 3.5, 4.0], Ok(())),
                (vec![0.0, 1.0, -0.0, 1.0], Ok(())),
                (vec![1.0, f32::NAN, 3.0, 4.0], Err(Corrupt::NotFinite)),
                (vec![1.0, 2.0, f32::NEG_INFINITY, 4.0], Err(Corrupt::NotFinite)),
                (vec![1.5, 2.0, 0.0, -0.0], Err(Corrupt::ZeroRow)),
                (vec![1.0, 2.0, 3.0, 4.0], Err(Corrupt::Copy)),
                (vec![1.5, 2.0, 3.0, 4.0], Err(Corrupt::Copy)),
                (vec![1.0, 2.0], Err(Corrupt::OtherShape)),
            ];
            for (rows, expected) in cases {
                assert_eq!(verdict(&rows, dtype, peer), expected, "{rows:?} {dtype}");
            }
        }
    }

    #[test]
    fn our_own_worker_may_answer_a_zero_embedding_but_no_nan() {
        let zero = verdict(&[0.0; 4], ActivationDtype::F32, Place::Local);
        assert_eq!(zero, Ok(()));
        let nan = verdict(&[f32::NAN; 4], ActivationDtype::F32, Place::Local);
        assert_eq!(nan, Err(Corrupt::NotFinite));
    }
}
