//! Scales beside matrices: files in NVFP4 have them, and any matrix of any family may.

use nook_kernels::Format;
use nook_model::Fault;
use nook_model::synthetic::{Family, TensorEntry};

use super::remade::Remade;
use super::{assert_same, assert_same_on_every_executor, fault, tiny};

/// Matrices that files have scales beside.
const MATRICES: [&str; 12] = [
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_qkv",
    "attn_output",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
    "ffn_gate_exps",
    "ffn_up_exps",
    "ffn_down_exps",
    "output",
];

fn singles(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Puts in the tensor `name` with these numbers.
fn put(file: &mut Remade, name: &str, numbers: &[f32]) {
    let entry = TensorEntry::new(name, &[numbers.len() as u32], Format::F32);
    let bytes = singles(numbers);
    file.put_rows(&entry, &entry.dimensions, &[&bytes]);
}

/// Divides the numbers of each matrix of the tensor by a power of two, and puts that beside it.
fn set_aside(file: &mut Remade, name: &str, first: i32) {
    let (entry, data) = file.take(name);
    let count = entry.dimensions.get(2).copied().unwrap_or(1) as usize;
    let scales: Vec<f32> = (0..count).map(|at| 2f32.powi(first + at as i32)).collect();
    let matrices = data.chunks_exact(data.len() / count);
    let divided = matrices.zip(&scales).flat_map(|(matrix, scale)| {
        let (numbers, _) = matrix.as_chunks::<4>();
        let divide = move |number: &[u8; 4]| (f32::from_le_bytes(*number) / scale).to_le_bytes();
        numbers.iter().flat_map(divide).collect::<Vec<u8>>()
    });
    let divided: Vec<u8> = divided.collect();
    file.put_rows(&entry, &entry.dimensions, &[&divided]);
    let stem = name.strip_suffix(".weight").unwrap();
    put(file, &format!("{stem}.scale"), &scales);
    put(file, &format!("{stem}.input_scale"), &scales);
}

/// The model with a scale beside each of its matrices that may have one; how many those are.
fn with_scales(plain: &Remade) -> (Remade, usize) {
    let mut file = plain.clone();
    let is_matrix = |name: &String| {
        let stem = name.strip_suffix(".weight").unwrap_or_default();
        MATRICES.contains(&stem.rsplit('.').next().unwrap_or_default())
    };
    let names: Vec<String> = plain.names().into_iter().filter(is_matrix).collect();
    for (name, first) in names.iter().zip((-3..4).cycle()) {
        set_aside(&mut file, name, first);
    }
    (file, names.len())
}

#[test]
fn what_is_multiplied_behind_a_matrix_is_what_its_numbers_were_multiplied_with() {
    for family in [Family::Llama, Family::Qwen3Moe, Family::Phi3, Family::Gemma2, Family::GptOss] {
        let plain = tiny(family);
        let (file, count) = with_scales(&plain);
        assert!(count > 4, "{family:?}: {count}");
        assert_same(&file, &plain, &format!("{family:?}"));
    }
}

#[test]
fn every_executor_multiplies_with_it() {
    for family in [Family::Qwen3, Family::Qwen3Moe] {
        let (file, _) = with_scales(&tiny(family));
        assert_same_on_every_executor(&file, &format!("{family:?} with scales"));
    }
}

#[test]
fn one_that_belongs_to_no_matrix_or_has_another_shape_is_refused() {
    let plain = tiny(Family::Qwen3Moe);
    for (name, count) in [("blk.0.attn_q.scale", 2), ("blk.0.ffn_up_exps.scale", 1)] {
        let mut file = plain.clone();
        put(&mut file, name, &vec![1.0; count]);
        let fault = fault(&file);
        assert!(matches!(&fault, Fault::TensorShape { tensor, .. } if tensor == name), "{fault}");
    }
    for name in ["blk.0.attn_norm.scale", "blk.0.other.scale", "blk.0.other.input_scale"] {
        let mut file = plain.clone();
        put(&mut file, name, &[1.0]);
        assert_eq!(fault(&file), Fault::UnreadTensor { tensor: name.to_owned() });
    }
}
