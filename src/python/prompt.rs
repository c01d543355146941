//! Prompts: a conversation in the model's own form, with what its answer may be and how it is read.

use pyo3::prelude::*;
use qrun::{
    engine::Engine,
    sampler::TokenMask,
    text::chat::{self, ChatRequest, Delta, Parser, Tool, ToolChoice},
};
use serde_json::{Map, Value, json};

use crate::{
    constraint,
    errors::{self, usage},
};

/// A conversation that is ready to be answered.
#[pyclass(module = "qrun._qrun", frozen)]
pub struct Prepared {
    /// Its text in the model's own form.
    #[pyo3(get)]
    text: String,
    /// Its tokens.
    #[pyo3(get)]
    pub tokens: Vec<u32>,
    pub mask: Option<TokenMask>,
    pub stops: Vec<String>,
    pub marks: Vec<u32>,
    /// Where there are tools, whose calls stand in the text, or channels.
    pub parser: Option<Parser>,
}

impl Prepared {
    /// `messages`: a JSON array as OpenAI's API has it; `extra`: a JSON object with `tools`, `tool_choice`,
    /// `template_kwargs`, `constraint`, `add_generation_prompt`.
    ///
    /// # Errors
    /// What is wrong with them; no template, or one that refuses the conversation.
    pub fn of(engine: &Engine, messages: &str, extra: &str) -> PyResult<Self> {
        let messages: Vec<Value> = parsed("messages", messages)?;
        let extra: Map<String, Value> = parsed("keywords", extra)?;
        let given = |name: &str| extra.get(name).filter(|value| !value.is_null());
        let tools = match given("tools") {
            None => Vec::new(),
            Some(Value::Array(list)) => list.iter().map(tool).collect::<PyResult<_>>()?,
            Some(other) => return Err(wrong("tools", "a list of tools", other)),
        };
        let request = ChatRequest {
            messages: messages.iter().map(chat::message).collect::<Result<_, _>>().map_err(errors::chat)?,
            tool_choice: given("tool_choice").map_or(Ok(ToolChoice::Auto), tool_choice)?,
            kwargs: match given("template_kwargs") {
                None => Map::new(),
                Some(Value::Object(map)) => map.clone(),
                Some(other) => return Err(wrong("template_kwargs", "a dict", other)),
            },
            format: given("constraint").map(constraint::spec).transpose()?,
            add_generation_prompt: given("add_generation_prompt").is_none_or(|value| value != &json!(false)),
            tools,
            ..ChatRequest::default()
        };
        let told_apart = !request.tools.is_empty() || chat::channels(engine).is_some();
        let prepared = chat::prepare(engine, &request).map_err(errors::chat)?;
        Ok(Self {
            tokens: engine.prompt(&prepared.prompt).map_err(errors::of)?,
            text: prepared.prompt,
            mask: prepared.mask,
            stops: prepared.stops,
            // Without tools or channels the text is what the program writes.
            marks: if told_apart { prepared.marks } else { Vec::new() },
            parser: told_apart.then_some(prepared.parser),
        })
    }
}

fn parsed<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| usage(format!("{what}: {error}")))
}

fn wrong(name: &str, expected: &str, found: &Value) -> PyErr {
    usage(format!("{name}: expected {expected}, found {found}"))
}

/// A tool as OpenAI's API has it.
fn tool(value: &Value) -> PyResult<Tool> {
    let expected = r#"{"type": "function", "function": {"name": …, "parameters": {…}}}"#;
    let function = value.get("function").unwrap_or(value);
    let name = function.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    Ok(Tool {
        name: name.ok_or_else(|| wrong("tools", expected, value))?.to_owned(),
        description: function.get("description").and_then(Value::as_str).map(str::to_owned),
        parameters: function.get("parameters").cloned().unwrap_or_else(|| json!({ "type": "object" })),
    })
}

fn tool_choice(value: &Value) -> PyResult<ToolChoice> {
    let expected = r#""auto", "none", "required" or {"function": {"name": …}}"#;
    Ok(match value.as_str() {
        Some("auto") => ToolChoice::Auto,
        Some("none") => ToolChoice::None,
        Some("required") => ToolChoice::Required,
        _ => match value.pointer("/function/name").and_then(Value::as_str) {
            Some(name) => ToolChoice::Named(name.to_owned()),
            None => return Err(wrong("tool_choice", expected, value)),
        },
    })
}

/// What of an answer's text is for the reader, as it comes: the pieces together are the `content` of its message.
#[pyclass(module = "qrun._qrun")]
pub struct Content(pub Parser);

#[pymethods]
impl Content {
    /// Takes the next piece of text.
    fn push(&mut self, text: &str) -> String {
        content(self.0.push(text))
    }

    /// The answer has ended: what was held back.
    fn finish(&mut self) -> String {
        content(self.0.finish())
    }
}

fn content(deltas: Vec<Delta>) -> String {
    let text = |delta| match delta {
        Delta::Content(text) => Some(text),
        Delta::Reasoning(_) | Delta::ToolCall { .. } | Delta::Arguments { .. } => None,
    };
    deltas.into_iter().filter_map(text).collect()
}

/// What an answer says, as a message of OpenAI's API: `content`, and where there are any `reasoning_content`, `tool_calls`.
pub fn message(parser: Option<Parser>, text: &str) -> Value {
    let deltas = match parser {
        Some(mut parser) => {
            let mut deltas = parser.push(text);
            deltas.extend(parser.finish());
            deltas
        }
        None => vec![Delta::Content(text.to_owned())],
    };
    let (mut content, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for delta in deltas {
        match delta {
            Delta::Content(text) => content.push_str(&text),
            Delta::Reasoning(text) => reasoning.push_str(&text),
            Delta::ToolCall { id, name, .. } => calls.push((id, name, String::new())),
            Delta::Arguments { index, text } => {
                if let Some((_, _, arguments)) = calls.get_mut(index) {
                    arguments.push_str(&text);
                }
            }
        }
    }
    let mut message = json!({ "role": "assistant", "content": content });
    if !reasoning.is_empty() {
        message["reasoning_content"] = reasoning.into();
    }
    if !calls.is_empty() {
        let call = |(id, name, arguments)| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
        message["tool_calls"] = calls.into_iter().map(call).collect();
    }
    message
}
