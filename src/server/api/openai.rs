//! What OpenAI's endpoints have in common: the head of an answer, why it ended, its tokens.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::{
    bench::machine::{build_number, commit},
    generate::{Finish, Timings},
    server::{error::ApiError, fields::Fields, state::App, stream::Piece},
};

/// What stands at the head of each of OpenAI's answers.
#[derive(Debug, Clone)]
pub struct Head {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
}

impl Head {
    /// A new answer: `prefix` begins its id.
    pub fn of(app: &App, fields: Fields, prefix: &str, object: &'static str) -> Self {
        Self { id: app.id(prefix), object, created: now(), model: model_name(app, fields) }
    }

    /// The fields, for the rest to be added to.
    pub fn object(&self) -> Map<String, Value> {
        let head = json!({
            "id": self.id, "object": self.object, "created": self.created, "model": self.model,
            "system_fingerprint": fingerprint(),
        });
        head.as_object().cloned().unwrap_or_default()
    }
}

/// The program that answers, as llama-server tells it: `b`, the number of its build, `-` and the commit; of a program that
/// was built without a repository the version.
fn fingerprint() -> String {
    let commit = Some(commit()).filter(|commit| *commit != "unknown");
    format!("b{}-{}", build_number(), commit.unwrap_or(env!("CARGO_PKG_VERSION")))
}

/// The name of the model in an answer: the one that was asked for.
pub fn model_name(app: &App, fields: Fields) -> String {
    let asked = fields.text("model").ok().flatten().filter(|name| !name.is_empty());
    asked.map_or_else(|| app.model_name(), str::to_owned)
}

/// Seconds since the epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_secs())
}

/// OpenAI's `finish_reason`.
pub fn finish_reason(finish: &Finish) -> &'static str {
    match finish {
        Finish::Limit | Finish::Context | Finish::Interrupted => "length",
        Finish::Eos | Finish::Stop(_) => "stop",
    }
}

/// Tokens of a request's prompts and answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    prompt: usize,
    cached: usize,
    completion: usize,
}

impl Usage {
    /// Of prompts of so many tokens.
    pub fn of_prompts(prompts: &[usize]) -> Self {
        Self { prompt: prompts.iter().sum(), cached: 0, completion: 0 }
    }
    /// One more answer. What the cache had of its prompt counts where it is the `first` one to that: the others find there
    /// what was computed for this request itself.
    pub fn add(&mut self, timings: &Timings, first: bool) {
        self.completion += timings.predicted_n;
        self.cached += if first { timings.cache_n } else { 0 };
    }
    pub fn json(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt, "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": { "cached_tokens": self.cached.min(self.prompt) },
        })
    }
}

/// Whether a stream ends with its usage.
///
/// # Errors
/// 400: `stream_options` is no object, or its `include_usage` no flag.
pub fn wants_usage(fields: Fields) -> Result<bool, ApiError> {
    match fields.object("stream_options")? {
        Some(options) => Ok(options.flag("include_usage")?.unwrap_or(false)),
        None => Ok(false),
    }
}

/// How a stream ends: with its usage, where that is wanted, and the mark of the end.
pub fn end(head: &Head, usage: Option<&Usage>, timings: Option<Timings>) -> Vec<Piece> {
    let told = usage.map(|usage| {
        let mut chunk = head.object();
        chunk.insert("choices".into(), json!([]));
        chunk.insert("usage".into(), usage.json());
        chunk.extend(timings.map(|timings| ("timings".to_owned(), json!(timings))));
        Piece::json(&Value::Object(chunk))
    });
    told.into_iter().chain([Piece { event: None, data: "[DONE]".into() }]).collect()
}
