//! The second turn of a conversation computes only what is new, and says what it would have said.

use nook_api::views::{ChatRole, FinishReason, SharingState};
use nook_testkit::{Household, NodePlan, Signal, Told, Wish};

const ASKING: &str = "Kitchen laptop";
const FIRST: &str = "Study PC";
const SECOND: &str = "Attic PC";

/// Tokens of each reply.
const TOKENS: u32 = 40;

async fn house() -> anyhow::Result<Household> {
    let plans = [
        NodePlan::new(ASKING),
        NodePlan::new(FIRST).offering("1-2"),
        NodePlan::new(SECOND).offering("3-4"),
    ];
    Household::apart(plans).await?.all_share().await
}

fn user(text: &str) -> (ChatRole, String) {
    (ChatRole::User, text.to_owned())
}

/// A first turn, and the messages of the second; both are longer than one piece of prefill.
async fn first_turn(house: &Household) -> anyhow::Result<(Told, Vec<(ChatRole, String)>)> {
    let long = "Tell me a story about a lighthouse and a snail that climbs it. ".repeat(10);
    first_turn_of(house, &long).await
}

async fn first_turn_of(
    house: &Household,
    question: &str,
) -> anyhow::Result<(Told, Vec<(ChatRole, String)>)> {
    let mut messages = vec![user(question)];
    let told = house.asking().answer(&Wish::chat(&messages, TOKENS)).await?;
    assert!(told.uses(FIRST) && told.uses(SECOND), "{told:?}");
    assert_eq!((told.resumed, told.computed), (0, positions(&told)));
    messages.push((ChatRole::Assistant, told.text.clone()));
    messages.push(user("And then?"));
    Ok((told, messages))
}

/// Positions of prompt and reply that are computed at least; an end token is not told, so that the
/// one before it is fed too.
fn positions(told: &Told) -> u32 {
    let ended = told.finish == Some(FinishReason::Stop);
    (told.prompt_ids.len() + told.ids.len() - usize::from(!ended)) as u32
}

/// What a house says that has never heard of the conversation.
async fn undisturbed(house: &Household, wish: &Wish) -> anyhow::Result<Told> {
    let told = house.asking().answer(&wish.clone().alone()).await?;
    assert_eq!(told.devices(), [ASKING]);
    assert_eq!(told.resumed, 0, "another route has nothing of it");
    Ok(told)
}

