//! `/v1/models`, `/props`: what is served, and how.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde_json::{Value, json};

use super::llama;
use crate::server::{
    error::ApiError,
    state::{App, Loaded},
};

/// `GET /v1/models`: OpenAI's list, and beside it the one that llama-server adds.
///
/// # Errors
/// 503: the model loads.
pub async fn models(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let model = app.model()?;
    let name = app.model_name();
    let other = json!({
        "name": name, "model": name, "modified_at": "", "size": "", "digest": "", "type": "model", "description": "",
        "tags": app.options.tags, "capabilities": ["completion"], "parameters": "",
        "details": { "parent_model": "", "format": "gguf", "family": "", "families": [""], "parameter_size": "", "quantization_level": "" },
    });
    Ok(Json(json!({ "models": [other], "object": "list", "data": [entry(&app, model)] })))
}

/// `GET /v1/models/{id}`: the same for the model by one of its names.
///
/// # Errors
/// 404: the model has no such name. 503: it loads.
pub async fn model(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let model = app.model()?;
    if id != app.model_name() && !app.options.aliases.contains(&id) {
        let message = format!("model {id:?}: this server has {:?}", app.model_name());
        return Err(ApiError::new(StatusCode::NOT_FOUND, message));
    }
    Ok(Json(entry(&app, model)))
}

fn entry(app: &App, model: &Loaded) -> Value {
    let (gguf, config) = (model.engine.gguf(), &model.engine.model().config);
    let parameters: u64 = gguf.tensors().iter().map(|tensor| tensor.shape.iter().product::<u64>()).sum();
    let vocabulary = match gguf.str("tokenizer.ggml.model").ok().flatten().map(|name| name.to_string()).as_deref() {
        Some("llama") => 1,
        Some("gpt2") => 2,
        _ => 0,
    };
    json!({
        "id": app.model_name(), "object": "model", "created": app.created(), "owned_by": "qrun",
        "aliases": app.options.aliases.iter().collect::<BTreeSet<_>>(),
        "tags": app.options.tags.iter().collect::<BTreeSet<_>>(),
        "meta": {
            "vocab_type": vocabulary, "n_vocab": config.n_vocab, "n_ctx_train": config.n_ctx_train,
            "n_embd": config.n_embd, "n_params": parameters, "size": model.engine.plan().bytes.weights,
            "n_ctx": model.engine.options().n_ctx,
        },
    })
}

/// `GET /props`.
///
/// # Errors
/// 503: the model loads.
pub async fn props(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let model = app.model()?;
    let (engine, tokenizer) = (&model.engine, model.engine.tokenizer());
    let mut params = llama::sampling_settings(&model.params);
    params.insert("n_predict".into(), model.max_tokens.map_or(-1, |n| n as i64).into());
    let template = engine.template().ok().flatten();
    let source = template.map_or("", |template| template.source());
    let text = |id: Option<u32>| id.map_or("", |id| tokenizer.text(id)).to_owned();
    Ok(Json(json!({
        "default_generation_settings": { "n_ctx": engine.options().n_ctx, "params": params },
        "total_slots": engine.options().n_seq, "model_alias": app.model_name(),
        "model_path": engine.gguf().path().display().to_string(),
        "modalities": { "vision": false, "audio": false },
        "endpoint_slots": app.options.slots, "endpoint_props": false, "endpoint_metrics": app.options.metrics,
        "ui": app.options.ui, "webui": app.options.ui,
        "chat_template": source,
        "chat_template_caps": {
            "supports_tools": source.contains("tools"), "supports_tool_calls": source.contains("tool_calls"),
            "supports_system_role": source.contains("system"), "supports_string_content": true,
        },
        "bos_token": text(tokenizer.bos()), "eos_token": text(tokenizer.eos()),
        "build_info": concat!("qrun ", env!("CARGO_PKG_VERSION")),
        "deterministic": model.engine.is_deterministic(), "is_sleeping": false,
    })))
}
