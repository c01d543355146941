//! What Ollama's clients want to know about the server and its model.

use std::{sync::Arc, time::SystemTime};

use axum::{Json, extract::State};
use qrun_quant::gguf;
use serde_json::{Map, Value, json};

use crate::{
    clock::strftime,
    server::{
        error::ApiError,
        state::{App, Loaded},
    },
    tools::quantize::FileType,
};

/// The version whose endpoints these are; clients refuse old ones.
const VERSION: &str = "0.12.6";
/// What `GET /` says.
pub const RUNNING: &str = "Ollama is running";

/// `GET /api/version`.
pub async fn version() -> Json<Value> {
    Json(json!({ "version": VERSION }))
}

/// `GET /api/tags`: the models that there are.
///
/// # Errors
/// 503: the model loads.
pub async fn tags(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let model = app.model()?;
    Ok(Json(json!({ "models": [entry(&app, model)] })))
}

/// `GET /api/ps`: the models in memory.
///
/// # Errors
/// 503: the model loads.
pub async fn ps(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let model = app.model()?;
    let mut entry = entry(&app, model);
    // It stays as long as the server does.
    entry["expires_at"] = "9999-12-31T23:59:59Z".into();
    entry["size_vram"] = 0.into();
    entry["context_length"] = model.engine.options().n_ctx.into();
    Ok(Json(json!({ "models": [entry] })))
}

/// `POST /api/show`: all about the model. Whatever name is asked for, this one is meant.
///
/// # Errors
/// 503: the model loads.
pub async fn show(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let model = app.model()?;
    let gguf = model.engine.gguf();
    let template = model.engine.template().ok().flatten().map(|template| template.source()).unwrap_or_default();
    let mut capabilities = vec!["completion"];
    if !template.is_empty() {
        capabilities.push("tools");
    }
    if ["<think>", "[THINK]"].iter().any(|mark| template.contains(mark)) {
        capabilities.push("thinking");
    }
    let mut info: Map<String, Value> =
        gguf.metadata().iter().filter_map(|(key, value)| Some((key.clone(), scalar(value)?))).collect();
    info.insert("general.parameter_count".into(), parameters(model).into());
    info.entry("general.basename").or_insert_with(|| app.model_name().into());
    let license = gguf.str("general.license").ok().flatten().unwrap_or_default();
    Ok(Json(json!({
        "modelfile": "", "parameters": "", "template": template, "license": license, "details": details(model),
        "model_info": info, "capabilities": capabilities, "modified_at": modified(model),
    })))
}

fn entry(app: &App, model: &Loaded) -> Value {
    let name = app.model_name();
    json!({
        "name": name, "model": name, "modified_at": modified(model), "size": model.engine.gguf().file_bytes(),
        "digest": format!("{:064x}", model.engine.fingerprint()), "details": details(model),
    })
}

fn details(model: &Loaded) -> Value {
    let gguf = model.engine.gguf();
    let family = gguf.str("general.architecture").ok().flatten().unwrap_or_default();
    let number = gguf.get("general.file_type").and_then(gguf::Value::as_u64).and_then(|n| n.try_into().ok());
    let quantization = number.and_then(FileType::from_number).map_or("unknown", FileType::name);
    json!({
        "parent_model": "", "format": "gguf", "family": family, "families": [family],
        "parameter_size": size(parameters(model)), "quantization_level": quantization,
    })
}

fn parameters(model: &Loaded) -> u64 {
    model.engine.gguf().tensors().iter().map(|tensor| tensor.len() as u64).sum()
}

/// `1.2B`, `270.0M`, `12.3K`.
fn size(parameters: u64) -> String {
    let scales = [(1e9, "B"), (1e6, "M"), (1e3, "K")];
    let n = parameters as f64;
    scales
        .iter()
        .find(|(scale, _)| n >= *scale)
        .map_or_else(|| parameters.to_string(), |(scale, unit)| format!("{:.1}{unit}", n / scale))
}

/// When the file was written; a model without a file is as old as the epoch.
fn modified(model: &Loaded) -> String {
    let written = std::fs::metadata(model.engine.gguf().path()).and_then(|file| file.modified());
    strftime(written.unwrap_or(SystemTime::UNIX_EPOCH), "%Y-%m-%dT%H:%M:%SZ").unwrap_or_default()
}

/// A value of the file's metadata; lists (the vocabulary) are left out.
fn scalar(value: &gguf::Value) -> Option<Value> {
    let text = || value.as_str().map(Value::from);
    let flag = || value.as_bool().map(Value::from);
    let whole = || value.as_u64().map(Value::from);
    let real = || value.as_f64().map(Value::from);
    text().or_else(flag).or_else(whole).or_else(real)
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_have_a_unit() {
        let cases = [(999, "999"), (12_340, "12.3K"), (270_000_000, "270.0M"), (1_235_814_432, "1.2B")];
        for (parameters, expected) in cases {
            assert_eq!(super::size(parameters), expected);
        }
    }
}
