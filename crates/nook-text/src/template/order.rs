//! Orders of messages for templates that refuse the one that a program sent.
//!
//! Programs put system messages between turns, say two things in one role, or speak right behind a
//! tool's result. Many templates refuse that with `raise_exception`, others leave out all but one
//! system message. [`rearranged`] gives the same words in orders that ask less and less of a
//! template; [`super::renderer`] tries one after the other until the template takes one. Each keeps
//! what the one before it changed, and an order that changes nothing is left out, so there are at
//! most [`STEPS`] of them.

use serde_json::Value;

/// Most orders that are tried besides the one that was sent.
pub(super) const STEPS: usize = 5;

/// What stands between two messages that become one.
const GAP: &str = "\n\n";

/// One order of the messages.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Order {
    /// The messages.
    pub(super) messages: Vec<Value>,
    /// Whether the system message has become part of the user's.
    pub(super) folded_system: bool,
}

/// The orders to try for `messages`, which a template has not taken as they are.
pub(super) fn rearranged(messages: &[Value]) -> Vec<Order> {
    let steps: [fn(Vec<Value>) -> Vec<Value>; STEPS] =
        [join_leading_system, move_later_system, join_neighbours, append_to_results, fold_system];
    let mut orders = Vec::new();
    let mut last = messages.to_vec();
    for (at, step) in steps.into_iter().enumerate() {
        let next = step(last.clone());
        if next != last {
            let folded_system = at + 1 == STEPS;
            orders.push(Order { messages: next.clone(), folded_system });
            last = next;
        }
    }
    orders
}

/// All system messages before the first turn, as one.
fn join_leading_system(messages: Vec<Value>) -> Vec<Value> {
    let leading = leading_system(&messages);
    let mut out: Vec<Value> = Vec::with_capacity(messages.len());
    for (at, message) in messages.into_iter().enumerate() {
        let is_joined = at < leading && out.last_mut().is_some_and(|before| join(before, &message));
        if !is_joined {
            out.push(message);
        }
    }
    out
}

/// System messages between turns, as words of the user: of the turn before them, else of the one
/// behind them, else as a turn of their own.
fn move_later_system(messages: Vec<Value>) -> Vec<Value> {
    let leading = leading_system(&messages);
    let mut out: Vec<Value> = Vec::with_capacity(messages.len());
    // Whether the last message of `out` is a moved one that may go before the user's next words.
    let mut is_open = false;
    for (at, message) in messages.into_iter().enumerate() {
        let moved = at >= leading && is(&message, "system");
        let message = if moved { in_role(message, "user") } else { message };
        let may = is(&message, "user") && (moved || is_open);
        let joins = |before: &mut Value| may && is(before, "user") && join(before, &message);
        if out.last_mut().is_some_and(joins) {
            is_open &= moved;
        } else {
            is_open = moved;
            out.push(message);
        }
    }
    out
}

/// Neighbours in one role as one message. A message with calls stays the last of its role, because
/// their results come behind it.
fn join_neighbours(messages: Vec<Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::with_capacity(messages.len());
    for message in messages {
        let may = is(&message, "user") || is(&message, "assistant");
        let joins =
            |before: &mut Value| may && before["role"] == message["role"] && join(before, &message);
        if !out.last_mut().is_some_and(joins) {
            out.push(message);
        }
    }
    out
}

/// What the user says right behind a tool's result, as the end of that result.
fn append_to_results(messages: Vec<Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::with_capacity(messages.len());
    for message in messages {
        let may = is(&message, "user");
        let joins = |before: &mut Value| may && is(before, "tool") && join(before, &message);
        if !out.last_mut().is_some_and(joins) {
            out.push(message);
        }
    }
    out
}

/// The leading system messages before the first words of the user, if there are both.
fn fold_system(messages: Vec<Value>) -> Vec<Value> {
    let (system, rest) = messages.split_at(leading_system(&messages));
    let Some(user) = rest.iter().position(|message| is(message, "user")) else {
        return messages;
    };
    let texts = system.iter().chain([&rest[user]]).map(|message| message["content"].as_str());
    let Some(texts) = texts.collect::<Option<Vec<&str>>>() else {
        return messages;
    };
    let mut folded = rest.to_vec();
    folded[user]["content"] = texts.join(GAP).into();
    folded
}

fn is(message: &Value, role: &str) -> bool {
    message["role"] == role
}

fn leading_system(messages: &[Value]) -> usize {
    messages.iter().take_while(|message| is(message, "system")).count()
}

fn in_role(mut message: Value, role: &str) -> Value {
    message["role"] = role.into();
    message
}

