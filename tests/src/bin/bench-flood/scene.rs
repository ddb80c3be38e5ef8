//! The two nodes, and one phase of an attack.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nook_api::views::{HouseholdView, Trust};
use nook_base::clock;
use nook_testkit::{CpuShare, Footprint, Household, Node, NodePlan, Wish, descendants};
use nook_tests::figures::Spread;
use nook_tests::models;
use nook_tests::report::loud;
use serde::Serialize;

use crate::attacks::{Attack, Done, Victim, attack};

const ASKING: &str = "Kitchen laptop";
const HELPING: &str = "Study PC";

/// What both have of this machine's cores, and what this program has for its attacks: less than two
/// together, so that nobody takes another's.
const CORES_ASKING: f64 = 0.2;
const CORES_HELPING: f64 = 0.8;
const CORES_ATTACKING: f64 = 0.7;

/// The model, and the port for programs of the one that helps.
const MODEL: &str = "household";
const PORT: u16 = 4587;

/// What the one that helps computes of it, of twelve layers. It is always asked: what is measured is
/// what happens to it then, and not whether it is worth asking.
const LAYERS: &str = "1-10";

/// Tokens of a reply that is measured, and of one that the window asks for.
const TOKENS: u32 = 48;
const TOKENS_SHORT: u32 = 2;

/// Between two looks of the window.
const WINDOW_PAUSE: Duration = Duration::from_millis(500);

/// Between two looks at memory.
const MEMORY_PAUSE: Duration = Duration::from_millis(200);

/// What was measured of one phase.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Phase {
    pub(crate) title: String,
    /// What was done meanwhile, in words.
    pub(crate) done: String,
    /// Replies of both devices.
    pub(crate) replies: usize,
    /// Their median speed after the first token.
    pub(crate) tokens_per_s: f64,
    /// How often the window of the one that helps was refused something, or not answered.
    pub(crate) refused: u64,
    /// Longest wait of that window for the view, in milliseconds.
    pub(crate) window_ms: f64,
    /// Most memory of the node that helps, in KiB.
    pub(crate) node_kib: u64,
    /// Most memory of all its processes together, in KiB.
    pub(crate) processes_kib: u64,
}

pub(crate) struct Scene {
    house: Household,
    victim: Victim,
    done: Done,
    _shares: [CpuShare; 3],
}

/// What one loop beside the replies has seen.
#[derive(Debug, Default)]
struct Window {
    refused: u64,
    longest_ms: f64,
}

impl Scene {
    pub(crate) async fn set_up() -> anyhow::Result<Self> {
        let share = |cores| CpuShare::of(cores).context("the bench must share out the cores");
        let shares = [share(CORES_ASKING)?, share(CORES_HELPING)?, share(CORES_ATTACKING)?];
        let [asking, helping, attacking] = &shares;
        let behind = |share: &CpuShare| {
            let one_thread = ["env", "INGLENOOK_THREADS=1"].map(Into::into);
            [share.prefix(), one_thread.into()].concat()
        };
        let plans = [
            NodePlan::new(ASKING).behind(behind(asking)),
            NodePlan::new(HELPING)
                .offering(LAYERS)
                .behind(behind(helping))
                .with_port()
                .with("port.address", format!("\"0.0.0.0:{PORT}\""))
                .with("port.expose_to_lan", "true"),
        ];
        let house = Household::apart_with_test(plans).await?;
        anyhow::ensure!(house.bridge().is_some(), "there are no network namespaces here");
        let file = house.folder().join("household.gguf");
        models::household().write(&file)?;
        for node in house.nodes() {
            node.import(&file, Some(MODEL)).await?;
        }
        house.pair_seen(0, 1, Trust::Trusted).await?;
        house.node(1).share(true).await?;
        let helper = house.node(1);
        helper.until("its port is open", |view: &HouseholdView| view.port.on).await?;
        let links = helper.listens_at().await?;
        let victim = Victim {
            links,
            port: SocketAddr::new(links.ip(), PORT),
            key: fs::read_to_string(helper.home().join("port.key"))?.trim().to_owned(),
        };
        attacking.take_in(std::process::id())?;
        let scene = Self { house, victim, done: Done::default(), _shares: shares };
        scene.until_helped().await?;
        Ok(scene)
    }

    /// How the machine is shared, for the report.
    pub(crate) fn told(&self) -> String {
        format!(
            "- of the cores: {CORES_ASKING} for the one that asks, {CORES_HELPING} for the one that \
             helps, {CORES_ATTACKING} for the attacks"
        )
    }

