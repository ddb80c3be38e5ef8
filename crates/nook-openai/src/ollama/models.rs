//! What Ollama's clients are told of models: `tags`, `show`, `ps`.

use axum::Json;
use axum::extract::State;
use nook_api::WorkerVitals;
use nook_api::views::{CapabilitiesView, ModelView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::plain_name;
use crate::answer::moment;
use crate::error::ApiError;
use crate::models::find;
use crate::port::Port;
use crate::sampling::model_name;

/// The end of what stays open, as Ollama writes one far away.
const NEVER: &str = "2318-01-01T00:00:00Z";

/// `GET /api/tags`
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OllamaModels")]
pub(crate) struct Tags {
    models: Vec<Tag>,
}

/// One model.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OllamaModel")]
struct Tag {
    name: String,
    model: String,
    modified_at: String,
    size: u64,
    digest: String,
    details: Details,
}

/// What its file is.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OllamaModelDetails")]
struct Details {
    parent_model: &'static str,
    format: &'static str,
    family: String,
    families: Vec<String>,
    /// Empty: a file does not say.
    parameter_size: &'static str,
    quantization_level: String,
}

/// The name of a model.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "OllamaNameRequest")]
pub(crate) struct NamedBody {
    model: Option<String>,
    /// The older name of `model`.
    name: Option<String>,
}

/// All models of this device.
pub(crate) async fn tags(State(port): State<Port>) -> Json<Tags> {
    let view = port.house.now();
    Json(Tags { models: view.models.iter().map(Tag::from).collect() })
}

/// `GET /api/ps`: the models that a worker of this device has open.
pub(crate) async fn running(State(port): State<Port>) -> Result<Json<Value>, ApiError> {
    let vitals = port.house.vitals().await?;
    let view = port.house.now();
    let one = |worker: &WorkerVitals| {
        let model = view.models.iter().find(|model| model.name == worker.model)?;
        let mut told = json!(Tag::from(model));
        // Nobody knows before when it will be closed: as long as nothing else wants its memory.
        told["expires_at"] = NEVER.into();
        told["size"] = worker.weight_bytes.saturating_add(worker.cache_bytes).into();
        told["size_vram"] = 0.into();
        told["context_length"] = model.context_length.into();
        Some(told)
    };
    let models: Vec<Value> = vitals.workers.iter().filter_map(one).collect();
    Ok(Json(json!({"models": models})))
}

/// `POST /api/show`
pub(crate) async fn show(
    State(port): State<Port>,
    body: axum::body::Body,
) -> Result<Json<Value>, ApiError> {
    let sent: NamedBody = port.read(body).await?;
    let view = port.house.now();
    let name = model_name(plain_name(sent.model.or(sent.name), &view), &view)?;
    let model = find(&view, &name)?;
    let capabilities = words_for(port.house.capabilities(name.clone()).await?);
    let architecture = &model.architecture;
    let mut info = json!({
        "general.architecture": architecture,
        "general.basename": model.title,
    });
    info[format!("{architecture}.context_length")] = model.context_length.into();
    info[format!("{architecture}.block_count")] = model.layers.into();
    Ok(Json(json!({
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": Details::from(model),
        "model_info": info,
        "capabilities": capabilities,
        "modified_at": moment(model.added),
    })))
}

/// What a model can, in Ollama's words. A model without a form for calls of tools is told of one.
fn words_for(can: CapabilitiesView) -> Vec<&'static str> {
    let more = [(can.fills_gaps, "insert"), (can.thinks, "thinking")];
    let more = more.into_iter().filter_map(|(can, word)| can.then_some(word));
    ["completion", "tools"].into_iter().chain(more).collect()
}

impl From<&ModelView> for Tag {
    fn from(model: &ModelView) -> Self {
        Self {
            name: model.name.clone(),
            model: model.name.clone(),
            modified_at: moment(model.added),
            size: model.file_bytes,
            digest: model.digest.clone(),
            details: Details::from(model),
        }
    }
}

impl From<&ModelView> for Details {
    fn from(model: &ModelView) -> Self {
        Self {
            parent_model: "",
            format: "gguf",
            family: model.architecture.clone(),
            families: vec![model.architecture.clone()],
            parameter_size: "",
            quantization_level: model.quantisation.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_can_is_said_in_words_that_clients_look_for() {
        let words = |thinks, fills_gaps| words_for(CapabilitiesView { thinks, fills_gaps });
        assert_eq!(words(false, false), ["completion", "tools"]);
        assert_eq!(words(true, true), ["completion", "tools", "insert", "thinking"]);
    }
}
