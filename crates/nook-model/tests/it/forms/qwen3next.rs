//! The first layout of Qwen3-Next: what the delta nets convolve and their gates are one matrix, key
//! head by key head.

use nook_model::synthetic::TensorEntry;

use super::assert_same;
use super::remade::{Remade, rows};
use crate::fixtures::large;

#[test]
fn the_first_layout_of_qwen3next_is_the_same_model() {
    let Some(folder) = large("the first layout of Qwen3-Next", "fixtures/tiny") else { return };
    let plain = Remade::read(&folder.join("qwen3next/tiny-qwen3next-f16.gguf"));
    let size = |name: &str| plain.number(name) as usize;
    let (dim, key_heads) = (size("ssm.state_size"), size("ssm.group_count"));
    let shared_by = size("ssm.time_step_rank") / key_heads * dim;
    let keys = dim * key_heads;
    let mut file = plain.clone();
    for layer in 0..plain.number("block_count") {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        if !plain.names().contains(&name("attn_qkv")) {
            continue;
        }
        let ((mixed, mixed_data), (gate, gate_data)) =
            (file.take(&name("attn_qkv")), file.take(&name("attn_gate")));
        let (mixed_rows, gate_rows) = (rows(&mixed, &mixed_data), rows(&gate, &gate_data));
        let mut all: Vec<&[u8]> = Vec::new();
        for head in 0..key_heads {
            all.extend(&mixed_rows[head * dim..][..dim]);
            all.extend(&mixed_rows[keys + head * dim..][..dim]);
            all.extend(&mixed_rows[2 * keys + head * shared_by..][..shared_by]);
            all.extend(&gate_rows[head * shared_by..][..shared_by]);
        }
        let like = TensorEntry { name: name("ssm_in"), ..mixed.clone() };
        file.put_rows(&like, &[mixed.dimensions[0], all.len() as u64], &all);
    }
    assert_ne!(file.names(), plain.names());
    assert_same(&file, &plain, "the first layout");
}
