//! `/v1/responses`: OpenAI's newer endpoint for conversations. Nothing is kept: every request brings its whole conversation.

mod output;
mod request;

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use self::output::Output;
use super::{
    chat::token_probs,
    openai::{finish_reason, model_name, now},
    sampling,
};
use crate::{
    generate::{Chunk, Reply},
    server::{
        body::Body,
        conversation::{Progress, deltas, prepare, read},
        error::ApiError,
        fields::Fields,
        job::{Ask, Jobs},
        state::App,
        stream::{self, Framing, Piece, Writer},
        timings::TimingsSoFar,
    },
    text::chat::Parser,
};

/// `POST /v1/responses`.
///
/// # Errors
/// 400: a field is wrong, or the template refuses the conversation. 503: the model loads. Else those of [`Jobs::begin`]
/// and [`Jobs::collect`].
pub async fn responses(State(app): State<Arc<App>>, Body(body): Body) -> Result<Response, ApiError> {
    let model = app.model()?;
    let fields = Fields(&body);
    let request = request::conversation(&app, fields)?;
    let mut ask = sampling::ask(&app, model, fields, &["max_output_tokens"])?;
    ask.n = 1;
    ask.request.n_probs = request::n_probs(fields)?;
    let (ping, so_far) = (stream::ping(&app, fields)?, TimingsSoFar::wanted(fields, 1)?.pop());
    let shown = json!({ "temperature": ask.params.temperature, "top_p": ask.params.top_p });
    let (ask, parser) = prepare(&app, request, ask).await?;
    let head = Head {
        id: app.id("resp_"),
        created: now(),
        prompt: ask.prompts[0].len(),
        fields: shape(model_name(&app, fields), fields, shown),
        app: app.clone(),
    };
    let streams = fields.flag("stream")?.unwrap_or(false);
    let progress = Progress::of(fields)?;
    let output = Output::new(app.id(""));
    let jobs = Jobs::begin(&app, ask).await?;
    if streams {
        let writer = Stream { head, parser, output, progress, so_far, events: 0 };
        return Ok(stream::respond(&app, jobs, writer, Framing::ServerSentEvents, ping));
    }
    let outcomes = jobs.collect().await?;
    let outcome = &outcomes[0];
    let mut output = output;
    let tokenizer = model.engine.tokenizer();
    let probs = outcome.tokens.iter().filter_map(|token| Some(token_probs(tokenizer, token.id, token.probs.as_ref()?)));
    output.probs(probs.collect());
    for delta in deltas(Some(parser), &outcome.reply.text) {
        output.take(delta);
    }
    Ok(Json(head.ended(output, &outcome.reply).1).into_response())
}

/// `POST /v1/responses/input_tokens`: the tokens of a conversation's prompt.
///
/// # Errors
/// 400: a field is wrong, or the template refuses the conversation. 503: the model loads.
pub async fn input_tokens(State(app): State<Arc<App>>, Body(body): Body) -> Result<Json<Value>, ApiError> {
    let request = request::conversation(&app, Fields(&body))?;
    let (ask, _) = prepare(&app, request, Ask::default()).await?;
    Ok(Json(json!({ "object": "response.input_tokens", "input_tokens": ask.prompts[0].len() })))
}

/// What an answer repeats of its request.
fn shape(model: String, fields: Fields, shown: Value) -> Value {
    let said = |name: &str, or: Value| fields.get(name).cloned().unwrap_or(or);
    let reasoning = fields.get("reasoning");
    let part = |name: &str| reasoning.and_then(|reasoning| reasoning.get(name)).cloned();
    json!({
        "model": model, "temperature": shown["temperature"], "top_p": shown["top_p"],
        "instructions": said("instructions", Value::Null), "metadata": said("metadata", json!({})),
        "max_output_tokens": said("max_output_tokens", Value::Null), "parallel_tool_calls": said("parallel_tool_calls", true.into()),
        "text": said("text", json!({ "format": { "type": "text" } })), "tools": said("tools", json!([])),
        "tool_choice": said("tool_choice", "auto".into()), "top_logprobs": said("top_logprobs", 0.into()),
        "reasoning": { "effort": part("effort"), "summary": part("summary") }, "user": said("user", Value::Null),
        "previous_response_id": null, "store": false, "background": false, "truncation": "disabled",
    })
}

/// What stands around the output of an answer.
struct Head {
    app: Arc<App>,
    id: String,
    created: u64,
    /// Tokens of the prompt.
    prompt: usize,
    /// What is repeated of the request.
    fields: Value,
}

