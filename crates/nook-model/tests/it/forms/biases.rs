//! Biases that a file may have or not: of all seven matrices of a layer in Llama and what shares
//! its form, of queries, keys and values in Qwen 2.

use nook_model::Fault;
use nook_model::synthetic::Family;

use super::remade::Remade;
use super::{APART, TOLERANCE, apart, assert_same_on_every_executor, fault, off, tiny};

/// The seven matrices of a layer.
const MATRICES: [&str; 7] =
    ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];

/// `file` with a bias of each of `matrices` in each of `layers`.
fn biased(mut file: Remade, matrices: &[&str], layers: &[u32]) -> Remade {
    let (hidden, width) = (file.number("embedding_length"), file.number("feed_forward_length"));
    let head_dim = hidden / file.number("attention.head_count");
    let key = file.number("attention.head_count_kv") * head_dim;
    for layer in layers {
        for matrix in matrices {
            let rows = match *matrix {
                "attn_k" | "attn_v" => key,
                "ffn_gate" | "ffn_up" => width,
                _ => hidden,
            };
            file.put(&format!("blk.{layer}.{matrix}.bias"), &[rows]);
        }
    }
    file
}

#[test]
fn each_bias_of_a_llama_is_added_where_the_file_has_it() {
    for family in [Family::Llama, Family::Granite, Family::Minicpm] {
        let plain = tiny(family);
        let all = biased(plain.clone(), &MATRICES, &[0, 1, 2, 3]);
        let far = off(&all);
        assert!(far < TOLERANCE, "{family:?}: off by {far:.1e}");
        for matrix in MATRICES {
            let one = biased(plain.clone(), &[matrix], &[1]);
            let far = off(&one);
            assert!(far < TOLERANCE, "{family:?} {matrix}: off by {far:.1e}");
            let moved = apart(&one, &plain);
            assert!(moved > APART, "{family:?} {matrix}: moves logits by {moved:.1e}");
        }
    }
}

#[test]
fn biases_of_a_llama_are_the_same_on_every_executor() {
    let file = biased(tiny(Family::Llama), &MATRICES, &[0, 1, 2, 3]);
    assert_same_on_every_executor(&file, "biases of a Llama");
}

#[test]
fn a_qwen2_may_have_no_biases() {
    let mut file = tiny(Family::Qwen2);
    for name in file.names().iter().filter(|name| name.ends_with(".bias")) {
        file.take(name);
    }
    let far = off(&file);
    assert!(far < TOLERANCE, "off by {far:.1e}");
}

#[test]
fn a_bias_that_does_not_fit_is_refused() {
    let mut file = tiny(Family::Llama);
    file.put("blk.0.ffn_down.bias", &[63]);
    assert!(matches!(fault(&file), Fault::TensorShape { .. }));
}
