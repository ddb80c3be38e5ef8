//! How much memory a measurement takes beside the weights of the model, worked out before it
//! begins.
//!
//! What is counted, each at its largest:
//!
//! - the vocabulary, while the texts become token ids;
//! - embeddings of the tokens among which attacks look, in single precision;
//! - rows of both texts at one place, and what a probe makes of them: examples, targets, and the
//!   products that it solves with;
//! - what a helper received, at all places and in all ways of sending, for the positions that one
//!   round of replay looks at, with the caches of their sessions;
//! - logits of [`LOGIT_ROWS`] positions, and what a step takes for each of its rows;
//! - threads, what the program takes itself, and a part for what an allocator leaves unused.
//!
//! Replay goes through the positions in rounds, as many in one as there is memory for, and where a
//! model is wide a probe learns from less. What does not fit even so is refused.

use nook_model::ModelShape;

use crate::PrivacyError;
use crate::walk::{LOGIT_ROWS, STEP_ROWS};

/// Most memory that a measurement takes beside the weights of the model, in bytes.
pub const BESIDE_WEIGHTS_MAX: u64 = 1 << 30;

/// Bytes of a number.
const NUMBER: u64 = size_of::<f32>() as u64;

/// What a tokenizer takes for each of its tokens while it is made.
const TOKEN_BYTES: u64 = 640;

/// What one thread takes: its stack, and its place in the allocator.
const THREAD_BYTES: u64 = 3 << 20;

/// What the program takes whatever the model is.
const OWN_BYTES: u64 = 32 << 20;

/// Ids of both texts, lists of results, and other small things.
const LISTS_BYTES: u64 = 256 << 10;

/// What a session takes beside its caches.
const SESSION_BYTES: u64 = 16 << 10;

/// Embeddings that are turned towards the activations at once, and copies of them.
pub(crate) const BLOCK_ROWS: usize = 256;

/// The sizes that the memory of a measurement depends on.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    /// Tokens that are attacked.
    pub(crate) tokens: u64,
    /// Positions before them that are no text.
    pub(crate) special: u64,
    /// Places.
    pub(crate) cuts: u64,
    /// Most ways of sending at one place: formats, random numbers, levels of noise.
    pub(crate) ways: u64,
    /// Numbers that travel for each position.
    pub(crate) width: u64,
    /// Tokens that the model knows.
    pub(crate) vocabulary: u64,
    /// Tokens among which attacks look.
    pub(crate) candidates: u64,
    /// Positions that a probe learns from.
    pub(crate) learnt: u64,
    /// Positions of one piece of them.
    pub(crate) window: u64,
    /// Positions of the text and the reply that noise is measured with; 0 where it is not.
    pub(crate) noise: u64,
    /// Bytes of one row within a step.
    pub(crate) row_bytes: u64,
    /// Bytes of the caches of one session over all layers, by its positions; those of more are
    /// those of the last.
    pub(crate) caches: Vec<u64>,
    /// The same for the layers between two places where that takes most.
    pub(crate) part_caches: Vec<u64>,
    /// Compute threads.
    pub(crate) threads: u64,
}

/// How a measurement is made to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Positions that replay looks at in one round.
    pub(crate) round: u64,
    /// Positions that a probe learns from.
    pub(crate) learnt: u64,
    /// Bytes that it takes beside the weights.
    pub(crate) bytes: u64,
    /// Of these, what the measurement itself has in use at its largest.
    pub(crate) in_use: u64,
}

impl Extent {
    /// Bytes beside the weights when a round of replay looks at `round` positions.
    pub(crate) fn bytes(&self, round: u64) -> u64 {
        let most = self.in_use(round);
        // An allocator cannot use all that lies between what is still in use.
        most + most / 4 + OWN_BYTES + self.threads * THREAD_BYTES
    }

    /// The largest of the phases of a measurement, which follow each other.
    fn in_use(&self, round: u64) -> u64 {
        let phases =
            [self.vocabulary * TOKEN_BYTES, self.reading(), self.replay(round), self.noise()];
        phases.into_iter().fold(0, u64::max) + LISTS_BYTES
    }

