//! Windows of Gemma 3: files that name none, and files that list the layers that have one.

use nook_model::gguf::Value;
use nook_model::synthetic::Family;

use super::{APART, TOLERANCE, apart, assert_same, number, off, tiny};

/// Rnj-1: all layers see everything, and turn as the file says.
#[test]
fn a_gemma3_without_a_window_sees_everything_everywhere() {
    let name = "attention.sliding_window";
    let with = tiny(Family::Gemma3);
    let without = with.clone().without(name);
    let far = off(&without);
    assert!(far < TOLERANCE, "off by {far:.1e}");
    assert!(apart(&without, &with) > APART);
    assert_same(&with.with(name, number(0)), &without, "a window of 0");
}

#[test]
fn a_list_of_the_layers_with_a_window_says_nothing() {
    let plain = tiny(Family::Gemma3);
    let layers = plain.number("block_count") as usize;
    for list in [Value::Bools(vec![true; layers]), Value::Signeds(vec![0; layers])] {
        let file = plain.clone().with("attention.sliding_window_pattern", list.clone());
        assert_same(&file, &plain, &list.summary());
    }
    let other = plain.clone().with("attention.sliding_window_pattern", number(2));
    assert!(apart(&other, &plain) > APART);
}
