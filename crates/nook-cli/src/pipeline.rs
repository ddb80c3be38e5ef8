//! `nook doctor pipeline`: where the last reply was computed and why, and what happened to those
//! before it.

use std::path::PathBuf;
use std::process::ExitCode;

use nook_api::NodeCalls as _;
use nook_api::views::{
    DecisionView, HappenedView, LegView, MeasuredView, PastReplyView, PipelineView, PoolingView,
    PredictionView, ReplyEndView, RouteView, ShareView,
};

use nook_base::clock;

use crate::connection::Connection;
use crate::output;

/// Prints it, for people or as JSON.
pub(crate) async fn show(home: Option<PathBuf>, json: bool) -> anyhow::Result<ExitCode> {
    let connection = Connection::open(home).await?;
    let answer = connection.client.pipeline().await;
    let own = connection.is_own();
    connection.close().await;
    let view = answer?;
    if json {
        output::json(&view);
        return Ok(ExitCode::SUCCESS);
    }
    lines(&view).iter().for_each(output::line);
    if !view.measured.is_empty() {
        output::line("");
        output::table(&MEASURED, &view.measured.iter().map(measured).collect::<Vec<_>>());
    }
    if own {
        output::note("No node was running, so one was started to look; it remembers no reply.");
    }
    Ok(ExitCode::SUCCESS)
}

const MEASURED: [&str; 9] =
    ["DEVICE", "MODEL", "STEP", "LAYER", "PROMPT", "ENDS", "LOAD", "ROUND TRIP", "BANDWIDTH"];

fn lines(view: &PipelineView) -> Vec<String> {
    let mut lines = vec![match view.pooling {
        PoolingView::WhenFaster => "Other devices are used when that is faster.".to_owned(),
        PoolingView::Always => "Other devices are used whenever they offer the layers.".to_owned(),
    }];
    match &view.last {
        Some(decision) => lines.extend(last(decision)),
        None => lines.push("No reply has been made yet.".to_owned()),
    }
    if let Some(placement) = &view.placement {
        lines.push(format!("Placement of {}: {}", placement.model, placement.because));
        lines.extend(placement.shares.iter().map(share));
    }
    if !view.past.is_empty() {
        lines.push("Replies since the start, newest first:".to_owned());
        let now = clock::unix_seconds();
        lines.extend(view.past.iter().flat_map(|reply| past(reply, now)));
    }
    lines
}

/// One of the last replies: when, who, how it ended, and each thing that happened.
fn past(reply: &PastReplyView, now: u64) -> Vec<String> {
    let PastReplyView { began, model, prompt_tokens, route: began_over, happened, end } = reply;
    let ago = match now.saturating_sub(*began) {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    };
    let ended = match end {
        ReplyEndView::UnderWay => "under way".to_owned(),
        ReplyEndView::Done { tokens, speed } => {
            format!("{tokens} tokens at {:.1} tokens/s", speed.tokens_per_second)
        }
        ReplyEndView::Aborted { code } => format!("ended early: {code}"),
        ReplyEndView::Stopped => "stopped by whoever asked".to_owned(),
    };
    let began_over = route(began_over);
    let first =
        format!("  {ago} ago, {model}, prompt of {prompt_tokens} tokens, {began_over}: {ended}");
    let later = happened.iter().map(|happened| match happened {
        HappenedView::Lost { device } => format!("    {device} was lost"),
        HappenedView::Awaited { device } => format!("    waited for {device}"),
        HappenedView::Shared { device } => format!("    {device} had other replies to make too"),
        HappenedView::TookOver { failover, route: over } => format!(
            "    {} took over from {} after {} tokens, in {:.1} s: {}",
            failover.to,
            failover.from,
            failover.after_tokens,
            failover.pause_ms / 1e3,
            route(over)
        ),
        HappenedView::TookOverHere { route: over } => {
            format!("    this device took over: {}", route(over))
        }
    });
    std::iter::once(first).chain(later).collect()
}

fn share(share: &ShareView) -> String {
    let ShareView { device, first_layer, last_layer, answer, .. } = share;
    let answer = answer.as_ref().map(|answer| format!(": {answer}")).unwrap_or_default();
    format!("  {device} {first_layer}-{last_layer}{answer}")
}

fn last(decision: &DecisionView) -> Vec<String> {
    let mut lines = vec![
        format!("Last reply, by {}: {}", decision.model, decision.because),
        format!("  route:   {} ({})", route(&decision.route), decision.topology),
    ];
    match (&decision.alone, &decision.alone_impossible) {
        (Some(alone), _) => lines.push(format!("  alone:   {}", prediction(alone))),
        (None, Some(why)) => lines.push(format!("  alone:   impossible: {why}")),
        (None, None) => {}
    }
    if let Some(pooled) = &decision.pooled {
        lines.push(format!("  pooled:  {}", prediction(&pooled.prediction)));
        if pooled.route != decision.route {
            lines.push(format!("           over {}", route(&pooled.route)));
        }
    }
    if let Some(whole) = &decision.whole {
        lines.push(format!("  whole:   {}", prediction(&whole.prediction)));
        lines.push(format!("           on {}, which then sees what is said", route(&whole.route)));
    }
    if let Some(went) = &decision.went {
        lines.push(format!(
            "  went:    measured {:.1} tokens/s, first token after {:.0} ms",
            went.tokens_per_second, went.first_token_ms
        ));
    }
    if let Some(gain) = &decision.by_cable {
        let (now, then) = (gain.tokens_per_second_now, gain.tokens_per_second_then);
        lines.push(format!(
            "  cable:   with {} on a cable {then:.1} tokens/s would be predicted instead of {now:.1}",
            gain.device
        ));
    }
    let left_out = decision.left_out.iter();
    lines.extend(left_out.map(|out| format!("  without {}: {}", out.device, out.why)));
    lines
}

fn prediction(of: &PredictionView) -> String {
    let assumed = if of.measured { "" } else { " (in part assumed, at its worst)" };
    format!(
        "predicted {:.1} tokens/s, first token after {:.0} ms{assumed}",
        of.tokens_per_second, of.first_token_ms
    )
}

fn route(route: &RouteView) -> String {
    let leg = |leg: &LegView| match leg.layers {
        Some([first, last]) => format!("{} {first}-{last}", leg.device),
        None => format!("{} (no layer)", leg.device),
    };
    route.legs.iter().map(leg).collect::<Vec<_>>().join(" > ")
}

fn measured(of: &MeasuredView) -> Vec<String> {
    let cell = |value: Option<f64>, unit: &str| match value {
        Some(value) if value >= 100.0 => format!("{value:.0} {unit}"),
        Some(value) => format!("{value:.1} {unit}"),
        None => "-".to_owned(),
    };
    let megabytes = |rate: Option<u64>| cell(rate.map(|rate| rate as f64 / 1e6), "MB/s");
    vec![
        of.device.clone(),
        of.model.clone(),
        cell(of.decode_us_fixed, "us"),
        cell(of.decode_us_per_layer, "us"),
        cell(of.prefill_us_per_layer_token, "us"),
        cell(of.ends_us, "us"),
        megabytes(of.load_bytes_per_second),
        cell(of.round_trip_ms, "ms"),
        megabytes(of.bandwidth_bytes_per_second),
    ]
}
