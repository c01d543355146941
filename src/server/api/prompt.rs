//! `prompt`: a text, tokens, both mixed, or a list of such.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    engine::Engine,
    server::{
        conversation::{Format, blocking, wrong_format},
        error::ApiError,
        fields::{Fields, brief},
        job::Ask,
        state::App,
    },
    text::tokenizer::{Encode, Tokenizer},
};

/// Most prompts of one request.
const PROMPTS: usize = 1024;

/// Takes the prompts out of a body.
///
/// # Errors
/// No prompt, or too many.
pub fn take(body: &mut Map<String, Value>) -> Result<Vec<Value>, ApiError> {
    let value = body.remove("prompt").filter(|value| !value.is_null()).ok_or_else(|| ApiError::missing("prompt"))?;
    match value {
        // Several prompts where one of the items is no piece of one.
        Value::Array(items) if items.iter().any(|item| item.is_array() || item.is_object()) || all_texts(&items) => {
            if items.len() > PROMPTS {
                return Err(ApiError::field("prompt", &format!("at most {PROMPTS} prompts"), items.len()));
            }
            Ok(items)
        }
        value => Ok(vec![value]),
    }
}

/// Puts the tokens of prompts into `ask`, and what the answers have to be. On a thread that may take its time, once
/// there is room for the answers.
///
/// # Errors
/// A prompt of another type, a token outside of the vocabulary, a wrong format; 503 where there is no room.
pub async fn prepare(
    app: &Arc<App>,
    prompts: Vec<Value>,
    format: Option<Format>,
    mut ask: Ask,
) -> Result<Ask, ApiError> {
    ask.room = Some(app.admit(ask.n * prompts.len())?);
    let app = app.clone();
    let work = move || {
        let engine = &app.model()?.engine;
        ask.prompts = prompts.iter().map(|value| tokens(engine, value)).collect::<Result<_, _>>()?;
        ask.request.mask = format
            .map(|(field, spec)| {
                let compiled = engine.grammars().and_then(|grammars| grammars.compile(&spec));
                compiled.map_err(|error| wrong_format(field, &error))
            })
            .transpose()?;
        Ok(ask)
    };
    blocking(work).await
}

fn all_texts(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(Value::is_string)
}

/// The tokens of one prompt: of a text, of ids, of texts and ids in turns, or of `{"prompt_string": text}`.
///
/// # Errors
/// Anything else; a token outside of the vocabulary.
fn tokens(engine: &Engine, value: &Value) -> Result<Vec<u32>, ApiError> {
    let wrong = |found: &Value| ApiError::field("prompt", "a text, a list of token ids, or both mixed", brief(found));
    match value {
        Value::String(text) => engine.prompt(text).map_err(|error| ApiError::bad(format!("prompt: {error}"))),
        Value::Object(map) => match Fields(map).text("prompt_string")? {
            Some(_) if map.get("multimodal_data").is_some_and(|data| data.as_array().is_none_or(|d| !d.is_empty())) => {
                Err(ApiError::unsupported("multimodal_data", "images and sound are not implemented"))
            }
            Some(text) => tokens(engine, &text.into()),
            None => Err(wrong(value)),
        },
        Value::Array(items) => {
            let mut all = Vec::new();
            for (i, item) in items.iter().enumerate() {
                match item {
                    Value::String(text) if i == 0 => all.extend(tokens(engine, &text.as_str().into())?),
                    Value::String(text) => {
                        let how = Encode { add_special: false, parse_special: true };
                        let ids = engine.tokenizer().encode(text, how);
                        all.extend(ids.map_err(|error| ApiError::bad(format!("prompt: {error}")))?);
                    }
                    item => all.push(id(engine, item).ok_or_else(|| wrong(item))??),
                }
            }
            Ok(all)
        }
        other => Err(wrong(other)),
    }
}

/// A token id within the vocabulary; `None` where it is not a whole number.
fn id(engine: &Engine, value: &Value) -> Option<Result<u32, ApiError>> {
    let n = value.as_i64()?;
    let most = engine.model().config.n_vocab;
    let known = u32::try_from(n).ok().filter(|&id| (id as usize) < most);
    Some(known.ok_or_else(|| ApiError::field("prompt", &format!("token ids from 0 to {}", most - 1), n)))
}

/// The text of tokens with special tokens written out.
pub fn written(tokenizer: &Tokenizer, tokens: &[u32]) -> String {
    let bytes = tokens.iter().flat_map(|&id| match tokenizer.piece(id) {
        piece if piece.is_empty() => tokenizer.text(id).as_bytes().to_vec(),
        piece => piece.into_owned(),
    });
    String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}
