//! `openapi.json`: what is answered at which path, for tools that read it (OpenAPI 3.1). It is written by hand.

use axum::{
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    response::IntoResponse,
};

/// OpenAPI 3.1, as `/openapi.json` gives it.
pub const DOCUMENT: &str = include_str!("openapi.json");

/// `GET /openapi.json`.
pub async fn document() -> impl IntoResponse {
    // It changes with the program.
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")], DOCUMENT)
}
