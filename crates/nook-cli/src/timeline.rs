//! `nook generate --timeline`: who did what for the reply, as a table. Figures only.

use nook_api::views::{PartView, WorkView};

use crate::output;

const HEAD: [&str; 8] =
    ["DEVICE", "LAYERS", "TOKENS", "PROMPT", "REPLY", "NETWORK", "WAITING", "BYTES OUT / IN"];

/// Prints the table and the time of the whole reply under it.
pub(crate) fn print(timeline: &[PartView], total_ms: f64) {
    output::table(&HEAD, &timeline.iter().map(row).collect::<Vec<_>>());
    output::note(format!(
        "From asking to the last token {total_ms:.0} ms. PROMPT and REPLY are computing; pieces of a \
         prompt are computed side by side, so devices together may take longer than the reply."
    ));
}

fn row(part: &PartView) -> Vec<String> {
    let PartView { device, layers, first_token, last_token, prompt, reply, .. } = part;
    let span = |[first, last]: [u32; 2]| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let work = |of: &WorkView| match of.steps {
        0 => "-".to_owned(),
        _ => format!("{:.1} ms ({})", of.compute_ms, of.positions),
    };
    let bytes = match part.local {
        true => "-".to_owned(),
        false => format!("{} / {}", part.bytes_out, part.bytes_in),
    };
    vec![
        device.clone(),
        layers.map_or_else(|| "-".to_owned(), span),
        span([*first_token, *last_token]),
        work(prompt),
        work(reply),
        format!("{:.1} ms", prompt.network_ms + reply.network_ms),
        format!("{:.1} ms", prompt.queue_ms + reply.queue_ms),
        bytes,
    ]
}
