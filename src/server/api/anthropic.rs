//! `/v1/messages`: Anthropic's endpoint for conversations.

mod blocks;
mod request;

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use self::blocks::Blocks;
use super::{openai::model_name, sampling};
use crate::{
    generate::{Chunk, Finish, Timings},
    server::{
        body::Body,
        conversation::{deltas, prepare, read},
        error::{ApiError, Dialect},
        fields::Fields,
        job::{Ask, Jobs},
        state::{App, Loaded},
        stream::{self, Framing, Piece, Writer},
    },
    text::chat::Parser,
};

/// `POST /v1/messages`.
///
/// # Errors
/// 400: a field is wrong, or the template refuses the conversation. 503: the model loads. Else those of [`Jobs::begin`]
/// and [`Jobs::collect`].
pub async fn messages(State(app): State<Arc<App>>, Body(body): Body) -> Result<Response, ApiError> {
    let model = app.model()?;
    let fields = Fields(&body);
    let request = request::conversation(&app, fields)?;
    let ask = ask(&app, model, fields)?;
    let stops = ask.request.stops.clone();
    let (ask, parser) = prepare(&app, request, ask).await?;
    let head = Head { id: app.id("msg_"), model: model_name(&app, fields), prompt: ask.prompts[0].len(), stops };
    let streams = fields.flag("stream")?.unwrap_or(false);
    let jobs = Jobs::begin(&app, ask).await?;
    if streams {
        let writer = Stream { head, parser, blocks: Blocks::default() };
        return Ok(stream::respond(&app, jobs, writer, Framing::ServerSentEvents, app.options.ping_interval));
    }
    let outcomes = jobs.collect().await?;
    let reply = &outcomes[0].reply;
    let mut blocks = Blocks::default();
    for delta in deltas(Some(parser), &reply.text) {
        blocks.take(delta);
    }
    blocks.close();
    let mut answer = head.message(&blocks.done);
    for (name, value) in head.ending(&reply.finish, blocks.called) {
        answer[name] = value;
    }
    answer["usage"] = head.usage(&reply.timings);
    Ok(Json(answer).into_response())
}

/// `POST /v1/messages/count_tokens`: the tokens of a conversation's prompt.
///
/// # Errors
/// 400: a field is wrong, or the template refuses the conversation. 503: the model loads.
pub async fn count_tokens(State(app): State<Arc<App>>, Body(body): Body) -> Result<Json<Value>, ApiError> {
    let request = request::conversation(&app, Fields(&body))?;
    let (ask, _) = prepare(&app, request, Ask::default()).await?;
    Ok(Json(json!({ "input_tokens": ask.prompts[0].len() })))
}

/// As all dialects, with Anthropic's own defaults.
fn ask(app: &App, model: &Loaded, fields: Fields) -> Result<Ask, ApiError> {
    fields.required("max_tokens", fields.whole("max_tokens", 1..=i64::MAX))?;
    let mut ask = sampling::ask(app, model, fields, &["max_tokens"])?;
    if fields.get("temperature").is_none() {
        ask.params.temperature = 1.0;
    }
    if fields.get("top_p").is_none() {
        ask.params.top_p = 1.0;
    }
    ask.n = 1;
    ask.request.stops = sampling::stops(fields, "stop_sequences")?;
    Ok(ask)
}

/// What stands around the blocks of an answer.
struct Head {
    id: String,
    model: String,
    /// Tokens of the prompt.
    prompt: usize,
    /// The caller's own stop texts.
    stops: Vec<String>,
}

impl Head {
    fn message(&self, content: &[Value]) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": null, "stop_sequence": null, "usage": self.usage(&Timings::default()),
        })
    }

    /// What was read from the cache is not counted among the input.
    fn usage(&self, timings: &Timings) -> Value {
        let cached = timings.cache_n.min(self.prompt);
        json!({
            "input_tokens": self.prompt - cached, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached, "output_tokens": timings.predicted_n,
        })
    }

    /// Why an answer ended.
    fn ending(&self, finish: &Finish, called: bool) -> [(&'static str, Value); 2] {
        let (reason, stop) = match finish {
            Finish::Limit | Finish::Context | Finish::Interrupted => ("max_tokens", None),
            // The template has stop texts of its own: they end a turn.
            Finish::Stop(text) if self.stops.contains(text) => ("stop_sequence", Some(text)),
            Finish::Eos | Finish::Stop(_) if called => ("tool_use", None),
            Finish::Eos | Finish::Stop(_) => ("end_turn", None),
        };
        [("stop_reason", reason.into()), ("stop_sequence", json!(stop))]
    }
}

/// The answer as it comes.
struct Stream {
    head: Head,
    parser: Parser,
    blocks: Blocks,
}

impl Writer for Stream {
    fn begin(&mut self) -> Vec<Piece> {
        let start = json!({ "type": "message_start", "message": self.head.message(&[]) });
        vec![Piece::named("message_start", &start), Piece::named("ping", &json!({ "type": "ping" }))]
    }

    fn chunk(&mut self, _: usize, chunk: Chunk) -> Result<Vec<Piece>, ApiError> {
        let read = read(Some(&mut self.parser), chunk)?;
        let mut pieces: Vec<Piece> = read.deltas.into_iter().flat_map(|delta| self.blocks.take(delta)).collect();
        if let Some(reply) = read.reply {
            pieces.extend(self.blocks.close());
            let delta: serde_json::Map<_, _> = self
                .head
                .ending(&reply.finish, self.blocks.called)
                .map(|(name, value)| (name.to_owned(), value))
                .into_iter()
                .collect();
            let end = json!({ "type": "message_delta", "delta": delta, "usage": self.head.usage(&reply.timings) });
            pieces.push(Piece::named("message_delta", &end));
        }
        Ok(pieces)
    }

    fn end(&mut self) -> Vec<Piece> {
        vec![Piece::named("message_stop", &json!({ "type": "message_stop" }))]
    }

    fn error(&mut self, error: &ApiError) -> Piece {
        Piece::named("error", &error.body(Dialect::Anthropic))
    }
}
