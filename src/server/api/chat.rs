//! `/v1/chat/completions`: OpenAI's endpoint for conversations.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use super::{
    openai::{self, Head, Usage, finish_reason, wants_usage},
    prompt, sampling,
};
use crate::{
    generate::{Chunk, Finish, Timings, TokenProbs},
    server::{
        body::Body,
        conversation::{Conversation, Format, Progress, Said, prepare, with_defaults},
        error::{ApiError, Dialect},
        fields::{Fields, brief},
        job::{Jobs, Outcome},
        state::{App, Loaded},
        stream::{self, Framing, Piece, Writer},
        timings::TimingsSoFar,
    },
    text::{
        chat::{self, ChatRequest, Delta, Parser, ReasoningFormat, Tool, ToolChoice},
        grammar::GrammarSpec,
        template::Message,
        tokenizer::Tokenizer,
    },
};

/// Most messages of a conversation.
pub const MESSAGES: usize = 10_000;

/// `POST /v1/chat/completions`.
///
/// # Errors
/// 400: a field is wrong, or the template refuses the conversation. 503: the model loads. Else those of [`Jobs::begin`]
/// and [`Jobs::collect`].
pub async fn chat(State(app): State<Arc<App>>, Body(body): Body) -> Result<Response, ApiError> {
    let model = app.model()?;
    let fields = Fields(&body);
    let request = conversation(&app, model, fields)?;
    let mut ask = sampling::ask(&app, model, fields, &["max_completion_tokens", "max_tokens", "n_predict"])?;
    ask.n = fields.whole("n", 1..=16)?.unwrap_or(1) as usize;
    ask.request.n_probs = n_probs(fields)?;
    let (ping, so_far) = (stream::ping(&app, fields)?, TimingsSoFar::wanted(fields, ask.n)?);
    let (ask, parser) = prepare(&app, request, ask).await?;
    let verbose = fields.flag("verbose")?.unwrap_or(app.options.verbose);
    let told = verbose.then(|| ask.prompts[0].clone());
    let (prompt, n) = (ask.prompts[0].len(), ask.n);
    let jobs = Jobs::begin(&app, ask).await?;
    if fields.flag("stream")?.unwrap_or(false) {
        let writer = Stream {
            head: Head::of(&app, fields, "chatcmpl-", "chat.completion.chunk"),
            app: app.clone(),
            parsers: vec![parser; n],
            called: vec![false; n],
            usage: Usage::of_prompts(&[prompt]),
            wants_usage: wants_usage(fields)?,
            timings: None,
            so_far,
            progress: Progress::of(fields)?,
        };
        return Ok(stream::respond(&app, jobs, writer, Framing::ServerSentEvents, ping));
    }
    let outcomes = jobs.collect().await?;
    let mut usage = Usage::of_prompts(&[prompt]);
    let tokenizer = model.engine.tokenizer();
    let choices = outcomes.iter().enumerate().map(|(index, outcome)| {
        usage.add(&outcome.reply.timings, index == 0);
        let said = Said::of(parser.clone(), &outcome.reply.text);
        json!({
            "index": index, "message": message(&said), "logprobs": logprobs(tokenizer, outcome),
            "finish_reason": reason(&outcome.reply.finish, !said.calls.is_empty()),
        })
    });
    let mut answer = Head::of(&app, fields, "chatcmpl-", "chat.completion").object();
    answer.insert("choices".into(), choices.collect());
    answer.insert("usage".into(), usage.json());
    if let Some(outcome) = outcomes.first() {
        answer.insert("timings".into(), json!(outcome.reply.timings));
    }
    if let Some(tokens) = told {
        let prompt = prompt::written(tokenizer, &tokens);
        answer.insert("__verbose".into(), json!({ "prompt": prompt }));
    }
    Ok(Json(Value::Object(answer)).into_response())
}

