//! `/completion`: llama-server's own endpoint.

use std::{sync::Arc, time::Instant};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use super::{chat, prompt, sampling, sampling::Stop};
use crate::{
    engine::Engine,
    generate::{Chunk, Finish, Reply, Timings, TokenProbs},
    sampler::{SamplerParams, sampler_names},
    server::{
        body::Body,
        error::{ApiError, Dialect},
        fields::{Fields, brief},
        job::{Ask, Jobs, TokenText},
        state::App,
        stream::{self, Framing, Piece, Writer},
        timings::TimingsSoFar,
    },
    text::tokenizer::Tokenizer,
};

/// Names of the field for the most tokens of an answer.
pub const MOST: &[&str] = &["n_predict", "max_tokens", "max_completion_tokens"];

/// `POST /completion`.
///
/// # Errors
/// 400: a field, the prompt or the grammar is wrong. 503: the model loads. Else those of [`Jobs::begin`] and
/// [`Jobs::collect`].
pub async fn completion(State(app): State<Arc<App>>, Body(mut body): Body) -> Result<Response, ApiError> {
    let model = app.model()?;
    let prompts = prompt::take(&mut body)?;
    let fields = Fields(&body);
    let mut ask = sampling::ask(&app, model, fields, MOST)?;
    ask.n = fields.whole("n_cmpl", 1..=16)?.or(fields.whole("n", 1..=16)?).unwrap_or(1) as usize;
    let n_probs = fields.whole("n_probs", 0..=1 << 20)?.unwrap_or(0);
    ask.request.n_probs = (n_probs > 0).then_some(n_probs as usize);
    ask.request.post_sampling = fields.flag("post_sampling_probs")?.unwrap_or(false);
    let settings = settings(&ask, fields)?;
    let return_tokens = fields.flag("return_tokens")?.unwrap_or(false);
    let shown = response_fields(fields)?;
    let progress = fields.flag("return_progress")?.unwrap_or(false);
    let streamed = fields.flag("stream")?.unwrap_or(false);
    let ping = stream::ping(&app, fields)?;
    let ask = prompt::prepare(&app, prompts, chat::format(fields)?, ask).await?;
    let answers = Answers {
        app: app.clone(),
        post_sampling: ask.request.post_sampling,
        settings,
        prompts: ask.prompts.clone(),
        n: ask.n,
        return_tokens,
    };
    let jobs = Jobs::begin(&app, ask).await?;
    if streamed {
        let states = (0..jobs.count()).map(|_| Running::default()).collect();
        let so_far = TimingsSoFar::wanted(fields, jobs.count())?;
        let writer = Stream { answers, states, so_far, progress, started: Instant::now() };
        return Ok(stream::respond(&app, jobs, writer, Framing::ServerSentEvents, ping));
    }
    let outcomes = jobs.collect().await?;
    let many = outcomes.len() > 1;
    let whole = outcomes.into_iter().enumerate();
    let mut answers: Vec<Value> = whole
        .map(|(i, outcome)| pick(answers.last(i, &outcome.reply, &outcome.tokens, &outcome.reply.text), &shown))
        .collect();
    let body = if many { Value::Array(answers) } else { answers.pop().unwrap_or_default() };
    Ok(Json(body).into_response())
}

/// What all answers of a request share.
struct Answers {
    app: Arc<App>,
    settings: Value,
    prompts: Vec<Vec<u32>>,
    n: usize,
    return_tokens: bool,
    post_sampling: bool,
}

impl Answers {
    /// The last (or only) object of an answer.
    fn last(&self, index: usize, reply: &Reply, tokens: &[TokenText], content: &str) -> Value {
        let Ok(model) = self.app.model() else { return Value::Null };
        let evaluated = reply.timings.cache_n + reply.timings.prompt_n;
        let prompt = self.prompts.get(index / self.n).map(|tokens| prompt::written(model.engine.tokenizer(), tokens));
        let stop = Stop::of(&reply.finish);
        let mut object = json!({
            "index": index, "content": content,
            "tokens": if self.return_tokens { reply.tokens.clone() } else { Vec::new() },
            "id_slot": reply.slot, "stop": true, "model": self.app.model_name(),
            "tokens_predicted": reply.timings.predicted_n, "tokens_evaluated": evaluated,
            "generation_settings": self.settings, "prompt": prompt,
            "has_new_line": reply.text.contains('\n'), "truncated": matches!(reply.finish, Finish::Context),
            "stop_type": stop.kind, "stopping_word": stop.word, "tokens_cached": evaluated + reply.timings.predicted_n,
            "timings": reply.timings,
        });
        if tokens.iter().any(|token| token.probs.is_some()) {
            let one = |token: &TokenText| Some(self.probs(model.engine.tokenizer(), token.id, token.probs.as_ref()?));
            object["completion_probabilities"] = tokens.iter().filter_map(one).collect();
        }
        object
    }

    /// A token with its probabilities: logarithms of the model's, or the sampler's own.
    fn probs(&self, tokenizer: &Tokenizer, id: u32, probs: &TokenProbs) -> Value {
        if !self.post_sampling {
            return chat::token_probs(tokenizer, id, probs);
        }
        let one = |id: u32, logprob: f32| {
            let bytes = tokenizer.piece(id);
            let prob = f64::from(logprob).exp();
            json!({ "id": id, "token": String::from_utf8_lossy(&bytes), "bytes": &bytes[..], "prob": prob })
        };
        let mut token = one(id, probs.logprob);
        token["top_probs"] = probs.top.iter().map(|&(id, p)| one(id, p)).collect();
        token
    }
}

