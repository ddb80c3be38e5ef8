//! Layers that predict further tokens: they count in `block_count` and in lists by layer, and the
//! main pass has no use for them.

use nook_model::gguf::Value;
use nook_model::synthetic::Family;
use nook_model::{Fault, ModelFile};

use super::remade::Remade;
use super::{assert_same, fault, number, tiny};
use crate::fixtures::large;

/// Puts in what a layer that predicts has beside one of the model.
fn put_ends(file: &mut Remade, layer: u32) {
    let hidden = file.number("embedding_length");
    file.put(&format!("blk.{layer}.nextn.eh_proj.weight"), &[2 * hidden, hidden]);
    for name in ["enorm", "hnorm", "shared_head_norm"] {
        file.put(&format!("blk.{layer}.nextn.{name}.weight"), &[hidden]);
    }
}

#[test]
fn layers_that_predict_are_passed_over() {
    for family in [Family::Glm4, Family::Deepseek2, Family::Deepseek2Whole, Family::Deepseek3] {
        let plain = tiny(family);
        let layers = plain.number("block_count");
        let mut file = plain.clone();
        for layer in layers..layers + 2 {
            file.copy_layer(layers - 1, layer);
            put_ends(&mut file, layer);
        }
        let file = file.with("block_count", number(u64::from(layers + 2)));
        // Without the key they would be layers as the others.
        assert!(matches!(fault(&file), Fault::UnreadTensor { .. }), "{family:?}");
        let file = file.with("nextn_predict_layers", number(2));
        assert_same(&file, &plain, &format!("{family:?}"));
        let folder = tempfile::tempdir().unwrap();
        let opened = ModelFile::open(&file.write_in(folder.path())).unwrap();
        assert_eq!(opened.shape().layers, layers, "{family:?}");
        // One layer at least is the model's own.
        let none = file.with("nextn_predict_layers", number(u64::from(layers + 2)));
        assert!(matches!(fault(&none), Fault::BadValue { .. }), "{family:?}");
    }
}

/// In Nemotron-H a layer is one thing alone, so those that predict are one of attention and one of
/// experts, and the lists of key-value heads and widths go on to them.
#[test]
fn layers_that_predict_in_a_nemotron_are_passed_over() {
    let Some(folder) = large("layers that predict in Nemotron-H", "fixtures/tiny") else { return };
    for fixture in ["nemotron_h", "nemotron_h_moe"] {
        let plain = Remade::read(&folder.join(format!("{fixture}/tiny-{fixture}-f16.gguf")));
        let layers = plain.number("block_count");
        let list = |name: &str| match plain.value(name) {
            Some(Value::Signeds(numbers)) => numbers.clone(),
            other => panic!("{fixture} {name}: {other:?}"),
        };
        let (kv_name, width_name) = ("attention.head_count_kv", "feed_forward_length");
        let (mut kv_heads, mut widths) = (list(kv_name), list(width_name));
        let mut file = plain.clone();
        for (numbers, layer) in [(&kv_heads, layers), (&widths, layers + 1)] {
            let like = numbers.iter().position(|number| *number > 0).unwrap();
            file.copy_layer(like as u32, layer);
        }
        let most = |numbers: &[i32]| numbers.iter().copied().max().unwrap();
        let (kv, width) = (most(&kv_heads), most(&widths));
        kv_heads.extend([kv, 0]);
        widths.extend([0, width]);
        put_ends(&mut file, layers);
        let file = file
            .with("block_count", number(u64::from(layers + 2)))
            .with("nextn_predict_layers", number(2))
            .with(kv_name, Value::Signeds(kv_heads))
            .with(width_name, Value::Signeds(widths));
        assert_same(&file, &plain, fixture);
    }
}
