//! One household: set up with commands, watched until it is ready, then asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nook_api::views::{DecisionView, HouseholdView, PipelineView, PredictionView};
use nook_base::clock;
use nook_testkit::{Household, Node, NodePlan, Wish, commands, files_below};
use nook_tests::models::{self, Files, Model};
use nook_tests::program::Effort;
use serde::Serialize;

const ASKING: &str = "Old laptop";
const HELPERS: [&str; 2] = ["Gaming PC", "Study PC"];

/// What the model is called in the household.
const NAME: &str = "household";

/// Longest wait for anything that the household does by itself.
const LIMIT: Duration = Duration::from_secs(300);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How long the placement must stay as it is to count as settled: longer than three looks of it.
const SETTLED: Duration = Duration::from_secs(25);

/// The same where the bench itself is shown to work.
const SETTLED_QUICK: Duration = Duration::from_secs(1);

/// Tokens of each reply.
const TOKENS: u32 = 48;

/// What the system lets a process of the asking device have where it cannot hold the model, in per
/// cent of its file: its ends and a few layers.
const ASKING_PERCENT: u64 = 60;

/// What each of two helpers lends where neither alone suffices, in the same: half of it is for the
/// caches of conversations.
const LENT_PERCENT: u64 = 75;

/// A household to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    model: &'static Model,
    helpers: usize,
    /// How many times slower the asking device computes than a helper.
    slower: u32,
    asking: Asking,
    replies: usize,
    settled: Duration,
}

/// What the asking device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    /// The model, and the memory for it.
    All,
    /// The model, and not the memory for it. Of several helpers none has the memory for the rest.
    LittleMemory,
    /// Its ends of the model, from the helper that has all of it.
    Ends,
}

/// What was measured of one.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Measured {
    pub(crate) title: String,
    /// Commands that were typed, on all devices together.
    pub(crate) commands: u32,
    /// Until a helper has a few layers.
    pub(crate) first_layers_s: f64,
    /// Until this device has measured itself and every helper.
    pub(crate) measured_s: f64,
    /// Until nothing was asked of helpers any more that they did not hold; absent where they were
    /// asked for nothing.
    pub(crate) part_s: Option<f64>,
    /// What devices have on their disks that they got from others.
    pub(crate) copied_mb: f64,
    /// Absent where the asking device cannot make it alone.
    pub(crate) alone_tokens_per_s: Option<f64>,
    pub(crate) replies: Vec<Asked>,
}

/// One reply.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Asked {
    pub(crate) pooled: bool,
    /// Of the way that was taken.
    pub(crate) predicted_tokens_per_s: f64,
    pub(crate) tokens_per_s: f64,
    pub(crate) predicted_first_token_ms: f64,
    pub(crate) first_token_ms: f64,
}

