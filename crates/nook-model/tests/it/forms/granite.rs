//! What files of Granite may leave out or list by layer, and its mixture with a shared expert.

use nook_model::Fault;
use nook_model::gguf::Value;
use nook_model::synthetic::Family;

use super::remade::Remade;
use super::{APART, TOLERANCE, apart, assert_same, fault, number, off, tiny};

const MULTIPLIERS: [&str; 4] =
    ["residual_scale", "embedding_scale", "attention.scale", "logit_scale"];

/// A mixture of experts with a shared one of 48.
fn with_shared_expert() -> Remade {
    let mut file = tiny(Family::Mixtral).called("granitemoe");
    let (layers, hidden) = (file.number("block_count"), file.number("embedding_length"));
    for layer in 0..layers {
        for (name, dimensions) in
            [("gate", [hidden, 48]), ("up", [hidden, 48]), ("down", [48, hidden])]
        {
            file.put(&format!("blk.{layer}.ffn_{name}_shexp.weight"), &dimensions);
        }
    }
    file.with("expert_shared_feed_forward_length", number(48))
        .with("residual_scale", Value::Float(0.25))
        .with("embedding_scale", Value::Float(8.0))
}

#[test]
fn key_value_heads_of_a_granite_may_be_listed_by_layer() {
    let plain = tiny(Family::Granite);
    let layers = plain.number("block_count") as usize;
    let heads = plain.number("attention.head_count_kv");
    let name = "attention.head_count_kv";
    let list = |heads: u32, count: usize| Value::Signeds(vec![heads as i32; count]);
    assert_same(&plain.clone().with(name, list(heads, layers)), &plain, "a list");
    for (what, list) in [("none", list(0, layers)), ("too short", list(heads, layers - 1))] {
        let fault = fault(&plain.clone().with(name, list));
        let named = matches!(&fault, Fault::BadValue { key, .. } if key.ends_with(name));
        assert!(named, "{what}: {fault:?}");
    }
}

#[test]
fn a_multiplier_that_a_granite_does_not_name_is_one() {
    let plain = tiny(Family::Granite);
    let head_dim = plain.number("embedding_length") / plain.number("attention.head_count");
    for name in MULTIPLIERS {
        let usual = match name {
            "attention.scale" => 1.0 / f64::from(head_dim).sqrt(),
            _ => 1.0,
        };
        // Some other value, so that the key is seen to be read.
        let other = plain.clone().with(name, Value::Float(0.4));
        let without = plain.clone().without(name);
        assert!(apart(&without, &other) > APART, "{name}");
        assert_same(&without, &plain.clone().with(name, Value::Float(usual)), name);
        if name != "logit_scale" {
            assert_same(&plain.clone().with(name, Value::Float(0.0)), &without, name);
        }
    }
    let fault = fault(&plain.with("logit_scale", Value::Float(0.0)));
    assert!(matches!(&fault, Fault::BadValue { .. }), "{fault:?}");
}

#[test]
fn a_granite_may_have_a_shared_expert_and_no_positions() {
    let shared = with_shared_expert();
    let far = off(&shared);
    assert!(far < TOLERANCE, "a shared expert: off by {far:.1e}");
    let still = shared.clone().with("rope.scaling.finetuned", Value::Bool(false));
    let far = off(&still);
    assert!(far < TOLERANCE, "no positions: off by {far:.1e}");
    assert!(apart(&still, &shared) > APART);
    // A shared expert that no key tells of is not left out in silence.
    let untold = shared.without("expert_shared_feed_forward_length");
    assert!(matches!(fault(&untold), Fault::UnreadTensor { .. }));
}