    /// The largest rounds that fit in `most` bytes, with as much for the probe as fits, in pieces.
    pub(crate) fn plan(&self, most: u64) -> Option<Plan> {
        let pieces = (1..=self.learnt.div_ceil(self.window.max(1)).max(1)).rev();
        let lessened = pieces
            .map(|pieces| Self { learnt: self.learnt.min(pieces * self.window), ..self.clone() });
        let fits = |it: &Self, round| it.bytes(round) <= most;
        let fitting = lessened.into_iter().find(|it| fits(it, 1))?;
        let round = (1..=self.tokens.max(1)).rev().find(|round| fits(&fitting, *round))?;
        let (bytes, in_use) = (fitting.bytes(round), fitting.in_use(round));
        Some(Plan { round, learnt: fitting.learnt, bytes, in_use })
    }

    fn positions(&self) -> u64 {
        self.special + self.tokens
    }

    /// So many rows.
    fn rows(&self, count: u64) -> u64 {
        count * self.width * NUMBER
    }

    /// A session over all layers.
    fn cache(&self, positions: u64) -> u64 {
        by_positions(&self.caches, positions) + self.cuts * SESSION_BYTES
    }

    /// A step of at most so many rows: what goes in, what comes out, and what lies between.
    fn step(&self, rows: u64) -> u64 {
        rows * self.row_bytes + self.rows(2 * rows)
    }

    /// A text of some positions on its way through one part.
    fn walk(&self, positions: u64) -> u64 {
        let session = by_positions(&self.part_caches, positions) + SESSION_BYTES;
        session + self.step(positions.min(STEP_ROWS as u64))
    }

    /// Logits of some positions, made and copied.
    fn logits(&self) -> u64 {
        let rows = LOGIT_ROWS as u64;
        3 * rows * self.vocabulary * NUMBER + self.step(rows)
    }

    /// Everything but replay, at the place where it takes most.
    fn reading(&self) -> u64 {
        let (positions, learnt) = (self.positions(), self.learnt);
        let walking = self.walk(positions).max(self.walk(self.window));
        // Examples, what the products are made of, and targets; then the products, in double
        // precision as well.
        let solved = self.width.min(learnt);
        let probe = self.rows(3 * learnt) + 4 * solved * solved * NUMBER;
        let block = self.rows(3 * BLOCK_ROWS as u64) + BLOCK_ROWS as u64 * self.tokens * NUMBER;
        let guessing = self.rows(6 * self.tokens) + 8 * solved * self.tokens * NUMBER + block;
        let attacking = probe + guessing.max(self.cache(positions) + self.logits());
        // Embeddings of candidates and of what is learnt, and the rows of both texts.
        self.rows(self.candidates + 2 * learnt + positions) + walking.max(attacking)
    }

    /// One round of replay.
    fn replay(&self, round: u64) -> u64 {
        let received = self.rows(self.cuts * self.ways * round);
        let told = self.cuts * self.ways * self.tokens * 32;
        let sending = self.rows(self.positions() + 4 * self.tokens) + self.walk(self.positions());
        let sessions = round * self.cache(self.positions());
        let trying = sessions + self.step(round.max(STEP_ROWS as u64)) + self.rows(4 * round);
        received + told + sending.max(trying)
    }

    /// What noise does to replies.
    fn noise(&self) -> u64 {
        if self.noise == 0 {
            return 0;
        }
        self.rows(6 * self.noise) + 2 * self.cache(self.noise) + self.logits()
    }
}

/// The entry of `bytes` for so many positions, or its last one.
fn by_positions(bytes: &[u64], positions: u64) -> u64 {
    let at = usize::try_from(positions).unwrap_or(usize::MAX);
    bytes.get(at).or(bytes.last()).copied().unwrap_or_default()
}

/// A plan for `asked` tokens that takes at most `most` bytes, where `extent` gives the sizes for each
/// number of tokens down to `least`.
///
/// # Errors
///
/// [`PrivacyError::TooLarge`], with how many would fit.
pub(crate) fn plan(
    (asked, least): (u32, u32),
    most: u64,
    extent: impl Fn(u32) -> Extent,
) -> Result<Plan, PrivacyError> {
    let wanted = extent(asked);
    if let Some(plan) = wanted.plan(most) {
        return Ok(plan);
    }
    let fits = |tokens: &u32| extent(*tokens).plan(most).is_some();
    let fitting = (least..asked).rev().find(fits);
    // What the least of it takes.
    let smallest = Extent { learnt: wanted.learnt.min(wanted.window), ..wanted };
    Err(PrivacyError::TooLarge { tokens: asked, needs: smallest.bytes(1), most, fitting })
}

