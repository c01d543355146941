//! `/health`: whether requests are taken; `/livez`: whether the process answers.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State};
use serde_json::{Value, json};

use crate::server::{error::ApiError, state::App};

/// A step that takes longer does not end.
const HUNG: Duration = Duration::from_secs(120);

/// 200 when requests are taken.
///
/// # Errors
/// 503: the model loads, the server is about to end, the engine has stopped, or a step has not ended for two minutes.
pub async fn health(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    match app.model()?.generator.step_age() {
        None => return Err(ApiError::unavailable("the engine has stopped; start the server again", 60)),
        Some(age) if age > HUNG => {
            let seconds = age.as_secs();
            return Err(ApiError::unavailable(format!("a step has not ended for {seconds} s"), 60));
        }
        Some(_) => {}
    }
    if app.is_draining() {
        return Err(ApiError::unavailable("the server is about to end", 5));
    }
    Ok(Json(json!({ "status": "ok" })))
}

/// 200 as long as the process answers.
pub async fn live() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}
