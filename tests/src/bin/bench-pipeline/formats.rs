//! What each format of activations costs in fidelity, and in bytes.

use std::path::{Path, PathBuf};

use nook_base::ActivationDtype;
use nook_tests::fidelity::{self, Sample};
use nook_tests::program::Effort;
use nook_tests::report;

use crate::rows::Row;

/// The built-in model.
pub(crate) const EMBER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/nook-store/ember/ember-q8_0.gguf");

/// Trained and reference models beside the checkout, where they are.
const OTHERS: [&str; 8] = [
    "stories260K/stories260K-f32.gguf",
    "distilled/gemma2/stories-gemma2-f32.gguf",
    "distilled/gemma3/stories-gemma3-f32.gguf",
    "distilled/phi3/stories-phi3-f32.gguf",
    "distilled/qwen2/stories-qwen2-f32.gguf",
    "distilled/qwen3/stories-qwen3-f32.gguf",
    "distilled/starcoder2/stories-starcoder2-f32.gguf",
    "tiny/llama256/tiny-llama256-f32.gguf",
];

/// Measures every model that is there.
pub(crate) async fn measure(effort: Effort) -> anyhow::Result<Vec<Row>> {
    let sample = match effort {
        Effort::Quick => Sample::QUICK,
        Effort::Full => Sample::FULL,
    };
    let mut files = vec![PathBuf::from(EMBER)];
    if effort == Effort::Full {
        let found = OTHERS.iter().filter_map(|name| {
            nook_testkit::large_fixture("fidelity of a model", &format!("fixtures/{name}"))
        });
        files.extend(found);
    }
    let mut rows = Vec::new();
    for file in files {
        let name = short(&file);
        let measured =
            tokio::task::spawn_blocking(move || fidelity::measure(&file, sample)).await??;
        for told in measured {
            report::loud(&format!("{name}: {told:?}"));
            if told.dtype != ActivationDtype::F32 {
                rows.extend(rows_of(&name, &told));
            }
        }
    }
    let f16 = ActivationDtype::F16.row_bytes(2048) as f64;
    let q8 = ActivationDtype::Q8.row_bytes(2048) as f64;
    rows.push(Row::plain("bytes of q8 as a part of f16's", q8 / f16, "x"));
    Ok(rows)
}

fn rows_of(name: &str, told: &fidelity::Fidelity) -> [Row; 5] {
    let what = |more: &str| format!("{name}, {} against f32, {more}", told.dtype);
    let spread = "of the logits' spread";
    [
        Row::plain(what("logits, root mean square apart"), told.rms, spread),
        Row::plain(what("logits, farthest apart"), told.max, spread),
        Row::plain(what("same likeliest token"), told.same_argmax * 100.0, "%"),
        Row::plain(what("same greedy continuation"), told.same_continuations * 100.0, "%"),
        Row::plain(what("of it before it differs"), told.same_beginnings * 100.0, "%"),
    ]
}

fn short(file: &Path) -> String {
    file.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
