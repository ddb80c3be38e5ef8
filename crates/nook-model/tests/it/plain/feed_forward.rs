//! Gated feed-forward layers (Shazeer, <https://arxiv.org/abs/2002.05202>) and mixtures of them
//! (Shazeer et al., <https://arxiv.org/abs/1701.06538>).

use super::Rows;
use super::attention::softmax;
use super::model::{Model, add, times_each};

/// How a router weighs its experts.
#[derive(Clone, Copy)]
pub(super) struct Router {
    pub(super) gate: Gate,
    /// Whether the chosen weights are divided by their sum.
    pub(super) normalise: bool,
    /// What the weights are multiplied by.
    pub(super) scale: f64,
    /// What the weights multiply.
    pub(super) weighs: Weighs,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Gate {
    Softmax,
    Sigmoid,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Weighs {
    Input,
    Output,
}

pub(super) fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The approximation by a hyperbolic tangent (Hendrycks and Gimpel,
/// <https://arxiv.org/abs/1606.08415>).
pub(super) fn gelu(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}

/// `down(activation(gate x) * up x)`, with the tensors of layer `layer` that end with `ending`, and
/// their biases where there are any.
pub(super) fn gated(
    model: &Model,
    layer: usize,
    ending: &str,
    activation: fn(f64) -> f64,
    x: &Rows,
) -> Rows {
    let name = |part: &str| format!("blk.{layer}.ffn_{part}{ending}");
    let gate = model.times_and_any_bias(&name("gate"), x);
    let up = model.times_and_any_bias(&name("up"), x);
    let inner = |(gate, up): (&Vec<f64>, &Vec<f64>)| {
        let gate: Vec<f64> = gate.iter().copied().map(activation).collect();
        times_each(&gate, up)
    };
    let inner: Rows = gate.iter().zip(&up).map(inner).collect();
    model.times_and_any_bias(&name("down"), &inner)
}

/// As [`gated`], where gate and up are the first and the second half of one matrix.
pub(super) fn gated_in_one(model: &Model, layer: usize, x: &Rows) -> Rows {
    let both = model.times(&format!("blk.{layer}.ffn_up.weight"), x);
    let inner = |both: &Vec<f64>| {
        let (gate, up) = both.split_at(both.len() / 2);
        gate.iter().zip(up).map(|(gate, up)| silu(*gate) * up).collect()
    };
    let inner: Rows = both.iter().map(inner).collect();
    model.times(&format!("blk.{layer}.ffn_down.weight"), &inner)
}

/// The experts that the router of layer `layer` chooses for each row, weighed and added.
pub(super) fn mixture(model: &Model, layer: usize, router: Router, x: &Rows) -> Rows {
    x.iter().map(|x| mixture_of_row(model, layer, router, x)).collect()
}

/// The `used` experts that the router of layer `layer` chooses for `x`, each with its share.
pub(super) fn choose(
    model: &Model,
    layer: usize,
    router: Router,
    used: usize,
    x: &[f64],
) -> Vec<(usize, f64)> {
    let scores = model.times_plane(&format!("blk.{layer}.ffn_gate_inp.weight"), 0, x);
    let weights = match router.gate {
        Gate::Softmax => softmax(&scores),
        Gate::Sigmoid => scores.iter().copied().map(sigmoid).collect(),
    };
    // The bias of DeepSeek V3 chooses experts, but does not weigh them.
    let mut merits = weights.clone();
    let bias = format!("blk.{layer}.exp_probs_b.bias");
    if model.has(&bias) {
        add(&mut merits, model.values(&bias));
    }
    let mut chosen: Vec<usize> = (0..merits.len()).collect();
    chosen.sort_by(|a, b| merits[*b].total_cmp(&merits[*a]));
    chosen.truncate(used);
    let total: f64 = chosen.iter().map(|expert| weights[*expert]).sum();
    let total = if router.normalise { total } else { 1.0 };
    chosen.into_iter().map(|expert| (expert, weights[expert] / total * router.scale)).collect()
}

fn mixture_of_row(model: &Model, layer: usize, router: Router, x: &[f64]) -> Vec<f64> {
    let name = |part: &str| format!("blk.{layer}.ffn_{part}.weight");
    let mut out = vec![0.0; x.len()];
    for (expert, share) in choose(model, layer, router, model.size("expert_used_count"), x) {
        let before = if router.weighs == Weighs::Input { share } else { 1.0 };
        let x: Vec<f64> = x.iter().map(|x| x * before).collect();
        let gate = model.times_plane(&name("gate_exps"), expert, &x);
        let up = model.times_plane(&name("up_exps"), expert, &x);
        let inner: Vec<f64> = gate.iter().zip(&up).map(|(gate, up)| silu(*gate) * up).collect();
        let down = model.times_plane(&name("down_exps"), expert, &inner);
        let after = if router.weighs == Weighs::Output { share } else { 1.0 };
        add(&mut out, &down.iter().map(|x| x * after).collect::<Vec<_>>());
    }
    out
}
