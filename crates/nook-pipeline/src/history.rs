//! The chain of prefix hashes of one history. Requester and host can tell whether they hold the
//! same positions, and the host learns nothing from a hash.
//!
//! The pipeline keeps one [`PrefixHashes`] per prompt. Each step carries the hashes before and
//! after it.

use nook_base::{PrefixHash, Sensitive};

/// Keyed BLAKE3 hashes, cut to 16 bytes: entry `n` stands for the first `n` positions. `Debug`
/// shows how many there are.
pub struct PrefixHashes {
    key: Sensitive<[u8; 32]>,
    chain: Vec<PrefixHash>,
}

impl PrefixHashes {
    /// Of an empty history. Only with the same key do equal histories have equal hashes.
    #[must_use]
    pub fn new(key: Sensitive<[u8; 32]>) -> Self {
        Self { key, chain: vec![PrefixHash::EMPTY] }
    }

    /// Extends the chain by one position.
    pub fn push(&mut self, token: u32) {
        let mut link = [0; 20];
        link[..16].copy_from_slice(&self.at(u32::MAX).0);
        link[16..].copy_from_slice(&token.to_le_bytes());
        let digest = blake3::keyed_hash(&self.key, &link);
        let mut hash = [0; 16];
        hash.copy_from_slice(&digest.as_bytes()[..16]);
        self.chain.push(PrefixHash(hash));
    }

    /// The hash of the first `positions` positions, or of all when there are fewer.
    #[must_use]
    pub fn at(&self, positions: u32) -> PrefixHash {
        let last = self.chain.len() - 1;
        self.chain[last.min(positions as usize)]
    }
}

impl std::fmt::Debug for PrefixHashes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrefixHashes({})", self.chain.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(key: u8, tokens: &[u32]) -> PrefixHash {
        let mut hashes = PrefixHashes::new(Sensitive([key; 32]));
        tokens.iter().for_each(|token| hashes.push(*token));
        hashes.at(u32::MAX)
    }

    #[test]
    fn equal_histories_have_equal_hashes_and_no_others_do() {
        assert_eq!(chain(1, &[5, 6, 7]), chain(1, &[5, 6, 7]));
        let different = [
            chain(1, &[]),
            chain(1, &[5]),
            chain(1, &[5, 6, 7]),
            chain(1, &[6, 5, 7]),
            chain(1, &[5, 6, 8]),
            chain(2, &[5, 6, 7]),
        ];
        for (index, hash) in different.iter().enumerate() {
            assert!(!different[..index].contains(hash));
        }
    }

    #[test]
    fn a_hash_of_the_past_does_not_change() {
        let mut hashes = PrefixHashes::new(Sensitive([9; 32]));
        assert_eq!(hashes.at(0), PrefixHash::EMPTY);
        hashes.push(3);
        let one = hashes.at(1);
        hashes.push(4);
        assert_eq!((hashes.at(1), hashes.at(0)), (one, PrefixHash::EMPTY));
    }
}