/// The conversation, its tools and the form of its answer.
///
/// # Errors
/// No messages, a message or tool that is none, a format of another kind.
pub fn conversation(app: &App, model: &Loaded, fields: Fields) -> Result<Conversation, ApiError> {
    if fields.list("functions")?.is_some_and(|list| !list.is_empty()) {
        return Err(ApiError::unsupported("functions", "they are not read any more; give them as tools"));
    }
    let messages = fields.list("messages")?.ok_or_else(|| ApiError::missing("messages"))?;
    if messages.is_empty() || messages.len() > MESSAGES {
        return Err(ApiError::field("messages", &format!("1 to {MESSAGES} messages"), messages.len()));
    }
    let messages = messages.iter().map(turn).collect::<Result<Vec<_>, _>>()?;
    let prefilled = messages.last().is_some_and(|last| last.role == "assistant") && app.options.prefill_assistant;
    let continued = fields.flag("continue_final_message")?;
    if continued == Some(true) && fields.flag("add_generation_prompt")? == Some(true) {
        let why = "an answer either continues the last message or begins (add_generation_prompt), not both";
        return Err(ApiError::unsupported("continue_final_message", why));
    }
    if prefilled && messages.iter().rev().take(2).filter(|message| message.role == "assistant").count() > 1 {
        return Err(ApiError::bad("messages: the last two are both the assistant's, and only one can be continued"));
    }
    let mut kwargs = model.template_kwargs.clone();
    if let Some(given) = fields.object("chat_template_kwargs")? {
        kwargs.extend(given.0.clone());
    }
    if let Some(effort) = fields.text("reasoning_effort")? {
        kwargs.entry("reasoning_effort").or_insert_with(|| effort.into());
    }
    let thinking = with_defaults(&mut kwargs, None);
    let (named, format) = format(fields)?.unzip();
    let chat = ChatRequest {
        messages,
        tools: tools(fields)?,
        tool_choice: tool_choice(fields)?,
        parallel_tool_calls: fields.flag("parallel_tool_calls")?.unwrap_or(true),
        format,
        reasoning_format: thoughts(fields)?.unwrap_or(app.options.reasoning_format),
        thinking,
        kwargs,
        add_generation_prompt: fields.flag("add_generation_prompt")?.unwrap_or(true),
        continue_final_message: continued.unwrap_or(prefilled),
    };
    Ok(Conversation { chat, format: named.unwrap_or_default() })
}

/// A message; what an assistant has refused to say is text like any other.
fn turn(value: &Value) -> Result<Message, ApiError> {
    let is_refusal = |part: &Value| part["type"] == "refusal" && part["refusal"].is_string();
    if !value["content"].as_array().is_some_and(|parts| parts.iter().any(is_refusal)) {
        return Ok(chat::message(value)?);
    }
    let mut value = value.clone();
    for part in value["content"].as_array_mut().into_iter().flatten().filter(|part| is_refusal(part)) {
        *part = json!({ "type": "text", "text": part["refusal"] });
    }
    Ok(chat::message(&value)?)
}

/// The tools, in the shape that OpenAI and Ollama share.
///
/// # Errors
/// A tool that is none.
pub fn tools(fields: Fields) -> Result<Vec<Tool>, ApiError> {
    let list = fields.list("tools")?.unwrap_or_default();
    list.iter().map(|value| tool(value).ok_or_else(|| wrong_tool(value))).collect()
}

fn wrong_tool(value: &Value) -> ApiError {
    let expected = r#"{"type": "function", "function": {"name": …, "parameters": {…}}}"#;
    ApiError::field("tools", expected, brief(value))
}

fn tool(value: &Value) -> Option<Tool> {
    let function = value.get("function").filter(|_| value.get("type").is_none_or(|kind| kind == "function"))?;
    Some(Tool {
        name: function.get("name")?.as_str().filter(|name| !name.is_empty())?.to_owned(),
        description: function.get("description").and_then(Value::as_str).map(str::to_owned),
        parameters: function.get("parameters").cloned().unwrap_or_else(|| json!({ "type": "object" })),
    })
}

fn tool_choice(fields: Fields) -> Result<ToolChoice, ApiError> {
    let expected = r#"auto, none, required, or {"type": "function", "function": {"name": …}}"#;
    let Some(value) = fields.get("tool_choice") else { return Ok(ToolChoice::Auto) };
    let named = || value.pointer("/function/name").and_then(Value::as_str).map(|name| ToolChoice::Named(name.into()));
    match value.as_str() {
        Some("auto") => Some(ToolChoice::Auto),
        Some("none") => Some(ToolChoice::None),
        Some("required") => Some(ToolChoice::Required),
        Some(_) => None,
        None => named(),
    }
    .ok_or_else(|| ApiError::field("tool_choice", expected, brief(value)))
}

