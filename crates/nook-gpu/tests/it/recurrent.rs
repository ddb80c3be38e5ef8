//! What layers that remember in one state compute beside products, against its definition in double
//! precision.

use nook_gpu::{
    Buffer, Commands, Convolution, DeltaInput, DeltaShape, KernelSet, MambaInput, MambaShape,
};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::weights::{numbers, worst};

/// Greatest difference over the root mean square of all. WGSL allows an exponential of `x` an error
/// of `3 + 2 |x|` units in the last place.
const APART_MAX: f64 = 2e-5;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    if x > 30.0 { x } else { x.exp().ln_1p() }
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|x| f64::from(*x)).collect()
}

fn narrow(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|x| *x as f32).collect()
}

#[test]
fn a_convolution_sees_the_rows_before_and_keeps_what_the_next_needs() {
    let Some(gpu) = crate::gpu("convolutions", KernelSet::Portable) else { return };
    let mut random = StdRng::seed_from_u64(41);
    let channels = 37;
    // More rows than taps and fewer; rows of another session lie before these.
    for (taps, row, rows) in [(4, 2, 9), (3, 0, 1), (4, 5, 2), (1, 1, 3)] {
        for (biased, silu) in [(false, false), (false, true), (true, true)] {
            let history = (taps - 1) * channels;
            let past = numbers(history + 5, &mut random);
            let inputs = numbers((row + rows) * channels, &mut random);
            let weights = numbers(channels * taps, &mut random);
            let bias = numbers(channels, &mut random);
            let own = [&past[..history], &inputs[row * channels..]].concat();
            let expected: Vec<f32> = (0..rows * channels)
                .map(|at| {
                    let (line, channel) = (at / channels, at % channels);
                    let of = |tap: usize| {
                        let input = own[(line + tap) * channels + channel];
                        f64::from(input) * f64::from(weights[channel * taps + tap])
                    };
                    let bias = if biased { f64::from(bias[channel]) } else { 0.0 };
                    let sum = bias + (0..taps).map(of).sum::<f64>();
                    (if silu { sum * sigmoid(sum) } else { sum }) as f32
                })
                .collect();
            let held = |numbers: &[f32]| Buffer::of_floats(&gpu, "numbers", numbers).unwrap();
            let (weights, bias) = (held(&weights), held(&bias));
            let bias = biased.then_some(&bias);
            let convolution = Convolution { channels, taps, weights: &weights, bias, silu };
            let (inputs, past) = (held(&inputs), held(&past));
            let out = Buffer::new(&gpu, "out", (row + rows) * channels).unwrap();
            let after = Buffer::new(&gpu, "after", history + 5).unwrap();
            let mut commands = Commands::new(&gpu);
            commands.convolve(convolution, &inputs, &past, (row, rows), &out).unwrap();
            commands.keep_inputs(convolution, &inputs, &past, (row, rows), &after).unwrap();
            let got = commands.read_floats(&out, row * channels, rows * channels).unwrap();
            let off = worst(&got, &expected);
            assert!(off < APART_MAX, "{taps} taps, {rows} rows, {biased} {silu}: {off:.1e}");
            let kept = commands.read_floats(&after, 0, history).unwrap();
            assert_eq!(kept, own[own.len() - history..], "{taps} taps, {rows} rows");
        }
    }
}

