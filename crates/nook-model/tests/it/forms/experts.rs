//! Experts whose gate and up are one matrix or two, and widths that a file may leave out.

use nook_model::synthetic::{Family, TensorEntry};

use super::remade::{Remade, rows};
use super::{TOLERANCE, assert_same, assert_same_on_every_executor, number, off, tiny};
use crate::fixtures::large;

const FUSED: &str = "ffn_gate_up_exps.weight";

/// Makes one matrix of each expert's gate and up, the gate first, in all layers that have both.
fn fused(mut file: Remade) -> Remade {
    for layer in 0..file.number("block_count") {
        let name = |part: &str| format!("blk.{layer}.ffn_{part}_exps.weight");
        if !file.names().contains(&name("gate")) {
            continue;
        }
        let ((gate, gates), (up, ups)) = (file.take(&name("gate")), file.take(&name("up")));
        let [columns, width, count] = gate.dimensions[..] else { panic!("{}", gate.name) };
        let (gate_rows, up_rows) = (rows(&gate, &gates), rows(&up, &ups));
        let experts = gate_rows.chunks(width as usize).zip(up_rows.chunks(width as usize));
        let both: Vec<&[u8]> = experts.flat_map(|(gate, up)| [gate, up].concat()).collect();
        let like = TensorEntry { name: format!("blk.{layer}.{FUSED}"), ..gate.clone() };
        file.put_rows(&like, &[columns, 2 * width, count], &both);
    }
    file
}

/// Makes two matrices of each expert's gate and up.
fn separate(mut file: Remade) -> Remade {
    for layer in 0..file.number("block_count") {
        let (both, data) = file.take(&format!("blk.{layer}.{FUSED}"));
        let [columns, double, count] = both.dimensions[..] else { panic!("{}", both.name) };
        let all = rows(&both, &data);
        for (index, part) in ["gate", "up"].into_iter().enumerate() {
            let width = double as usize / 2;
            let of = all.chunks(width).skip(index).step_by(2).flatten().copied();
            let of: Vec<&[u8]> = of.collect();
            let name = format!("blk.{layer}.ffn_{part}_exps.weight");
            let like = TensorEntry { name, ..both.clone() };
            file.put_rows(&like, &[columns, double / 2, count], &of);
        }
    }
    file
}

#[test]
fn gate_and_up_of_experts_are_one_matrix_or_two() {
    for family in [Family::Deepseek2, Family::Deepseek3] {
        let plain = tiny(family);
        let one = fused(plain.clone());
        assert!(one.names().iter().any(|name| name.ends_with(FUSED)), "{family:?}");
        assert_same(&one, &plain, &format!("{family:?}"));
    }
}

#[test]
fn gate_and_up_of_newer_models_are_one_matrix_or_two() {
    let Some(folder) = large("experts in one matrix or two", "fixtures/tiny") else { return };
    for fixture in ["glm4moe", "glm4moe_mtp", "qwen3next", "qwen35moe", "gemma4_moe"] {
        let plain = Remade::read(&folder.join(format!("{fixture}/tiny-{fixture}-f16.gguf")));
        let other = match fixture {
            "gemma4_moe" => separate(plain.clone()),
            _ => fused(plain.clone()),
        };
        assert_ne!(other.names(), plain.names(), "{fixture}");
        assert_same(&other, &plain, fixture);
    }
}

#[test]
fn experts_in_one_matrix_are_the_same_on_every_executor() {
    assert_same_on_every_executor(&fused(tiny(Family::Deepseek3)), "experts in one matrix");
}

/// A Qwen 2 mixture: experts of a third of a layer's width, three of which are used, and a shared
/// one as wide as a layer.
fn qwen2moe() -> Remade {
    let mut file = tiny(Family::Qwen3Moe).called("qwen2moe");
    let (hidden, width) = (file.number("embedding_length"), file.number("feed_forward_length"));
    for name in file.names().iter().filter(|name| name.ends_with("_norm.weight")) {
        if name.contains("attn_q_norm") || name.contains("attn_k_norm") {
            file.take(name);
        }
    }
    for layer in 0..file.number("block_count") {
        file.put(&format!("blk.{layer}.ffn_gate_inp_shexp.weight"), &[hidden]);
        for (name, dimensions) in
            [("gate", [hidden, width]), ("up", [hidden, width]), ("down", [width, hidden])]
        {
            file.put(&format!("blk.{layer}.ffn_{name}_shexp.weight"), &dimensions);
        }
    }
    let used = file.number("expert_used_count");
    assert_eq!(file.number("expert_feed_forward_length"), width / used);
    file.with("expert_shared_feed_forward_length", number(u64::from(width)))
}

#[test]
fn widths_that_a_qwen2_mixture_does_not_name_follow_from_that_of_a_layer() {
    let said = qwen2moe();
    let far = off(&said);
    assert!(far < TOLERANCE, "off by {far:.1e}");
    for name in ["expert_feed_forward_length", "expert_shared_feed_forward_length"] {
        assert_same(&said.clone().without(name), &said, name);
        assert_same(&said.clone().with(name, number(0)), &said, name);
    }
}
