//! The tools of a request for a response.
//!
//! Only functions can be called here. Those in a namespace are offered like the others, and their
//! calls name it again. Tools that OpenAI's own servers carry out, such as `web_search`, are left
//! out: clients list them by default, and a model that does not know of them goes without. The
//! answer's `tools` say what was offered.

use std::collections::HashMap;

use nook_text::Tool;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::ApiError;
use crate::tools::{SentTool, tools};

/// A tool, or a namespace of them.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a tool with its type")]
pub(super) enum SentOffer {
    Namespace(SentNamespace),
    Tool(Box<SentTool>),
}

/// Tools that belong together.
#[derive(Clone, Deserialize, JsonSchema)]
pub(super) struct SentNamespace {
    /// `namespace`.
    #[serde(rename = "type")]
    kind: Word,
    name: String,
    tools: Vec<SentTool>,
}

/// The only word that stands for a namespace.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Word {
    Namespace,
}

/// Which namespace a tool that is offered under a name is of, and what it is called there.
#[derive(Debug, Clone, Default)]
pub(super) struct Namespaces(HashMap<String, (String, String)>);

impl Namespaces {
    /// A call as the client knows it: its namespace, and its name there.
    pub(super) fn of(&self, offered: String) -> (Option<String>, String) {
        match self.0.get(&offered) {
            Some((space, name)) => (Some(space.clone()), name.clone()),
            None => (None, offered),
        }
    }

    /// The name under which the model knows a tool.
    pub(super) fn offered(&self, namespace: Option<&str>, name: String) -> String {
        let is_it =
            |known: &(String, String)| Some(known.0.as_str()) == namespace && known.1 == name;
        let found = self.0.iter().find(|(_, known)| is_it(known));
        found.map_or(name, |(offered, _)| offered.clone())
    }
}

/// The functions that can be offered, and where they are from.
pub(super) fn offered(sent: Option<Vec<SentOffer>>) -> Result<(Vec<Tool>, Namespaces), ApiError> {
    let sent = sent.unwrap_or_default();
    let plain = sent.iter().filter_map(|offer| match offer {
        SentOffer::Tool(tool) => tool.name(),
        SentOffer::Namespace(_) => None,
    });
    let mut taken: Vec<String> = plain.map(str::to_owned).collect();
    let (mut functions, mut spaces) = (Vec::new(), Namespaces::default());
    for offer in sent {
        match offer {
            SentOffer::Tool(tool) if tool.is_function() => functions.push(*tool),
            SentOffer::Tool(tool) => {
                tracing::debug!(kind = tool.kind(), "a tool that is no function is not offered");
            }
            SentOffer::Namespace(SentNamespace { kind: Word::Namespace, name: space, tools }) => {
                for tool in tools.into_iter().filter(SentTool::is_function) {
                    let Some(name) = tool.name().map(str::to_owned) else { continue };
                    let alone = !taken.contains(&name);
                    let offered = if alone { name.clone() } else { format!("{space}__{name}") };
                    taken.push(offered.clone());
                    functions.push(tool.called(offered.clone()));
                    spaces.0.insert(offered, (space.clone(), name));
                }
            }
        }
    }
    Ok((tools(Some(functions))?, spaces))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn functions_are_offered_and_what_servers_do_is_left_out() {
        let sent = json!([
            {"type": "web_search"},
            {"type": "function", "name": "go", "parameters": {"type": "object"}},
            {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
            {"type": "namespace", "name": "house", "description": "x", "tools": [
                {"type": "function", "name": "go"}, {"type": "function", "name": "rest"},
            ]},
            {"type": "image_generation"},
        ]);
        let (tools, spaces) = offered(serde_json::from_value(sent).unwrap()).unwrap();
        let names: Vec<_> = tools.iter().map(Tool::name).collect();
        assert_eq!(names, ["go", "house__go", "rest"]);
        let house = || Some("house".to_owned());
        for (name, known) in [
            ("go", (None, "go".to_owned())),
            ("house__go", (house(), "go".to_owned())),
            ("rest", (house(), "rest".to_owned())),
        ] {
            let (space, called) = spaces.of(name.to_owned());
            assert_eq!(spaces.offered(space.as_deref(), called.clone()), name);
            assert_eq!((space, called), known);
        }
    }
}
