//! Gemma 3n: several hidden states side by side, of which each layer computes one (AltUp, Baykal et
//! al., <https://arxiv.org/abs/2301.13310>); a narrow way beside attention (LAuReL, Menghani et al.,
//! <https://arxiv.org/abs/2411.07501>); an input of each layer by token; late layers that read the
//! keys and values of the last layer of their kind that has its own; and in some layers gates that
//! count from a cut-off on.
//!
//! `Gemma3nForCausalLM` of transformers.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::gelu;
use super::gemma4::{Remembered, input, inputs, remember};
use super::model::{Model, add, times_each};
use super::rope::{Pairs, Rope};

/// For each stream its rows.
type Streams = Vec<Rows>;

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let slides = model.truths("attention.sliding_window_pattern");
    let cutoffs = model.fractions("activation_sparsity_scale");
    let layers = model.layers();
    let own = layers - model.number("attention.shared_kv_layers").unwrap_or(0);
    let active = model.size("altup.active_idx");
    let embedded = model.embed(ids, (model.size("embedding_length") as f64).sqrt());
    let inputs = inputs(model, ids, &embedded).unwrap();
    let mut streams = spread(model, &embedded);
    let mut remembered: Vec<Remembered> = Vec::new();
    for layer in 0..layers {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let predicted = predict(model, layer, &streams, active);
        let x = &predicted[active];
        let h = model.norm(&name("attn_norm"), x);
        let source = match layer < own {
            true => layer,
            false => slides[..own].iter().rposition(|other| *other == slides[layer]).unwrap(),
        };
        let attended = attend(model, layer, slides[layer], &h, source, &mut remembered);
        let attended = model.norm(&name("post_attention_norm"), &attended);
        let narrow = model.times(&name("laurel_r"), &model.times(&name("laurel_l"), &h));
        let narrow = model.norm(&name("laurel_post_norm"), &narrow);
        let mut x = sum(&[x, &attended, &h, &narrow]);
        x.iter_mut().flatten().for_each(|x| *x /= 2f64.sqrt());

        let out = feed_forward(model, layer, cutoffs[layer], &model.norm(&name("ffn_norm"), &x));
        let x = sum(&[&x, &model.norm(&name("post_ffw_norm"), &out)]);
        streams = correct(model, layer, &predicted, &x, active);
        let scale = model.values(&name("altup_correct_scale"));
        let scaled = streams[active].iter().map(|x| times_each(x, scale)).collect();
        let made = model.norm(&name("post_norm"), &input(model, layer, &scaled, &inputs[layer]));
        for stream in &mut streams[1..] {
            *stream = sum(&[stream, &made]);
        }
    }
    let mut logits = model.head(&model.norm("output_norm.weight", &merge(model, &streams)));
    let cap = model.fraction("final_logit_softcapping").unwrap();
    logits.iter_mut().flatten().for_each(|logit| *logit = cap * (*logit / cap).tanh());
    logits
}

fn sum(all: &[&Rows]) -> Rows {
    let mut out = all[0].clone();
    for rows in &all[1..] {
        out.iter_mut().zip(*rows).for_each(|(out, row)| add(out, row));
    }
    out
}

/// The embedding, and projections of it that are as long as it.
fn spread(model: &Model, embedded: &Rows) -> Streams {
    let other = |plane| {
        let row = |x: &Vec<f64>| as_long_as(x, model.times_plane("altup_proj.weight", plane, x));
        embedded.iter().map(row).collect()
    };
    let others = (0..model.size("altup.num_inputs") - 1).map(other);
    std::iter::once(embedded.clone()).chain(others).collect()
}

/// The mean of the first stream and of projections of the others that are as long as it.
fn merge(model: &Model, streams: &Streams) -> Rows {
    let row = |at: usize| {
        let mut out = streams[0][at].clone();
        for (plane, stream) in streams[1..].iter().enumerate() {
            let other = model.times_plane("altup_unembd_proj.weight", plane, &stream[at]);
            add(&mut out, &as_long_as(&streams[0][at], other));
        }
        out.iter().map(|x| x / streams.len() as f64).collect()
    };
    (0..streams[0].len()).map(row).collect()
}

fn as_long_as(model: &[f64], row: Vec<f64>) -> Vec<f64> {
    let square = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
    let factor = square(model).sqrt() / square(&row).max(1e-5).sqrt();
    row.iter().map(|x| x * factor).collect()
}

