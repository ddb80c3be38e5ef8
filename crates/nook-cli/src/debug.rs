//! `nook debug`: looks inside files, for tinkerers, scripts and tests. Needs no running node.
//!
//! The looking is done by `nook_inspect`; this prints what it says: for people, with long
//! lists cut short and nothing in it that could steer the terminal, or whole as JSON. A failure
//! is a sentence on standard error, with `--json` also `{"error": …}` on standard output, and exit
//! code 1.

use std::io::Read;
use std::process::ExitCode;

use anyhow::Context as _;
use nook_inspect::{
    GgufView, InspectError, Instructions, LogitsView, LogitsWish, ModelVerdict, TemplateSource,
    TokenizeOptions,
};
use serde_json::{Value, json};

use crate::arguments::{Debug, DebugLogits, DebugSubject, DebugTemplate, IsaChoice};
use crate::output;

/// Longest text on standard input, in bytes; a longer one is refused.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Characters of a metadata text that people are shown.
const SHOWN_CHARS: usize = 100;

/// Entries of a metadata list that people are shown.
const SHOWN_ENTRIES: usize = 8;

pub(crate) fn run(debug: Debug) -> anyhow::Result<ExitCode> {
    let Debug { subject, json } = debug;
    match look(subject, json) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            if json {
                output::json(&json!({"error": error_view(&error)}));
            }
            Err(error)
        }
    }
}

fn look(subject: DebugSubject, json: bool) -> anyhow::Result<()> {
    match subject {
        DebugSubject::Gguf { file } => {
            let view = nook_inspect::gguf(&file)?;
            if json { output::json(&view) } else { show_gguf(&view) }
        }
        DebugSubject::Tokenize { model, add_special, parse_special } => {
            let options = TokenizeOptions { add_special, parse_special };
            let view = nook_inspect::tokenize(&model, &read_text()?, options)?;
            if json {
                output::json(&view);
            } else {
                let ids: Vec<String> = view.ids.iter().map(u32::to_string).collect();
                output::line(ids.join(" "));
            }
        }
        DebugSubject::Template(wish) => show_template(wish, json)?,
        DebugSubject::Logits(wish) => {
            let view = nook_inspect::logits(&logits_wish(wish))?;
            if json { output::json(&view) } else { show_logits(&view) }
        }
    }
    Ok(())
}

/// What went wrong, for programs. A template's own refusal keeps its words apart.
fn error_view(error: &anyhow::Error) -> Value {
    let refusal = match error.downcast_ref() {
        Some(InspectError::Template(error)) => error.refusal(),
        _ => None,
    };
    json!({"sentence": format!("{error:#}"), "raised": refusal})
}

fn read_text() -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(TEXT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .context("cannot read standard input")?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        anyhow::bail!("the text on standard input is longer than {TEXT_BYTES_MAX} bytes");
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("the text on standard input is not UTF-8 from byte {at} on")
    })
}

fn show_gguf(view: &GgufView) {
    output::line(format!(
        "{}: GGUF version {}, {} bytes, tensor data from byte {}",
        view.file, view.version, view.file_bytes, view.data_start
    ));
    output::line(format!("\n{} metadata keys", view.metadata.len()));
    let rows: Vec<Vec<String>> = view
        .metadata
        .iter()
        .map(|(key, value)| vec![format!("  {}", output::plain(key)), short(value)])
        .collect();
    if !rows.is_empty() {
        output::table(&["  KEY", "VALUE"], &rows);
    }
    output::line(format!("\n{} tensors", view.tensors.len()));
    let rows: Vec<Vec<String>> = view
        .tensors
        .iter()
        .map(|tensor| {
            let dimensions: Vec<String> = tensor.dimensions.iter().map(u64::to_string).collect();
            vec![
                format!("  {}", output::plain(&tensor.name)),
                tensor.kind.to_owned(),
                dimensions.join(" x "),
                tensor.start.to_string(),
                tensor.bytes.to_string(),
            ]
        })
        .collect();
    if !rows.is_empty() {
        output::table(&["  NAME", "TYPE", "DIMENSIONS", "START", "BYTES"], &rows);
    }
    output::line(match &view.verdict {
        ModelVerdict::Accepted { architecture, quantisation, layers, weight_bytes, .. } => format!(
            "\nusable as a model: {} {}, {layers} layers, {weight_bytes} bytes of weights",
            output::plain(architecture),
            output::plain(quantisation)
        ),
        ModelVerdict::Refused { fault, remedy } => {
            format!("\nnot usable as a model: it {}. {remedy}", output::plain(fault))
        }
    });
}

