//! From the messages of a request to the text that the model reads.

use serde_json::{Map, Value, json};

use super::{ChatError, ChatRequest, Tool, syntax::Syntax};
use crate::{
    engine::Engine,
    text::template::{Message, Render, TemplateError},
};

/// Stands at the end of a message that is to be gone on with; no template changes it, and no text has it.
const HERE: &str = "\u{e000}qrun-goes-on-here\u{e001}";

/// Marks a message that was a tool's.
const RESULT: &str = "tool_response";

/// The prompt. `syntax`: how calls are written, where there are tools that may be called.
///
/// # Errors
/// A template that is broken or refuses the conversation.
pub fn render(
    engine: &Engine,
    source: &str,
    request: &ChatRequest,
    syntax: Option<Syntax>,
) -> Result<String, ChatError> {
    // DeepSeek's own templates write calls, but do not show the tools.
    let native = syntax.is_some_and(|syntax| match syntax {
        Syntax::Marked(_) => source.contains("tools"),
        _ => syntax.is_native(),
    });
    // Calls of earlier turns are written as the template has them, or as ours where it knows none.
    let knows_calls = source.contains("tool_calls");
    let as_text = source.contains("arguments is string") || source.contains("arguments is not string");
    let mut messages: Vec<Message> = request.messages.clone();
    for message in &mut messages {
        if message.role == "developer" && !source.contains("developer") {
            message.role = "system".into();
        }
        if !knows_calls || syntax == Some(Syntax::Generic) {
            plain(message);
        } else if !as_text {
            parse_arguments(message);
        }
        // DeepSeek's first one writes calls only where there is no content, not even an empty one.
        let called = message.content.is_empty() && message.extra.contains_key("tool_calls");
        if called && source.contains("['content'] is none") {
            message.extra.insert("content".into(), Value::Null);
        }
    }
    // Templates that know no tools want the roles in turns.
    messages.dedup_by(|next, first| {
        let both = first.extra.contains_key(RESULT) && next.extra.contains_key(RESULT);
        if both {
            first.content = format!("{}\n{}", first.content, next.content);
        }
        both
    });
    if let (Some(syntax), false) = (syntax, native) {
        describe(&mut messages, &request.tools, &syntax.example());
    }
    let goes_on = request.continue_final_message;
    if goes_on {
        match messages.last_mut() {
            Some(last) if last.role == "assistant" => last.content = format!("{}{HERE}", last.content.trim_end()),
            _ => {
                let detail = "continue_final_message needs a last message of the assistant".into();
                return Err(ChatError::Field { field: "messages", detail });
            }
        }
    }
    let mut kwargs = Map::new();
    for name in ["enable_thinking", "thinking"] {
        kwargs.extend(request.thinking.map(|thinking| (name.to_owned(), json!(thinking))));
    }
    // What firefunction's template calls its tools: a text, and always there.
    if source.contains("functions") {
        let tools: Vec<Value> = request.tools.iter().map(described).collect();
        kwargs.insert("functions".into(), Value::Array(tools).to_string().into());
    }
    kwargs.extend(request.kwargs.clone());
    let options = Render {
        add_generation_prompt: request.add_generation_prompt && !goes_on,
        kwargs,
        tools: native.then(|| request.tools.iter().map(described).collect()),
        ..Render::default()
    };
    let mut prompt = attempt(engine, &messages, &options);
    if let (Err(ChatError::Template(TemplateError::Failed { .. })), false) = (&prompt, as_text) {
        // A template that adds arguments to its text wants them as a text; it does not say so.
        messages.iter_mut().for_each(write_arguments);
        prompt = attempt(engine, &messages, &options).or(prompt);
    }
    let prompt = prompt?;
    if !goes_on {
        return Ok(prompt);
    }
    let last = request.messages.last().map_or("", |message| &message.content);
    let Some(end) = prompt.rfind(HERE) else {
        let detail = "the chat template does not write the last message, so it cannot be gone on with".into();
        return Err(ChatError::Field { field: "continue_final_message", detail });
    };
    Ok(format!("{}{}", &prompt[..end], &last[last.trim_end().len()..]))
}

