//! Ollama's endpoints: `/api/chat` and `/api/generate`. Answers come a JSON object per line, unless `stream` is false.

mod ask;
pub mod models;

use std::{sync::Arc, time::SystemTime};

use axum::{
    Json,
    extract::State,
    http::{Method, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use super::{
    chat::token_probs,
    openai::{finish_reason, model_name},
};
use crate::{
    clock::strftime,
    generate::{Chunk, Reply},
    server::{
        body::Body,
        conversation::{Call, Said, deltas, read},
        error::{ApiError, Dialect},
        fields::Fields,
        job::{Ask, Jobs},
        state::App,
        stream::{self, Framing, Piece, Writer},
    },
    text::chat::{Delta, Parser},
};

/// `POST /api/chat`.
///
/// # Errors
/// 400: a field is wrong, or the template refuses the conversation. 503: the model loads. Else those of [`Jobs::begin`]
/// and [`Jobs::collect`].
pub async fn chat(State(app): State<Arc<App>>, Body(body): Body) -> Result<Response, ApiError> {
    let fields = Fields(&body);
    let head = Head::of(&app, fields, Shape::Chat)?;
    if fields.list("messages")?.is_none_or(<[Value]>::is_empty) {
        return Ok(head.loaded());
    }
    let (ask, parser) = ask::chat(&app, fields).await?;
    answer(app, head, ask, Some(parser), fields).await
}

/// `POST /api/generate`.
///
/// # Errors
/// 400: a field is wrong, or the template refuses the prompt. 503: the model loads. Else those of [`Jobs::begin`] and
/// [`Jobs::collect`].
pub async fn generate(State(app): State<Arc<App>>, Body(body): Body) -> Result<Response, ApiError> {
    let fields = Fields(&body);
    let head = Head::of(&app, fields, Shape::Generate)?;
    if fields.text("prompt")?.is_none_or(str::is_empty) {
        return Ok(head.loaded());
    }
    let (ask, parser) = ask::generate(&app, fields).await?;
    answer(app, head, ask, parser, fields).await
}

/// What Ollama does with models: this server has one, and it is not changed.
pub async fn refused(method: Method, uri: Uri) -> ApiError {
    let why = match uri.path() {
        "/api/embed" | "/api/embeddings" => "embeddings are not implemented",
        _ => "the model is the one that the server was started with; start `qrun serve MODEL` with another one",
    };
    ApiError::not_implemented(format!("{method} {}: {why}", uri.path()))
}

async fn answer(
    app: Arc<App>,
    head: Head,
    ask: Ask,
    parser: Option<Parser>,
    fields: Fields<'_>,
) -> Result<Response, ApiError> {
    let streams = fields.flag("stream")?.unwrap_or(true);
    let prompt = ask.prompts.first().map_or(0, Vec::len);
    let jobs = Jobs::begin(&app, ask).await?;
    if streams {
        let writer = Stream { app: app.clone(), head, parser, prompt, call: None };
        return Ok(stream::respond(&app, jobs, writer, Framing::Lines, None));
    }
    let outcomes = jobs.collect().await?;
    let outcome = &outcomes[0];
    let mut said = Said::default();
    deltas(parser, &outcome.reply.text).into_iter().for_each(|delta| said.take(delta));
    let mut line = head.line(&said);
    let tokenizer = app.model()?.engine.tokenizer();
    let probs = outcome.tokens.iter().filter_map(|token| Some(token_probs(tokenizer, token.id, token.probs.as_ref()?)));
    let probs: Vec<Value> = probs.collect();
    if !probs.is_empty() {
        line.insert("logprobs".into(), probs.into());
    }
    line.extend(head.ending(&outcome.reply, prompt));
    Ok(Json(Value::Object(line)).into_response())
}

/// How an answer is shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// `message`.
    Chat,
    /// `response`.
    Generate,
}

/// What all lines of an answer have.
struct Head {
    model: String,
    shape: Shape,
    started: std::time::Instant,
}

impl Head {
    fn of(app: &App, fields: Fields, shape: Shape) -> Result<Self, ApiError> {
        app.model()?;
        Ok(Self { model: model_name(app, fields), shape, started: std::time::Instant::now() })
    }

    /// The answer to a request that only wants the model in memory, where it is.
    fn loaded(&self) -> Response {
        let mut line = self.line(&Said::default());
        line.insert("done".into(), true.into());
        line.insert("done_reason".into(), "load".into());
        Json(Value::Object(line)).into_response()
    }

    /// A line that says something.
    fn line(&self, said: &Said) -> Map<String, Value> {
        let calls: Vec<Value> = said.calls.iter().map(call).collect();
        let mut line = Map::new();
        line.insert("model".into(), self.model.clone().into());
        line.insert("created_at".into(), time(SystemTime::now()).into());
        let mut more = Map::new();
        if !said.reasoning.is_empty() {
            more.insert("thinking".into(), said.reasoning.clone().into());
        }
        if !calls.is_empty() {
            more.insert("tool_calls".into(), calls.into());
        }
        match self.shape {
            Shape::Chat => {
                let mut message = Map::new();
                message.insert("role".into(), "assistant".into());
                message.insert("content".into(), said.content.clone().into());
                message.extend(more);
                line.insert("message".into(), message.into());
            }
            Shape::Generate => {
                line.insert("response".into(), said.content.clone().into());
                line.extend(more);
            }
        }
        line.insert("done".into(), false.into());
        line
    }

    /// What the last line says besides. Times are nanoseconds.
    fn ending(&self, reply: &Reply, prompt: usize) -> Map<String, Value> {
        let ns = |ms: f64| (ms * 1e6) as u64;
        let timings = &reply.timings;
        let ending = json!({
            "done": true, "done_reason": finish_reason(&reply.finish),
            "total_duration": self.started.elapsed().as_nanos() as u64, "load_duration": 0,
            "prompt_eval_count": prompt, "prompt_eval_duration": ns(timings.prompt_ms),
            "eval_count": timings.predicted_n, "eval_duration": ns(timings.predicted_ms),
        });
        ending.as_object().cloned().unwrap_or_default()
    }
}

/// A call, its arguments as an object.
fn call(call: &Call) -> Value {
    // Arguments that the limit has cut are no JSON.
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
    json!({ "id": call.id, "function": { "name": call.name, "arguments": arguments } })
}

/// RFC 3339.
fn time(at: SystemTime) -> String {
    strftime(at, "%Y-%m-%dT%H:%M:%SZ").unwrap_or_default()
}

/// The answer as it comes.
struct Stream {
    app: Arc<App>,
    head: Head,
    parser: Option<Parser>,
    /// Tokens of the prompt.
    prompt: usize,
    /// A call that is still written: it goes out whole.
    call: Option<Call>,
}

impl Stream {
    /// What one delta lets be said.
    fn take(&mut self, delta: Delta) -> Said {
        let mut said = Said::default();
        match delta {
            Delta::Content(text) => said.content = text,
            Delta::Reasoning(text) => said.reasoning = text,
            Delta::ToolCall { id, name, .. } => {
                said.calls.extend(self.call.replace(Call { id, name, arguments: String::new() }));
            }
            Delta::Arguments { text, .. } => {
                if let Some(call) = &mut self.call {
                    call.arguments.push_str(&text);
                }
            }
        }
        said
    }
}

impl Writer for Stream {
    fn chunk(&mut self, _: usize, chunk: Chunk) -> Result<Vec<Piece>, ApiError> {
        let read = read(self.parser.as_mut(), chunk)?;
        let mut said: Vec<Said> = read.deltas.into_iter().map(|delta| self.take(delta)).collect();
        if read.reply.is_some() {
            said.push(Said { calls: self.call.take().into_iter().collect(), ..Said::default() });
        }
        said.retain(|said| *said != Said::default());
        let mut lines: Vec<Map<String, Value>> = said.iter().map(|said| self.head.line(said)).collect();
        if let Some((id, probs)) = read.token {
            let probs = json!([token_probs(self.app.model()?.engine.tokenizer(), id, &probs)]);
            if lines.is_empty() {
                lines.push(self.head.line(&Said::default()));
            }
            lines[0].insert("logprobs".into(), probs);
        }
        if let Some(reply) = read.reply {
            let mut last = self.head.line(&Said::default());
            last.extend(self.head.ending(&reply, self.prompt));
            lines.push(last);
        }
        Ok(lines.into_iter().map(|line| Piece::json(&Value::Object(line))).collect())
    }

    fn error(&mut self, error: &ApiError) -> Piece {
        Piece::json(&error.body(Dialect::Ollama))
    }
}
