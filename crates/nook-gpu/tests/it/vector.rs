//! Norms, rotary positions and functions of single numbers, against their definitions in double
//! precision.

use nook_gpu::{
    Buffer, ByMean, Columns, Commands, Each, Gpu, KernelSet, Mixing, Norm, Streams, Turn,
};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::weights::{numbers, worst};

/// Greatest difference over the root mean square of all.
const APART_MAX: f64 = 2e-6;

/// As [`APART_MAX`], of functions with an exponential, which WGSL allows an error of `3 + 2 |x|`
/// units in the last place.
const EXPONENTIAL_APART_MAX: f64 = 2e-5;

#[test]
fn norms_are_those_of_their_papers() {
    let Some(gpu) = crate::gpu("norms", KernelSet::Portable) else { return };
    let mut random = StdRng::seed_from_u64(31);
    for (width, rows) in [(1, 3), (64, 5), (100, 2), (1000, 3)] {
        let x = numbers(width * rows, &mut random);
        let (weight, bias) = (numbers(width, &mut random), numbers(width, &mut random));
        let held = Buffer::of_floats(&gpu, "x", &x).unwrap();
        let weights = Buffer::of_floats(&gpu, "weight", &weight).unwrap();
        let biases = Buffer::of_floats(&gpu, "bias", &bias).unwrap();
        for (layer, weighted, biased) in
            [(false, true, false), (false, false, false), (true, true, true), (true, true, false)]
        {
            let norm = Norm {
                width,
                epsilon: 1e-5,
                layer,
                weight: weighted.then_some(&weights),
                bias: biased.then_some(&biases),
            };
            let mut expected = Vec::new();
            for row in x.chunks_exact(width) {
                let row: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
                let mean = if layer { row.iter().sum::<f64>() / width as f64 } else { 0.0 };
                let square = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
                let factor = 1.0 / (square + 1e-5).sqrt();
                expected.extend(row.iter().enumerate().map(|(i, x)| {
                    let scaled = (x - mean) * factor;
                    let weight = if weighted { f64::from(weight[i]) } else { 1.0 };
                    let bias = if biased { f64::from(bias[i]) } else { 0.0 };
                    (scaled * weight + bias) as f32
                }));
            }
            let mut commands = Commands::new(&gpu);
            let out = Buffer::new(&gpu, "out", x.len()).unwrap();
            commands.norm(&held, norm, rows, &out).unwrap();
            let got = commands.read_floats(&out, 0, x.len()).unwrap();
            let off = worst(&got, &expected);
            assert!(off < APART_MAX, "{width} {layer} {weighted}: {off:.1e}");
            commands.copy(&held, 0, &out, 0, x.len()).unwrap();
            commands.norm_in_place(&out, norm, rows).unwrap();
            assert_eq!(commands.read_floats(&out, 0, x.len()).unwrap(), got);
        }
    }
}

#[test]
fn functions_of_numbers_are_right_far_from_zero_and_near_it() {
    let Some(gpu) = crate::gpu("functions", KernelSet::Portable) else { return };
    let mut random = StdRng::seed_from_u64(32);
    let mut x = numbers(1000, &mut random);
    x.extend([0.0, 1e-6, -1e-6, 0.1, -0.12, 0.13, 20.0, -20.0, 90.0, -90.0, 200.0, -200.0]);
    let y = numbers(x.len(), &mut random);
    let other = Buffer::of_floats(&gpu, "y", &y).unwrap();
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let gelu =
        |x: f64| 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x.powi(3))).tanh());
    let width = 23;
    type Function<'a> = &'a dyn Fn(f64, usize) -> f64;
    let second = |i: usize| f64::from(y[i]);
    let cases: [(Each<'_>, Function<'_>); 17] = [
        (Each::Add(&other, 0.5), &|x, i| x + 0.5 * second(i)),
        (Each::AddRow(&other, 0), &|x, i| x + second(i % width)),
        (Each::AddRow(&other, 5), &|x, i| x + second(5 * width + i % width)),
        (Each::Clear, &|_, _| 0.0),
        (Each::Scale(-3.0), &|x, _| -3.0 * x),
        (Each::SoftCap(30.0), &|x, _| 30.0 * (x / 30.0).tanh()),
        (Each::Silu, &|x, _| x * sigmoid(x)),
        (Each::GeluTanh, &|x, _| gelu(x)),
        (Each::SiluTimes(&other), &|x, i| x * sigmoid(x) * second(i)),
        (Each::GeluTanhTimes(&other), &|x, i| gelu(x) * second(i)),
        (Each::Times(&other), &|x, i| x * second(i)),
        (Each::TimesRow(&other), &|x, i| x * second(i % width)),
        (Each::SquaredRelu, &|x, _| x.max(0.0).powi(2)),
        (Each::SquaredReluTimes(&other), &|x, i| x.max(0.0).powi(2) * second(i)),
        (Each::SigmoidTimes(&other), &|x, i| x * sigmoid(second(i))),
        (Each::ScaleRows(&other), &|x, i| x * second(i / width)),
        (Each::ClampedGateTimes { y: &other, limit: 1.5, steepness: 1.702 }, &|x, i| {
            let gate = x.min(1.5);
            gate * sigmoid(1.702 * gate) * (second(i).clamp(-1.5, 1.5) + 1.0)
        }),
    ];
    for (each, function) in cases {
        let expected: Vec<f32> =
            x.iter().enumerate().map(|(i, x)| function(f64::from(*x), i) as f32).collect();
        let got = in_place(&gpu, &x, |commands, held| {
            commands.each(held, x.len(), width, each).unwrap();
        });
        let off = worst(&got, &expected);
        assert!(off < EXPONENTIAL_APART_MAX, "{each:?}: {off:.1e}");
    }
}

