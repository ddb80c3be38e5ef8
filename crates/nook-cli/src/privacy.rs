//! `nook privacy`: how much of a text a helper could read from a model's activations.
//!
//! The measuring is done by `nook_privacy`, in a process of its own (`measuring`), on a public text.
//! A node is asked where the file of a model lies, and keeps the figures of a model of its list.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use nook_api::NodeCalls as _;
use nook_api::views::{KeptPrivacyView, PrivacyOfModelView};
use nook_base::calendar;
use nook_privacy::{Attack, Control, MeasureWish, NoiseView, PrivacyView, Progress};

use crate::arguments::{Privacy, PrivacyAction, PrivacyMeasure};
use crate::connection::Connection;
use crate::{ask, measuring, output};

/// How many steps of a stage are told.
const STEPS_TOLD: u32 = 10;

/// A model file that is meant.
struct Meant {
    file: PathBuf,
    /// Whether it is a model of the node, by its name: then its figures are kept.
    is_listed: bool,
}

pub(crate) async fn run(home: Option<PathBuf>, wish: Privacy) -> anyhow::Result<ExitCode> {
    match wish.action {
        Some(PrivacyAction::Measure(measure)) => measured(home, &measure, wish.json).await,
        Some(PrivacyAction::Show { model }) => shown(home, model.as_deref(), wish.json).await,
        None => shown(home, None, wish.json).await,
    }
}

async fn measured(
    home: Option<PathBuf>,
    wish: &PrivacyMeasure,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let meant = file_of(home.clone(), &wish.model).await?;
    // Nothing else is under way in this process.
    let view = tokio::task::block_in_place(|| measure(wish, meant.file))?;
    if json {
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
    if meant.is_listed {
        keep(home, &view).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Has the node keep the figures.
async fn keep(home: Option<PathBuf>, view: &PrivacyView) -> anyhow::Result<()> {
    let connection = Connection::open(home).await?;
    let kept = connection.client.keep_privacy(view.model.digest.clone(), view.figures()).await;
    connection.close().await;
    Ok(kept?)
}

/// Shows what was measured last: of all models, or of one.
async fn shown(home: Option<PathBuf>, model: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
    let connection = Connection::open(home).await?;
    let kept = connection.client.privacy().await;
    connection.close().await;
    let mut kept = kept?;
    if let Some(model) = model {
        kept.models.retain(|it| it.model.eq_ignore_ascii_case(model));
    }
    if json {
        output::json(&kept);
    } else {
        list(&kept, model);
    }
    Ok(ExitCode::SUCCESS)
}

fn list(kept: &KeptPrivacyView, model: Option<&str>) {
    if let Some(problem) = &kept.problem {
        output::line(format!("Earlier figures are lost: {problem}."));
    }
    if kept.models.is_empty() {
        output::line(match model {
            Some(name) => format!(
                "`{name}` was not measured here yet. `nook privacy measure {name}` measures it."
            ),
            None => "No model was measured here yet. `nook privacy measure MODEL` measures one."
                .to_owned(),
        });
        return output::line(ask::HONEST_SENTENCE);
    }
    let rows: Vec<Vec<String>> = kept.models.iter().map(row).collect();
    output::table(
        &["MODEL", "MEASURED", "READ AT MOST", "BY", "LAYERS BEFORE", "FORMAT", "TOKENS"],
        &rows,
    );
    output::line(
        "Read at most: how many of 100 tokens of a public text one of four known methods read from what a \
         helper is sent. Other methods may read more. nook privacy measure MODEL measures again.",
    );
    output::line(ask::HONEST_SENTENCE);
}

fn row(of: &PrivacyOfModelView) -> Vec<String> {
    let it = &of.figures;
    let by = [
        (Attack::Nearest, it.nearest),
        (Attack::Probe, it.probe),
        (Attack::Lens, it.lens),
        (Attack::Replay, it.replay),
    ];
    let most = it.most();
    // The plainest first: of equals it is the one that costs least.
    let by = by.into_iter().find(|(_, share)| *share >= most).map(|(attack, _)| short(attack));
    vec![
        of.model.clone(),
        calendar::day_of(it.measured_at),
        percent(most),
        by.unwrap_or_default().to_owned(),
        it.layers_before.to_string(),
        it.format.to_string(),
        format!("{} among {}", it.tokens, it.candidates),
    ]
}

/// The file that is meant: one that was typed, or that of a model of the node.
async fn file_of(home: Option<PathBuf>, typed: &str) -> anyhow::Result<Meant> {
    let file = Path::new(typed);
    if file.is_file() {
        return Ok(Meant { file: file.to_owned(), is_listed: false });
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
    Ok(Meant { file: PathBuf::from(model.file), is_listed: true })
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
    measuring::measure(&wish, &|progress| {
        let (stage, done, of) = match progress {
            Progress::Cuts { done, of } => ("activations read, three attacks", done, of),
            Progress::Replay { done, of } => ("replay matching", done, of),
            Progress::Noise { done, of } => ("replies with noise", done, of),
        };
        let step = u64::from(done) * u64::from(STEPS_TOLD) / u64::from(of.max(1));
        if told.replace(Some((stage, step))) != Some((stage, step)) {
            output::note(format!("{stage}: {} %", u64::from(done) * 100 / u64::from(of.max(1))));
        }
    })
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
    fn a_row_says_what_was_read_most_by_what_and_when() {
        let figures = nook_base::PrivacyFigures {
            measured_at: 1_795_737_600,
            tokens: 64,
            candidates: 2048,
            layers_before: 1,
            format: nook_base::ActivationDtype::F16,
            nearest: 0.125,
            probe: 0.984_375,
            lens: 0.0,
            replay: 0.984_375,
            next: 1.0,
        };
        let of = PrivacyOfModelView { model: "ember".to_owned(), digest: String::new(), figures };
        let shown = ["ember", "2026-11-27", "98 %", "probe", "1", "f16", "64 among 2048"];
        assert_eq!(row(&of), shown);
    }

    #[test]
    fn shares_are_shown_as_people_read_them() {
        let shown = [0.0, 0.01, 0.016, 0.3, 0.999, 1.0, 10.0].map(percent);
        assert_eq!(shown, ["0 %", "1 %", "1.6 %", "30 %", "99 %", "100 %", "1000 %"]);
    }
}
