//! What Anthropic's clients ask: the conversation, its tools and the form of its answer.

use serde_json::{Value, json};

use crate::{
    server::{
        api::chat::MESSAGES,
        conversation::{Conversation, with_defaults},
        error::ApiError,
        fields::{Fields, brief},
        state::App,
    },
    text::{
        chat::{ChatRequest, Tool, ToolChoice},
        grammar::GrammarSpec,
        template::Message,
    },
};

/// The conversation in the shape that all dialects share.
///
/// # Errors
/// No messages; a block, a tool or a choice of a kind that there is not.
pub fn conversation(app: &App, fields: Fields) -> Result<Conversation, ApiError> {
    let list = fields.required("messages", fields.list("messages"))?;
    if list.is_empty() || list.len() > MESSAGES {
        return Err(ApiError::field("messages", &format!("1 to {MESSAGES} messages"), list.len()));
    }
    let mut messages = Vec::new();
    if let Some(system) = fields.get("system") {
        messages.push(Message::new("system", text(system, "system")?));
    }
    for value in list {
        let turn = value.as_object().map(Fields).ok_or_else(|| wrong_message(value))?;
        match (turn.text("role")?, turn.get("content")) {
            (Some("user"), Some(content)) => user(content, &mut messages)?,
            (Some("assistant"), Some(content)) => messages.push(assistant(content)?),
            (Some("system"), Some(content)) => messages.push(Message::new("system", text(content, "messages")?)),
            _ => return Err(wrong_message(value)),
        }
    }
    let (tool_choice, parallel_tool_calls) = tool_choice(fields)?;
    let mut kwargs = app.model()?.template_kwargs.clone();
    let config = fields.object("output_config")?;
    if let Some(effort) = config.map(|config| config.text("effort")).transpose()?.flatten() {
        kwargs.entry("reasoning_effort").or_insert_with(|| effort.into());
    }
    let asked = thinking(fields)?;
    let thinking = with_defaults(&mut kwargs, asked);
    let chat = ChatRequest {
        continue_final_message: messages.last().is_some_and(|last| last.role == "assistant"),
        messages,
        tools: tools(fields)?,
        tool_choice,
        parallel_tool_calls,
        format: config.map(format).transpose()?.flatten(),
        reasoning_format: app.options.thoughts(asked),
        thinking,
        kwargs,
        ..ChatRequest::default()
    };
    Ok(Conversation { chat, format: "output_config.format" })
}

fn wrong_message(found: &Value) -> ApiError {
    ApiError::field("messages", r#"{"role": "user" or "assistant", "content": …}"#, brief(found))
}

/// A text, or blocks of text.
fn text(content: &Value, field: &str) -> Result<String, ApiError> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => {
            Ok(blocks.iter().map(|block| block_text(block, field)).collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        other => Err(ApiError::field(field, "a text or a list of blocks", brief(other))),
    }
}

fn block_text<'a>(block: &'a Value, field: &str) -> Result<&'a str, ApiError> {
    match (kind(block), block.get("text").and_then(Value::as_str)) {
        ("text", Some(text)) => Ok(text),
        ("text", None) => Err(ApiError::field(field, "a \"text\" in a block of type \"text\"", brief(block))),
        (other, _) => Err(unknown_block(field, other)),
    }
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn unknown_block(field: &str, kind: &str) -> ApiError {
    ApiError::unsupported(field, &format!("a block of type {kind:?} cannot be read here; this server reads text"))
}

/// A turn of the user: results of calls are messages of their own.
fn user(content: &Value, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let Value::Array(blocks) = content else {
        messages.push(Message::new("user", text(content, "messages")?));
        return Ok(());
    };
    let mut texts = Vec::new();
    for block in blocks {
        if kind(block) != "tool_result" {
            texts.push(block_text(block, "messages")?);
            continue;
        }
        flush(&mut texts, messages);
        let fields = block.as_object().map(Fields).ok_or_else(|| wrong_message(block))?;
        let id = fields.required("tool_use_id", fields.text("tool_use_id"))?;
        let result = fields.get("content").map(|content| text(content, "messages")).transpose()?.unwrap_or_default();
        let mut message = Message::new("tool", result);
        message.extra.insert("tool_call_id".into(), id.into());
        messages.push(message);
    }
    flush(&mut texts, messages);
    Ok(())
}

fn flush(texts: &mut Vec<&str>, messages: &mut Vec<Message>) {
    if !texts.is_empty() {
        messages.push(Message::new("user", texts.join("\n")));
        texts.clear();
    }
}

