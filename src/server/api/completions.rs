//! `/v1/completions`: OpenAI's endpoint for plain prompts.

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
    generate::{Chunk, Finish, TokenProbs},
    server::{
        body::Body,
        error::{ApiError, Dialect},
        fields::Fields,
        job::{Jobs, Outcome},
        state::App,
        stream::{self, Framing, Piece, Writer},
    },
    text::tokenizer::Tokenizer,
};

/// `POST /v1/completions`.
pub async fn completions(State(app): State<Arc<App>>, Body(body): Body) -> Result<Response, ApiError> {
    let model = app.model()?;
    let fields = Fields(&body);
    for name in ["suffix", "best_of"] {
        if fields.get(name).is_some_and(|value| *value != 1 && *value != "") {
            return Err(ApiError::unsupported(name, "qrun does not have it"));
        }
    }
    let mut ask = sampling::ask(&app, model, fields, &["max_tokens", "max_completion_tokens", "n_predict"])?;
    ask.prompts = prompt::prompts(&model.engine, fields)?;
    ask.n = fields.whole("n", 1..=16)?.unwrap_or(1) as usize;
    ask.request.n_probs = fields.whole("logprobs", 0..=20)?.map(|n| n as usize);
    let head = Head::of(&app, fields, "cmpl-", "text_completion");
    let prompts: Vec<usize> = ask.prompts.iter().map(Vec::len).collect();
    let jobs = Jobs::begin(&app, ask).await?;
    if fields.flag("stream")?.unwrap_or(false) {
        let wants_usage = wants_usage(fields)?;
        let writer = Stream { app: app.clone(), head, usage: Usage::of_prompts(&prompts), wants_usage };
        return Ok(stream::respond(&app, jobs, writer, Framing::ServerSentEvents, Some(app.options.ping_interval)));
    }
    let outcomes = jobs.collect().await?;
    let mut usage = Usage::of_prompts(&prompts);
    let tokenizer = model.engine.tokenizer();
    let choices = outcomes.iter().enumerate().map(|(index, outcome)| {
        usage.add(&outcome.reply.timings);
        json!({
            "text": outcome.reply.text, "index": index, "logprobs": logprobs(tokenizer, outcome),
            "finish_reason": finish_reason(&outcome.reply.finish),
        })
    });
    let mut answer = head.object();
    answer.insert("choices".into(), choices.collect());
    answer.insert("usage".into(), usage.json());
    if let Some(outcome) = outcomes.first() {
        answer.insert("timings".into(), json!(outcome.reply.timings));
    }
    Ok(Json(Value::Object(answer)).into_response())
}

/// `logprobs` of a plain completion.
fn logprobs(tokenizer: &Tokenizer, outcome: &Outcome) -> Option<Value> {
    let probs: Vec<(u32, &TokenProbs)> =
        outcome.tokens.iter().map(|token| Some((token.id, token.probs.as_ref()?))).collect::<Option<_>>()?;
    let text = |id: u32| String::from_utf8_lossy(&tokenizer.piece(id)).into_owned();
    let mut offset = 0;
    let offsets = probs.iter().map(|(id, _)| {
        let at = offset;
        offset += text(*id).chars().count();
        at
    });
    let offsets: Vec<usize> = offsets.collect();
    let top =
        probs.iter().map(|(_, probs)| probs.top.iter().map(|&(id, p)| (text(id), json!(p))).collect::<Map<_, _>>());
    Some(json!({
        "tokens": probs.iter().map(|(id, _)| text(*id)).collect::<Vec<_>>(),
        "token_logprobs": probs.iter().map(|(_, probs)| probs.logprob).collect::<Vec<_>>(),
        "top_logprobs": top.collect::<Vec<_>>(),
        "text_offset": offsets,
    }))
}

/// The answer as it comes.
struct Stream {
    app: Arc<App>,
    head: Head,
    usage: Usage,
    wants_usage: bool,
}

impl Stream {
    fn piece(&self, index: usize, text: &str, logprobs: Option<Value>, finish: Option<&Finish>) -> Piece {
        let mut chunk = self.head.object();
        let choice = json!({
            "text": text, "index": index, "logprobs": logprobs, "finish_reason": finish.map(finish_reason),
        });
        chunk.insert("choices".into(), json!([choice]));
        Piece::json(&Value::Object(chunk))
    }
}

impl Writer for Stream {
    fn chunk(&mut self, index: usize, chunk: Chunk) -> Result<Vec<Piece>, ApiError> {
        Ok(match chunk {
            Chunk::Prompt { .. } => Vec::new(),
            Chunk::Token { text, probs: None, .. } if text.is_empty() => Vec::new(),
            Chunk::Token { id, text, probs } => {
                let model = self.app.model()?;
                let one = probs.map(|probs| {
                    let spelled = |id: u32| String::from_utf8_lossy(&model.engine.tokenizer().piece(id)).into_owned();
                    let top: Map<_, _> = probs.top.iter().map(|&(id, p)| (spelled(id), json!(p))).collect();
                    json!({ "tokens": [spelled(id)], "token_logprobs": [probs.logprob], "top_logprobs": [top], "text_offset": [0] })
                });
                vec![self.piece(index, &text, one, None)]
            }
            Chunk::Text(text) => vec![self.piece(index, &text, None, None)],
            Chunk::End(reply) => {
                let reply = reply?;
                self.usage.add(&reply.timings);
                vec![self.piece(index, "", None, Some(&reply.finish))]
            }
        })
    }

    fn end(&mut self) -> Vec<Piece> {
        openai::end(&self.head, self.wants_usage.then_some(&self.usage), None)
    }

    fn error(&mut self, error: &ApiError) -> Piece {
        Piece::json(&error.body(Dialect::OpenAi))
    }
}