/// What the router says of each row.
fn route(model: &Model, layer: usize, x: &Rows) -> Rows {
    let name = |part: &str| format!("blk.{layer}.{part}.weight");
    let mut normed = model.norm(&name("altup_router_norm"), x);
    let width = normed[0].len() as f64;
    normed.iter_mut().flatten().for_each(|x| *x /= width);
    let mut routed = model.times(&name("altup_router"), &normed);
    routed.iter_mut().flatten().for_each(|x| *x = x.tanh());
    routed
}

/// Each stream, and a mixture of all streams that the router weighs.
fn predict(model: &Model, layer: usize, streams: &Streams, active: usize) -> Streams {
    let routed = route(model, layer, &streams[active]);
    let shares = model.times(&format!("blk.{layer}.altup_predict_coef.weight"), &routed);
    let count = streams.len();
    let value = |stream: usize, at: usize, number: usize| {
        let parts =
            (0..count).map(|other| shares[at][stream * count + other] * streams[other][at][number]);
        streams[stream][at][number] + parts.sum::<f64>()
    };
    let row = |stream: usize, at: usize| {
        (0..streams[stream][at].len()).map(|number| value(stream, at, number)).collect()
    };
    let rows = |stream| (0..routed.len()).map(|at| row(stream, at)).collect();
    (0..count).map(rows).collect()
}

/// Each predicted stream, and what the computed one is off by, as much of it as the router says.
fn correct(model: &Model, layer: usize, predicted: &Streams, x: &Rows, active: usize) -> Streams {
    let routed = route(model, layer, x);
    let shares = model.times(&format!("blk.{layer}.altup_correct_coef.weight"), &routed);
    let row = |stream: usize, at: usize| {
        let share = 1.0 + shares[at][stream];
        let numbers = predicted[stream][at].iter().zip(&x[at]).zip(&predicted[active][at]);
        numbers.map(|((own, new), old)| own + share * (new - old)).collect()
    };
    let rows = |stream| (0..routed.len()).map(|at| row(stream, at)).collect();
    (0..predicted.len()).map(rows).collect()
}

fn attend(
    model: &Model,
    layer: usize,
    slides: bool,
    x: &Rows,
    source: usize,
    remembered: &mut Vec<Remembered>,
) -> Rows {
    let name = |part: &str| format!("blk.{layer}.{part}.weight");
    let window = model.number("attention.sliding_window").filter(|_| slides);
    let heads = Attention { scale: 1.0, window, ..Attention::of(model) };
    let base = if slides { "rope.freq_base_swa" } else { "rope.freq_base" };
    let rope = Rope::new(model.fraction(base).unwrap(), heads.key_dim, Pairs::Halves);
    if source == layer {
        remembered.push(remember(model, layer, heads.key_dim, &rope, x));
    }
    let mut queries = model.norm_heads(&name("attn_q_norm"), &model.times(&name("attn_q"), x));
    rope.turn_rows(&mut queries, heads.key_dim, 0);
    let (keys, values) = &remembered[source];
    model.times(&name("attn_output"), &heads.mix(model, &queries, keys, values))
}

fn feed_forward(model: &Model, layer: usize, deviations: f64, x: &Rows) -> Rows {
    let name = |part: &str| format!("blk.{layer}.ffn_{part}.weight");
    let (gates, ups) = (model.times(&name("gate"), x), model.times(&name("up"), x));
    let inner = |(gates, up): (&Vec<f64>, &Vec<f64>)| {
        let open: Vec<f64> = cut_off(gates, deviations).into_iter().map(gelu).collect();
        times_each(&open, up)
    };
    model.times(&name("down"), &gates.iter().zip(&ups).map(inner).collect())
}

/// What gates are above their mean and so many deviations.
fn cut_off(gates: &[f64], deviations: f64) -> Vec<f64> {
    if deviations == f64::NEG_INFINITY {
        return gates.to_vec();
    }
    let count = gates.len() as f64;
    let mean = gates.iter().sum::<f64>() / count;
    let variance = gates.iter().map(|gate| (gate - mean).powi(2)).sum::<f64>() / count;
    gates.iter().map(|gate| (gate - mean - deviations * variance.sqrt()).max(0.0)).collect()
}
