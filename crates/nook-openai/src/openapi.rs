//! The port's description in OpenAPI 3.1, made from the very types that are read and sent.

use axum::Json;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::error::ErrorBody;
use crate::shapes::{ChatChunk, ChatCompletion, Embeddings, Model, Models, TextCompletion};
use crate::{chat, completions, embeddings, responses};

/// Every path that is described; each is also served without `/v1`, and with a slash at its end.
pub(crate) const PATHS: [&str; 8] = [
    "/v1/models",
    "/v1/models/{id}",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/healthz",
    "/metrics",
];

/// Says what this is, to whoever opens the base address.
pub(crate) async fn hello() -> Json<Value> {
    let paths = PATHS.iter().filter(|path| path.starts_with("/v1/")).collect::<Vec<_>>();
    Json(json!({"object": "inglenook", "see": paths}))
}

/// `GET /openapi.json`
pub(crate) async fn serve() -> Json<Value> {
    Json(document())
}

fn document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut schemas = settings.into_generator();
    let operations = PATHS.map(|path| (path.to_owned(), operation(path, &mut schemas)));
    let paths: Map<String, Value> = operations.into_iter().collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Inglenook's OpenAI-compatible port",
            "description": "Served by `nook up` and the tray app, to this machine alone unless its owner lets the network in.",
            "version": "1",
        },
        "servers": [{"url": "http://127.0.0.1:4587"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas.take_definitions(true),
        },
    })
}

fn operation(path: &str, schemas: &mut SchemaGenerator) -> Value {
    match path {
        "/v1/models" => get("The models of this device.", json_of::<Models>(schemas), schemas),
        "/v1/models/{id}" => {
            let mut found = get("One model.", json_of::<Model>(schemas), schemas);
            found["get"]["parameters"] = json!([{
                "name": "id",
                "in": "path",
                "required": true,
                "description": "May hold slashes.",
                "schema": {"type": "string"},
            }]);
            found
        }
        "/v1/chat/completions" => {
            let answer =
                streamed(json_of::<ChatCompletion>(schemas), json_of::<ChatChunk>(schemas));
            post::<chat::Body>("The next message of a conversation.", answer, schemas)
        }
        "/v1/completions" => {
            let one = json_of::<TextCompletion>(schemas);
            let answer = streamed(one.clone(), one);
            post::<completions::Body>("What continues a text.", answer, schemas)
        }
        "/v1/embeddings" => {
            let answer = json_of::<Embeddings>(schemas);
            let about = "Vectors: the mean of the local model's hidden states, at length 1.";
            post::<embeddings::Body>(about, json!({"application/json": answer}), schemas)
        }
        "/v1/responses" => {
            let one = json_of::<responses::ResponseObject>(schemas);
            let event = json!({"schema": {"type": "object", "required": ["type"]}});
            let about = "The next message of a conversation, as a response. Nothing is kept.";
            post::<responses::Body>(about, streamed(one, event), schemas)
        }
        "/metrics" => plain("Counters in Prometheus' text format."),
        _ => {
            let mut open = plain("Says `ok`. Needs no key.");
            open["get"]["security"] = json!([]);
            open
        }
    }
}

/// What a body of type `T` looks like.
fn json_of<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    json!({"schema": schemas.subschema_for::<T>()})
}

fn streamed(whole: Value, chunk: Value) -> Value {
    json!({"application/json": whole, "text/event-stream": chunk})
}

fn get(about: &str, answer: Value, schemas: &mut SchemaGenerator) -> Value {
    let answers = answers(json!({"application/json": answer}), schemas);
    json!({"get": {"summary": about, "responses": answers}})
}

fn post<T: JsonSchema>(about: &str, answer: Value, schemas: &mut SchemaGenerator) -> Value {
    let sent = json_of::<T>(schemas);
    json!({
        "post": {
            "summary": about,
            "requestBody": {"required": true, "content": {"application/json": sent}},
            "responses": answers(answer, schemas),
        }
    })
}

fn plain(about: &str) -> Value {
    let content = json!({"text/plain": {"schema": {"type": "string"}}});
    json!({"get": {"summary": about, "responses": {"200": {"description": "OK", "content": content}}}})
}

fn answers(content: Value, schemas: &mut SchemaGenerator) -> Value {
    let error = json_of::<ErrorBody>(schemas);
    json!({
        "200": {"description": "OK", "content": content},
        "default": {"description": "What went wrong.", "content": {"application/json": error}},
    })
}
