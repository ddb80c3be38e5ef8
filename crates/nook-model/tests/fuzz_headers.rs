//! Damaged model files do no harm. `cargo xtask fuzz` runs a million of them.
//!
//! A program of its own, because its allocator counts the memory of the whole process: other tests
//! must not use any at the same time.

#[path = "common/fuzz.rs"]
mod fuzz;

use fuzz::{Fuzz, Tally};

const CASES: u64 = 20_000;

#[test]
fn damaged_files_are_refused_or_compute_and_nothing_else() {
    let fuzz = Fuzz::new(20_261_121);
    let mut tally = Tally::default();
    for index in 0..CASES {
        fuzz.run(index, &mut tally);
    }
    assert!(tally.failures.is_empty(), "{:#?}", tally.failures);
    // Damage that is always, or never, noticed at once would test little.
    for (ending, least) in [("computed", 500), ("model refused: ", 500), ("header refused: ", 500)]
    {
        let with = tally.endings.iter().filter(|(name, _)| name.starts_with(ending));
        let count: u64 = with.map(|(_, count)| count).sum();
        assert!(count >= least, "only {count} cases ended with {ending:?}: {:#?}", tally.endings);
    }
}