impl Plan {
    /// The households of a run.
    pub(crate) fn all(effort: Effort) -> Vec<Self> {
        let model = |name| models::by_name(name).expect("the list of models names it");
        match effort {
            Effort::Quick => {
                let (model, settled) = (&models::TINY, SETTLED_QUICK);
                let asking = Asking::All;
                vec![Self { model, helpers: 1, slower: 4, asking, replies: 2, settled }]
            }
            Effort::Full => {
                let kinds = [
                    (1, 3, Asking::All),
                    (2, 3, Asking::All),
                    (1, 1, Asking::All),
                    (1, 1, Asking::LittleMemory),
                    (2, 1, Asking::LittleMemory),
                    (1, 1, Asking::Ends),
                ];
                let of = |model: &'static Model| {
                    kinds.map(|(helpers, slower, asking)| Self {
                        model,
                        helpers,
                        slower,
                        asking,
                        replies: 10,
                        settled: SETTLED,
                    })
                };
                [of(model("llama-1b-q8_0")), of(&models::LLAMA_3B)].concat()
            }
        }
    }

    pub(crate) fn title(&self) -> String {
        let Self { model, helpers, slower, .. } = self;
        let devices = helpers + 1;
        match slower {
            _ if self.asking == Asking::Ends => {
                format!("{devices} devices, the asking one has only its ends, {}", model.title)
            }
            _ if self.asking == Asking::LittleMemory && devices > 2 => {
                format!("{devices} devices of which no two can hold it, {}", model.title)
            }
            _ if self.asking == Asking::LittleMemory => {
                format!("{devices} devices, the asking one cannot hold it, {}", model.title)
            }
            1 => format!("{devices} equal devices, {}", model.title),
            _ => {
                format!("{devices} devices, the asking one {slower} times slower, {}", model.title)
            }
        }
    }

    pub(crate) async fn measure(&self, folder: &Path) -> anyhow::Result<Measured> {
        let file = Files::in_folder(folder.to_owned()).ensure(self.model)?;
        let bytes = fs::metadata(&file)?.len();
        let names = [ASKING].into_iter().chain(HELPERS.into_iter().take(self.helpers));
        // Each device has one core: the machine has few, and the others run at the same time.
        let plans = names.map(|name| self.node(name, bytes));
        let house = Household::apart(plans).await?;
        let asking = house.asking();
        let _slow = (self.slower > 1).then(|| asking.throttle_all_workers(self.slower));
        let commands = self.set_up(&house, &file).await?;
        let begun = clock::now();
        until(asking, "a helper has a few layers", |view, _| lent(view) > 0).await?;
        let first_layers_s = seconds(begun);
        until(asking, "all are measured", |_, pipeline| self.is_measured(pipeline)).await?;
        let measured_s = seconds(begun);
        let part_s = settle(asking, begun, self.settled).await?;
        let copied: anyhow::Result<Vec<u64>> =
            (0..=self.helpers).map(|node| copied_bytes(house.node(node).home())).collect();
        let copied_mb = copied?.iter().sum::<u64>() as f64 / 1e6;
        let mut replies = Vec::new();
        for number in 1..=self.replies {
            replies.push(ask(asking, number).await?);
        }
        let alone = match self.asking {
            Asking::All => Some(asking.answer(&wish(self.replies + 1).alone()).await?),
            Asking::LittleMemory | Asking::Ends => None,
        };
        Ok(Measured {
            title: self.title(),
            commands,
            first_layers_s,
            measured_s,
            part_s,
            copied_mb,
            alone_tokens_per_s: alone.as_ref().map(rate),
            replies,
        })
    }

    /// A device of the household; the model's file has so many bytes.
    fn node(&self, name: &'static str, bytes: u64) -> NodePlan {
        let plan = NodePlan::installed(name);
        match (self.asking == Asking::LittleMemory, name == ASKING) {
            (true, true) => {
                let limit = format!("--data={}", bytes / 100 * ASKING_PERCENT);
                let one_thread = ["env", "INGLENOOK_THREADS=1"].map(Into::into);
                plan.behind([vec!["prlimit".into(), limit.into()], one_thread.into()].concat())
            }
            (true, false) if self.helpers > 1 => {
                let lent = bytes / 100 * LENT_PERCENT / 1_000_000;
                plan.with("distributed_inference.host.max_lent_memory_mb", lent.to_string())
                    .computing_with(1)
            }
            _ => plan.computing_with(1),
        }
    }

    /// Types what a family would; how many commands that were.
    async fn set_up(&self, house: &Household, file: &Path) -> anyhow::Result<u32> {
        let home = |node: usize| house.node(node).home().to_owned();
        let path = file.to_str().context("a path of plain letters")?;
        let holder = if self.asking == Asking::Ends { 1 } else { 0 };
        commands::run(&home(holder), &["models", "import", path, "--name", NAME]).await?;
        let mut typed = 1;
        for helper in 1..=self.helpers {
            let (showing, typing): (PathBuf, PathBuf) = (home(helper), home(0));
            let pair = move || commands::pair_and(&showing, &typing, &["--trust", "trusted"]);
            tokio::task::spawn_blocking(pair).await??;
            typed += 2;
        }
        if self.asking == Asking::Ends {
            until(house.asking(), "it is given", |view, _| !view.in_house.is_empty()).await?;
            commands::run(&home(0), &["models", "copy", NAME, "--ends"]).await?;
            typed += 1;
        }
        Ok(typed)
    }

    fn is_measured(&self, pipeline: &PipelineView) -> bool {
        // A device without the memory for a few layers beside its ends does not measure itself.
        let asking = (self.asking != Asking::LittleMemory).then_some(ASKING);
        let mut names = asking.into_iter().chain(HELPERS.into_iter().take(self.helpers));
        names.all(|name| {
            pipeline
                .measured
                .iter()
                .any(|of| of.device == name && of.model == NAME && of.decode_us_per_layer.is_some())
        })
    }
}

impl Measured {
    /// The number of the first reply that others took part in.
    pub(crate) fn first_pooled(&self) -> Option<usize> {
        self.replies.iter().position(|reply| reply.pooled).map(|at| at + 1)
    }

