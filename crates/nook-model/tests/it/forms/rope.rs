//! How heads turn, in files that do not say it as the others do.

use nook_model::Fault;
use nook_model::gguf::Value;
use nook_model::synthetic::Family;

use super::{APART, apart, assert_same, fault, number, tiny};

const TYPE: &str = "rope.scaling.type";
const FACTOR: &str = "rope.scaling.factor";
const OLD_FACTOR: &str = "rope.scale_linear";

#[test]
fn a_factor_without_a_type_divides_positions() {
    let plain = tiny(Family::Llama);
    let factor = |name: &str, number: f64| plain.clone().with(name, Value::Float(number));
    let typed = |name: &str| Value::Text(name.to_owned());
    let said = factor(FACTOR, 4.0).with(TYPE, typed("linear"));
    assert!(apart(&said, &plain) > APART);
    assert_same(&factor(FACTOR, 4.0), &said, "no type");
    assert_same(&factor(OLD_FACTOR, 4.0), &said, "the old key");
    assert_same(&factor(OLD_FACTOR, 4.0).with(TYPE, typed("linear")), &said, "old, with a type");
    let both = factor(FACTOR, 4.0).with(OLD_FACTOR, Value::Float(2.0));
    assert_same(&both, &said, "both keys");
    let none = factor(FACTOR, 4.0).with(TYPE, typed("none"));
    assert_same(&none, &plain, "a type that scales nothing");
    for name in [FACTOR, OLD_FACTOR] {
        for number in [0.0, 1.0] {
            assert_same(&factor(name, number), &plain, &format!("{name} {number}"));
        }
        assert!(matches!(fault(&factor(name, -2.0)), Fault::BadValue { .. }), "{name}");
    }
    assert_same(&plain.clone().with(TYPE, typed("linear")), &plain, "linear, by no factor");
}

/// The rows of queries and keys lie in another order there, as the converter puts them.
#[test]
fn halves_turn_in_a_glm4_that_sees_pictures() {
    let plain = tiny(Family::Glm4);
    let name = "rope.dimension_sections";
    let sections = |list: [i32; 4]| Value::Signeds(list.to_vec());
    for none in [[0, 2, 2, 0], [2, 0, 2, 0], [0; 4]] {
        assert_same(&plain.clone().with(name, sections(none)), &plain, &format!("{none:?}"));
    }
    let (dim, turned) =
        (plain.number("attention.key_length"), plain.number("rope.dimension_count"));
    let (dim, turned) = (dim as usize, turned as usize);
    // Of each head, the first of all pairs and then the second of all; the rest stays.
    let old = |row: usize| match (row / dim * dim, row % dim) {
        (head, place) if place >= turned => head + place,
        (head, place) if place < turned / 2 => head + 2 * place,
        (head, place) => head + 2 * (place - turned / 2) + 1,
    };
    let mut halves = plain.clone().with(name, sections([2, 1, 1, 0]));
    for layer in 0..plain.number("block_count") {
        for part in ["attn_q.weight", "attn_q.bias", "attn_k.weight", "attn_k.bias"] {
            halves.reorder(&format!("blk.{layer}.{part}"), old);
        }
    }
    // Sums of scores are made in another order.
    let far = apart(&halves, &plain);
    assert!(far < 1e-5, "off by {far:.1e}");
    assert!(apart(&halves.without(name), &plain) > APART);
    for wrong in [number(2), Value::Signeds(vec![2, 1, 1])] {
        let fault = fault(&plain.clone().with(name, wrong));
        assert!(matches!(&fault, Fault::BadValue { .. }), "{fault:?}");
    }
}
