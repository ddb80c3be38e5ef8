//! What each format of activations costs in fidelity, on trained and on reference models. The
//! bounds are generous; `cargo xtask bench pipeline --only fidelity` prints the figures.

use std::path::Path;

use nook_base::ActivationDtype;
use nook_testkit::{fixture, large_fixture};
use nook_tests::fidelity::{Fidelity, Sample, measure};

/// Little enough for an unoptimised build.
const SAMPLE: Sample = Sample { texts: 3, tokens: 48, beginning: 12 };

const EMBER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/nook-store/ember/ember-q8_0.gguf");

#[track_caller]
fn check(file: &Path) -> anyhow::Result<()> {
    let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let of: Vec<Fidelity> = measure(file, SAMPLE)?;
    let told = |wanted| of.iter().find(|told| told.dtype == wanted).cloned();
    for dtype in ActivationDtype::ALL {
        let Some(told) = told(dtype) else { anyhow::bail!("{name}: {dtype} was not measured") };
        assert_eq!(told.unchanged_rows, 0, "{name}: an honest row would count as a copy: {told:?}");
        // As a part of the logits' spread; shares of positions and of texts.
        let (rms, argmax, beginnings) = match dtype {
            ActivationDtype::F32 => (0.0, 1.0, 1.0),
            ActivationDtype::F16 => (0.01, 0.98, 0.8),
            ActivationDtype::Q8 => (0.1, 0.9, 0.3),
        };
        assert!(told.rms <= rms, "{name}: {told:?}");
        assert!(told.same_argmax >= argmax, "{name}: {told:?}");
        assert!(told.same_beginnings >= beginnings, "{name}: {told:?}");
    }
    // Eight bits cannot be as near as eleven; were they, nothing was rounded.
    let rms = |wanted| told(wanted).map_or(0.0, |told| told.rms);
    assert!(rms(ActivationDtype::Q8) > 2.0 * rms(ActivationDtype::F16), "{name}");
    assert!(rms(ActivationDtype::F16) > 0.0, "{name}");
    Ok(())
}

#[test]
fn the_built_in_model_says_nearly_the_same_in_every_format() -> anyhow::Result<()> {
    check(Path::new(EMBER))
}

#[test]
fn trained_and_reference_models_say_nearly_the_same_in_every_format() -> anyhow::Result<()> {
    let test = "trained_and_reference_models_say_nearly_the_same_in_every_format";
    let mut files = vec![
        fixture("stories260K/stories260K-f32.gguf"),
        fixture("distilled/starcoder2/stories-starcoder2-f32.gguf"),
    ];
    if let Some(folder) = large_fixture(test, "fixtures") {
        let distilled = ["gemma2", "gemma3", "phi3", "qwen2", "qwen3"];
        files.extend(
            distilled.map(|name| folder.join(format!("distilled/{name}/stories-{name}-f32.gguf"))),
        );
        files.push(folder.join("tiny/llama256/tiny-llama256-f32.gguf"));
    }
    for file in files {
        check(&file)?;
    }
    Ok(())
}
