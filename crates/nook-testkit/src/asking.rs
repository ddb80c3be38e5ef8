//! Replies as a test follows them.

use std::time::Duration;

use anyhow::{Context as _, bail};
use nook_api::SamplingParameters;
use nook_api::views::{
    ChatRole, FailoverView, FinishReason, PartView, PredictedView, PredictionView, ReplyEvent,
    RouteView, ShardState,
};
use nook_base::ActivationDtype;
use nook_control::{Client, ClientError, ReplyLines, ReplyRequest, RequestMessage};

use crate::node::Node;
use crate::process::{Standstill, Throttle};

/// Longest wait for the next event of a reply; beyond it the reply counts as hanging.
const EVENT_LIMIT: Duration = Duration::from_secs(60);

/// How much slower than usual a reply is made that is to be held in its middle.
const SLOW: u32 = 16;

/// A greedy reply that is wanted.
#[derive(Debug, Clone)]
pub struct Wish(ReplyRequest);

/// A reply under way. Dropping it stops the reply.
#[derive(Debug)]
pub struct Replying {
    lines: ReplyLines,
    told: Told,
}

/// What a reply has told so far.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Token ids of the prompt.
    pub prompt_ids: Vec<u32>,
    /// Token ids of the reply.
    pub ids: Vec<u32>,
    /// Its text.
    pub text: String,
    /// Who computes what, as last told.
    pub route: Vec<Leg>,
    /// Hand-overs.
    pub failovers: Vec<FailoverView>,
    /// Devices that were told to be lost, in that order.
    pub lost: Vec<String>,
    /// Devices that the reply waited for, in that order.
    pub awaited: Vec<String>,
    /// Devices that were told to be late, in that order.
    pub late: Vec<String>,
    /// Devices that were told to have other replies to make too, in that order; behind the end
    /// those that the summary names.
    pub shared: Vec<String>,
    /// Whether this device took over layers.
    pub fell_back: bool,
    /// Tokens of the prompt that were not computed, because an earlier reply had left them.
    pub resumed: u32,
    /// Positions that the last part of the model computed.
    pub computed: u32,
    /// From asking to the first token, in ms.
    pub first_token_ms: f64,
    /// From asking to the last token, in ms.
    pub total_ms: f64,
    /// Reply tokens per second after the first.
    pub tokens_per_second: f64,
    /// What was predicted before it began.
    pub predicted: Option<PredictedView>,
    /// What of that was told at its beginning: the way that it went.
    pub expected: Option<PredictionView>,
    /// Who did what.
    pub timeline: Vec<PartView>,
    /// Why it ended, if it ended well.
    pub finish: Option<FinishReason>,
    /// Code and sentence, if it ended early.
    pub aborted: Option<(String, String)>,
}

/// One stretch of a route: whose, and the first and last layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Name of the device.
    pub device: String,
    /// First and last layer; none for a leg that only embeds or only has the head.
    pub layers: Option<[u32; 2]>,
}

impl Wish {
    /// The greedy continuation of a text by the built-in model, activations as exact as computed.
    #[must_use]
    pub fn text(text: &str, tokens: u32) -> Self {
        Self(ReplyRequest {
            model: "ember".to_owned(),
            text: Some(text.to_owned()),
            messages: None,
            tokens_max: Some(tokens),
            sampling: SamplingParameters::GREEDY,
            stop: Vec::new(),
            thinking: None,
            activation_dtype: Some(ActivationDtype::F32),
            this_device_only: false,
        })
    }

    /// The same for a conversation, through the model's template.
    #[must_use]
    pub fn chat(messages: &[(ChatRole, String)], tokens: u32) -> Self {
        let message =
            |(role, text): &(ChatRole, String)| RequestMessage { role: *role, text: text.clone() };
        let mut wish = Self::text("", tokens);
        wish.0.text = None;
        wish.0.messages = Some(messages.iter().map(message).collect());
        wish
    }

    /// By chance from this seed.
    #[must_use]
    pub fn drawn(mut self, seed: u64) -> Self {
        self.0.sampling =
            SamplingParameters { temperature: Some(0.9), seed: Some(seed), ..self.0.sampling };
        self
    }

