//! `/v1/completions`: OpenAI's endpoint for plain prompts.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use super::{
    chat,
    openai::{self, Head, Usage, finish_reason, wants_usage},
    prompt, sampling,
};
use crate::{
    generate::{Chunk, Finish, TokenProbs},
    server::{
        body::Body,
        error::{ApiError, Dialect},
        fields::Fields,
        job::{Jobs, Scores, note_score},
        state::App,
        stream::{self, Framing, Piece, Writer},
        timings::TimingsSoFar,
    },
    text::tokenizer::Tokenizer,
};

/// `POST /v1/completions`.
///
/// # Errors
/// 400: a field or the prompt is wrong, or asks for what qrun does not have. 503: the model loads. Else those of
/// [`Jobs::begin`] and [`Jobs::collect`].
pub async fn completions(State(app): State<Arc<App>>, Body(mut body): Body) -> Result<Response, ApiError> {
    let model = app.model()?;
    let prompts = prompt::take(&mut body)?;
    let fields = Fields(&body);
    for name in ["suffix", "best_of"] {
        if fields.get(name).is_some_and(|value| *value != 1 && *value != "") {
            return Err(ApiError::unsupported(name, "qrun does not have it"));
        }
    }
    let mut ask = sampling::ask(&app, model, fields, &["max_tokens", "max_completion_tokens", "n_predict"])?;
    ask.n = fields.whole("n", 1..=16)?.unwrap_or(1) as usize;
    ask.request.n_probs = fields.whole("logprobs", 0..=20)?.map(|n| n as usize);
    let echo = fields.flag("echo")?.unwrap_or(false);
    let ping = stream::ping(&app, fields)?;
    ask.scores = echo && ask.request.n_probs.is_some();
    let ask = prompt::prepare(&app, prompts, chat::format(fields)?, ask).await?;
    let head = Head::of(&app, fields, "cmpl-", "text_completion");
    let lengths: Vec<usize> = ask.prompts.iter().map(Vec::len).collect();
    let echoed = if echo { ask.prompts.clone() } else { Vec::new() };
    let echo = Echo { prompts: echoed, n: ask.n, scored: ask.request.n_probs.is_some() };
    let jobs = Jobs::begin(&app, ask).await?;
    if fields.flag("stream")?.unwrap_or(false) {
        let wants_usage = wants_usage(fields)?;
        let usage = Usage::of_prompts(&lengths);
        let states = (0..jobs.count()).map(|_| Running::default()).collect();
        let so_far = TimingsSoFar::wanted(fields, jobs.count())?;
        let writer = Stream { app: app.clone(), head, usage, wants_usage, echo, states, so_far };
        return Ok(stream::respond(&app, jobs, writer, Framing::ServerSentEvents, ping));
    }
    let outcomes = jobs.collect().await?;
    let mut usage = Usage::of_prompts(&lengths);
    let tokenizer = model.engine.tokenizer();
    let choices = outcomes.iter().enumerate().map(|(index, outcome)| {
        usage.add(&outcome.reply.timings, index.is_multiple_of(echo.n));
        let prompt = echo.prompt(index);
        let mut tokens = scored(prompt, &outcome.scores);
        tokens.extend(outcome.tokens.iter().filter_map(|token| Some((token.id, Some(token.probs.as_ref()?)))));
        json!({
            "text": said(tokenizer, prompt) + &outcome.reply.text, "index": index,
            "logprobs": echo.scored.then(|| logprobs(tokenizer, &tokens, 0)),
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

/// The prompts, where the answers begin with them.
struct Echo {
    prompts: Vec<Vec<u32>>,
    /// Answers per prompt.
    n: usize,
    /// Whether tokens come with their probabilities.
    scored: bool,
}

impl Echo {
    /// What answer `index` begins with.
    fn prompt(&self, index: usize) -> &[u32] {
        self.prompts.get(index / self.n).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The text of tokens; those that control have none.
fn said(tokenizer: &Tokenizer, tokens: &[u32]) -> String {
    let bytes: Vec<u8> = tokens.iter().flat_map(|&id| tokenizer.piece(id).into_owned()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A token and how probable it was; the first one of a prompt has nothing before it.
type Scored<'a> = (u32, Option<&'a TokenProbs>);

/// The tokens of a prompt with their scores.
fn scored<'a>(prompt: &[u32], scores: &'a Scores) -> Vec<Scored<'a>> {
    prompt.iter().enumerate().map(|(pos, &id)| (id, scores.get(pos).and_then(Option::as_ref))).collect()
}

/// `logprobs` of a plain completion: of tokens whose text begins at character `offset`.
fn logprobs(tokenizer: &Tokenizer, tokens: &[Scored], mut offset: usize) -> Value {
    let text = |id: u32| String::from_utf8_lossy(&tokenizer.piece(id)).into_owned();
    let top = |probs: &TokenProbs| probs.top.iter().map(|&(id, p)| (text(id), json!(p))).collect::<Map<_, _>>();
    let offsets = tokens.iter().map(|(id, _)| {
        let at = offset;
        offset += characters(tokenizer, *id);
        at
    });
    json!({
        "text_offset": offsets.collect::<Vec<_>>(),
        "tokens": tokens.iter().map(|(id, _)| text(*id)).collect::<Vec<_>>(),
        "token_logprobs": tokens.iter().map(|(_, probs)| probs.map(|probs| probs.logprob)).collect::<Vec<_>>(),
        "top_logprobs": tokens.iter().map(|(_, probs)| probs.map(top)).collect::<Vec<_>>(),
    })
}

/// Characters that begin in a token: one of several tokens counts with the first.
fn characters(tokenizer: &Tokenizer, id: u32) -> usize {
    tokenizer.piece(id).iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

/// An answer as far as it has come.
#[derive(Default)]
struct Running {
    /// Of the prompt.
    scores: Scores,
    /// Whether what it begins with is written.
    begun: bool,
    /// Characters of its tokens so far.
    offset: usize,
}

/// The answer as it comes.
struct Stream {
    app: Arc<App>,
    head: Head,
    usage: Usage,
    wants_usage: bool,
    echo: Echo,
    states: Vec<Running>,
    /// Of each answer, where they are told with its tokens.
    so_far: Vec<TimingsSoFar>,
}

impl Stream {
    fn piece(&self, index: usize, text: &str, logprobs: Option<Value>, finish: Option<&Finish>) -> Piece {
        let mut chunk = self.head.object();
        let choice = json!({
            "text": text, "index": index, "logprobs": logprobs, "finish_reason": finish.map(finish_reason),
        });
        chunk.insert("choices".into(), json!([choice]));
        let timings = self.so_far.get(index).and_then(TimingsSoFar::timings);
        chunk.extend(timings.map(|timings| ("timings".to_owned(), json!(timings))));
        Piece::json(&Value::Object(chunk))
    }

    /// The prompt, before the first piece of an answer.
    fn begin(&mut self, index: usize) -> Result<Vec<Piece>, ApiError> {
        let prompt = self.echo.prompt(index);
        if std::mem::replace(&mut self.states[index].begun, true) || prompt.is_empty() {
            return Ok(Vec::new());
        }
        let app = self.app.clone();
        let tokenizer = app.model()?.engine.tokenizer();
        let scores = std::mem::take(&mut self.states[index].scores);
        let told = self.echo.scored.then(|| logprobs(tokenizer, &scored(prompt, &scores), 0));
        let piece = self.piece(index, &said(tokenizer, prompt), told, None);
        self.states[index].offset = prompt.iter().map(|&id| characters(tokenizer, id)).sum();
        Ok(vec![piece])
    }
}

impl Writer for Stream {
    fn chunk(&mut self, index: usize, chunk: Chunk) -> Result<Vec<Piece>, ApiError> {
        self.so_far.get_mut(index).into_iter().for_each(|so_far| so_far.note(&chunk));
        match chunk {
            Chunk::Prompt { .. } => return Ok(Vec::new()),
            Chunk::Score { pos, probs } => {
                note_score(&mut self.states[index].scores, pos, probs);
                return Ok(Vec::new());
            }
            _ => {}
        }
        let mut pieces = self.begin(index)?;
        match chunk {
            Chunk::Prompt { .. } | Chunk::Score { .. } | Chunk::Logits { .. } => {}
            Chunk::Token { text, probs: None, .. } if text.is_empty() => {}
            Chunk::Token { id, text, probs } => {
                let app = self.app.clone();
                let tokenizer = app.model()?.engine.tokenizer();
                let next = self.states[index].offset + characters(tokenizer, id);
                let offset = std::mem::replace(&mut self.states[index].offset, next);
                let one = probs.map(|probs| logprobs(tokenizer, &[(id, Some(&probs))], offset));
                pieces.push(self.piece(index, &text, one, None));
            }
            Chunk::Text(text) => pieces.push(self.piece(index, &text, None, None)),
            Chunk::End(reply) => {
                let reply = reply?;
                self.usage.add(&reply.timings, index.is_multiple_of(self.echo.n));
                pieces.push(self.piece(index, "", None, Some(&reply.finish)));
            }
        }
        Ok(pieces)
    }

    fn end(&mut self) -> Vec<Piece> {
        openai::end(&self.head, self.wants_usage.then_some(&self.usage), None)
    }

    fn error(&mut self, error: &ApiError) -> Piece {
        Piece::json(&error.body(Dialect::OpenAi))
    }
}
