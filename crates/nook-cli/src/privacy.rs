//! `nook privacy measure`: how much of a text a helper could read from a model's activations.
//!
//! The measuring is done in `nook_privacy`, in this process, on a public text; a node is only asked
//! where the file of a model lies. Nothing of what is measured is kept.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use nook_privacy::{Attack, Control, MeasureWish, NoiseView, PrivacyView, Progress};

use crate::arguments::{Privacy, PrivacyAction, PrivacyMeasure};
use crate::connection::Connection;
use crate::{ask, output};

/// How many steps of a stage are told.
const STEPS_TOLD: u32 = 10;

pub(crate) async fn run(home: Option<PathBuf>, wish: Privacy) -> anyhow::Result<ExitCode> {
    let PrivacyAction::Measure(wish) = wish.action;
    let model = file_of(home, &wish.model).await?;
    // Nothing else is under way in this process.
    let view = tokio::task::block_in_place(|| measure(&wish, model))?;
    if wish.json {
        output::json(&view);
    } else {
        show(&view);
    }
    if !view.controls.passed() {
        bail!(
            "a control failed, so the figures say nothing: the attacks must read the embedding itself and \
             must not read random numbers"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The file that is meant: one that was typed, or that of a model of the node.
async fn file_of(home: Option<PathBuf>, typed: &str) -> anyhow::Result<PathBuf> {
    let file = Path::new(typed);
    if file.is_file() {
        return Ok(file.to_owned());
    }
    if typed.ends_with(".gguf") {
        bail!("there is no file {typed}");
    }
    let connection = Connection::open(home).await?;
    let view = ask::view(&connection.client).await;
    connection.close().await;
    let models = view?.models;
    let named = models.into_iter().find(|model| model.name.eq_ignore_ascii_case(typed));
    let model = named.with_context(|| {
        format!("there is no model `{typed}` here; `nook models` lists those that there are")
    })?;
    if model.ends_bytes.is_some() {
        bail!(
            "only the two ends of `{}` are on this computer, so it cannot be measured",
            model.name
        );
    }
    Ok(PathBuf::from(model.file))
}

fn measure(wish: &PrivacyMeasure, model: PathBuf) -> anyhow::Result<PrivacyView> {
    let wish = MeasureWish {
        model,
        layers: wish.layers.clone(),
        tokens: wish.tokens,
        candidates: wish.candidates,
        noise: wish.noise,
        threads: wish.threads,
    };
    let told = Cell::new(None);
    let view = nook_privacy::measure(&wish, &|progress| {
        let (stage, done, of) = match progress {
            Progress::Cuts { done, of } => ("activations read, three attacks", done, of),
            Progress::Replay { done, of } => ("replay matching", done, of),
            Progress::Noise { done, of } => ("replies with noise", done, of),
        };
        let step = done * STEPS_TOLD / of.max(1);
        if told.replace(Some((stage, step))) != Some((stage, step)) {
            output::note(format!("{stage}: {} %", u64::from(done) * 100 / u64::from(of.max(1))));
        }
    })?;
    Ok(view)
}

fn show(view: &PrivacyView) {
    let model = &view.model;
    output::line(format!(
        "{} ({} {}, {} layers): {} tokens of a public text, each looked for among {} of {} tokens",
        output::plain(&model.name),
        output::plain(&model.architecture),
        output::plain(&model.quantisation),
        model.layers,
        view.tokens,
        view.candidates,
        model.vocabulary,
    ));
    let mut rows = Vec::new();
    for cut in &view.cuts {
        for of in &cut.formats {
            let read = &of.recovered;
            rows.push(vec![
                cut.layers_before.to_string(),
                of.format.to_string(),
                percent(read.nearest),
                percent(read.probe),
                percent(read.lens),
                percent(read.replay),
                percent(of.next),
            ]);
        }
        for format in &cut.too_large_for {
            rows.push(vec![cut.layers_before.to_string(), format!("{format}: too large")]);
        }
    }
    output::table(
        &["LAYERS BEFORE", "FORMAT", "NEAREST", "PROBE", "LENS", "REPLAY", "NEXT"],
        &rows,
    );
    output::line(
        "Nearest, probe, lens, replay: how many of 100 tokens the attack read from what a helper is sent \
         behind so many layers.",
    );
    output::line(
        "Next: in how many of 100 places the lens also tells the token that the model would write next.",
    );
    if let Some(noise) = &view.noise {
        show_noise(noise);
    }
    let positive = &view.controls.positive.recovered;
    let control = |it: &Control| if it.passed { "as it must be" } else { "NOT as it must be" };
    output::line(format!(
        "Controls: of the embedding itself {} are read ({}); of random numbers {} ({}).",
        percent(positive.nearest.min(positive.replay)),
        control(&view.controls.positive),
        percent(view.controls.negative.recovered.highest().1),
        control(&view.controls.negative),
    ));
    output::line(&view.meaning);
}

fn show_noise(noise: &NoiseView) {
    let layers = if noise.layers_before == 1 { "layer" } else { "layers" };
    output::line(format!(
        "Noise behind {} {layers}, sent as {}; text of {} tokens, reply of {}:",
        noise.layers_before, noise.format, noise.text_tokens, noise.reply_tokens
    ));
    let row = |level: &nook_privacy::NoiseLevel| {
        let read = &level.recovered;
        let (attack, most) = read.highest();
        vec![
            percent(level.noise),
            percent(read.nearest),
            percent(read.probe),
            percent(read.lens),
            percent(read.replay),
            format!("{} ({})", percent(most), short(attack)),
            percent(level.reply_kept),
            format!("{:.2}", level.perplexity),
        ]
    };
    let rows: Vec<Vec<String>> = noise.levels.iter().map(row).collect();
    output::table(
        &["NOISE", "NEAREST", "PROBE", "LENS", "REPLAY", "MOST READ", "REPLY KEPT", "PERPLEXITY"],
        &rows,
    );
    output::line(if noise.helps {
        "Some of this noise hid most tokens from these attacks and left most of the reply as it was."
    } else {
        "None of this noise hid most tokens from these attacks and left most of the reply as it was."
    });
}

fn short(attack: Attack) -> &'static str {
    match attack {
        Attack::Nearest => "nearest",
        Attack::Probe => "probe",
        Attack::Lens => "lens",
        Attack::Replay => "replay",
    }
}

/// A share as people read it: `97 %`, with a digit behind the point where it is small. Rounded down:
/// all is said of nothing less.
fn percent(share: f64) -> String {
    let percent = share * 100.0 + 1e-9;
    if percent > 0.0 && percent < 9.95 && percent.fract().abs() > 0.05 {
        format!("{percent:.1} %")
    } else {
        format!("{:.0} %", percent.floor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_shown_as_people_read_them() {
        let shown = [0.0, 0.01, 0.016, 0.3, 0.999, 1.0, 10.0].map(percent);
        assert_eq!(shown, ["0 %", "1 %", "1.6 %", "30 %", "99 %", "100 %", "1000 %"]);
    }
}
