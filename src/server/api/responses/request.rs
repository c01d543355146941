//! What is asked of `/v1/responses`: items of a conversation, flat tools, the form of the answer.

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

/// Fields that need what this server does not keep or do.
const REFUSED: &[(&str, &str)] = &[
    ("previous_response_id", "no answers are kept here; send the whole conversation as input"),
    ("conversation", "no conversations are kept here; send the whole conversation as input"),
    ("prompt", "no prompts are kept here; send the text as instructions and input"),
    ("background", "answers come to those who wait; leave it out, or stream"),
];

/// The conversation in the shape that all dialects share.
///
/// # Errors
/// No input; an item, part, tool or format of a kind that there is not.
pub fn conversation(app: &App, fields: Fields) -> Result<Conversation, ApiError> {
    for (name, why) in REFUSED {
        if fields.get(name).is_some_and(|value| *value != Value::Bool(false)) {
            return Err(ApiError::unsupported(name, why));
        }
    }
    let mut messages = Vec::new();
    if let Some(text) = fields.text("instructions")?.filter(|text| !text.is_empty()) {
        messages.push(Message::new("system", text));
    }
    match fields.get("input").ok_or_else(|| ApiError::missing("input"))? {
        Value::String(text) => messages.push(Message::new("user", text.clone())),
        Value::Array(items) if (1..=MESSAGES).contains(&items.len()) => {
            items.iter().try_for_each(|value| item(value, &mut messages))?;
        }
        other => return Err(ApiError::field("input", &format!("a text or 1 to {MESSAGES} items"), brief(other))),
    }
    let mut kwargs = app.model()?.template_kwargs.clone();
    let effort = fields.object("reasoning")?.map(|reasoning| reasoning.text("effort")).transpose()?.flatten();
    if let Some(effort) = effort {
        kwargs.entry("reasoning_effort").or_insert_with(|| effort.into());
    }
    // The least effort is none.
    let thinking = with_defaults(&mut kwargs, effort.map(|effort| effort != "none"));
    let chat = ChatRequest {
        continue_final_message: messages.last().is_some_and(|last| last.role == "assistant"),
        messages,
        tools: fields.list("tools")?.unwrap_or_default().iter().map(tool).collect::<Result<_, _>>()?,
        tool_choice: tool_choice(fields)?,
        parallel_tool_calls: fields.flag("parallel_tool_calls")?.unwrap_or(true),
        format: format(fields)?,
        reasoning_format: app.options.reasoning_format,
        thinking,
        kwargs,
        ..ChatRequest::default()
    };
    Ok(Conversation { chat, format: "text.format" })
}

/// Of how many of the likeliest tokens the probability is wanted.
///
/// # Errors
/// More than 20.
pub fn n_probs(fields: Fields) -> Result<Option<usize>, ApiError> {
    let top = fields.whole("top_logprobs", 0..=20)?;
    let include = fields.list("include")?.unwrap_or_default();
    let wanted = include.iter().any(|item| item == "message.output_text.logprobs");
    Ok(top.map(|n| n as usize).filter(|&n| n > 0 || wanted).or(wanted.then_some(0)))
}

/// One item. What the assistant thought, said and called in a row is one message.
fn item(value: &Value, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let fields = value.as_object().map(Fields).ok_or_else(|| ApiError::field("input", "items", brief(value)))?;
    match fields.text("type")?.unwrap_or("message") {
        "message" => {
            let role = fields.required("role", fields.text("role"))?;
            if !["user", "assistant", "system", "developer"].contains(&role) {
                return Err(ApiError::field("role", "user, assistant, system or developer", format!("{role:?}")));
            }
            let content = text(fields.get("content").ok_or_else(|| ApiError::missing("content"))?)?;
            match messages.last_mut() {
                Some(last) if role == "assistant" && only_thoughts(last) => last.content = content,
                _ => messages.push(Message::new(role, content)),
            }
        }
        "reasoning" => {
            let parts = |name: &str| fields.list(name).map(|list| list.unwrap_or_default().to_vec());
            let mut parts: Vec<Value> = parts("content")?.into_iter().chain(parts("summary")?).collect();
            parts.retain(|part| part.get("text").is_some_and(Value::is_string));
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            if !texts.is_empty() {
                let mut message = Message::new("assistant", "");
                message.extra.insert("reasoning_content".into(), texts.join("\n").into());
                messages.push(message);
            }
        }
        "function_call" => {
            let read = |name: &str| fields.required(name, fields.text(name));
            let function = json!({ "name": read("name")?, "arguments": read("arguments")? });
            let call = json!({ "id": read("call_id")?, "type": "function", "function": function });
            if messages.last().is_none_or(|last| last.role != "assistant") {
                messages.push(Message::new("assistant", ""));
            }
            if let Some(last) = messages.last_mut() {
                let calls = last.extra.entry("tool_calls").or_insert_with(|| json!([]));
                calls.as_array_mut().into_iter().for_each(|calls| calls.push(call.clone()));
            }
        }
        "function_call_output" => {
            let output = text(fields.get("output").ok_or_else(|| ApiError::missing("output"))?)?;
            let mut message = Message::new("tool", output);
            let id = fields.required("call_id", fields.text("call_id"))?;
            message.extra.insert("tool_call_id".into(), id.into());
            messages.push(message);
        }
        other => {
            let expected = "message, reasoning, function_call or function_call_output";
            return Err(ApiError::field("input", &format!("items of type {expected}"), format!("{other:?}")));
        }
    }
    Ok(())
}

