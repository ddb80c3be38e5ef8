//! Every kernel, translated to the languages of the other systems: MSL for Metal, HLSL for DX12
//! with and without the newer shader compiler. What is shown is that there is a translation, not
//! that it runs.

use naga::back::{hlsl, msl};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use nook_kernels::Format;

use crate::attention::{self, CacheShape};
use crate::layout::Layout;
use crate::product::{self, Form};
use crate::template::{Values, expand};
use crate::{convolution, delta, mamba, streams};

#[test]
fn every_kernel_is_translated_for_every_system() {
    let mut kernels: Vec<(String, String)> = Vec::new();
    for format in Format::ALL {
        let layout = Layout::of(format);
        for form in [Form::Exact, Form::Few { together: 2, each: 4 }, Form::Tile] {
            for (subgroup, aligned) in [(true, true), (false, false)] {
                let name = format!("{format:?} {form:?} {subgroup}");
                kernels.push((name, product::source(&layout, form, subgroup, aligned)));
            }
        }
        kernels.push((format!("lookup {format:?}"), product::lookup_source(&layout)));
    }
    for half in [true, false] {
        let shape = CacheShape { kv_heads: 2, key_dim: 128, value_dim: 128, half };
        for (split, sinks) in [(true, false), (false, false), (true, true), (false, true)] {
            let form = attention::Form { together: 4, split, sinks };
            kernels.push((format!("attention {half} {form:?}"), attention::source(&shape, form)));
        }
        let values = Values::new(&[("HALF", u32::from(half))]);
        let text = expand(include_str!("shaders/append.wgsl"), &values);
        kernels.push((format!("append {half}"), text));
    }
    for (name, text) in [
        ("rope", include_str!("shaders/rope.wgsl")),
        ("gather", include_str!("shaders/gather.wgsl")),
        ("merge", include_str!("shaders/merge.wgsl")),
        ("columns", include_str!("shaders/columns.wgsl")),
        ("scatter", include_str!("shaders/scatter.wgsl")),
    ] {
        kernels.push((name.to_owned(), text.to_owned()));
    }
    for (biased, silu) in [(false, false), (false, true), (true, true)] {
        let text = convolution::source(biased, silu);
        kernels.push((format!("convolve {biased} {silu}"), text));
    }
    let spans = Values::new(&[("SPAN", 32), ("SPAN_LANES", 8), ("STEPS", 3)]);
    let text = expand(include_str!("shaders/quantise.wgsl"), &spans);
    kernels.push(("quantise".to_owned(), text));
    kernels.push(("delta".to_owned(), delta::source(128)));
    kernels.push(("mamba".to_owned(), mamba::source(128)));
    for name in ["PREDICT", "CORRECT", "OTHERS"] {
        kernels.push((format!("streams {name}"), streams::source(name, 4)));
    }
    for length in [true, false] {
        kernels.push((format!("by mean {length}"), streams::row_source(length)));
    }
    for (name, text) in &kernels {
        translate(name, text);
    }
    assert!(kernels.len() > 196);
}

#[track_caller]
fn translate(name: &str, text: &str) {
    let module = naga::front::wgsl::parse_str(text)
        .unwrap_or_else(|error| panic!("{name}: {}", error.emit_to_string(text)));
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    let info = validator.validate(&module).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let options =
        msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..Default::default() };
    msl::write_string(&module, &info, &options, &msl::PipelineOptions::default())
        .unwrap_or_else(|error| panic!("{name} in MSL: {error}"));
    for shader_model in [hlsl::ShaderModel::V5_1, hlsl::ShaderModel::V6_0, hlsl::ShaderModel::V6_4]
    {
        // The old compiler has no subgroups; kernels with them are never built there.
        if shader_model == hlsl::ShaderModel::V5_1 && text.contains("subgroup") {
            continue;
        }
        let options =
            hlsl::Options { shader_model, fake_missing_bindings: true, ..Default::default() };
        let pipeline = hlsl::PipelineOptions::default();
        let mut out = String::new();
        hlsl::Writer::new(&mut out, &options, &pipeline)
            .write(&module, &info, None)
            .unwrap_or_else(|error| panic!("{name} in HLSL {shader_model:?}: {error}"));
    }
}