/// Bytes in GiB, as people read them. Rounded up, so that what does not fit never looks as if it
/// did.
pub(crate) fn gib(bytes: u64) -> String {
    let tenths = (u128::from(bytes) * 10).div_ceil(1 << 30);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

/// The same rounded down, so that what is free never looks like more.
pub(crate) fn gib_below(bytes: u64) -> String {
    let tenths = u128::from(bytes) * 10 / (1 << 30);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

/// Bytes that one row of a step takes between what goes in and what comes out: hidden states beside
/// each other, queries, keys and values, and the feed-forward layer, each also rounded.
pub(crate) fn row_bytes(shape: &ModelShape) -> u64 {
    let heads = u64::from(shape.heads.max(shape.kv_heads)) * u64::from(shape.head_dim);
    let (row, feed_forward) = (u64::from(shape.row), u64::from(shape.feed_forward));
    (16 * row + 4 * feed_forward + 6 * heads) * NUMBER
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// About the sizes of a model of the given width and layers with as many heads for keys as for
    /// queries: the caches of old models.
    fn extent(width: u64, layers: u64, tokens: u64) -> Extent {
        let cache = |positions: u64| positions.next_multiple_of(64) * layers * width * 4;
        Extent {
            tokens,
            special: 1,
            cuts: 9,
            ways: 4,
            width,
            vocabulary: 32_000,
            candidates: 2048,
            learnt: 2048,
            window: 256,
            noise: 0,
            row_bytes: width * 4 * 40,
            caches: (0..=300).map(cache).collect(),
            part_caches: (0..=300).map(|positions| cache(positions) / 8).collect(),
            threads: 8,
        }
    }

    #[test]
    fn a_small_model_is_measured_in_one_round_and_a_large_one_in_many() {
        let small = extent(512, 8, 64).plan(BESIDE_WEIGHTS_MAX).unwrap();
        assert_eq!((small.round, small.learnt), (64, 2048));
        let large = extent(4096, 32, 64).plan(BESIDE_WEIGHTS_MAX).unwrap();
        assert!((1..64).contains(&large.round), "{large:?}");
        assert_eq!(large.learnt, 2048);
        // So wide that a probe learns from less, in whole pieces.
        let wide = extent(16_384, 4, 64).plan(BESIDE_WEIGHTS_MAX).unwrap();
        assert!(wide.learnt < 2048 && wide.learnt.is_multiple_of(256), "{wide:?}");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_does() {
        // 128 layers of width 8192: the keys and values of one position are 4 MiB.
        let of = |tokens: u32| extent(8192, 128, tokens.into());
        let planned = |tokens| plan((tokens, 4), BESIDE_WEIGHTS_MAX, of);
        let refused = planned(256).unwrap_err();
        let PrivacyError::TooLarge { tokens: 256, needs, fitting: Some(fitting), .. } = refused
        else {
            panic!("{refused}")
        };
        assert!(needs > BESIDE_WEIGHTS_MAX, "{needs}");
        assert!(planned(fitting).is_ok() && planned(fitting + 1).is_err(), "{fitting}");
        let told = refused.to_string();
        let end =
            format!("at most 1.0 GiB can be used here; {fitting} tokens fit: --tokens {fitting}");
        assert!(told.starts_with("measuring 256 tokens of this model takes 1."), "{told}");
        assert!(told.ends_with(&end), "{told}");
        // So large that no number of tokens does.
        let of = |tokens: u32| extent(1 << 17, 128, tokens.into());
        let none = plan((256, 4), BESIDE_WEIGHTS_MAX, of).unwrap_err();
        assert!(none.to_string().ends_with("no number of tokens fits"), "{none}");
        // A machine with less free: smaller rounds, or fewer tokens.
        let of = |tokens: u32| extent(2048, 16, tokens.into());
        let free = plan((64, 4), BESIDE_WEIGHTS_MAX, of).unwrap();
        let half = plan((64, 4), free.bytes / 2, of).unwrap();
        assert!(half.bytes <= free.bytes / 2 && half.round < free.round, "{half:?}");
        let told = plan((64, 4), 110 << 20, of).unwrap_err().to_string();
        assert!(told.contains("at most 0.1 GiB can be used here"), "{told}");
    }

    #[test]
    fn bytes_are_told_in_gib_and_never_as_less_than_they_are() {
        let told = [0, 1, 1 << 30, (1 << 30) + 1, 3 << 29, u64::MAX].map(gib);
        let expected = ["0.0 GiB", "0.1 GiB", "1.0 GiB", "1.1 GiB", "1.5 GiB", "17179869184.0 GiB"];
        assert_eq!(told, expected);
        let told = [0, (1 << 30) - 1, 1 << 30, 3 << 29].map(gib_below);
        assert_eq!(told, ["0.0 GiB", "0.9 GiB", "1.0 GiB", "1.5 GiB"]);
    }

    prop_compose! {
        fn any_extent()(
            tokens in 4_u64..=256,
            special in 0_u64..=2,
            cuts in 2_u64..=100,
            ways in 4_u64..=27,
            width in 32_u64..=20_000,
            vocabulary in 100_u64..=300_000,
            candidates in 64_u64..=4096,
            learnt in 2_u64..=2048,
            noise in prop_oneof![Just(0), Just(384)],
            row_bytes in 1_000_u64..=4_000_000,
            for_position in 0_u64..=4_000_000,
            threads in 1_u64..=64,
        ) -> Extent {
            let caches: Vec<u64> =
                (0..=384).map(|positions| positions * for_position).collect();
            let part_caches = caches.iter().map(|bytes| bytes / cuts).collect();
            let window = 256;
            Extent {
                tokens, special, cuts, ways, width, vocabulary, candidates, learnt, window, noise,
                row_bytes, caches, part_caches, threads,
            }
        }
    }

    proptest! {
        #[test]
        fn a_plan_is_within_the_bound_and_as_large_as_that_allows(extent in any_extent()) {
            let Some(plan) = extent.plan(BESIDE_WEIGHTS_MAX) else {
                let least = Extent { learnt: extent.learnt.min(extent.window), ..extent };
                prop_assert!(least.bytes(1) > BESIDE_WEIGHTS_MAX);
                return Ok(());
            };
            prop_assert!(plan.bytes <= BESIDE_WEIGHTS_MAX && plan.in_use < plan.bytes);
            prop_assert!((1..=extent.tokens).contains(&plan.round) && plan.learnt <= extent.learnt);
            let planned = Extent { learnt: plan.learnt, ..extent.clone() };
            prop_assert_eq!(planned.bytes(plan.round), plan.bytes);
            if plan.round < extent.tokens {
                prop_assert!(planned.bytes(plan.round + 1) > BESIDE_WEIGHTS_MAX);
            }
            if plan.learnt < extent.learnt {
                let more = Extent { learnt: plan.learnt + extent.window, ..extent.clone() };
                prop_assert!(more.bytes(1) > BESIDE_WEIGHTS_MAX);
            }
        }

        #[test]
        fn more_of_anything_never_takes_less(extent in any_extent(), round in 1_u64..=256) {
            let round = round.min(extent.tokens);
            let bytes = extent.bytes(round);
            let it = || extent.clone();
            let larger = [
                Extent { tokens: extent.tokens + 1, ..it() },
                Extent { special: extent.special + 1, ..it() },
                Extent { cuts: extent.cuts + 1, ..it() },
                Extent { ways: extent.ways + 1, ..it() },
                Extent { width: extent.width + 1, ..it() },
                Extent { vocabulary: extent.vocabulary + 1, ..it() },
                Extent { candidates: extent.candidates + 1, ..it() },
                Extent { learnt: extent.learnt + 1, ..it() },
                Extent { noise: 384, ..it() },
                Extent { row_bytes: extent.row_bytes + 1, ..it() },
                Extent { caches: extent.caches.iter().map(|bytes| bytes + 1).collect(), ..it() },
                Extent { part_caches: extent.caches.clone(), ..it() },
                Extent { threads: extent.threads + 1, ..it() },
            ];
            for larger in larger {
                prop_assert!(larger.bytes(round) >= bytes, "{larger:?}");
            }
            prop_assert!(extent.bytes(round + 1) >= bytes);
        }

        #[test]
        fn each_size_counts_somewhere(extent in any_extent()) {
            // What is held for each position of a round, and for each row that is learnt from.
            let (width, round) = (extent.width * NUMBER, extent.tokens);
            let held = extent.cuts * extent.ways * round * width
                + round * extent.cache(extent.positions());
            prop_assert!(extent.in_use(round) >= held);
            let learnt = (extent.candidates + 5 * extent.learnt) * width;
            prop_assert!(extent.in_use(1) >= learnt);
            prop_assert!(extent.in_use(1) >= 2 * LOGIT_ROWS as u64 * extent.vocabulary * NUMBER);
        }
    }
}
