//! `/metrics` and `/slots`: what runs here.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State},
    http::HeaderValue,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::{error::ApiError, state::App};

/// `GET /metrics`.
///
/// # Errors
/// 501: the server was started without `--metrics`. 503: the model loads.
pub async fn metrics(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    if !app.options.metrics {
        return Err(ApiError::not_implemented("start the server with --metrics for this endpoint"));
    }
    let text = app.metrics.text(&app.model()?.generator.stats().stats());
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("text/plain; version=0.0.4"));
    headers.insert("process-start-time-unix", HeaderValue::from(app.created()));
    Ok(response)
}

/// The query of `/slots`.
#[derive(Debug, Deserialize)]
pub struct Wanted {
    /// 503 where all are busy.
    #[serde(default)]
    fail_on_no_slot: Option<String>,
}

/// `GET /slots`: the sequences, and who runs there. Of prompts it tells lengths only.
///
/// # Errors
/// 501: the server was started with `--no-slots`. 503: the model loads, or `fail_on_no_slot` is set and all are busy.
pub async fn slots(State(app): State<Arc<App>>, Query(wanted): Query<Wanted>) -> Result<Json<Value>, ApiError> {
    if !app.options.slots {
        return Err(ApiError::not_implemented("this server was started with --no-slots"));
    }
    let model = app.model()?;
    let sequences = model.generator.stats().sequences();
    let fails = wanted.fail_on_no_slot.is_some_and(|value| value != "0");
    if fails && !sequences.is_empty() && sequences.iter().all(Option::is_some) {
        return Err(ApiError::unavailable("no slot available", app.retry_after(0)));
    }
    let (n_ctx, n_seq) = (model.engine.options().n_ctx, model.engine.options().n_seq);
    let speculative = model.engine.n_draft() > 0;
    let slot = |id: usize| {
        let running = sequences.get(id).copied().flatten();
        let next = match running {
            Some(state) => {
                let remain = state.max_tokens.map_or(-1, |most| most.saturating_sub(state.n_decoded) as i64);
                json!({ "has_next_token": true, "has_new_line": false, "n_remain": remain, "n_decoded": state.n_decoded })
            }
            None => json!({ "has_next_token": false, "has_new_line": false, "n_remain": -1, "n_decoded": 0 }),
        };
        json!({
            "id": id, "n_ctx": n_ctx, "speculative": speculative, "is_processing": running.is_some(),
            "id_task": running.map_or(-1, |state| state.id.0 as i64),
            "n_prompt_tokens": running.map_or(0, |state| state.n_prompt),
            "n_prompt_tokens_cache": running.map_or(0, |state| state.n_prompt_cached),
            "next_token": [next],
        })
    };
    Ok(Json((0..n_seq).map(slot).collect()))
}
