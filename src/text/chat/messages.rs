//! Messages as OpenAI's API writes them, and as templates take them.

use serde_json::Value;

use super::ChatError;
use crate::text::template::Message;

/// A message of OpenAI's API: `role`, `content` (text, a list of text parts, or null), and what else templates look at.
///
/// # Errors
/// No role, content of another kind, a part that is not text.
pub fn message(value: &Value) -> Result<Message, ChatError> {
    let wrong = |detail: String| ChatError::Field { field: "messages", detail };
    let fields = value.as_object().ok_or_else(|| wrong(format!("expected objects, found {}", kind(value))))?;
    let role = fields.get("role").and_then(Value::as_str).filter(|role| !role.is_empty());
    let role = role.ok_or_else(|| wrong("a message needs a \"role\", a text".into()))?;
    let content = match fields.get("content") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().map(part).collect::<Result<Vec<_>, _>>()?.join("\n"),
        Some(other) => {
            return Err(wrong(format!("\"content\" is a text or a list of text parts, not {}", kind(other))));
        }
    };
    let extra = fields.iter().filter(|(key, _)| !matches!(key.as_str(), "role" | "content"));
    let extra = extra.filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.clone(), value.clone())).collect();
    Ok(Message { role: role.into(), content, extra })
}

/// What a value is; not the value itself, which may be all that somebody has said.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The text of one part of a message.
fn part(value: &Value) -> Result<&str, ChatError> {
    let wrong = |detail: String| ChatError::Field { field: "messages", detail };
    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
    match value.get("text").and_then(Value::as_str) {
        Some(text) if kind == "text" => Ok(text),
        Some(_) | None if kind != "text" => {
            Err(wrong(format!("a part of type {kind:?}; this model reads parts of type \"text\" only")))
        }
        _ => Err(wrong("a part of type \"text\" needs a \"text\"".into())),
    }
}
