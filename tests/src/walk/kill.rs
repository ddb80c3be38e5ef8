//! From the loss of a helper in the middle of a reply to the next token: SIGKILL, or SIGSTOP, after
//! which it is there and answers nothing.
//!
//! The victim is the helper that the reply runs on. The clock starts before the signal is sent,
//! which counts the time to send it in, and stops with the first token that comes after the news of
//! the hand-over: tokens that were on their way at the kill do not count as the next one. Whoever
//! takes over has the layers in memory, except where a row says otherwise.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, bail};
use nook_api::views::{PartView, ReplyEvent, Trust};
use nook_base::{LayerRange, clock};
use nook_kernels::Format;
use nook_model::synthetic::{Mix, Recipe};
use nook_testkit::{Household, NodePlan, Signal};
use serde::Serialize;

use super::asking::{Arm, Asking, others, speed};
use super::split::{layers_of, lend_to_first, written};
use crate::figures::Spread;
use crate::program::Effort;
use crate::report;

/// What the helpers are called; their places in the household are one behind.
const HELPERS: [&str; 2] = ["First", "Second"];

/// Tokens of history when the helper is killed: the prompt and the beginning of the reply.
const HISTORY: usize = 200;

/// Tokens of the reply before the kill: a helper that is lost while the prompt is read is another
/// case.
const SAID_MIN: usize = 4;

/// Characters of a prompt that random weights, which know only bytes, read as almost [`HISTORY`]
/// tokens.
const RANDOM_PROMPT_CHARACTERS: usize = 135;

/// Most tokens of the reply: enough that it is not over before the hand-over is told.
const REPLY_TOKENS_MAX: usize = 100;

/// Replies in a row that may end by themselves before the helper is missed, before this is given
/// up.
const SHORT_REPLIES_MAX: usize = 8;

/// What a helper continues to be warm.
const WARM_UP: &str = "Once upon a time";

/// Of whom and of what the stories tell; each round has a pair of its own.
const NAMES: [&str; 8] = ["Mia", "Anna", "Lily", "Sara", "Nora", "Ella", "Emma", "Lena"];
const ANIMALS: [&str; 5] = ["dog", "cat", "bear", "bird", "goat"];

/// One household, killed round by round.
#[derive(Debug, Clone, Serialize)]
pub struct KillRow {
    /// Who takes over, and which model.
    pub what: String,
    /// Kills that count.
    pub rounds: usize,
    /// Tokens of history at the kill.
    pub history_tokens: Spread,
    /// From the kill to the next token delivered.
    pub to_next_token_ms: Spread,
    /// The pause that the node itself reports.
    pub reported_pause_ms: Spread,
    /// Kills after which another helper went on; after the others this device did.
    pub by_a_helper: usize,
    /// What computing the history again over the lost layers took, as whoever took over says.
    pub replay_ms: Spread,
    /// What came on top of it, kill by kill.
    pub beyond_replay_ms: Spread,
    /// The first round apart, in which whoever takes over loads the layers first.
    pub cold_to_next_token_ms: f64,
}

/// One kill.
#[derive(Debug, Clone)]
struct Kill {
    history: usize,
    to_next_token_ms: f64,
    pause_ms: f64,
    replay_ms: f64,
    /// The other devices that go on; none where this one took over.
    successors: Vec<String>,
}

/// What the reply said of its hand-over, and of the work that came of it.
#[derive(Debug)]
struct News {
    next_token: Instant,
    pause_ms: f64,
    successors: Vec<String>,
    replay_ms: f64,
}

/// How a helper is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Its process is killed; its links close at once.
    Killed,
    /// Its process is stopped; nothing closes and nothing comes.
    Frozen,
}

/// A household whose helper is lost again and again.
#[derive(Debug, Clone, Copy)]
pub struct Victims<'a> {
    /// The model; the built-in one when none is named.
    pub file: Option<&'a Path>,
    /// One or two, each of which lends the whole middle.
    pub helpers: usize,
    /// Losses that count.
    pub rounds: usize,
    /// How they are lost.
    pub loss: Loss,
}