/// Puts `message` behind `before`, whose role it gets; its calls go along. Whether that could be:
/// not where either is not a text, nor behind calls.
fn join(before: &mut Value, message: &Value) -> bool {
    let (Some(first), Some(second)) = (before["content"].as_str(), message["content"].as_str())
    else {
        return false;
    };
    if before.get("tool_calls").is_some() {
        return false;
    }
    let gap = if first.is_empty() || second.is_empty() { "" } else { GAP };
    let joined = [first, gap, second].concat();
    before["content"] = joined.into();
    if let Some(calls) = message.get("tool_calls") {
        before["tool_calls"] = calls.clone();
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Messages by the first letter of their role; `C` is an assistant's with calls.
    fn messages(roles: &str) -> Vec<Value> {
        let one = |(at, letter): (usize, char)| {
            let mut message = json!({"role": "assistant", "content": at.to_string()});
            match letter {
                's' => message["role"] = "system".into(),
                'u' => message["role"] = "user".into(),
                't' => message["role"] = "tool".into(),
                'C' => message["tool_calls"] = json!([{"id": at}]),
                _ => {}
            }
            message
        };
        roles.chars().enumerate().map(one).collect()
    }

    fn shown(messages: &[Value]) -> String {
        let one = |message: &Value| {
            let calls = if message.get("tool_calls").is_some() { "!" } else { "" };
            let text = message["content"].as_str().unwrap().replace(GAP, "+");
            format!("{}{calls}{text}", &message["role"].as_str().unwrap()[..1])
        };
        messages.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn leading_system_messages_become_one() {
        let joined = |roles| shown(&join_leading_system(messages(roles)));
        assert_eq!(joined("sssua"), "s0+1+2 u3 a4");
        assert_eq!(joined("sus"), "s0 u1 s2");
        assert_eq!(joined("u"), "u0");
    }

    #[test]
    fn a_later_system_message_goes_to_the_users_turn_beside_it() {
        let moved = |roles| shown(&move_later_system(messages(roles)));
        assert_eq!(moved("sus"), "s0 u1+2");
        assert_eq!(moved("susuas"), "s0 u1+2 u3 a4 u5", "only what was moved is joined");
        assert_eq!(moved("sussu"), "s0 u1+2+3 u4");
        assert_eq!(moved("suasu"), "s0 u1 a2 u3+4");
        assert_eq!(moved("suasuu"), "s0 u1 a2 u3+4 u5");
        assert_eq!(moved("suasa"), "s0 u1 a2 u3 a4");
        assert_eq!(moved("uCtsCtsu"), "u0 a!1 t2 u3 a!4 t5 u6+7");
    }

    #[test]
    fn neighbours_in_one_role_become_one() {
        let joined = |roles| shown(&join_neighbours(messages(roles)));
        assert_eq!(joined("suuaau"), "s0 u1+2 a3+4 u5");
        assert_eq!(joined("uaCttu"), "u0 a!1+2 t3 t4 u5", "calls go along, results stay apart");
        assert_eq!(joined("uCCa"), "u0 a!1 a!2 a3", "nothing goes between calls and results");
        assert_eq!(joined("ssu"), "s0 s1 u2");
    }

    #[test]
    fn words_behind_a_result_become_its_end() {
        let appended = |roles| shown(&append_to_results(messages(roles)));
        assert_eq!(appended("uCttuau"), "u0 a!1 t2 t3+4 a5 u6");
        assert_eq!(appended("uCta"), "u0 a!1 t2 a3");
    }

    #[test]
    fn a_system_message_is_folded_into_the_users_words() {
        let folded = |roles| shown(&fold_system(messages(roles)));
        assert_eq!(folded("ssaua"), "a2 u0+1+3 a4");
        assert_eq!(folded("sa"), "s0 a1");
        assert_eq!(folded("ua"), "u0 a1");
    }

    #[test]
    fn orders_build_on_each_other_and_those_that_change_nothing_are_left_out() {
        let orders = |roles| {
            let orders = rearranged(&messages(roles));
            assert!(orders.len() <= STEPS);
            assert!(orders.iter().rev().skip(1).all(|order| !order.folded_system));
            orders.iter().map(|order| shown(&order.messages)).collect::<Vec<_>>()
        };
        assert_eq!(orders("ua"), [""; 0]);
        assert_eq!(orders("su"), ["u0+1"]);
        assert_eq!(
            orders("ssusuCtu"),
            [
                "s0+1 u2 s3 u4 a!5 t6 u7",
                "s0+1 u2+3 u4 a!5 t6 u7",
                "s0+1 u2+3+4 a!5 t6 u7",
                "s0+1 u2+3+4 a!5 t6+7",
                "u0+1+2+3+4 a!5 t6+7",
            ]
        );
    }

    #[test]
    fn parts_that_are_no_text_are_left_as_they_are() {
        let parts = json!({"role": "user", "content": [{"type": "text", "text": "a"}]});
        let text = json!({"role": "user", "content": "b"});
        assert!(rearranged(&[parts, text]).is_empty());
    }
}