/// What the answer has to be: `response_format`, `json_schema` or `grammar`, one of them.
///
/// # Errors
/// Two of them; a kind of format that is none.
pub fn format(fields: Fields) -> Result<Option<Format>, ApiError> {
    let schema = |value: &Value| GrammarSpec::JsonSchema(value.clone());
    let of_format = match fields.object("response_format")? {
        None => None,
        Some(format) => match format.text("type")?.unwrap_or_default() {
            "text" => None,
            "json_object" => Some(format.get("schema").map_or(GrammarSpec::JsonObject, schema)),
            "json_schema" => {
                let inner = format.object("json_schema")?;
                let found = inner.and_then(|inner| inner.get("schema")).or_else(|| format.get("schema"));
                Some(schema(found.ok_or_else(|| ApiError::missing("response_format.json_schema.schema"))?))
            }
            other => {
                return Err(ApiError::field("response_format.type", "text, json_object or json_schema", other));
            }
        },
    };
    let of_schema = fields.get("json_schema").map(schema);
    let of_grammar = fields.text("grammar")?.filter(|text| !text.is_empty()).map(|text| GrammarSpec::Gbnf(text.into()));
    let all = [("response_format", of_format), ("json_schema", of_schema), ("grammar", of_grammar)];
    let mut given: Vec<Format> = all.into_iter().filter_map(|(field, spec)| Some((field, spec?))).collect();
    if given.len() > 1 {
        let (field, _) = given[1];
        return Err(ApiError::bad("give one of response_format, json_schema and grammar, not several").about(field));
    }
    Ok(given.pop())
}

fn thoughts(fields: Fields) -> Result<Option<ReasoningFormat>, ApiError> {
    let Some(name) = fields.text("reasoning_format")? else { return Ok(None) };
    name.parse().map(Some).map_err(|_| ApiError::field("reasoning_format", "none, deepseek or auto", name))
}

/// `logprobs` and `top_logprobs`.
///
/// # Errors
/// A number outside of 0 … 20; `top_logprobs` alone.
pub fn n_probs(fields: Fields) -> Result<Option<usize>, ApiError> {
    let top = fields.whole("top_logprobs", 0..=20)?;
    match fields.flag("logprobs")? {
        Some(true) => Ok(Some(top.unwrap_or(0) as usize)),
        _ if top.is_some_and(|n| n > 0) => Err(ApiError::unsupported("top_logprobs", "needs \"logprobs\": true")),
        _ => Ok(None),
    }
}

fn reason(finish: &Finish, called: bool) -> &'static str {
    match finish_reason(finish) {
        "stop" if called => "tool_calls",
        other => other,
    }
}

fn message(said: &Said) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    let silent = said.content.is_empty() && !said.calls.is_empty();
    message.insert("content".into(), if silent { Value::Null } else { said.content.clone().into() });
    message.insert("refusal".into(), Value::Null);
    if !said.reasoning.is_empty() {
        message.insert("reasoning_content".into(), said.reasoning.clone().into());
    }
    if !said.calls.is_empty() {
        let call = |call: &crate::server::conversation::Call| json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": call.arguments } });
        message.insert("tool_calls".into(), said.calls.iter().map(call).collect());
    }
    Value::Object(message)
}

/// `logprobs` of an answer: `{"content": [one for each token]}`.
fn logprobs(tokenizer: &Tokenizer, outcome: &Outcome) -> Option<Value> {
    let of = |token: &crate::server::job::TokenText| Some(token_probs(tokenizer, token.id, token.probs.as_ref()?));
    let content: Vec<Value> = outcome.tokens.iter().map(of).collect::<Option<_>>()?;
    (!content.is_empty()).then(|| json!({ "content": content }))
}

/// One token with its probability and the likeliest ones.
pub fn token_probs(tokenizer: &Tokenizer, id: u32, probs: &TokenProbs) -> Value {
    let one = |id: u32, logprob: f32| {
        let bytes = tokenizer.piece(id);
        json!({ "id": id, "token": String::from_utf8_lossy(&bytes), "bytes": &bytes[..], "logprob": logprob })
    };
    let mut token = one(id, probs.logprob);
    token["top_logprobs"] = probs.top.iter().map(|&(id, p)| one(id, p)).collect();
    token
}

