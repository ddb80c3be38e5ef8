//! `nook generate`: one reply, for scripts; and what `nook house` and it print.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use nook_api::NodeCalls as _;
use nook_api::SamplingParameters;
use nook_api::views::{
    ChatRole, FinishReason, PartView, PredictedView, PredictionView, ReplyEvent, ReplySummary,
    RouteView, ShardState,
};
use nook_base::ThinkingChoice;
use nook_control::{Client, ReplyRequest, RequestMessage};
use serde::Serialize;

use crate::arguments::{Generate, SamplingChoice, Wish};
use crate::connection::Connection;
use crate::endings::Failure;
use crate::{output, timeline};

/// The JSON object that scripts read.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    model: String,
    prompt_ids: Vec<u32>,
    ids: Vec<u32>,
    text: String,
    finish_reason: FinishReason,
    route: Vec<Leg>,
    tokens_per_second: f64,
    first_token_ms: f64,
    failovers: Vec<Failover>,
    total_ms: f64,
    timeline: Vec<PartView>,
    predicted: Option<PredictedView>,
    /// Names of helpers that had other replies to make meanwhile.
    shared: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Leg {
    device: String,
    layers: Option<[u32; 2]>,
    embedding: bool,
    head: bool,
}

#[derive(Debug, Serialize)]
struct Failover {
    from: String,
    to: String,
    pause_ms: f64,
}

/// Runs one reply and prints it.
pub(crate) async fn run(home: Option<PathBuf>, generate: Generate) -> anyhow::Result<ExitCode> {
    let connection = Connection::open(home).await?;
    let outcome = async {
        let model = model_name(&connection.client, &generate.wish.model).await?;
        let report =
            stream(&connection.client, wish(&generate.wish, model, generate.alone), |event, _| {
                if let ReplyEvent::TokenDelta { text, .. } = event
                    && !generate.wish.json
                {
                    output::piece(text);
                }
            })
            .await?;
        finish(&generate.wish, &report);
        if generate.timeline && !generate.wish.json {
            timeline::print(&report.timeline, report.total_ms);
        }
        anyhow::Ok(())
    }
    .await;
    connection.close().await;
    outcome.map(|()| ExitCode::SUCCESS)
}

/// What a typed model means: a file is added to the library (where it stays in place), anything
/// else is a name.
pub(crate) async fn model_name(client: &Client, typed: &str) -> anyhow::Result<String> {
    let file = Path::new(typed);
    if !file.is_file() {
        if typed.ends_with(".gguf") {
            bail!("there is no file {typed}");
        }
        return Ok(typed.to_owned());
    }
    let file = std::path::absolute(file).with_context(|| format!("cannot resolve {typed}"))?;
    Ok(client.import_model(file, None).await?.name)
}

/// The wish as it goes over the control socket.
pub(crate) fn wish(wish: &Wish, model: String, this_device_only: bool) -> ReplyRequest {
    let messages =
        wish.chat.then(|| vec![RequestMessage { role: ChatRole::User, text: wish.prompt.clone() }]);
    ReplyRequest {
        model,
        text: (!wish.chat).then(|| wish.prompt.clone()),
        messages,
        tokens_max: Some(wish.max_tokens),
        sampling: sampling(&wish.choice),
        stop: Vec::new(),
        thinking: wish.think.map(ThinkingChoice::from),
        activation_dtype: wish.activation_dtype,
        this_device_only,
    }
}

/// Scripts get the same reply twice unless they ask for chance: temperature 0 unless given.
pub(crate) fn sampling(choice: &SamplingChoice) -> SamplingParameters {
    SamplingParameters {
        temperature: Some(choice.temperature.unwrap_or(0.0)),
        top_k: choice.top_k,
        top_p: choice.top_p,
        min_p: choice.min_p,
        repetition_penalty: choice.repetition_penalty,
        seed: choice.seed,
        ..SamplingParameters::default()
    }
}

/// Follows a reply to its end; `each` sees every event and the number of reply tokens so far.
pub(crate) async fn stream(
    client: &Client,
    wish: ReplyRequest,
    mut each: impl FnMut(&ReplyEvent, u32),
) -> anyhow::Result<Report> {
    let mut lines = client.generate(wish).await?;
    let (mut ids, mut text, mut tokens) = (Vec::new(), String::new(), 0);
    while let Some((event, new_ids)) = lines.next().await? {
        ids.extend(new_ids);
        if let ReplyEvent::TokenDelta { text: piece, tokens: so_far } = &event {
            text.push_str(piece);
            tokens = *so_far;
        }
        each(&event, tokens);
        match event {
            ReplyEvent::ShardStatus { device, status: ShardState::Awaited } => {
                output::note(format!(
                    "\n[{device} is gone, and nobody can go on without it: waiting until it is back]"
                ));
            }
            ReplyEvent::Done { summary } => {
                return Ok(Report::new(summary, lines.prompt_ids.clone(), ids, text));
            }
            ReplyEvent::PipelineAborted { code, sentence, .. } => {
                bail!(Failure::Cut { code, sentence });
            }
            _ => {}
        }
    }
    bail!(Failure::NodeLeft)
}

