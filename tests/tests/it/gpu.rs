//! Models on a GPU, in whole nodes: the setting, households of CPU and GPU, and what goes wrong.
//!
//! The GPU is the first that the drivers of this machine offer: Mesa's software adapter where there
//! is no card. Where there is no driver, the tests that need one say so and end; in CI they fail.

use std::process::Command;
use std::time::Duration;

use nook_api::NodeCalls as _;
use nook_api::views::{Condition, HouseholdView, SettingAsk};
use nook_api::{Request, Vitals};
use nook_base::tasks::Tasks;
use nook_base::{Backend, ModelDigest, env};
use nook_control::ClientError;
use nook_kernels::Format;
use nook_model::ModelFile;
use nook_model::nook_gpu::{AdapterKind, adapters};
use nook_model::synthetic::Recipe;
use nook_resources::backends::{Measurable, Unmeasured, measure};
use nook_resources::file_place::FilePlace;
use nook_resources::workers::WorkerSource;
use nook_shard::{WorkerCommand, WorkerLimits};
use nook_testkit::{
    Household, Node, NodePlan, Signal, Told, Wish, chat_cases, fixture, nook, skip, story_cases,
};
use serde_json::Value;

use crate::parity::cut;

const BACKEND: &str = "distributed_inference.backend";
const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";

/// Whether there is a GPU to test on.
fn has_gpu(test: &str) -> bool {
    let has = !adapters().is_empty();
    if !has {
        assert!(env::text("CI").is_none(), "CI needs mesa-vulkan-drivers: {test}");
        skip(test, "no GPU driver");
    }
    has
}

async fn choose(node: &Node, backend: &str) -> anyhow::Result<()> {
    let setting = SettingAsk::new(BACKEND, backend);
    Ok(node.do_this(Request::ChangeSetting { setting }).await?)
}

/// Waits until no worker of `node` computes with anything else than `backend`.
async fn until_on(node: &Node, backend: &str) -> anyhow::Result<()> {
    let what = format!("no worker computes elsewhere than on {backend}");
    let holds = |it: &Vitals| it.workers.iter().all(|it| it.backend == backend);
    node.until_vitals(&what, holds).await?;
    Ok(())
}