/// A metadata value in a line.
fn short(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let shown = output::plain(&text.chars().take(SHOWN_CHARS).collect::<String>());
            let more = if text.chars().nth(SHOWN_CHARS).is_some() { " …" } else { "" };
            format!("\"{shown}\"{more}")
        }
        Value::Array(items) => {
            let shown: Vec<String> = items.iter().take(SHOWN_ENTRIES).map(short).collect();
            let more = if items.len() > SHOWN_ENTRIES { ", …" } else { "" };
            format!("{} entries: [{}{more}]", items.len(), shown.join(", "))
        }
        other => other.to_string(),
    }
}

fn show_template(wish: DebugTemplate, json: bool) -> anyhow::Result<()> {
    let source = match (wish.model, wish.template) {
        (_, Some(file)) => TemplateSource::File(file),
        (Some(model), None) => TemplateSource::Model(model),
        (None, None) => anyhow::bail!("give a template: --model FILE or --template FILE"),
    };
    let view = nook_inspect::template(&source, &wish.conversation)?;
    if let Some(default) = view.default {
        output::note(format!("note: the model brings no template; this is the default: {default}"));
    }
    if view.user_text_lost {
        output::note("note: the last user message is not in it; a chat would be refused");
    }
    if json {
        output::json(&view);
    } else {
        // As it is, for programs that compare it; no line end is added.
        output::piece(&view.text);
    }
    Ok(())
}

fn logits_wish(wish: DebugLogits) -> LogitsWish {
    LogitsWish {
        model: wish.model,
        ids: wish.ids,
        split: wish.split,
        chunk: wish.chunk,
        threads: wish.threads,
        instructions: wish.isa.map(|isa| match isa {
            IsaChoice::Plain => Instructions::Plain,
            IsaChoice::Avx2 => Instructions::Avx2,
            IsaChoice::Avx512 => Instructions::Avx512,
        }),
        out: wish.out,
    }
}

fn show_logits(view: &LogitsView) {
    let part = |part: &nook_inspect::PartView| match part.layers {
        Some([first, last]) if first == last => format!("layer {first}"),
        Some([first, last]) => format!("layers {first}-{last}"),
        None => "no layer".to_owned(),
    };
    let argmax = |id: &Option<u32>| id.map_or("NaN".to_owned(), |id| id.to_string());
    output::line(format!(
        "{}: {} positions x {} f32 ({}; {} threads, {}, steps of {})",
        view.out,
        view.positions,
        view.vocabulary,
        view.parts.iter().map(part).collect::<Vec<_>>().join(", "),
        view.threads,
        view.isa,
        view.chunk
    ));
    let greatest: Vec<String> = view.argmax.iter().map(argmax).collect();
    output::line(format!("greatest: {}", greatest.join(" ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_a_file_steers_the_terminal() {
        assert_eq!(short(&json!("a\u{1b}[2J\n\u{9b}é")), "\"a\\u{1b}[2J\\n\\u{9b}é\"");
    }

    #[test]
    fn people_are_shown_the_beginning_of_what_is_long() {
        assert_eq!(short(&json!([1, 2])), "2 entries: [1, 2]");
        let many: Vec<u32> = (0..20).collect();
        assert_eq!(short(&json!(many)), "20 entries: [0, 1, 2, 3, 4, 5, 6, 7, …]");
        let long = short(&json!("x".repeat(200)));
        assert_eq!(long, format!("\"{}\" …", "x".repeat(100)));
    }
}
