//! What Ollama's clients ask.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    server::{
        api::{
            chat::{MESSAGES, n_probs, tools},
            prompt, sampling,
        },
        body::OWNER,
        conversation::{Conversation, prepare, with_defaults},
        error::ApiError,
        fields::{Fields, brief},
        job::Ask,
        state::{App, Loaded},
    },
    text::{
        chat::{self, ChatRequest, Parser},
        grammar::GrammarSpec,
        template::Message,
    },
};

/// Fields of `/api/generate` that would change the text, and why they cannot be had.
const REFUSED: &[(&str, &str)] = &[
    ("suffix", "text that is to follow the answer is not implemented"),
    ("template", "the model's own template is used; start the server with --chat-template for another one"),
    ("context", "no state is kept here; send the conversation to /api/chat"),
];

/// A conversation.
///
/// # Errors
/// A message, tool, format or option that is none; images.
pub async fn chat(app: &Arc<App>, fields: Fields<'_>) -> Result<(Ask, Parser), ApiError> {
    let model = app.model()?;
    let list = fields.list("messages")?.unwrap_or_default();
    if list.len() > MESSAGES {
        return Err(ApiError::field("messages", &format!("at most {MESSAGES} messages"), list.len()));
    }
    let messages = list.iter().map(message).collect::<Result<Vec<_>, _>>()?;
    prepare(app, conversation(app, messages, fields)?, ask(app, model, fields)?).await
}

/// One prompt, in the model's template or (`raw`) as it is; then there is nothing to read in the answer.
///
/// # Errors
/// As [`chat`].
pub async fn generate(app: &Arc<App>, fields: Fields<'_>) -> Result<(Ask, Option<Parser>), ApiError> {
    let model = app.model()?;
    for (name, why) in REFUSED {
        if fields.get(name).is_some_and(|value| !is_empty(value)) {
            return Err(ApiError::unsupported(name, why));
        }
    }
    no_images(fields)?;
    let text = fields.text("prompt")?.unwrap_or_default();
    let ask = ask(app, model, fields)?;
    if !fields.flag("raw")?.unwrap_or(false) {
        let system = fields.text("system")?.filter(|text| !text.is_empty()).map(|text| Message::new("system", text));
        let messages = system.into_iter().chain([Message::new("user", text)]).collect();
        let (ask, parser) = prepare(app, conversation(app, messages, fields)?, ask).await?;
        return Ok((ask, Some(parser)));
    }
    Ok((prompt::prepare(app, vec![text.into()], format(fields)?.map(|spec| ("format", spec)), ask).await?, None))
}

fn is_empty(value: &Value) -> bool {
    value.as_str().is_some_and(str::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

fn no_images(fields: Fields) -> Result<(), ApiError> {
    match fields.get("images") {
        Some(images) if !is_empty(images) => Err(ApiError::unsupported("images", "images are not implemented")),
        _ => Ok(()),
    }
}

/// `options`, and probabilities.
fn ask(app: &App, model: &Loaded, fields: Fields) -> Result<Ask, ApiError> {
    let mut options = fields.object("options")?.map_or_else(Map::new, |options| options.0.clone());
    // With whom a request shares its cache stands beside them: whose key it has is not theirs to say.
    for name in [OWNER, "cache_salt"] {
        options.extend(fields.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    let mut ask = sampling::ask(app, model, Fields(&options), &["num_predict"])?;
    ask.request.n_probs = n_probs(fields)?;
    Ok(ask)
}

fn conversation(app: &App, messages: Vec<Message>, fields: Fields) -> Result<Conversation, ApiError> {
    let mut kwargs = app.model()?.template_kwargs.clone();
    let asked = match fields.get("think") {
        Some(Value::String(effort)) if ["low", "medium", "high"].contains(&effort.as_str()) => {
            kwargs.insert("reasoning_effort".into(), effort.clone().into());
            Some(true)
        }
        Some(Value::Bool(thinks)) => Some(*thinks),
        Some(other) => return Err(ApiError::field("think", "true, false, low, medium or high", brief(other))),
        None => None,
    };
    let thinking = with_defaults(&mut kwargs, asked);
    let chat = ChatRequest {
        continue_final_message: messages.last().is_some_and(|last| last.role == "assistant"),
        messages,
        tools: tools(fields)?,
        format: format(fields)?,
        reasoning_format: app.options.thoughts(asked),
        thinking,
        kwargs,
        ..ChatRequest::default()
    };
    Ok(Conversation { chat, format: "format" })
}

/// `format`: `json`, or a schema.
fn format(fields: Fields) -> Result<Option<GrammarSpec>, ApiError> {
    match fields.get("format") {
        None => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if text == "json" => Ok(Some(GrammarSpec::JsonObject)),
        Some(schema @ Value::Object(_)) => Ok(Some(GrammarSpec::JsonSchema(schema.clone()))),
        Some(other) => Err(ApiError::field("format", "\"json\" or a JSON schema", brief(other))),
    }
}

/// A message under the names that all dialects share.
fn message(value: &Value) -> Result<Message, ApiError> {
    let mut fields = value.as_object().cloned().unwrap_or_default();
    no_images(Fields(&fields))?;
    fields.shift_remove("images");
    for (theirs, ours) in [("thinking", "reasoning_content"), ("tool_name", "name")] {
        if let Some(value) = fields.shift_remove(theirs) {
            fields.insert(ours.into(), value);
        }
    }
    // Calls need no ids here; templates may ask for them.
    if let Some(calls) = fields.get_mut("tool_calls").and_then(Value::as_array_mut) {
        for (index, call) in calls.iter_mut().enumerate() {
            if let Some(call) = call.as_object_mut() {
                call.entry("type").or_insert_with(|| "function".into());
                call.entry("id").or_insert_with(|| json!(format!("call_{index}")));
            }
        }
    }
    Ok(chat::message(&Value::Object(fields))?)
}