/// Measures both households.
pub async fn measure(effort: Effort) -> anyhow::Result<Vec<KillRow>> {
    let rounds = match effort {
        Effort::Quick => 2,
        Effort::Full => 20,
    };
    let (spare, alone) = ("another helper takes over", "only this device is left");
    let mut rows = vec![
        household(&format!("Ember, {spare}"), ember(2, rounds)).await?,
        household(&format!("Ember, {alone}"), ember(1, rounds)).await?,
    ];
    if effort == Effort::Full {
        let folder = tempfile::Builder::new().prefix("nook-bench-").tempdir()?;
        let recipe = Recipe::llama_1b(Mix::All(Format::Q8_0), 1);
        let file = written(folder.path(), recipe).await?;
        let what = format!("Llama-3.2-1B shape Q8_0, {spare}");
        let victims =
            Victims { file: Some(&file), helpers: 2, rounds: rounds / 2, loss: Loss::Killed };
        rows.push(household(&what, victims).await?);
    }
    Ok(rows)
}

/// Helpers with the built-in model, to be killed.
#[must_use]
pub fn ember(helpers: usize, rounds: usize) -> Victims<'static> {
    Victims { file: None, helpers, rounds, loss: Loss::Killed }
}

/// Measures one household, after one loss that does not count.
pub async fn household(what: &str, victims: Victims<'_>) -> anyhow::Result<KillRow> {
    let Victims { file, helpers, rounds, loss } = victims;
    let mut house = Household::strangers([NodePlan::new("Asking")]).await?;
    let model = match file {
        Some(file) => house.import(file, Some("random")).await?,
        None => "ember".to_owned(),
    };
    let layers = layers_of(house.asking(), &model).await?;
    let middle = LayerRange::new(1, layers.saturating_sub(1))?;
    for name in &HELPERS[..helpers] {
        house.add(NodePlan::new(name).offering(&middle.to_string())).await?;
    }
    if let Some(file) = file {
        for helper in 1..=helpers {
            house.node(helper).import(file, Some("random")).await?;
        }
    }
    lend_to_first(&house, helpers, &model).await?;
    let mut prompts = (0..).map(|number| match file {
        Some(_) => prompt(number).chars().take(RANDOM_PROMPT_CHARACTERS).collect(),
        None => prompt(number),
    });
    let cold = round(&mut house, &model, &mut prompts, loss).await?;
    let mut kills = Vec::new();
    for _ in 0..rounds {
        if helpers > 1 {
            warm_up_all(&house, &model, helpers).await?;
        }
        kills.push(round(&mut house, &model, &mut prompts, loss).await?);
    }
    Ok(KillRow {
        what: what.to_owned(),
        rounds,
        history_tokens: Spread::of(kills.iter().map(|kill| kill.history as f64)),
        to_next_token_ms: Spread::of(kills.iter().map(|kill| kill.to_next_token_ms)),
        reported_pause_ms: Spread::of(kills.iter().map(|kill| kill.pause_ms)),
        by_a_helper: kills.iter().filter(|kill| !kill.successors.is_empty()).count(),
        replay_ms: Spread::of(kills.iter().map(|kill| kill.replay_ms)),
        beyond_replay_ms: Spread::of(
            kills.iter().map(|kill| kill.to_next_token_ms - kill.replay_ms),
        ),
        cold_to_next_token_ms: cold.to_next_token_ms,
    })
}

/// Lets each helper compute a few tokens alone, so that its worker runs and holds the layers. The
/// other is not asked because this device trusts it less for as long: if it stopped lending, it
/// would give its layers back.
async fn warm_up_all(house: &Household, model: &str, helpers: usize) -> anyhow::Result<()> {
    let names = &HELPERS[..helpers];
    for resting in names {
        house.asking().trust(resting, Trust::Guest).await?;
        let reply = Asking::begin(house.asking(), model, WARM_UP, 4, Arm::Split).await?;
        let (_, route) = speed(reply).await?;
        let is_of_the_others =
            !others(&route).is_empty() && !others(&route).contains(&(*resting).to_owned());
        anyhow::ensure!(
            is_of_the_others,
            "{resting} is no more than a guest, yet the route is {route:?}"
        );
        house.asking().trust(resting, Trust::Trusted).await?;
        house.until_all_lend(model).await?;
    }
    Ok(())
}

/// One kill; a prompt whose reply is too short for it is passed over.
async fn round(
    house: &mut Household,
    model: &str,
    prompts: &mut impl Iterator<Item = String>,
    loss: Loss,
) -> anyhow::Result<Kill> {
    for prompt in prompts.take(SHORT_REPLIES_MAX) {
        if let Some(kill) = try_round(house, model, &prompt, loss).await? {
            return Ok(kill);
        }
    }
    bail!("{SHORT_REPLIES_MAX} replies in a row ended before the helper was missed");
}

