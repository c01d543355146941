//! Which path is answered by what.

use std::sync::Arc;

use super::{api, error::ApiError, guard::guard, openapi, page, state::App};
use axum::{
    Router,
    http::{Method, StatusCode, Uri},
    middleware::from_fn_with_state,
    routing::{MethodRouter, any, get, post},
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

/// A path, and what answers there.
type Route = (&'static str, MethodRouter<Arc<App>>);

/// All that is answered. `openapi.json` tells clients the same.
fn routes() -> Vec<Route> {
    let rows = vec![
        ("/health", get(api::health::health)),
        ("/v1/health", get(api::health::health)),
        ("/livez", get(api::health::live)),
        ("/v1/chat/completions", post(api::chat::chat)),
        ("/chat/completions", post(api::chat::chat)),
        ("/v1/completions", post(api::completions::completions)),
        ("/v1/chat/completions/input_tokens", post(api::tokens::input_tokens)),
        ("/chat/completions/input_tokens", post(api::tokens::input_tokens)),
        ("/completion", post(api::llama::completion)),
        ("/completions", post(api::llama::completion)),
        ("/tokenize", post(api::tokens::tokenize)),
        ("/detokenize", post(api::tokens::detokenize)),
        ("/apply-template", post(api::tokens::apply_template)),
        ("/v1/models", get(api::models::models)),
        ("/models", get(api::models::models)),
        ("/v1/models/{*id}", get(api::models::model)),
        ("/metrics", get(api::metrics::metrics)),
        ("/slots", get(api::metrics::slots)),
        ("/slots/{id}", post(api::slots::act)),
        ("/props", get(api::models::props)),
        ("/openapi.json", get(openapi::document)),
        ("/", get(page::root)),
        ("/index.html", get(page::root)),
        ("/ui/{name}", get(page::file)),
        ("/v1/responses", post(api::responses::responses)),
        ("/responses", post(api::responses::responses)),
        ("/v1/responses/input_tokens", post(api::responses::input_tokens)),
        ("/v1/messages", post(api::anthropic::messages)),
        ("/v1/messages/count_tokens", post(api::anthropic::count_tokens)),
        ("/api/version", get(api::ollama::models::version)),
        ("/api/tags", get(api::ollama::models::tags)),
        ("/api/ps", get(api::ollama::models::ps)),
        ("/api/show", post(api::ollama::models::show)),
        ("/api/chat", post(api::ollama::chat)),
        ("/api/generate", post(api::ollama::generate)),
        ("/api/pull", any(api::ollama::refused)),
        ("/api/push", any(api::ollama::refused)),
        ("/api/create", any(api::ollama::refused)),
        ("/api/copy", any(api::ollama::refused)),
        ("/api/delete", any(api::ollama::refused)),
        ("/api/embed", any(api::ollama::refused)),
        ("/api/embeddings", any(api::ollama::refused)),
    ];
    let elsewhere = ELSEWHERE.iter().map(|(path, why)| (*path, any(async || ApiError::not_implemented(*why))));
    rows.into_iter().chain(elsewhere).collect()
}

/// All routes behind their guard.
pub fn router(app: &Arc<App>) -> Router {
    routes()
        .into_iter()
        .fold(Router::new(), |router, (path, answer)| router.route(path, answer))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::{
        body::Body,
        http::{Request, header::ALLOW},
    };
    use serde_json::Value;
    use tower::ServiceExt;

    use super::*;
    use crate::server::options::ServerOptions;

    /// Bytes of the document.
    const MOST: usize = 40 << 10;

    /// A path of the document, or what it refers to.
    fn item<'a>(document: &'a Value, item: &'a Value) -> &'a Value {
        let Some(reference) = item.get("$ref").and_then(Value::as_str) else { return item };
        document.pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("{reference} leads nowhere"))
    }

    /// Every `$ref` below a value.
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    /// The method that a route answers, `*` where it takes any; HEAD belongs to GET.
    fn method(answer: MethodRouter<Arc<App>>) -> String {
        let app = App::new(ServerOptions::default(), Arc::new(|_| {})).expect("metrics");
        let request = Request::builder().method("BREW").body(Body::empty()).expect("a request");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let answer = runtime.block_on(answer.with_state(Arc::new(app)).oneshot(request)).expect("an answer");
        let allowed = answer.headers().get(ALLOW).map_or("*", |allowed| allowed.to_str().expect("text"));
        allowed.trim_end_matches(",HEAD").to_lowercase()
    }

    /// No route without a path in the document, no path without a route, each with the method of its route.
    #[test]
    fn the_document_has_all_routes_and_no_others() {
        assert!(openapi::DOCUMENT.len() <= MOST, "{} bytes", openapi::DOCUMENT.len());
        let document: Value = serde_json::from_str(openapi::DOCUMENT).expect("JSON");
        let written: BTreeSet<(String, String)> = document["paths"]
            .as_object()
            .expect("paths")
            .iter()
            .flat_map(|(path, value)| {
                let item = item(&document, value);
                let absent = item["post"]["tags"][0] == "absent";
                let methods: Vec<String> = item.as_object().expect("methods").keys().cloned().collect();
                let method = move |name: String| if absent { "*".into() } else { name };
                methods.into_iter().map(move |name| (path.clone(), method(name)))
            })
            .collect();
        let answered: BTreeSet<_> =
            routes().into_iter().map(|(path, answer)| (path.replace("{*", "{"), method(answer))).collect();
        let only = |these: &BTreeSet<_>, those| these.difference(those).cloned().collect::<Vec<(String, String)>>();
        let (undocumented, unanswered) = (only(&answered, &written), only(&written, &answered));
        assert!(undocumented.is_empty(), "routes that openapi.json does not have: {undocumented:?}");
        assert!(unanswered.is_empty(), "paths of openapi.json without a route: {unanswered:?}");
    }

    /// Every reference leads somewhere, and every component is referred to.
    #[test]
    fn the_document_holds_together() {
        let document: Value = serde_json::from_str(openapi::DOCUMENT).expect("JSON");
        let mut found = Vec::new();
        references(&document, &mut found);
        for reference in &found {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference} leads nowhere");
        }
        for group in ["pathItems", "requestBodies", "responses", "schemas"] {
            for name in document["components"][group].as_object().expect("components").keys() {
                let reference = format!("#/components/{group}/{name}");
                assert!(found.contains(&&*reference), "{reference} is not used");
            }
        }
    }
}