fn only_thoughts(message: &Message) -> bool {
    message.role == "assistant" && message.content.is_empty() && !message.extra.contains_key("tool_calls")
}

/// A text, or parts of text.
fn text(content: &Value) -> Result<String, ApiError> {
    let part = |value: &Value| {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        let text = match kind {
            "input_text" | "output_text" | "text" => value.get("text").and_then(Value::as_str),
            "refusal" => value.get("refusal").and_then(Value::as_str),
            _ => None,
        };
        let why = || format!("a part of type {kind:?} cannot be read here; this server reads text");
        text.map(str::to_owned).ok_or_else(|| ApiError::unsupported("input", &why()))
    };
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => Ok(parts.iter().map(part).collect::<Result<Vec<_>, _>>()?.join("\n")),
        other => Err(ApiError::field("input", "a text or a list of parts", brief(other))),
    }
}

fn tool(value: &Value) -> Result<Tool, ApiError> {
    let wrong = || ApiError::field("tools", r#"{"type": "function", "name": …, "parameters": {…}}"#, brief(value));
    let fields = value.as_object().map(Fields).ok_or_else(wrong)?;
    let kind = fields.text("type")?.unwrap_or("function");
    if kind != "function" {
        return Err(ApiError::unsupported(
            "tools",
            &format!("{kind:?} is none of this server's; it has function tools"),
        ));
    }
    Ok(Tool {
        name: fields.text("name")?.filter(|name| !name.is_empty()).ok_or_else(wrong)?.into(),
        description: fields.text("description")?.map(str::to_owned),
        parameters: fields.get("parameters").cloned().unwrap_or_else(|| json!({ "type": "object" })),
    })
}

fn tool_choice(fields: Fields) -> Result<ToolChoice, ApiError> {
    let expected = r#"auto, none, required, or {"type": "function", "name": …}"#;
    let Some(value) = fields.get("tool_choice") else { return Ok(ToolChoice::Auto) };
    let of_function = value.get("type").is_some_and(|kind| kind == "function");
    match value.as_str() {
        Some("auto") => Some(ToolChoice::Auto),
        Some("none") => Some(ToolChoice::None),
        Some("required") => Some(ToolChoice::Required),
        Some(_) => None,
        None => {
            value.get("name").and_then(Value::as_str).filter(|_| of_function).map(|name| ToolChoice::Named(name.into()))
        }
    }
    .ok_or_else(|| ApiError::field("tool_choice", expected, brief(value)))
}

/// `text.format`: what the answer's text has to be.
fn format(fields: Fields) -> Result<Option<GrammarSpec>, ApiError> {
    let Some(text) = fields.object("text")? else { return Ok(None) };
    let Some(format) = text.object("format")? else { return Ok(None) };
    match format.text("type")?.unwrap_or_default() {
        "text" => Ok(None),
        "json_object" => Ok(Some(GrammarSpec::JsonObject)),
        "json_schema" => {
            let schema = format.get("schema").ok_or_else(|| ApiError::missing("text.format.schema"))?;
            Ok(Some(GrammarSpec::JsonSchema(schema.clone())))
        }
        other => Err(ApiError::field("text.format.type", "text, json_object or json_schema", format!("{other:?}"))),
    }
}
