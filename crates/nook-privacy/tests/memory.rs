//! Promise: a measurement takes no more memory beside the weights than it said before it began.
//!
//! Counts every allocation of this program, so that it is one test, and in a program of its own.
//! Weights are mapped and not counted, but for small matrices, which are there before it begins.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use nook_kernels::Format;
use nook_model::synthetic::{Family, Recipe};
use nook_privacy::{MeasureWish, Prepared};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

fn wish(model: &Path) -> MeasureWish {
    MeasureWish {
        model: model.to_owned(),
        layers: Some(vec![1]),
        tokens: 8,
        candidates: Some(64),
        noise: false,
        threads: Some(2),
    }
}

/// What a measurement had in use at its largest, and what it said.
fn measured(recipe: &Recipe, wish: impl Fn(MeasureWish) -> MeasureWish) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.gguf");
    recipe.write(&model).unwrap();
    let empty = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let prepared = Prepared::of(&wish(self::wish(&model)), u64::MAX).unwrap();
    let said = usize::try_from(prepared.in_use_bytes()).unwrap();
    let preparing = MEMORY.peak_usage() - empty;
    let loaded = prepared.load().unwrap();
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    // Weights of a random model may not pass the controls; what is measured takes as much.
    loaded.measure(&|_| {}).unwrap();
    (preparing.max(MEMORY.peak_usage() - before), said)
}

#[test]
fn a_measurement_takes_what_it_said_and_not_far_less() {
    let tiny = Recipe::tiny(Format::F32, 7);
    let wide = Recipe { hidden: 512, heads: 8, kv_heads: 2, head_dim: 64, ..tiny.clone() };
    let remembering = Recipe { layers: 3, heads: 16, kv_heads: 16, head_dim: 64, ..tiny.clone() };
    let knowing = Recipe { vocabulary: 60_000, ..tiny.clone() };
    let experts = Recipe { hidden: 256, ..Recipe::of(Family::Mixtral, Format::F32, 7) };
    type Change = fn(MeasureWish) -> MeasureWish;
    let cases: [(&str, Recipe, Change); 5] = [
        ("wide", wide, |it| it),
        ("remembering", remembering, |it| MeasureWish { tokens: 48, ..it }),
        ("knowing", knowing, |it| MeasureWish { tokens: 4, candidates: Some(512), ..it }),
        ("experts", experts, |it| it),
        ("noisy", tiny, |it| MeasureWish { noise: true, ..it }),
    ];
    for (name, recipe, change) in cases {
        let (took, said) = measured(&recipe, change);
        println!("{name}: took {took}, said {said}");
        assert!(took <= said, "{name}: took {took}, said {said}");
        assert!(said <= 6 * took, "{name}: took {took}, said {said}");
    }
}
