//! The one merge loop that both kinds of vocabulary use.
//!
//! Byte-level BPE and SentencePiece BPE differ only in where a pair's rank comes from: a list of
//! merges, or the score of the joined text. The caller cuts the text into [`Symbol`]s and answers
//! for each pair of neighbours; [`merge`] joins the best pair (leftmost on a tie) until none is
//! left. A heap keeps this at n log n, so a long line without spaces costs no more than prose.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A stretch of text that is, or may become, one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Symbol {
    /// First byte in the text.
    pub(super) start: usize,
    /// One past the last byte.
    pub(super) end: usize,
    /// The token of this stretch, if the vocabulary has one.
    pub(super) id: Option<u32>,
}

/// What joining two neighbours gives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Join {
    /// Smaller joins first.
    pub(super) rank: u32,
    /// The token of the joined text.
    pub(super) id: u32,
}

/// Joins neighbours of `symbols` until `join` has no answer for any pair; what is left stays in
/// order.
pub(super) fn merge(
    symbols: &mut Vec<Symbol>,
    mut join: impl FnMut(&Symbol, &Symbol) -> Option<Join>,
) {
    const NONE: usize = usize::MAX;
    let count = symbols.len();
    if count < 2 {
        return;
    }
    // `next[i] == NONE` marks the last symbol; a joined-away symbol is empty (`start == end`).
    let mut next: Vec<usize> = (1..count).chain([NONE]).collect();
    let mut previous: Vec<usize> = std::iter::once(NONE).chain(0..count - 1).collect();
    // (rank, left index, right index, end of the joined text, token)
    let mut queue = BinaryHeap::with_capacity(count);
    for left in 0..count - 1 {
        if let Some(found) = join(&symbols[left], &symbols[left + 1]) {
            queue.push(Reverse((found.rank, left, left + 1, symbols[left + 1].end, found.id)));
        }
    }
    while let Some(Reverse((_, left, right, end, id))) = queue.pop() {
        let dead = symbols[left].start == symbols[left].end;
        if dead || next[left] != right || symbols[right].end != end {
            continue;
        }
        symbols[left].end = end;
        symbols[left].id = Some(id);
        symbols[right].start = end;
        next[left] = next[right];
        if next[left] != NONE {
            previous[next[left]] = left;
        }
        for (a, b) in [(previous[left], left), (left, next[left])] {
            if a == NONE || b == NONE {
                continue;
            }
            if let Some(found) = join(&symbols[a], &symbols[b]) {
                queue.push(Reverse((found.rank, a, b, symbols[b].end, found.id)));
            }
        }
    }
    symbols.retain(|symbol| symbol.start != symbol.end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(text: &str, merges: &[&str]) -> Vec<String> {
        let mut symbols: Vec<_> = text
            .char_indices()
            .map(|(i, c)| Symbol { start: i, end: i + c.len_utf8(), id: None })
            .collect();
        merge(&mut symbols, |a, b| {
            let joined = &text[a.start..b.end];
            let rank = merges.iter().position(|m| *m == joined)?;
            Some(Join { rank: rank as u32, id: rank as u32 })
        });
        symbols.iter().map(|s| text[s.start..s.end].to_owned()).collect()
    }

    #[test]
    fn the_best_pair_joins_first_and_the_leftmost_on_a_tie() {
        assert_eq!(merged("aaa", &["aa"]), ["aa", "a"]);
        assert_eq!(merged("abcd", &["bc", "ab", "cd"]), ["a", "bc", "d"]);
        assert_eq!(merged("abcd", &["ab", "cd", "abcd"]), ["abcd"]);
        assert_eq!(merged("", &["ab"]), [""; 0]);
        assert_eq!(merged("aaaaaaaa", &["aaaa", "aa"]), ["aaaa", "aaaa"]);
    }

    #[test]
    fn a_stale_pair_is_passed_over() {
        // "bc" is best; the pairs "ab" and "cd" seen before it must not join afterwards.
        assert_eq!(merged("abcdab", &["bc", "ab", "cd"]), ["a", "bc", "d", "ab"]);
    }

    proptest::proptest! {
        /// The heap against looking at every pair again after every join.
        #[test]
        fn the_heap_joins_what_looking_at_every_pair_joins(
            text in "[abc]{0,24}",
            merges in proptest::collection::vec("[abc]{2,5}", 0..12),
        ) {
            let merges: Vec<&str> = merges.iter().map(String::as_str).collect();
            let mut naive: Vec<String> = text.chars().map(String::from).collect();
            loop {
                let best = (1..naive.len())
                    .filter_map(|i| {
                        let joined = naive[i - 1].clone() + &naive[i];
                        Some((merges.iter().position(|m| *m == joined)?, i))
                    })
                    .min();
                let Some((_, i)) = best else { break };
                let right = naive.remove(i);
                naive[i - 1].push_str(&right);
            }
            proptest::prop_assert_eq!(merged(&text, &merges), naive);
        }
    }
}