/// What stands under a reply: JSON, or a line for people.
pub(crate) fn finish(wish: &Wish, report: &Report) {
    if wish.json {
        output::json(report);
        return;
    }
    output::line("");
    output::note(report.footer());
}

impl Report {
    fn new(summary: ReplySummary, prompt_ids: Vec<u32>, ids: Vec<u32>, text: String) -> Self {
        let failovers = summary.failovers.into_iter().map(|failover| Failover {
            from: failover.from,
            to: failover.to,
            pause_ms: failover.pause_ms,
        });
        Self {
            model: summary.model,
            prompt_ids,
            ids,
            text,
            finish_reason: summary.finish_reason,
            route: legs(&summary.route),
            tokens_per_second: summary.tokens_per_second,
            first_token_ms: summary.first_token_ms,
            failovers: failovers.collect(),
            total_ms: summary.total_ms,
            timeline: summary.timeline,
            predicted: summary.predicted,
            shared: summary.shared,
        }
    }

    /// `Kitchen laptop embeds and computes 0, Study PC 1-2, …`.
    fn route_words(&self) -> String {
        let leg = |leg: &Leg| {
            let layers = match leg.layers {
                Some([first, last]) if first == last => format!("layer {first}"),
                Some([first, last]) => format!("layers {first}-{last}"),
                None => "no layer".to_owned(),
            };
            let embedding = if leg.embedding { "embedding, " } else { "" };
            let head = if leg.head { ", head" } else { "" };
            format!("{}: {embedding}{layers}{head}", leg.device)
        };
        self.route.iter().map(leg).collect::<Vec<_>>().join(" → ")
    }

    /// What stands under a reply: how fast it was, how fast it was to be, who computed it, and
    /// which of them had more to do.
    pub(crate) fn footer(&self) -> String {
        let predicted = self.predicted.map_or_else(String::new, |it| predicted_words(&it));
        let shared = match self.shared.as_slice() {
            [] => String::new(),
            devices => format!("; other replies at the same time: {}", devices.join(", ")),
        };
        format!(
            "{} tokens, {:.1} tokens/s{predicted}, first after {:.0} ms; {}{shared}",
            self.ids.len(),
            self.tokens_per_second,
            self.first_token_ms,
            self.route_words()
        )
    }

    /// The hand-overs, a line each.
    pub(crate) fn failover_lines(&self) -> Vec<String> {
        let line = |failover: &Failover| {
            format!("{} → {} after {:.0} ms", failover.from, failover.to, failover.pause_ms)
        };
        self.failovers.iter().map(line).collect()
    }
}

/// Both predictions, in brackets.
fn predicted_words(PredictedView { alone, together }: &PredictedView) -> String {
    let speed = |prediction: &PredictionView, how: &str| {
        let measured = if prediction.measured { "" } else { ", not measured yet" };
        format!("{:.1} {how}{measured}", prediction.tokens_per_second)
    };
    let together = together.iter().map(|it| speed(it, "together"));
    let alone = alone.iter().map(|it| speed(it, "alone"));
    let both: Vec<String> = together.chain(alone).collect();
    format!(" (predicted {})", both.join(", "))
}

fn legs(route: &RouteView) -> Vec<Leg> {
    let leg = |leg: &nook_api::views::LegView| Leg {
        device: leg.device.clone(),
        layers: leg.layers,
        embedding: leg.embedding,
        head: leg.head,
    };
    route.legs.iter().map(leg).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_footer_names_helpers_that_had_more_to_do() {
        let report = |shared: &[&str]| Report {
            model: "ember".to_owned(),
            prompt_ids: vec![1],
            ids: vec![2, 3],
            text: "Once".to_owned(),
            finish_reason: FinishReason::Stop,
            route: Vec::new(),
            tokens_per_second: 9.0,
            first_token_ms: 20.0,
            failovers: Vec::new(),
            total_ms: 150.0,
            timeline: Vec::new(),
            predicted: None,
            shared: shared.iter().map(|&name| name.to_owned()).collect(),
        };
        assert_eq!(report(&[]).footer(), "2 tokens, 9.0 tokens/s, first after 20 ms; ");
        let told = report(&["Study PC", "Attic"]).footer();
        assert!(told.ends_with("; other replies at the same time: Study PC, Attic"), "{told}");
    }
}
