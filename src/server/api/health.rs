//! `/health`: whether requests are taken; `/livez`: whether the process answers.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Value, json};

use crate::server::{error::ApiError, state::App};

/// 200 when requests are taken; 503 while the model loads, when the server is about to end, and when the engine hangs.
pub async fn health(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    app.model()?;
    if app.is_draining() {
        return Err(ApiError::unavailable("the server is about to end", 5));
    }
    Ok(Json(json!({ "status": "ok" })))
}

/// 200 as long as the process answers.
pub async fn live() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}