#[test]
fn heads_turn_pair_by_pair() {
    let Some(gpu) = crate::gpu("rotary positions", KernelSet::Portable) else { return };
    let mut random = StdRng::seed_from_u64(33);
    let (rows, heads, head_dim, pairs, offset) = (3, 2, 20, 6, 4);
    let x = numbers(rows * heads * head_dim, &mut random);
    let angles = numbers(rows * pairs, &mut random);
    let cosines: Vec<f32> = angles.iter().map(|angle| angle.cos()).collect();
    let sines: Vec<f32> = angles.iter().map(|angle| angle.sin()).collect();
    let cosine = Buffer::of_floats(&gpu, "cosines", &cosines).unwrap();
    let sine = Buffer::of_floats(&gpu, "sines", &sines).unwrap();
    for halves in [true, false] {
        let mut expected = x.clone();
        for (head, numbers) in expected.chunks_exact_mut(head_dim).enumerate() {
            for pair in 0..pairs {
                let (a, b) = if halves { (pair, pairs + pair) } else { (2 * pair, 2 * pair + 1) };
                let (u, v) = (numbers[offset + a], numbers[offset + b]);
                let (c, s) =
                    (cosines[head / heads * pairs + pair], sines[head / heads * pairs + pair]);
                numbers[offset + a] = u * c - v * s;
                numbers[offset + b] = u * s + v * c;
            }
        }
        let turn = Turn { cosines: &cosine, sines: &sine, pairs, offset, halves };
        let got = in_place(&gpu, &x, |commands, held| {
            commands.turn(held, rows, heads, head_dim, turn).unwrap();
        });
        let off = worst(&got, &expected);
        assert!(off < APART_MAX, "{halves}: {off:.1e}");
    }
}

#[test]
fn rows_and_columns_go_where_they_are_sent() {
    let Some(gpu) = crate::gpu("rows and columns", KernelSet::Portable) else { return };
    let x: Vec<f32> = (0..12).map(|i| i as f32).collect(); // 3 rows of 4
    let held = Buffer::of_floats(&gpu, "x", &x).unwrap();
    let ids = Buffer::of_words(&gpu, "ids", &[2, 0]).unwrap();
    let out = Buffer::new(&gpu, "out", 8).unwrap();
    let mut commands = Commands::new(&gpu);
    commands.gather(&held, 4, &ids, 2, &out).unwrap();
    commands.scatter_add(&out, 4, &ids, 2, &held).unwrap();
    assert_eq!(commands.read_floats(&out, 0, 8).unwrap(), [8., 9., 10., 11., 0., 1., 2., 3.]);
    let all = commands.read_floats(&held, 0, 12).unwrap();
    assert_eq!(all, [0., 2., 4., 6., 4., 5., 6., 7., 16., 18., 20., 22.]);
    let wide = Buffer::new(&gpu, "wide", 12).unwrap();
    let columns = Columns::new(4, 2).cut(4, 1).paste(3, 1).repeat(2);
    commands.copy_columns(&held, &wide, columns).unwrap();
    let wide_rows = commands.read_floats(&wide, 0, 12).unwrap();
    assert_eq!(wide_rows, [0., 2., 4., 0., 2., 4., 0., 5., 6., 0., 5., 6.]);
    let beyond = Columns::new(5, 2).cut(4, 1).paste(3, 1);
    assert!(commands.copy_columns(&held, &wide, beyond).is_err());
}