/// Code and sentence of a reply that must fail.
async fn refusal(node: &Node) -> anyhow::Result<(String, String)> {
    match node.reply(&Wish::text("Once", 2)).await {
        Ok(reply) => {
            let told = reply.end().await?;
            told.aborted.clone().ok_or_else(|| anyhow::anyhow!("it was answered: {told:?}"))
        }
        Err(ClientError::Refused(problem)) => Ok((problem.code, problem.sentence)),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_setting_says_what_computes_and_what_cannot_is_told_with_a_way_out()
-> anyhow::Result<()> {
    const KEY: &str = "distributed_inference.backend";
    let house = Household::strangers([NodePlan::new(ASKING)]).await?;
    let node = house.asking();
    let before = node.answer(&Wish::text("Once", 4)).await?;
    until_on(node, "native").await?;
    for (backend, said) in [
        // This build has no code for it.
        ("candle:cuda:0", "distributed_inference.backend"),
        ("gpu:63", "compute on the CPU"),
    ] {
        choose(node, backend).await?;
        node.until_no_worker().await?;
        let (code, sentence) = refusal(node).await?;
        assert_eq!(code, "gpu_missing", "{backend}: {sentence}");
        assert!(sentence.contains(said) && !sentence.contains("damaged"), "{backend}: {sentence}");
    }
    let refused = choose(node, "toaster").await.unwrap_err().to_string();
    assert!(refused.contains("`gpu:0`") && refused.contains("`candle:metal`"), "{refused}");
    // Other code on the processor, which every program has.
    for backend in ["candle", "native"] {
        choose(node, backend).await?;
        assert_eq!(node.answer(&Wish::text("Once", 4)).await?.ids, before.ids, "{KEY}: {backend}");
        until_on(node, backend).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_gives_the_words_of_the_cpu_and_is_changed_to_while_the_node_runs()
-> anyhow::Result<()> {
    if !has_gpu("a node on a GPU") {
        return Ok(());
    }
    let house = Household::strangers([NodePlan::new(ASKING).with(BACKEND, "\"native\"")]).await?;
    let node = house.asking();
    let cases = chat_cases(&fixture("ember/ember-greedy.json"))?;
    let mut expected = Vec::new();
    for messages in &cases {
        expected.push(node.answer(&Wish::chat(messages, 48)).await?);
    }
    choose(node, "gpu:0").await?;
    node.until_no_worker().await?;
    for (messages, expected) in cases.iter().zip(&expected) {
        let told = node.answer(&Wish::chat(messages, 48)).await?;
        assert_eq!((&told.ids, &told.text), (&expected.ids, &expected.text), "{messages:?}");
    }
    let vitals = node.vitals().await?;
    assert!(vitals.workers.iter().all(|it| it.backend == "gpu:0"), "{vitals:?}");
    assert!(!vitals.workers.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cpu_and_a_gpu_answer_as_one_device_at_every_cut() -> anyhow::Result<()> {
    if !has_gpu("a household of a CPU and a GPU") {
        return Ok(());
    }
    let at = |name: &str| fixture(&format!("stories260K/{name}"));
    let cases = story_cases(&at("greedy-f32.json"), &at("upstream-expected.json"))?;
    let case = cases.first().ok_or_else(|| anyhow::anyhow!("the model has known answers"))?;
    let house = Household::paired([
        NodePlan::new(ASKING).with(BACKEND, "\"native\""),
        NodePlan::new(HELPER).with(BACKEND, "\"gpu:0\"").offering("0-4"),
    ])
    .await?;
    let name = house.import(&at("stories260K-f32.gguf"), None).await?;
    house.until_all_lend(&name).await?;
    let wish = Wish::text(&case.prompt, u32::try_from(case.ids.len())?).by(&name);
    let mut on_gpu = 0;
    for first in 0..5_u32 {
        for end in first + 1..=5 {
            cut(&house, &name, first, end).await?;
            let told = house.asking().answer(&wish).await?;
            assert_eq!(told.ids, case.ids, "the GPU computes layers {first}-{}", end - 1);
            on_gpu += u32::from(told.uses(HELPER));
        }
    }
    assert!(on_gpu > 0, "no reply was computed there");
    until_on(house.node(1), "gpu:0").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_on_a_gpu_that_dies_in_the_middle_of_a_reply_changes_nothing() -> anyhow::Result<()>
{
    const TOKENS: u32 = 48;
    if !has_gpu("a worker on a GPU that dies") {
        return Ok(());
    }
    for victim in [0, 1] {
        let mut house = Household::sharing([
            NodePlan::new(ASKING).with(BACKEND, "\"gpu:0\""),
            NodePlan::new(HELPER).with(BACKEND, "\"gpu:0\"").offering("1-4"),
        ])
        .await?;
        let wish = Wish::text("Once upon a time", TOKENS);
        let undisturbed = house.asking().answer(&wish.clone().alone()).await?;
        // Both have built their kernels by then: the first steps of a GPU are slow.
        assert_eq!(house.asking().answer(&wish).await?.ids, undisturbed.ids);
        let (reply, held) = house.asking().held_reply(&wish, 8).await?;
        assert_eq!(house.node_mut(victim).signal_workers(Signal::Kill), 1);
        drop(held);
        let told: Told = reply.whole().await?;
        assert_eq!(told.ids, undisturbed.ids, "node {victim}");
    }
    Ok(())
}

/// Drivers are looked for when a worker needs one: a computer without any starts the program.
#[cfg(target_os = "linux")]
#[test]
fn the_program_needs_no_library_to_start_but_those_of_the_system() -> anyhow::Result<()> {
    const OF_THE_SYSTEM: [&str; 5] = ["libc.so", "libm.so", "libgcc_s.so", "ld-linux", "libdl.so"];
    let test = "the_program_needs_no_library_to_start_but_those_of_the_system";
    let Ok(output) = Command::new("readelf").arg("--dynamic").arg(nook()?).output() else {
        assert!(env::text("CI").is_none(), "CI needs binutils");
        skip(test, "no readelf");
        return Ok(());
    };
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout)?;
    let needed: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0))
        .collect();
    assert!(needed.iter().any(|name| name.starts_with("libc.so")), "{said}");
    let is_usual = |name: &&str| OF_THE_SYSTEM.iter().any(|usual| name.starts_with(usual));
    let others: Vec<&&str> = needed.iter().filter(|name| !is_usual(name)).collect();
    assert!(others.is_empty(), "{others:?}");
    Ok(())
}

#[test]
fn a_household_by_one_command_computes_where_it_is_told_to() -> anyhow::Result<()> {
    if !has_gpu("nook house --backend") {
        return Ok(());
    }
    let say = |backend: &str| -> anyhow::Result<Value> {
        let words = ["house", "--prompt", "Once upon a time", "--max-tokens", "24", "--json"];
        let output = Command::new(nook()?)
            .args(words)
            .args(["--activation-dtype", "f32", "--backend", backend])
            .env("INGLENOOK_KEYRING", "off")
            .env_remove("INGLENOOK_HOME")
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{backend}: {errors}");
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let (cpu, gpu) = (say("native")?, say("gpu:0")?);
    assert_eq!(gpu["ids"], cpu["ids"]);
    assert_eq!(gpu["ids"].as_array().map(Vec::len), Some(24));
    assert!(say("gpu:63").unwrap_err().to_string().contains("there is no GPU"));
    Ok(())
}

#[test]
fn a_bench_puts_devices_side_by_side_and_says_of_each_why_it_has_no_figures() -> anyhow::Result<()>
{
    if !has_gpu("nook bench") {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let (model, report) = (folder.path().join("tiny.gguf"), folder.path().join("report.json"));
    Recipe::tiny(Format::Q8_0, 5).write(&model)?;
    let bench = |backends: &str| -> anyhow::Result<std::process::Output> {
        let mut command = Command::new(nook()?);
        command.arg("bench").arg(&model).args(["--backend", backends, "--prompt", "40"]);
        command.args(["--tokens", "4", "--streams", "2", "--save"]).arg(&report);
        Ok(command.output()?)
    };
    let output = bench("native,gpu:0,gpu:63")?;
    let said = String::from_utf8(output.stdout)?;
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("\ngpu:0 ") && said.contains("PROMPT OF 40"), "{said}");
    assert!(said.contains("there is no GPU"), "{said}");
    let kept: Value = serde_json::from_slice(&std::fs::read(&report)?)?;
    let [native, gpu, none] = &kept["devices"].as_array().expect("a list")[..] else {
        anyhow::bail!("three devices: {kept}");
    };
    for (device, name) in [(native, "native"), (gpu, "gpu:0")] {
        assert_eq!(device["backend"], name);
        for figure in ["prompt_per_second", "tokens_per_second", "streams_per_second"] {
            assert!(device[figure].as_f64().is_some_and(|it| it > 0.0), "{figure}: {device}");
        }
        assert!(device["logits"].is_null(), "they are of no use to anybody");
    }
    assert!(native["logits_off"].is_null() && native["gpu_bytes"].is_null(), "{native}");
    assert!(gpu["logits_off"].as_f64().is_some_and(|off| off < 1e-3), "{gpu}");
    assert!(gpu["logits_off_max"].as_f64().is_some_and(|off| off < 1e-2), "{gpu}");
    assert!(gpu["gpu_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{gpu}");
    let problem = none["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("gpu:63") && none["backend"].is_null(), "{none}");
    // It may be sent to others, whom it does not concern where files lie.
    assert!(!kept.to_string().contains("tiny.gguf"), "{kept}");

    // Nothing that could be measured is a failure.
    assert!(!bench("gpu:63")?.status.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_is_lost_in_the_middle_of_a_reply_changes_nothing() -> anyhow::Result<()> {
    if !has_gpu("a lost device") {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let order = folder.path().join("order");
    let variable = format!("INGLENOOK_TEST_GPU={}", order.display());
    let plan = NodePlan::new(ASKING).with(BACKEND, "\"gpu:0\"");
    // A worker may delete the order only where it may write.
    let temporary = format!("TMPDIR={}", folder.path().display());
    let plan = plan.behind(["env".to_owned(), variable, temporary].map(Into::into).to_vec());
    let house = Household::strangers([plan]).await?;
    let wish = Wish::text("Once upon a time", 32);
    let undisturbed = house.asking().answer(&wish).await?;
    let steps_of_one_reply = 32;
    std::fs::write(&order, format!("lose {}", steps_of_one_reply + 8))?;
    let told = house.asking().answer(&wish).await?;
    assert!(!order.exists(), "the device was not lost: {told:?}");
    assert_eq!(told.ids, undisturbed.ids);
    assert!(house.asking().log().contains("was lost"), "{}", house.asking().log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_on_a_gpu_is_told_with_for_whom_it_is() -> anyhow::Result<()> {
    if !has_gpu("for whom something lies on a GPU") {
        return Ok(());
    }
    let house = Household::sharing([
        NodePlan::new(ASKING).with(BACKEND, "\"native\""),
        NodePlan::new(HELPER).with(BACKEND, "\"gpu:0\"").offering("1-4"),
    ])
    .await?;
    let told = house.asking().answer(&Wish::text("Once upon a time", 24)).await?;
    assert!(told.uses(HELPER), "{told:?}");
    let helper = house.node(1);
    let is_lent = |view: &HouseholdView| {
        view.sharing.gpus.iter().any(|gpu| gpu.number == 0 && gpu.lent_bytes > 0)
    };
    helper.until("layers of another device on the GPU", is_lent).await?;
    let found = helper.client().doctor().await?;
    let held = found.iter().find_map(|finding| match &finding.condition {
        Some(Condition::Gpu { number: 0, holds: Some(held), .. }) => {
            Some((held, &finding.sentence))
        }
        _ => None,
    });
    let (held, sentence) = held.ok_or_else(|| anyhow::anyhow!("nothing there: {found:?}"))?;
    assert!(held.layers > 0 && (1..=held.bytes).contains(&held.lent_bytes), "{held:?}");
    let lent = format!(" and {} MB lent to others", held.lent_bytes >> 20);
    assert!(sentence.contains(&lent), "{sentence}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_software_adapter_is_named_by_the_doctor_and_never_chosen() -> anyhow::Result<()> {
    if !has_gpu("the doctor") {
        return Ok(());
    }
    let house = Household::strangers([NodePlan::new(ASKING).with(BACKEND, "\"auto\"")]).await?;
    let node = house.asking();
    node.answer(&Wish::text("Once", 4)).await?;
    until_on(node, "native").await?;
    let gpus = adapters();
    let found = node.client().doctor().await?;
    for gpu in &gpus {
        let name = format!("gpu:{} {}", gpu.index, gpu.name);
        let told = found.iter().find(|it| it.sentence.starts_with(&name));
        let told = told.map(|it| it.sentence.as_str()).unwrap_or_default();
        assert!(told.contains("used"), "{found:?}");
        if gpu.kind == AdapterKind::Software {
            assert!(told.contains("only if it is named"), "{told}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_is_measured_in_a_process_of_its_own_whose_end_is_no_harm() -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("nook-").tempdir()?;
    let command = WorkerCommand { program: nook()?.into(), arguments: vec!["worker".into()] };
    let limits = WorkerLimits {
        streams_max: 1,
        memory_bytes_max: 1 << 30,
        gpu_bytes_max: u64::MAX,
        idle: Duration::from_secs(60),
        backend: Backend::Auto,
        falls_back: false,
    };
    let source = WorkerSource { command, folder: folder.path().to_owned(), limits };
    let file = fixture("stories260K/stories260K-f32.gguf");
    let path = FilePlace::new(file.clone());
    let what = Measurable { model: ModelDigest([7; 32]), path, file: ModelFile::open(&file)? };
    let tasks = Tasks::new();
    let cpu = measure(&source, &what, Backend::Native, &tasks).await;
    assert!(cpu.as_ref().is_ok_and(|it| !it.usual_reply(5).is_zero()), "{cpu:?}");
    let missing = measure(&source, &what, Backend::GpuAt(63), &tasks).await;
    assert!(matches!(&missing, Err(Unmeasured::Unfit(why)) if why.contains("GPU")), "{missing:?}");
    if has_gpu("measuring") {
        let gpu = measure(&source, &what, Backend::GpuAt(0), &tasks).await;
        assert!(gpu.as_ref().is_ok_and(|it| !it.usual_reply(5).is_zero()), "{gpu:?}");
    }
    let crashing = WorkerCommand { program: "false".into(), arguments: Vec::new() };
    let source = WorkerSource { command: crashing, ..source };
    let broken = measure(&source, &what, Backend::GpuAt(0), &tasks).await;
    assert!(matches!(broken, Err(Unmeasured::Broke(_))), "{broken:?}");
    Ok(())
}
