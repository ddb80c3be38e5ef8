//! Replies as this bench follows them: when each token came, and what happened in between.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nook_api::SamplingParameters;
use nook_api::views::{ReplyEvent, ReplySummary, RouteView};
use nook_base::clock;
use nook_control::{ReplyLines, ReplyRequest};
use nook_testkit::Node;

/// Longest wait for the next event of a reply.
const EVENT_LIMIT: Duration = Duration::from_secs(120);

/// Who is to compute a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    /// This device alone.
    Undivided,
    /// Whoever lends layers, too.
    Split,
}

/// A reply under way.
#[derive(Debug)]
pub struct Asking {
    lines: ReplyLines,
}

impl Asking {
    /// Asks for a greedy continuation, with everything else as the house does by default.
    pub async fn begin(
        node: &Node,
        model: &str,
        prompt: &str,
        tokens: u32,
        arm: Arm,
    ) -> anyhow::Result<Self> {
        let wish = ReplyRequest {
            model: model.to_owned(),
            text: Some(prompt.to_owned()),
            messages: None,
            tokens_max: Some(tokens),
            sampling: SamplingParameters::GREEDY,
            stop: Vec::new(),
            thinking: None,
            activation_dtype: None,
            this_device_only: arm == Arm::Undivided,
        };
        Ok(Self { lines: node.client().generate(wish).await? })
    }

    /// Tokens of the prompt.
    pub fn prompt_tokens(&self) -> usize {
        self.lines.prompt_ids.len()
    }

    /// The next event, how many tokens it brought, and when it came; `None` after the last one.
    pub async fn next(&mut self) -> anyhow::Result<Option<(ReplyEvent, usize, Instant)>> {
        let next = tokio::time::timeout(EVENT_LIMIT, self.lines.next());
        let next = next.await.with_context(|| format!("nothing came for {EVENT_LIMIT:?}"))??;
        if let Some((ReplyEvent::PipelineAborted { code, sentence, .. }, _)) = &next {
            bail!("the reply ended early ({code}): {sentence}");
        }
        Ok(next.map(|(event, ids)| (event, ids.len(), clock::now())))
    }
}

/// Decode speed of one whole reply in tokens a second, the first token not counted, and its route.
pub async fn speed(asking: Asking) -> anyhow::Result<(f64, RouteView)> {
    let summary = summary(asking).await?;
    Ok((summary.tokens_per_second, summary.route))
}

/// What is told at the end of one whole reply, during which nobody was lost.
pub async fn summary(mut asking: Asking) -> anyhow::Result<ReplySummary> {
    let mut last = None;
    while let Some((event, ..)) = asking.next().await? {
        last = Some(event);
    }
    match last {
        Some(ReplyEvent::Done { summary }) if summary.failovers.is_empty() => Ok(summary),
        Some(ReplyEvent::Done { summary }) => bail!("a helper was lost: {:?}", summary.failovers),
        other => bail!("the reply did not end: {other:?}"),
    }
}

/// The other devices that compute, in order.
pub fn others(route: &RouteView) -> Vec<String> {
    let others = route.legs.iter().filter(|leg| !leg.local);
    others.map(|leg| leg.device.clone()).collect()
}
