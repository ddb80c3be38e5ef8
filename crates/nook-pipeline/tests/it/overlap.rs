//! A prompt goes through two devices at once: the second computes one chunk while the first
//! computes the next. In the simulation's own time, so that the arithmetic shows and no machine
//! does.

use std::time::Duration;

use nook_base::limits::{PREFILL_CHUNK_POOLED_TOKENS, PREFILL_CHUNK_TOKENS};

use crate::case::{Case, PeerCase};
use crate::scenario::{finishes, held, house};

/// From the start to the first token of a prompt of 1,024 positions, each of which takes each of
/// these devices so many µs.
fn first_token(peers: Vec<PeerCase>, chunk: u32, window: usize) -> Duration {
    let prompt = (0..1_024).map(|id| id % 900).collect();
    let case = Case { peers, prompt, reply: 2, chunk, window, ..house() };
    finishes(&case).measure.first_token.expect("the reply has begun")
}

fn halves() -> Vec<PeerCase> {
    vec![held(&[(0, 4)]), held(&[(4, 8)])]
}

fn whole() -> Vec<PeerCase> {
    vec![PeerCase { step_us: 2_000, ..held(&[(0, 8)]) }]
}

#[test]
fn two_equal_devices_read_a_prompt_as_much_faster_as_its_chunks_allow() {
    for chunk in [PREFILL_CHUNK_TOKENS, PREFILL_CHUNK_POOLED_TOKENS, 32] {
        let (one, two) = (first_token(whole(), chunk, 2), first_token(halves(), chunk, 2));
        let ratio = one.as_secs_f64() / two.as_secs_f64();
        let chunks = f64::from(1_024 / chunk);
        let possible = 2.0 * chunks / (chunks + 1.0);
        assert!((ratio / possible - 1.0).abs() < 0.02, "{chunk}: {ratio:.3} of {possible:.3}");
    }
}

#[test]
fn the_chunk_of_pooled_walks_leaves_room_for_the_budget_and_that_of_one_device_would_not() {
    let ratio = |chunk| {
        first_token(whole(), chunk, 2).as_secs_f64() / first_token(halves(), chunk, 2).as_secs_f64()
    };
    assert!(ratio(PREFILL_CHUNK_POOLED_TOKENS) > 1.8);
    assert!(ratio(PREFILL_CHUNK_TOKENS) < 1.8);
}
