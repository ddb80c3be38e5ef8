//! Whether a model is to think first, as clients write it.

use nook_api::Thinking;
use serde_json::{Map, Value};

use crate::error::ApiError;

/// Where the variables stand in a request.
const FIELD: &str = "chat_template_kwargs";

/// What an effort and the variables for a template ask for together. The variables are the more
/// exact wish; those of which nothing is known here are refused, as they would change the reply.
pub(crate) fn chosen(
    effort: Option<String>,
    variables: Option<Map<String, Value>>,
) -> Result<Thinking, ApiError> {
    let (mut effort, mut thinks) = (effort, None);
    for (name, value) in variables.unwrap_or_default() {
        match (name.as_str(), value) {
            (_, Value::Null) => {}
            ("enable_thinking" | "thinking", Value::Bool(whether)) => thinks = Some(whether),
            ("reasoning_effort", Value::String(given)) => effort = Some(given),
            ("enable_thinking" | "thinking", _) => {
                let message = format!("{FIELD}.{name} is true or false.");
                return Err(ApiError::bad(FIELD, message));
            }
            _ => {
                let message = format!(
                    "{FIELD}.{name} is not supported: enable_thinking and thinking, true or false, \
                     and reasoning_effort, a word, are."
                );
                return Err(ApiError::bad(FIELD, message));
            }
        }
    }
    Ok(match (thinks, Thinking::of_effort(effort)) {
        (None, thinking) => thinking,
        (Some(false), _) => Thinking::Off,
        (Some(true), Thinking::Effort(effort)) => Thinking::Effort(effort),
        (Some(true), _) => Thinking::On,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(effort: Option<&str>, variables: Value) -> Result<Thinking, ApiError> {
        let variables = variables.as_object().cloned();
        chosen(effort.map(str::to_owned), variables)
    }

    #[test]
    fn variables_for_the_template_go_before_the_effort() {
        let high = || Thinking::Effort("high".to_owned());
        for (effort, variables, expected) in [
            (None, Value::Null, Thinking::AsUsual),
            (Some("none"), Value::Null, Thinking::Off),
            (Some("high"), json!({}), high()),
            (Some("high"), json!({"thinking": true}), high()),
            (Some("high"), json!({"enable_thinking": false}), Thinking::Off),
            (Some("none"), json!({"enable_thinking": true}), Thinking::On),
            (None, json!({"enable_thinking": true}), Thinking::On),
            (Some("low"), json!({"reasoning_effort": "high", "thinking": null}), high()),
        ] {
            assert_eq!(of(effort, variables.clone()).unwrap(), expected, "{effort:?} {variables}");
        }
    }

    #[test]
    fn variables_that_nothing_is_known_of_are_refused_by_name() {
        for variables in [
            json!({"enable_thinking": "yes"}),
            json!({"messages": []}),
            json!({"builtin_tools": 1}),
        ] {
            let name = variables.as_object().unwrap().keys().next().unwrap().clone();
            let error = format!("{:?}", of(None, variables).unwrap_err());
            assert!(error.contains(&format!("{FIELD}.{name}")), "{error}");
        }
    }
}