#[test]
fn streams_are_predicted_corrected_and_added_to() {
    let Some(gpu) = crate::gpu("streams", KernelSet::Portable) else { return };
    let mut random = StdRng::seed_from_u64(34);
    let (n, count, hidden, active) = (3, 4, 37, 1);
    let x = numbers(n * count * hidden, &mut random);
    let made = numbers(n * hidden, &mut random);
    let shares = numbers(n * count * count, &mut random);
    let held = |numbers: &[f32]| Buffer::of_floats(&gpu, "numbers", numbers).unwrap();
    let (made_held, shares_held) = (held(&made), held(&shares));
    let at =
        |row: usize, stream: usize, i: usize| f64::from(x[(row * count + stream) * hidden + i]);
    type Function<'a> = &'a dyn Fn(usize, usize, usize) -> f64;
    let cases: [(Mixing<'_>, Function<'_>); 3] = [
        (Mixing::Predict(&shares_held), &|row, stream, i| {
            let share = |other| f64::from(shares[(row * count + stream) * count + other]);
            at(row, stream, i)
                + (0..count).map(|other| share(other) * at(row, other, i)).sum::<f64>()
        }),
        (Mixing::Correct { made: &made_held, shares: &shares_held, active }, &|row, stream, i| {
            let change = f64::from(made[row * hidden + i]) - at(row, active, i);
            at(row, stream, i) + (f64::from(shares[row * count + stream]) + 1.0) * change
        }),
        (Mixing::AddToOthers(&made_held), &|row, stream, i| {
            let made = if stream > 0 { f64::from(made[row * hidden + i]) } else { 0.0 };
            at(row, stream, i) + made
        }),
    ];
    for (mixing, function) in cases {
        let all = (0..n * count * hidden)
            .map(|at| function(at / (count * hidden), at / hidden % count, at % hidden) as f32);
        let expected: Vec<f32> = all.collect();
        let got = in_place(&gpu, &x, |commands, held| {
            commands.mix_streams(held, n, Streams { count, hidden }, mixing).unwrap();
        });
        let off = worst(&got, &expected);
        assert!(off < APART_MAX, "{mixing:?}: {off:.1e}");
    }
}

#[test]
fn rows_are_changed_by_their_own_mean() {
    let Some(gpu) = crate::gpu("rows and their means", KernelSet::Portable) else { return };
    let mut random = StdRng::seed_from_u64(35);
    let (n, width) = (4, 300);
    let mut x = numbers(n * width, &mut random);
    // A row that is shorter than rows are taken to be.
    x[width..2 * width].iter_mut().for_each(|x| *x *= 1e-4);
    let model = numbers(n * width, &mut random);
    let model_held = Buffer::of_floats(&gpu, "model", &model).unwrap();
    let square =
        |row: &[f32]| row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / width as f64;
    let mut expected = [Vec::new(), Vec::new()];
    for (row, model) in x.chunks_exact(width).zip(model.chunks_exact(width)) {
        let scale = square(model).sqrt() / square(row).max(1e-5).sqrt();
        expected[0].extend(row.iter().map(|x| (f64::from(*x) * scale) as f32));
        let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / width as f64;
        let deviations = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>();
        let least = mean + 0.8 * (deviations / width as f64).sqrt();
        expected[1].extend(row.iter().map(|x| (f64::from(*x) - least).max(0.0) as f32));
    }
    let changes = [ByMean::AsLongAs(&model_held, 1e-5), ByMean::CutOff(0.8)];
    for (change, expected) in changes.into_iter().zip(expected) {
        let got = in_place(&gpu, &x, |commands, held| {
            commands.by_mean(held, n, width, change).unwrap();
        });
        let off = worst(&got, &expected);
        assert!(off < APART_MAX, "{change:?}: {off:.1e}");
    }
}

fn in_place(gpu: &Gpu, x: &[f32], record: impl FnOnce(&mut Commands, &Buffer)) -> Vec<f32> {
    let held = Buffer::of_floats(gpu, "x", x).unwrap();
    let mut commands = Commands::new(gpu);
    record(&mut commands, &held);
    commands.read_floats(&held, 0, x.len()).unwrap()
}