/// A turn of the assistant: text, thoughts and calls in one message.
fn assistant(content: &Value) -> Result<Message, ApiError> {
    let Value::Array(blocks) = content else { return Ok(Message::new("assistant", text(content, "messages")?)) };
    let (mut texts, mut thoughts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for block in blocks {
        match kind(block) {
            "thinking" => thoughts.extend(block.get("thinking").and_then(Value::as_str)),
            // What is hidden cannot be shown to the model either.
            "redacted_thinking" => {}
            "tool_use" => calls.push(call(block)?),
            _ => texts.push(block_text(block, "messages")?),
        }
    }
    let mut message = Message::new("assistant", texts.join("\n"));
    if !thoughts.is_empty() {
        message.extra.insert("reasoning_content".into(), thoughts.join("\n").into());
    }
    if !calls.is_empty() {
        message.extra.insert("tool_calls".into(), calls.into());
    }
    Ok(message)
}

fn call(block: &Value) -> Result<Value, ApiError> {
    let fields = block.as_object().map(Fields).ok_or_else(|| wrong_message(block))?;
    let name = fields.required("name", fields.text("name"))?;
    let id = fields.required("id", fields.text("id"))?;
    let input = fields.get("input").cloned().unwrap_or_else(|| json!({}));
    Ok(json!({ "id": id, "type": "function", "function": { "name": name, "arguments": input } }))
}

fn tools(fields: Fields) -> Result<Vec<Tool>, ApiError> {
    fields.list("tools")?.unwrap_or_default().iter().map(tool).collect()
}

fn tool(value: &Value) -> Result<Tool, ApiError> {
    let wrong = || ApiError::field("tools", r#"{"name": …, "input_schema": {…}}"#, brief(value));
    let fields = value.as_object().map(Fields).ok_or_else(wrong)?;
    if let Some(kind) = fields.text("type")?.filter(|kind| *kind != "custom") {
        return Err(ApiError::unsupported(
            "tools",
            &format!("{kind:?} runs on Anthropic's servers; give tools of your own"),
        ));
    }
    let name = fields.text("name")?.filter(|name| !name.is_empty()).ok_or_else(wrong)?;
    let parameters = fields.object("input_schema")?.ok_or_else(wrong)?;
    Ok(Tool {
        name: name.into(),
        description: fields.text("description")?.map(str::to_owned),
        parameters: Value::Object(parameters.0.clone()),
    })
}

/// Whether tools are called, and whether more than one at a time.
fn tool_choice(fields: Fields) -> Result<(ToolChoice, bool), ApiError> {
    let Some(choice) = fields.object("tool_choice")? else { return Ok((ToolChoice::Auto, true)) };
    let kind = choice.text("type")?.unwrap_or_default();
    let choose = match kind {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => {
            let name = choice.text("name")?.ok_or_else(|| ApiError::missing("tool_choice.name"))?;
            ToolChoice::Named(name.into())
        }
        other => return Err(ApiError::field("tool_choice.type", "auto, any, tool or none", format!("{other:?}"))),
    };
    Ok((choose, !choice.flag("disable_parallel_tool_use")?.unwrap_or(false)))
}

/// `thinking`: the model thinks, or does not, or as it is used to.
fn thinking(fields: Fields) -> Result<Option<bool>, ApiError> {
    let Some(thinking) = fields.object("thinking")? else { return Ok(None) };
    match thinking.text("type")?.unwrap_or_default() {
        "enabled" | "between_tools" => Ok(Some(true)),
        "disabled" => Ok(Some(false)),
        "adaptive" => Ok(None),
        other => Err(ApiError::field("thinking.type", "enabled, disabled or adaptive", format!("{other:?}"))),
    }
}

/// `output_config.format`: what the answer's text has to be.
fn format(config: Fields) -> Result<Option<GrammarSpec>, ApiError> {
    let Some(format) = config.object("format")? else { return Ok(None) };
    match (format.text("type")?, format.object("schema")?) {
        (Some("json_schema"), Some(Fields(schema))) => Ok(Some(GrammarSpec::JsonSchema(Value::Object(schema.clone())))),
        (Some("json_schema"), None) => Err(ApiError::missing("output_config.format.schema")),
        (other, _) => {
            Err(ApiError::field("output_config.format.type", "json_schema", other.unwrap_or("none").to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    /// A turn as Anthropic writes it, and the messages that templates see: role, content, what else there is.
    #[test]
    fn turns_become_messages() {
        let more = |value: Value| value.as_object().cloned().unwrap_or_default();
        let function = json!({ "name": "f", "arguments": { "x": 1 } });
        let called = json!({ "tool_calls": [{ "id": "c", "type": "function", "function": function }] });
        type Turn = (&'static str, &'static str, Map<String, Value>);
        let cases: [(bool, Value, Vec<Turn>); 6] = [
            (true, json!("hi"), vec![("user", "hi", Map::new())]),
            (
                true,
                json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b", "cache_control": {} }]),
                vec![("user", "a\nb", Map::new())],
            ),
            (
                true,
                json!([
                    { "type": "tool_result", "tool_use_id": "c", "content": "7" },
                    { "type": "tool_result", "tool_use_id": "d", "content": [{ "type": "text", "text": "8" }] },
                    { "type": "text", "text": "so?" },
                ]),
                vec![
                    ("tool", "7", more(json!({ "tool_call_id": "c" }))),
                    ("tool", "8", more(json!({ "tool_call_id": "d" }))),
                    ("user", "so?", Map::new()),
                ],
            ),
            (false, json!("yes"), vec![("assistant", "yes", Map::new())]),
            (
                false,
                json!([{ "type": "text", "text": "a" }, { "type": "tool_use", "id": "c", "name": "f", "input": { "x": 1 } }]),
                vec![("assistant", "a", more(called))],
            ),
            (
                false,
                json!([{ "type": "thinking", "thinking": "hm", "signature": "" }, { "type": "text", "text": "a" }]),
                vec![("assistant", "a", more(json!({ "reasoning_content": "hm" })))],
            ),
        ];
        for (of_user, content, expected) in cases {
            let mut messages = Vec::new();
            match of_user {
                true => user(&content, &mut messages).expect("a turn of the user"),
                false => messages.push(assistant(&content).expect("a turn of the assistant")),
            }
            let found: Vec<_> = messages.iter().map(|m| (&*m.role, &*m.content, m.extra.clone())).collect();
            assert_eq!(found, expected, "{content}");
        }
    }
}