impl Head {
    fn object(&self, status: &str, output: &[Value]) -> Value {
        let mut object = json!({
            "id": self.id, "object": "response", "created_at": self.created, "status": status, "error": null,
            "incomplete_details": null, "output": output, "usage": null,
        });
        if let (Some(object), Some(fields)) = (object.as_object_mut(), self.fields.as_object()) {
            object.extend(fields.clone());
        }
        object
    }

    /// The last events of the output, and the whole answer.
    fn ended(&self, mut output: Output, reply: &Reply) -> (Vec<Value>, Value) {
        let whole = finish_reason(&reply.finish) == "stop";
        let status = if whole { "completed" } else { "incomplete" };
        let events = output.close(status);
        let mut object = self.object(status, &output.done);
        if whole {
            object["completed_at"] = now().into();
        } else {
            object["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        let cached = reply.timings.cache_n.min(self.prompt);
        let n = reply.timings.predicted_n;
        object["usage"] = json!({
            "input_tokens": self.prompt, "input_tokens_details": { "cached_tokens": cached, "cache_write_tokens": 0 },
            "output_tokens": n, "output_tokens_details": { "reasoning_tokens": self.tokens(&output.reasoning).min(n) },
            "total_tokens": self.prompt + n,
        });
        (events, object)
    }

    /// How many tokens a text takes.
    fn tokens(&self, text: &str) -> usize {
        let how = crate::text::tokenizer::Encode { add_special: false, parse_special: false };
        let count = |app: &App| app.model().ok()?.engine.tokenizer().encode(text, how).ok();
        if text.is_empty() { 0 } else { count(&self.app).map_or(0, |tokens| tokens.len()) }
    }
}

/// The answer as it comes.
struct Stream {
    head: Head,
    parser: Parser,
    output: Output,
    progress: Option<Progress>,
    /// Where they are told with its deltas.
    so_far: Option<TimingsSoFar>,
    /// Events so far: each has its number.
    events: usize,
}

impl Stream {
    fn number(&mut self, mut event: Value) -> Piece {
        event["sequence_number"] = self.events.into();
        self.events += 1;
        let name = event["type"].as_str().unwrap_or_default().to_owned();
        Piece::named(name, &event)
    }
}

impl Writer for Stream {
    fn begin(&mut self) -> Vec<Piece> {
        let response = self.head.object("in_progress", &[]);
        ["response.created", "response.in_progress"]
            .map(|name| self.number(json!({ "type": name, "response": response })))
            .into()
    }

    fn chunk(&mut self, _: usize, chunk: Chunk) -> Result<Vec<Piece>, ApiError> {
        if let (Some(progress), Chunk::Prompt { done, total, .. }) = (&mut self.progress, &chunk) {
            let progress = progress.json(*done, *total);
            let response = self.head.object("in_progress", &[]);
            let event = json!({ "type": "response.in_progress", "response": response, "prompt_progress": progress });
            return Ok(vec![self.number(event)]);
        }
        self.so_far.iter_mut().for_each(|so_far| so_far.note(&chunk));
        let read = read(Some(&mut self.parser), chunk)?;
        if let Some((id, probs)) = read.token {
            let tokenizer = self.head.app.model()?.engine.tokenizer();
            self.output.probs(vec![token_probs(tokenizer, id, &probs)]);
        }
        let mut events = Vec::new();
        for delta in read.deltas {
            events.extend(self.output.take(delta));
        }
        if let Some(timings) = self.so_far.as_ref().and_then(TimingsSoFar::timings) {
            let is_delta = |event: &&mut Value| event["type"].as_str().is_some_and(|name| name.ends_with(".delta"));
            events.iter_mut().filter(is_delta).for_each(|event| event["timings"] = json!(timings));
        }
        if let Some(reply) = read.reply {
            let (last, response) = self.head.ended(std::mem::take(&mut self.output), &reply);
            events.extend(last);
            let name = format!("response.{}", response["status"].as_str().unwrap_or("completed"));
            events.push(json!({ "type": name, "response": response, "timings": reply.timings }));
        }
        Ok(events.into_iter().map(|event| self.number(event)).collect())
    }

    fn error(&mut self, error: &ApiError) -> Piece {
        let mut response = self.head.object("failed", &self.output.done);
        response["error"] = json!({ "code": "server_error", "message": error.message });
        self.number(json!({ "type": "response.failed", "response": response }))
    }
}
