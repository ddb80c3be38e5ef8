//! Every path of the port, with its route. The guard stands before them all.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};

use crate::port::Port;
use crate::{anthropic, chat, completions, embeddings, guard, models, ollama, openapi, responses};

/// Every path with and without `/v1`, with and without a slash at its end: people type base
/// addresses in all four ways.
pub(crate) fn router(port: Port) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(healthz))
        .route("/health", get(healthz))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi::serve))
        .route("/", get(hello))
        .route("/v1", get(openapi::hello))
        .route("/v1/", get(openapi::hello));
    for base in ["/v1", ""] {
        for end in ["", "/"] {
            router = router
                .route(&format!("{base}/models{end}"), get(models::list))
                .route(&format!("{base}/chat/completions{end}"), post(chat::complete))
                .route(&format!("{base}/completions{end}"), post(completions::complete))
                .route(&format!("{base}/embeddings{end}"), post(embeddings::embed))
                .route(&format!("{base}/responses{end}"), post(responses::respond))
                .route(&format!("{base}/messages{end}"), post(anthropic::answer))
                .route(&format!("{base}/messages/count_tokens{end}"), post(anthropic::count));
        }
        router = router.route(&format!("{base}/models/{{*id}}"), get(models::one));
    }
    for end in ["", "/"] {
        router = router
            .route(&format!("/api/version{end}"), get(ollama::version))
            .route(&format!("/api/tags{end}"), get(ollama::tags))
            .route(&format!("/api/ps{end}"), get(ollama::running))
            .route(&format!("/api/show{end}"), post(ollama::show))
            .route(&format!("/api/chat{end}"), post(ollama::chat))
            .route(&format!("/api/generate{end}"), post(ollama::generate))
            .route(&format!("/api/embed{end}"), post(ollama::embed))
            .route(&format!("/api/embeddings{end}"), post(ollama::embed_one))
            .route(&format!("/api/pull{end}"), post(ollama::pull));
    }
    router
        .fallback(guard::unknown_route)
        .method_not_allowed_fallback(guard::wrong_method)
        .layer(axum::middleware::from_fn_with_state(port.clone(), guard::check))
        .with_state(port)
}

/// Ollama's clients look here whether somebody answers.
async fn hello() -> &'static str {
    "Inglenook is running, and speaks as Ollama is running."
}

/// Only says that the port answers; no version, nothing to learn.
async fn healthz() -> &'static str {
    "ok"
}

async fn metrics(State(port): State<Port>) -> String {
    port.metrics.render()
}