#[test]
fn a_delta_net_fades_corrects_and_reads_its_states() {
    let Some(gpu) = crate::gpu("delta nets", KernelSet::Portable) else { return };
    let mut random = StdRng::seed_from_u64(42);
    let (row, rows, epsilon) = (2, 5, 1e-6);
    for (key_heads, value_heads, dim, grouped) in
        [(2, 6, 16, false), (2, 6, 16, true), (3, 3, 80, true), (1, 2, 128, false)]
    {
        let shape = DeltaShape { key_heads, value_heads, grouped, dim, taps: 4 };
        let (channels, history) = (shape.channels(), shape.history());
        let convolved = numbers((row + rows) * channels, &mut random);
        let betas = numbers((row + rows) * value_heads, &mut random);
        // Steps so short that they vanish beside 1, and long ones.
        let alphas: Vec<f32> = (0..(row + rows) * value_heads)
            .map(|at| [-18.0, -9.0, -3.0, 0.5, 4.0, 25.0][at % 6])
            .collect();
        let bias = numbers(value_heads, &mut random);
        let decay: Vec<f32> = (0..value_heads).map(|head| -0.3 - head as f32).collect();
        let state = numbers(shape.state(), &mut random);
        let mut after = wide(&state[history..]);
        let mut expected = Vec::new();
        for line in row..row + rows {
            for head in 0..value_heads {
                let key_head =
                    if grouped { head / (value_heads / key_heads) } else { head % key_heads };
                let own = wide(&convolved[line * channels..(line + 1) * channels]);
                let unit = |at: usize| {
                    let head = &own[at..at + dim];
                    let squares: f64 = head.iter().map(|x| x * x).sum();
                    head.iter().map(|x| x / (squares + 1e-6).sqrt()).collect::<Vec<_>>()
                };
                let query = unit(key_head * dim);
                let key = unit((key_heads + key_head) * dim);
                let value = &own[(2 * key_heads + head) * dim..][..dim];
                let at = line * value_heads + head;
                let step = softplus(f64::from(alphas[at]) + f64::from(bias[head]));
                let kept = (f64::from(decay[head]) * step).exp();
                let beta = sigmoid(f64::from(betas[at]));
                let state = &mut after[head * dim * dim..(head + 1) * dim * dim];
                state.iter_mut().for_each(|x| *x *= kept);
                for column in 0..dim {
                    let held: f64 = (0..dim).map(|i| key[i] * state[i * dim + column]).sum();
                    let correction = (value[column] - held) * beta;
                    (0..dim).for_each(|i| state[i * dim + column] += key[i] * correction);
                }
                expected.extend((0..dim).map(|column| {
                    let read: f64 = (0..dim).map(|i| query[i] * state[i * dim + column]).sum();
                    (read / (dim as f64).sqrt()) as f32
                }));
            }
        }
        let held = |numbers: &[f32]| Buffer::of_floats(&gpu, "numbers", numbers).unwrap();
        let (convolved, betas, alphas) = (held(&convolved), held(&betas), held(&alphas));
        let (bias, decay, state) = (held(&bias), held(&decay), held(&state));
        let input = DeltaInput {
            convolved: &convolved,
            betas: &betas,
            alphas: &alphas,
            bias: &bias,
            decay: &decay,
            epsilon,
        };
        let width = value_heads * dim;
        let out = Buffer::new(&gpu, "out", (row + rows) * width).unwrap();
        let mut commands = Commands::new(&gpu);
        commands.delta(shape, input, (row, rows), &state, &out).unwrap();
        let got = commands.read_floats(&out, row * width, rows * width).unwrap();
        let off = worst(&got, &expected);
        assert!(off < APART_MAX, "{shape:?}: {off:.1e}");
        let got = commands.read_floats(&state, history, after.len()).unwrap();
        let off = worst(&got, &narrow(&after));
        assert!(off < APART_MAX, "{shape:?}, its states: {off:.1e}");
    }
}

#[test]
fn a_mamba_layer_fades_adds_to_and_reads_its_states() {
    let Some(gpu) = crate::gpu("Mamba layers", KernelSet::Portable) else { return };
    let mut random = StdRng::seed_from_u64(43);
    let (row, rows, state_at) = (1, 6, 11);
    for (heads, dim, groups, places) in [(6, 16, 2, 24), (4, 80, 4, 128), (3, 8, 1, 5)] {
        let shape = MambaShape { heads, dim, groups, places, state_at };
        let (channels, inner) = (shape.channels(), heads * dim);
        let convolved = numbers((row + rows) * channels, &mut random);
        // Steps so short that they vanish beside 1, and long ones.
        let steps: Vec<f32> = (0..(row + rows) * heads)
            .map(|at| [-18.0, -7.0, -3.0, 0.5, 4.0, 25.0, -5.0][at % 7])
            .collect();
        let (bias, skip) = (numbers(heads, &mut random), numbers(heads, &mut random));
        let decay: Vec<f32> = (0..heads).map(|head| -0.2 - head as f32).collect();
        let state = numbers(state_at + inner * places, &mut random);
        let mut after = wide(&state[state_at..]);
        let mut expected = Vec::new();
        for line in row..row + rows {
            let own = wide(&convolved[line * channels..(line + 1) * channels]);
            for (head, state) in after.chunks_exact_mut(dim * places).enumerate() {
                let put_at = inner + head / (heads / groups) * places;
                let (puts, reads) = (&own[put_at..], &own[put_at + groups * places..]);
                let step = softplus(f64::from(steps[line * heads + head]) + f64::from(bias[head]));
                let kept = (f64::from(decay[head]) * step).exp();
                for (i, held) in state.chunks_exact_mut(places).enumerate() {
                    let input = own[head * dim + i];
                    for (held, put) in held.iter_mut().zip(puts) {
                        *held = *held * kept + step * input * put;
                    }
                    let read: f64 = held.iter().zip(reads).map(|(x, y)| x * y).sum();
                    expected.push((read + f64::from(skip[head]) * input) as f32);
                }
            }
        }
        let held = |numbers: &[f32]| Buffer::of_floats(&gpu, "numbers", numbers).unwrap();
        let (convolved, steps, bias) = (held(&convolved), held(&steps), held(&bias));
        let (decay, skip, state) = (held(&decay), held(&skip), held(&state));
        let input = MambaInput {
            convolved: &convolved,
            steps: &steps,
            bias: &bias,
            decay: &decay,
            skip: &skip,
        };
        let out = Buffer::new(&gpu, "out", (row + rows) * inner).unwrap();
        let mut commands = Commands::new(&gpu);
        commands.mamba(shape, input, (row, rows), &state, &out).unwrap();
        let got = commands.read_floats(&out, row * inner, rows * inner).unwrap();
        let off = worst(&got, &expected);
        assert!(off < APART_MAX, "{shape:?}: {off:.1e}");
        let got = commands.read_floats(&state, state_at, after.len()).unwrap();
        let off = worst(&got, &narrow(&after));
        assert!(off < APART_MAX, "{shape:?}, its states: {off:.1e}");
    }
}