    /// The median of the replies that others took part in.
    pub(crate) fn together_tokens_per_s(&self) -> Option<f64> {
        let pooled = self.replies.iter().filter(|reply| reply.pooled);
        let mut rates: Vec<f64> = pooled.map(|reply| reply.tokens_per_s).collect();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied()
    }
}

impl Asked {
    /// Whether the speed was as predicted, up to this part of it.
    pub(crate) fn is_within(&self, part: f64) -> bool {
        (self.tokens_per_s / self.predicted_tokens_per_s - 1.0).abs() <= part
    }
}

fn seconds(since: Instant) -> f64 {
    clock::now().duration_since(since).as_secs_f64()
}

/// No two begin alike, so that nothing of an earlier one is gone on with.
fn wish(number: usize) -> Wish {
    let text = format!("{number}. {}", "Once upon a time there was a house by the sea. ".repeat(4));
    Wish::text(&text, TOKENS).by(NAME).as_the_house_does()
}

fn rate(told: &nook_testkit::Told) -> f64 {
    let tokens = told.ids.len().saturating_sub(1) as f64;
    tokens * 1e3 / (told.total_ms - told.first_token_ms).max(1e-3)
}

async fn ask(asking: &Node, number: usize) -> anyhow::Result<Asked> {
    let told = asking.answer(&wish(number)).await?;
    let has_gone = |pipeline: &PipelineView| {
        pipeline.last.as_ref().is_some_and(|decision| decision.went.is_some())
    };
    let decision = asking.until_pipeline("how it went", has_gone).await?.last;
    let decision = decision.context("it was decided on")?;
    let pooled = told.devices().iter().any(|device| *device != ASKING);
    let predicted = chosen(&decision, pooled).context("something was predicted")?;
    Ok(Asked {
        pooled,
        predicted_tokens_per_s: predicted.tokens_per_second,
        tokens_per_s: rate(&told),
        predicted_first_token_ms: predicted.first_token_ms,
        first_token_ms: told.first_token_ms,
    })
}

/// What was predicted of the way that was taken.
fn chosen(decision: &DecisionView, pooled: bool) -> Option<PredictionView> {
    match pooled {
        true => decision.pooled.as_ref().map(|pooled| pooled.prediction),
        false => decision.alone,
    }
}

/// Layers of the model that others offer.
fn lent(view: &HouseholdView) -> u32 {
    let lends = view.devices.iter().flat_map(|device| &device.lends);
    let of_it = lends.filter(|lend| lend.model == NAME);
    of_it.map(|lend| lend.last_layer + 1 - lend.first_layer).sum()
}

/// Waits until what is asked of helpers is held and nothing new is asked for a while.
async fn settle(asking: &Node, begun: Instant, settled: Duration) -> anyhow::Result<Option<f64>> {
    let (mut before, mut since) = (None, clock::now());
    loop {
        let placement = asking.pipeline().await?.placement;
        let answers = placement.iter().flat_map(|it| &it.shares).map(|share| share.answer.clone());
        let answers: Vec<Option<String>> = answers.collect();
        let now = (lent(&asking.view().await?), answers);
        if before.as_ref() != Some(&now) {
            (before, since) = (Some(now), clock::now());
        }
        if clock::now().duration_since(since) >= settled {
            let has_placed = before.is_some_and(|(_, answers)| answers.iter().any(Option::is_some));
            let took = since.duration_since(begun).as_secs_f64();
            return Ok(has_placed.then_some(took));
        }
        anyhow::ensure!(clock::now().duration_since(begun) < LIMIT, "it does not settle");
        tokio::time::sleep(LOOK).await;
    }
}

async fn until(
    asking: &Node,
    what: &str,
    holds: impl Fn(&HouseholdView, &PipelineView) -> bool,
) -> anyhow::Result<()> {
    let end = clock::now() + LIMIT;
    loop {
        let (view, pipeline) = (asking.view().await?, asking.pipeline().await?);
        if holds(&view, &pipeline) {
            return Ok(());
        }
        anyhow::ensure!(clock::now() < end, "not within {LIMIT:?}: {what}; {pipeline:#?}");
        tokio::time::sleep(LOOK).await;
    }
}

/// What the partial files below `home` take on the disk.
fn copied_bytes(home: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    let folder = home.join("models").join("partial");
    let files = if folder.is_dir() { files_below(&folder)? } else { Vec::new() };
    for (path, _) in files {
        bytes += taken(&fs::metadata(path)?);
    }
    Ok(bytes)
}

#[cfg(unix)]
fn taken(found: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(found) * 512
}

#[cfg(not(unix))]
fn taken(found: &fs::Metadata) -> u64 {
    found.len()
}