/// Renders; where the template refuses a system message, that is put before the first message of the user.
fn attempt(engine: &Engine, messages: &[Message], options: &Render) -> Result<String, ChatError> {
    let render = |messages: &[Message]| engine.render(messages, options).ok_or(ChatError::NoTemplate);
    let first = render(messages)?;
    if let Err(TemplateError::Refused { .. }) = first
        && messages.iter().skip(1).any(|message| message.role == "system")
    {
        return attempt(engine, &system_first(messages), options);
    }
    let prompt = match (&first, messages) {
        (Err(TemplateError::Refused { .. }), [system, user, ..]) if system.role == "system" && user.role == "user" => {
            let mut merged = messages[1..].to_vec();
            merged[0].content = format!("{}\n\n{}", system.content, user.content);
            render(&merged)?.or(first)
        }
        _ => first,
    };
    let prompt = prompt?;
    // A few templates read content as a list of parts only, and drop a text.
    let lost = |m: &Message| m.role == "user" && !m.content.trim().is_empty() && !prompt.contains(m.content.trim());
    if !messages.last().is_some_and(lost) {
        return Ok(prompt);
    }
    let mut typed = messages.to_vec();
    for message in &mut typed {
        let parts = json!([{"type": "text", "text": message.content}]);
        message.extra.insert("content".into(), parts);
    }
    Ok(render(&typed)?.unwrap_or(prompt))
}

/// The same conversation with one system message at most, and that first: the text of a later one stands before that of the
/// user whom it precedes.
fn system_first(messages: &[Message]) -> Vec<Message> {
    let (mut kept, mut said): (Vec<Message>, Vec<&str>) = (Vec::new(), Vec::new());
    for (i, message) in messages.iter().enumerate() {
        match message.role.as_str() {
            "system" if i > 0 => said.push(&message.content),
            "user" => {
                let text = said.drain(..).chain([message.content.as_str()]).collect::<Vec<_>>().join("\n\n");
                match kept.last_mut().filter(|last| last.role == "user" && !last.extra.contains_key(RESULT)) {
                    Some(last) => last.content = format!("{}\n\n{text}", last.content),
                    None => kept.push(Message { content: text, ..message.clone() }),
                }
            }
            _ => kept.push(message.clone()),
        }
    }
    if !said.is_empty() {
        kept.push(Message::new("user", said.join("\n\n")));
    }
    kept
}

/// A tool as templates take it.
fn described(tool: &Tool) -> Value {
    let mut function = Map::new();
    function.insert("name".into(), json!(tool.name));
    function.extend(tool.description.as_ref().map(|text| ("description".to_owned(), json!(text))));
    function.insert("parameters".into(), tool.parameters.clone());
    json!({"type": "function", "function": function})
}

/// Arguments as objects: most templates write them with `tojson`, which would quote a text once more.
fn parse_arguments(message: &mut Message) {
    let Some(Value::Array(calls)) = message.extra.get_mut("tool_calls") else { return };
    for call in calls {
        let Some(arguments) = call.pointer_mut("/function/arguments") else { continue };
        if let Some(object) = arguments.as_str().and_then(|text| serde_json::from_str::<Map<_, _>>(text).ok()) {
            *arguments = Value::Object(object);
        }
    }
}

/// Arguments as texts.
fn write_arguments(message: &mut Message) {
    let Some(Value::Array(calls)) = message.extra.get_mut("tool_calls") else { return };
    for arguments in calls.iter_mut().filter_map(|call| call.pointer_mut("/function/arguments")) {
        if arguments.is_object() {
            *arguments = Value::String(arguments.to_string());
        }
    }
}

/// Calls and results as plain messages, for templates that know neither.
fn plain(message: &mut Message) {
    parse_arguments(message);
    if let Some(Value::Array(calls)) = message.extra.remove("tool_calls") {
        let lines = calls.iter().map(|call| {
            let function = &call["function"];
            json!({"tool_call": {"name": function["name"], "arguments": function["arguments"]}}).to_string()
        });
        let own = Some(message.content.clone()).filter(|text| !text.is_empty());
        message.content = own.into_iter().chain(lines).collect::<Vec<_>>().join("\n");
    }
    if message.role == "tool" {
        let name = message.extra.get("name").cloned().unwrap_or(Value::Null);
        let mut response = Map::new();
        response.extend((!name.is_null()).then(|| ("name".to_owned(), name)));
        response.insert("content".into(), json!(message.content));
        message.content = json!({"tool_response": response}).to_string();
        message.role = "user".into();
        message.extra = Map::from_iter([(RESULT.to_owned(), json!(true))]);
    }
}

/// Puts the tools into the system message.
fn describe(messages: &mut Vec<Message>, tools: &[Tool], example: &str) {
    let lines: Vec<String> = tools.iter().map(|tool| described(tool)["function"].to_string()).collect();
    let text = format!(
        "You can call these tools; each line is one, with the JSON schema of its arguments:\n{}\n\nTo call a tool, answer \
         with nothing but {example}. The results come in the next message. If no tool is needed, answer in plain \
         text.",
        lines.join("\n")
    );
    match messages.first_mut() {
        Some(first) if first.role == "system" => first.content = format!("{}\n\n{text}", first.content),
        _ => messages.insert(0, Message::new("system", text)),
    }
}
