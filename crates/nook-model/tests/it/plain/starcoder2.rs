//! StarCoder2: layer norms, biases everywhere, a feed-forward layer without a gate.
//!
//! <https://arxiv.org/abs/2402.19173>; `Starcoder2ForCausalLM` of transformers.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::gelu;
use super::model::{Model, add, add_rows, times_each};
use super::rope::{Pairs, Rope};

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let attention = Attention::of(model);
    let rope = Rope::of(model, attention.key_dim, Pairs::Halves);

    let mut x = model.embed(ids, 1.0);
    for layer in 0..model.layers() {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let h = norm(model, &name("attn_norm"), &x);
        let mut queries = model.times_and_bias(&name("attn_q"), &h);
        let mut keys = model.times_and_bias(&name("attn_k"), &h);
        let values = model.times_and_bias(&name("attn_v"), &h);
        rope.turn_rows(&mut queries, attention.key_dim, 0);
        rope.turn_rows(&mut keys, attention.key_dim, 0);
        let mixed = attention.mix(model, &queries, &keys, &values);
        add_rows(&mut x, &model.times_and_bias(&name("attn_output"), &mixed), 1.0);

        let h = norm(model, &name("ffn_norm"), &x);
        let mut inner = model.times_and_bias(&name("ffn_up"), &h);
        inner.iter_mut().flatten().for_each(|x| *x = gelu(*x));
        add_rows(&mut x, &model.times_and_bias(&name("ffn_down"), &inner), 1.0);
    }
    model.head(&norm(model, "output_norm", &x))
}

/// Layer norm (Ba et al., <https://arxiv.org/abs/1607.06450>).
fn norm(model: &Model, name: &str, x: &Rows) -> Rows {
    let epsilon = model.fraction("attention.layer_norm_epsilon").unwrap();
    let weights = model.values(&format!("{name}.weight"));
    let bias = model.values(&format!("{name}.bias"));
    let norm = |x: &Vec<f64>| {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let centred: Vec<f64> = x.iter().map(|x| x - mean).collect();
        let mut out = times_each(&super::model::normed(&centred, epsilon), weights);
        add(&mut out, bias);
        out
    };
    x.iter().map(norm).collect()
}
