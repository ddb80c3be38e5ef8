//! What files of Nemotron 3 may list by layer, and the latent space of their experts.

use nook_model::Fault;
use nook_model::gguf::Value;
use nook_model::synthetic::Family;

use super::remade::Remade;
use super::{APART, TOLERANCE, apart, assert_same, fault, number, off, tiny};

const USED: &str = "expert_used_count";
const WIDTH: &str = "expert_feed_forward_length";
const LATENT: &str = "moe_latent_size";

fn list(numbers: &[i32]) -> Value {
    Value::Signeds(numbers.to_vec())
}

/// The tiny model with experts in layers 1 and 4, those of layer 4 being those of layer 1: 32 wide,
/// two of which are used.
fn alike() -> Remade {
    let mut file = tiny(Family::NemotronHMoe);
    for name in file.names().iter().filter(|name| name.starts_with("blk.4.")) {
        file.take(name);
    }
    file.copy_layer(1, 4);
    let widths = || list(&[0, 32, 0, 0, 32, 0]);
    file.with("feed_forward_length", widths())
        .with(WIDTH, widths())
        .with(USED, list(&[0, 2, 0, 0, 2, 0]))
}

/// That a file is refused for what stands under `name`, and that its error says `said`.
fn assert_refused(file: &Remade, name: &str, said: &str) {
    let refused = fault(file);
    let Fault::BadValue { key, got, .. } = &refused else { panic!("{name}: {refused:?}") };
    assert_eq!(*key, format!("nemotron_h_moe.{name}"));
    assert_eq!(got, said);
}

#[test]
fn a_number_counts_for_all_layers_with_experts() {
    let listed = alike();
    assert_same(&listed.clone().with(WIDTH, number(32)), &listed, WIDTH);
    assert_same(&listed.clone().with(USED, number(2)), &listed, USED);
    let unsigned = Value::Unsigneds(vec![0, 2, 0, 0, 2, 0]);
    assert_same(&listed.clone().with(USED, unsigned), &listed, "not signed");
    // What is said of layers without experts counts for nothing.
    assert_same(&listed.clone().with(USED, list(&[6, 2, 1, 1, 2, 3])), &listed, "other layers");
    let other = listed.clone().with(USED, list(&[0, 2, 0, 0, 3, 0]));
    assert!(apart(&other, &listed) > APART);
    let far = off(&other);
    assert!(far < TOLERANCE, "off by {far:.1e}");
}

#[test]
fn a_list_that_fits_no_model_is_refused_with_its_layer() {
    let file = alike();
    for name in [USED, WIDTH] {
        for (numbers, said) in [
            (&[0, 2, 0, 0, 2][..], "5 values"),
            (&[0, 2, 0, 0, 2, 0, 0], "7 values"),
            (&[0, 2, 0, 0, 0, 0], "0 in layer 4"),
            (&[0, -2, 0, 0, 2, 0], "-2 in layer 1"),
            (&[0, 2, 0, 0, 2, 1 << 21], "2097152 in layer 5"),
        ] {
            let widths = numbers.iter().map(|n| if *n == 2 { 32 } else { *n });
            let numbers = if name == WIDTH { widths.collect() } else { numbers.to_vec() };
            assert_refused(&file.clone().with(name, list(&numbers)), name, said);
        }
        assert_refused(&file.clone().with(name, number(0)), name, "0 in layer 1");
    }
    // There are six.
    assert_refused(&file.clone().with(USED, list(&[0, 2, 0, 0, 7, 0])), USED, "7 in layer 4");
    // Another width than the tensors of that layer have.
    let wider = file.with(WIDTH, list(&[0, 32, 0, 0, 48, 0]));
    let refused = fault(&wider);
    let named =
        matches!(&refused, Fault::TensorShape { tensor, .. } if tensor.starts_with("blk.4."));
    assert!(named, "{refused:?}");
}

/// llama.cpp reads one latent width for all layers.
#[test]
fn a_latent_width_that_fits_no_model_is_refused() {
    let file = alike();
    let key = format!("nemotron_h_moe.{LATENT}");
    for value in [list(&[32; 6]), number(1 << 30)] {
        let refused = fault(&file.clone().with(LATENT, value));
        let named = matches!(&refused, Fault::BadValue { key: found, .. } if *found == key);
        assert!(named, "{refused:?}");
    }
    for without in [file.clone().without(LATENT), file.clone().with(LATENT, number(48))] {
        assert!(matches!(fault(&without), Fault::TensorShape { .. }));
    }
    let mut lacking = file;
    lacking.take("blk.4.ffn_latent_up.weight");
    let tensor = "blk.4.ffn_latent_up.weight".to_owned();
    assert_eq!(fault(&lacking), Fault::MissingTensor { tensor });
}

#[test]
fn experts_may_compute_in_the_wide_space() {
    let mut file = alike().without(LATENT);
    for layer in [1, 4] {
        let name = |part: &str| format!("blk.{layer}.ffn_{part}.weight");
        for part in ["latent_down", "latent_up", "up_exps", "down_exps"] {
            file.take(&name(part));
        }
        file.put(&name("up_exps"), &[64, 32, 6]);
        file.put(&name("down_exps"), &[32, 64, 6]);
    }
    let far = off(&file);
    assert!(far < TOLERANCE, "off by {far:.1e}");
    assert_same(&file.clone().with(LATENT, number(0)), &file, "0 for none");
    // A space that no key tells of is not left out in silence.
    file.put("blk.1.ffn_latent_up.weight", &[64, 64]);
    assert!(matches!(fault(&file), Fault::UnreadTensor { .. }));
}

/// llama.cpp's converter folds attention and experts of the layer that predicts into one.
#[test]
fn lists_go_on_to_a_layer_that_predicts() {
    let plain = tiny(Family::NemotronHMoe);
    let mut file = plain.clone();
    file.copy_layer(1, 6);
    file.put("blk.6.attn_q.weight", &[64, 64]);
    let file = file
        .with("block_count", number(7))
        .with("nextn_predict_layers", number(1))
        .with("attention.head_count_kv", list(&[0, 0, 2, 0, 0, 2, 2]))
        .with("feed_forward_length", list(&[0, 32, 0, 0, 64, 0, 32]))
        .with(WIDTH, list(&[0, 32, 0, 0, 64, 0, 32]))
        .with(USED, list(&[0, 2, 0, 0, 3, 0, 2]));
    assert_same(&file, &plain, "a layer that predicts");
}