    /// Ending before this text.
    #[must_use]
    pub fn until(mut self, stop: &str) -> Self {
        self.0.stop = vec![stop.to_owned()];
        self
    }

    /// By another model.
    #[must_use]
    pub fn by(mut self, model: &str) -> Self {
        model.clone_into(&mut self.0.model);
        self
    }

    /// With activations written otherwise.
    #[must_use]
    pub fn over(mut self, dtype: ActivationDtype) -> Self {
        self.0.activation_dtype = Some(dtype);
        self
    }

    /// With activations written as the asking device's settings say.
    #[must_use]
    pub fn as_the_house_does(mut self) -> Self {
        self.0.activation_dtype = None;
        self
    }

    /// Asks the node behind `client` for the reply.
    pub async fn ask(&self, client: &Client) -> Result<Replying, ClientError> {
        let lines = client.generate(self.0.clone()).await?;
        let told = Told { prompt_ids: lines.prompt_ids.clone(), ..Told::default() };
        Ok(Replying { lines, told })
    }

    /// Undivided, on the asking device.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.0.this_device_only = true;
        self
    }
}

impl Node {
    /// Begins a reply.
    pub async fn reply(&self, wish: &Wish) -> Result<Replying, ClientError> {
        wish.ask(self.client()).await
    }

    /// Begins a reply, follows it until `tokens` were said, and holds it there: something can be
    /// done in its middle, however slowly the test gets to it. It goes on when the standstill is
    /// dropped.
    ///
    /// Until then this node's workers, which must run by now, are slow: on a fast machine a reply
    /// would be at its end before its first tokens are heard of here.
    pub async fn held_reply(
        &self,
        wish: &Wish,
        tokens: usize,
    ) -> anyhow::Result<(Replying, Standstill)> {
        let workers = self.workers();
        anyhow::ensure!(!workers.is_empty(), "{} has no worker to hold", self.name());
        let slow = Throttle::start(workers, SLOW);
        let mut reply = self.reply(wish).await?;
        reply.until(tokens).await?;
        Ok((reply, slow.stand_still()))
    }

    /// A whole reply; one that ends early is an error.
    pub async fn answer(&self, wish: &Wish) -> anyhow::Result<Told> {
        self.reply(wish).await?.whole().await
    }
}

impl Replying {
    /// Follows the reply until `tokens` were said, and returns while it goes on.
    pub async fn until(&mut self, tokens: usize) -> anyhow::Result<&Told> {
        while self.told.ids.len() < tokens {
            let goes_on = self.step().await?;
            anyhow::ensure!(goes_on, "the reply ended before token {tokens}: {:?}", self.told);
        }
        Ok(&self.told)
    }