/// Asks, kills, waits for the next token, and starts the victim again. `None`: the reply
/// ended by itself too early.
async fn try_round(
    house: &mut Household,
    model: &str,
    prompt: &str,
    loss: Loss,
) -> anyhow::Result<Option<Kill>> {
    let wanted = u32::try_from(REPLY_TOKENS_MAX)?;
    let mut asking = Asking::begin(house.asking(), model, prompt, wanted, Arm::Split).await?;
    let mut history = asking.prompt_tokens();
    let (mut victim, mut said) = (None, 0);
    while history < HISTORY || said < SAID_MIN {
        let Some((event, tokens, _)) = asking.next().await? else { return Ok(None) };
        if let ReplyEvent::Started { route, .. } = event {
            let met = others(&route);
            victim = Some(met.first().context("no helper takes part")?.clone());
        }
        history += tokens;
        said += tokens;
    }
    let victim = victim.context("the reply did not say where it is computed")?;
    let place = HELPERS.iter().position(|name| *name == victim).context("it is a helper")? + 1;
    let killed = clock::now();
    house.node_mut(place).signal(match loss {
        Loss::Killed => Signal::Kill,
        Loss::Frozen => Signal::Stop,
    });
    let news = after_the_news(&mut asking, &victim).await?;
    drop(asking);
    let node = house.node_mut(place);
    if loss == Loss::Frozen {
        node.signal(Signal::Kill);
    }
    node.until_it_ended().await?;
    node.start_again().await?;
    house.until_all_lend(model).await?;
    Ok(news.map(|News { next_token, pause_ms, successors, replay_ms }| {
        let to_next_token_ms = next_token.duration_since(killed).as_secs_f64() * 1e3;
        let kill = Kill { history, to_next_token_ms, pause_ms, replay_ms, successors };
        report::loud(&format!("{victim} is lost: {kill:.0?}"));
        kill
    }))
}

/// Reads a reply to its end that loses `victim`: when the first token came after the hand-over was
/// told, which is when whoever took over has caught up, and what that took. News of a fall-back
/// comes before: not what it waits for.
async fn after_the_news(asking: &mut Asking, victim: &str) -> anyhow::Result<Option<News>> {
    let (mut told, mut news) = (None, None);
    while let Some((event, tokens, at)) = asking.next().await? {
        match event {
            ReplyEvent::ShardFailover { failover, route } => {
                told = Some((failover.pause_ms, others(&route)));
            }
            ReplyEvent::Done { summary } => {
                let Some((next_token, pause_ms, successors)) = news else { break };
                let replay_ms = replayed_ms(&summary.timeline, victim)?;
                return Ok(Some(News { next_token, pause_ms, successors, replay_ms }));
            }
            _ if tokens > 0 => {
                if let Some((pause_ms, successors)) = told.take() {
                    news.get_or_insert((at, pause_ms, successors));
                }
            }
            _ => {}
        }
    }
    Ok(None)
}

/// What the layers of `victim` cost whoever took them over, in steps of several positions.
fn replayed_ms(parts: &[PartView], victim: &str) -> anyhow::Result<f64> {
    let lost = parts.iter().find(|part| part.device == victim).context("it is in the timeline")?;
    let again = parts.iter().filter(|part| part.layers == lost.layers && part.device != victim);
    let (mut positions, mut took) = (0, 0.0);
    for part in again {
        positions += part.prompt.positions;
        took += part.prompt.compute_ms;
    }
    anyhow::ensure!(positions > 0, "nobody computed the history again: {parts:?}");
    Ok(took)
}

/// A beginning of its own for each round, almost as long as the wanted history, in the middle of a
/// story: Ember ends a story when it is told, and the reply with it.
fn prompt(number: usize) -> String {
    let name = NAMES[number % NAMES.len()];
    let animal = ANIMALS[number / NAMES.len() % ANIMALS.len()];
    let story = format!(
        "Once upon a time there was a little girl named {name}. She lived in a small house by the sea \
         with her mother, her father and a big brown {animal}. Every morning she went down to the \
         beach to look for shells. She put them into a blue box under her bed."
    );
    [story.as_str(); 3].join(" ")
}