/// The answer as it comes.
struct Stream {
    app: Arc<App>,
    head: Head,
    parsers: Vec<Parser>,
    called: Vec<bool>,
    usage: Usage,
    wants_usage: bool,
    /// Of the last answer that has ended.
    timings: Option<Timings>,
    /// Of each answer, where they are told with its tokens.
    so_far: Vec<TimingsSoFar>,
    progress: Option<Progress>,
}

impl Stream {
    fn part(&self, index: usize, delta: Value, probs: Option<Value>, finish: Option<&str>) -> Map<String, Value> {
        let mut chunk = self.head.object();
        let choice = json!({ "index": index, "delta": delta, "logprobs": probs, "finish_reason": finish });
        chunk.insert("choices".into(), json!([choice]));
        let timings = self.so_far.get(index).and_then(TimingsSoFar::timings);
        chunk.extend(timings.map(|timings| ("timings".to_owned(), json!(timings))));
        chunk
    }

    fn piece(&self, index: usize, delta: Value, probs: Option<Value>) -> Piece {
        Piece::json(&Value::Object(self.part(index, delta, probs, None)))
    }

    fn deltas(&mut self, index: usize, deltas: Vec<Delta>, mut logprobs: Option<Value>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for delta in deltas {
            let value = match delta {
                Delta::Content(text) => json!({ "content": text }),
                Delta::Reasoning(text) => json!({ "reasoning_content": text }),
                Delta::ToolCall { index: call, id, name } => {
                    self.called[index] = true;
                    let function = json!({ "name": name, "arguments": "" });
                    json!({ "tool_calls": [{ "index": call, "id": id, "type": "function", "function": function }] })
                }
                Delta::Arguments { index: call, text } => {
                    json!({ "tool_calls": [{ "index": call, "function": { "arguments": text } }] })
                }
            };
            pieces.push(self.piece(index, value, logprobs.take()));
        }
        if logprobs.is_some() {
            pieces.push(self.piece(index, json!({ "content": "" }), logprobs));
        }
        pieces
    }
}

impl Writer for Stream {
    fn begin(&mut self) -> Vec<Piece> {
        let first = json!({ "role": "assistant", "content": null });
        (0..self.parsers.len()).map(|index| self.piece(index, first.clone(), None)).collect()
    }

    fn chunk(&mut self, index: usize, chunk: Chunk) -> Result<Vec<Piece>, ApiError> {
        self.so_far.get_mut(index).into_iter().for_each(|so_far| so_far.note(&chunk));
        Ok(match chunk {
            Chunk::Score { .. } | Chunk::Logits { .. } => Vec::new(),
            Chunk::Prompt { done, total, .. } => {
                let Some(progress) = &mut self.progress else { return Ok(Vec::new()) };
                let progress = progress.json(done, total);
                let mut chunk = self.part(index, json!({}), None, None);
                chunk.insert("prompt_progress".into(), progress);
                vec![Piece::json(&Value::Object(chunk))]
            }
            Chunk::Token { id, text, probs } => {
                let deltas = self.parsers[index].push(&text);
                let probs = match probs {
                    Some(probs) => {
                        let tokenizer = self.app.model()?.engine.tokenizer();
                        Some(json!({ "content": [token_probs(tokenizer, id, &probs)] }))
                    }
                    None => None,
                };
                self.deltas(index, deltas, probs)
            }
            Chunk::Text(text) => {
                let deltas = self.parsers[index].push(&text);
                self.deltas(index, deltas, None)
            }
            Chunk::End(reply) => {
                let reply = reply?;
                self.usage.add(&reply.timings, index == 0);
                let rest = self.parsers[index].finish();
                let mut pieces = self.deltas(index, rest, None);
                let reason = reason(&reply.finish, self.called[index]);
                let mut last = self.part(index, json!({}), None, Some(reason));
                last.insert("timings".into(), json!(reply.timings));
                self.timings = Some(reply.timings);
                pieces.push(Piece::json(&Value::Object(last)));
                pieces
            }
        })
    }

    fn end(&mut self) -> Vec<Piece> {
        openai::end(&self.head, self.wants_usage.then_some(&self.usage), self.timings)
    }

    fn error(&mut self, error: &ApiError) -> Piece {
        Piece::json(&error.body(Dialect::OpenAi))
    }
}
