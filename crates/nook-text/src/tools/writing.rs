//! A conversation with tools, as values for a template.

use serde_json::{Value, json};

use super::{PastCall, Tool, ToolForm, ToolStyle, Turn};

/// Ids of calls that Mistral's templates accept have so many letters and digits.
const MISTRAL_ID_LENGTH: usize = 9;

/// Messages and tools for a template of `style`; no tools where there are none or where the
/// messages speak of them.
pub(crate) fn written(
    turns: &[Turn],
    tools: &[Tool],
    style: ToolStyle,
) -> (Vec<Value>, Option<Value>) {
    if !style.native {
        return (plain(turns, tools), None);
    }
    let listed = (!tools.is_empty()).then(|| tools.iter().map(Tool::as_openai).collect());
    let in_order = match style.form {
        ToolForm::Llama | ToolForm::Harmony => one_call_each(turns),
        _ => turns.to_vec(),
    };
    (in_order.iter().map(|turn| native(turn, style.form)).collect(), listed)
}

/// A message in OpenAI's form, with arguments as the values that templates expect.
fn native(turn: &Turn, form: ToolForm) -> Value {
    let mut message = json!({"role": turn.role.as_str(), "content": turn.text.0});
    if !turn.calls.is_empty() {
        let calls: Vec<Value> = turn.calls.iter().map(|call| native_call(call, form)).collect();
        message["tool_calls"] = calls.into();
    }
    if let Some(id) = &turn.answers {
        message["tool_call_id"] = id_for(id, form).into();
    }
    message
}

fn native_call(call: &PastCall, form: ToolForm) -> Value {
    json!({
        "id": id_for(&call.id, form),
        "type": "function",
        "function": {"name": call.name, "arguments": value_of(call)},
    })
}

/// The arguments as a value; as text where they are no JSON.
fn value_of(call: &PastCall) -> Value {
    serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.0.clone().into())
}

/// An id that the template accepts: the same one always becomes the same.
fn id_for(id: &str, form: ToolForm) -> String {
    let fits = id.len() == MISTRAL_ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if fits || !matches!(form, ToolForm::Mistral | ToolForm::MistralNamed) {
        return id.to_owned();
    }
    // FNV-1a, for letters: two ids of one conversation must not become one.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let letters = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut left = hash;
    let mut letter = || {
        let at = usize::try_from(left % 36).unwrap_or(0);
        left /= 36;
        char::from(letters[at])
    };
    (0..MISTRAL_ID_LENGTH).map(|_| letter()).collect()
}

/// Templates of Llama refuse two calls in one message, that of gpt-oss reads the first one only: each gets its own, with its result behind it.
fn one_call_each(turns: &[Turn]) -> Vec<Turn> {
    let mut out = Vec::new();
    let mut rest = turns;
    while let Some((turn, after)) = rest.split_first() {
        rest = after;
        if turn.calls.len() < 2 {
            out.push(turn.clone());
            continue;
        }
        let count = rest.iter().take_while(|turn| turn.answers.is_some()).count();
        let (answers, after) = rest.split_at(count);
        rest = after;
        for (at, call) in turn.calls.iter().enumerate() {
            let text = if at == 0 { turn.text.clone() } else { String::new().into() };
            out.push(Turn { text, calls: vec![call.clone()], ..turn.clone() });
            let is_its = |answer: &&Turn| answer.answers.as_ref() == Some(&call.id);
            out.extend(answers.iter().filter(is_its).cloned());
        }
        let is_known = |id: &String| turn.calls.iter().any(|call| call.id == *id);
        let stray = |answer: &&Turn| !answer.answers.as_ref().is_some_and(is_known);
        out.extend(answers.iter().filter(stray).cloned());
    }
    out
}

/// The default, for templates that know no tools: everything is plain messages.
fn plain(turns: &[Turn], tools: &[Tool]) -> Vec<Value> {
    let mut messages: Vec<(String, String)> = Vec::new();
    let mut after_result = false;
    for turn in turns {
        let mut text = turn.text.0.clone();
        for call in &turn.calls {
            let call = json!({"name": call.name, "arguments": value_of(call)});
            let gap = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}<tool_call>\n{call}\n</tool_call>"));
        }
        let is_result = turn.role.as_str() == "tool";
        let role = if is_result { "user" } else { turn.role.as_str() };
        if is_result {
            text = format!("<tool_response>\n{text}\n</tool_response>");
        }
        match messages.last_mut() {
            // Templates want turns to alternate: results stand in one message with what the user
            // says next.
            Some((_, before)) if after_result && role == "user" => {
                before.push('\n');
                before.push_str(&text);
            }
            _ => messages.push((role.to_owned(), text)),
        }
        after_result = is_result;
    }
    if !tools.is_empty() {
        let told = told(tools);
        match messages.first_mut() {
            Some((role, text)) if role == "system" => *text = format!("{text}\n\n{told}"),
            _ => messages.insert(0, ("system".to_owned(), told)),
        }
    }
    messages.into_iter().map(|(role, text)| json!({"role": role, "content": text})).collect()
}

/// What a model is told of its tools.
fn told(tools: &[Tool]) -> String {
    let list: Vec<String> = tools.iter().map(|tool| tool.as_openai().to_string()).collect();
    format!(
        "You can call these tools. Each is described by a JSON schema:\n{}\n\n\
         To call a tool, write this and nothing else, one block for each call:\n\
         <tool_call>\n{{\"name\": \"the tool's name\", \"arguments\": {{}}}}\n</tool_call>\n\
         The result comes back in a <tool_response> block.",
        list.join("\n")
    )
}