    async fn until_helped(&self) -> anyhow::Result<()> {
        self.house.until_all_lend(MODEL).await?;
        let told = self.house.asking().answer(&wish(0)).await?;
        anyhow::ensure!(told.uses(HELPING), "nobody helps: {told:?}");
        Ok(())
    }

    pub(crate) async fn measure(
        &self,
        title: &str,
        kinds: &[Attack],
        length: Duration,
    ) -> anyhow::Result<Phase> {
        let before = self.counts();
        let attacks = attack(kinds, &self.victim, &self.done);
        let (mut window, mut memory) = (Window::default(), (0, 0));
        let rates = tokio::select! {
            rates = self.replies(length, || self.all_done_since(kinds, before)) => rates?,
            () = look(self.house.node(1), &mut window) => Vec::new(),
            () = weigh(self.house.node(1), &mut memory) => Vec::new(),
        };
        drop(attacks);
        let done =
            self.counts().iter().zip(before).map(|(now, then)| now - then).collect::<Vec<_>>();
        let replies = rates.len();
        Ok(Phase {
            title: title.to_owned(),
            done: said(&done),
            replies,
            tokens_per_s: Spread::of(rates).median,
            refused: window.refused,
            window_ms: window.longest_ms,
            node_kib: memory.0,
            processes_kib: memory.1,
        })
    }

    fn counts(&self) -> [u64; 3] {
        let Done { connections, announcements, requests } = &self.done;
        [connections.get(), announcements.get(), requests.get()]
    }

    /// Whether each of these has been done at least once. On a busy machine a short phase may else be
    /// over before the attack has begun.
    fn all_done_since(&self, kinds: &[Attack], before: [u64; 3]) -> bool {
        let now = self.counts();
        kinds.iter().all(|kind| now[*kind as usize] > before[*kind as usize])
    }

    /// Tokens per second of the replies that both made within this time and until `enough`; one at
    /// least.
    async fn replies(
        &self,
        length: Duration,
        enough: impl Fn() -> bool,
    ) -> anyhow::Result<Vec<f64>> {
        let (end, mut rates) = (clock::now() + length, Vec::new());
        for number in 0.. {
            let told = self.house.asking().answer(&wish(1_000 + number)).await?;
            let tokens = told.ids.len().saturating_sub(1) as f64;
            // One that went alone shows that the helper was given up, which is the worst case.
            if !told.uses(HELPING) {
                let why = self.house.asking().pipeline().await?.last;
                let left_out = why.map(|it| it.left_out.into_iter().map(|it| it.why));
                loud(&format!("alone: {:?}", left_out.map(Iterator::collect::<Vec<_>>)));
            }
            let rate = tokens * 1e3 / (told.total_ms - told.first_token_ms).max(1e-3);
            rates.push(if told.uses(HELPING) { rate } else { 0.0 });
            if clock::now() >= end && enough() {
                break;
            }
        }
        Ok(rates)
    }
}

fn said(done: &[u64]) -> String {
    let words = ["connections", "announcements", "requests"];
    let counted = done.iter().zip(words).filter(|(count, _)| **count > 0);
    let counted: Vec<_> = counted.map(|(count, word)| format!("{count} {word}")).collect();
    if counted.is_empty() { "-".to_owned() } else { counted.join(", ") }
}

/// What the owner of the helping device does at its window.
async fn look(node: &Node, window: &mut Window) {
    for number in 0.. {
        let begun = clock::now();
        let answered = node.view().await.is_ok();
        window.longest_ms = window.longest_ms.max(milliseconds(begun));
        let text = format!("{number}. Once upon a time");
        let said = node.answer(&Wish::text(&text, TOKENS_SHORT)).await;
        if let Err(error) = &said {
            loud(&format!("the window was refused: {error:#}"));
        }
        window.refused += u64::from(!answered) + u64::from(said.is_err());
        tokio::time::sleep(WINDOW_PAUSE).await;
    }
}

/// What the node and its processes take.
async fn weigh(node: &Node, most: &mut (u64, u64)) {
    loop {
        let of = |pid| Footprint::of(pid).map_or(0, |it| it.anonymous_kib);
        let own = of(node.pid());
        let all = own + descendants(node.pid()).into_iter().map(of).sum::<u64>();
        *most = (most.0.max(own), most.1.max(all));
        tokio::time::sleep(MEMORY_PAUSE).await;
    }
}

fn milliseconds(since: Instant) -> f64 {
    clock::now().duration_since(since).as_secs_f64() * 1e3
}

/// No two begin alike, so that nothing of an earlier one is gone on with.
fn wish(number: usize) -> Wish {
    let text = format!("{number}. {}", "Once upon a time there was a house by the sea. ".repeat(2));
    Wish::text(&text, TOKENS).by(MODEL).as_the_house_does()
}
