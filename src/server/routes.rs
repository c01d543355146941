//! Which path is answered by what.

use std::sync::Arc;

use super::{api, error::ApiError, guard::guard, page, state::App};
use axum::{
    Router,
    http::{Method, StatusCode, Uri},
    middleware::from_fn_with_state,
    routing::{any, get, post},
};

/// What others have and this server does not.
const ELSEWHERE: &[(&str, &str)] = &[
    ("/embedding", "embeddings are not implemented"),
    ("/embeddings", "embeddings are not implemented"),
    ("/v1/embeddings", "embeddings are not implemented"),
    ("/rerank", "reranking is not implemented"),
    ("/reranking", "reranking is not implemented"),
    ("/v1/rerank", "reranking is not implemented"),
    ("/v1/reranking", "reranking is not implemented"),
    ("/infill", "this endpoint is not implemented: /completion takes a prompt with the model's own marks"),
    ("/lora-adapters", "adapters are not implemented"),
    ("/v1/audio/transcriptions", "sound is not implemented"),
    ("/v1/images/generations", "images are not implemented"),
];

/// All routes behind their guard.
pub fn router(app: &Arc<App>) -> Router {
    let elsewhere = ELSEWHERE.iter().fold(Router::new(), |router, (path, why)| {
        let answer = move || async { ApiError::not_implemented(*why) };
        router.route(path, get(answer).post(answer))
    });
    Router::new()
        .merge(elsewhere)
        .route("/health", get(api::health::health))
        .route("/v1/health", get(api::health::health))
        .route("/livez", get(api::health::live))
        .route("/v1/chat/completions", post(api::chat::chat))
        .route("/chat/completions", post(api::chat::chat))
        .route("/v1/completions", post(api::completions::completions))
        .route("/v1/chat/completions/input_tokens", post(api::tokens::input_tokens))
        .route("/chat/completions/input_tokens", post(api::tokens::input_tokens))
        .route("/completion", post(api::llama::completion))
        .route("/completions", post(api::llama::completion))
        .route("/tokenize", post(api::tokens::tokenize))
        .route("/detokenize", post(api::tokens::detokenize))
        .route("/apply-template", post(api::tokens::apply_template))
        .route("/v1/models", get(api::models::models))
        .route("/models", get(api::models::models))
        .route("/v1/models/{*id}", get(api::models::model))
        .route("/metrics", get(api::metrics::metrics))
        .route("/slots", get(api::metrics::slots))
        .route("/slots/{id}", post(api::slots::act))
        .route("/props", get(api::models::props))
        .route("/", get(page::root))
        .route("/index.html", get(page::root))
        .route("/ui/{name}", get(page::file))
        .route("/v1/responses", post(api::responses::responses))
        .route("/responses", post(api::responses::responses))
        .route("/v1/responses/input_tokens", post(api::responses::input_tokens))
        .route("/v1/messages", post(api::anthropic::messages))
        .route("/v1/messages/count_tokens", post(api::anthropic::count_tokens))
        .route("/api/version", get(api::ollama::models::version))
        .route("/api/tags", get(api::ollama::models::tags))
        .route("/api/ps", get(api::ollama::models::ps))
        .route("/api/show", post(api::ollama::models::show))
        .route("/api/chat", post(api::ollama::chat))
        .route("/api/generate", post(api::ollama::generate))
        .route("/api/pull", any(api::ollama::refused))
        .route("/api/push", any(api::ollama::refused))
        .route("/api/create", any(api::ollama::refused))
        .route("/api/copy", any(api::ollama::refused))
        .route("/api/delete", any(api::ollama::refused))
        .route("/api/embed", any(api::ollama::refused))
        .route("/api/embeddings", any(api::ollama::refused))
        .fallback(missing)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app.clone())
}

async fn missing(method: Method, uri: Uri) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, format!("{method} {}: there is no such path", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not answer {method}", uri.path()))
}
