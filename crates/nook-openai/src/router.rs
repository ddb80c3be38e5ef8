//! Every path of the port, with its route. The guard stands before them all.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};

use crate::port::Port;
use crate::{chat, completions, embeddings, guard, models, openapi, responses};

/// Every path with and without `/v1`, with and without a slash at its end: people type base
/// addresses in all four ways.
pub(crate) fn router(port: Port) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(healthz))
        .route("/health", get(healthz))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi::serve))
        .route("/v1", get(openapi::hello))
        .route("/v1/", get(openapi::hello));
    for base in ["/v1", ""] {
        for end in ["", "/"] {
            router = router
                .route(&format!("{base}/models{end}"), get(models::list))
                .route(&format!("{base}/chat/completions{end}"), post(chat::complete))
                .route(&format!("{base}/completions{end}"), post(completions::complete))
                .route(&format!("{base}/embeddings{end}"), post(embeddings::embed))
                .route(&format!("{base}/responses{end}"), post(responses::respond));
        }
        router = router.route(&format!("{base}/models/{{*id}}"), get(models::one));
    }
    router
        .fallback(guard::unknown_route)
        .method_not_allowed_fallback(guard::wrong_method)
        .layer(axum::middleware::from_fn_with_state(port.clone(), guard::check))
        .with_state(port)
}

/// Only says that the port answers; no version, nothing to learn.
async fn healthz() -> &'static str {
    "ok"
}

async fn metrics(State(port): State<Port>) -> String {
    port.metrics.render()
}
