//! The port's description in OpenAPI 3.1, made from the very types that are read and sent.

use axum::Json;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::error::ErrorBody;
use crate::shapes::{ChatChunk, ChatCompletion, Embeddings, Model, Models, TextCompletion};
use crate::{anthropic, chat, completions, embeddings, ollama, responses};

/// Every path that is described; each is also served with a slash at its end, and those of `/v1`
/// without that.
pub(crate) const PATHS: [&str; 19] = [
    "/v1/models",
    "/v1/models/{id}",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/api/version",
    "/api/tags",
    "/api/ps",
    "/api/show",
    "/api/chat",
    "/api/generate",
    "/api/embed",
    "/api/embeddings",
    "/api/pull",
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
        "security": [{"key": []}, {"header": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
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
            let about = "The next message of a conversation, as a response.";
            post::<responses::Body>(about, streamed(one, event), schemas)
        }
        "/v1/messages" => {
            let one = json_of::<anthropic::MessageObject>(schemas);
            let event = json!({"schema": {"type": "object", "required": ["type"]}});
            let about = "The next message of a conversation, in Anthropic's form.";
            post::<anthropic::Body>(about, streamed(one, event), schemas)
        }
        "/v1/messages/count_tokens" => {
            let answer = json_of::<anthropic::Counted>(schemas);
            let about = "How many tokens such a conversation has.";
            post::<anthropic::Body>(about, json!({"application/json": answer}), schemas)
        }
        path if path.starts_with("/api/") => ollamas(path, schemas),
        "/metrics" => plain("Counters in Prometheus' text format."),
        _ => {
            let mut open = plain("Says `ok`. Needs no key.");
            open["get"]["security"] = json!([]);
            open
        }
    }
}

/// The paths of Ollama's clients. Their errors are one string.
fn ollamas(path: &str, schemas: &mut SchemaGenerator) -> Value {
    let any = || json!({"application/json": {"schema": {"type": "object"}}});
    let lines = || {
        let line = json!({"schema": {"type": "object"}});
        json!({"application/json": line, "application/x-ndjson": line})
    };
    let (method, about, answer, sent) = match path {
        "/api/version" => ("get", "The version of Ollama whose form this is.", any(), None),
        "/api/tags" => {
            let tags = json!({"application/json": json_of::<ollama::Tags>(schemas)});
            ("get", "The models of this device.", tags, None)
        }
        "/api/ps" => ("get", "The models that are open.", any(), None),
        "/api/show" => {
            let sent = json_of::<ollama::NamedBody>(schemas);
            ("post", "What is known of a model.", any(), Some(sent))
        }
        "/api/chat" => {
            let sent = json_of::<ollama::ChatBody>(schemas);
            ("post", "The next message of a conversation, as Ollama has it.", lines(), Some(sent))
        }
        "/api/generate" => {
            let sent = json_of::<ollama::GenerateBody>(schemas);
            ("post", "An answer to a text, or what continues it.", lines(), Some(sent))
        }
        "/api/embed" => {
            let sent = json_of::<ollama::EmbedBody>(schemas);
            let vectors = json!({"application/json": json_of::<ollama::Vectors>(schemas)});
            ("post", "Vectors, as Ollama has them.", vectors, Some(sent))
        }
        "/api/embeddings" => {
            let sent = json_of::<ollama::EmbedOneBody>(schemas);
            let one = json!({"application/json": json_of::<ollama::OneVector>(schemas)});
            ("post", "One vector.", one, Some(sent))
        }
        _ => {
            let sent = json_of::<ollama::PullBody>(schemas);
            ("post", "Downloads a model, and tells how far it is.", lines(), Some(sent))
        }
    };
    let error = json!({"schema": {
        "type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"],
    }});
    let mut operation = json!({
        "summary": about,
        "responses": {
            "200": {"description": "OK", "content": answer},
            "default": {
                "description": "What went wrong.",
                "content": {"application/json": error},
            },
        },
    });
    if let Some(sent) = sent {
        operation["requestBody"] = json!({"required": true, "content": {"application/json": sent}});
    }
    json!({method: operation})
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