fn assert_same(told: &Told, undisturbed: &Told) {
    assert_eq!(told.prompt_ids, undisturbed.prompt_ids);
    assert_eq!(told.ids, undisturbed.ids, "{told:?}");
    assert_eq!((&told.text, told.finish), (&undisturbed.text, undisturbed.finish));
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_two_computes_only_the_new_tokens_and_says_the_same() -> anyhow::Result<()> {
    let house = house().await?;
    let (first, messages) = first_turn(&house).await?;
    let wish = Wish::chat(&messages, TOKENS);
    let second = house.asking().answer(&wish).await?;
    assert!(second.resumed as usize >= first.prompt_ids.len(), "{second:?} after {first:?}");
    assert_eq!(second.computed, positions(&second) - second.resumed, "{second:?}");
    assert!(second.computed < 2 * TOKENS, "{second:?}");
    assert!(second.uses(FIRST) && second.uses(SECOND) && second.failovers.is_empty());
    assert_same(&second, &undisturbed(&house, &wish).await?);
    // Asking again computes the last piece of the prompt at most, over the house and alone.
    for again in [wish.clone(), wish.alone()] {
        let again = house.asking().answer(&again).await?;
        assert!(again.resumed >= 128, "{again:?}");
        assert_same(&again, &second);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_encoded_as_it_was_said_is_not_computed_again_either() -> anyhow::Result<()>
{
    let house = house().await?;
    let question = "Tell me a story about a lighthouse.";
    let (first, messages) = first_turn_of(&house, question).await?;
    let wish = Wish::chat(&messages, TOKENS);
    let second = house.asking().answer(&wish).await?;
    let fed = first.prompt_ids.len() + first.ids.len() - 1;
    assert!(second.resumed as usize >= fed, "{second:?} after {first:?}");
    assert_same(&second, &undisturbed(&house, &wish).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_question_goes_on_before_the_edit() -> anyhow::Result<()> {
    let house = house().await?;
    let (_, mut messages) = first_turn(&house).await?;
    let second = house.asking().answer(&Wish::chat(&messages, TOKENS)).await?;
    messages[2] = user("Who lives there?");
    let wish = Wish::chat(&messages, TOKENS);
    let edited = house.asking().answer(&wish).await?;
    assert!(edited.resumed >= second.resumed, "{edited:?} after {second:?}");
    assert_same(&edited, &undisturbed(&house, &wish).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_has_forgotten_costs_one_beginning_from_0() -> anyhow::Result<()> {
    let mut house = house().await?;
    let (_, messages) = first_turn(&house).await?;
    assert_eq!(house.node_mut(1).signal_workers(Signal::Kill), 1);
    house.node(1).until_no_worker().await?;
    house.until_all_lend("ember").await?;
    let wish = Wish::chat(&messages, TOKENS);
    let second = house.asking().answer(&wish).await?;
    assert_eq!((second.resumed, second.computed), (0, positions(&second)), "{second:?}");
    assert!(second.uses(FIRST) && second.failovers.is_empty(), "nobody is to blame: {second:?}");
    assert_same(&second, &undisturbed(&house, &wish).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_killed_in_turn_two_changes_nothing() -> anyhow::Result<()> {
    let mut house = house().await?;
    let (_, messages) = first_turn(&house).await?;
    let wish = Wish::chat(&messages, TOKENS);
    let (reply, held) = house.asking().held_reply(&wish, 5).await?;
    assert!(reply.told().uses(SECOND), "{:?}", reply.told());
    house.node_mut(2).signal(Signal::Kill);
    drop(held);
    let second = reply.whole().await?;
    assert!(second.resumed > 0 && !second.uses(SECOND), "{second:?}");
    assert_eq!(second.failovers.len(), 1, "{second:?}");
    assert_same(&second, &undisturbed(&house, &wish).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stopped_between_two_tokens_is_gone_on_with() -> anyhow::Result<()> {
    let house = house().await?;
    let mut reply = house.asking().reply(&Wish::text("Once upon a time", 200)).await?;
    let stopped = reply.until(30).await?.clone();
    drop(reply);
    house
        .asking()
        .until("the reply is over", |view| view.sharing.state == SharingState::Idle)
        .await?;
    let wish = Wish::text(&format!("Once upon a time{}", stopped.text), 20);
    let more = house.asking().answer(&wish).await?;
    assert!(more.resumed as usize > stopped.prompt_ids.len() + 10, "{more:?}");
    assert!(more.uses(FIRST) && more.uses(SECOND), "{more:?}");
    assert_same(&more, &undisturbed(&house, &wish).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn chats_that_share_a_system_prompt_share_its_beginning_and_keep_their_own_ends()
-> anyhow::Result<()> {
    let house = house().await?;
    let system = "You tell short stories about the sea, and every story has a lighthouse in it. ";
    let system = (ChatRole::System, system.repeat(10));
    let chat = |question: &str| vec![system.clone(), user(question)];
    let mut first = chat("Tell me about a snail. It is a slow one, and it lives in a red house.");
    let told = house.asking().answer(&Wish::chat(&first, 90)).await?;
    assert_eq!(told.resumed, 0);
    let own_end = told.prompt_ids.len();
    // Two other chats begin with the same instructions.
    for question in ["What is a herring?", "Who lives in the lighthouse?"] {
        let wish = Wish::chat(&chat(question), TOKENS);
        let other = house.asking().answer(&wish).await?;
        assert!(other.resumed >= 128 && other.uses(FIRST) && other.uses(SECOND), "{other:?}");
        assert_same(&other, &house.asking().answer(&wish.alone()).await?);
    }
    // The first one goes on at its own end.
    first.push((ChatRole::Assistant, told.text));
    first.push(user("And then?"));
    let wish = Wish::chat(&first, TOKENS);
    let second = house.asking().answer(&wish).await?;
    assert!(second.resumed as usize >= own_end, "{second:?}");
    assert_same(&second, &house.asking().answer(&wish.alone()).await?);
    Ok(())
}
