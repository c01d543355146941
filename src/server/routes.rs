//! Which path is answered by what.

use std::sync::Arc;

use super::{api, error::ApiError, guard::guard, openapi, page, state::App};
use axum::{
    Router,
    handler::Handler,
    http::{Method, StatusCode, Uri},
    middleware::from_fn_with_state,
    routing::{self, MethodRouter},
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

/// A path, the method it answers (`*`: every one), and what answers.
struct Route {
    method: &'static str,
    path: &'static str,
    answer: MethodRouter<Arc<App>>,
}

fn get<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, answer: H) -> Route {
    Route { method: "get", path, answer: routing::get(answer) }
}

fn post<H: Handler<T, Arc<App>>, T: 'static>(path: &'static str, answer: H) -> Route {
    Route { method: "post", path, answer: routing::post(answer) }
}

/// Every method is refused with the reason.
fn none(path: &'static str) -> Route {
    Route { method: "*", path, answer: routing::any(api::ollama::refused) }
}

/// All that is answered. `openapi.json` says the same to clients.
fn routes() -> Vec<Route> {
    let elsewhere = ELSEWHERE.iter().map(|(path, why)| {
        let answer = move || async { ApiError::not_implemented(*why) };
        Route { method: "*", path, answer: routing::get(answer).post(answer) }
    });
    let rows = vec![
        get("/health", api::health::health),
        get("/v1/health", api::health::health),
        get("/livez", api::health::live),
        post("/v1/chat/completions", api::chat::chat),
        post("/chat/completions", api::chat::chat),
        post("/v1/completions", api::completions::completions),
        post("/v1/chat/completions/input_tokens", api::tokens::input_tokens),
        post("/chat/completions/input_tokens", api::tokens::input_tokens),
        post("/completion", api::llama::completion),
        post("/completions", api::llama::completion),
        post("/tokenize", api::tokens::tokenize),
        post("/detokenize", api::tokens::detokenize),
        post("/apply-template", api::tokens::apply_template),
        get("/v1/models", api::models::models),
        get("/models", api::models::models),
        get("/v1/models/{*id}", api::models::model),
        get("/metrics", api::metrics::metrics),
        get("/slots", api::metrics::slots),
        get("/props", api::models::props),
        get("/openapi.json", openapi::document),
        get("/", page::root),
        get("/index.html", page::root),
        get("/ui/{name}", page::file),
        post("/v1/responses", api::responses::responses),
        post("/responses", api::responses::responses),
        post("/v1/responses/input_tokens", api::responses::input_tokens),
        post("/v1/messages", api::anthropic::messages),
        post("/v1/messages/count_tokens", api::anthropic::count_tokens),
        get("/api/version", api::ollama::models::version),
        get("/api/tags", api::ollama::models::tags),
        get("/api/ps", api::ollama::models::ps),
        post("/api/show", api::ollama::models::show),
        post("/api/chat", api::ollama::chat),
        post("/api/generate", api::ollama::generate),
        none("/api/pull"),
        none("/api/push"),
        none("/api/create"),
        none("/api/copy"),
        none("/api/delete"),
        none("/api/embed"),
        none("/api/embeddings"),
    ];
    rows.into_iter().chain(elsewhere).collect()
}

/// All routes behind their guard.
pub fn router(app: &Arc<App>) -> Router {
    routes()
        .into_iter()
        .fold(Router::new(), |router, route| router.route(route.path, route.answer))
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

    use serde_json::Value;

    use super::*;

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
        let answered = routes().into_iter().map(|route| (route.path.replace("{*", "{"), route.method.to_owned()));
        let answered: BTreeSet<_> = answered.collect();
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
