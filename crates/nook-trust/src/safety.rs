//! The safety number of two devices: what two people compare to know that nobody stands between
//! them.
//!
//! Both devices make it from both ids, so it is the same on both screens exactly when each has
//! paired with the key that the other one really has. Pairing by a typed code makes sure of that
//! already; the number is for whoever wants to look once more, also long after the pairing.

use nook_base::PeerId;
use sha2::{Digest, Sha512};

/// Groups of digits.
pub const SAFETY_GROUPS: usize = 8;

/// Digits of a group.
///
/// All of them are 40 digits, 132 bits. Somebody between two devices has to find two keys of his
/// own whose numbers agree, one for each side. That takes about the square root of all numbers,
/// 2^66 keys, each of which has to be kept: 30 digits would be 2^50, which can be done.
pub const SAFETY_GROUP_DIGITS: usize = 5;

/// Numbers of one group.
const GROUP_NUMBERS: u64 = 100_000;

/// What is hashed before the ids, so that no other hash of two ids is the same.
const DOMAIN: &[u8] = b"inglenook safety number 1\0";

/// Bytes of the hash for each group: five, so that the remainder of 100,000 favours no number by
/// more than one part in ten million.
const GROUP_BYTES: usize = 5;

/// The number of a pair, as groups of digits with spaces between them. The order of the two is
/// nothing.
#[must_use]
pub fn safety_number(one: &PeerId, other: &PeerId) -> String {
    let (first, second) = if one <= other { (one, other) } else { (other, one) };
    let hash = Sha512::new().chain_update(DOMAIN).chain_update(first.0).chain_update(second.0);
    let hash = hash.finalize();
    let groups = hash.chunks_exact(GROUP_BYTES).take(SAFETY_GROUPS).map(|bytes| {
        let number = bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        format!("{:0width$}", number % GROUP_NUMBERS, width = SAFETY_GROUP_DIGITS)
    });
    groups.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_show_the_same_number_and_another_key_shows_another() {
        let [a, b, between] = [[1; 32], [2; 32], [3; 32]].map(PeerId);
        let number = safety_number(&a, &b);
        assert_eq!(number, safety_number(&b, &a));
        assert_ne!(number, safety_number(&a, &between));
        assert_ne!(safety_number(&a, &between), safety_number(&between, &b));
        let groups: Vec<_> = number.split(' ').collect();
        assert_eq!(groups.len(), SAFETY_GROUPS);
        let is_group = |group: &&str| {
            group.len() == SAFETY_GROUP_DIGITS && group.bytes().all(|byte| byte.is_ascii_digit())
        };
        assert!(groups.iter().all(is_group), "{number}");
    }

    #[test]
    fn every_bit_of_an_id_counts() {
        let (a, mut b) = (PeerId([7; 32]), PeerId([9; 32]));
        let before = safety_number(&a, &b);
        for bit in 0..256 {
            b.0[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(safety_number(&a, &b), before, "bit {bit}");
            b.0[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Two versions of the program must show the same.
    #[test]
    fn the_number_of_a_pair_never_changes() {
        let number = safety_number(&PeerId([0x11; 32]), &PeerId([0x22; 32]));
        assert_eq!(number, "54047 34568 43386 88771 68777 35060 51112 27486");
    }
}
