//! Tokens per second of a divided model against the undivided one.
//!
//! Both arms run on the same nodes, one after the other and in turn, so that what disturbs the
//! machine disturbs both. The ratio is the median of the ratios of neighbours.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nook_base::LayerRange;
use nook_kernels::Format;
use nook_model::synthetic::{Mix, Recipe};
use nook_testkit::{Household, Node, NodePlan};
use serde::Serialize;

use super::asking::{Arm, Asking, others, speed, summary};
use crate::figures::Spread;
use crate::program::Effort;

/// Tokens that random weights continue; what they say does not matter.
const RANDOM_PROMPT: &str = "Twelve lamps stood in the window";

/// Beginnings for Ember, one a round in turn.
const STORIES: [&str; 4] = [
    "Once upon a time there was a small lamp",
    "The old fox looked at the river and",
    "Mia had a red boat. One day",
    "In a quiet house by the sea",
];

/// One model, divided and not.
#[derive(Debug, Clone, Serialize)]
pub struct SplitRow {
    /// The model, and how it was divided.
    pub what: String,
    /// Pairs of replies that count.
    pub rounds: usize,
    /// Tokens of each.
    pub tokens: u32,
    /// Decode speed on this device alone.
    pub undivided_tokens_per_second: Spread,
    /// Decode speed with the others.
    pub split_tokens_per_second: Spread,
    /// Median of split / undivided, round by round.
    pub ratio: f64,
    /// Best split / best undivided: interference only subtracts.
    pub ratio_of_best: f64,
}

/// How much of it.
#[derive(Debug, Clone, Copy)]
struct Rounds {
    warm_up: usize,
    counted: usize,
    tokens: u32,
}

/// Measures every model.
pub async fn measure(effort: Effort) -> anyhow::Result<Vec<SplitRow>> {
    let mut rows = vec![ember(effort).await?];
    let mixes = match effort {
        Effort::Quick => vec![("Q8_0", Mix::All(Format::Q8_0))],
        Effort::Full => vec![("Q8_0", Mix::All(Format::Q8_0)), ("Q4_K_M", Mix::Q4KM)],
    };
    for (name, mix) in mixes {
        rows.push(one_thread_each(effort, name, mix).await?);
    }
    Ok(rows)
}

/// Ember through two helpers that hold one half of the middle each, against this device alone.
async fn ember(effort: Effort) -> anyhow::Result<SplitRow> {
    let mut house = Household::strangers([NodePlan::new("Asking")]).await?;
    let layers = layers_of(house.asking(), "ember").await?;
    let middle = LayerRange::new(1, layers.saturating_sub(1))?;
    let shares = nook_node::even_split(middle, 2);
    for (name, share) in ["First", "Second"].into_iter().zip(shares) {
        house.add(NodePlan::new(name).offering(&share.to_string())).await?;
    }
    lend_to_first(&house, 2, "ember").await?;
    let rounds = match effort {
        Effort::Quick => Rounds { warm_up: 1, counted: 2, tokens: 32 },
        Effort::Full => Rounds { warm_up: 2, counted: 20, tokens: 192 },
    };
    let what = "Ember, two helpers, all threads, against this device alone".to_owned();
    compare(what, &house, "ember", &STORIES, 2, rounds).await
}

/// Random weights in two one-thread workers, one behind a link, against one one-thread worker.
async fn one_thread_each(effort: Effort, name: &str, mix: Mix) -> anyhow::Result<SplitRow> {
    let folder = tempfile::Builder::new().prefix("nook-bench-").tempdir()?;
    let (shape, recipe) = shape(effort, mix);
    let file = written(folder.path(), recipe.clone()).await?;
    let halves = Halves::start(&file, recipe.layers).await?;
    halves.decode(effort, &format!("{shape} {name}")).await
}

/// A model of random weights on two nodes that compute with one thread each.
///
/// The asking device has the first half but one, and the last layer: as many as the helper between,
/// so that neither waits for the other while a prompt goes through both.
#[derive(Debug)]
pub struct Halves {
    house: Household,
    model: String,
}