    /// Follows the reply until `tokens` were said or it ended; whether it goes on.
    pub async fn until_or_end(&mut self, tokens: usize) -> anyhow::Result<bool> {
        while self.told.ids.len() < tokens {
            if !self.step().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What was told so far.
    #[must_use]
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// Follows the reply until its route is known, before its first token.
    pub async fn until_started(&mut self) -> anyhow::Result<&Told> {
        while self.told.route.is_empty() {
            anyhow::ensure!(self.step().await?, "the reply ended before it began: {:?}", self.told);
        }
        Ok(&self.told)
    }

    /// Follows the reply until a device is told to be lost; somebody else replays for it now.
    pub async fn until_lost(&mut self) -> anyhow::Result<&Told> {
        while self.told.lost.is_empty() {
            anyhow::ensure!(self.step().await?, "nobody was lost: {:?}", self.told);
        }
        Ok(&self.told)
    }

    /// Follows the reply until a device is told to be late.
    pub async fn until_late(&mut self) -> anyhow::Result<&Told> {
        while self.told.late.is_empty() {
            anyhow::ensure!(self.step().await?, "nobody was late: {:?}", self.told);
        }
        Ok(&self.told)
    }

    /// Follows the reply until it waits for a device.
    pub async fn until_awaited(&mut self) -> anyhow::Result<&Told> {
        while self.told.awaited.is_empty() {
            anyhow::ensure!(self.step().await?, "nobody was awaited: {:?}", self.told);
        }
        Ok(&self.told)
    }

    /// Follows the reply until a helper is told to have other replies to make too.
    pub async fn until_shared(&mut self) -> anyhow::Result<&Told> {
        while self.told.shared.is_empty() {
            anyhow::ensure!(self.step().await?, "no helper was shared: {:?}", self.told);
        }
        Ok(&self.told)
    }

    /// Follows the reply to its end, good or bad.
    pub async fn end(mut self) -> anyhow::Result<Told> {
        while self.step().await? {}
        Ok(self.told)
    }

    /// Follows the reply to its good end.
    pub async fn whole(self) -> anyhow::Result<Told> {
        let told = self.end().await?;
        match &told.aborted {
            None => Ok(told),
            Some((code, sentence)) => bail!("the reply ended early ({code}): {sentence}"),
        }
    }

    /// The next event; whether the reply goes on after it.
    async fn step(&mut self) -> anyhow::Result<bool> {
        let next = tokio::time::timeout(EVENT_LIMIT, self.lines.next());
        let next = next.await.with_context(|| format!("nothing came for {EVENT_LIMIT:?}"))?;
        let (event, ids) = next?.context("the node went away in the middle of the reply")?;
        let told = &mut self.told;
        told.ids.extend(ids);
        match event {
            ReplyEvent::Started { route, predicted, .. } => {
                told.route = legs(&route);
                told.expected = predicted;
            }
            ReplyEvent::TokenDelta { text, .. } => told.text.push_str(&text),
            ReplyEvent::ThoughtDelta { .. } => {}
            ReplyEvent::ShardStatus { device, status: ShardState::Lost } => told.lost.push(device),
            ReplyEvent::ShardStatus { device, status: ShardState::Awaited } => {
                told.awaited.push(device);
            }
            ReplyEvent::ShardStatus { device, status: ShardState::Degraded } => {
                told.late.push(device);
            }
            ReplyEvent::ShardStatus { device, status: ShardState::Shared } => {
                told.shared.push(device);
            }
            ReplyEvent::ShardStatus { device: _, status: ShardState::Online } => {}
            ReplyEvent::ShardFailover { failover, route } => {
                told.failovers.push(failover);
                told.route = legs(&route);
            }
            ReplyEvent::FallbackToLocal { route } => {
                told.fell_back = true;
                told.route = legs(&route);
            }
            ReplyEvent::Done { summary } => {
                told.route = legs(&summary.route);
                told.resumed = summary.resumed_tokens;
                told.computed = summary.computed_tokens;
                told.first_token_ms = summary.first_token_ms;
                told.total_ms = summary.total_ms;
                told.tokens_per_second = summary.tokens_per_second;
                told.predicted = summary.predicted;
                told.timeline = summary.timeline;
                told.shared = summary.shared;
                told.finish = Some(summary.finish_reason);
                return Ok(false);
            }
            ReplyEvent::PipelineAborted { code, sentence, .. } => {
                told.aborted = Some((code, sentence));
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Told {
    /// Who computes, in order, without this device's two ends.
    #[must_use]
    pub fn devices(&self) -> Vec<&str> {
        self.route.iter().map(|leg| leg.device.as_str()).collect()
    }

    /// Whether a device takes part.
    #[must_use]
    pub fn uses(&self, device: &str) -> bool {
        self.route.iter().any(|leg| leg.device == device)
    }

    /// Asserts that this reply says what `other` said, and ended as it did.
    #[track_caller]
    pub fn assert_says(&self, other: &Self) {
        assert_eq!(self.ids, other.ids, "{self:?}");
        assert_eq!((&self.text, self.finish), (&other.text, other.finish), "{self:?}");
    }
}

fn legs(route: &RouteView) -> Vec<Leg> {
    let leg =
        |leg: &nook_api::views::LegView| Leg { device: leg.device.clone(), layers: leg.layers };
    route.legs.iter().map(leg).collect()
}

/// Roles as fixtures write them.
pub(crate) fn role(name: &str) -> ChatRole {
    match name {
        "system" => ChatRole::System,
        "assistant" => ChatRole::Assistant,
        _ => ChatRole::User,
    }
}
