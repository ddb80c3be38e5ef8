//! A household says exactly what one device says: over two helpers, over f16 and f32 activations,
//! and at every cut of a model with known answers.

use std::path::Path;
use std::process::Command;

use nook_base::ActivationDtype;
use nook_testkit::{Case, Household, NodePlan, Wish, chat_cases, fixture, nook, story_cases};
use serde_json::Value;

/// Tokens of a reply of the built-in model; its references have as many.
const TOKENS: u32 = 96;

fn house_of_three() -> [NodePlan; 3] {
    [
        NodePlan::new("Kitchen laptop"),
        NodePlan::new("Study PC").offering("1-2"),
        NodePlan::new("Attic PC").offering("3-4"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn two_helpers_answer_like_one_device() -> anyhow::Result<()> {
    let house = Household::sharing(house_of_three()).await?;
    let mut by_all = 0;
    for messages in chat_cases(&fixture("ember/ember-greedy.json"))? {
        let wish = Wish::chat(&messages, TOKENS);
        let alone = house.asking().answer(&wish.clone().alone()).await?;
        let together = house.asking().answer(&wish).await?;
        assert_eq!(alone.devices(), ["Kitchen laptop"], "{messages:?}");
        assert_eq!(together.prompt_ids, alone.prompt_ids, "{messages:?}");
        assert_eq!(together.ids, alone.ids, "{messages:?}");
        assert_eq!(together.finish, alone.finish, "{messages:?}");
        assert!(!alone.ids.is_empty(), "{messages:?}");
        // On a busy machine a helper that is late may be replaced, which must not show in the
        // tokens.
        let all = ["Kitchen laptop", "Study PC", "Attic PC", "Kitchen laptop"];
        by_all += u32::from(together.devices() == all && together.failovers.is_empty());

        let half = house.asking().answer(&wish.over(ActivationDtype::F16)).await?;
        assert_eq!(half.text, alone.text, "with f16 activations: {messages:?}");
    }
    assert!(by_all > 0, "no reply was computed by both helpers from its first token to its last");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_with_known_answers_is_reproduced_at_every_cut() -> anyhow::Result<()> {
    let at = |name: &str| fixture(&format!("stories260K/{name}"));
    let model = at("stories260K-f32.gguf");
    let cases = story_cases(&at("greedy-f32.json"), &at("upstream-expected.json"))?;
    let house = Household::paired([
        NodePlan::new("Kitchen laptop"),
        NodePlan::new("Study PC").offering("0-4"),
    ])
    .await?;
    let name = house.import(&model, None).await?;
    house.until_all_lend(&name).await?;
    for case in &cases {
        check_case(house.asking().home(), &model, case, &["--alone"], "undivided")?;
    }
    for first in 0..5_u32 {
        for end in first + 1..=5 {
            cut(&house, &name, first, end).await?;
            for case in &cases {
                let cut = format!("the helper computes layers {first}-{}", end - 1);
                check_case(house.asking().home(), &model, case, &[], &cut)?;
            }
        }
    }
    Ok(())
}

/// Has the layers `[first, end)` computed by the helper from now on.
pub(crate) async fn cut(
    house: &Household,
    model: &str,
    first: u32,
    end: u32,
) -> anyhow::Result<()> {
    let asking = house.asking();
    asking.edit_settings("distributed_inference.local_prefix_layers", i64::from(first))?;
    asking.edit_settings("distributed_inference.local_suffix_layers", i64::from(5 - end))?;
    // The node reads its settings every now and then; the route shows when it has.
    let wanted = Some([first, end - 1]);
    for _ in 0..200 {
        let told = asking.answer(&Wish::text("Once", 1).by(model)).await?;
        let of_helper = told.route.iter().find(|leg| leg.device == "Study PC");
        if of_helper.is_some_and(|leg| leg.layers == wanted) {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    anyhow::bail!("the new cut {first}..{end} was not taken up")
}

fn check_case(
    home: &Path,
    model: &Path,
    case: &Case,
    more: &[&str],
    how: &str,
) -> anyhow::Result<()> {
    let tokens = case.ids.len().to_string();
    let home = home.to_string_lossy();
    let model = model.to_string_lossy();
    let mut words = vec!["--home", &home, "generate", "--model", &model, "--json"];
    words.extend(["--prompt", &case.prompt, "--max-tokens", &tokens, "--activation-dtype", "f32"]);
    words.extend(more);
    let said = json_of(&words)?;
    assert_eq!(said["prompt_ids"], Value::from(case.prompt_ids.clone()), "{how}: {case:?}");
    assert_eq!(said["ids"], Value::from(case.ids.clone()), "{how}: {case:?}");
    Ok(())
}

#[test]
fn the_json_of_a_household_has_exactly_the_documented_fields() -> anyhow::Result<()> {
    let words = ["house", "--prompt", "Once upon a time", "--max-tokens", "40", "--json"];
    let said =
        json_of(&[&words[..], &["--activation-dtype", "f32", "--kill-after", "10"]].concat())?;
    assert_eq!(
        fields(&said),
        [
            "failovers",
            "finish_reason",
            "first_token_ms",
            "ids",
            "model",
            "predicted",
            "prompt_ids",
            "route",
            "shared",
            "text",
            "timeline",
            "tokens_per_second",
            "total_ms"
        ]
    );
    assert_eq!(fields(&said["route"][0]), ["device", "embedding", "head", "layers"]);
    assert_eq!(fields(&said["failovers"][0]), ["from", "pause_ms", "to"]);
    assert_eq!(said["model"], "ember");
    assert_eq!(said["finish_reason"], "length");
    assert_eq!(said["ids"].as_array().map(Vec::len), Some(40));
    let route = said["route"].as_array().cloned().unwrap_or_default();
    let ends = (&route[0], &route[route.len() - 1]);
    assert_eq!((&ends.0["embedding"], &ends.1["head"]), (&Value::from(true), &Value::from(true)));
    let layers: Vec<u64> = route
        .iter()
        .filter_map(|leg| Some((leg["layers"][0].as_u64()?, leg["layers"][1].as_u64()?)))
        .flat_map(|(first, last)| first..=last)
        .collect();
    assert_eq!(layers, (0..6).collect::<Vec<_>>(), "every layer once, in order");
    Ok(())
}

/// Runs `nook` with these words and reads the one JSON object that it prints.
fn json_of(words: &[&str]) -> anyhow::Result<Value> {
    let output = Command::new(nook()?)
        .args(words)
        .env("INGLENOOK_KEYRING", "off")
        .env_remove("INGLENOOK_HOME")
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "nook {words:?}: {errors}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn fields(value: &Value) -> Vec<String> {
    let mut names: Vec<_> = value.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    names.sort();
    names.into_iter().cloned().collect()
}
