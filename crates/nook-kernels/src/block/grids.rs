//! The codebooks: short rows of numbers that the IQ1, IQ2 and IQ3 formats choose from.
//!
//! They are facts of the formats, found by their authors by clustering weights, so there is no rule
//! to compute them from. The folder has them packed, with their origin and licence; here they are
//! unpacked when the program is built. [`super::codebook`] looks rows up.

mod iq1;
mod iq2;
mod iq3;

use super::Format;

/// The packed rows that `format` chooses from: of each number the choice among the format's values,
/// the first in the lowest bits; two bits of eight numbers in IQ1 and IQ2, three of four in IQ3.
pub(super) fn packed(format: Format) -> Option<&'static [u16]> {
    Some(match format {
        Format::Iq1S | Format::Iq1M => &iq1::IQ1,
        Format::Iq2Xxs => &iq2::IQ2_XXS,
        Format::Iq2Xs => &iq2::IQ2_XS,
        Format::Iq2S => &iq2::IQ2_S,
        Format::Iq3Xxs => &iq3::IQ3_XXS,
        Format::Iq3S => &iq3::IQ3_S,
        _ => return None,
    })
}

/// Rows of IQ1_S and IQ1_M: eight times -1, 0 and 1, and 8 more, so that none is negative.
pub(crate) static IQ1: [[u8; 8]; 2048] = unpack(&iq1::IQ1, 2, &[0, 8, 16]);

/// Rows of IQ2_XXS.
pub(crate) static IQ2_XXS: [[u8; 8]; 256] = unpack(&iq2::IQ2_XXS, 2, &IQ2_VALUES);

/// Rows of IQ2_XS.
pub(crate) static IQ2_XS: [[u8; 8]; 512] = unpack(&iq2::IQ2_XS, 2, &IQ2_VALUES);

/// Rows of IQ2_S.
pub(crate) static IQ2_S: [[u8; 8]; 1024] = unpack(&iq2::IQ2_S, 2, &IQ2_VALUES);

/// Rows of IQ3_XXS.
pub(crate) static IQ3_XXS: [[u8; 4]; 256] =
    unpack(&iq3::IQ3_XXS, 3, &[4, 12, 20, 28, 36, 44, 52, 62]);

/// Rows of IQ3_S.
pub(crate) static IQ3_S: [[u8; 4]; 512] = unpack(&iq3::IQ3_S, 3, &[1, 3, 5, 7, 9, 11, 13, 15]);

const IQ2_VALUES: [u8; 3] = [8, 25, 43];

/// Rows of `N` numbers: each is the value that its `bits` bits choose, the first in the lowest
/// bits. Fails to compile when they choose none.
const fn unpack<const N: usize, const ROWS: usize>(
    packed: &[u16; ROWS],
    bits: usize,
    values: &[u8],
) -> [[u8; N]; ROWS] {
    let mut rows = [[0; N]; ROWS];
    let mut row = 0;
    while row < ROWS {
        let mut i = 0;
        while i < N {
            let choice = (packed[row] >> (bits * i)) as usize % (1 << bits);
            rows[row][i] = values[choice];
            i += 1;
        }
        row += 1;
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A row typed or packed wrongly would most likely be there twice.
    #[test]
    fn no_row_is_there_twice() {
        assert_eq!(HashSet::from(IQ1).len(), IQ1.len());
        assert_eq!(HashSet::from(IQ2_XXS).len(), IQ2_XXS.len());
        assert_eq!(HashSet::from(IQ2_XS).len(), IQ2_XS.len());
        assert_eq!(HashSet::from(IQ2_S).len(), IQ2_S.len());
        assert_eq!(HashSet::from(IQ3_XXS).len(), IQ3_XXS.len());
        assert_eq!(HashSet::from(IQ3_S).len(), IQ3_S.len());
    }

    /// Sums of all numbers, and of each times its place: a guard against a changed digit.
    #[test]
    fn the_tables_are_those_of_the_formats() {
        fn sums<const N: usize>(rows: &[[u8; N]]) -> (u64, u64) {
            let numbers = rows.as_flattened().iter().zip(1u64..);
            numbers.fold((0, 0), |(sum, placed), (number, place)| {
                (sum + u64::from(*number), placed + place * u64::from(*number))
            })
        }
        let iq1 = IQ1.map(|row| row.map(|number| number / 8));
        let all =
            [sums(&iq1), sums(&IQ2_XXS), sums(&IQ2_XS), sums(&IQ2_S), sums(&IQ3_XXS), sums(&IQ3_S)];
        assert_eq!(
            all,
            [
                (16_369, 144_929_349),
                (38_611, 42_100_955),
                (81_582, 182_044_374),
                (167_589, 720_245_922),
                (25_592, 14_912_868),
                (12_748, 14_404_362),
            ]
        );
    }
}