/// The first token of a long prompt, with a helper and without.
#[derive(Debug, Clone, Serialize)]
pub struct PrefillRow {
    /// Tokens of the prompts.
    pub prompt_tokens: Spread,
    /// From asking to the first token, on this device alone.
    pub undivided_ms: Spread,
    /// The same with the helper.
    pub split_ms: Spread,
    /// Median of undivided / split, round by round.
    pub ratio: f64,
    /// How much more two undivided devices read at once than one alone, median: what the two cores
    /// of this machine allow, whoever divides what. 2 would be two machines.
    pub both_at_once: f64,
}

impl Halves {
    /// Starts both nodes with the model in `file`, which has `layers` layers, four at least.
    pub async fn start(file: &Path, layers: u32) -> anyhow::Result<Self> {
        let half = (layers / 2).saturating_sub(1);
        let asking = NodePlan::new("Asking")
            .with("distributed_inference.local_prefix_layers", half.to_string())
            .computing_with(1);
        let middle = LayerRange::new(half, layers.saturating_sub(1))?;
        let helper = NodePlan::new("Helper").offering(&middle.to_string()).computing_with(1);
        let house = Household::strangers([asking, helper]).await?;
        let model = house.import(file, Some("random")).await?;
        lend_to_first(&house, 1, &model).await?;
        Ok(Self { house, model })
    }

    /// Decode speed, divided and not.
    pub async fn decode(&self, effort: Effort, shape: &str) -> anyhow::Result<SplitRow> {
        let rounds = match effort {
            Effort::Quick => Rounds { warm_up: 1, counted: 2, tokens: 8 },
            Effort::Full => Rounds { warm_up: 1, counted: 10, tokens: 48 },
        };
        let what = format!("{shape}, two one-thread workers against one");
        compare(what, &self.house, &self.model, &[RANDOM_PROMPT], 1, rounds).await
    }

    /// Time to the first token of prompts of `tokens` tokens, no two of which begin alike.
    pub async fn prefill(&self, tokens: usize, counted: usize) -> anyhow::Result<PrefillRow> {
        let long = self.long_prompt(tokens).await?;
        let (mut prompt_tokens, mut undivided, mut split) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=counted {
            let mut pair = [0.0; 2];
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for index in order {
                let arm = [Arm::Undivided, Arm::Split][index];
                // Nothing of it is remembered from the other arm or an earlier round.
                let text = format!("{index}{round:03} {long}");
                let (length, ms) = self.first_token(&text, arm).await?;
                pair[index] = ms;
                if round > 0 {
                    prompt_tokens.push(length as f64);
                }
            }
            // The first round loads and warms.
            if round > 0 {
                undivided.push(pair[0]);
                split.push(pair[1]);
            }
        }
        let ratios = undivided.iter().zip(&split).map(|(undivided, split)| undivided / split);
        let ratio = Spread::of(ratios).median;
        Ok(PrefillRow {
            prompt_tokens: Spread::of(prompt_tokens),
            undivided_ms: Spread::of(undivided),
            split_ms: Spread::of(split),
            ratio,
            both_at_once: self.both_at_once(&long, counted).await?,
        })
    }

    /// A text that is read as `tokens` tokens when four digits and a space stand before it. The
    /// vocabulary of random models knows bytes only: each letter that is added is a token more.
    async fn long_prompt(&self, tokens: usize) -> anyhow::Result<String> {
        let (one, _) = self.first_token(RANDOM_PROMPT, Arm::Split).await?;
        let (two, _) = self.first_token(&RANDOM_PROMPT.repeat(2), Arm::Split).await?;
        let repeats = (tokens / (two - one).max(1)).saturating_sub(1).max(1);
        let short = RANDOM_PROMPT.repeat(repeats);
        let (length, _) = self.first_token(&format!("0000 {short}"), Arm::Split).await?;
        let letters = tokens.checked_sub(length).context("the short prompt is not shorter")?;
        Ok(short + &"o".repeat(letters))
    }

    /// Both devices read a prompt of their own at once, against one alone.
    async fn both_at_once(&self, long: &str, counted: usize) -> anyhow::Result<f64> {
        let (asking, helper) = (self.house.asking(), self.house.node(1));
        let mut gains = Vec::new();
        for round in 0..=counted.min(3) {
            let text = |who: usize| format!("{who}{round:03} {long}");
            let (alone, one, other) = (text(2), text(3), text(4));
            let (_, alone) = self.first_token_of(asking, &alone, Arm::Undivided).await?;
            let (one, other) = tokio::try_join!(
                self.first_token_of(asking, &one, Arm::Undivided),
                self.first_token_of(helper, &other, Arm::Undivided),
            )?;
            // The first round loads the model on the helper.
            if round > 0 {
                gains.push(alone / one.1 + alone / other.1);
            }
        }
        Ok(Spread::of(gains).median)
    }