/// How an answer is generated, in llama-server's names.
fn settings(ask: &Ask, fields: Fields) -> Result<Value, ApiError> {
    let request = &ask.request;
    let mut settings = sampling_settings(&ask.params);
    let most = request.max_tokens.map_or(-1, |n| n as i64);
    settings.insert("n_predict".into(), most.into());
    settings.insert("max_tokens".into(), most.into());
    settings.insert("stop".into(), json!(request.stops));
    // To the sampler it is a bias like any other.
    settings.insert("ignore_eos".into(), fields.flag("ignore_eos")?.unwrap_or(false).into());
    settings.extend(fields.get("samplers").map(|names| ("samplers".to_owned(), names.clone())));
    settings.insert("n_probs".into(), request.n_probs.unwrap_or(0).into());
    settings.insert("grammar".into(), fields.text("grammar")?.unwrap_or_default().into());
    let each = fields.flag("timings_per_token")?.unwrap_or(false);
    settings.insert("timings_per_token".into(), each.into());
    settings.insert("post_sampling_probs".into(), request.post_sampling.into());
    Ok(Value::Object(settings))
}

/// The parameters of the sampler in llama-server's names; those that qrun does not have at their neutral values.
pub fn sampling_settings(params: &SamplerParams) -> Map<String, Value> {
    let bias: Vec<Value> =
        params.logit_bias.iter().map(|&(token, bias)| json!({ "token": token, "bias": bias })).collect();
    let settings = json!({
        "seed": params.seed, "temperature": params.temperature, "dynatemp_range": 0.0, "dynatemp_exponent": 1.0,
        "top_k": params.top_k, "top_p": params.top_p, "min_p": params.min_p, "top_n_sigma": params.top_n_sigma,
        "xtc_probability": 0.0, "xtc_threshold": 0.1, "typical_p": params.typical_p,
        "repeat_last_n": params.repeat_last_n, "repeat_penalty": params.repeat_penalty,
        "presence_penalty": params.presence_penalty, "frequency_penalty": params.frequency_penalty,
        "dry_multiplier": 0.0, "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": -1,
        "mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1, "adaptive_target": -1.0, "adaptive_decay": 0.9,
        "logit_bias": bias, "samplers": sampler_names(), "lora": [],
    });
    settings.as_object().cloned().unwrap_or_default()
}

/// `response_fields`: paths of fields that are wanted, and nothing else.
fn response_fields(fields: Fields) -> Result<Vec<String>, ApiError> {
    let wrong = |item: &Value| {
        ApiError::field("response_fields", "names of fields, as content or timings/prompt_n", brief(item))
    };
    let list = fields.list("response_fields")?.unwrap_or_default();
    list.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(item))).collect()
}

fn pick(answer: Value, wanted: &[String]) -> Value {
    if wanted.is_empty() {
        return answer;
    }
    let found = |path: &String| Some((path.clone(), answer.pointer(&format!("/{path}"))?.clone()));
    Value::Object(wanted.iter().filter_map(found).collect())
}

/// An answer as far as it has come.
#[derive(Default)]
struct Running {
    predicted: usize,
    evaluated: usize,
    slot: usize,
    cached: Option<usize>,
}

/// The answers as they come.
struct Stream {
    answers: Answers,
    states: Vec<Running>,
    /// Of each answer, where they are told with its tokens.
    so_far: Vec<TimingsSoFar>,
    progress: bool,
    started: Instant,
}

impl Stream {
    fn part(&self, index: usize, text: &str, tokens: &[u32], probs: Option<(&Engine, &TokenProbs)>) -> Value {
        let state = &self.states[index];
        let mut object = json!({
            "index": index, "content": text, "tokens": tokens, "stop": false, "id_slot": state.slot,
            "tokens_predicted": state.predicted, "tokens_evaluated": state.evaluated,
        });
        if let (Some((engine, probs)), Some(&id)) = (probs, tokens.first()) {
            object["completion_probabilities"] = json!([self.answers.probs(engine.tokenizer(), id, probs)]);
        }
        if let Some(timings) = self.so_far.get(index).and_then(TimingsSoFar::timings) {
            object["timings"] = json!(timings);
        }
        object
    }
}

impl Writer for Stream {
    fn chunk(&mut self, index: usize, chunk: Chunk) -> Result<Vec<Piece>, ApiError> {
        self.so_far.get_mut(index).into_iter().for_each(|so_far| so_far.note(&chunk));
        Ok(match chunk {
            Chunk::Prompt { done, total, slot } => {
                let state = &mut self.states[index];
                (state.evaluated, state.slot) = (done, slot);
                let cache = *state.cached.get_or_insert(done);
                if !self.progress {
                    return Ok(Vec::new());
                }
                let mut piece = self.part(index, "", &[], None);
                let ms = if done > cache { self.started.elapsed().as_secs_f64() * 1e3 } else { 0.0 };
                let timings = Timings { cache_n: cache, prompt_n: done - cache, prompt_ms: ms, ..Timings::default() };
                piece["prompt_progress"] = json!({ "total": total, "cache": cache, "processed": done, "time_ms": ms });
                piece["timings"] = json!(timings);
                vec![Piece::json(&piece)]
            }
            Chunk::Score { .. } | Chunk::Logits { .. } => Vec::new(),
            Chunk::Token { id, text, probs } => {
                self.states[index].predicted += 1;
                let app = self.answers.app.clone();
                let model = app.model()?;
                vec![Piece::json(&self.part(index, &text, &[id], probs.as_ref().map(|probs| (&*model.engine, probs))))]
            }
            Chunk::Text(text) => vec![Piece::json(&self.part(index, &text, &[], None))],
            Chunk::End(reply) => vec![Piece::json(&self.answers.last(index, &reply?, &[], ""))],
        })
    }

    fn error(&mut self, error: &ApiError) -> Piece {
        Piece::json(&error.body(Dialect::OpenAi))
    }
}
