//! `/tokenize`, `/detokenize`, `/apply-template`: text, tokens and templates without a model's answer.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Value, json};

use super::{chat, prompt::written};
use crate::{
    server::{
        body::Body,
        conversation::blocking,
        error::ApiError,
        fields::{Fields, brief},
        state::App,
    },
    text::tokenizer::Encode,
};

/// `POST /tokenize`: `{"tokens": [ids]}`, or with `with_pieces` `[{id, piece}]`.
///
/// # Errors
/// 400: a field is wrong, or the vocabulary cannot say the text. 503: the model loads.
pub async fn tokenize(State(app): State<Arc<App>>, Body(body): Body) -> Result<Json<Value>, ApiError> {
    blocking(move || {
        let tokenizer = app.model()?.engine.tokenizer();
        let fields = Fields(&body);
        let content = fields.text("content")?.unwrap_or_default();
        let how = Encode {
            add_special: fields.flag("add_special")?.unwrap_or(false),
            parse_special: fields.flag("parse_special")?.unwrap_or(true),
        };
        let ids = tokenizer.encode(content, how).map_err(|error| ApiError::bad(format!("content: {error}")))?;
        if !fields.flag("with_pieces")?.unwrap_or(false) {
            return Ok(Json(json!({ "tokens": ids })));
        }
        // Bytes where a piece is not UTF-8 by itself.
        let piece = |id: u32| match tokenizer.piece(id) {
            piece if piece.is_empty() => json!(tokenizer.text(id)),
            piece => std::str::from_utf8(&piece).map_or_else(|_| json!(&piece[..]), |text| json!(text)),
        };
        let tokens: Vec<Value> = ids.into_iter().map(|id| json!({ "id": id, "piece": piece(id) })).collect();
        Ok(Json(json!({ "tokens": tokens })))
    })
    .await
}

/// `POST /detokenize`: `{"content": text}`.
///
/// # Errors
/// 400: `tokens` is no list of ids of the vocabulary. 503: the model loads.
pub async fn detokenize(State(app): State<Arc<App>>, Body(body): Body) -> Result<Json<Value>, ApiError> {
    blocking(move || {
        let tokenizer = app.model()?.engine.tokenizer();
        let most = tokenizer.n_vocab();
        let list = Fields(&body).list("tokens")?.unwrap_or_default();
        let id = |item: &Value| {
            let id = item.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|&id| (id as usize) < most);
            let expected = || format!("ids from 0 to {}", most.saturating_sub(1));
            id.ok_or_else(|| ApiError::field("tokens", &expected(), brief(item)))
        };
        let ids = list.iter().map(id).collect::<Result<Vec<_>, _>>()?;
        Ok(Json(json!({ "content": written(tokenizer, &ids) })))
    })
    .await
}

/// `POST /apply-template`: the prompt that a chat would get.
///
/// # Errors
/// 400: a field is wrong, or the template refuses the conversation. 503: the model loads.
pub async fn apply_template(State(app): State<Arc<App>>, Body(body): Body) -> Result<Json<Value>, ApiError> {
    blocking(move || {
        let model = app.model()?;
        let prepared = chat::conversation(&app, model, Fields(&body))?.prepare(&app)?;
        Ok(Json(json!({ "prompt": prepared.prompt })))
    })
    .await
}

/// `POST /v1/chat/completions/input_tokens`: how long that prompt is.
///
/// # Errors
/// 400: a field is wrong, or the template refuses the conversation. 503: the model loads.
pub async fn input_tokens(State(app): State<Arc<App>>, Body(body): Body) -> Result<Json<Value>, ApiError> {
    blocking(move || {
        let model = app.model()?;
        let prepared = chat::conversation(&app, model, Fields(&body))?.prepare(&app)?;
        let tokens = model.engine.prompt(&prepared.prompt);
        let tokens = tokens.map_err(|error| ApiError::bad(format!("messages: {error}")))?;
        Ok(Json(json!({ "object": "response.input_tokens", "input_tokens": tokens.len() })))
    })
    .await
}