    /// Tokens of the prompt, and milliseconds to the first one of the reply.
    async fn first_token(&self, prompt: &str, arm: Arm) -> anyhow::Result<(usize, f64)> {
        self.first_token_of(self.house.asking(), prompt, arm).await
    }

    async fn first_token_of(
        &self,
        node: &Node,
        prompt: &str,
        arm: Arm,
    ) -> anyhow::Result<(usize, f64)> {
        let reply = Asking::begin(node, &self.model, prompt, 2, arm).await?;
        let length = reply.prompt_tokens();
        let summary = summary(reply).await?;
        let met = others(&summary.route);
        anyhow::ensure!(met.len() == usize::from(arm == Arm::Split), "{arm:?} ran on {met:?}");
        Ok((length, summary.first_token_ms))
    }
}

fn shape(effort: Effort, mix: Mix) -> (&'static str, Recipe) {
    let full = Recipe::llama_1b(mix, 1);
    match effort {
        Effort::Full => ("Llama-3.2-1B shape", full),
        Effort::Quick => {
            let few = Recipe {
                layers: 4,
                hidden: 1024,
                heads: 16,
                kv_heads: 4,
                feed_forward: 2048,
                vocabulary: 512,
                ..full
            };
            ("four layers of width 1024", few)
        }
    }
}

/// Writes a random model into `folder`.
pub async fn written(folder: &Path, recipe: Recipe) -> anyhow::Result<PathBuf> {
    let file = folder.join("random.gguf");
    let path = file.clone();
    tokio::task::spawn_blocking(move || recipe.write(&path)).await??;
    Ok(file)
}

async fn compare(
    what: String,
    house: &Household,
    model: &str,
    prompts: &[&str],
    hops: usize,
    rounds: Rounds,
) -> anyhow::Result<SplitRow> {
    let (mut undivided, mut split) = (Vec::new(), Vec::new());
    for round in 0..rounds.warm_up + rounds.counted {
        let prompt = prompts[round % prompts.len()];
        let mut pair = [0.0; 2];
        // Whoever is first meets the machine as the other left it: they take turns.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for index in order {
            let arm = [Arm::Undivided, Arm::Split][index];
            let asking = house.asking();
            let reply = Asking::begin(asking, model, prompt, rounds.tokens, arm).await?;
            let (tokens_per_second, route) = speed(reply).await?;
            let expected = if arm == Arm::Split { hops } else { 0 };
            let met = others(&route);
            anyhow::ensure!(met.len() == expected, "{what}: {arm:?} ran on {met:?}");
            pair[index] = tokens_per_second;
        }
        if round >= rounds.warm_up {
            undivided.push(pair[0]);
            split.push(pair[1]);
        }
    }
    let ratios = split.iter().zip(&undivided).map(|(split, undivided)| split / undivided);
    let ratio = Spread::of(ratios).median;
    let (undivided, split) = (Spread::of(undivided), Spread::of(split));
    Ok(SplitRow {
        what,
        rounds: rounds.counted,
        tokens: rounds.tokens,
        undivided_tokens_per_second: undivided,
        split_tokens_per_second: split,
        ratio,
        ratio_of_best: split.max / undivided.max,
    })
}

/// Pairs the first node with the helpers behind it, which then share, and waits for their offers.
pub async fn lend_to_first(house: &Household, helpers: usize, model: &str) -> anyhow::Result<()> {
    for helper in 1..=helpers {
        house.pair(0, helper, nook_api::views::Trust::Trusted).await?;
        house.node(helper).share(true).await?;
    }
    house.until_all_lend(model).await?;
    Ok(())
}

/// Layers of a model of a node.
pub async fn layers_of(node: &Node, model: &str) -> anyhow::Result<u32> {
    let view = node.view().await?;
    let found = view.models.iter().find(|known| known.name == model);
    Ok(found.with_context(|| format!("there is no model called {model}"))?.layers)
}
