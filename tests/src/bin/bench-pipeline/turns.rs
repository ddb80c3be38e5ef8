//! How long the second turn of a conversation takes to its first token, against a prompt that
//! nobody remembers anything of.
//!
//! A household of three on this machine, each node with its own worker. Every round asks about
//! another text, so that the first turn is cold; the second continues it by a few words.

use nook_testkit::{Household, NodePlan, Told, Wish};
use nook_tests::figures::Spread;
use nook_tests::program::Effort;
use nook_tests::report;

use crate::rows::Row;

/// Tokens of the first prompt, about.
const HISTORY: usize = 1_000;

/// How many times as long a cold prompt should take; see the design.
const COLD_AGAINST_WARM: f64 = 10.0;

/// Of the built-in model about a dozen tokens.
const SENTENCE: &str = "The snail climbed the lighthouse and saw the sea. ";

/// Measures both turns.
pub(crate) async fn measure(effort: Effort) -> anyhow::Result<Vec<Row>> {
    let rounds = match effort {
        Effort::Quick => 1,
        Effort::Full => 7,
    };
    let house = Household::sharing([
        NodePlan::new("Kitchen laptop"),
        NodePlan::new("Study PC").offering("1-2"),
        NodePlan::new("Attic PC").offering("3-4"),
    ])
    .await?;
    // Layers are loaded before anything counts; its length tells that of a sentence.
    let warm_up = ask(&house, &SENTENCE.repeat(20), 2).await?;
    let sentences = HISTORY * 20 / warm_up.prompt_ids.len().max(1);
    let (mut cold, mut warm, mut resumed) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let text = format!("Story {round}. {}", SENTENCE.repeat(sentences));
        let first = ask(&house, &text, 8).await?;
        anyhow::ensure!(first.resumed < 64, "the first turn was not cold");
        let second = ask(&house, &format!("{text}{} And then", first.text), 2).await?;
        report::loud(&format!(
            "round {round}: {} tokens cold in {:.1} ms, {} of {} resumed in {:.1} ms",
            first.computed,
            first.first_token_ms,
            second.resumed,
            second.prompt_ids.len(),
            second.first_token_ms
        ));
        cold.push(first.first_token_ms);
        warm.push(second.first_token_ms);
        resumed.push(f64::from(second.resumed));
    }
    // Rounds are compared with themselves, so that a machine that slows down does not show.
    let ratios = cold.iter().zip(&warm).map(|(cold, warm)| cold / warm.max(1e-3));
    let ratio = Spread::of(ratios).median;
    let median = |figures: &[f64]| Spread::of(figures.iter().copied()).median;
    let name = "first token of a cold prompt of 1,000 tokens against the second turn after it";
    Ok(vec![
        Row::plain("Ember, first token of a cold prompt of 1,000 tokens", median(&cold), "ms"),
        Row::plain("Ember, first token of the second turn after it", median(&warm), "ms"),
        Row::plain("Ember, positions that the second turn resumed", median(&resumed), "tokens"),
        Row::at_least(name, ratio, "x", COLD_AGAINST_WARM),
    ])
}

async fn ask(house: &Household, text: &str, tokens: u32) -> anyhow::Result<Told> {
    house.asking().answer(&Wish::text(text, tokens)).await
}
